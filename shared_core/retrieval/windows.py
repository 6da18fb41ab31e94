"""Cut a passage into the texts that a plain embedder embeds: each sentence by itself, and the whole.

One vector for a whole passage blurs its sentences, and most models silently truncate long texts. So each sentence gets
a vector too, and a passage is as near to a query as the nearest of its windows (MaxP, Dai and Callan 2019). An embedder
with ``embed_passages`` (``base.PassageEmbedder``, such as MiniLM) does better.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from shared_core.citation.sentences import split_sentences
from shared_core.errors import InputError
from shared_core.types import Passage

Granularity = Literal["sentence", "passage"]
"""One vector for each sentence and one for the whole passage, or only the latter (a fifth of the memory)."""

MIN_CHARS = 25
"""Shorter sentences are merged with the next one: ``St.``, ``No.`` and headings mean nothing by themselves."""
MAX_COST = 200
"""Longest window in estimated word pieces, well below the limit of common models."""


def check_granularity(granularity: Granularity) -> Granularity:
    """Return ``granularity``; InputError if it is unknown."""
    if granularity not in ("sentence", "passage"):
        raise InputError(f"Unknown granularity {granularity!r}.", hint="Known: sentence, passage.")
    return granularity


def windows(passage: Passage, granularity: Granularity = "sentence") -> list[str]:
    """List the texts to embed for a passage: sentences that together cover its text, then the whole; at least one."""
    title = passage.title.strip()
    text = passage.text.strip()
    whole = f"{title}\n{text}".strip()
    if granularity == "passage" or not text:
        return [whole or passage.id]
    spans = merge_short(text, split_sentences(text), MIN_CHARS) or [(0, len(text))]
    parts = [part for start, end in spans for part in _limit(text[start:end])]
    return parts if parts == [whole] else [*parts, whole]


def merge_short(text: str, spans: Iterable[tuple[int, int]], least: int) -> list[tuple[int, int]]:
    """Merge sentences shorter than ``least`` with the next one, the last one with the one before.

    Args:
        text: text of the spans.
        spans: half-open, in order, not overlapping.
        least: in ASCII characters; a character of another script counts as four.
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


def _limit(text: str) -> list[str]:
    """Cut a text into pieces of at most ``MAX_COST``, at white space if possible."""
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
    """Estimate word pieces: four ASCII characters, or one other character, make one."""
    other = 0 if text.isascii() else sum(1 for c in text if c > "\x7f")
    return (len(text) - other) / 4 + other


def _reach(text: str) -> int:
    cost = 0.0
    for i, char in enumerate(text):
        cost += 0.25 if char <= "\x7f" else 1.0
        if cost > MAX_COST:
            return max(i, 1)
    return len(text)
