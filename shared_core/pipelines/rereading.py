"""A second reading: where what the model quoted is refused, its short answer from the same passages.

Choosing a sentence and reading an answer are two skills, and models are often better at the second (docs/lab.md). The
answer counts only where it stands in a passage: the sentences that hold it are its citations, and every witness judges
it as any other claim.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from shared_core.errors import ContextOverflowError, LanguageModelError, LimitError
from shared_core.lm.base import Generation, Sample, SamplingParams
from shared_core.pipelines.confidence import Weighed, weigh
from shared_core.pipelines.decision.declining import is_refusal
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.gating.closed_book import conclude
from shared_core.pipelines.gating.demonstrations import demonstrations
from shared_core.pipelines.gating.prompts import ANSWER_LEAD, ANSWER_STOPS, step_prompt
from shared_core.pipelines.reclaim.free import DECLINED
from shared_core.pipelines.seakr.answer import choose_citations, state_answer
from shared_core.reading.questions import words
from shared_core.runtime.flow import Flow, Generate, Report
from shared_core.settings import Demonstration
from shared_core.types import Claim, ClaimSealed, Passage, Signals
from shared_core.uncertainty import final_answer, is_answer


def read_again(question: str, before: Weighed, passages: Sequence[Passage], run: QuestionRun) -> Flow[Weighed]:
    """``before`` with the model's short answer among its claims, where none of them is worth showing.

    Costs a generation or two, and only then. Answers that stand in no passage (a bare yes or no, what is known from
    elsewhere) are left out: they have no quote. A model that has said that the passages do not answer is not asked.

    Args:
        question: as asked.
        before: claims that were quoted, weighed.
        passages: read, best first.
        run: of the question; ``settings.retry_short_answer`` turns this off.
    """
    wanted = run.settings.retry_short_answer and passages and run.trace.limit is None
    if not wanted or _declined(run) or _worth_showing(before, run):
        return before
    try:
        claim = yield from _short_answer(question, passages, run)
    except LimitError as error:
        yield run.stop(error)
        return before
    except LanguageModelError as error:  # it could not be asked: as if it had nothing to say
        yield run.note("read again", "left out", error.message)
        return before
    if claim is None:
        return before
    yield Report(ClaimSealed(claim))
    found = yield from weigh(question, [claim], passages, run)
    answerable = before.answerable if found.answerable is None else found.answerable
    return dataclasses.replace(
        before,
        claims=[*before.claims, *found.claims],
        answerable=answerable,
        calibrated=found.calibrated,
        unknown=found.unknown,
    )


def _declined(run: QuestionRun) -> bool:
    """Whether the model has said in words that the passages do not answer: it is not asked to think again."""
    return any(d.kind == "write" and d.outcome == DECLINED for d in run.trace.decisions)


def _worth_showing(weighed: Weighed, run: QuestionRun) -> bool:
    return any(c.support is not None and c.support > run.bar for c in weighed.claims)


def _short_answer(question: str, passages: Sequence[Passage], run: QuestionRun) -> Flow[Claim | None]:
    """The answer with the sentences that hold it; ``None`` where there is none, or where it stands in no passage."""
    read = list(passages)
    written = yield from _ask(question, read, run)
    text = " ".join(written.text.split())
    said = final_answer(text if run.settings.seakr.multi_hop else f"the answer is {text}")
    if said is None and text:
        said = yield from conclude(question, [text], read, _demonstrations(run), run.settings)
    if said is None or not is_answer(said) or is_refusal(said) or _repeats(said, question):
        yield run.note("read again", "declined", text[:200])
        return None
    citations = yield from choose_citations(said, state_answer(question, said), passages, run)
    likely = _mean_probability(written)
    yield run.note("read again", "answered" if citations else "stands in no passage", text[:200], likely=likely)
    return Claim(said, None, citations, short_answer=said, signals=Signals(likely=likely)) if citations else None


def _repeats(said: str, question: str) -> bool:
    """Whether an answer only says what was asked about; one of several that are offered is an answer."""
    asked = set(words(question))
    return asked.issuperset(words(said)) and "or" not in asked


def _ask(question: str, passages: list[Passage], run: QuestionRun) -> Flow[Sample]:
    """What the model writes with as many of the passages as fit: the answer, or steps that end in it."""
    settings, options = run.settings, run.settings.seakr
    model = run.abilities.model("default")
    params = SamplingParams(
        max_tokens=(4 if options.multi_hop else 1) * options.max_step_tokens,
        stop=ANSWER_STOPS,
        logprobs=model is not None and model.token_logprobs,
        seed=settings.seed,
    )
    lead = "" if options.multi_hop else ANSWER_LEAD
    while True:
        try:
            prompt = step_prompt(question, (), passages, _demonstrations(run), lead)
            written: Generation = yield Generate(prompt, params)
            return written.samples[0]
        except ContextOverflowError as error:
            if settings.on_overflow == "raise" or len(passages) == 1:
                raise
            dropped = max(1, int(error.excess * len(passages)))
            del passages[-dropped:]
            yield run.note("context", f"{dropped} lowest-ranked passages left out", error.message)


def _demonstrations(run: QuestionRun) -> Sequence[Demonstration]:
    options = run.settings.seakr
    return options.demonstrations or demonstrations(options.published.task if options.multi_hop else "simple")


def _mean_probability(sample: Sample) -> float | None:
    """Geometric mean of the probabilities of the tokens written; ``None`` where they are not known."""
    known = [p for p in sample.logprobs or () if math.isfinite(p)]
    return math.exp(min(0.0, math.fsum(known) / len(known))) if known else None
