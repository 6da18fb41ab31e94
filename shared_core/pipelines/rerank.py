"""Re-ranking of somebody else's passages, as flows: by what answers, or by what lowers the model's uncertainty."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from shared_core.flow import Flow, Read
from shared_core.pipelines.common import Run
from shared_core.pipelines.gating.choose import choose_gauge
from shared_core.pipelines.gating.demonstrations import demonstrations
from shared_core.pipelines.gating.measure import Measurement, measure
from shared_core.pipelines.gating.prompts import ANSWER_LEAD, ANSWER_STOPS, step_prompt
from shared_core.reading.base import ReadResult
from shared_core.types import Passage, Span

EACH = 8
"""Quotes to ask the reader for, for each passage: enough that the best of every passage is among them."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage with its new place.

    Attributes:
        passage: as given, unchanged.
        score: what it was ranked by, higher is better.
        probability: calibrated, that it answers the question; ``None`` where the method gives none.
        quote: the sentence that speaks most for it, where the method finds one.
        reason: why it stands there, for people.
    """

    passage: Passage
    score: float
    probability: float | None = None
    quote: Span | None = None
    reason: str = ""


def rerank_by_reading(question: str, passages: Sequence[Passage]) -> Flow[list[Ranked]]:
    """Best first by the best quote that the reader finds in each; passages without any come last, in their order."""
    if not passages:
        return []
    result: ReadResult = yield Read(question, tuple(passages), limit=EACH * len(passages))
    return rank_by_reading(passages, result)


def rank_by_reading(passages: Sequence[Passage], result: ReadResult) -> list[Ranked]:
    """The passages that were read, by the best quote found in each."""
    best: dict[str, Ranked] = {}
    by_id = {p.id: p for p in passages}
    for reading in result.readings:
        passage = by_id[reading.quote.passage_id]
        known = best.get(passage.id)
        if known is None or reading.score > known.score:
            reason = "holds the sentence that answers best" if not best else "holds a sentence that may answer"
            best[passage.id] = Ranked(passage, reading.score, reading.probability, reading.quote, reason)
    ranked = sorted(best.values(), key=lambda r: -r.score)
    floor = min((r.score for r in ranked), default=0.0)
    rest = [
        Ranked(p, floor - 1.0 - i, 0.0, None, "no sentence answers") for i, p in enumerate(_without(passages, best))
    ]
    return ranked + rest


def _without(passages: Sequence[Passage], known: dict[str, Ranked]) -> list[Passage]:
    return [p for p in passages if p.id not in known]


def least_uncertain(uncertainties: Sequence[float]) -> list[int]:
    """Places by rising uncertainty; ties and unknown ones (not finite, last) keep their order."""
    return sorted(
        range(len(uncertainties)), key=lambda i: uncertainties[i] if _is_known(uncertainties[i]) else math.inf
    )


def _is_known(value: float) -> bool:
    return math.isfinite(value)


def rerank_by_uncertainty(question: str, passages: Sequence[Passage], run: Run) -> Flow[list[Ranked]]:
    """Best first by how sure the model is of its answer with each passage (SeaKR, section 3.3), all in one batch.

    Scores are minus the uncertainty; a passage whose uncertainty is unknown comes last, and so does one that does not
    fit the model's context (``on_overflow="raise"``: raised). ``reason`` says how far the passage lowers the
    uncertainty against no passage at all, by which estimator.
    """
    if not passages:
        return []
    settings = run.settings
    gauge = choose_gauge(settings, run.context)
    demos = settings.seakr.demonstrations or demonstrations("simple")
    alone = step_prompt(question, (), (), demos, ANSWER_LEAD)
    prompts = [alone, *(step_prompt(question, (), (p,), demos, ANSWER_LEAD) for p in passages)]
    tolerate = settings.on_overflow == "drop"
    found = yield from measure(prompts, gauge, stop=ANSWER_STOPS, question=question, tolerate_overflow=tolerate)
    without, measured = found[0], found[1:]
    if without.error is not None:
        raise without.error  # even without any passage
    yield run.note("estimator", gauge.estimator.name, gauge.reason, without_passage=without.known)
    values = [m.uncertainty for m in measured]
    floor = min((-v for v in values if _is_known(v)), default=0.0)
    unknown = (floor - 1.0 - n for n in itertools.count())
    ranked = []
    for i in least_uncertain(values):
        known = _is_known(values[i])
        reason = _say_effect(values[i], without.uncertainty) if known else _why_unknown(measured[i])
        by = gauge.estimator.name if gauge.estimator.name == settings.seakr.estimator else gauge.reason
        ranked.append(Ranked(passages[i], -values[i] if known else next(unknown), None, None, f"{reason} ({by})"))
    return ranked


def _say_effect(value: float, alone: float) -> str:
    if not _is_known(alone):
        return f"uncertainty {value:.3f} with it; unknown without a passage"
    return f"uncertainty {value:.3f} with it, {'lower' if value < alone else 'not lower'} than {alone:.3f} without"


def _why_unknown(measurement: Measurement) -> str:
    if measurement.error is not None:
        return "longer than the model's context"
    return "its uncertainty is unknown" if measurement.text else "nothing was written with it"
