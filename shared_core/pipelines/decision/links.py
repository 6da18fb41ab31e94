"""Links and marks of citations of a model's text: one that neither passages nor question have is the model's own.

A model that writes "[1]" names whatever it numbered so. Ours are put behind its claims later, and count our quotes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from functools import cached_property

from shared_core.citation.facts.literals import has_address
from shared_core.support.markup import edit_links
from shared_core.support.regex import lazy_regex
from shared_core.types import Claim, Passage

_BARE = lazy_regex(r"\bhttps?://[^\s<>()\[\]\"`“”]+(?<![.,;:!?'’*_~|])", re.IGNORECASE)
_REFERENCE = lazy_regex(rf"\s*[(\[](?:source|see|from)?:?\s*({_BARE.pattern})\s*[)\]]", re.IGNORECASE)
_MARKS = lazy_regex(r"\s*(?:\[\^?\d{1,3}(?:\s?[,;–-]\s?\^?\d{1,3}){0,9}\](?:\([^()\s]{0,300}\))?|【\d[^】\n]{0,40}】)")
_WORD_BEFORE = lazy_regex(r"\S+\s*\Z")
_NAME = lazy_regex(r"(?:(?<!\w)[A-Za-z]\w?|[_$]\w*|\w\.\w+)\Z")
"""A name of code right before brackets: "x[0]"."""
_POINTS = lazy_regex(
    r"(?:\b(?:in|by|from|to|of|see|per|with|and|or|than|is|are|was|were|be|equals|returns|vector|array|list)|[=:,(+*/<>-])"
    r"\s*\Z",
    re.IGNORECASE,
)
"""What a number in brackets completes: without it the sentence would be broken ("returns [3]", "as stated in [2]")."""


class Addresses:
    """The addresses that question and passages have, in their texts, titles, ids and metadata.

    And the marks of citations: a document may have some of its own, which its quotes repeat.

    >>> known = Addresses("Where?", [Passage("a", "See https://orm.example/lamp.")])
    >>> known.without_others("[Here](https://orm.example/lamp) or [there](http://evil.example).")
    '[Here](https://orm.example/lamp) or there.'
    """

    def __init__(self, question: str, passages: Sequence[Passage]) -> None:
        self._question, self._passages = question, passages

    @cached_property
    def text(self) -> str:
        """The texts that may hold them, one below the other."""
        texts = [self._question]
        for passage in self._passages:
            texts += [passage.text, passage.title, passage.id]
            texts += [value for value in passage.metadata.values() if isinstance(value, str)]
        return "\n".join(texts)

    def has(self, address: str) -> bool:
        """Whether question or passages have this address."""
        return has_address(address, self.text)

    def without_others(self, text: str) -> str:
        """Take the targets of links that are unknown out of a Markdown text, and unknown marks; labels stay.

        >>> known = Addresses("What is it?", [Passage("a", "Rule [3] holds.")])
        >>> known.without_others("[1] Rule [3] holds here [2].")
        'Rule [3] holds here.'
        """
        text = self._without_marks(text)
        return edit_links(text, lambda label, target: f"[{label}]({target})" if self.has(target) else label)

    def _without_marks(self, text: str) -> str:
        pieces, last = [], 0
        for mark in _MARKS.finditer(text):
            if self._has_mark(text, mark):
                continue
            pieces.append(text[last : mark.start()])
            last = mark.end()
        if not last:
            return text
        left = "".join([*pieces, text[last:]])
        left = left if left[:1] == text[:1] else left.lstrip()  # it began with a mark
        return left if any(c.isalnum() for c in left) else text

    def _has_mark(self, text: str, mark: re.Match[str]) -> bool:
        """Whether a mark is part of the text: documents have it there, or it belongs to code or to a value."""
        before = text[: mark.start()]
        if before.count("`") % 2 or _POINTS.search(before[-20:]) or (mark[0][0] == "[" and _NAME.search(before[-20:])):
            return True
        beside = _WORD_BEFORE.search(before[-60:])
        after = text[mark.end() : mark.end() + 60].split()
        near = (beside[0] if beside else "") + mark[0] + ("" if beside or not after else after[0])
        return _squeeze(near) in self._squeezed

    @cached_property
    def _squeezed(self) -> str:
        return _squeeze("\n".join([self._question, *(f"{p.title}\n{p.text}" for p in self._passages)]))

    def unknown_in(self, text: str) -> str:
        """Return a text with its known addresses left out, and the unknown targets of its links spelt out."""
        text = edit_links(text, lambda label, target: label if self.has(target) else f"{label} {target}")
        return _BARE.sub(lambda url: "" if self.has(url[0]) else url[0], text)

    def without_references(self, text: str) -> str:
        """Take out known addresses in brackets: they say where a statement is from, and are no part of it."""
        return _REFERENCE.sub(lambda url: "" if self.has(url[1]) else url[0], text)


def without_own_references(claims: Sequence[Claim], question: str, passages: Sequence[Passage]) -> list[Claim]:
    """Take out of claims what refers to no passage: targets of links, which a reader follows in trust, and marks.

    >>> claim = Claim("[A ticket costs £5.](http://evil.example) [4]")
    >>> without_own_references([claim], "", [])[0].text
    'A ticket costs £5.'
    """
    if not any("[" in c.text or "【" in c.text for c in claims):
        return list(claims)
    known = Addresses(question, passages)
    return [_edited(c, known) for c in claims]


def _squeeze(text: str) -> str:
    return "".join(text.split())


def _edited(claim: Claim, known: Addresses) -> Claim:
    text = known.without_others(claim.text)
    if text == claim.text or not text.strip():
        return claim  # the same object: callers tell claims by identity
    short = claim.short_answer
    return dataclasses.replace(claim, text=text, short_answer=short and known.without_others(short))
