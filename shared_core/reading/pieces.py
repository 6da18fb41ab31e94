"""Questions, claims and passages as word pieces of all-MiniLM-L6-v2, in windows that the network can take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared_core.retrieval.minilm import MiniLM

MAX_TOKENS = 256
"""Text tokens in one window; the model has 512 positions, and the title takes some."""
MAX_TITLE_TOKENS = 32
MAX_ASKED_TOKENS = 128


@dataclass(frozen=True, slots=True)
class Pieces:
    """A question, a claim, or a window of a passage behind its title: ``[CLS] (title [SEP]) text [SEP]``.

    Attributes:
        ids: (n,) word piece ids, with the marks and the title.
        body: where the text's own pieces are in ``ids``.
        starts, ends: (pieces of the text,) code points: ``text[starts[i]:ends[i]]`` is piece ``i`` of ``body``.
    """

    ids: NDArray[np.int64]
    body: slice
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @property
    def body_ids(self) -> NDArray[np.int64]:
        """(pieces of the text,) their ids."""
        return self.ids[self.body]


class PieceTokenizer:
    """Cuts texts into word pieces of the encoder. Safe from several threads."""

    def __init__(self, encoder: MiniLM) -> None:
        self._encoder = encoder

    def asked(self, text: str) -> Pieces:
        """A question or claim; pieces past ``MAX_ASKED_TOKENS`` are left out."""
        ids, starts, ends = (part[:MAX_ASKED_TOKENS] for part in self._cut(text))
        return self._framed([], ids, starts, ends)

    def number(self, word: str) -> int | None:
        """The number of a word in small letters that is one piece, most frequent words first; ``None`` of others."""
        return self._encoder.number(word)

    def windows(self, text: str, title: str, sentences: Sequence[tuple[int, int]]) -> list[Pieces]:
        """A passage in windows of whole sentences, each behind the title; offsets are the passage's.

        A sentence longer than a window is cut at the window's end and goes on in the next one; nothing is left out.
        """
        ids, starts, ends = self._cut(text)
        head = [int(i) for i in self._cut(title)[0][:MAX_TITLE_TOKENS]]
        return [self._framed(head, ids[a:b], starts[a:b], ends[a:b]) for a, b in ranges(starts, sentences)]

    def _cut(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        (encoding,) = self._encoder.tokenize([text])
        offsets = np.asarray(encoding.offsets, dtype=np.int64).reshape(-1, 2)
        return np.asarray(encoding.ids, dtype=np.int64), offsets[:, 0], offsets[:, 1]

    def _framed(
        self, head: list[int], ids: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> Pieces:
        prefix = [self._encoder.cls, *head, self._encoder.sep] if head else [self._encoder.cls]
        whole = np.concatenate([np.array(prefix, dtype=np.int64), ids, np.array([self._encoder.sep], dtype=np.int64)])
        return Pieces(whole, slice(len(prefix), len(prefix) + len(ids)), starts, ends)


def ranges(starts: NDArray[np.int64], sentences: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of word pieces: as many whole sentences as fit ``MAX_TOKENS``.

    Args:
        starts: (n,) code points at which pieces begin.
        sentences: (start, end) code points of each sentence.
    """
    if not len(starts):
        return []
    # the first piece of every sentence; the end of all
    cuts = sorted({0, len(starts), *(int(np.searchsorted(starts, s)) for s, _ in sentences)})
    out: list[tuple[int, int]] = []
    begin = 0
    for cut, following in zip(cuts[1:], [*cuts[2:], None]):
        while cut - begin > MAX_TOKENS:  # one sentence is longer than a window
            out.append((begin, begin + MAX_TOKENS))
            begin += MAX_TOKENS
        if following is None or following - begin > MAX_TOKENS:
            if cut > begin:
                out.append((begin, cut))
            begin = cut
    return out
