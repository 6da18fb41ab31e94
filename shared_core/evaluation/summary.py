"""Compute the table of metrics of a run from its judged records."""

from __future__ import annotations

import math
from collections.abc import Sequence

from shared_core.evaluation.judging import Record
from shared_core.evaluation.metrics import confidence as ranking

TARGETS = (0.5, 0.7, 0.8, 0.9)


def metrics(records: Sequence[Record], targets: Sequence[float] = TARGETS) -> dict[str, float]:
    """Compute the table of metrics; undefined ones are NaN.

    ``exact_match``, ``f1``: over all judgeable questions, abstentions as empty answers. ``first_quote``: share of
    the answerable questions whose first quote holds a gold answer, whatever the target accuracy. ``coverage``: share
    of all questions that were answered; ``accuracy``: of these, the share right. ``coverage_R``: share of all questions
    that were answered with confidence > R; ``kept_accuracy_R``: of these, the share right; both undefined for an R
    below the target accuracy of the run, which withheld what they would count. So abstentions and errors are unanswered
    in all four. ``auroc_correct``, ``auroc_answerable``, ``ece``, ``brier``, ``aurc``, ``prr``: of the confidence.
    ``abstention_precision``, ``abstention_recall``: abstentions against questions known not to be answerable.
    The figures of the confidence take the nearest claim of an abstention with its confidence for an answer. ``errors``
    counts questions that failed: they are unanswered and wrong, and have no part in the figures on confidence and
    abstention.
    """
    done = [r for r in records if not r.error]
    judged = [r for r in records if r.correct is not None]
    given = [r for r in done if r.correct is not None and not r.abstained]
    answerable = [r for r in judged if r.answerable]
    offsets = [r.offsets_exact for r in records if r.offsets_exact is not None]
    return {
        "questions": float(len(records)),
        "errors": float(len(records) - len(done)),
        "exact_match": _mean([r.em for r in judged]),
        "f1": _mean([r.f1 for r in judged]),
        "exact_match_answerable": _mean([r.em for r in answerable]),
        "f1_answerable": _mean([r.f1 for r in answerable]),
        "first_quote": _mean([r.quote_correct for r in answerable]),
        "coverage": _mean([not r.abstained and not r.error for r in records]),
        "accuracy": _mean([r.correct for r in given]),
        "claims_per_answer": _mean([r.claims for r in records]),
        "recall": _mean([r.recall for r in records if r.recall is not None]),
        "offsets_exact": _mean(offsets),
        **_confidence_metrics([r for r in done if r.correct is not None]),
        **{name: value for rho in targets for name, value in _kept(records, rho).items()},
        **_answerable_metrics([r for r in done if r.answerable is not None]),
        "seconds_per_question": _mean([r.seconds for r in records]),
    }


def _kept(records: Sequence[Record], rho: float) -> dict[str, float]:
    """Return accuracy and share of the answers that were given with a confidence above ρ."""
    withheld = any(r.target_accuracy is not None and r.target_accuracy > rho for r in records)
    if withheld or all(r.confidence is None for r in records):
        return {f"kept_accuracy_{rho:g}": math.nan, f"coverage_{rho:g}": math.nan}
    kept = [not r.error and not r.abstained and r.confidence is not None and r.confidence > rho for r in records]
    return {
        f"kept_accuracy_{rho:g}": _mean([r.correct for r, k in zip(records, kept, strict=True) if k]),
        f"coverage_{rho:g}": _mean(kept),
    }


def _confidence_metrics(records: Sequence[Record]) -> dict[str, float]:
    sure = [_known(r.confidence) for r in records]
    right = [float(bool(r.correct)) for r in records]
    known = any(not math.isnan(c) for c in sure)  # undefined without any confidence
    return {
        "auroc_correct": ranking.auroc(sure, right) if known else math.nan,
        "ece": ranking.expected_calibration_error(sure, right) if known else math.nan,
        "brier": ranking.brier_score(sure, right) if known else math.nan,
        "aurc": ranking.aurc(sure, right, ties="mean") if known else math.nan,
        "prr": ranking.prediction_rejection_ratio(sure, right, ties="mean") if known else math.nan,
    }


def _answerable_metrics(records: Sequence[Record]) -> dict[str, float]:
    sure = [_known(r.confidence) for r in records]
    known = any(not math.isnan(c) for c in sure)
    abstained, hopeless = [r for r in records if r.abstained], [r for r in records if not r.answerable]
    return {
        "auroc_answerable": ranking.auroc(sure, [float(bool(r.answerable)) for r in records]) if known else math.nan,
        "abstention_precision": _mean([not r.answerable for r in abstained]),
        "abstention_recall": _mean([r.abstained for r in hopeless]),
    }


def _known(value: float | None) -> float:
    return math.nan if value is None else value


def _mean(values: Sequence[float | bool | None]) -> float:
    numbers = [float(v) for v in values if v is not None]
    return math.fsum(numbers) / len(numbers) if numbers else math.nan
