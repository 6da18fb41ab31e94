"""Questions that a calibration was fitted on: on them its figures are better than on others."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from shared_core.calibration.binding import question_digest
from shared_core.evaluation.dataset import Question

_LOG = logging.getLogger(__name__)


def digests_of(questions: Iterable[Question]) -> tuple[str, ...]:
    """What a calibration remembers of its questions, each once."""
    return tuple(dict.fromkeys(question_digest(q.question) for q in questions))


def fitted_on(system: object, questions: Iterable[Question]) -> dict[str, int]:
    """For each calibration of an engine how many of the questions it was fitted on, by purpose; only those above 0.

    Nothing is known of files of earlier versions, which kept no digests, and of systems that are no engines of ours.
    """
    calibrations = getattr(getattr(system, "context", None), "every_calibration", None)
    asked = set(digests_of(questions))
    found = {name: len(asked & set(c.questions)) for name, c in (calibrations or {}).items()}
    return {name: count for name, count in found.items() if count}


def describe_fitted_on(found: Mapping[str, int], total: int) -> str:
    """A sentence for people; empty if none was."""
    if not found:
        return ""
    told = ", ".join(f"{name}: {count}" for name, count in found.items())
    return (
        f"Calibrations were fitted on questions asked here ({told} of {total}): figures of accuracy and confidence are "
        "better than on questions that nothing was fitted on."
    )


def warn_fitted_on(system: object, questions: Iterable[Question], name: str = "") -> dict[str, int]:
    """``fitted_on``, with a warning in the log if there are any; ``name``: of the system, where there are several."""
    asked = list(questions)
    found = fitted_on(system, asked)
    if found:
        _LOG.warning("%s%s", f"{name}: " if name else "", describe_fitted_on(found, len(asked)))
    return found
