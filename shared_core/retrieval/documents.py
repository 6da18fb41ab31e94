"""Documents: a file's text as extracted, with what is known about its structure.

Formats by file name: ``.txt .text``, ``.md .markdown``, ``.html .htm .xhtml``, ``.pdf``, ``.docx``, and tables with a
text column: ``.csv .tsv .jsonl .ndjson``.
"""

from __future__ import annotations

import hashlib
import os
import stat
import unicodedata
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import NamedTuple

from shared_core.errors import DocumentError, InputError
from shared_core.retrieval.loaders.base import Extracted, Heading, Part, Problem, check_encoding

LOADER_VERSION = 1
"""Raised whenever the same bytes may give another text; an index then reads its files again."""

MAX_FILE_BYTES = 64 * 2**20
SUFFIXES = {
    ".txt": "text", ".text": "text",
    ".md": "markdown", ".markdown": "markdown",
    ".html": "html", ".htm": "html", ".xhtml": "html",
    ".pdf": "pdf", ".docx": "docx",
    ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl",
}  # fmt: skip
"""File name endings (lower case) and the format each stands for."""


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a file.

    Attributes:
        source: names the file: its path relative to the root it was found under, with ``/``.
        text: as extracted (txt, md: the file itself); offsets of passages are code points of it.
        title: from the file (``<title>``, first heading, core properties, a first line standing alone), else its name.
        format: a value of ``SUFFIXES``.
        content_hash: SHA-256 of the file's bytes, hexadecimal; empty for a document that is no file.
        headings: in order.
        parts: stretches no passage crosses (pages, rows); empty if the text is one.
        problems: what within the file could not be used.
    """

    source: str
    text: str
    title: str = ""
    format: str = "text"
    content_hash: str = ""
    headings: tuple[Heading, ...] = ()
    parts: tuple[Part, ...] = ()
    problems: tuple[Problem, ...] = ()


class Failure(NamedTuple):
    """A file (or a part of one) that could not be indexed, why, and what to do about it."""

    source: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How files are read.

    Attributes:
        text_column: of tables; ``None`` looks for one of ``TEXT_COLUMNS``.
        encoding: of text files that are not UTF-8 and carry no byte-order mark; ``None`` refuses them.
        max_file_bytes: larger files are refused.
    """

    text_column: str | None = None
    encoding: str | None = None
    max_file_bytes: int = MAX_FILE_BYTES

    def __post_init__(self) -> None:
        """Refuse an encoding nobody knows and a limit that lets nothing through."""
        if self.encoding is not None:
            object.__setattr__(self, "encoding", check_encoding(self.encoding))
        if self.max_file_bytes < 1:
            raise InputError(f"max_file_bytes must be positive, not {self.max_file_bytes}.")


def load_document(
    path: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    source: str | None = None,
    text_column: str | None = None,
    encoding: str | None = None,
    max_file_bytes: int = MAX_FILE_BYTES,
) -> Document:
    """Read one file.

    Args:
        path: of the file; its ending names its format.
        root: ``source`` becomes the path relative to it; ``None`` takes the file's name.
        source: sets the name outright.
        text_column: of a table; ``None`` looks for one of the usual names.
        encoding: of text that is not UTF-8.
        max_file_bytes: larger files are refused.

    Raises:
        DocumentError: missing, unreadable, too large, empty, binary, wrongly encoded, damaged, protected, without
            text or of an unknown format; the hint says what to do.
        MissingDependencyError: the format needs a package that is not installed.
    """
    path = Path(path)
    options = LoadOptions(text_column, encoding, max_file_bytes)
    name = source or (Path(os.path.relpath(path, root)).as_posix() if root is not None else path.name)
    return parse_document(read_bytes(path, max_file_bytes), name, options, suffix=path.suffix)


def read_bytes(path: Path, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """The file's bytes, read once, so that hash and text are of the same state of the file.

    Raises:
        DocumentError: missing, not a plain file, unreadable, empty, or larger than ``max_bytes``.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
            raise DocumentError("It is not a plain file.", hint="Give a file or a folder.")
        with path.open("rb") as file:
            data = file.read(max_bytes + 1) if status.st_size <= max_bytes else b""
    except FileNotFoundError as error:
        raise DocumentError("There is no such file.", hint="Check the path; quote it if it has spaces.") from error
    except PermissionError as error:
        raise DocumentError("It may not be read: permission denied.", hint="chmod u+r it, or leave it out.") from error
    except (OSError, ValueError) as error:
        raise DocumentError(f"It cannot be read: {error}.", hint="Check the disk and the path.") from error
    if status.st_size > max_bytes or len(data) > max_bytes:
        raise DocumentError(
            f"It has {max(status.st_size, len(data)):,} bytes; the limit is {max_bytes:,}.",
            hint="Split the file, or raise the limit (--max-file-mb).",
        )
    if not data:
        raise DocumentError("It is empty (0 bytes).", hint="Leave it out, or write something into it.")
    return data


def parse_document(data: bytes, source: str, options: LoadOptions, *, suffix: str) -> Document:
    """Make a document of a file's bytes. Raises as ``load_document`` does."""
    try:
        source.encode()
    except UnicodeEncodeError as error:
        raise DocumentError("Its name is not valid UTF-8.", hint="Rename the file.") from error
    if any(unicodedata.category(character) == "Cc" for character in source):
        raise DocumentError("Its name holds control characters.", hint="Rename the file.")
    kind = SUFFIXES.get(suffix.lower())
    if kind is None:
        known = " ".join(SUFFIXES)
        raise DocumentError(f"Its format ({suffix or 'no ending'}) is not known.", hint=f"Known endings: {known}")
    try:
        extracted = _extract(kind, data, options)
    except MemoryError as error:
        raise DocumentError("It does not fit into memory.", hint="Split the file.") from error
    if not extracted.text.strip():
        why = f"; {extracted.problems[0].message}" if extracted.problems else ""
        raise DocumentError(f"It holds no text{why}.", hint="Leave it out, or check that it is the right file.")
    return Document(
        source=source,
        text=extracted.text,
        title=extracted.title or PurePath(source).stem,
        format=kind,
        content_hash=hashlib.sha256(data).hexdigest(),
        headings=extracted.headings,
        parts=extracted.parts,
        problems=extracted.problems,
    )


def _extract(kind: str, data: bytes, options: LoadOptions) -> Extracted:
    # Imported here: the parsers of the formats that are not used cost nothing.
    if kind in ("text", "markdown"):
        from shared_core.retrieval.loaders.text import load_markdown, load_text

        return (load_text if kind == "text" else load_markdown)(data, options.encoding)
    if kind == "html":
        from shared_core.retrieval.loaders.html import load_html

        return load_html(data, options.encoding)
    if kind in ("pdf", "docx"):
        from shared_core.retrieval.loaders.office import load_docx, load_pdf

        return (load_pdf if kind == "pdf" else load_docx)(data)
    from shared_core.retrieval.loaders.table import load_csv, load_jsonl

    if kind == "jsonl":
        return load_jsonl(data, options.encoding, options.text_column)
    return load_csv(data, options.encoding, options.text_column, delimiter="\t" if kind == "tsv" else None)
