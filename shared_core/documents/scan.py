"""Find the files under given paths and iterate over their documents."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shared_core.documents.chunking import MAX_CHARS, OVERLAP, chunk_document
from shared_core.documents.load import MAX_FILE_BYTES, Document, Failure, LoadOptions, parse_document, read_bytes
from shared_core.documents.loaders.extracted import MAX_SECONDS
from shared_core.documents.loaders.formats import ending, file_format, is_generated, may_be_manual, way_out
from shared_core.errors import DocumentError, SelfReflectError
from shared_core.types import Passage

_FOREIGN_FOLDERS = frozenset(("node_modules", "__pycache__", "site-packages"))  # installed packages and caches
_ENVIRONMENT_MARK = "pyvenv.cfg"
_SHOWN_ENDINGS = 8
_BEGINNING = 4096  # bytes that tell a manual page

INDEX_MARK = "selfreflect-index.sqlite"
"""A folder with a file of this name is an index and is never read as documents."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to read.

    Attributes:
        source: its path relative to the root it was found under, with ``/``.
        location: its absolute path with symbolic links resolved, which identifies it.
        root: the root's name, which distinguishes files with the same relative path.
    """

    path: Path
    source: str
    location: str
    root: str


@dataclass(slots=True)
class ScanResult:
    """The result of a scan.

    Attributes:
        files: in the order of their roots, then of their sources; each file once.
        failures: paths that do not exist, folders that cannot be listed or have no documents, broken links.
        missing: the given paths that do not exist.
        complete: absolute folders that were read whole: a file indexed from there and not found now was deleted.
        incomplete: absolute folders within them that could not be listed.
        skipped_endings: the same by ending; names of folders that were skipped whole end in ``/``.
    """

    files: list[FoundFile] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    complete: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    skipped: int = 0
    skipped_endings: Counter[str] = field(default_factory=Counter)

    def covers(self, location: str) -> bool:
        """Return whether the scan would have found a file at ``location`` if it existed."""
        return any(_within(location, folder) for folder in self.complete) and not any(
            _within(location, folder) for folder in self.incomplete
        )


def scan(paths: Iterable[str | os.PathLike[str]], *, exclude: Collection[str | os.PathLike[str]] = ()) -> ScanResult:
    """Find the documents under ``paths``.

    Folders are searched recursively. Hidden entries, office lock files (``~$…``), index folders and ``exclude`` are
    ignored; unknown formats, generated scripts and search indexes, installed packages (``node_modules``, virtual
    environments) and caches are skipped and counted. Symbolic links are followed, each folder is entered once, and a
    file that can be reached in two ways is taken once, by its real path rather than by a link.
    """
    found = ScanResult()
    excluded = {os.path.realpath(p) for p in exclude}
    seen: set[str] = set()
    for given in paths:
        path = Path(given)
        if path.is_dir():
            _scan_folder(path, found, excluded, seen)
        elif os.path.lexists(path):
            location = os.path.realpath(path)
            if location not in seen:
                seen.add(location)
                found.files.append(FoundFile(path, path.name, location, Path(location).parent.name))
        else:
            found.missing.append(str(given))
            what = Failure(str(given), "There is no such file or folder.", "Check the path; quote it if it has spaces.")
            found.failures.append(what)
    return found


def iter_documents(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    text_column: str | None = None,
    encoding: str | None = None,
    max_file_bytes: int = MAX_FILE_BYTES,
    max_seconds: float = MAX_SECONDS,
    on_failure: Callable[[Failure], None] | None = None,
) -> Iterator[Document]:
    """Read files and folders (recursively; hidden files and unknown formats in folders are skipped).

    ::

        for document in iter_documents("manuals", on_failure=print):
            print(document.source, len(document.text))

    Args:
        text_column, encoding, max_file_bytes, max_seconds: as for ``load_document``.
        on_failure: called for each file that cannot be read, and reading goes on; ``None`` raises instead.

    Raises:
        DocumentError, MissingDependencyError: from the first file that fails, if ``on_failure`` is ``None``.
    """
    options = LoadOptions(text_column, encoding, max_file_bytes, max_seconds)
    found = scan([paths] if isinstance(paths, (str, os.PathLike)) else paths)
    for failure in found.failures:
        if on_failure is None:
            raise DocumentError(f"{failure.source}: {failure.message}", hint=failure.hint)
        on_failure(failure)
    for file in found.files:
        try:
            data = read_bytes(file.path, max_file_bytes)
            yield parse_document(data, file.source, options, file_name=file.path.name)
        except SelfReflectError as error:
            if on_failure is None:
                raise
            on_failure(Failure(file.source, error.message, error.hint))


def iter_passages(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    max_chars: int = MAX_CHARS,
    overlap: int = OVERLAP,
    text_column: str | None = None,
    encoding: str | None = None,
    on_failure: Callable[[Failure], None] | None = None,
) -> Iterator[Passage]:
    """Read files and folders as passages, as an index does: for an index of another program.

    ::

        for passage in iter_passages("manuals", on_failure=print):
            print(passage.metadata["source"], passage.metadata.get("section"), passage.text)

    Args:
        paths: files and folders, as for ``iter_documents``.
        max_chars, overlap: as for ``chunk_document``.
        text_column, encoding: as for ``load_document``.
        on_failure: called for each file that cannot be read, and reading goes on; ``None`` raises instead.

    Raises:
        DocumentError, MissingDependencyError: from the first file that fails, if ``on_failure`` is ``None``.
        InputError: ``max_chars`` or ``overlap`` out of range.
    """
    for document in iter_documents(paths, text_column=text_column, encoding=encoding, on_failure=on_failure):
        yield from chunk_document(document, max_chars=max_chars, overlap=overlap)


def _scan_folder(root: Path, found: ScanResult, excluded: Collection[str], seen: set[str]) -> None:
    walk = _Walk(root, found, set(excluded))
    walk.run()
    real_root = os.path.realpath(root)
    # Real entries before links, so that a file keeps its own name when a link leads to it as well.
    for _, source, path in sorted(walk.entries):
        location = os.path.realpath(path)
        if location not in seen:
            seen.add(location)
            found.files.append(FoundFile(path, source, location, Path(real_root).name))
    if walk.entries:
        found.complete.append(real_root)
    elif not walk.failed:
        # More likely an unmounted disk than the wish to drop all documents, so nothing counts as deleted.
        found.failures.append(Failure(str(root), "The folder contains no documents.", _hint_for_none(found)))


def _hint_for_none(found: ScanResult) -> str:
    ways = [f"{kind}: {way_out(kind)}" for kind, _ in found.skipped_endings.most_common() if way_out(kind)]
    known = "Supported: text and markup, HTML, PDF, office documents, EPUB, tables, mails, source files, .gz of these."
    return " ".join([known, *(f"({way}.)" for way in ways[:2])])


def describe_skipped(endings: Mapping[str, int]) -> str:
    """Describe skipped files.

    >>> describe_skipped({".png": 12, ".xlsb": 3})
    '.png 12 (pictures hold no text; scans need OCR (for example ocrmypdf)), .xlsb 3 (save them as .xlsx)'
    """
    ordered = sorted(endings.items(), key=lambda item: (-item[1], item[0]))
    named = [f"{kind} {count}" + (f" ({way})" if (way := way_out(kind)) else "") for kind, count in ordered]
    more = sum(count for _, count in ordered[_SHOWN_ENDINGS:])
    return ", ".join(named[:_SHOWN_ENDINGS]) + (f", others {more}" if more else "")


class _Walk:
    """A walk through one folder: real folders first, then those behind links."""

    def __init__(self, root: Path, found: ScanResult, entered: set[str]) -> None:
        self.root, self.found, self.entered = root, found, entered
        self.entries: list[tuple[bool, str, Path]] = []
        self.failed = False
        self._pending: list[tuple[Path, bool]] = [(root, False)]  # folders to enter, and whether behind a link
        self._linked: list[Path] = []

    def run(self) -> None:
        """Collect entries and failures."""
        while self._pending or self._linked:
            folder, behind_link = self._pending.pop() if self._pending else (self._linked.pop(0), True)
            location = os.path.realpath(folder)
            if location in self.entered or os.path.exists(os.path.join(location, INDEX_MARK)):
                continue
            self.entered.add(location)
            try:
                entries = sorted(os.scandir(folder), key=lambda e: e.name, reverse=True)
            except OSError as error:
                self._fail(folder, f"The folder cannot be listed: {error.strerror or error}.", "chmod u+rx it.")
                self.found.incomplete.append(location)
                continue
            if folder != self.root and any(entry.name == _ENVIRONMENT_MARK for entry in entries):
                self.found.skipped_endings[f"{folder.name}/"] += 1
                continue
            for entry in entries:
                if not entry.name.startswith((".", "~$")):
                    self._entry(entry, behind_link)

    def _entry(self, entry: os.DirEntry[str], behind_link: bool) -> None:
        path = Path(entry.path)
        try:
            is_link, is_folder = entry.is_symlink(), entry.is_dir()
        except OSError as error:  # a link to itself, or through a folder without permission
            if file_format(path.name) is None:
                self._skip(path)
            else:
                loop = error.errno == errno.ELOOP
                what = "points to itself" if loop else f"cannot be followed: {error.strerror or error}"
                self._fail(path, f"The symbolic link {what}.", "Remove the link.")
            return
        if not is_folder:
            self._file(path, behind_link or is_link)
        elif path.name in _FOREIGN_FOLDERS:
            self.found.skipped_endings[f"{path.name}/"] += 1
        elif is_link:
            self._linked.append(path)
        else:
            self._pending.append((path, behind_link))

    def _file(self, path: Path, behind_link: bool) -> None:
        source = path.relative_to(self.root)
        if file_format(path.name) is None or is_generated(source) or (may_be_manual(path.name) and not _is_roff(path)):
            self._skip(path)
        elif behind_link and not os.path.exists(path):
            self._fail(path, "The symbolic link is broken.", "Remove the link or restore its target.")
        else:
            self.entries.append((behind_link, source.as_posix(), path))

    def _skip(self, path: Path) -> None:
        self.found.skipped += 1
        generated = file_format(path.name) is not None and not may_be_manual(path.name)
        self.found.skipped_endings[f"generated {path.suffix}" if generated else ending(path.name)] += 1

    def _fail(self, path: Path, message: str, hint: str) -> None:
        self.failed = True
        source = path.relative_to(self.root).as_posix() if path != self.root else str(path)
        self.found.failures.append(Failure(source, message, hint))


def _is_roff(path: Path) -> bool:
    """Return whether a file that may be a manual page begins as one; False if it cannot be read."""
    from shared_core.documents.loaders.man import is_roff  # only where there is such a file

    try:
        with path.open("rb") as file:
            return is_roff(file.read(_BEGINNING).decode("utf-8", "replace"))
    except OSError:
        return False


def _within(location: str, folder: str) -> bool:
    return location == folder or location.startswith(folder.rstrip(os.sep) + os.sep)
