"""Dense search in Chroma: embedded in memory or in a folder, or on a server.

How a passage lies in a collection: one record for each window (``windows``), with the id ``<passage id>\\x1f<number>``,
the window's vector and the passage's metadata, so that Chroma filters every window alike. Record 0 also holds the text
and, as JSON, title and metadata as given (Chroma knows no ``None``). Record 0 is written last and is what makes a
passage exist: after a kill in between, adding the passage again puts everything right.
"""

from __future__ import annotations

import json
import uuid
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from shared_core.errors import InputError, PassageError, StoreError
from shared_core.retrieval.base import Embedder, Where
from shared_core.retrieval.checks import absent, check_k, check_query, collect, collect_ids
from shared_core.retrieval.chroma_client import connect, delete_quietly, guard, open_collection
from shared_core.retrieval.dense import embed_checked, embed_passages
from shared_core.retrieval.embedding import MiniLMEmbedder
from shared_core.retrieval.filters import normalise
from shared_core.retrieval.windows import Granularity, check_granularity
from shared_core.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SEPARATOR = "\x1f"
_ID = "selfreflect:id"
_PASSAGE = "selfreflect:passage"
_WINDOW = "selfreflect:window"
_FIRST = {_WINDOW: 0}
_Row = tuple[str, Any, dict[str, Any]]
_T = TypeVar("_T")
_BATCH = 256
"""Passages embedded and written at a time: bounds memory, and what a kill can lose."""


class ChromaRetriever:
    """Cosine similarity to the nearest sentence of each passage, in a Chroma collection.

    Chroma's index is approximate (HNSW); with the settings used here it misses few of the nearest. May be used from
    several threads at once.

    Args:
        collection: its name: 3 to 512 of ``a-z A-Z 0-9 . _ -``, a letter or digit at both ends.
        path: folder of an embedded Chroma, made if missing; ``None`` and no ``url`` is in memory, and gone
            with this object.
        url: of a Chroma server, like ``http://127.0.0.1:8000``.
        embedder: of passages and queries; ``None`` is MiniLM. A collection remembers its embedder.
        granularity: a vector for each sentence, or for each passage. A collection remembers this too.
        create: make folder and collection if missing.

    Raises:
        InputError: both path and url, or a url or name that cannot be.
        MissingDependencyError: chromadb is not installed.
        IndexMissingError: ``create=False`` and there is nothing.
        IndexCorruptedError: the folder's data cannot be read.
        StoreError: the server does not answer, or the collection is another embedder's or another program's.
    """

    def __init__(
        self,
        collection: str = "selfreflect",
        path: str | Path | None = None,
        url: str | None = None,
        embedder: Embedder | None = None,
        *,
        granularity: Granularity = "sentence",
        create: bool = True,
    ) -> None:
        if path is not None and url is not None:
            raise InputError("Pass either path or url, not both.", hint="path embeds Chroma; url asks a server.")
        self.granularity = check_granularity(granularity)
        self.embedder: Embedder = MiniLMEmbedder() if embedder is None else embedder
        self.place = url or (str(path) if path is not None else "memory")
        self._client = connect(path, url, create=create)
        # In-memory clients of one process share their collections.
        name = f"{collection}-{uuid.uuid4().hex}" if self.place == "memory" else collection
        bound = {"selfreflect:embedder": self.embedder.name, "selfreflect:granularity": self.granularity}
        self._collection = open_collection(self._client, name, bound, self.place, create=create)
        if self.place == "memory":
            weakref.finalize(self, delete_quietly, self._client, name)
        with guard(self.place):
            self._max_batch = int(self._client.get_max_batch_size())

    def __len__(self) -> int:
        return len(self.ids())

    def ids(self) -> list[str]:
        """Ids of all passages."""
        with guard(self.place):
            found = self._collection.get(where=_FIRST, include=[])["ids"]
        return [_passage_id(record) for record in found]

    def get(self, ids: Iterable[str]) -> list[Passage]:
        """The passages of these ids, in that order; unknown ones are left out."""
        wanted = collect_ids(ids)
        found: dict[str, Passage] = {}
        for batch in _batches(wanted, self._max_batch):
            with guard(self.place):
                records = self._collection.get(ids=[_record(i, 0) for i in batch], include=["documents", "metadatas"])
            for record, text, metadata in zip(records["ids"], records["documents"], records["metadatas"]):
                found[_passage_id(record)] = _passage(_passage_id(record), text, metadata, self.place)
        return [found[i] for i in wanted if i in found]

    def passages(self) -> Iterator[Passage]:
        """All passages, read in batches."""
        for batch in _batches(self.ids(), self._max_batch):
            yield from self.get(batch)

    def add(self, passages: Iterable[Passage]) -> None:
        """Embed and store passages; one with a known id replaces the old one.

        Written in batches of 256 passages; on an error the batches before it stay.

        Raises:
            PassageError: a passage that cannot be stored, or two that differ under one id. Nothing is added then.
            ModelLoadError, MissingDependencyError: there is no embedding model.
            StoreError: Chroma failed.
        """
        new = list(collect(passages).values())
        for passage in new:
            if _SEPARATOR in passage.id:
                raise PassageError(
                    f"The id {passage.id!r} holds the control character U+001F.", hint="Choose another id."
                )
        for batch in _batches(new, _BATCH):
            self._write(batch, embed_passages(self.embedder, batch, self.granularity))

    def delete(self, ids: Iterable[str]) -> None:
        """Remove the passages of these ids; unknown ids are ignored."""
        for batch in _batches(collect_ids(ids), _BATCH):
            self._remove(self._existing(batch))

    def retrieve(self, query: str, k: int = 5, where: Where | None = None) -> list[Passage]:
        """The nearest passages, best first, at most ``k``; arguments and errors as ``BM25Retriever.retrieve``.

        Returns:
            Passages with ``score`` set: the cosine, in [-1, 1]. An empty query finds nothing.

        Raises:
            InputError: k < 1, or a filter that cannot be understood.
            StoreError: Chroma failed.
        """
        return self.retrieve_many([query], k, where)[0]

    def retrieve_many(self, queries: Sequence[str], k: int = 5, where: Where | None = None) -> list[list[Passage]]:
        """``retrieve`` for each query, embedded and searched together."""
        k = check_k(k)
        normal = normalise(where)
        texts = [check_query(q) for q in queries]
        asked = [i for i, text in enumerate(texts) if text]
        out: list[list[Passage]] = [[] for _ in texts]
        if not asked:
            return out
        nearest = self._nearest(embed_checked(self.embedder, [texts[i] for i in asked]), k, normal)
        passages = {p.id: p for p in self.get({pid for found in nearest for pid in found})}
        for i, found in zip(asked, nearest):
            # A window whose passage is missing is a leftover of an interrupted write.
            out[i] = [passages[pid].with_score(score) for pid, score in found.items() if pid in passages]
        return out

    def _nearest(self, vectors: NDArray[np.float32], k: int, where: dict[str, Any] | None) -> list[dict[str, float]]:
        """For each vector the ``k`` nearest passages with their cosines, best first."""
        with guard(self.place):
            total = int(self._collection.count())
        out: list[dict[str, float]] = [{} for _ in vectors]
        todo = list(range(len(vectors)))
        # Several windows of a passage may be near: ask for more than k until k passages are found or all windows seen.
        wanted = min(total, 3 * k if self.granularity == "sentence" else k)
        while todo and wanted:
            with guard(self.place):
                hits = self._collection.query(
                    query_embeddings=vectors[todo], n_results=wanted, where=where, include=["distances"]
                )
            short: list[int] = []
            for row, records, distances in zip(todo, hits["ids"], hits["distances"]):
                out[row] = _collapse(records, distances, k)
                if len(out[row]) < k and len(records) >= wanted:
                    short.append(row)
            todo = short if wanted < total else []
            wanted = min(total, 4 * wanted)
        return out

    def _existing(self, ids: Sequence[str]) -> list[str]:
        """Records of these passages, leftovers of interrupted writes included."""
        with guard(self.place):
            found: list[str] = self._collection.get(where={_ID: {"$in": list(ids)}}, include=[])["ids"]
        return found

    def _remove(self, records: Sequence[str]) -> None:
        for part in _batches(records, self._max_batch):
            with guard(self.place):
                self._collection.delete(ids=part)

    def _write(self, passages: Sequence[Passage], vectors: Sequence[NDArray[np.float32]]) -> None:
        rows = [_rows(passage, group) for passage, group in zip(passages, vectors)]
        first = [group[0] for group in rows]
        rest = [row for group in rows for row in group[1:]]
        old = self._existing([p.id for p in passages])
        self._remove([record for record in old if not record.endswith(_SEPARATOR + "0")])
        for part in _batches(rest, self._max_batch):
            self._upsert(part, None)
        keys = self._keys([row[0] for row in first]) if old else {}
        texts = [p.text for p in passages]
        for n in range(0, len(first), self._max_batch):
            part = first[n : n + self._max_batch]
            # An upsert merges metadata; None takes a key away.
            part = [(i, v, {**dict.fromkeys(keys.get(i, ())), **metadata}) for i, v, metadata in part]
            self._upsert(part, texts[n : n + self._max_batch])

    def _keys(self, records: Sequence[str]) -> dict[str, Iterable[str]]:
        with guard(self.place):
            found = self._collection.get(ids=list(records), include=["metadatas"])
        return {record: metadata or () for record, metadata in zip(found["ids"], found["metadatas"])}

    def _upsert(self, rows: Sequence[_Row], texts: list[str] | None) -> None:
        ids, vectors, metadatas = zip(*rows)
        with guard(self.place):
            self._collection.upsert(ids=list(ids), embeddings=list(vectors), metadatas=list(metadatas), documents=texts)


def _rows(passage: Passage, vectors: NDArray[np.float32]) -> list[_Row]:
    flat = {key: value for key, value in passage.metadata.items() if not absent(value)}
    rows: list[_Row] = [
        (_record(passage.id, n), vector, {**flat, _ID: passage.id, _WINDOW: n}) for n, vector in enumerate(vectors)
    ]
    rows[0][2][_PASSAGE] = json.dumps({"title": passage.title, "metadata": dict(passage.metadata)})
    return rows


def _record(passage_id: str, window: int) -> str:
    return f"{passage_id}{_SEPARATOR}{window}"


def _passage_id(record: str) -> str:
    return record.rpartition(_SEPARATOR)[0]


def _collapse(records: Sequence[str], distances: Sequence[float], k: int) -> dict[str, float]:
    best: dict[str, float] = {}
    for record, distance in sorted(zip(records, distances), key=lambda hit: hit[1]):
        best.setdefault(_passage_id(record), max(-1.0, min(1.0, 1.0 - float(distance))))
    return dict(list(best.items())[:k])


def _stored(metadata: Any, record: str, place: str) -> dict[str, Any]:
    try:
        stored: dict[str, Any] = json.loads(metadata[_PASSAGE])
    except (TypeError, KeyError, ValueError) as error:
        raise StoreError(
            f"Record {record!r} in {place} was not written by this program.",
            hint="Use a collection of its own for this index.",
        ) from error
    return stored


def _passage(passage_id: str, text: str | None, metadata: Any, place: str) -> Passage:
    stored = _stored(metadata, passage_id, place)
    return Passage(passage_id, text or "", stored["title"], stored["metadata"])


def _batches(items: Sequence[_T], size: int) -> Iterator[list[_T]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
