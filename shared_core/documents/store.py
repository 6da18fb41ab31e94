"""The index of documents: what to read again, what to embed again, and how to stay whole when killed.

An update has two steps, each safe to be killed in and to be repeated:

1. Files whose bytes or settings changed are read and cut. Text, passages, words and hash of a file enter the manifest
   (SQLite) in one transaction.
2. The vectors are made equal to the manifest: passages that lack them are embedded, and vectors of deleted passages are
   deleted. Ids are hashes of a passage's whole content, so comparing ids is enough, and a passage that a change left
   unchanged is not embedded again.

Vectors live where the setting ``vectors`` says (``IndexSettings``) and are read from there. In the index's own file,
which is the default, a question needs neither Chroma nor write permission.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from shared_core.documents.chunking import Splitter, default_splitter
from shared_core.documents.load import Failure
from shared_core.documents.manifest import Manifest, writable
from shared_core.documents.scan import INDEX_MARK, ScanResult, scan
from shared_core.documents.store_types import IndexProgress, IndexReport, IndexSettings, IndexStats, VectorStore
from shared_core.documents.update import VectorPlaces, read_files
from shared_core.errors import IndexCorruptedError, IndexMissingError, InputError, SettingsError, StoreError
from shared_core.retrieval.base import batches
from shared_core.support.pickling import Remade
from shared_core.types import Passage

if TYPE_CHECKING:
    from shared_core.documents.stored import IndexRetriever
    from shared_core.retrieval.base import Embedder, Retriever

__all__ = ["DocumentIndex", "IndexProgress", "IndexReport", "IndexSettings", "IndexStats", "VectorStore"]

BATCH = 512
"""Passages embedded and written at a time: bounds what a kill can lose; passages of like length run together."""
_SOON = 256  # passages that a reader embeds itself where an update was killed before it embedded them
_LOCK = "lock"
_READING = "reading"  # in the manifest while files are read; it stays where an update is killed
_WAIT = (
    "Try again once it is done, or wait for it: selfreflect index --wait SECONDS, DocumentIndex(lock_timeout=SECONDS)."
)
_INCOMPLETE = "The index %s is incomplete"
_GO_ON = "Run `selfreflect index` with the same documents to complete it."
_log = logging.getLogger(__name__)


class _BusyError(StoreError):
    """Another process holds the lock."""


class DocumentIndex(Remade):
    """A persistent index of documents.

    >>> with DocumentIndex(None, dense=False) as index:  # in memory, BM25 only
    ...     report = index.update("examples/demo_docs")
    ...     found = index.retriever().retrieve("Who founded the Tide Museum?", k=3)
    >>> len(found)
    3

    Args:
        path: folder of the index, created by the first ``update``; ``None`` keeps everything in memory.
        embedder: turns passages into vectors; ``None`` is all-MiniLM-L6-v2. An index is bound to its embedder.
        collection: name of the collection in Chroma; ``None`` takes the remembered one, or one of the index's own.
        dense: ``False`` is short for ``IndexSettings(vectors="none")``; ``True`` undoes it.
        settings: how documents are read and cut, and where vectors live. An index remembers them.
        store: a vector store of your own, in place of the setting ``vectors``; passages of others in it are left alone.
        split_sentences: where passages may be cut; ``None`` is ``shared_core.citation.split_sentences``.
        lock_timeout: seconds to wait for another process that writes to the index.
        chroma_url: old name of ``IndexSettings(vectors="chroma:URL")``.

    Attributes:
        updates: number of calls of ``update`` that have ended; retrievers of this object follow them.

    Raises:
        InputError: ``path`` is a file, or vectors are to live in Chroma but ``path`` is ``None``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        *,
        embedder: Embedder | None = None,
        collection: str | None = None,
        dense: bool | None = None,
        settings: IndexSettings | None = None,
        store: VectorStore | None = None,
        split_sentences: Splitter | None = None,
        lock_timeout: float = 5.0,
        chroma_url: str | None = None,
    ) -> None:
        self.path = None if path is None else Path(path)
        if self.path is not None and self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file, not an index.", hint="Name the folder of the index.")
        if chroma_url is not None:
            now = f"chroma_url is now settings=IndexSettings(vectors='chroma:{chroma_url}')"
            warnings.warn(now, DeprecationWarning, stacklevel=2)
            settings = (settings or IndexSettings()).replace(vectors=f"chroma:{chroma_url}")
        if self.path is None and settings is not None and settings.vectors.startswith("chroma"):
            raise InputError(
                "An index with its vectors in Chroma needs a folder for its manifest.", hint="Give path (--index DIR)."
            )
        self._places = VectorPlaces(self.path, collection, embedder, store)
        self._given_settings, self._split, self._dense = settings, split_sentences, dense
        self._lock_timeout = lock_timeout
        self._manifest = Manifest.in_memory() if self.path is None else None
        self._updating = threading.Lock()
        self.updates = 0

    def _tied_to(self) -> str:
        return "this process's memory" if self.path is None else ""

    def __enter__(self) -> DocumentIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the manifest's file. Retrievers opened before stay usable."""
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
        """Bring the index up to date with files and folders; documents from elsewhere stay as they are.

        Args:
            paths: files and folders. A document's source is its path relative to the folder given here (a file's
                name for a file); where another document has it already, the folder's name goes before it.
            prune: remove files that no longer exist in the given folders, and what files held that are empty now (but
                not what the only file held).
            progress: called after each file read and each batch embedded.

        Raises:
            InputError: no path exists, they hold no documents, or none of them can be indexed. Nothing is lost.
            IndexCorruptedError: the existing index is damaged. Nothing is changed.
            StoreError: another process is writing, the disk is full, or the index belongs to another embedder.
        """
        roots = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        found = scan(roots, exclude=() if self.path is None else (self.path,))
        if not found.files:
            if self.path is not None and self.path.is_dir():
                self._make_folder(self.path)  # an index in the folder of the documents hides them all: say that
            nothing = Failure("", "No paths were given.", "Name files or folders.")
            first = (found.failures or [nothing])[0]
            raise InputError(f"There is nothing to index: {_sentence(first)}", hint=first.hint)
        with self._updating:
            try:
                return self._update(found, prune=prune, progress=progress)
            finally:
                self.updates += 1  # of one that failed half-way too: its files were read

    def _update(
        self, found: ScanResult, *, prune: bool, progress: Callable[[IndexProgress], None] | None
    ) -> IndexReport:
        with self._writing():
            manifest = self._opened(update=True)
            before = self._remembered(manifest).vectors
            settings = self._settings(manifest)
            manifest.store("settings", settings.model_dump_json())
            splitter = self._split or default_splitter()
            manifest.store(_READING, "1")
            report = read_files(manifest, found, settings, splitter, prune=prune, progress=progress)
            manifest.store(_READING, None)
            _, passages, _ = manifest.counts()
            if not passages:
                hint = "Name files that hold text of their own."
                failed = report.failed or (Failure("", "They hold nothing that could be quoted.", hint),)
                shown = "; ".join(_sentence(failure) for failure in failed[:3])
                raise InputError(f"None of the {len(found.files)} files can be indexed: {shown}", hint=failed[0].hint)
            manifest.tidy_words()
            self._synchronise(manifest, progress)
            self._places.clear_others(manifest, settings.vectors, before)
        return dataclasses.replace(report, passages=passages)

    def unless_updating(self, read: Callable[[], None]) -> None:
        """Call ``read`` while this object begins no update; leave it where one is under way."""
        if self._updating.acquire(blocking=False):
            try:
                read()
            finally:
                self._updating.release()

    @contextmanager
    def _writing(self, timeout: float | None = None) -> Iterator[None]:
        if self.path is None:
            yield
            return
        self._make_folder(self.path)
        with self._locked(self.path, self._lock_timeout if timeout is None else timeout):
            for leftover in self.path.glob(f"{INDEX_MARK}.*.new"):  # of a process killed while creating the manifest
                leftover.unlink(missing_ok=True)
            if not (self.path / INDEX_MARK).exists() and not (self.path / "chroma").exists():
                Manifest.create(self.path)
            yield

    @staticmethod
    @contextmanager
    def _locked(path: Path, seconds: float) -> Iterator[None]:
        """Hold the lock of writers; _BusyError if another one holds it for so long."""
        from filelock import FileLock, Timeout

        lock = FileLock(path / _LOCK, timeout=seconds, mode=0o600)
        try:
            lock.acquire()
        except Timeout as error:
            raise _BusyError(f"Another process is writing to the index {path}.", hint=_WAIT) from error
        except OSError as error:
            raise StoreError(f"The index {path} cannot be locked: {error}.", hint="Check permissions.") from error
        try:
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
            raise StoreError(f"The folder {path} cannot be created: {error}.", hint="Check permissions.") from error
        if foreign and not (path / INDEX_MARK).exists():
            raise InputError(
                f"{path} is not an index and holds other files ({foreign[0]}, …).",
                hint="Name a folder that is empty or does not exist yet.",
            )

    def _settings(self, manifest: Manifest) -> IndexSettings:
        """Remembered settings, replaced where new ones were given."""
        settings = self._remembered(manifest)
        if self._given_settings is not None:
            given = {name: getattr(self._given_settings, name) for name in self._given_settings.model_fields_set}
            settings = settings.replace(**given)
        if self._dense is False:
            return settings.replace(vectors="none")
        return settings.replace(vectors="index") if self._dense and settings.vectors == "none" else settings

    def _remembered(self, manifest: Manifest) -> IndexSettings:
        try:
            return IndexSettings(**json.loads(manifest.get("settings") or "{}"))
        except (ValueError, TypeError, SettingsError) as error:
            raise IndexCorruptedError(
                f"The settings stored in the index {self.path} are damaged.",
                hint="Delete the index folder and index the documents again.",
            ) from error

    def _synchronise(self, manifest: Manifest, progress: Callable[[IndexProgress], None] | None) -> None:
        """Make the vectors equal to the manifest's passages. Call with the lock held."""
        held = self._places.open_set(manifest, self._settings(manifest).vectors)
        if held is None:
            return
        missing, stale = self._places.difference(manifest, held)
        passages = manifest.passages(missing) if missing else iter(())
        done = 0
        while batch := list(islice(passages, BATCH)):
            held.add(batch)
            done += len(batch)
            if progress:
                progress(IndexProgress("embedding", done, len(missing), str(batch[-1].metadata["source"])))
        for some in batches(stale, BATCH):
            held.delete(some)
        manifest.forget_retired()

    # --- reading ------------------------------------------------------------------------------------------------

    def retriever(self) -> IndexRetriever:
        """Open a hybrid retriever: BM25 and, unless ``vectors`` is ``none``, dense search.

        It reads a snapshot, and after each ``update`` of this object the new content. Of updates by other objects and
        processes it sees nothing: open another one (vectors in Chroma are always the current ones). If an update was
        killed and little is left to do, it is completed first, unless another process is at it or the index cannot be
        written to; then the existing part is searched, and a warning is logged.

        Raises:
            IndexMissingError, IndexCorruptedError, StoreError: see ``update``; an index without passages is missing,
                or not usable yet while another process is creating it.
        """
        manifest = self._opened()
        place = self._settings(manifest).vectors
        store = self._places.open_store(manifest, place)
        waiting = self._waiting(manifest, place, store)
        if waiting or not manifest.counts()[1] or manifest.get(_READING):
            busy = not self._complete(manifest, waiting)
            self._check_content(manifest, self._waiting(manifest, place, store), busy=busy)
        from shared_core.documents.stored import IndexRetriever, StoredBM25, StoredVectors

        snapshot = manifest.snapshot()
        retrievers: list[Retriever] = [StoredBM25(snapshot)]
        if store is not None:
            retrievers.append(store)
        elif place == "index":
            retrievers.append(StoredVectors(snapshot, self._places.bound(manifest)))
        return IndexRetriever(self, retrievers, snapshot.version)

    def version(self) -> str:
        """Name the content, changes by others included; ``retriever().index_version`` names that of a snapshot."""
        return self._opened().version

    def changes(self) -> tuple[int, ...]:
        """Return numbers that differ once anybody has changed the index since the last call; cheaper than ``version``.

        StoreError if the index is gone, or cannot be used.
        """
        return self._opened().changes()

    def is_written_to(self) -> bool:
        """Whether an update is under way, here or in another process; ``False`` where this one may not write."""
        if self.path is None or not self.path.is_dir() or not writable(self.path):
            return False
        try:
            with self._locked(self.path, 0):
                return False
        except _BusyError:
            return True

    def _waiting(self, manifest: Manifest, place: str, store: VectorStore | None) -> int:
        """Count passages without vectors and vectors without a passage."""
        if store is not None:
            return sum(map(len, self._places.difference(manifest, store)))
        return len(manifest.without_vectors()) if place == "index" else 0

    def _complete(self, manifest: Manifest, waiting: int) -> bool:
        """Finish a killed update if that takes seconds; return whether no other process is writing."""
        if self.path is not None and not writable(self.path):
            return True
        try:
            with self._writing(timeout=0):
                if waiting <= _SOON:
                    self._synchronise(manifest, None)
        except _BusyError:
            return False
        return True

    def _check_content(self, manifest: Manifest, waiting: int, *, busy: bool) -> None:
        _, passages, _ = manifest.counts()
        if not passages and busy:
            raise StoreError(
                f"The index {self.path} is being created by another process.",
                hint="Wait until it is done, then try again.",
            )
        if not passages:
            raise IndexMissingError(
                f"The index {self.path or 'in memory'} holds no documents.",
                hint=f"Index some: selfreflect index DOCUMENTS --index {self.path or 'DIR'}",
            )
        if manifest.get(_READING) and not busy:
            _log.warning(f"{_INCOMPLETE}: an update was interrupted before it had read all files. {_GO_ON}", self.path)
        if waiting:
            why = "another process is updating it" if busy else "an update was interrupted"
            said = f"{_INCOMPLETE} (%s): %d of its %d passages are found by BM25 only. {_GO_ON}"
            _log.warning(said, self.path, why, waiting, passages)

    def passages(self) -> list[Passage]:
        """List all passages, by source and position."""
        return list(self._opened().passages())

    def sources(self) -> list[str]:
        """List the names of all documents, sorted."""
        return list(self._opened().files())

    def document_text(self, source: str) -> str:
        """Read a document's extracted text, to which its passages' offsets refer; InputError if there is none."""
        return self._opened().text(source)

    def stats(self) -> IndexStats:
        """Count documents, passages and characters, and measure the size on disk."""
        manifest = self._opened()
        documents, passages, characters = manifest.counts()
        files = self.path.rglob("*") if self.path is not None else ()
        size = sum(file.stat().st_size for file in files if file.is_file())
        vectors = self._settings(manifest).vectors
        embedder = "none" if vectors == "none" else manifest.get("embedder") or "none"
        return IndexStats(documents, passages, characters, embedder, round(size / 1e6, 2))

    def _opened(self, *, update: bool = False) -> Manifest:
        if self._manifest is not None and self._manifest.replaced():
            self._manifest = None  # another thread may still read it: it closes with its last use
        if self._manifest is None:
            assert self.path is not None
            self._manifest = Manifest.open(self.path, update=update)
        return self._manifest


def _sentence(failure: Failure) -> str:
    return f"{failure.source}: {failure.message}" if failure.source else failure.message
