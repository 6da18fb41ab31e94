"""From SeaKR's answer to a claim with its support: what the passages say of it, or how sure the model is."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from shared_core.citation import CitationIndex
from shared_core.errors import LanguageModelError
from shared_core.flow import Flow, Score
from shared_core.lm.base import Prompt, Scores
from shared_core.pipelines.common import Context, Run
from shared_core.pipelines.gating.choose import Gauge, answer_binding
from shared_core.pipelines.support import support
from shared_core.types import Citation, Claim, Passage


def answer_claim(
    question: str, text: str, uncertainty: float, passages: Sequence[Passage], gauge: Gauge, run: Run
) -> Flow[Claim]:
    """The answer as a claim.

    Its support is, in this order: the calibrated confidence of its uncertainty; how far the kept passages support it;
    without passages the model's own P(True); unknown otherwise. It cites the sentences that hold its words.
    """
    citations = cite_answer(text, passages)
    known = uncertainty if math.isfinite(uncertainty) else None
    yield run.note("uncertainty", gauge.estimator.name, "of the answer", uncertainty=known, answer=text)
    calibration = run.context.calibrations.get("answer")
    if calibration is not None:
        calibration.require(**answer_binding(gauge, run.settings, run.context))
        found = calibration.probability(uncertainty)
        yield run.note("support", "calibrated uncertainty", f"on {calibration.n} questions", support=found)
        return Claim(text, found, citations, short_answer=text)
    if passages:
        premise = "\n".join(p.text for p in passages)
        (by_passages,) = yield from support([(premise, f"The answer to the question “{question}” is: {text}")], run)
        return Claim(text, by_passages, citations, short_answer=text)
    own = yield from _ask_for_own_word(question, text, run.context)
    yield run.note("support", "the model's own P(True)", "no passage was needed; not calibrated", support=own)
    return Claim(text, own, (), short_answer=text)


def cite_answer(text: str, passages: Sequence[Passage]) -> tuple[Citation, ...]:
    """The sentences of the passages that hold the answer's words, at most two; none for a bare yes or no."""
    needle = " ".join(text.split()).casefold().strip(" .")
    if needle in ("", "yes", "no"):
        return ()
    whole = re.compile(rf"(?<!\w){re.escape(needle)}(?!\w)")
    holding = [s for s in CitationIndex(passages).sentences if whole.search(" ".join(s.text.split()).casefold())]
    return tuple(Citation((s,)) for s in holding[:2])


def _ask_for_own_word(question: str, text: str, context: Context) -> Flow[float | None]:
    model = context.model("default")
    if model is None or not model.score:
        return None
    prompt = (
        Prompt.trusted("Question: ")
        + Prompt.untrusted(question)
        + Prompt.trusted("\nProposed answer: ")
        + Prompt.untrusted(text)
        + Prompt.trusted("\nIs the proposed answer true or false? It is")
    )
    try:
        scores: Scores = yield Score(prompt, (Prompt.trusted(" true"), Prompt.trusted(" false")))
    except LanguageModelError:
        return None
    true, false = scores.totals
    if not (math.isfinite(true) and math.isfinite(false)):
        return None
    return 1.0 / (1.0 + math.exp(min(false - true, 700.0)))
