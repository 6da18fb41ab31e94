"""A Chroma collection as a table of passages, one record each.

A record has the passage's id, the embedding of the whole passage, its text as document, and its metadata, so that any
program that uses Chroma can read, filter and search the collection. Keys under ``selfreflect:…`` hold the title, the
original metadata (Chroma has no ``None``) and the sentence vectors (``vectors.Coded``) in base 64. The vectors are cut
into pieces: Chroma stores each string twice in SQLite, which needs a page of its own for each string longer than a
quarter of a page.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from shared_core.errors import StoreError
from shared_core.retrieval.checks import absent
from shared_core.retrieval.chroma_client import guard
from shared_core.retrieval.dense import Embedded
from shared_core.retrieval.vectors import Coded, encode
from shared_core.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PASSAGE = "selfreflect:passage"
REVISION = "selfreflect:revision"
_VECTORS = "selfreflect:vectors"
_PIECE = 900
_READ = 2_000  # records read at a time
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Row:
    """A record to write."""

    id: str
    vector: NDArray[np.float32]
    metadata: dict[str, Any]
    text: str


def row_of(passage: Passage, embedded: Embedded) -> Row:
    """Make the record of a passage."""
    metadata = {key: value for key, value in passage.metadata.items() if not absent(value)}
    metadata[PASSAGE] = json.dumps({"title": passage.title, "metadata": dict(passage.metadata)})
    packed = base64.b64encode(embedded.coded.codes.tobytes()).decode()
    for n, start in enumerate(range(0, len(packed), _PIECE)):
        metadata[f"{_VECTORS}:{n}"] = packed[start : start + _PIECE]
    return Row(passage.id, embedded.whole, metadata, passage.text)


class Rows:
    """The records of one collection; Chroma's failures are raised as StoreError.

    Args:
        client: the Chroma client.
        collection: its collection.
        place: folder or address, for error messages.
    """

    def __init__(self, client: Any, collection: Any, place: str) -> None:
        self._client, self._collection, self.place = client, collection, place
        with guard(place):
            self._most = int(client.get_max_batch_size())

    @property
    def name(self) -> str:
        """The collection's name."""
        return str(self._collection.name)

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
        for part in batches(self.ids(), min(_READ, self._most)):
            with guard(self.place):
                found = self._collection.get(ids=part, include=["metadatas"])
            for identifier, metadata in zip(found["ids"], found["metadatas"]):
                yield identifier, self._unpacked(identifier, metadata or {}, dimension)

    def write(self, rows: Sequence[Row]) -> None:
        """Add records; a record with a known id is replaced with all its metadata."""
        for part in batches(rows, self._most):
            ids = [row.id for row in part]
            with guard(self.place):
                old = self._collection.get(ids=ids, include=["metadatas"])
                # An upsert merges metadata; None deletes a key.
                keys = {i: dict.fromkeys(metadata or ()) for i, metadata in zip(old["ids"], old["metadatas"])}
                self._collection.upsert(
                    ids=ids,
                    embeddings=[row.vector for row in part],
                    metadatas=[{**keys.get(row.id, {}), **row.metadata} for row in part],
                    documents=[row.text for row in part],
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
        with guard(self.place):
            fresh = self._client.get_collection(self.name, embedding_function=None)
        return str((fresh.metadata or {}).get(REVISION, ""))

    def revise(self) -> str:
        """Record a change and return the new revision."""
        revision = uuid.uuid4().hex
        with guard(self.place):
            fresh = self._client.get_collection(self.name, embedding_function=None)
            fresh.modify(metadata={**(fresh.metadata or {}), REVISION: revision})
        return revision

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


def batches(items: Sequence[_T], size: int) -> Iterator[list[_T]]:
    """Split items into lists of at most ``size``."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
