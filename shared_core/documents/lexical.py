"""BM25 over the passages of an index, computed from its FTS5 table.

FTS5 keeps the words and finds the places of each; the score is computed here, because FTS5's own ``bm25()`` fixes
k1 = 1.2 and b = .75, adds word pairs as words of their own (four times the size on disk), and ranks the right passage
first less often (docs/retrieval.md). Scores equal those of ``BM25Retriever`` over the same passages.

A query reads the lengths of all passages once, then only the places of its words. Two words are adjacent where their
places differ by one, so pairs need no index.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from shared_core.documents.manifest import Manifest, tokenizer
from shared_core.retrieval.bm25 import DIGITS, K1, PHRASES, B

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PLACE_BITS = 20  # of the position within a passage, which has at most 20,000 characters
_PLACES = f'SELECT group_concat((doc << {_PLACE_BITS}) + "offset") FROM places WHERE term = ?'


class StoredWords:
    """The words of an index at the time this was made. Safe to use from several threads at once."""

    def __init__(self, manifest: Manifest) -> None:
        import numpy as np

        self._manifest = manifest
        # FTS5 still holds words of deleted passages; only rows listed here exist.
        found = manifest.rows("SELECT row, words FROM passages ORDER BY row")
        self._rows, self._lengths = np.array(found, np.int64).reshape(-1, 2).T  # both (N,)

    def __len__(self) -> int:
        return len(self._rows)

    def rank(self, query: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Rank all passages that share a word with the query.

        Returns:
            Rows, best first, and their scores; equal scores in the order in which the passages were indexed.
        """
        import numpy as np

        words = tokenizer()(query)
        scores = np.zeros(len(self))
        if not words or not self._lengths.any():
            return np.empty(0, np.int64), np.empty(0)
        places = {word: self._places(word) for word in dict.fromkeys(words)}
        self._add(scores, [places[word] for word in words], self._lengths, 1.0)
        if (self._lengths > 1).any():
            adjacent = [_adjacent(places[first], places[second]) for first, second in pairwise(words)]
            self._add(scores, adjacent, np.maximum(self._lengths - 1, 0), PHRASES)  # n words have n - 1 pairs
        scores = np.round(scores, DIGITS)
        best = np.flatnonzero(scores > 0)
        best = best[np.argsort(-scores[best], kind="stable")]
        return self._rows[best], scores[best]

    def _add(
        self,
        scores: NDArray[np.float64],
        terms: Sequence[NDArray[np.int64]],
        lengths: NDArray[np.int64],
        weight: float,
    ) -> None:
        """Add ``weight`` times each term's BM25 score (``bm25``) to the (N,) scores; a term is given by its places."""
        import numpy as np

        count, mean = len(self), float(lengths.mean())
        for term in terms:
            rows, frequency = np.unique(term >> _PLACE_BITS, return_counts=True)
            at = np.minimum(np.searchsorted(self._rows, rows), count - 1)
            exists = self._rows[at] == rows
            at, frequency = at[exists], frequency[exists]
            idf = math.log(1 + (count - len(at) + 0.5) / (len(at) + 0.5))
            norm = K1 * (1 - B + B * lengths[at] / mean)
            scores[at] += weight * idf * frequency * (K1 + 1) / (frequency + norm)

    def _places(self, word: str) -> NDArray[np.int64]:
        """Places of a word as (row << 20) + position, ascending."""
        import numpy as np

        # One string parsed by numpy is twice as fast as a Python tuple for each place.
        joined = self._manifest.rows(_PLACES, (word,))[0][0]
        found: NDArray[np.int64] = np.fromstring(joined or "", np.int64, sep=",")
        return found


def _adjacent(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places of ``first`` right before a place of ``second``."""
    import numpy as np

    found: NDArray[np.int64] = np.intersect1d(first, second - 1, assume_unique=True)
    return found
