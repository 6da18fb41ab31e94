"""Dense search over the passages of a Chroma collection: in memory, in a folder, or on a server."""

from __future__ import annotations

import base64
import json
import threading
import uuid
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from shared_core.errors import InputError, StoreError
from shared_core.retrieval.base import (
    Embedder,
    RankedRetriever,
    Ranking,
    Where,
    absent,
    batches,
    check_k,
    collect,
    collect_ids,
    find_each,
)
from shared_core.retrieval.chroma_client import connect, delete_quietly, guard, open_collection
from shared_core.retrieval.dense import Embedded, embed_checked, embed_passages
from shared_core.retrieval.embedding import MiniLMEmbedder
from shared_core.retrieval.filters import normalise
from shared_core.retrieval.vectors import Coded, VectorTable, encode
from shared_core.support.pickling import Remade
from shared_core.types import Passage

_BATCH = 256
"""Passages embedded and written at a time: bounds memory and what a kill can lose."""


class ChromaRetriever(RankedRetriever, Remade):
    """Cosine similarity to the nearest sentence of each passage, in a Chroma collection.

    Chroma stores the passages, one record each (``Rows``), and evaluates filters. The search is exact, over the
    sentence vectors of all records. These are read into memory at the first query, one byte a number, and again after
    another process has changed the collection. Safe to use from several threads at once.

    ::

        retriever = ChromaRetriever("manuals", url="http://127.0.0.1:8000")
        retriever.add([Passage("a", "The ferry sails at nine.", metadata={"year": 1811})])
        retriever.retrieve("When does the ferry sail?", k=3, where={"year": {"$lt": 1900}})

    Args:
        collection: its name: 3 to 512 of ``a-z A-Z 0-9 . _ -``, a letter or digit at both ends.
        path: folder of an embedded Chroma, created if missing; without ``path`` and ``url`` it is in memory and gone
            with this object.
        url: address of a Chroma server, like ``http://127.0.0.1:8000``.
        embedder: embedder of passages and queries; ``None`` is MiniLM. A collection is bound to its embedder.
        create: create folder and collection if missing.

    Raises:
        InputError: both path and url are given, or the url or name is invalid.
        MissingDependencyError: chromadb is not installed.
        IndexMissingError: ``create=False`` and there is no such collection.
        IndexCorruptedError: the folder's data cannot be read.
        StoreError: the server does not answer, or the collection was made with another embedder, by another program or
            by an earlier version.
    """

    def __init__(
        self,
        collection: str = "selfreflect",
        path: str | Path | None = None,
        url: str | None = None,
        embedder: Embedder | None = None,
        *,
        create: bool = True,
    ) -> None:
        if path is not None and url is not None:
            raise InputError(
                "Pass either path or url, not both.", hint="path is the folder of an embedded Chroma, url a server."
            )
        self.embedder: Embedder = MiniLMEmbedder() if embedder is None else embedder
        self.place = url or (str(path) if path is not None else "memory")
        client = connect(path, url, create=create)
        # In-memory clients of one process share their collections.
        name = f"{collection}-{uuid.uuid4().hex}" if self.place == "memory" else collection
        bound = {"selfreflect:embedder": self.embedder.name, "selfreflect:granularity": "sentence"}
        self._rows = Rows(client, open_collection(client, name, bound, self.place, create=create), self.place)
        if self.place == "memory":
            weakref.finalize(self, delete_quietly, client, name)
        self._lock = threading.Lock()
        self._table: VectorTable[str] | None = None
        self._revision = ""

    def _tied_to(self) -> str:
        return "this process's memory" if self.place == "memory" else ""

    def __len__(self) -> int:
        return self._rows.count()

    def ids(self) -> list[str]:
        """Ids of all passages."""
        return self._rows.ids()

    def get(self, ids: Iterable[str]) -> list[Passage]:
        """Return the passages of these ids, in that order; unknown ids are left out."""
        wanted = collect_ids(ids)
        found = self._rows.passages(wanted)
        return [found[i] for i in wanted if i in found]

    def add(self, passages: Iterable[Passage]) -> None:
        """Embed and store passages; a passage with a known id replaces the old one.

        They are written in batches of 256; after an error earlier batches stay.

        Raises:
            PassageError: a passage cannot be stored, or two different ones share an id. Nothing is added then.
            ModelLoadError, MissingDependencyError: there is no embedding model.
            StoreError: Chroma failed.
        """
        for batch in batches(list(collect(passages).values()), _BATCH):
            embedded = embed_passages(self.embedder, batch)
            with self._lock:
                followed = self._follows()
                self._rows.write(list(zip(batch, embedded)))
                self._note(followed, put=zip((p.id for p in batch), embedded))

    def delete(self, ids: Iterable[str]) -> None:
        """Delete the passages of these ids; unknown ids are ignored."""
        gone = collect_ids(ids)
        with self._lock:
            followed = self._follows()
            self._rows.delete(gone)
            self._note(followed, gone=gone)

    def rank_many(self, queries: Sequence[str], k: int = 5, where: Where | None = None) -> list[Ranking]:
        """Rank the ids of passages for each query; arguments and errors as ``retrieve``."""
        k, normal = check_k(k), normalise(where)

        def nearest(texts: list[str]) -> list[Ranking]:
            vectors = embed_checked(self.embedder, texts)
            table = self._fresh(vectors.shape[1])
            return table.nearest(vectors, k, None if normal is None else set(self._rows.ids(normal)))

        return find_each(queries, nearest)

    def _fresh(self, dimension: int) -> VectorTable[str]:
        """Return the vectors of all records, read again if the collection has changed."""
        with self._lock:
            revision = self._rows.revision()
            if self._table is None or revision != self._revision or len(self._table) != self._rows.count():
                table: VectorTable[str] = VectorTable(dimension)
                table.put(self._rows.vectors(dimension))
                self._table, self._revision = table, revision
            return self._table

    def _follows(self) -> bool:
        """Whether the vectors in memory are those of the collection, so that a change can be made in both."""
        return self._table is not None and self._revision == self._rows.revision()

    def _note(self, followed: bool, *, put: Iterable[tuple[str, Embedded]] = (), gone: Iterable[str] = ()) -> None:
        """Tell other processes of a change, and make it in memory too, or drop the vectors there."""
        self._revision = self._rows.revise()
        if not followed or self._table is None:
            self._table = None
            return
        self._table.put((identifier, one.coded) for identifier, one in put)
        self._table.discard(gone)


PASSAGE = "selfreflect:passage"
REVISION = "selfreflect:revision"
_VECTORS = "selfreflect:vectors"
_PIECE = 900
_READ_VECTORS = 2_000  # records read at a time


def _metadata_of(passage: Passage, coded: Coded) -> dict[str, Any]:
    metadata = {key: value for key, value in passage.metadata.items() if not absent(value)}
    metadata[PASSAGE] = json.dumps({"title": passage.title, "metadata": dict(passage.metadata)})
    packed = base64.b64encode(coded.codes.tobytes()).decode()
    for n, start in enumerate(range(0, len(packed), _PIECE)):
        metadata[f"{_VECTORS}:{n}"] = packed[start : start + _PIECE]
    return metadata


class Rows:
    """A Chroma collection as a table of passages, one record each; Chroma's failures are raised as StoreError.

    A record has the passage's id, the embedding of the whole passage, its text as document, and its metadata, so that
    any program that uses Chroma can read, filter and search the collection. Keys under ``selfreflect:…`` hold the
    title, the original metadata (Chroma has no ``None``) and the sentence vectors (``vectors.Coded``) in base 64. The
    vectors are cut into pieces: Chroma stores each string twice in SQLite, which needs a page of its own for each
    string longer than a quarter of a page.

    Args:
        place: folder or address, for error messages.
    """

    def __init__(self, client: Any, collection: Any, place: str) -> None:
        self._client, self._collection, self.place = client, collection, place
        with guard(place):
            self._most = int(client.get_max_batch_size())

    def count(self) -> int:
        """Number of records."""
        with guard(self.place):
            return int(self._collection.count())

    def ids(self, where: dict[str, Any] | None = None) -> list[str]:
        """Ids of all records, or of those that pass a filter."""
        with guard(self.place):
            return list(self._collection.get(where=where, include=[])["ids"])

    def passages(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Read passages, by id; unknown ids are left out."""
        out: dict[str, Passage] = {}
        for part in batches(ids, self._most):
            with guard(self.place):
                found = self._collection.get(ids=part, include=["documents", "metadatas"])
            for identifier, text, metadata in zip(found["ids"], found["documents"], found["metadatas"]):
                stored = self._stored(identifier, metadata)
                out[identifier] = Passage(identifier, text or "", stored["title"], stored["metadata"])
        return out

    def vectors(self, dimension: int) -> Iterator[tuple[str, Coded]]:
        """Iterate over the sentence vectors of all records, read in parts."""
        for part in batches(self.ids(), min(_READ_VECTORS, self._most)):
            with guard(self.place):
                found = self._collection.get(ids=part, include=["metadatas"])
            for identifier, metadata in zip(found["ids"], found["metadatas"]):
                yield identifier, self._unpacked(identifier, metadata or {}, dimension)

    def write(self, records: Sequence[tuple[Passage, Embedded]]) -> None:
        """Add records; a record with a known id is replaced with all its metadata."""
        for part in batches(records, self._most):
            ids = [passage.id for passage, _ in part]
            with guard(self.place):
                old = self._collection.get(ids=ids, include=["metadatas"])
                # An upsert merges metadata; None deletes a key.
                keys = {i: dict.fromkeys(metadata or ()) for i, metadata in zip(old["ids"], old["metadatas"])}
                self._collection.upsert(
                    ids=ids,
                    embeddings=[one.whole for _, one in part],
                    metadatas=[{**keys.get(p.id, {}), **_metadata_of(p, one.coded)} for p, one in part],
                    documents=[passage.text for passage, _ in part],
                )

    def delete(self, ids: Iterable[str]) -> None:
        """Delete records; unknown ids are ignored."""
        for part in batches(list(ids), self._most):
            with guard(self.place):
                known = self._collection.get(ids=part, include=[])["ids"]
                if known:
                    self._collection.delete(ids=known)

    def revision(self) -> str:
        """Read the revision, which changes with each ``revise``."""
        return str((self._reopened().metadata or {}).get(REVISION, ""))

    def revise(self) -> str:
        """Record a change and return the new revision."""
        revision, fresh = uuid.uuid4().hex, self._reopened()
        with guard(self.place):
            fresh.modify(metadata={**(fresh.metadata or {}), REVISION: revision})
        return revision

    def _reopened(self) -> Any:
        """The collection with its metadata as they are now."""
        with guard(self.place):
            return self._client.get_collection(self._collection.name, embedding_function=None)

    def _stored(self, identifier: str, metadata: Any) -> dict[str, Any]:
        try:
            stored: dict[str, Any] = json.loads(metadata[PASSAGE])
        except (TypeError, KeyError, ValueError) as error:
            raise self._foreign(identifier) from error
        return stored

    def _unpacked(self, identifier: str, metadata: Any, dimension: int) -> Coded:
        import numpy as np

        pieces: list[str] = []
        while f"{_VECTORS}:{len(pieces)}" in metadata:
            pieces.append(metadata[f"{_VECTORS}:{len(pieces)}"])
        try:
            codes = np.frombuffer(base64.b64decode("".join(pieces)), np.int8).reshape(-1, dimension)
        except (TypeError, ValueError) as error:
            raise self._foreign(identifier) from error
        if not len(codes):
            raise self._foreign(identifier)
        return Coded(codes, encode(codes.astype(np.float32)).scales)

    def _foreign(self, identifier: str) -> StoreError:
        return StoreError(
            f"Record {identifier!r} in {self.place} was not written by selfreflect.",
            hint="Use a separate collection for this index.",
        )
