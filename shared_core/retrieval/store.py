"""The index of files: what to read again, what to embed again, and how to stay whole when killed.

Two steps, each safe to be killed in and to be repeated:

1. Files whose bytes or settings changed are read and cut; text, passages and hash enter the manifest (SQLite) in one
   transaction for each file.
2. The vector store is made equal to the manifest: passages it lacks are embedded, those it should not have are deleted.
   Ids are made of a passage's whole content, so comparing ids is enough, and a passage that a change left as it was is
   not embedded again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from shared_core.errors import IndexCorruptedError, InputError, SelfReflectError, SettingsError, StoreError
from shared_core.retrieval.chunking import Splitter, default_splitter
from shared_core.retrieval.documents import Failure
from shared_core.retrieval.manifest import Manifest
from shared_core.retrieval.scan import INDEX_MARK, scan
from shared_core.retrieval.store_types import IndexProgress, IndexReport, IndexSettings, IndexStats, VectorStore
from shared_core.retrieval.update import read_files
from shared_core.types import Passage

if TYPE_CHECKING:
    from shared_core.retrieval.base import Embedder
    from shared_core.retrieval.hybrid import HybridRetriever

__all__ = ["DocumentIndex", "IndexProgress", "IndexReport", "IndexSettings", "IndexStats", "VectorStore"]

T = TypeVar("T")
BATCH = 128
_LOCK = "lock"


class _BusyError(StoreError):
    """Another process holds the lock."""


class DocumentIndex:
    """A persistent index of files.

    Args:
        path: its folder, made by the first ``update``; ``None`` keeps everything in memory.
        chroma_url: of a Chroma server that shall hold the vectors; ``None`` embeds Chroma, under ``path``.
        embedder: turns passages into vectors; ``None`` takes all-MiniLM-L6-v2. An index is bound to its embedder.
        collection: Chroma's collection; ``None`` takes one of the index's own.
        dense: ``False`` leaves vectors out (BM25 only; needs no model and no Chroma).
        settings: how documents are read and cut.
        vectors: a vector store of your own in place of Chroma; passages it holds from elsewhere are left alone.
        split_sentences: where passages may be cut; ``None`` takes ``shared_core.citation.split_sentences``.
        lock_timeout: seconds to wait for another process that writes to the index.

    Raises:
        InputError: ``path`` is a file, or a server is named without a folder for the manifest.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        *,
        chroma_url: str | None = None,
        embedder: Embedder | None = None,
        collection: str | None = None,
        dense: bool = True,
        settings: IndexSettings | None = None,
        vectors: VectorStore | None = None,
        split_sentences: Splitter | None = None,
        lock_timeout: float = 5.0,
    ) -> None:
        self.path = None if path is None else Path(path)
        if self.path is not None and self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file, not an index.", hint="Name the folder the index shall be in.")
        if self.path is None and chroma_url is not None:
            raise InputError(
                "An index on a Chroma server needs a folder for its manifest.", hint="Give path (--index DIR)."
            )
        self._chroma_url, self._embedder, self._collection = chroma_url, embedder, collection
        self._dense, self._given_vectors, self._vectors = dense, vectors, vectors
        self._given_settings, self._split = settings, split_sentences
        self._lock_timeout = lock_timeout
        self._manifest = Manifest.in_memory() if self.path is None else None

    def __enter__(self) -> DocumentIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the manifest's file. What ``retriever()`` gave stays usable."""
        if self._manifest is not None and self.path is not None:
            self._manifest.close()
            self._manifest = None

    # --- writing ------------------------------------------------------------------------------------------------

    def update(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        prune: bool = True,
        progress: Callable[[IndexProgress], None] | None = None,
    ) -> IndexReport:
        """Bring the index up to date with files and folders; what lies elsewhere stays as it is.

        Args:
            paths: files and folders. A document's source is its path relative to the folder given here (a file's
                name for a file); where another document has it already, the folder's name goes before it.
            prune: take out files that are gone from the folders given.
            progress: told of each file read and each batch embedded.

        Raises:
            InputError: no path exists, no documents are in them, or none of them can be indexed. Nothing is lost.
            IndexCorruptedError: the index there cannot be trusted. Nothing is changed.
            StoreError: another process is writing, the disk is full, or the index belongs to another embedder.
        """
        roots = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        found = scan(roots, exclude=() if self.path is None else (self.path,))
        if not found.files:
            first = (
                found.failures[0] if found.failures else Failure("", "No paths were given.", "Name files or folders.")
            )
            raise InputError(f"There is nothing to index: {_sentence(first)}", hint=first.hint)
        with self._writing():
            manifest = self._opened()
            settings = self._configure(manifest)
            splitter = self._split or default_splitter()
            report = read_files(manifest, found, settings, splitter, prune=prune, progress=progress)
            _, passages, _ = manifest.counts()
            if not passages:
                shown = "; ".join(_sentence(failure) for failure in report.failed[:3])
                raise InputError(
                    f"None of the {len(found.files)} files can be indexed: {shown}", hint=report.failed[0].hint
                )
            self._synchronise(manifest, progress)
        return dataclasses.replace(report, passages=passages)

    @contextmanager
    def _writing(self, timeout: float | None = None) -> Iterator[None]:
        if self.path is None:
            yield
            return
        from filelock import FileLock, Timeout

        self._make_folder(self.path)
        lock = FileLock(self.path / _LOCK, timeout=self._lock_timeout if timeout is None else timeout)
        try:
            lock.acquire()
        except Timeout as error:
            raise _BusyError(
                f"Another process is writing to the index {self.path}.", hint="Wait until it is done, then try again."
            ) from error
        except OSError as error:
            raise StoreError(f"The index {self.path} cannot be locked: {error}.", hint="Check permissions.") from error
        try:
            for leftover in self.path.glob(f"{INDEX_MARK}.*.new"):  # of a process killed while making the manifest
                leftover.unlink(missing_ok=True)
            if not (self.path / INDEX_MARK).exists() and not (self.path / "chroma").exists():
                Manifest.create(self.path)
            yield
        finally:
            lock.release()

    @staticmethod
    def _make_folder(path: Path) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
            foreign = [name for name in os.listdir(path) if not name.startswith((INDEX_MARK, _LOCK, "chroma"))]
        except OSError as error:
            raise StoreError(f"The folder {path} cannot be made: {error}.", hint="Check permissions.") from error
        if foreign and not (path / INDEX_MARK).exists():
            raise InputError(
                f"{path} is no index and holds other files ({foreign[0]}, …).",
                hint="Name a folder that is empty or does not exist yet.",
            )

    def _configure(self, manifest: Manifest) -> IndexSettings:
        """Remembered settings with those given now in their place; remembers the outcome."""
        settings = self._remembered(manifest)
        if self._given_settings is not None:
            given = {name: getattr(self._given_settings, name) for name in self._given_settings.model_fields_set}
            settings = settings.replace(**given)
        if manifest.get("settings") != settings.model_dump_json():
            manifest.store("settings", settings.model_dump_json())
        return settings

    def _remembered(self, manifest: Manifest) -> IndexSettings:
        try:
            return IndexSettings(**json.loads(manifest.get("settings") or "{}"))
        except (ValueError, TypeError, SettingsError) as error:
            raise IndexCorruptedError(
                f"The settings remembered in the index {self.path} cannot be used.",
                hint="Delete the index folder and index the documents again.",
            ) from error

    def _synchronise(self, manifest: Manifest, progress: Callable[[IndexProgress], None] | None) -> None:
        """Make the vector store hold just what the manifest holds. Call with the lock held."""
        vectors = self._open_vectors(manifest)
        if vectors is None:
            return
        missing, stale = self._difference(manifest, vectors)
        batch: list[Passage] = []
        done = 0
        for passage in manifest.passages(missing) if missing else ():
            batch.append(passage)
            if len(batch) == BATCH or done + len(batch) == len(missing):
                vectors.add(batch)
                done += len(batch)
                batch = []
                if progress:
                    progress(IndexProgress("embedding", done, len(missing), str(passage.metadata["source"])))
        for start in range(0, len(stale), BATCH):
            vectors.delete(stale[start : start + BATCH])
        manifest.forget_retired(manifest.retired())

    def _difference(self, manifest: Manifest, vectors: VectorStore) -> tuple[set[str], list[str]]:
        """(ids to add, ids to delete). In a collection named by the user only our own passages are ever deleted."""
        held, wanted = self._guarded(lambda: set(vectors.ids())), manifest.passage_ids()
        shared = self._given_vectors is not None or self._collection is not None
        stale = held & manifest.retired() if shared else held
        return wanted - held, sorted(stale - wanted)

    # --- reading ------------------------------------------------------------------------------------------------

    def retriever(self) -> HybridRetriever:
        """BM25 and, if the index is dense, vectors, fused. A snapshot: it sees no later updates.

        An update that was killed is completed first, unless another process is at it.

        Raises:
            IndexMissingError, IndexCorruptedError, StoreError: see ``update``.
        """
        manifest = self._opened()
        from shared_core.retrieval.bm25 import BM25Retriever
        from shared_core.retrieval.hybrid import HybridRetriever

        lexical = BM25Retriever(manifest.passages())
        vectors = self._open_vectors(manifest)
        if vectors is None:
            return HybridRetriever(retrievers=[lexical])
        if any(self._difference(manifest, vectors)):
            self._complete(manifest)
        return HybridRetriever(retrievers=[lexical, vectors])

    def _complete(self, manifest: Manifest) -> None:
        with contextlib.suppress(_BusyError), self._writing(timeout=0):
            self._synchronise(manifest, None)

    def passages(self) -> list[Passage]:
        """All passages, in order of source and place."""
        return list(self._opened().passages())

    def sources(self) -> list[str]:
        """Names of all documents, sorted."""
        return list(self._opened().files())

    def document_text(self, source: str) -> str:
        """A document's text as it was extracted, which the offsets of its passages count.

        Raises:
            InputError: the index has no document of that source.
        """
        return self._opened().text(source)

    def stats(self) -> IndexStats:
        """Figures of the index."""
        manifest = self._opened()
        documents, passages, characters = manifest.counts()
        files = self.path.rglob("*") if self.path is not None else ()
        size = sum(file.stat().st_size for file in files if file.is_file())
        return IndexStats(documents, passages, characters, manifest.get("embedder") or "none", round(size / 1e6, 2))

    def _opened(self) -> Manifest:
        if self._manifest is None:
            assert self.path is not None
            self._manifest = Manifest.open(self.path)
        return self._manifest

    # --- the vector store ----------------------------------------------------------------------------------------

    def _open_vectors(self, manifest: Manifest) -> VectorStore | None:
        if self._vectors is None and self._dense:
            self._bind_embedder(manifest)
            self._vectors = self._guarded(lambda: self._chroma(manifest))
        return self._vectors

    def _chroma(self, manifest: Manifest) -> VectorStore:
        from shared_core.retrieval.chroma import ChromaRetriever

        own = f"selfreflect-{manifest.identity}"  # so that two indexes on one server never meet
        path = None if self.path is None or self._chroma_url else self.path / "chroma"
        return ChromaRetriever(
            collection=self._collection or own, path=path, url=self._chroma_url, embedder=self._embedder
        )

    def _bind_embedder(self, manifest: Manifest) -> None:
        if self._embedder is None:
            from shared_core.retrieval.embedding import MiniLMEmbedder

            self._embedder = MiniLMEmbedder()
        bound = manifest.get("embedder")
        if bound is None:
            manifest.store("embedder", self._embedder.name)
        elif bound != self._embedder.name:
            raise StoreError(
                f"The index {self.path or 'in memory'} was made with the embedder {bound!r}, not "
                f"{self._embedder.name!r}.",
                hint="Use that embedder, or index the documents into another folder.",
            )

    def _guarded(self, call: Callable[[], T]) -> T:
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
            if self._chroma_url is not None:
                raise StoreError(
                    f"The Chroma server {self._chroma_url} failed: {error}.", hint="Start it: chroma run --path DIR"
                ) from error
            raise IndexCorruptedError(
                f"The vectors of the index {self.path} cannot be read: {error}.", hint=anew
            ) from error


def _sentence(failure: Failure) -> str:
    return f"{failure.source}: {failure.message}" if failure.source else failure.message
