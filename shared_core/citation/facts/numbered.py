"""Find things that a letter or number tells apart: "Lift 1" where the evidence speaks of Lift 2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from shared_core.citation.facts.dates import MONTHS
from shared_core.citation.facts.quantities import quantities_of
from shared_core.citation.facts.tokens import Sentence, Token, fold, stem
from shared_core.support.regex import lazy_regex

_LETTER = lazy_regex(r"[A-HJ-Z](?!\.\s*[A-Z])")  # "I" is a pronoun, and "F. K." are initials
_NUMBER = lazy_regex(r"\d{1,4}(?![.,:]?\d)")
_YEAR = lazy_regex(r"(?:1[5-9]|20)\d\d")
_FURTHER = lazy_regex(
    r"\s*(?:,\s*(?:and|or)\b|,|/|&|\+|\b(?:and|or)\b|(\bto\b|-|–))\s*(\d{1,4}(?![\w.:]*\d)|[A-Z])(?![\w’'])"
)
_ENDS = lazy_regex(r"\s*(?:\Z|[.,;:!?()\[\]–—-](?!\d))")
_VERB = lazy_regex(r"(?:s|ed)\Z")
_NO_NOUN = frozenset(
    "about around over under nearly almost only just least most until page line aged age total number times up next "
    "last past first another more".split()
)
_MOST = 100  # between the ends of a range


def numbered_otherwise(claim: Sentence, nearest: Sentence, held: Sequence[Sentence]) -> Iterator[tuple[str, str]]:
    """Find nouns with a letter or number that the sentence of the evidence has with other ones only.

    "Pontoon A" for "pontoon B"; not "room 3" for "rooms 1 to 5". Numbers and letters are not held against each other.
    Where the claim speaks of several, the evidence may have the others in other sentences.
    """
    there = _numbered(nearest)
    for noun, own in _numbered(claim).items():
        others = there.get(noun, {})
        elsewhere = (
            {label for s in held for label in _numbered(s).get(noun, {})} if own.keys() & others.keys() else set()
        )
        for label, shown in own.items():
            alike = [text for other, text in others.items() if other.isdigit() == label.isdigit()]
            if alike and label not in others and label not in elsewhere:
                yield shown, alike[0]


@lru_cache(maxsize=1024)
def _numbered(sentence: Sentence) -> dict[str, dict[str, str]]:
    """Map the stem of each noun to its letters and numbers, and these to noun and label as shown."""
    found: dict[str, dict[str, str]] = {}
    measures = {q.start for q in quantities_of(sentence.text) if q.unit}
    for noun, token in pairwise(sentence.tokens):
        if _is_label(sentence, noun, token, measures):
            labels = found.setdefault(stem(noun.text), {})
            labels.update((label, f"{noun.text} {label}") for label in _labels(sentence.text, token))
    return found


def _is_label(sentence: Sentence, noun: Token, token: Token, measures: set[int]) -> bool:
    """Whether a letter or number behind a word tells one of several from the others, rather than counts."""
    word, at = fold(noun.text), token.start
    if sentence.text[noun.end : at] != " " or not noun.is_content or word in _NO_NOUN:
        return False
    if _LETTER.match(sentence.text, at) and len(token.text) == 1:
        return True
    if not _NUMBER.fullmatch(token.text) or at in measures or word[:3] in MONTHS:
        return False
    if _YEAR.fullmatch(token.text) and not noun.is_capitalised:
        return False
    if noun.is_capitalised and not (noun.first and _VERB.search(word)):
        return True
    following = next((t for t in sentence.tokens if t.start >= token.end), None)
    return following is None or following.is_function_word or _ENDS.match(sentence.text, token.end) is not None


def _labels(text: str, token: Token) -> Iterator[str]:
    """The letter or number, and those that follow it in a list or range."""
    label, end = token.text, token.end
    yield label
    while further := _FURTHER.match(text, end):
        if further[1]:
            yield from _between(label, further[2])
        label, end = further[2], further.end()
        yield label


def _between(first: str, last: str) -> list[str]:
    if first.isdigit() and last.isdigit() and 0 < int(last) - int(first) <= _MOST:
        return [str(n) for n in range(int(first) + 1, int(last))]
    if not (first.isdigit() or last.isdigit()):
        return [chr(c) for c in range(ord(first) + 1, ord(last))]
    return []
