"""Measure selfreflect-small on questions that it was not trained on (docs/small.md).

    python benchmarks/small.py [--quick] [--model NAME …] [--parts NAME …] [--each N] [--json FILE]

`gold`, with the paragraph that a question of SQuAD 2.0 was written for: `gold_f1_answerable`, `declines_right`.
`quotes`, ReClaim on the same: `quote_right` (the quotes hold a right answer), `quote_declines` (nothing is quoted where
nothing answers), `cas` (the critic finds claims supported by their quotes), `verbatim_share`. `verdicts`:
`verdict_accuracy`, [Relevant] where the paragraph answers, and `verdict_auroc`; `retrieved_auroc`, the same between a
retrieved passage with the answer and one without; `support_auroc`, [Fully supported] between a right answer and the
answer to another question on the paragraph.
`drafts`: CPU time of writing
claims about quoted sentences (greedy, at most 64 tokens), without prompt lookup over with it (`claim_speedup`), and the
share of claims that come out the same.
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
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import command_line, show_figures
from benchmarks.models import TOP_K, Case, Retrieved, alone, ask, natural_questions, run_and_write, squad, worth
from benchmarks.reader.data import read_lines, read_passages
from shared_core.citation import split_sentences
from shared_core.cli.common import build_model
from shared_core.evaluation import contains_answer, f1
from shared_core.evaluation.metrics.confidence import auroc
from shared_core.evaluation.runner import mean_of
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.base import Generate, Generation, LanguageModel, Prompt, SamplingParams
from shared_core.pipelines.reclaim.prompts import CLAIM_END, claim_prompt
from shared_core.pipelines.self_rag.with_tokens import instruction, lead
from shared_core.reading import CriticSupportScorer, ExtractiveReader
from shared_core.reflection import REFLECTION_TOKENS, RELEVANCE_TOKENS, ReflectionVocabulary
from shared_core.reflection.tokens import FULLY_SUPPORTED, NO_SUPPORT, RELEVANT
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Passage

EACH, QUICK = 200, 12
"""Questions of each set; the same with ``--quick``."""
Figures = dict[str, float]


def gold_cases(data: Path, each: int | None, part: str) -> list[Case]:
    """So many questions of SQuAD 2.0, or all, with the paragraph that each was written for."""
    passages = read_passages(data / "rag/corpus.jsonl.gz")
    rows = list(read_lines(data / f"rag/squad2_{part}.jsonl.gz"))
    rows = rows if each is None else random.Random(11).sample(rows, each)
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


def verdicts(lm: LanguageModel, cases: Sequence[Case], known: Sequence[Case], found: Sequence[Case]) -> Figures:
    """Self-RAG's tokens behind a passage and behind an answer; nothing for models without the tokens.

    Args:
        cases: with the paragraph that each was written for.
        known: all such, whose answers are wrong ones to other questions on their paragraph.
        found: with passages that were retrieved.
    """
    encoder = getattr(lm, "encoder", None)
    vocabulary = ReflectionVocabulary.of_lookup([encoder.single_id(t) if encoder else None for t in REFLECTION_TOKENS])
    if vocabulary is None:
        return {}

    def margins(prompts: Sequence[Prompt], tokens: Sequence[str]) -> list[float]:
        """Log-odds of the second of two tokens."""
        params = SamplingParams(max_tokens=1, verdicts=vocabulary.of(tokens))
        parts = [prompts[i : i + 25] for i in range(0, len(prompts), 25)]
        said = [one for part in parts for one in lm.generate([Generate(prompt, params) for prompt in part])]
        rows = [one.samples[0].verdict_logprobs if isinstance(one, Generation) else None for one in said]
        return [math.nan if row is None else float(row[0][1] - row[0][0]) for row in rows]

    def opened(case: Case, passage: Passage) -> Prompt:
        return instruction(case.question) + lead("retrieve", passage)

    answered = [bool(case.answers) for case in cases]
    relevant = margins([opened(case, case.passages[0]) for case in cases], RELEVANCE_TOKENS)
    right = [(m > 0) == a and not math.isnan(m) for m, a in zip(relevant, answered, strict=True)]
    retrieved = [
        (opened(case, passage), holds)
        for case in found
        for holds in (True, False)
        for passage in [p for p in case.passages if contains_answer(p.text, case.answers) is holds][:1]
        if case.answers
    ]
    judged = [
        (opened(case, case.passages[0]) + Prompt.trusted(RELEVANT) + Prompt.untrusted(f"{answer}."), holds)
        for case, other in zip(cases, _others(cases, known), strict=True)
        if other
        for answer, holds in ((case.answers[0], True), (other, False))
    ]
    return {
        "verdict_accuracy": mean_of(right),
        "verdict_auroc": auroc(relevant, answered),
        "retrieved_auroc": auroc(margins([p for p, _ in retrieved], RELEVANCE_TOKENS), [h for _, h in retrieved]),
        "support_auroc": auroc(margins([p for p, _ in judged], (NO_SUPPORT, FULLY_SUPPORTED)), [h for _, h in judged]),
    }


def _others(cases: Sequence[Case], known: Sequence[Case]) -> list[str]:
    """Return an answer to another question on the paragraph of each case; "" where there is none."""
    on: dict[str, list[str]] = {}
    for case in known:
        on.setdefault(case.passages[0].id, []).extend(case.answers[:1])
    found = []
    for case in cases:
        answers = on.get(case.passages[0].id, []) if case.answers else []
        wrong = [a for a in answers if not any(contains_answer(a, g) or contains_answer(g, a) for g in case.answers)]
        found.append(wrong[0] if wrong else "")
    return found


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


def drafts(lm: LanguageModel, cases: Sequence[Case]) -> Figures:
    """Claims about the first sentence of each paragraph, with prompt lookup and without; they alternate."""
    from shared_core.lm._hf.decode import Decoder

    params = SamplingParams(max_tokens=64, stop=(CLAIM_END,))
    said: dict[str, list[str]] = {"with": [], "without": []}
    spent = dict.fromkeys(said, 0.0)
    for case in cases[:40]:
        text = case.passages[0].text
        start, end = split_sentences(text)[0]
        for way in said:
            looking = mock.patch.object(Decoder, "_draft", return_value=[]) if way == "without" else nullcontext()
            began = time.process_time()
            with looking:
                (found,) = lm.generate([Generate(claim_prompt((), text[start:end]), params)])
            spent[way] += time.process_time() - began
            said[way].append(found.samples[0].text if isinstance(found, Generation) else repr(found))
    same = [a == b for a, b in zip(*said.values(), strict=True)]
    return {"claim_speedup": spent["without"] / spent["with"], "claims_same": mean_of(same)}


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
        "verdicts": lambda lm: verdicts(lm, alike, gold_cases(options.data, None, options.part), cases[:each]),
        "drafts": lambda lm: drafts(lm, alike),
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
    names = ("gold", "quotes", "verdicts", "drafts", "worth")
    parser.add_argument("--parts", nargs="*", default=list(names), choices=names)
    parser.add_argument("--part", default="test", choices=("tune", "test"), help="part of SQuAD 2.0")
    run_and_write(parser.parse_args(), run)


if __name__ == "__main__":
    main()
