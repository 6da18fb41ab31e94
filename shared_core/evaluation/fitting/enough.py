"""Whether questions and rows suffice for what is to be fitted, looked at before any work is done."""

from __future__ import annotations

from collections.abc import Sequence

from shared_core.calibration.calibration import LEAST_ROWS
from shared_core.calibration.stack import LEAST as LEAST_CLAIMS
from shared_core.errors import CalibrationInputError
from shared_core.evaluation.dataset import Question

LEAST_QUESTIONS = LEAST_CLAIMS // 4
"""For claims: an answer has several."""
_GIVE = 'Give rows with "answers", or with "answerable": false.'


def require_enough(purpose: str, questions: Sequence[Question], labels: str = "gold") -> None:
    """Refuse questions that cannot be enough, whatever is answered to them.

    Args:
        purpose: ``confidence``, ``claims``, ``gate`` or ``answer``.
        questions: all there are.
        labels: ``gold``, ``self`` or ``auto`` (gate and answer): who says what is right.

    Raises:
        CalibrationInputError: too few; none can be judged (the fields seen are named); all are unanswerable, so that no
            answer could be right.
    """
    known = [q for q in questions if q.judgeable]
    usable = known if labels == "gold" else list(questions)
    least = LEAST_QUESTIONS if purpose == "claims" else LEAST_ROWS
    if not usable:
        raise CalibrationInputError(
            f"None of {len(questions)} questions can be judged.{_fields(questions)}", hint=_GIVE
        )
    if len(usable) < least:
        left = f" of {len(questions)} can be judged, and these" if len(usable) < len(questions) else " questions"
        raise CalibrationInputError(
            f"Only {len(usable)}{left} are not enough to calibrate {purpose}: it takes {least}.", hint=_GIVE
        )
    if labels != "self" and all(q.answerable is False for q in usable):
        raise CalibrationInputError(
            f"All {len(usable)} questions are unanswerable, so no answer to them can be right.",
            hint="Add questions that the documents answer, with their answers.",
        )


def require_enough_claims(rows: Sequence[tuple[str, str, bool]]) -> None:
    """CalibrationInputError if labelled (quote, claim, label) rows are too few, or all of one label."""
    true = sum(label for _, _, label in rows)
    if len(rows) < LEAST_ROWS or true in (0, len(rows)):
        raise CalibrationInputError(
            f"{len(rows)} labelled claims, {true} of them supported, are not enough to calibrate support.",
            hint=f"Give at least {LEAST_ROWS}, some supported and some not.",
        )


def _fields(questions: Sequence[Question]) -> str:
    seen = sorted({str(name) for q in questions for name in q.metadata})[:12]
    return f" Fields that say nothing to us: {', '.join(map(repr, seen))}." if seen else ""
