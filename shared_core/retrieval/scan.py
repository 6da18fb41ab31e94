"""Which files there are under given paths, what each is called, and what is in them one after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from shared_core.errors import DocumentError, SelfReflectError
from shared_core.retrieval.documents import (
    MAX_FILE_BYTES,
    SUFFIXES,
    Document,
    Failure,
    LoadOptions,
    parse_document,
    read_bytes,
)

INDEX_MARK = "selfreflect-index.sqlite"
"""A folder that holds a file of this name is an index and is never read as documents."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to read.

    Attributes:
        path: to open it by.
        source: its path relative to the root it was found under, with ``/``.
        location: its absolute path with symbolic links resolved; tells files apart.
        root: the root's name, to tell files of the same relative path apart.
    """

    path: Path
    source: str
    location: str
    root: str


@dataclass(slots=True)
class Found:
    """What a scan found.

    Attributes:
        files: in the order of their roots, then of their sources; each file once.
        failures: paths that do not exist, folders that cannot be listed or hold no document, broken links.
        missing: the given paths that do not exist.
        complete: absolute folders all of whose content is known: a file formerly there and not found now is gone.
        incomplete: absolute folders within them that could not be listed.
        skipped: files in folders passed over for their format.
    """

    files: list[FoundFile] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    complete: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    skipped: int = 0

    def covers(self, location: str) -> bool:
        """Whether a file at ``location`` would have been found if it were still among the documents."""
        return any(_within(location, folder) for folder in self.complete) and not any(
            _within(location, folder) for folder in self.incomplete
        )


def scan(paths: Iterable[str | os.PathLike[str]], *, exclude: Collection[str | os.PathLike[str]] = ()) -> Found:
    """Find the documents under ``paths``.

    A folder is walked through; passed over are hidden entries, office lock files (``~$…``), index folders, ``exclude``
    and unknown formats. Symbolic links are followed, each folder is entered once, and a file that can be reached in
    two ways is taken once, by its real path rather than by a link.
    """
    found = Found()
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
            found.failures.append(
                Failure(str(given), "There is no such file or folder.", "Check the path; quote it if it has spaces.")
            )
    return found


def iter_documents(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    text_column: str | None = None,
    encoding: str | None = None,
    max_file_bytes: int = MAX_FILE_BYTES,
    on_failure: Callable[[Failure], None] | None = None,
) -> Iterator[Document]:
    """Read files and folders (recursively; hidden files and unknown formats in folders are passed over).

    Args:
        paths: files and folders.
        text_column, encoding, max_file_bytes: as for ``load_document``.
        on_failure: told of each file that cannot be read, and the others still come; ``None`` raises instead.

    Raises:
        DocumentError, MissingDependencyError: from the first file that fails, if ``on_failure`` is ``None``.
    """
    options = LoadOptions(text_column, encoding, max_file_bytes)
    found = scan([paths] if isinstance(paths, (str, os.PathLike)) else paths)
    for failure in found.failures:
        if on_failure is None:
            raise DocumentError(f"{failure.source}: {failure.message}", hint=failure.hint)
        on_failure(failure)
    for file in found.files:
        try:
            data = read_bytes(file.path, max_file_bytes)
            yield parse_document(data, file.source, options, suffix=file.path.suffix)
        except SelfReflectError as error:
            if on_failure is None:
                raise
            on_failure(Failure(file.source, error.message, error.hint))


def _scan_folder(root: Path, found: Found, excluded: Collection[str], seen: set[str]) -> None:
    walk = _Walk(root, found, set(excluded))
    walk.run()
    new = 0
    # Real entries before links, so that a file keeps its own name when a link leads to it as well.
    for _, source, path in sorted(walk.entries):
        location = os.path.realpath(path)
        if location in seen:
            new += 1
            continue
        seen.add(location)
        found.files.append(FoundFile(path, source, location, Path(os.path.realpath(root)).name))
        new += 1
    if new:
        found.complete.append(os.path.realpath(root))
    elif not walk.failed:
        # Rather an unmounted disk than the wish to drop all documents: so nothing counts as gone.
        found.failures.append(
            Failure(str(root), "The folder holds no documents.", f"Known endings: {' '.join(SUFFIXES)}")
        )


class _Walk:
    """One folder's tree: real folders first, then those behind links."""

    def __init__(self, root: Path, found: Found, entered: set[str]) -> None:
        self.root, self.found, self.entered = root, found, entered
        self.entries: list[tuple[bool, str, Path]] = []
        self.failed = False

    def run(self) -> None:
        """Walk; entries and failures gather in the attributes."""
        pending, linked = [(self.root, False)], list[Path]()
        while pending or linked:
            folder, behind_link = pending.pop() if pending else (linked.pop(0), True)
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
            for entry in entries:
                if entry.name.startswith((".", "~$")):
                    continue
                path = Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    pending.append((path, behind_link))
                elif entry.is_symlink() and entry.is_dir():
                    linked.append(path)
                else:
                    self._file(path, behind_link or entry.is_symlink())

    def _file(self, path: Path, behind_link: bool) -> None:
        if path.suffix.lower() not in SUFFIXES:
            self.found.skipped += 1
        elif behind_link and not path.exists():
            self._fail(path, "The symbolic link leads nowhere.", "Remove the link or restore what it points to.")
        else:
            self.entries.append((behind_link, path.relative_to(self.root).as_posix(), path))

    def _fail(self, path: Path, message: str, hint: str) -> None:
        self.failed = True
        source = path.relative_to(self.root).as_posix() if path != self.root else str(path)
        self.found.failures.append(Failure(source, message, hint))


def _within(location: str, folder: str) -> bool:
    return location == folder or location.startswith(folder.rstrip(os.sep) + os.sep)
