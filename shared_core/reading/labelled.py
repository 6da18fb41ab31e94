"""Find the labelled line of a list below the very name that a question asks for: "Office hours: …" below a person."""

from __future__ import annotations

from shared_core.reading.questions import content_stems
from shared_core.retrieval.tokenizer import other_names
from shared_core.support.regex import lazy_regex

_MARK = lazy_regex(r"[ \t]*(?:(?:[-*+•▪◦○–—]|\d{1,2}[.)])[ \t]+)?")
_LABEL = lazy_regex(r"[*_]{0,2}([A-Za-z][^:\n*_]{1,40}?)[*_]{0,2}:[*_]{0,2}[ \t]+\S")
_IS = lazy_regex(r"['’]s\b")
_MOST_LINES = 12
"""Lines between a name and its line, at most."""


def is_labelled_below(question: str, sentence: str, text: str, above: str) -> bool:
    """Return whether a sentence is a list's line with a label that is asked for, below a line with all else asked for.

    That line is the nearest above with another bullet, less indented or without one.

    Args:
        text: of the passage.
        above: its title and headings, which may hold other words of the question.

    >>> text = "• Ida Berg\\n  – Room: 12\\n  – Office hours: Mondays\\n• Jo Wu\\n  – Office hours: Fridays"
    >>> asked = "When are Jo Wu's office hours?"
    >>> [is_labelled_below(asked, f"– Office hours: {day}s", text, "") for day in ("Monday", "Friday")]
    [False, True]
    """
    own = _MARK.match(sentence)
    label = _LABEL.match(sentence, own.end()) if own else None
    if label is None or "\n" in sentence.strip():
        return False
    asked, named = content_stems(_IS.sub("", question)), content_stems(label[1])
    others = [stems for name in other_names(label[1]) if (stems := content_stems(name)) and stems <= asked]
    if not named or not (named <= asked or others):
        return False
    at = text.find(sentence)
    if at < 0 or text.find(sentence, at + 1) >= 0:
        return False
    lines = text[: at + len(sentence)].splitlines()
    lead = _lead(lines[-1 - _MOST_LINES :])
    known, rest = content_stems(lead), asked.difference(named, *others)
    return bool(rest & known) and rest <= known | content_stems(above)


def _lead(lines: list[str]) -> str:
    """Return the nearest line above the last whose bullet is another, or that is less indented; "" if there is none."""
    if not lines:
        return ""
    mark = _MARK.match(lines[-1])
    own = mark.group() if mark else ""
    for line in reversed(lines[:-1]):
        if not line.strip():
            if not own.strip():
                return ""
            continue
        found = _MARK.match(line)
        other = found.group() if found else ""
        if other.strip() != own.strip() or len(other) < len(own):
            return line if len(other) <= len(own) else ""
    return ""
