"""Links of a model's text: an address that neither the passages nor the question have is the model's own."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from functools import cached_property

from shared_core.citation.facts.literals import has_address
from shared_core.support.markup import edit_links
from shared_core.types import Claim, Passage

_BARE = re.compile(r"\bhttps?://[^\s<>()\[\]\"`“”]+(?<![.,;:!?'’*_~|])", re.IGNORECASE)
_REFERENCE = re.compile(rf"\s*[(\[](?:source|see|from)?:?\s*({_BARE.pattern})\s*[)\]]", re.IGNORECASE)


class Addresses:
    """The addresses that question and passages have, in their texts, titles, ids and metadata.

    >>> known = Addresses("Where?", [Passage("a", "See https://orm.example/lamp.")])
    >>> known.without_others("[Here](https://orm.example/lamp) or [there](http://evil.example).")
    '[Here](https://orm.example/lamp) or there.'
    """

    def __init__(self, question: str, passages: Sequence[Passage]) -> None:
        self._question, self._passages = question, passages

    @cached_property
    def _text(self) -> str:
        texts = [self._question]
        for passage in self._passages:
            texts += [passage.text, passage.title, passage.id]
            texts += [value for value in passage.metadata.values() if isinstance(value, str)]
        return "\n".join(texts)

    def has(self, address: str) -> bool:
        """Whether question or passages have this address."""
        return has_address(address, self._text)

    def without_others(self, text: str) -> str:
        """Take the targets of links that are unknown out of a Markdown text; their labels stay."""
        return edit_links(text, lambda label, target: f"[{label}]({target})" if self.has(target) else label)

    def unknown_in(self, text: str) -> str:
        """Return a text with its known addresses left out, and the unknown targets of its links spelt out."""
        text = edit_links(text, lambda label, target: label if self.has(target) else f"{label} {target}")
        return _BARE.sub(lambda url: "" if self.has(url[0]) else url[0], text)

    def without_references(self, text: str) -> str:
        """Take out known addresses in brackets: they say where a statement is from, and are no part of it."""
        return _REFERENCE.sub(lambda url: "" if self.has(url[1]) else url[0], text)


def without_unknown_links(claims: Sequence[Claim], question: str, passages: Sequence[Passage]) -> list[Claim]:
    """Take the targets of links that no passage has out of claims: a reader follows a link in trust.

    >>> claim = Claim("[A ticket costs £5.](http://evil.example)")
    >>> without_unknown_links([claim], "", [])[0].text
    'A ticket costs £5.'
    """
    if not any("](" in c.text for c in claims):
        return list(claims)
    known = Addresses(question, passages)
    return [_edited(c, known) for c in claims]


def _edited(claim: Claim, known: Addresses) -> Claim:
    text = known.without_others(claim.text)
    if text == claim.text or not text.strip():
        return claim  # the same object: callers tell claims by identity
    short = claim.short_answer
    return dataclasses.replace(claim, text=text, short_answer=short and known.without_others(short))
