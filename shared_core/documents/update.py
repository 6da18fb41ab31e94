"""The two steps of an update: changed files are read into the manifest, vectors go where the index keeps them."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shared_core.documents.chunking import CHUNKING_VERSION, Splitter, chunk_document
from shared_core.documents.load import LOADER_VERSION, Document, Failure, LoadOptions, parse_document, read_bytes
from shared_core.documents.loaders.formats import BINARY, TABLES, file_format
from shared_core.documents.manifest import FileRecord, Manifest
from shared_core.documents.scan import FoundFile, ScanResult
from shared_core.documents.store_types import IndexProgress, IndexReport, IndexSettings, PassageSet, VectorStore
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
            hint = f"Delete {self.path}/chroma and run `selfreflect index` again: "
            hint += "texts are kept, only the vectors are computed anew."
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


def read_files(
    manifest: Manifest,
    found: ScanResult,
    settings: IndexSettings,
    splitter: Splitter,
    *,
    prune: bool,
    progress: Callable[[IndexProgress], None] | None,
) -> IndexReport:
    """Read changed files, each in a transaction of its own, then delete missing ones. A file that fails fails alone."""
    records = manifest.files()
    reader = _Reader(manifest, settings, splitter)
    gone = _gone(records, found) if prune else set()
    named = name_files(found, records)
    for done, (source, file) in enumerate(named, 1):
        reader.read(source, file, records.get(source))
        if progress:
            progress(IndexProgress("reading", done, len(found.files), source))
    gone -= {source for source, _ in named}
    deleted = sorted([*gone, *reader.drop_empty(gone if prune else None)])
    for source in deleted:
        manifest.remove(source)
    return IndexReport(
        added=tuple(reader.added),
        changed=tuple(reader.changed),
        deleted=tuple(deleted),
        unchanged=tuple(reader.unchanged),
        failed=(*found.failures, *reader.failed),
        missing=tuple(found.missing),
        skipped=found.skipped,
        skipped_endings=tuple(sorted(found.skipped_endings.items())),
    )


def config_hash(settings: IndexSettings, splitter: Splitter, name: str) -> str:
    """Hash everything, besides a file's bytes, on which its passages depend."""
    found = file_format(name)
    kind = found.kind if found is not None else ""
    parts: list[object] = [LOADER_VERSION, CHUNKING_VERSION, settings.max_chars, settings.overlap]
    parts.append(
        f"{getattr(splitter, '__module__', '')}.{getattr(splitter, '__qualname__', type(splitter).__qualname__)}"
    )
    parts.append(settings.text_column if kind in TABLES else None)
    parts.append(settings.encoding if kind not in BINARY else None)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def name_files(found: ScanResult, records: Mapping[str, FileRecord]) -> list[tuple[str, FoundFile]]:
    """Name each file: a sorted, unique source that stays the same at each update.

    A file indexed before keeps its source. A new file takes its path relative to its root, unless another document that
    still exists has that name; then it is prefixed with the root's name, and with a number if necessary.
    """
    known = {record.location: source for source, record in records.items()}
    named = {known[file.location]: file for file in found.files if file.location in known}
    for file in found.files:
        if file.location in known:
            continue
        source, number = file.source, 1
        while source in named or _occupied(records.get(source), found):
            prefix = file.root if number == 1 else f"{file.root}-{number}"
            source, number = f"{prefix}/{file.source}", number + 1
        named[source] = file
    return sorted(named.items())


def _occupied(record: FileRecord | None, found: ScanResult) -> bool:
    """Whether a record's file still exists; if not, a new file of the same name replaces it (a folder was moved)."""
    return record is not None and not found.covers(record.location) and os.path.lexists(record.location)


def _gone(records: Mapping[str, FileRecord], found: ScanResult) -> set[str]:
    present = {file.location for file in found.files}
    return {name for name, file in records.items() if file.location not in present and found.covers(file.location)}


class _Reader:
    """Reads files into the manifest and records the outcome."""

    def __init__(self, manifest: Manifest, settings: IndexSettings, splitter: Splitter) -> None:
        self.manifest, self.settings, self.splitter = manifest, settings, splitter
        self.options = LoadOptions(
            settings.text_column, settings.encoding, settings.max_file_bytes, settings.max_file_seconds
        )
        self.added: list[str] = []
        self.changed: list[str] = []
        self.unchanged: list[str] = []
        self.emptied: list[str] = []
        self.failed: list[Failure] = []

    def read(self, source: str, file: FoundFile, before: FileRecord | None) -> None:
        """Bring one file up to date; errors of the manifest are raised, all others recorded."""
        config = config_hash(self.settings, self.splitter, file.path.name)
        try:
            data = read_bytes(file.path, self.settings.max_file_bytes)
            if before is not None and not data.strip():
                self.emptied.append(source)
                return
            content = hashlib.sha256(data).hexdigest()
            same = before is not None and (before.content_hash, before.config_hash) == (content, config)
            parsed = None if same else self._parse(source, file, data)
        except SelfReflectError as error:
            self._fail(source, error.message, error.hint, before)
            return
        except Exception as error:  # a bug in a parser must not cost the other files
            hint = "Leave the file out, and report this as a bug in selfreflect."
            self._fail(source, f"It cannot be read: {type(error).__name__}: {error}", hint, before)
            return
        if parsed is None:
            assert before is not None
            if before.location != file.location:
                self.manifest.touch(source, file.location)
            self.unchanged.append(source)
            problems = before.problems
        else:
            document, passages = parsed
            record = FileRecord(
                source, file.location, content, config, document.title, document.format, len(document.text),
                document.problems,
            )  # fmt: skip
            self.manifest.put(record, document.text, passages)
            (self.added if before is None else self.changed).append(source)
            problems = document.problems
        self.failed += [Failure(source, problem.message, problem.hint) for problem in problems]

    def drop_empty(self, gone: set[str] | None) -> list[str]:
        """Return the files to remove because they are empty now: a quote of what they held is in no file any more.

        Where nothing else would be left they stay: files cut short by mistake must not cost the whole index. ``gone``
        are sources that are removed anyway; ``None`` where nothing is to be removed.
        """
        emptied = self.emptied if gone is not None and {*self.manifest.files()} - gone - {*self.emptied} else []
        for source in self.emptied:
            said = "It is empty now; what it held is removed." if emptied else "It is empty (its former state is kept)."
            self._fail(source, said, "Leave it out, or add some text.", None)
        return emptied

    def _parse(self, source: str, file: FoundFile, data: bytes) -> tuple[Document, list[Passage]]:
        document = parse_document(data, source, self.options, file_name=file.path.name)
        cut = self.settings
        return document, chunk_document(
            document, max_chars=cut.max_chars, overlap=cut.overlap, split_sentences=self.splitter
        )

    def _fail(self, source: str, message: str, hint: str, before: FileRecord | None) -> None:
        kept = " (its former state is kept)" if before is not None else ""
        # Failures are printed and stored as UTF-8; a file's name may be any bytes.
        shown = source.encode("utf-8", "replace").decode()
        self.failed.append(Failure(shown, message + kept, hint))
