"""Re-rank passages: by the reader's best sentence, the critic's rating, or the model's uncertainty (SeaKR)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.gating.choose import choose_estimator
from shared_core.pipelines.gating.measure import Measurement, measure
from shared_core.pipelines.gating.prompts import ANSWER_STOPS, short_answer_prompt
from shared_core.reading.base import Reading, ReadResult
from shared_core.runtime.flow import Flow, Rate, Read
from shared_core.types import Passage, Span
from shared_core.uncertainty import is_answer


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage of a new ranking, with the score and the reason for its place.

    Attributes:
        score: that it was ranked by, higher is better.
        probability: calibrated P(it answers the question); ``None`` if the method gives none.
        quote: the sentence that speaks most for it, if the method finds one.
        reason: for its place, in words.
    """

    passage: Passage
    score: float
    probability: float | None = None
    quote: Span | None = None
    reason: str = ""


def rerank_by_reading(question: str, passages: Sequence[Passage], run: QuestionRun) -> Flow[list[Ranked]]:
    """Rank passages by the best sentence that the reader finds in each, best first."""
    if not passages:
        return []
    # As many readings as passages: with fewer, not all could have one.
    result: ReadResult = yield Read(question, tuple(passages), len(passages), run.abilities.expected.value)
    return rank_by_reading(passages, result)


def rank_by_reading(passages: Sequence[Passage], result: ReadResult) -> list[Ranked]:
    """Rank passages that were read by the best sentence of each; ties keep their order."""
    best: dict[str, Reading] = {}
    for reading in result.readings:
        known = best.get(reading.quote.passage_id)
        if known is None or reading.score > known.score:
            best[reading.quote.passage_id] = reading
    # The reader's own scores also order the passages without a reading.
    scores = result.passage_scores or _scores_of(passages, best)
    order = sorted(range(len(passages)), key=lambda i: -scores[i])
    return [
        _ranked(passages[i], scores[i], best.get(passages[i].id), first=place == 0) for place, i in enumerate(order)
    ]


def rerank_by_rating(question: str, passages: Sequence[Passage], run: QuestionRun) -> Flow[list[Ranked]]:
    """Rank passages by the critic's P(the passage alone answers the question); ties keep order, unknown ones come last.

    The reader compares the passages of one request with each other; the critic rates each by itself, so that its
    probabilities of different requests compare.
    """
    if not passages:
        return []
    rated: tuple[float | None, ...] = yield Rate(question, tuple(passages))
    found = []
    for i in sorted(range(len(passages)), key=lambda i: -(rated[i] or 0.0)):
        p = rated[i]
        reason = "cannot be judged" if p is None else f"answers with probability {p:.2f} by itself"
        found.append(Ranked(passages[i], -1.0 if p is None else p, p, reason=reason))
    return found


def _scores_of(passages: Sequence[Passage], best: Mapping[str, Reading]) -> list[float]:
    """Score passages by their readings alone: those without any come last, in their order."""
    floor = min((r.score for r in best.values()), default=0.0)
    return [best[p.id].score if p.id in best else floor - 1.0 - i for i, p in enumerate(passages)]


def _ranked(passage: Passage, score: float, reading: Reading | None, *, first: bool) -> Ranked:
    if reading is None:
        return Ranked(passage, score, reason="no sentence of it is among the best")
    reason = "holds the sentence that answers best" if first else "holds a sentence that may answer"
    return Ranked(passage, score, reading.probability, reading.quote, reason)


def least_uncertain(uncertainties: Sequence[float], texts: Sequence[str] | None = None) -> list[int]:
    """Number passages by rising uncertainty; ties and unknown values (not finite, last) keep their order.

    >>> least_uncertain([0.4, math.inf, 0.1], ["1911", "", "unknown"])
    [0, 2, 1]

    Args:
        uncertainties: of the text written with each passage.
        texts: the texts themselves. A model may be very sure that a passage does not say it: a text that declines to
            answer comes after all that answer, however sure the model is of declining.
    """

    def place(i: int) -> tuple[int, float]:
        if not math.isfinite(uncertainties[i]):
            return 2, 0.0  # one key for all, so that their order stays: NaN cannot be sorted
        declined = texts is not None and not is_answer(texts[i])
        return int(declined), uncertainties[i]

    return sorted(range(len(uncertainties)), key=place)


def rerank_by_uncertainty(question: str, passages: Sequence[Passage], run: QuestionRun) -> Flow[list[Ranked]]:
    """Rank passages by how sure the model is of its answer with each (SeaKR, section 3.3), all in one batch.

    Scores are minus the uncertainty. Last come passages with which the model says that it does not know, then those
    whose uncertainty is unknown or that do not fit the model's context (raised with ``on_overflow="raise"``).
    ``Ranked.reason`` says how far the passage lowers the uncertainty against no passage at all, and by which estimator.

    Raises:
        LanguageModelError: the request without any passage failed.
    """
    if not passages:
        return []
    settings = run.settings
    chosen = choose_estimator(settings, run.abilities)
    # First without any passage: the reasons compare with what the model knows by itself.
    prompts = [short_answer_prompt(question, shown, settings.seakr) for shown in ((), *((p,) for p in passages))]
    tolerate = settings.on_overflow == "drop"
    found = yield from measure(prompts, chosen, stop=ANSWER_STOPS, question=question, tolerate_overflow=tolerate)
    without, measured = found[0], found[1:]
    if without.error is not None:
        raise without.error  # if even the bare question fails, no passage is to blame
    yield run.note("estimator", chosen.estimator.name, chosen.reason, without_passage=without.known)
    values = [m.uncertainty for m in measured]
    floor = min((-v for v in values if math.isfinite(v)), default=0.0)  # the worst known score: minus the uncertainty
    last = (floor - 1.0 - n for n in itertools.count())  # below every known score, and still in order
    ranked = []
    for i in least_uncertain(values, [m.text for m in measured]):
        known = math.isfinite(values[i])
        answers = known and is_answer(measured[i].text)
        reason = _say_effect(values[i], without.uncertainty) if known else _why_unknown(measured[i])
        if known and not answers:
            reason = "with it the model says that it does not know"
        # A substitute says for which estimator it was taken, and why.
        by = chosen.estimator.name if chosen.estimator.name == settings.seakr.estimator else chosen.reason
        ranked.append(Ranked(passages[i], -values[i] if answers else next(last), reason=f"{reason} ({by})"))
    return ranked


def _say_effect(value: float, alone: float) -> str:
    if not math.isfinite(alone):
        return f"uncertainty {value:.3f} with it; unknown without a passage"
    return f"uncertainty {value:.3f} with it, {'lower' if value < alone else 'not lower'} than {alone:.3f} without"


def _why_unknown(measurement: Measurement) -> str:
    if measurement.error is not None:
        return "longer than the model's context"
    return "its uncertainty is unknown" if measurement.text else "nothing was written with it"
