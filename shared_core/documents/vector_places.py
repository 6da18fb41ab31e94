"""The places where the dense vectors of an index can live: its own file, embedded Chroma, a Chroma server."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shared_core.documents.manifest import Manifest
from shared_core.documents.store_types import PassageSet, VectorStore
from shared_core.errors import IndexCorruptedError, SelfReflectError, StoreError
from shared_core.retrieval.chroma_client import drop_collection, forget
from shared_core.retrieval.dense import embed_passages
from shared_core.types import Passage

if TYPE_CHECKING:
    from shared_core.retrieval.base import Embedder

_log = logging.getLogger(__name__)


class ManifestVectors:
    """Vectors in the manifest as a ``PassageSet``; SQLite deletes them together with their passages."""

    def __init__(self, manifest: Manifest, embedder: Embedder) -> None:
        self._manifest, self._embedder = manifest, embedder

    def ids(self) -> set[str]:
        """Ids of passages that have vectors."""
        return self._manifest.passage_ids() - self._manifest.without_vectors()

    def add(self, passages: Iterable[Passage]) -> None:
        """Embed and store passages."""
        batch = list(passages)
        embedded = embed_passages(self._embedder, batch)
        self._manifest.put_vectors((p.id, one.coded.to_bytes()) for p, one in zip(batch, embedded))

    def delete(self, ids: Iterable[str]) -> None:
        """Do nothing: the vectors went with their passages."""


@dataclass(slots=True)
class VectorPlaces:
    """Opens the vectors of one index where its setting ``vectors`` says.

    Attributes:
        path: folder of the index; ``None`` if it is in memory.
        collection: name in Chroma; ``None`` takes the remembered name, or one of the index's own.
        embedder: turns passages into vectors; ``None`` is MiniLM.
        given: a store passed by the caller, used in place of the setting.
    """

    path: Path | None
    collection: str | None
    embedder: Embedder | None
    given: VectorStore | None

    def open_set(self, manifest: Manifest, place: str) -> PassageSet | None:
        """Open the vectors for an update; ``None`` if there are to be none."""
        if self.given is None:
            if place == "none":
                return None
            embedder = self.bound(manifest)
            manifest.store("embedder", embedder.name)
            if place == "index":
                return ManifestVectors(manifest, embedder)
            manifest.store("collection", self._shared_collection(manifest))
        return self.open_store(manifest, place)

    def open_store(self, manifest: Manifest, place: str) -> VectorStore | None:
        """Open the vector store outside of the manifest; ``None`` if there is none."""
        if self.given is not None or place in ("index", "none"):
            return self.given
        from shared_core.retrieval.chroma import ChromaRetriever

        embedder, name = self.bound(manifest), self._collection(manifest)
        folder, url = _chroma_at(self.path, place)
        with self._explained():
            if folder is not None:
                folder.mkdir(mode=0o700, exist_ok=True)  # readable by nobody else, like the rest of the index
            return ChromaRetriever(name, folder, url, embedder)

    def difference(self, manifest: Manifest, held: PassageSet) -> tuple[set[str], list[str]]:
        """Compare a store with the manifest: ids to add, ids to delete."""
        with self._explained():
            found = set(held.ids())
        wanted = manifest.passage_ids()
        # A store or collection named by the user may hold passages of others: delete only what was ours.
        shared = self.given is not None or self._shared_collection(manifest) is not None
        stale = found & manifest.retired() if shared else found
        return wanted - found, sorted(stale - wanted)

    def clear_others(self, manifest: Manifest, place: str, before: str) -> None:
        """Delete vectors that are left in places other than ``place``; ``before`` is the setting until now."""
        if self.given is not None:
            return
        if place != "index":
            manifest.drop_vectors()
        if place != "chroma" and self.path is not None:
            shutil.rmtree(self.path / "chroma", ignore_errors=True)
            forget(self.path / "chroma")
        _, url = _chroma_at(self.path, before)
        if before != place and url is not None and self._shared_collection(manifest) is None:
            try:
                drop_collection(url, self._collection(manifest))
            except StoreError as error:
                _log.warning("The index's former collection on %s was not deleted: %s", url, error.message)

    def bound(self, manifest: Manifest) -> Embedder:
        """Return the embedder; StoreError if the index was made with another one."""
        if self.embedder is None:
            from shared_core.retrieval.embedding import MiniLMEmbedder

            self.embedder = MiniLMEmbedder()
        embedder, bound = self.embedder, manifest.get("embedder")
        if bound not in (None, embedder.name):
            raise StoreError(
                f"The index {self.path or 'in memory'} was made with the embedder {bound!r}, not {embedder.name!r}.",
                hint="Use that embedder, or index the documents into another folder.",
            )
        return embedder

    def _shared_collection(self, manifest: Manifest) -> str | None:
        return self.collection or manifest.get("collection")

    def _collection(self, manifest: Manifest) -> str:
        # Named after the index, so that two indexes on one server never meet.
        return self._shared_collection(manifest) or f"selfreflect-{manifest.identity}"

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Add to a store's errors how to recover; errors of a caller's own store become StoreErrors."""
        try:
            yield
        except IndexCorruptedError as error:
            hint = (
                f"Delete {self.path}/chroma and run `selfreflect index` again: texts are kept, only the vectors are "
                "computed anew."
            )
            raise IndexCorruptedError(error.message, hint=hint) from error
        except SelfReflectError:
            raise
        except Exception as error:
            raise StoreError(
                f"The vector store of the index {self.path or 'in memory'} failed: {error}.",
                hint="Check the store that was passed as `store`.",
            ) from error


def _chroma_at(path: Path | None, place: str) -> tuple[Path | None, str | None]:
    """Folder and URL of Chroma; one of the two is ``None``, or both where ``place`` is not Chroma."""
    if place == "chroma" and path is not None:
        return path / "chroma", None
    return None, place.removeprefix("chroma:") if place.startswith("chroma:") else None
