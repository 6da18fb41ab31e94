"""Find questions that a calibration was fitted on; its figures are better on them than on new questions."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from shared_core.calibration.binding import question_digest
from shared_core.evaluation.dataset import Question

_LOG = logging.getLogger(__name__)


def digests_of(questions: Iterable[Question]) -> tuple[str, ...]:
    """Return the distinct digests by which calibrations remember their questions."""
    return tuple(dict.fromkeys(question_digest(q.question) for q in questions))


def fitted_on(system: object, questions: Iterable[Question]) -> dict[str, int]:
    """Count, for each calibration of an engine, the questions it was fitted on; purposes with none are left out.

    Files of early versions hold no digests, and systems other than our engines no calibrations: both count as none.
    """
    calibrations = getattr(getattr(system, "context", None), "every_calibration", None)
    asked = set(digests_of(questions))
    found = {name: len(asked & set(c.questions)) for name, c in (calibrations or {}).items()}
    return {name: count for name, count in found.items() if count}


def describe_fitted_on(found: Mapping[str, int], total: int) -> str:
    """Describe ``fitted_on``'s result in a sentence; empty if there is no overlap."""
    if not found:
        return ""
    counts = ", ".join(f"{name}: {count}" for name, count in found.items())
    return (
        f"Calibrations were fitted on questions asked here ({counts} of {total}): figures of accuracy and confidence "
        "are better than they would be on new questions."
    )


def warn_fitted_on(system: object, questions: Iterable[Question], name: str = "") -> dict[str, int]:
    """Return ``fitted_on`` and log a warning if there is an overlap; ``name`` tells several systems apart."""
    asked = list(questions)
    found = fitted_on(system, asked)
    if found:
        _LOG.warning("%s%s", f"{name}: " if name else "", describe_fitted_on(found, len(asked)))
    return found
