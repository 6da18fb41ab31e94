"""SeaKR's last step: read the answer off a rationale, and choose between two answers by their uncertainty."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from shared_core.citation import ends_sentence, split_sentences

_IS = re.compile(r"\bthe answer is\b[ \t]*:?[ \t]*", re.IGNORECASE)
_LEAD = re.compile(r"(?:\b(?:so|thus|hence|therefore)\b,?[ \t]*)?" + _IS.pattern, re.IGNORECASE)
_OPTION = re.compile(r"([A-Z])\.(?=\s+(?!(?:[A-Z]\.|[A-Z][^\s.]*\.?\s*$))|\s*$)")
"""A single letter as the whole answer: "A. Later …"; not the initial of a name: "J. R. Moss", "J. Smith."."""
_CLOSED = re.compile(r"[.!?](?=[\"'”’)])")
_REVERSED = re.compile(r"(.+?)\s+is the answer\b", re.IGNORECASE)
_PUBLISHED_IS = re.compile(r"the answer is\s*:?\s*([^!?]*?)[.,!?]", re.DOTALL)
_PUBLISHED_REVERSED = re.compile(r"[.!?]\s*([^!?]*?) is the answer", re.DOTALL)
_UNKNOWN = re.compile(r"\bunknown\b", re.IGNORECASE)


def final_answer(text: str, *, published: bool = False) -> str | None:
    """The X of "the answer is X" (or "X is the answer"), as written; ``None`` where no step says so.

    Args:
        text: a reasoning step.
        published: as the published code reads it: lower-cased, cut at the first comma or full stop wherever it stands
            ("42.5 km" → "42"), or at the end of a question or exclamation, and nothing without one.
    """
    if published:
        lowered = text.lower()
        match = _PUBLISHED_IS.search(lowered) or _PUBLISHED_REVERSED.search(lowered)
        return match.group(1).strip() if match else None
    match = _IS.search(text)
    found = _first_sentence(text[match.end() :].split("\n", 1)[0]) if match else _said_before(text)
    found = found.strip(" \t\"'“”‘’*")
    return found or None


def _first_sentence(line: str) -> str:
    """A line up to the end of its first sentence, without its full stop: "42.5", "Dr. Smith", "John F. Kennedy"."""
    line = line.strip()
    option = _OPTION.match(line)
    if option:
        return option[1]
    spans = split_sentences(line)
    first = line[: spans[0][1]] if spans else ""
    closed = _CLOSED.search(first)  # "Paris." He said …
    if closed:
        return first[: closed.start()]
    bare = first.rstrip(".!?")
    abbreviated = re.search(r"[^\W\d_]{2}$|\.[^\W\d_]$", bare) is not None and not ends_sentence(first)
    return f"{bare}." if first.endswith(".") and abbreviated else bare  # "Washington, D.C."


def _said_before(text: str) -> str:
    """The X of a sentence "X is the answer"."""
    for line in text.split("\n"):
        for start, end in split_sentences(line):
            match = _REVERSED.match(line[start:end])
            if match:
                return match[1]
    return ""


def answer_lead(text: str) -> tuple[int, int] | None:
    """Find "(so) the answer is" in a text, as a half-open range; ``None`` if it is not there."""
    match = _LEAD.search(text)
    return match.span() if match else None


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
