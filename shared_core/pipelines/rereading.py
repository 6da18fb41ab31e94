"""Read the passages again for a short answer, where no claim that the model quoted for is worth showing.

Choosing a sentence and reading an answer are two skills, and models are often better at the second (docs/lab.md). The
answer counts only if a passage holds it: the sentences that do are its citations, and it is weighed like any claim.

The model is shown all passages. From the reader's choice of them alone a small model reads better, but then its
agreement with the reader is no second opinion (docs/confidence.md).
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence

from shared_core.errors import ContextOverflowError, LimitError
from shared_core.lm.base import Generation, Sample, SamplingParams
from shared_core.pipelines.competing import is_poor, is_settled
from shared_core.pipelines.confidence import Weighed, weigh
from shared_core.pipelines.decision.links import without_own_references
from shared_core.pipelines.decision.question_run import QuestionRun, leave_out
from shared_core.pipelines.decision.reasons import DECLINED, IN_NO_PASSAGE, SAYS_NOTHING
from shared_core.pipelines.gating.prompts import ANSWER_LEAD, ANSWER_STOPS, demonstrations_for, step_prompt
from shared_core.pipelines.seakr.answer import choose_citations, cite_answer, conclude, state_answer
from shared_core.pipelines.structured import plain_text
from shared_core.reading.questions import words
from shared_core.runtime.flow import Flow, Generate, Report
from shared_core.types import Claim, ClaimSealed, Passage, Signals
from shared_core.uncertainty import final_answer, is_answer

_FEW_WORDS = 6
"""Of more words, a reply is a step of reasoning, which an answer is asked for after."""


def read_again(
    question: str, before: Weighed, passages: Sequence[Passage], run: QuestionRun, *, found: Sequence[Passage] = ()
) -> Flow[Weighed]:
    """Add the model's short answer to the claims, if none of them is worth showing.

    Costs one generation or two, and only then. Answers that no passage holds (a bare yes or no, something known from
    elsewhere) are left out, since they have no quote. A model that has declined to answer is not asked again, nor one
    whose replies have told nothing so far: the embedded default's quote would be shown in place of what it says.

    Args:
        before: the claims that the model quoted for, weighed.
        run: of the question; ``settings.retry_short_answer`` turns this off.
        found: all passages that were retrieved, if claims are weighed beside those.

    Returns:
        ``before``, with one claim more where the model gave a short answer.

    Raises:
        LanguageModelError: the model or its provider failed. To abstain instead would say that the documents do not
            answer, and would hide the failure from retries and fallbacks.
    """
    wanted = run.settings.retry_short_answer and passages and run.trace.limit is None
    wanted = wanted and run.abilities.has_model("default")  # ReClaim runs on models of other roles alone
    if not wanted or _declined(run) or worth_showing(before, run):
        return before
    if is_poor(question, run):
        yield run.note("read again", "left out", "the model's replies have told nothing so far")
        return before
    if is_settled(question, before.claims, before.readings, found or passages, run):
        yield run.note("read again", "left out", "the default's own quote is probable enough")
        return before
    try:
        claim = yield from _short_answer(question, passages, run)
    except LimitError as error:
        yield run.stop(error)
        return before
    except ContextOverflowError as error:
        if run.settings.on_overflow == "raise":
            raise
        yield run.note("read again", "left out", error.message)  # not even one passage fits beside the examples
        return before
    if claim is None:
        return before
    (claim,) = without_own_references([claim], question, found or passages)
    yield Report(ClaimSealed(claim))
    weighed = yield from weigh(question, [claim], found or passages, run)
    answerable = before.answerable if weighed.answerable is None else weighed.answerable
    return dataclasses.replace(
        before,
        claims=[*before.claims, *weighed.claims],
        answerable=answerable,
        calibrated=weighed.calibrated,
        unknown=weighed.unknown,
        readings=weighed.readings or before.readings,
    )


def _declined(run: QuestionRun) -> bool:
    """Return whether the model has said in words that the passages do not answer."""
    return any(d.kind == "write" and d.outcome == DECLINED for d in run.trace.decisions)


def worth_showing(weighed: Weighed, run: QuestionRun) -> bool:
    """Return whether any of the claims is above the target accuracy.

    Not above a guarantee's bar: a guarantee is fitted on the claims that this trigger leaves.
    """
    return any(c.support is not None and c.support > run.settings.target_accuracy for c in weighed.claims)


def _short_answer(question: str, passages: Sequence[Passage], run: QuestionRun) -> Flow[Claim | None]:
    """Ask for the short answer and cite the sentences that hold it; ``None`` if there is none, or no passage does."""
    read = list(passages)  # shrinks where not all of them fit the context
    written = yield from _ask(question, read, run)
    text = " ".join(plain_text(written.text).split())
    if repeats_itself(text):  # what it says last is no conclusion, and it would not come to one
        yield run.note("read again", SAYS_NOTHING, f"the reply repeats itself: {text[:150]}")
        return None
    # Without steps the prompt ended in "So the answer is", and the reply begins right after it.
    short = final_answer(text if _in_steps(read, run) else f"the answer is {text}")
    if short is None and text:
        short = _said_at_once(text, written, passages)
    if short is None and text:  # steps that came to no end: ask for the answer that follows from them
        short = yield from conclude(question, [text], read, demonstrations_for(run.settings.seakr), run.settings)
        text = f"{short or ''} (asked for after: {text})"
    if short is None or not is_answer(short):
        yield run.note("read again", "declined", text[:200])
        return None
    if _repeats(short, question):
        yield run.note("read again", SAYS_NOTHING, text[:200])
        return None
    # ``passages``, not ``read``: a sentence may be cited that the model was not shown for lack of context.
    citations = yield from choose_citations(short, state_answer(question, short), passages, run)
    likely = _mean_probability(written)
    yield run.note("read again", "answered" if citations else IN_NO_PASSAGE, text[:200], likely=likely)
    return Claim(short, None, citations, short_answer=short, signals=Signals(likely=likely)) if citations else None


def _said_at_once(text: str, written: Sample, passages: Sequence[Passage]) -> str | None:
    """Return a reply that is the answer itself: short, finished, and in the words of a passage; ``None`` for others."""
    short = final_answer(f"the answer is {text}")
    if short is None or written.finish_reason == "length" or len(text.split()) > _FEW_WORDS:
        return None
    return short if words(short) == words(text) and cite_answer(short, passages) else None


def _repeats(answer: str, question: str) -> bool:
    """Return whether an answer only repeats the question; of "1871 or 1872?" either one is an answer."""
    asked = set(words(question))
    return asked.issuperset(words(answer)) and "or" not in asked


def repeats_itself(text: str) -> bool:
    """Return whether a text ends in the same words three times over: greedy decoding seldom leaves such a circle.

    >>> repeats_itself("It is Santa Cruz-Santa Cruz-Santa Cruz-Santa Cr")
    True
    """
    said = re.findall(r"\w+", text)[:-1]  # a reply that was cut off may end within a word
    return any(said[-n:] == said[-2 * n : -n] == said[-3 * n : -2 * n] for n in range(1, min(24, len(said) // 3) + 1))


def _ask(question: str, passages: list[Passage], run: QuestionRun) -> Flow[Sample]:
    """Generate with as many of the passages as fit: the answer, or reasoning steps that end in it.

    ``passages`` loses those that do not fit, the lowest-ranked first.
    """
    settings = run.settings
    model = run.abilities.model("default")
    while True:
        steps = _in_steps(passages, run)
        # In pieces where going on costs nothing: a small model often goes round in circles, and 400 tokens of that
        # took five sixths of a question's time. Elsewhere each piece would be paid for with the whole prompt.
        pieces = 4 if steps and model is not None and model.token_prompts else 1
        params = SamplingParams(
            # A chain of thought gets four steps' tokens, as in SeaKR's answers to simple questions.
            max_tokens=(4 if steps else 1) * settings.seakr.max_step_tokens // pieces,
            stop=ANSWER_STOPS,
            logprobs=model is not None and model.token_logprobs,  # for `Signals.likely` only
            seed=settings.seed,
        )
        shown = demonstrations_for(settings.seakr)
        try:
            prompt = step_prompt(question, (), passages, shown, "" if steps else ANSWER_LEAD)
            written: Generation = yield Generate(prompt, params)
            sample = written.samples[0]
            while (pieces := pieces - 1) and sample.finish_reason == "length" and not repeats_itself(sample.text):
                prompt = step_prompt(question, [sample.text.strip()], passages, shown)
                written = yield Generate(prompt, params)
                sample = _join(sample, written.samples[0])
            return sample
        except ContextOverflowError as error:
            passages[:] = yield from leave_out(passages, error, run)


def _join(first: Sample, second: Sample) -> Sample:
    logprobs = None if first.logprobs is None or second.logprobs is None else (*first.logprobs, *second.logprobs)
    return Sample(first.text + second.text, logprobs=logprobs, finish_reason=second.finish_reason)


def _in_steps(passages: Sequence[Passage], run: QuestionRun) -> bool:
    """Return whether to reason step by step; what one passage answers needs no steps."""
    return run.settings.seakr.multi_hop and len(passages) > 1


def _mean_probability(sample: Sample) -> float | None:
    """Return the geometric mean of the tokens' probabilities, in (0, 1]; ``None`` if none is known."""
    known = [p for p in sample.logprobs or () if math.isfinite(p)]
    return math.exp(min(0.0, math.fsum(known) / len(known))) if known else None  # rounding may go above 0
