"""Self-RAG's two knobs at inference (Asai et al., Figure 3): their effect, without any training.

    python benchmarks/self_rag_knobs.py [--quick] [--json FILE] [--plots DIR] [--count N] [--model DIR | --simulated]

- the weight of IsSUP against citation precision (share of shown claims that the cited passage supports) and length
  (words of an answer): `WEIGHT_precision`, `WEIGHT_words`;
- the threshold δ against the share of questions that retrieve and the share answered correctly: `DELTA_retrieved`,
  `DELTA_accuracy`. The written answer counts, shown or not: this pipeline does not show answers from memory.

Questions and documents are those of the lab's closed world; the model is the shipped one or that in `--model`. The
weight is varied on questions for all that is known of an entity ("What is known about …?"), δ on questions for one
fact, half of which the model was trained on. A claim is supported if the passage it cites states it, by the world's
ground truth; a sentence that is not understood is unsupported.

With `--simulated` a program replaces the model's weights and nothing else: the search is the product's. The program
knows half of the answers, and its decision to retrieve reflects that with noise. From a passage it writes a short
sentence that is mostly supported, or a long one that is rated higher and is mostly not; its verdict IsSUP reflects
support with noise. Those figures show the effect of the knobs on such a model, not on a real one.
"""

from __future__ import annotations

import hashlib
import math
import random
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import command_line, write_figures
from benchmarks.lab.measure.quoting import supports
from benchmarks.lab.measure.setting import Lab
from benchmarks.lab.rows.self_rag import tell_about
from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.evaluation.plots import figure_of
from shared_core.lab import World, load_lab_model
from shared_core.lab.names import Dice
from shared_core.lab.setup import is_right
from shared_core.lm.base import Capabilities, Generate, LanguageModel, Sample
from shared_core.lm.scripted import ScriptedLM
from shared_core.reflection import REFLECTION_TOKENS, RELEASED_IDS, TOKEN_GROUPS, VERDICT_TOKENS
from shared_core.retrieval.base import Retriever
from shared_core.types import Answer, Claim, Passage, Span

WEIGHTS = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0)
DELTAS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
PASSAGES = 4
_CONTROL = re.compile("(" + "|".join(map(re.escape, REFLECTION_TOKENS)) + ")")


@dataclass(frozen=True)
class Bench:
    """The model and questions on which the knobs are varied.

    Attributes:
        lm, retriever: parts of the engine.
        tasks: questions whose answers take several sentences, for the weight of IsSUP.
        questions: questions for δ.
        supported: whether the passage that a claim cites supports it.
        right: (question, answer) → whether the answer is right.
        name: name of the model, for titles.
    """

    lm: LanguageModel
    retriever: Retriever
    tasks: Sequence[str]
    questions: Sequence[str]
    supported: Callable[[Claim], bool]
    right: Callable[[str, Answer], bool]
    name: str

    def answers(self, questions: Sequence[str], **self_rag: Any) -> list[Answer]:
        """Answer the questions; the target accuracy is so low that every written claim is shown."""
        settings = SelfReflectSettings(
            pipeline="self_rag", target_accuracy=0.01, top_k=PASSAGES, signals="support_only", self_rag=self_rag
        )
        engine = SelfReflectEngine(self.retriever, self.lm, settings)
        found = engine.answer_many(list(questions))
        for answer in found:
            if isinstance(answer, Exception):
                raise answer
        return [a for a in found if isinstance(a, Answer)]


# --- a simulated model ---------------------------------------------------------------------------------------------


def _dice(*parts: object) -> random.Random:
    return random.Random(hashlib.sha256(repr(parts).encode()).digest())


class Simulated:
    """A program that writes and judges as described above, with reflection tokens."""

    def __init__(self, people: int) -> None:
        self.questions = [f"What did person {i} do?" for i in range(people)]
        self._words: dict[str, int] = {}
        self.lm = ScriptedLM(
            self._reply,
            capabilities=Capabilities(
                token_logprobs=True, verdict_logprobs=True, next_verdicts=True, stop_tokens=True, token_prompts=True
            ),
            token_ids=RELEASED_IDS,
            name="simulated",
        )

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        person = re.findall(r"person (\d+)", query)[0]
        return [
            Passage(f"{person}-{j}", f"Record {j} of person {person}: deeds.", f"Person {person}") for j in range(k)
        ]

    def _reply(self, request: Generate) -> Sample:
        asked = "".join(p.text for p in request.prompt.parts if p.token_ids is None)
        person = re.findall(r"person (\d+)", asked)[0]
        dice = _dice("person", person)
        knows = dice.random() < 0.5
        wants = 1 / (1 + math.exp(-(dice.gauss(-1.2 if knows else 1.2, 1.0))))
        if request.params.max_tokens == 1:
            return self._sample("[Retrieval]", [{"[Retrieval]": wants, "[No Retrieval]": 1 - wants}], 0.9)
        records = re.findall(r"Record (\d+) of person \d+: deeds", asked)
        step = asked.count("### Response:") and sum(p.token_ids is not None for p in request.prompt.parts)
        if not records or asked.rstrip().endswith("[No Retrieval]"):
            outcome = "right" if dice.random() < (0.95 if knows else 0.05) else "wrong"
            return self._sample(f"Person {person} did the {outcome} thing.[Utility:4]", [_rating(4.0)], 0.8)
        return self._from_record(person, records[-1], step)

    def _from_record(self, person: str, record: str, step: int) -> Sample:
        dice = _dice("record", person, record, step)
        rich = dice.random() < 0.5
        true = dice.random() < (0.35 if rich else 0.95)
        outcome = "right" if _dice("found", person).random() < 0.85 else "wrong"
        more = " and many in the whole region still speak of it with pride today" if rich else ""
        kind = "stated" if true else "invented"
        sure = 1 / (1 + math.exp(-(dice.gauss(1.2 if true else -1.2, 1.0))))
        rows = [
            {"[Relevant]": 0.9, "[Irrelevant]": 0.1},
            {
                "[Fully supported]": sure,
                "[Partially supported]": 0.3 * (1 - sure),
                "[No support / Contradictory]": 0.7 * (1 - sure),
            },
        ]
        verdict = max(rows[1], key=lambda t: rows[1][t])
        text = f"[Relevant]Deed {step} of person {person} was the {outcome} {kind} thing{more}.{verdict}"
        if step >= 2:
            return self._sample(f"{text}[Utility:5]", [*rows, _rating(4.8 if rich else 3.6)], 0.9 if rich else 0.8)
        return self._sample(
            f"{text}[Retrieval]", [*rows, {"[Retrieval]": 0.9, "[No Retrieval]": 0.1}], 0.9 if rich else 0.8
        )

    def _sample(self, text: str, rows: Sequence[dict[str, float]], p: float) -> Sample:
        pieces = [
            w
            for piece in _CONTROL.split(text)
            if piece
            for w in ([piece] if _CONTROL.fullmatch(piece) else re.findall(r"\S+\s*", piece))
        ]
        ids = tuple(RELEASED_IDS.get(w) or self._words.setdefault(w, len(self._words) + 1) for w in pieces)
        columns = np.full((len(ids), len(VERDICT_TOKENS)), -30.0)
        given = iter(rows)
        for at, piece in enumerate(pieces):
            if piece in VERDICT_TOKENS:
                for token, value in next(given).items():
                    columns[at, VERDICT_TOKENS.index(token)] = math.log(max(value, 1e-9))
        return Sample(text, ids, "eos", None, (math.log(p),) * len(ids), tuple(pieces), columns)

    def bench(self) -> Bench:
        """Return a bench whose truth is the program's own."""
        return Bench(
            self.lm,
            self,
            self.questions,
            self.questions,
            lambda claim: "stated" in claim.text,
            lambda q, a: "right" in _written(a),
            "simulated model",
        )


def _written(answer: Answer) -> str:
    return " ".join(c.text for c in answer.claims)


def _rating(mean: float) -> dict[str, float]:
    mass = {t: math.exp(-((i - mean) ** 2)) for i, t in enumerate(TOKEN_GROUPS["utility"], 1)}
    return {t: m / sum(mass.values()) for t, m in mass.items()}


# --- the lab's closed world ----------------------------------------------------------------------------------------


def lab_bench(folder: str | None, count: int) -> Bench:
    """Return a bench with entities and single questions of the lab's test split."""
    lab = Lab(World(0), load_lab_model(folder))
    entities = [e for e in lab.world.entities if e.split == "test" and e.tier != "invented"]
    chosen = Dice("knobs", "entities").sample(entities, count)
    half = count // 2
    asked = [
        *lab.questions(("single",), half, "test", known=True),
        *lab.questions(("single",), count - half, "test", known=False),
    ]
    by_text = {q.text: q for q in asked}

    def supported(claim: Claim) -> bool:
        cited = {s.passage_id: lab.world.passage(s.passage_id) for c in claim.citations for s in c.spans}
        return bool(supports(lab, claim.text, [Span(i, 0, len(p.text), p.text) for i, p in cited.items()]))

    return Bench(
        lab.lm,
        lab.retriever,
        [tell_about(e) for e in chosen],
        list(by_text),
        supported,
        lambda q, a: is_right(_written(a), by_text[q]),
        "the lab's model",
    )


# --- figures -------------------------------------------------------------------------------------------------------


def measure(bench: Bench) -> dict[str, float]:
    """Return all figures, by name."""
    figures: dict[str, float] = {}
    for weight in WEIGHTS:
        answers = bench.answers(bench.tasks, weight_support=weight, retrieval_threshold=0.0, hard_constraint=False)
        kept = [c for a in answers for c in a.kept_claims]
        judged = [bench.supported(c) for c in kept if c.citations]
        figures[f"{weight:g}_precision"] = sum(judged) / len(judged) if judged else math.nan
        figures[f"{weight:g}_words"] = sum(len(c.text.split()) for c in kept) / len(answers)
    for delta in DELTAS:
        answers = bench.answers(bench.questions, retrieval_threshold=delta)
        figures[f"{delta:g}_retrieved"] = sum(bool(a.passages) for a in answers) / len(answers)
        right = [bench.right(q, a) for q, a in zip(bench.questions, answers)]
        figures[f"{delta:g}_accuracy"] = sum(right) / len(right)
    return figures


def draw(figures: dict[str, float], name: str, folder: Path) -> list[Path]:
    """Draw both plots as PNG."""
    paths = []
    for knob, values, left, right, label in (
        ("weight", WEIGHTS, "precision", "words", "weight of IsSUP"),
        ("delta", DELTAS, "retrieved", "accuracy", "threshold δ"),
    ):
        paths.append(folder / f"self_rag_{knob}.png")
        with figure_of(paths[-1], name, size=(5, 3.4)) as axes:
            axes.plot(values, [figures[f"{v:g}_{left}"] for v in values], "o-", color="#1f5fa8")
            axes.set(xlabel=label, ylim=(0, 1.03))
            axes.set_ylabel(
                {"precision": "citation precision", "retrieved": "questions that retrieve"}[left], color="#1f5fa8"
            )
            other = axes.twinx()
            other.plot(values, [figures[f"{v:g}_{right}"] for v in values], "s--", color="#b4551d")
            other.set_ylabel({"words": "words of an answer", "accuracy": "accuracy"}[right], color="#b4551d")
            other.set_ylim(0, 1.15 * max(figures[f"{v:g}_words"] for v in values) if right == "words" else 1.03)
    return paths


def main() -> None:
    parser = command_line(__doc__, quick="fewer questions", data=False)
    parser.add_argument("--count", type=int, metavar="N", help="number of questions for each knob")
    parser.add_argument("--plots", metavar="DIR", default="self_rag_plots", help="folder for the plots")
    parser.add_argument("--model", metavar="DIR", help="checkpoint of the lab; by default the shipped one")
    parser.add_argument("--simulated", action="store_true", help="use the simulated model")
    options = parser.parse_args()
    bench = (
        Simulated(options.count or (60 if options.quick else 400)).bench()
        if options.simulated
        else lab_bench(options.model, options.count or (20 if options.quick else 100))
    )
    figures = measure(bench)
    table = Table("knob", "", "", title=f"{bench.name}, {len(bench.questions)} questions")
    for weight in WEIGHTS:
        table.add_row(
            f"w_sup {weight:g}",
            f"precision {figures[f'{weight:g}_precision']:.3f}",
            f"{figures[f'{weight:g}_words']:.1f} words",
        )
    for delta in DELTAS:
        table.add_row(
            f"δ {delta:g}",
            f"retrieved {figures[f'{delta:g}_retrieved']:.3f}",
            f"accuracy {figures[f'{delta:g}_accuracy']:.3f}",
        )
    Console().print(table)
    for path in draw(figures, bench.name, Path(options.plots)):
        Console().print(f"written: {path}")
    write_figures(figures, options.json)


if __name__ == "__main__":
    main()
