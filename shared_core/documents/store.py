"""The index of files: what to read again, what to embed again, and how to stay whole when killed.

Three steps, each safe to be killed in and to be repeated:

1. Files whose bytes or settings changed are read and cut; text, passages and hash enter the manifest (SQLite) in one
   transaction for each file.
2. Words of passages that have none in the index yet are added (``lexical``).
3. The vectors are made equal to the manifest: passages that lack them are embedded, those of passages that are gone are
   deleted. Ids are made of a passage's whole content, so comparing ids is enough, and a passage that a change left as
   it was is not embedded again.

A question needs the manifest only: neither Chroma nor the right to write.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from shared_core.documents.chunking import Splitter, default_splitter
from shared_core.documents.lexical import index_words
from shared_core.documents.load import Failure
from shared_core.documents.manifest import Manifest
from shared_core.documents.manifest_file import writable
from shared_core.documents.scan import INDEX_MARK, scan
from shared_core.documents.store_types import (
    IndexProgress,
    IndexReport,
    IndexSettings,
    IndexStats,
    VectorStore,
)
from shared_core.documents.update import read_files
from shared_core.documents.vector_places import VectorPlaces
from shared_core.errors import (
    IndexCorruptedError,
    IndexMissingError,
    InputError,
    SettingsError,
    StoreError,
)
from shared_core.support.pickling import Remade
from shared_core.types import Passage

if TYPE_CHECKING:
    from shared_core.retrieval.base import Embedder, Retriever
    from shared_core.retrieval.hybrid import HybridRetriever

__all__ = ["DocumentIndex", "IndexProgress", "IndexReport", "IndexSettings", "IndexStats", "VectorStore"]

BATCH = 512
"""Passages embedded and written at a time: bounds what a kill can lose; enough to put such of like length together."""
_SOON = 256
"""Passages that a reader embeds itself where an update was killed before it came to them."""
_LOCK = "lock"
_log = logging.getLogger(__name__)


class _BusyError(StoreError):
    """Another process holds the lock."""


class DocumentIndex(Remade):
    """A persistent index of files.

    Args:
        path: its folder, made by the first ``update``; ``None`` keeps everything in memory.
        chroma_url: of a Chroma server that shall hold passages and vectors; ``None`` keeps them under ``path``, if
            the index does not remember a server.
        embedder: turns passages into vectors; ``None`` takes all-MiniLM-L6-v2. An index is bound to its embedder.
        collection: on the server; ``None`` takes the remembered one, at first one of the index's own.
        dense: ``False`` leaves vectors out (BM25 only; needs no model and no Chroma); ``None`` does as the index was
            made, and makes a new one with vectors.
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
        dense: bool | None = None,
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
        self._places = VectorPlaces(self.path, chroma_url, collection, embedder, dense, vectors)
        self._given_settings, self._split = settings, split_sentences
        self._lock_timeout = lock_timeout
        self._manifest = Manifest.in_memory() if self.path is None else None

    def _tied_to(self) -> str:
        return "this process's memory" if self.path is None else ""

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
            manifest = self._opened(update=True)
            settings = self._configure(manifest)
            splitter = self._split or default_splitter()
            report = read_files(manifest, found, settings, splitter, prune=prune, progress=progress)
            _, passages, _ = manifest.counts()
            if not passages:
                shown = "; ".join(_sentence(failure) for failure in report.failed[:3])
                raise InputError(
                    f"None of the {len(found.files)} files can be indexed: {shown}", hint=report.failed[0].hint
                )
            index_words(manifest)
            self._synchronise(manifest, progress)
        return dataclasses.replace(report, passages=passages)

    @contextmanager
    def _writing(self, timeout: float | None = None) -> Iterator[None]:
        if self.path is None:
            yield
            return
        from filelock import FileLock, Timeout

        self._make_folder(self.path)
        wait = self._lock_timeout if timeout is None else timeout
        lock = FileLock(self.path / _LOCK, timeout=wait, mode=0o600)
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
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)  # not more readable than the documents may be
            foreign = [name for name in os.listdir(path) if not name.startswith((INDEX_MARK, _LOCK, "chroma"))]
        except OSError as error:
            raise StoreError(f"The folder {path} cannot be made: {error}.", hint="Check permissions.") from error
        if foreign and not (path / INDEX_MARK).exists():
            raise InputError(
                f"{path} is no index and holds other files ({foreign[0]}, …).",
                hint="Name a folder that is empty or does not exist yet.",
            )

    def _configure(self, manifest: Manifest) -> IndexSettings:
        """Remembered settings with those given now in their place; remembers the outcome, and where vectors are."""
        settings = self._remembered(manifest)
        if self._given_settings is not None:
            given = {name: getattr(self._given_settings, name) for name in self._given_settings.model_fields_set}
            settings = settings.replace(**given)
        if manifest.get("settings") != settings.model_dump_json():
            manifest.store("settings", settings.model_dump_json())
        self._places.remember(manifest)
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
        """Make the vectors those of just the passages the manifest holds. Call with the lock held."""
        held = self._places.open_set(manifest)
        if held is None:
            return
        missing, stale = self._places.difference(manifest, held)
        batch: list[Passage] = []
        done = 0
        for passage in manifest.passages(missing) if missing else ():
            batch.append(passage)
            if len(batch) == BATCH or done + len(batch) == len(missing):
                held.add(batch)
                done += len(batch)
                batch = []
                if progress:
                    progress(IndexProgress("embedding", done, len(missing), str(passage.metadata["source"])))
        for start in range(0, len(stale), BATCH):
            held.delete(stale[start : start + BATCH])
        manifest.forget_retired(manifest.retired())

    # --- reading ------------------------------------------------------------------------------------------------

    def retriever(self) -> HybridRetriever:
        """BM25 and, if the index is dense, vectors, fused. A snapshot: it sees no later updates.

        An update that was killed is completed first if little is left to do, unless another process is at it or
        nothing may be written there; then what is there is searched, and a warning is logged.

        Raises:
            IndexMissingError, IndexCorruptedError, StoreError: see ``update``; an index without passages is missing,
                or, while another process is making it, cannot be used.
        """
        manifest = self._opened()
        store = self._places.open_store(manifest)
        waiting = self._waiting(manifest, store)
        if waiting or not manifest.counts()[1]:
            busy = not self._complete(manifest, waiting)
            self._check_content(manifest, self._waiting(manifest, store), busy=busy)
        from shared_core.documents.stored import IndexRetriever, StoredBM25, StoredVectors

        snapshot = manifest.snapshot()
        retrievers: list[Retriever] = [StoredBM25(snapshot)]
        if self._places.kind(manifest) == "own":
            retrievers.append(StoredVectors(snapshot, self._places.bound(manifest)))
        elif store is not None:
            retrievers.append(store)
        return IndexRetriever(self, retrievers)

    def _waiting(self, manifest: Manifest, store: VectorStore | None) -> int:
        """How many passages lack their vectors, and how many vectors their passage."""
        if store is not None:
            return sum(map(len, self._places.difference(manifest, store)))
        return len(manifest.without_vectors()) if self._places.kind(manifest) == "own" else 0

    def _complete(self, manifest: Manifest, waiting: int) -> bool:
        """Go on where a killed update ended, if it is a matter of seconds; false if another process is at it."""
        if self.path is not None and not writable(self.path):
            return True
        try:
            with self._writing(timeout=0):
                if waiting <= _SOON:
                    index_words(manifest)
                    self._synchronise(manifest, None)
        except _BusyError:
            return False
        return True

    def _check_content(self, manifest: Manifest, waiting: int, *, busy: bool) -> None:
        _, passages, _ = manifest.counts()
        if not passages and busy:
            raise StoreError(
                f"The index {self.path} is being made by another process.",
                hint="Wait until it is done, then try again.",
            )
        if not passages:
            raise IndexMissingError(
                f"The index {self.path or 'in memory'} holds no documents.",
                hint=f"Index some: selfreflect index DOCUMENTS --index {self.path or 'DIR'}",
            )
        if waiting:
            why = "another process is updating it" if busy else "an update was interrupted"
            _log.warning(
                "The index %s is not complete (%s): %d of its %d passages are found by their words only. "
                "`selfreflect index` with the same documents completes it.",
                self.path,
                why,
                waiting,
                passages,
            )

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
        embedder = "none" if self._places.kind(manifest) == "none" else manifest.get("embedder") or "none"
        return IndexStats(documents, passages, characters, embedder, round(size / 1e6, 2))

    def _opened(self, *, update: bool = False) -> Manifest:
        if self._manifest is None:
            assert self.path is not None
            self._manifest = Manifest.open(self.path, update=update)
        return self._manifest


def _sentence(failure: Failure) -> str:
    return f"{failure.source}: {failure.message}" if failure.source else failure.message
