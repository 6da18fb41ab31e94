"""Measure selfreflect-small on questions that it was not trained on (docs/small.md).

    python benchmarks/small.py [--quick] [--model NAME …] [--parts gold quotes verdicts worth] [--each N] [--json FILE]

`gold`, with the paragraph that a question of SQuAD 2.0 was written for: `gold_f1_answerable`, `declines_right`.
`quotes`, ReClaim on the same: `quote_right` (the quotes hold a right answer), `quote_declines` (nothing is quoted where
nothing answers), `cas` (the critic finds claims supported by their quotes), `verbatim_share`. `verdicts`:
`verdict_accuracy`, [Relevant] where the paragraph answers, and `verdict_auroc`.
`worth`, with retrieved passages, SQuAD 2.0 and Natural
Questions: 1 for a right answer shown, -1 for a wrong one: `worth_none`, `worth_plain`, `worth_composed`. Figures of
further models are named after them.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import command_line, show_figures
from benchmarks.models import TOP_K, Case, Retrieved, alone, ask, natural_questions, run_and_write, squad, worth
from benchmarks.reader.data import read_lines, read_passages
from shared_core.cli.common import build_model
from shared_core.evaluation import contains_answer, f1
from shared_core.evaluation.metrics.confidence import auroc
from shared_core.evaluation.runner import mean_of
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.base import Generate, Generation, LanguageModel, Prompt, SamplingParams
from shared_core.pipelines.self_rag.with_tokens import instruction, lead
from shared_core.reading import CriticSupportScorer, ExtractiveReader
from shared_core.reflection import REFLECTION_TOKENS, RELEVANCE_TOKENS, ReflectionVocabulary
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer

EACH, QUICK = 200, 12
"""Questions of each set; the same with ``--quick``."""
Figures = dict[str, float]


def gold_cases(data: Path, each: int, part: str) -> list[Case]:
    """Questions of SQuAD 2.0 with the paragraph that each was written for."""
    passages = read_passages(data / "rag/corpus.jsonl.gz")
    rows = random.Random(11).sample(list(read_lines(data / f"rag/squad2_{part}.jsonl.gz")), each)
    return [
        Case(r["question"], tuple(r["answers"]) if r["answerable"] else (), (passages[r["passage_id"]],)) for r in rows
    ]


def gold(lm: LanguageModel, cases: Sequence[Case]) -> Figures:
    """One prompt, one answer; 25 at a time, as what is computed together costs the square of its length."""
    parts = [cases[i : i + 25] for i in range(0, len(cases), 25)]
    said = [answer for part in parts for answer in alone(lm, part, Retrieved(part))]
    read = [(case, a) for case, a in zip(cases, said, strict=True) if isinstance(a, Answer)]
    scores = [0.0 if a.abstained else f1(a.text, case.answers) for case, a in read if case.answers]
    return {
        "gold_f1_answerable": mean_of(scores),
        "declines_right": mean_of([a.abstained for case, a in read if not case.answers]),
        "declines_wrong": mean_of([a.abstained for case, a in read if case.answers]),
    }


def quotes(lm: LanguageModel, cases: Sequence[Case]) -> Figures:
    """ReClaim as published: no other signals, and every claim is shown."""
    settings = SelfReflectSettings(
        pipeline="reclaim", top_k=1, target_accuracy=0.01, signals="support_only", deadline=None
    )
    engine = SelfReflectEngine(Retrieved(cases), lm, settings)
    critic = CriticSupportScorer()
    texts = {p.id: p.text for case in cases for p in case.passages}
    right, declined, supported, verbatim = [], [], [], []
    for case, answer in zip(cases, ask(engine, cases, "quotes"), strict=True):
        if isinstance(answer, Exception):
            continue
        said = [(c.text, " ".join(q.quote for q in c.citations)) for c in answer.claims]
        if case.answers:
            right.append(any(contains_answer(quote, case.answers) for _, quote in said))
        else:
            declined.append(not said)
        supported += [(p or 0.0) > 0.5 for p in critic.score([(quote, claim) for claim, quote in said])]
        spans = [s for c in answer.claims for q in c.citations for s in q.spans]
        verbatim += [texts[s.passage_id][s.start : s.end] == s.text for s in spans]
    return {
        "quote_right": mean_of(right),
        "quote_declines": mean_of(declined),
        "cas": mean_of(supported),
        "verbatim_share": mean_of(verbatim),
    }


def verdicts(lm: LanguageModel, cases: Sequence[Case]) -> Figures:
    """Self-RAG's relevance token behind the paragraph; nothing for models without the tokens."""
    encoder = getattr(lm, "encoder", None)
    vocabulary = ReflectionVocabulary.of_lookup([encoder.single_id(t) if encoder else None for t in REFLECTION_TOKENS])
    if vocabulary is None:
        return {}
    params = SamplingParams(max_tokens=1, verdicts=vocabulary.of(RELEVANCE_TOKENS))
    found = lm.generate([Generate(_opened(c), params) for c in cases])
    margins, answered = [], [bool(case.answers) for case in cases]
    for said in found:
        rows = said.samples[0].verdict_logprobs if isinstance(said, Generation) else None
        margins.append(float(rows[0][1] - rows[0][0]) if rows is not None else float("nan"))
    right = [(m > 0) == a and not math.isnan(m) for m, a in zip(margins, answered, strict=True)]
    return {"verdict_accuracy": mean_of(right), "verdict_auroc": auroc(margins, answered)}


def _opened(case: Case) -> Prompt:
    return instruction(case.question) + lead("retrieve", case.passages[0])


def worths(lm: LanguageModel, cases: Sequence[Case], reader: ExtractiveReader) -> Figures:
    """The plain chain and the composed pipeline over the same passages."""
    retriever = Retrieved(cases)
    settings = SelfReflectSettings(top_k=5, candidates=TOP_K, deadline=None)
    began = time.process_time()
    answers = ask(SelfReflectEngine(retriever, lm, settings, reader=reader), cases, "composed")
    seconds = (time.process_time() - began) / len(cases)
    plain = alone(lm, cases, retriever)
    found = {"worth_plain": plain, "worth_composed": answers}
    return {
        **{name: worth(cases, some)[0] for name, some in found.items()},
        **{name.replace("worth", "wrong_shown"): worth(cases, some)[2] for name, some in found.items()},
        "cpu_seconds_composed": seconds,
    }


def run(options: argparse.Namespace) -> Figures:
    each = options.each or (QUICK if options.quick else EACH)
    alike = gold_cases(options.data, each, options.part)
    cases = [*squad(options.data, each, options.part), *natural_questions(options.data, each)]
    reader = ExtractiveReader(cache_passages=4096)
    out: Figures = {"questions": float(each)}
    if "worth" in options.parts:
        settings = SelfReflectSettings(top_k=5, candidates=TOP_K, deadline=None)
        nothing = worth(
            cases, ask(SelfReflectEngine(Retrieved(cases), settings=settings, reader=reader), cases, "none")
        )
        out |= {"worth_none": nothing[0], "wrong_shown_none": nothing[2]}
    parts: dict[str, Callable[[LanguageModel], Figures]] = {
        "gold": lambda lm: gold(lm, alike),
        "quotes": lambda lm: quotes(lm, alike),
        "verdicts": lambda lm: verdicts(lm, alike),
        "worth": lambda lm: worths(lm, cases, reader),
    }
    for name in options.model or ["small"]:
        lm = build_model(name, None)
        assert lm is not None
        ending = "" if name == "small" else f"_{Path(name).stem}"
        for part in options.parts:
            found = {f"{figure}{ending}": value for figure, value in parts[part](lm).items()}
            Console().print(f"{name}, {part}: {found}")  # as it comes: a part takes minutes
            out |= found
    show_figures(out, f"selfreflect-small, {each} questions of each set")
    return out


def main() -> None:
    parser = command_line(__doc__, quick=f"{QUICK} questions of each set")
    parser.add_argument("--each", type=int, help="questions of each set, in place of the usual number")
    parser.add_argument("--model", action="append", default=[], help="small (default), smollm2, a path; repeatable")
    names = ("gold", "quotes", "verdicts", "worth")
    parser.add_argument("--parts", nargs="*", default=list(names), choices=names)
    parser.add_argument("--part", default="test", choices=("tune", "test"), help="part of SQuAD 2.0")
    run_and_write(parser.parse_args(), run)


if __name__ == "__main__":
    main()
