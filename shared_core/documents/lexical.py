"""BM25 over the passages of an index, from its file: nothing is built at the start and little is held in memory.

The words of some thousand passages, a block, are numbered one after another, with a gap behind each passage, and for
each word of the block the numbers of its places are kept in one row. A query reads the rows of its words: how often a
word is in a passage is the number of its places there, and two words stand side by side where their places differ by
one, so pairs need no index of their own. The scores are ``bm25``'s, to its nine decimals.

Four bytes a word. A block is never changed; passages that are gone are passed over, and blocks of which little is left
are made anew.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from shared_core.documents.manifest import Manifest
from shared_core.documents.manifest_file import RESTORE
from shared_core.errors import IndexCorruptedError
from shared_core.retrieval.bm25 import DIGITS, K1, PHRASES, B
from shared_core.retrieval.tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.signedinteger[Any]]

BLOCK = 4096
"""Passages in a block at most."""
_FEW = 8  # blocks that are less than half full before they are put together
_VERSION = "english 1"
"""Raised whenever the same passage may give other words."""
_KEPT = 4_000_000  # places kept from query to query


def index_words(manifest: Manifest) -> None:
    """Put the words of all passages that are in no block yet into blocks; each block is one transaction."""
    if manifest.get("words") != _VERSION:
        with manifest.transaction() as connection:
            connection.execute("UPDATE passages SET block = NULL")
            connection.execute("DELETE FROM blocks")
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('words', ?)", (_VERSION,))
    _drop_thin_blocks(manifest)
    tokenize = Tokenizer()
    while True:
        rows = [
            int(r[0])
            for r in manifest.rows("SELECT row FROM passages WHERE block IS NULL ORDER BY row LIMIT ?", (BLOCK,))
        ]
        if not rows:
            return
        found = manifest.passages_at(rows)
        words = [tokenize(f"{p.title}\n{p.text}") for p in found.values()]
        _put_block(manifest, list(found), words)


def _drop_thin_blocks(manifest: Manifest) -> None:
    """Take blocks apart whose passages are mostly gone, and small ones once there are several."""
    counted = manifest.rows(
        "SELECT b.id, length(b.rows) / 8, count(p.row) FROM blocks b LEFT JOIN passages p ON p.block = b.id "
        "GROUP BY b.id"
    )
    gone = {int(block) for block, size, alive in counted if alive * 2 < size}
    small = {int(block) for block, _, alive in counted if alive * 2 < BLOCK} - gone
    for block in gone | (small if len(small) >= _FEW else set()):
        with manifest.transaction() as connection:
            connection.execute("UPDATE passages SET block = NULL WHERE block = ?", (block,))
            connection.execute("DELETE FROM blocks WHERE id = ?", (block,))


def _put_block(manifest: Manifest, rows: Sequence[int], words: Sequence[Sequence[str]]) -> None:
    import numpy as np

    places, lengths = _numbered(words)
    with manifest.transaction() as connection:
        block = connection.execute(
            "INSERT INTO blocks (rows, lengths) VALUES (?, ?)", (np.array(rows, "<i8").tobytes(), lengths.tobytes())
        ).lastrowid
        connection.executemany(
            "INSERT INTO postings VALUES (?, ?, ?)", ((block, word, places[word].tobytes()) for word in sorted(places))
        )
        connection.executemany("UPDATE passages SET block = ? WHERE row = ?", ((block, row) for row in rows))


def _numbered(words: Sequence[Sequence[str]]) -> tuple[dict[str, Numbers], Numbers]:
    """The places of each word of a block, and how many words each passage has."""
    import numpy as np

    places: defaultdict[str, array[int]] = defaultdict(lambda: array("i"))
    at = 0
    for mine in words:
        for word in mine:
            places[word].append(at)
            at += 1
        at += 1  # the gap: the last word of a passage and the first of the next are no pair
    lengths = np.array([len(mine) for mine in words], "<i4")
    return {word: np.array(found, "<i4") for word, found in places.items()}, lengths


@dataclass(frozen=True, slots=True)
class _Block:
    number: int
    starts: Numbers  # first place of each passage
    offset: int  # number of its first passage among all
    places: dict[str, Numbers] | None = None  # of a block that is in memory only


class StoredWords:
    """The words of an index as it was when this was made. May be used from several threads at once.

    Args:
        manifest: a snapshot.
        k1, b, phrases: as for ``BM25Retriever``.
    """

    def __init__(self, manifest: Manifest, *, k1: float = K1, b: float = B, phrases: float = PHRASES) -> None:
        import numpy as np

        self._manifest = manifest
        self._tokenize = Tokenizer()
        self._k1, self._b, self._phrases = k1, b, phrases
        self._lock = threading.Lock()
        self._known: OrderedDict[str, list[Numbers]] = OrderedDict()
        self._held = 0
        self._blocks: list[_Block] = []
        rows: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
        lengths: list[Numbers] = [np.empty(0, np.int32)]
        alive: list[NDArray[np.bool_]] = [np.empty(0, np.bool_)]
        current = manifest.get("words") == _VERSION
        for number, packed, sizes in manifest.rows("SELECT id, rows, lengths FROM blocks") if current else []:
            here = manifest.rows("SELECT row FROM passages WHERE block = ?", (number,))
            rows.append(_numbers(packed, "<i8"))
            lengths.append(_numbers(sizes, "<i4"))
            alive.append(np.isin(rows[-1], np.array([row for (row,) in here], np.int64)))
            self._blocks.append(_Block(int(number), _starts(lengths[-1]), sum(map(len, rows[:-1]))))
        which = "WHERE block IS NULL" if current else ""
        loose = [int(r[0]) for r in manifest.rows(f"SELECT row FROM passages {which} ORDER BY row")]
        for first in range(0, len(loose), BLOCK):  # an update did not come to them, and nothing may be written here
            found = manifest.passages_at(loose[first : first + BLOCK])
            places, sizes = _numbered([self._tokenize(f"{p.title}\n{p.text}") for p in found.values()])
            rows.append(np.array(list(found), np.int64))
            lengths.append(sizes)
            alive.append(np.ones(len(found), np.bool_))
            self._blocks.append(_Block(-1, _starts(sizes), sum(map(len, rows[:-1])), places))
        self._rows = np.concatenate(rows)  # of gone passages too
        self._lengths: Numbers = np.concatenate(lengths)
        self._alive = np.concatenate(alive)
        self._order = np.argsort(self._rows, kind="stable")

    def __len__(self) -> int:
        return int(self._alive.sum())

    def rank(self, query: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Rows of all passages that share a word with the query, best first, and their scores.

        Equal scores are in the order in which the passages were indexed.
        """
        import numpy as np

        words = self._tokenize(query)
        scores = np.zeros(len(self._rows))
        lengths = self._lengths[self._alive]
        if not words or not lengths.any():
            return np.empty(0, np.int64), np.empty(0)
        found = {word: self._places(word) for word in dict.fromkeys(words)}
        singles = [[self._passages_of(b, p) for b, p in zip(self._blocks, found[word])] for word in words]
        self._add(scores, singles, self._lengths, 1.0)
        if self._phrases:
            pairs = [
                [self._passages_of(b, _adjoining(x, y)) for b, x, y in zip(self._blocks, found[first], found[second])]
                for first, second in pairwise(words)
            ]
            if (lengths > 1).any():
                self._add(scores, pairs, np.maximum(self._lengths - 1, 0), self._phrases)
        scores = np.round(scores, DIGITS)[self._order]
        best = np.flatnonzero(scores > 0)
        best = best[np.argsort(-scores[best], kind="stable")]
        return self._rows[self._order][best], scores[best]

    def _add(
        self, scores: NDArray[np.float64], terms: Sequence[Sequence[Numbers]], lengths: Numbers, weight: float
    ) -> None:
        """Add to ``scores`` what each term gives; a term is the passage of each of its places, block by block."""
        import numpy as np

        count = len(self)
        mean = float(lengths[self._alive].sum()) / count
        for term in terms:
            which, often = np.unique(np.concatenate(term), return_counts=True)
            alive = self._alive[which]
            which, often = which[alive], often[alive]
            if not len(which):
                continue
            idf = math.log(1 + (count - len(which) + 0.5) / (len(which) + 0.5))
            norm = self._k1 * (1 - self._b + self._b * lengths[which] / mean)
            scores[which] += weight * idf * often * (self._k1 + 1) / (often + norm)

    def _passages_of(self, block: _Block, places: Numbers) -> Numbers:
        import numpy as np

        found: Numbers = (np.searchsorted(block.starts, places, side="right") - 1 + block.offset).astype(np.int32)
        return found

    def _places(self, word: str) -> list[Numbers]:
        """Where a word stands, block by block."""
        with self._lock:
            if word in self._known:
                self._known.move_to_end(word)
                return self._known[word]
        found = [self._stored(block, word) for block in self._blocks]
        with self._lock:
            if word not in self._known:
                self._known[word] = found
                self._held += sum(map(len, found))
                while self._held > _KEPT and len(self._known) > 1:
                    self._held -= sum(map(len, self._known.popitem(last=False)[1]))
        return found

    def _stored(self, block: _Block, word: str) -> Numbers:
        if block.places is not None:
            return block.places.get(word, _numbers(b"", "<i4"))
        rows = self._manifest.rows("SELECT places FROM postings WHERE block = ? AND word = ?", (block.number, word))
        return _numbers(rows[0][0] if rows else b"", "<i4")


def _starts(lengths: Numbers) -> Numbers:
    import numpy as np

    starts: Numbers = np.concatenate([[0], np.cumsum(lengths + 1)])[:-1].astype(np.int32)
    return starts


def _adjoining(first: Numbers, second: Numbers) -> Numbers:
    """Places of ``first`` right before one of ``second``."""
    import numpy as np

    found: Numbers = np.intersect1d(first, second - 1, assume_unique=True)
    return found


def _numbers(packed: bytes, kind: str) -> NDArray[np.int64]:
    import numpy as np

    try:
        return np.frombuffer(packed, kind)
    except (ValueError, TypeError) as error:
        raise IndexCorruptedError("The words in the index are damaged.", hint=RESTORE) from error
