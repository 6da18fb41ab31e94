"""Decode generated ids to text exactly, token by token.

Text is put together from the bytes of each token, so that a character spread over several tokens and a stop string
that ends inside a token are handled exactly, and a space at the start of the first generated token is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any


class Detokenizer:
    """Decoder from token ids to bytes and text for one tokenizer of transformers, fast or slow."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        added = getattr(tokenizer, "added_tokens_decoder", None) or {}
        self._added = {int(i): str(t).encode() for i, t in added.items()}
        self._kind = _kind(tokenizer)
        self._cache: dict[int, bytes] = {}

    def piece(self, token_id: int) -> bytes:
        """Return the UTF-8 bytes of a token, which may be only part of a character."""
        known = self._cache.get(token_id)
        if known is None:
            known = self._cache[token_id] = self._look_up(token_id)
        return known

    def text(self, ids: Iterable[int]) -> str:
        """Decode ids that follow other text; invalid UTF-8 becomes U+FFFD."""
        return b"".join(map(self.piece, ids)).decode("utf-8", "replace")

    def _look_up(self, token_id: int) -> bytes:
        if token_id in self._added:
            return self._added[token_id]
        if token_id >= len(self._tokenizer):
            return b""  # models may have more outputs than their tokenizer has entries
        token = self._tokenizer.convert_ids_to_tokens(token_id)
        if token is None:
            return b""
        if self._kind == "byte_level":
            table = _byte_level_table()
            if all(c in table for c in token):
                return bytes(table[c] for c in token)
        elif self._kind == "sentencepiece":
            if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
                return bytes([int(token[3:5], 16)])
            return str(token).replace("▁", " ").encode()
        return self._by_decoding(token_id)

    def _by_decoding(self, token_id: int) -> bytes:
        """Return the text that a token adds behind another one, using the tokenizer's own decoder."""
        anchor = self._tokenizer.encode("a", add_special_tokens=False)[:1]
        before = str(self._tokenizer.decode(anchor, clean_up_tokenization_spaces=False))
        both = str(self._tokenizer.decode([*anchor, token_id], clean_up_tokenization_spaces=False))
        return (both[len(before) :] if both.startswith(before) else both).encode()


def _kind(tokenizer: Any) -> str:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return "sentencepiece" if hasattr(tokenizer, "sp_model") else "other"
    decoder = repr(backend.decoder)
    if "ByteLevel" in decoder:
        return "byte_level"
    return "sentencepiece" if "ByteFallback" in decoder or "Metaspace" in decoder or "▁" in decoder else "other"


@lru_cache(maxsize=1)
def _byte_level_table() -> dict[str, int]:
    """Return the character-to-byte table of byte-level BPE: printable bytes map to themselves, others to 256, 257, …"""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    return {chr(b): b for b in shown} | {chr(256 + i): b for i, b in enumerate(hidden)}


class StopScanner:
    """Scanner for stop strings in the bytes of one sample, independent of token borders."""

    def __init__(self, stops: Sequence[str]) -> None:
        # A lone surrogate has no bytes in UTF-8: such a stop string is never found, and is no reason to fail.
        self._stops = [(s, s.encode("utf-8", "surrogatepass")) for s in stops]
        self._longest = max((len(b) for _, b in self._stops), default=0)
        self._buffer = bytearray()

    def feed(self, piece: bytes) -> str | None:
        """Add a token's bytes; return the stop string that is now complete (the one that begins first), or ``None``."""
        start = max(0, len(self._buffer) - self._longest + 1)
        self._buffer += piece
        found = [(at, -len(b), s) for s, b in self._stops if (at := self._buffer.find(b, start)) >= 0]
        return min(found)[2] if found else None

    def cut(self, stop: str, include: bool) -> str:
        """Return the text up to the stop string, with or without it."""
        return self._buffer[: self._end(stop, include)].decode("utf-8", "replace")

    def overrun(self, stop: str, include: bool) -> int:
        """Count the bytes fed beyond ``cut``; 0 if the stop string was never fed."""
        return len(self._buffer) - self._end(stop, include)

    def _end(self, stop: str, include: bool) -> int:
        before, found, _ = self._buffer.partition(stop.encode("utf-8", "surrogatepass"))
        return len(before) + len(found) if include else len(before)


def spell_within(token_id: int, piece: bytes, overrun: int, spell: Callable[[str], Sequence[int]]) -> list[int]:
    """Choose tokens to replace a last token of which ``overrun`` bytes lie beyond the returned text.

    Nothing where it adds only blanks to the text: " The" that completed the stop string ". " is the next sentence's.
    The token itself where nothing but blanks lies beyond, else the part within, spelt anew.
    """
    inside, beyond = piece[: max(0, len(piece) - overrun)], piece[max(0, len(piece) - overrun) :]
    if not inside.strip():
        return []
    return list(spell(inside.decode("utf-8", "replace"))) if beyond.strip() else [token_id]
