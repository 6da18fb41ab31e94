"""Tidy claims and quotes that a model wrote freely: take off labels, list marks, titles and citation markers.

Prompts show sentences as ``S27: …`` and passages under their titles, and models copy both. Left in, a label changes
what judges make of the claim (on one the critic's score fell from .91 to .22), and a marker such as [1] points to
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_TAGS = re.compile(r"</?\s*\w+\s*/?>|\*\*|`+")
_NUMBERS = r"S?\d+(?:\s*(?:[,;–-]|and)\s*S?\d+)*"
# In round brackets only with the letter: (1871) may be a year.
_MARK = rf"(?:\[\s*{_NUMBERS}\s*\]|\(\s*S\d+(?:\s*(?:[,;–-]|and)\s*S?\d+)*\s*\))"
_MARKS = rf"{_MARK}(?:\s*(?:,|and|&)?\s*{_MARK})*"
_POINTING = (
    r"(?:as\s+(?:is\s+)?(?:stated|mentioned|noted|shown|described|said|seen|given)\s+(?:in|by|on)|according\s+to|"
    r"based\s+on|see(?:\s+also)?|cf\.?|from|per|in|by)"
)
_SOURCE = r"(?:the\s+)?(?:passages?|sentences?|sources?|documents?|references?|quotes?|citations?)"
_OPENING = re.compile(rf"^\s*{_POINTING}\s+(?:{_SOURCE}\s*)?{_MARKS}\s*[,:]?\s+", re.IGNORECASE)
_POINTER = re.compile(rf"\s*,?\s*\b{_POINTING}\s+(?:{_SOURCE}\s*)?{_MARKS}|\s*{_MARKS}", re.IGNORECASE)
_LABEL = re.compile(
    rf"^\s*(?:(?:[-*•#>]+\s+|\(?S\d+\)?\s*[:.)–-]\s*|{_MARK}\s*[:.)–-]?\s*)(?=\S|$)|"
    r"(?:(?:sentence|passage|claim|answer|reference|quote)s?(?:\s+S?\d+)?\s*:\s*|"
    # A number opens a list, unless a month follows it ("12. Mai").
    r"\d{1,2}\)\s+|\d{1,2}\.\s+(?!(?:jan|feb|m[aä]r|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])))(?=\S))",
    re.IGNORECASE,
)
_HEADING = re.compile(r"#{1,6}[ \t][^\n]*|[^\n]+\n(?:=+|-+)[ \t]*")
_BLANKS_BEFORE = re.compile(r"\s+([.,;:!?])")
_DOUBLED = re.compile(r"[,;]\s*([.,;!?])")
_PLACEHOLDERS = frozenset(
    {"one sentence", "quoted sentences", "what follows from them for the question",
     "one sentence that follows from them and answers the question"}
)  # fmt: skip


def without_tags(text: str) -> str:
    """Replace tags and Markdown emphasis by blanks."""
    return _TAGS.sub(" ", text)


def tidy(text: str, titles: Sequence[str] = ()) -> str:
    """Take off what belongs to the form of a prompt or a citation style, and set white space right.

    Args:
        text: a claim or a quote as a model wrote it.
        titles: of the passages; one that opens the text, followed by a colon, a dash or a line break, is taken off.

    Returns:
        The text on one line; empty if nothing but labels and marks was in it.

    Example:
        >>> tidy("- S27: The capital is **Aster**, as stated in [1].")
        'The capital is Aster.'
        >>> tidy("Aster: The capital since 1871 [7]", titles=["Aster"])
        'The capital since 1871'
    """
    text = without_tags(text).strip()
    while (bare := _without_title(_LABEL.sub("", text), titles)) != text:
        text = bare
    opened = _OPENING.sub("", text)
    if opened != text:
        text = opened[:1].upper() + opened[1:]
    text = _POINTER.sub("", re.sub(r"\s+", " ", text))
    text = _DOUBLED.sub(r"\1", _BLANKS_BEFORE.sub(r"\1", re.sub(r"\s+", " ", text)))
    text = text.strip().lstrip(",;: ")
    return text if any(c.isalnum() for c in text) else ""


def _without_title(text: str, titles: Sequence[str]) -> str:
    for title in titles:
        rest = text[len(title) :]
        if title and text.casefold().startswith(title.casefold()) and re.match(r"\s*[:–—]\s|\s+-\s|[ \t]*\n", rest):
            return re.sub(r"^\s*[:–—-]?\s*", "", rest)
    return text


def is_heading(text: str) -> bool:
    """Return whether a sentence of a passage is a Markdown heading: it names a subject and states nothing.

    Example:
        >>> is_heading("# Maren Tolvard, navigator (1779–1851)"), is_heading("She sailed in 1799.")
        (True, False)
    """
    return _HEADING.fullmatch(text.strip()) is not None


def is_placeholder(text: str) -> bool:
    """Return whether a claim only repeats the words by which a prompt describes the form."""
    return re.sub(r"[\W_]+", " ", text).strip().casefold() in _PLACEHOLDERS
