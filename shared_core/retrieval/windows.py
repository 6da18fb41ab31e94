"""What of a passage is embedded where an embedder knows texts only: each sentence by itself, and the whole.

One vector for a whole passage blurs what single sentences say, and most models cut off what exceeds their length
without a word. So each sentence gets a vector too, and a passage is as near to a query as the nearest of its windows
(the MaxP of Dai and Callan 2019). An embedder with ``embed_passages`` (``base.PassageEmbedder``; MiniLM is one) does
better.

The cuts need not be linguistically right, only good places: offsets for quoting come from ``shared_core.citation``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from shared_core.errors import InputError
from shared_core.types import Passage

Granularity = Literal["sentence", "passage"]
"""A vector for each sentence and one for the whole passage, or only the latter (a fifth of the memory)."""

MIN_CHARS = 25
"""A sentence shorter than this goes with the next one: ``St.``, ``No.`` and headings say nothing by themselves."""
MAX_COST = 200
"""Longest window in estimated word pieces; well under what the usual models read."""

_END = re.compile(r"[.!?…]+[\"”’)\]»]*\s+(?=[\"“‘(\[«¿¡]*[^\W_a-z])|[。！？؟।॥]+[」』”’）]*\s*|\n\s*\n")


def check_granularity(granularity: Granularity) -> Granularity:
    """``granularity`` if there is one of that name, else InputError."""
    if granularity not in ("sentence", "passage"):
        raise InputError(f"There is no granularity {granularity!r}.", hint="Known: sentence, passage.")
    return granularity


def windows(passage: Passage, granularity: Granularity = "sentence") -> list[str]:
    """The texts to embed for a passage, at least one: its sentences, which together cover the text, then the whole."""
    title = passage.title.strip()
    text = passage.text.strip()
    whole = f"{title}\n{text}".strip()
    if granularity == "passage" or not text:
        return [whole or passage.id]
    parts = [part for sentence in _sentences(text) for part in _limit(sentence)]
    return parts if parts == [whole] else [*parts, whole]


def merge_short(text: str, spans: Iterable[tuple[int, int]], least: int) -> list[tuple[int, int]]:
    """Sentences of at least ``least`` characters: a shorter one goes with the next, the last one with the one before.

    Args:
        text: that the spans are of.
        spans: half-open, in order, not overlapping.
        least: in ASCII characters; one of any other script counts as four.
    """
    out: list[tuple[int, int]] = []
    for start, end in spans:
        if out and _cost(text[out[-1][0] : out[-1][1]]) * 4 < least:
            out[-1] = (out[-1][0], end)
        else:
            out.append((start, end))
    if len(out) > 1 and _cost(text[out[-1][0] : out[-1][1]]) * 4 < least:
        out[-2:] = [(out[-2][0], out[-1][1])]
    return out


def _sentences(text: str) -> list[str]:
    out: list[str] = []
    start = 0
    for match in _END.finditer(text):
        if _cost(text[start : match.end()]) * 4 >= MIN_CHARS:
            out.append(text[start : match.end()].strip())
            start = match.end()
    rest = text[start:].strip()
    if rest and out and _cost(rest) * 4 < MIN_CHARS:
        out[-1] = f"{out[-1]} {rest}"
    elif rest:
        out.append(rest)
    return [part for part in out if part]


def _limit(text: str) -> list[str]:
    """Pieces of at most ``MAX_COST``, cut at white space where there is some."""
    out: list[str] = []
    while _cost(text) > MAX_COST:
        end = _reach(text)
        blank = text.rfind(" ", end // 2, end)
        end = blank if blank > 0 else end
        out.append(text[:end].strip())
        text = text[end:].strip()
    if text:
        out.append(text)
    return out


def _cost(text: str) -> float:
    """Estimated word pieces: four ASCII characters to one, any other character one."""
    other = 0 if text.isascii() else sum(1 for c in text if c > "\x7f")
    return (len(text) - other) / 4 + other


def _reach(text: str) -> int:
    cost = 0.0
    for i, char in enumerate(text):
        cost += 0.25 if char <= "\x7f" else 1.0
        if cost > MAX_COST:
            return max(i, 1)
    return len(text)
