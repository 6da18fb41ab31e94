"""SeaKR's last step: read the answer off a rationale, and choose between two answers by their uncertainty."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

_IS = re.compile(r"\bthe answer is\b[ \t]*:?[ \t]*", re.IGNORECASE)
# An answer ends at a line's end or at a full stop that ends a sentence: not in "42.5", "Dr. Smith" or "John Q. Public".
_END = re.compile(
    r"\n|(?<!\b(?:Dr|Mr|Ms|St|Jr|Sr))(?<!\bMrs)(?<!\b(?:Prof|Capt))(?<!\s[A-Z])"  # no title, no middle initial
    r"(?!(?<=\b[A-Z])\.\s+[A-Z]\.)"  # nor the first of several initials; a single letter is an option: "A. Later …"
    r"[.!?](?=\s|[\"'”’)]|$)"
)
_REVERSED = re.compile(r"(?:^|[.!?\n])\s*([^.!?\n]+?)\s+is the answer\b", re.IGNORECASE)
_PUBLISHED_IS = re.compile(r"the answer is\s*:?\s*(.*?)[.,]", re.DOTALL)
_PUBLISHED_REVERSED = re.compile(r"[.!?]\s*(.*?) is the answer", re.DOTALL)
_UNKNOWN = re.compile(r"\bunknown\b", re.IGNORECASE)


def final_answer(text: str, *, published: bool = False) -> str | None:
    """The X of "the answer is X" (or "X is the answer"), as written; ``None`` where no step says so.

    Args:
        text: a reasoning step.
        published: as the published code reads it: lower-cased, cut at the first comma or full stop wherever it stands
            ("42.5 km" → "42"), and nothing without one.
    """
    if published:
        lowered = text.lower()
        match = _PUBLISHED_IS.search(lowered) or _PUBLISHED_REVERSED.search(lowered)
        return match.group(1).strip() if match else None
    match = _IS.search(text)
    if match:
        rest = text[match.end() :]
        end = _END.search(rest)
        found = rest[: end.start()] if end else rest
    else:
        reverse = _REVERSED.search(text)
        found = reverse.group(1) if reverse else ""
    found = found.strip(" \t\"'“”‘’*")
    return found or None


def rationale_uncertainty(uncertainties: Iterable[float]) -> float:
    """Uncertainty of an answer drawn from rationales: the mean of theirs (paper, Table 9); +inf for none or NaN."""
    values = list(uncertainties)
    if not values or any(math.isnan(v) for v in values):
        return math.inf
    return sum(values) / len(values)


def choose_answer(
    from_rationales: str | None, rationale_score: float, from_knowledge: str | None, knowledge_score: float
) -> tuple[str | None, str]:
    """Self-aware reasoning: the answer of smaller uncertainty, the one from knowledge where they tie.

    An answer that is missing, empty or says "unknown" loses, and so does one whose uncertainty is NaN.

    Returns:
        The answer and where it is from: ``rationales`` or ``knowledge``.
    """
    first, second = is_answer(from_rationales), is_answer(from_knowledge)
    if first != second:
        return (from_rationales, "rationales") if first else (from_knowledge, "knowledge")
    a = math.inf if math.isnan(rationale_score) else rationale_score
    b = math.inf if math.isnan(knowledge_score) else knowledge_score
    return (from_rationales, "rationales") if a < b else (from_knowledge, "knowledge")


def is_answer(answer: str | None) -> bool:
    """Whether something is said: not missing, not empty, not "unknown"."""
    return bool(answer and answer.strip() and not _UNKNOWN.search(answer))
