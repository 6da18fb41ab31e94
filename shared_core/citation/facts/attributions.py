"""Take off the clauses by which an answer points to what it was written from: "According to the handbook, …"."""

from __future__ import annotations

import re
from collections.abc import Callable

from shared_core.citation.facts.tokens import fold, tokens_of
from shared_core.support.files import read_lists
from shared_core.support.regex import lazy_regex

__all__ = ["POINTING", "without_attribution"]

_TOLD = (
    r"(?:stated|mentioned|noted|shown|described|said|seen|given|outlined|explained|specified|indicated|listed|written|"
    r"set out|laid out)"
)
POINTING = rf"(?:as\s+(?:is\s+)?{_TOLD}\s+(?:in|by|on)|according\s+to|based\s+(?:up)?on|as\s+per|per)"
"""Pattern of the words that stand before a source."""
_LISTS = {name: words.split() for name, words in read_lists("shared_core.citation.facts", "attributions.txt").items()}
_GENERIC = frozenset(word for words in _LISTS.values() for word in words)
_OTHERS = frozenset(("a", "an", "other", "another", "some", "any", "each", "such"))
_PASSAGES = "|".join(_LISTS["passages"])
_HEADS = "|".join([*_LISTS["passages"], *_LISTS["documents"]])
_SAYS = (
    r"(?:(?:clearly|explicitly|also|further)\s+)?"
    r"(?:says?|states?|mentions?|notes?|explains?|specif(?:y|ies)|indicates?|confirms?|reads?|shows?|tells? us)"
)
_GIVEN = (
    r"(?:\s+(?:(?:that\s+)?(?:(?:you|i|we)(?:['’]ve|\s+have)?\s+|was\s+|were\s+)?"
    r"(?:provided|given|gave|shared|supplied|retrieved|found|uploaded|above|below)|itself))?"
)


def _named(heads: str) -> str:
    """Pattern of a source: "the", up to five words, the word for it, and whose or what it is of."""
    return (
        r"(?:(?:the|this|that|these|those|your|our|their|its|my)\s+)?"
        rf"(?P<kind>(?:[\w'’&-]+\s+){{0,5}}?)(?:{heads}){_GIVEN}(?P<of>(?:\s+(?:of|for|on|from|in)(?:\s+[\w'’&-]+){{1,6}}?)?)"
    )


_BEFORE = r"\A(?P<before>\W*(?:(?:yes|no|sure|so|also|answer)\b[,.:;!]?\s+)?)"
_LEADING = tuple(
    lazy_regex(rf"{_BEFORE}{rest}(?=\S)", re.IGNORECASE)
    for rest in (
        rf"{POINTING}\s+{_named(_HEADS)}\s*[,:]\s*",
        rf"(?:from|in|within)\s+{_named(_PASSAGES)}\s*[,:]\s*",
        rf"(?:in|on)\s+{_named(_HEADS)}\s*,?\s+it\s+(?:{_SAYS}|is\s+{_TOLD})\s*(?:that\b|[:,])\s*",
        rf"it\s+(?:{_SAYS}|is\s+{_TOLD})\s+(?:in|on)\s+{_named(_HEADS)}\s*(?:that\b|[:,])\s*",
        rf"(?:as\s+)?{_named(_HEADS)}\s+{_SAYS}\s*(?:that\b|[:,])\s*",
    )
)
_TRAILING = lazy_regex(rf"\s*[,(]?\s*\b{POINTING}\s+{_named(_HEADS)}\)?(?P<end>[\s.!\"”’]*)\Z", re.IGNORECASE)
_REACH = 160  # characters from the end of a sentence


def without_attribution(sentence: str, is_known: Callable[[str], bool] = lambda key: False) -> str:
    """Return a sentence without the clause that says what it was taken from.

    Only a word for a source of any kind is taken off, with words that tell no other source: "According to Smith" and
    "According to the Times" claim something.

    Args:
        is_known: whether the passages, their titles or the question have the word of this key (``tokens.stem``): then
            it may name the source, too.

    >>> without_attribution("Based on the provided context, a ticket costs £5.")
    'A ticket costs £5.'
    >>> without_attribution("According to the Harwich guide, a ticket costs £5.")
    'According to the Harwich guide, a ticket costs £5.'
    """
    for pattern in _LEADING:
        found = pattern.match(sentence)
        if found is not None and _is_generic(found, is_known):
            before, rest = found["before"], sentence[found.end() :]
            sentence = before + rest if before.strip() else rest[:1].upper() + rest[1:]
            break
    start = max(0, len(sentence) - _REACH)
    found = _TRAILING.search(sentence, start)
    if found is not None and found.start() > 0 and _is_generic(found, is_known):
        sentence = sentence[: found.start()] + found["end"]
    return sentence


def _is_generic(found: re.Match[str], is_known: Callable[[str], bool]) -> bool:
    words = [*tokens_of(found["kind"]), *tokens_of(found["of"])]
    if any(fold(t.text) in _OTHERS for t in words):
        return False
    return all(t.is_function_word or fold(t.text) in _GENERIC or is_known(t.key) for t in words)
