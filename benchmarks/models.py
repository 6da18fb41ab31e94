"""Compare the embedded default with and without a language model: eleven simulated models and any released one.

    python benchmarks/models.py [--quick] [--alone] [--model NAME] [--only KIND …] [--pipelines NAME …] [--measured]
                                [--named NAME] [--json FILE]

Worth is the mean over the questions of 1 for a right answer shown, -1 for a wrong one, 0 for silence: the utility at a
target accuracy of 0.5. `worth_none`: the embedded default. `worth_alone_MODEL`: a plain chain with that model, which
shows whatever it replies unless it declines. `worth_PIPELINE_MODEL` and `wrong_shown_PIPELINE_MODEL`: ours with it.
`dominance_gap`: the least over models of composed - max(none, alone); a promise of the project is that it is -.02 or
more. Questions are SQuAD 2.0's (half of them without an answer) and Natural Questions', passages BM25's best eight.

`--measured`: each model's replies to the built-in questions are measured first (`selfreflect calibrate replies`); the
figures are then named `worth_measured_PIPELINE_MODEL`, beside those without. `--named gpt-4o`: as if each were large by
its name, and so believed to reply like a strong one until its replies show otherwise.

Simulated models know the right answers and reply as their kind does; they see only the prompt. `--model smollm2` and
paths run a real one, over a part of the questions (`--real N`, 20 by default), in the same passages.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import command_line, write_figures
from benchmarks.changed_claims import change_name, change_number
from benchmarks.reader.data import read_lines, read_passages
from shared_core.calibration.stack import AnyCalibration
from shared_core.evaluation.baselines import Plain
from shared_core.evaluation.dataset import read_questions
from shared_core.evaluation.fitting import built_in_questions, fit
from shared_core.evaluation.fitting.replies import BUILT_IN_QUESTIONS
from shared_core.evaluation.metrics.qa import contains_answer
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.base import LanguageModel
from shared_core.lm.scripted import ScriptedLM
from shared_core.reading.extractive import ExtractiveReader
from shared_core.retrieval import BM25Retriever
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Passage

TOP_K = 8
EACH, QUICK, REAL = 100, 30, 20
"""Questions of each of the two sets for simulated models; the same with ``--quick``; for a released model."""
PIPELINES = ("composed", "reclaim", "self_rag", "seakr", "research")


@dataclass(frozen=True, slots=True)
class Case:
    """A question, its right answers (none: unanswerable) and the passages retrieved for it."""

    question: str
    answers: tuple[str, ...]
    passages: tuple[Passage, ...]


class Retrieved:
    """A retriever that returns what was retrieved before."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._by_question = {c.question: c.passages for c in cases}
        self._all = BM25Retriever({p.id: p for c in cases for p in c.passages}.values())

    def retrieve(self, query: str, k: int = 5, where: Any = None) -> list[Passage]:
        """The passages of a known question; for other queries (of ReSearch, FLARE) BM25's."""
        found = self._by_question.get(query)
        return list(found[:k]) if found is not None else self._all.retrieve(query, k)


# --- questions -----------------------------------------------------------------------------------------------------


def squad(data: Path, each: int, part: str) -> list[Case]:
    rows = random.Random(7).sample(list(read_lines(data / f"rag/squad2_{part}.jsonl.gz")), each)
    passages = read_passages(data / "rag/corpus.jsonl.gz")
    found = BM25Retriever(passages.values()).retrieve_many([r["question"] for r in rows], TOP_K)
    return [Case(r["question"], tuple(r["answers"]) if r["answerable"] else (), tuple(p)) for r, p in zip(rows, found)]


def natural_questions(data: Path, each: int, seed: int = 7) -> list[Case]:
    rows = list(read_lines(data / "rag/nq_gold_passage.jsonl.gz"))
    passages = [Passage(f"nq{i}", r["passage"], r.get("title", "")) for i, r in enumerate(rows)]
    chosen = random.Random(seed).sample(range(len(rows)), each)
    found = BM25Retriever(passages).retrieve_many([rows[i]["question"] for i in chosen], TOP_K)
    out = []
    for n, (i, some) in enumerate(zip(chosen, found, strict=True)):
        gone = n % 4 == 0  # a quarter of the questions lose the passage that answers
        kept = tuple(p for p in some if not (gone and p.id == f"nq{i}"))
        out.append(Case(rows[i]["question"], () if gone else tuple(rows[i]["answers"]), kept))
    return out


# --- simulated models ----------------------------------------------------------------------------------------------


class Simulated:
    """A text-only model of one kind: it finds its question in the prompt and replies in the form that is asked for.

    Args:
        kind: of ``KINDS``.
        cases: all questions that it may be asked.
    """

    def __init__(self, kind: str, cases: Sequence[Case]) -> None:
        self.kind = kind
        self.by_question = {c.question: c for c in cases}

    def model(self, name: str | None = None) -> LanguageModel:
        return ScriptedLM(self.reply, name=name or f"simulated-{self.kind}")

    def reply(self, request: Any) -> str:
        prompt = request.prompt.text
        case = next(
            (self.by_question[q] for q in reversed(re.findall(r"Question: (.*)", prompt)) if q in self.by_question),
            None,
        )
        if case is None or "0 to 100" in prompt or re.search(r"yes or no\.?\s*$", prompt):
            return "97" if "0 to 100" in prompt else "yes"
        rng = random.Random(case.question)
        numbered = re.findall(r"^S(\d+): (.*)$", prompt, re.MULTILINE)
        return KINDS[self.kind](Question(case, [text for _, text in numbered], prompt, rng))


@dataclass(frozen=True, slots=True)
class Question:
    """A question as a model sees it: the sentences numbered in the prompt (none in other forms), and chance."""

    case: Case
    numbered: list[str]
    prompt: str
    rng: random.Random

    def cite(self, at: int, claim: str) -> str:
        """A reply in the form asked for: with its reference where sentences are numbered, else plain."""
        return f"<reference>S{at + 1}</reference><claim>{claim}</claim>" if self.numbered else claim

    @property
    def sentences(self) -> list[str]:
        before, _, behind = self.prompt.rpartition("Question: ")
        plain = max(before, behind.partition("\n")[2], key=len)  # Self-RAG's prompts have the passage last
        return self.numbered or [s for s in re.split(r"(?<=[.!?])\s+", plain) if len(s) > 20]

    def gold(self) -> int | None:
        """The first sentence that holds a right answer, and most of the question's words among those."""
        held = [i for i, s in enumerate(self.sentences) if contains_answer(s, self.case.answers)]
        return max(held, key=lambda i: _shared(self.case.question, self.sentences[i]), default=None)

    def nearest(self) -> int:
        return max(range(len(self.sentences)), key=lambda i: _shared(self.case.question, self.sentences[i]), default=0)

    @property
    def short(self) -> str:
        return self.case.answers[0]


def _shared(question: str, sentence: str) -> float:
    asked, held = set(re.findall(r"\w{3,}", question.lower())), set(re.findall(r"\w{3,}", sentence.lower()))
    return len(asked & held) / (len(asked) or 1)


def strong(q: Question) -> str:
    gold = q.gold()
    if gold is None or q.rng.random() > 0.92:
        return _wrong_or_silent(q, 0.9)
    return q.cite(gold, q.sentences[gold]) if q.numbered else q.short


def paraphrasing(q: Question) -> str:
    gold = q.gold()
    if gold is None or q.rng.random() > 0.92:
        return _wrong_or_silent(q, 0.9)
    return q.cite(gold, f"According to the passages, the answer is {q.short}.")


def _wrong_or_silent(q: Question, silent: float) -> str:
    if q.rng.random() < silent or not q.sentences:
        return "NO ANSWER" if q.numbered else "I do not know."
    at = q.rng.randrange(len(q.sentences))
    return q.cite(at, q.sentences[at])


def bold(q: Question) -> str:
    at = q.nearest()
    return q.cite(at, q.sentences[at] if q.sentences else "")


def eager(q: Question) -> str:
    """As a strong model, but half of what the passages do not answer is answered with the nearest sentence."""
    return strong(q) if q.gold() is not None or q.rng.random() < 0.5 else bold(q)


def liar(q: Question) -> str:
    """Quotes the right sentence (or the nearest) and claims another name, else another number."""
    gold = q.gold()
    at = q.nearest() if gold is None else gold
    text = q.sentences[at] if q.sentences else ""
    others = " ".join(q.sentences)
    lie = change_name(text, others, "", q.rng) or change_number(text, "", "", q.rng) or f"Rufus Hathe said that {text}"
    return q.cite(at, lie)


def digit_changer(q: Question) -> str:
    gold = q.gold()
    at = q.nearest() if gold is None else gold
    text = q.sentences[at] if q.sentences else ""
    return q.cite(at, change_number(text, "", "", q.rng) or text)


def unsure(q: Question) -> str:
    return "I don't know."


def echo(q: Question) -> str:
    return q.prompt[-400:]


def placeholder(q: Question) -> str:
    return "<reference>S1</reference><claim>one sentence that follows from them and answers the question</claim>"


def thinker(q: Question) -> str:
    return f"<think>\nThe user asks: {q.case.question} Let me look at the passages. First"


def foreign(q: Question) -> str:
    at = q.nearest()
    return q.cite(at, "Die Antwort steht in den Unterlagen und lautet Friedrich Barbarossa.")


KINDS: Mapping[str, Callable[[Question], str]] = {
    "strong": strong,
    "paraphrasing": paraphrasing,
    "bold": bold,
    "eager": eager,
    "liar": liar,
    "digits": digit_changer,
    "unsure": unsure,
    "echo": echo,
    "placeholder": placeholder,
    "thinker": thinker,
    "foreign": foreign,
}


# --- worth ---------------------------------------------------------------------------------------------------------


def worth(cases: Sequence[Case], answers: Sequence[Answer | Exception]) -> tuple[float, float, float]:
    """(right - wrong shown, right shown, wrong shown), each a question."""
    right = wrong = 0
    for case, answer in zip(cases, answers, strict=True):
        if isinstance(answer, Exception) or answer.abstained:
            continue
        held = contains_answer(answer.text, case.answers)
        right, wrong = right + held, wrong + (not held)
    n = len(cases)
    return (right - wrong) / n, right / n, wrong / n


def ask(engine: SelfReflectEngine, cases: Sequence[Case], label: str) -> list[Answer | Exception]:
    return [_one(engine, case) for case in track(cases, label, transient=True)]


def _one(engine: SelfReflectEngine, case: Case) -> Answer | Exception:
    try:
        return engine.answer(case.question)
    except Exception as error:  # a provider that fails: nothing is shown
        return error


def alone(lm: LanguageModel, cases: Sequence[Case], retriever: Retrieved) -> list[Answer | Exception]:
    """A plain chain over the same passages: what the model replies is shown, unless it declines."""
    engine = SelfReflectEngine(retriever, lm, SelfReflectSettings(top_k=5))
    return Plain(engine).answer_many([c.question for c in cases])


def models_of(
    options: argparse.Namespace, cases: Sequence[Case], named: str | None = None
) -> Iterator[tuple[str, LanguageModel, Sequence[Case]]]:
    built_in = [Case(q.question, tuple(q.answers or ()), ()) for q in read_questions(BUILT_IN_QUESTIONS)]
    for kind in options.only or ([] if options.model else KINDS):
        yield kind, Simulated(kind, [*cases, *built_in]).model(named), cases
    for name in options.model:
        from shared_core.cli.common import build_model
        from shared_core.lab import load_lab_model

        lm = load_lab_model() if name == "lab" else build_model(name, None)
        assert lm is not None
        yield Path(name).stem, lm, random.Random(3).sample(list(cases), min(options.real, len(cases)))


def measure_replies(lm: LanguageModel, settings: SelfReflectSettings, reader: ExtractiveReader) -> AnyCalibration:
    """Ask a model the built-in questions, as `selfreflect calibrate replies` does."""
    with built_in_questions() as (retriever, questions):
        fitted = fit("replies", SelfReflectEngine(retriever, lm, settings, reader=reader), questions)
    Console().print(fitted.summary())
    return fitted.calibration


def run(options: argparse.Namespace) -> dict[str, float]:
    each = options.each or (QUICK if options.quick else EACH)
    cases = [*squad(options.data, each, options.part), *natural_questions(options.data, each)]
    retriever, reader = Retrieved(cases), ExtractiveReader(cache_passages=4096)
    settings = SelfReflectSettings(top_k=5, candidates=TOP_K, deadline=None)
    none = ask(SelfReflectEngine(retriever, settings=settings, reader=reader), cases, "none")
    by_question = dict(zip((c.question for c in cases), none, strict=True))
    out: dict[str, float] = {"worth_none": worth(cases, none)[0], "wrong_shown_none": worth(cases, none)[2]}
    console = Console()
    console.print("none: right - wrong {:.3f} ({:.2f} - {:.2f})".format(*worth(cases, none)))
    table = Table(title=f"Worth a question, {len(cases)} questions", title_justify="left")
    forms = [
        (pipeline, measured) for pipeline in options.pipelines for measured in (False, True)[: options.measured + 1]
    ]
    for column in ("model", "none", "alone", *(f"{p}, measured" if m else p for p, m in forms)):
        table.add_column(column, justify="right" if column != "model" else "left")
    gaps = []
    for name, lm, some in models_of(options, cases, options.named):
        base = worth(some, [by_question[c.question] for c in some])
        plain = worth(some, alone(lm, some, retriever))
        out[f"worth_alone_{name}"] = plain[0]
        row = [name, f"{base[0]:.3f}", f"{plain[0]:.3f}"]
        for pipeline, measured in forms:
            with_model = SelfReflectSettings(top_k=5, candidates=TOP_K, pipeline=pipeline, compete=not options.alone)
            replies = {"replies": measure_replies(lm, with_model, reader)} if measured else None
            engine = SelfReflectEngine(retriever, lm, with_model, reader=reader, calibrations=replies)
            value, right, wrong = worth(some, ask(engine, some, f"{name}, {pipeline}"))
            form = f"measured_{pipeline}" if measured else pipeline
            out |= {f"worth_{form}_{name}": value, f"wrong_shown_{form}_{name}": wrong}
            row.append(f"{value:.3f} ({right:.2f}-{wrong:.2f})")
            if pipeline == "composed":
                gaps.append(value - max(base[0], plain[0]))
        table.add_row(*row)
        console.print("  ".join(row))  # as it comes: a real model takes minutes a question
    if gaps:
        out["dominance_gap"] = min(gaps)
    console.print(table, f"dominance gap: {min(gaps, default=0.0):.3f}")
    return out


def main() -> None:
    parser = command_line(__doc__, quick=f"{QUICK} questions of each set")
    parser.add_argument(
        "--model", action="append", default=[], help="smollm2, a path, a GGUF file, or lab (the lab's model)"
    )
    parser.add_argument("--each", type=int, help="questions of each set, in place of the usual number")
    parser.add_argument("--only", nargs="*", choices=sorted(KINDS), help="simulated models to run")
    parser.add_argument("--pipelines", nargs="*", default=["composed"], choices=PIPELINES)
    parser.add_argument("--alone", action="store_true", help="without the default's own quotes (compete=False)")
    parser.add_argument("--measured", action="store_true", help="also with what the built-in questions show of a model")
    parser.add_argument("--named", help="name of the simulated models, such as gpt-4o, which tells a size")
    parser.add_argument("--part", default="tune", choices=("tune", "test"), help="part of SQuAD 2.0")
    parser.add_argument("--real", type=int, default=REAL, help="questions asked of a released model")
    run_and_write(parser.parse_args(), run)


def run_and_write(options: argparse.Namespace, run: Callable[[argparse.Namespace], dict[str, float]]) -> None:
    """Run a benchmark if the development data are there, and write its figures where `--json` says."""
    if not (options.data / "rag/squad2_tune.jsonl.gz").exists():
        Console().print(f"skipped: there is no {options.data}/rag (--data names the folder; see README)")
        return
    out = run(options)
    write_figures(out, options.json)


if __name__ == "__main__":
    main()
