"""Where the vectors of an index of files are: what was asked for, what the index remembers, and opening it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from shared_core.documents.manifest import Manifest
from shared_core.documents.store_types import PassageSet, VectorStore
from shared_core.errors import IndexCorruptedError, SelfReflectError, StoreError

if TYPE_CHECKING:
    from shared_core.retrieval.base import Embedder

T = TypeVar("T")
Kind = Literal["none", "own", "server", "given"]


@dataclass(slots=True)
class VectorPlaces:
    """Finds and opens the vectors of one index.

    Attributes:
        path: the index's folder; ``None`` if it is in memory.
        chroma_url, collection, embedder, dense, given: as ``DocumentIndex`` was given them, ``given`` its ``vectors``.
    """

    path: Path | None
    chroma_url: str | None
    collection: str | None
    embedder: Embedder | None
    dense: bool | None
    given: VectorStore | None

    def kind(self, manifest: Manifest) -> Kind:
        """Whose the vectors are: what was asked for, else what the index remembers."""
        if self.given is not None:
            return "given"
        if self.dense is False or (self.dense is None and manifest.get("dense") == "none"):
            return "none"
        return "server" if self._url(manifest) else "own"

    def remember(self, manifest: Manifest) -> None:
        """Store in the index where its vectors are from now on."""
        kind = self.kind(manifest)
        if kind == "given":
            return
        if kind == "server":
            manifest.store("chroma_url", self._url(manifest))
            manifest.store("collection", self._named(manifest))
            if manifest.get("dense") == "own":
                manifest.drop_vectors()
                self._drop_chroma()
        manifest.store("dense", kind)

    def open_set(self, manifest: Manifest) -> PassageSet | None:
        """What an update makes equal to the manifest; ``None`` if there are to be no vectors."""
        kind = self.kind(manifest)
        if kind == "none":
            return None
        if self.given is not None:
            return self.given
        manifest.store("embedder", self.bound(manifest)().name)
        if kind == "server":
            self._drop_outdated(manifest)
            return self.open_store(manifest)
        from shared_core.documents.own_vectors import OwnVectors

        self._drop_outdated(manifest)
        folder = None if self.path is None else self.path / "chroma"
        return self.guarded(lambda: OwnVectors(manifest, folder, self.bound(manifest)()))

    def open_store(self, manifest: Manifest) -> VectorStore | None:
        """The store outside of the manifest, given or on a server; ``None`` if there is none."""
        kind = self.kind(manifest)
        if kind in ("none", "own"):
            return None
        if self.given is not None:
            return self.given
        from shared_core.retrieval.chroma import ChromaRetriever

        embedder, url, name = self.bound(manifest)(), self._url(manifest), self._collection_of(manifest)
        return self.guarded(lambda: ChromaRetriever(collection=name, url=url, embedder=embedder))

    def difference(self, manifest: Manifest, held: PassageSet) -> tuple[set[str], list[str]]:
        """(ids to add, ids to delete). In a collection named by the user only our own passages are ever deleted."""
        found, wanted = self.guarded(lambda: set(held.ids())), manifest.passage_ids()
        shared = self.given is not None or self._named(manifest) is not None
        stale = found & manifest.retired() if shared else found
        return wanted - found, sorted(stale - wanted)

    def bound(self, manifest: Manifest) -> Callable[[], Embedder]:
        """What gives the embedder, once it is sure that it is the index's.

        Raises:
            StoreError: it is another than the index was made with.
        """
        if self.embedder is None:
            from shared_core.retrieval.embedding import MiniLMEmbedder

            self.embedder = MiniLMEmbedder()
        embedder, bound = self.embedder, manifest.get("embedder")
        if bound not in (None, embedder.name):
            raise StoreError(
                f"The index {self.path or 'in memory'} was made with the embedder {bound!r}, not {embedder.name!r}.",
                hint="Use that embedder, or index the documents into another folder.",
            )
        return lambda: embedder

    def guarded(self, call: Callable[[], T]) -> T:
        """Run something of the vector store's; whatever it raises becomes an error of ours."""
        anew = (
            f"Move {self.path}/chroma away and run `selfreflect index` again: the texts are kept, only the vectors are "
            "computed anew."
        )
        try:
            return call()
        except IndexCorruptedError as error:
            raise IndexCorruptedError(error.message, hint=anew) from error
        except (SelfReflectError, KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # Chroma's core is Rust: its panics are not Exceptions
            if self.chroma_url is not None:
                raise StoreError(
                    f"The Chroma server {self.chroma_url} failed: {error}.", hint="Start it: chroma run --path DIR"
                ) from error
            raise IndexCorruptedError(
                f"The vectors of the index {self.path} cannot be read: {error}.", hint=anew
            ) from error

    def _url(self, manifest: Manifest) -> str | None:
        return self.chroma_url or (manifest.get("chroma_url") if manifest.get("dense") == "server" else None)

    def _named(self, manifest: Manifest) -> str | None:
        return self.collection or manifest.get("collection")

    def _collection_of(self, manifest: Manifest) -> str:
        # One of the index's own, so that two indexes on one server never meet.
        return self._named(manifest) or f"selfreflect-{manifest.identity}"

    def _drop_outdated(self, manifest: Manifest) -> None:
        """Delete what an earlier version left in Chroma."""
        if not manifest.get("outdated_vectors"):
            return
        if self.kind(manifest) == "own":
            self._drop_chroma()
        elif self._named(manifest) is None:
            from shared_core.retrieval.chroma_client import drop_collection

            drop_collection(self._url(manifest) or "", self._collection_of(manifest))
        manifest.store("outdated_vectors", None)

    def _drop_chroma(self) -> None:
        if self.path is not None:
            shutil.rmtree(self.path / "chroma", ignore_errors=True)
