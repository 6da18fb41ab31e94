"""SeaKR's last step: read the answer off a rationale, and choose between two answers by their uncertainty."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from shared_core.citation import ends_sentence, split_sentences

_KIND = r"(?:(?:final|correct|right|short|best|full)\s+)*"
_STATED = re.compile(
    # "the (final) answer (to the question) is (that)"; the article may be missing where a line begins
    rf"(?:\b(?:the|my|our)\s+|^[ \t*_>#-]*){_KIND}answer(?:\s+(?:to|for)\b[^.,:!?\n]{{1,150}}?)?\s+"
    r"(?:is|was|(?:would|must|should)\s+be|(?:seems|appears)\s+to\s+be)\b[ \t]*:?[ \t]*(?:that\b[ \t]+)?",
    re.IGNORECASE | re.MULTILINE,
)
_LABELLED = re.compile(  # "Answer: …", at the beginning of a line or sentence
    rf"(?:^|(?<=[.!?]\s))[ \t*_>#-]*(?:the\s+)?{_KIND}answer[*_ \t]*:[*_ \t]*", re.IGNORECASE | re.MULTILINE
)
_IS = re.compile(f"{_STATED.pattern}|{_LABELLED.pattern}", re.IGNORECASE | re.MULTILINE)
_LEAD = re.compile(rf"(?:\b(?:so|thus|hence|therefore)\b,?[ \t]*)?(?:{_IS.pattern})", re.IGNORECASE | re.MULTILINE)
_INTRODUCED = re.compile(rf"(?:[^.!?\n]{{0,150}}?,\s*)?(?:{_LEAD.pattern})", re.IGNORECASE)
"""“Based on the passages, the answer is …”: models repeat the lead that they were to go on from."""
_MARKUP = re.compile(r"</?\s*(?:final_)?answer\s*>|\*\*|`+|\\boxed\{([^{}]*)\}", re.IGNORECASE)
_LIST_MARK = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")
_OPTION = re.compile(r"([A-Z])\.(?=\s+(?!(?:[A-Z]\.|[A-Z][^\s.]*\.?\s*$))|\s*$)")
"""A single letter as the whole answer: "A. Later …"; not the initial of a name: "J. R. Moss", "J. Smith."."""
_CLOSED = re.compile(r"[.!?](?=[\"'”’)])")
_REVERSED = re.compile(rf"([^?]+?)\s+is the {_KIND}answer\b[^?]*$", re.IGNORECASE)
_PUBLISHED_IS = re.compile(r"the answer is\s*:?\s*([^!?]*?)[.,!?]", re.DOTALL)
_PUBLISHED_REVERSED = re.compile(r"[.!?]\s*([^!?]*?) is the answer\b", re.DOTALL)
_UNKNOWN = re.compile(
    r"\b[Uu]nknown\b(?!\s+[A-Z])|\bUNKNOWN\b|"  # not "the Unknown Soldier"
    r"^\W*(?i:(?:(?:it|this|that)\s+is\s+)?not\s+(?:known|given|stated|mentioned|specified|provided|available|clear|"
    r"answered|found|in\s+(?:the|any|these))\b)"
)
_BEFORE = "It is "
"""Stands before what is split: at the beginning of a text, "83." would be the mark of a list."""


def final_answer(text: str, *, published: bool = False) -> str | None:
    """Read the X of "the answer is X", "Answer: X" or "X is the answer" as written; ``None`` where no step says so.

    Args:
        text: a reasoning step.
        published: as the published code reads it: lower-cased, cut at the first comma or full stop wherever it stands
            ("42.5 km" → "42"), or at the end of a question or exclamation, and nothing without one.

    Example:
        >>> final_answer("The lake is 83 m deep. So the final answer is 83. Done."), final_answer("It is deep.")
        ('83', None)
    """
    if published:
        lowered = text.lower()
        match = _PUBLISHED_IS.search(lowered) or _PUBLISHED_REVERSED.search(lowered)
        return match.group(1).strip() if match else None
    text = _MARKUP.sub(r"\1", text)
    match = _STATED.search(text) or _LABELLED.search(text)  # a label may stand before the steps to the answer
    found = _first_sentence(_behind(text, match)) if match else _said_before(text)
    found = found.strip(" \t\"'“”‘’*_$")
    return found or None


def _behind(text: str, lead: re.Match[str]) -> str:
    """The line behind "the answer is", or behind a colon at its end the next one; leads repeated are taken off."""
    line, _, below = text[lead.end() :].partition("\n")
    if not line.strip() and lead[0].rstrip(" \t*_").endswith(":"):
        line = _LIST_MARK.sub("", below.lstrip().partition("\n")[0])
    while (again := _INTRODUCED.match(line.lstrip())) is not None:
        line = line.lstrip()[again.end() :]
    return line.strip()


def _first_sentence(line: str) -> str:
    """A line up to the end of its first sentence, without its full stop: "42.5", "Dr. Smith", "John F. Kennedy"."""
    option = _OPTION.match(line)
    if option:
        return option[1]
    spans = split_sentences(_BEFORE + line) if line else []
    first = line[: spans[0][1] - len(_BEFORE)] if spans else ""
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
    """Whether something is said: not missing, not empty, not "unknown", "not stated" and the like."""
    return bool(answer and answer.strip() and not _UNKNOWN.search(answer))
