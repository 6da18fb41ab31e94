"""Read a file as a document: its text with headings, pages and table rows.

The file's name tells its format (``loaders/formats.py`` lists them), also of one compressed as ``.gz`` or ``.bz2``.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import hashlib
import importlib.util
import io
import os
import re
import stat
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from shared_core.documents.loaders.extracted import (
    MAX_SECONDS,
    Budget,
    Extracted,
    Heading,
    Page,
    Problem,
    Segment,
    damaged,
    read_unpacked,
)
from shared_core.documents.loaders.formats import (
    BINARY,
    OFFICE,
    PACKED,
    SUFFIXES,
    TABLES,
    check_encoding,
    decode,
    ending,
    file_format,
    is_rst,
    office_format,
    way_out,
)
from shared_core.documents.loaders.line_groups import with_groups
from shared_core.errors import DocumentError, InputError
from shared_core.support.regex import lazy_regex

LOADER_VERSION = 47
"""Increased whenever the same bytes may give another text; an index then reads its files again."""

_OPEN: dict[str, Callable[[io.BytesIO], Any]] = {"gzip": gzip.open, "bzip2": bz2.open}

MAX_FILE_BYTES = 64 * 2**20

_NAMELESS = TABLES | {"code", "config"}  # formats whose capitals tell no names
_NAME = lazy_regex(r"[^\W\d_]{4,}")
_OF_FILE, _OF_FOLDER = 3, 6  # mentions, at least, of a name that stands in the file's name, in a folder's
_CODE = lazy_regex(r"(?<![^\W_])([^\W\d_]{2,12})[-_ ]?(\d{1,4})(?![^\W_])")  # of a course or a product: "Math-141"
_OF_CODE = 2  # mentions of one that stands in the file's name


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a file with its structure.

    >>> document = Document("ferry.txt", "The ferry leaves at nine.", title="Ferry")
    >>> document.text[4:9]
    'ferry'

    Attributes:
        source: the file's name: its path relative to the root it was found under, with ``/``.
        text: as extracted (txt: the file itself); offsets of passages count its code points.
        title: from the file (``<title>``, first heading, properties, a first line on its own), else the file's name;
            before it the names in the path that the text mentions and the title does not (``Brookfield: By-laws``).
        format: a value of ``loaders.formats.SUFFIXES``.
        content_hash: SHA-256 of the file's bytes, hexadecimal; empty for a document that is not a file.
        segments: stretches whose ends no passage crosses (table rows); empty if the text is one.
        problems: lines, pages or rows that could not be used.
        pages: where pages (of a PDF) or slides begin.
    """

    source: str
    text: str
    title: str = ""
    format: str = "text"
    content_hash: str = ""
    headings: tuple[Heading, ...] = ()
    segments: tuple[Segment, ...] = ()
    problems: tuple[Problem, ...] = ()
    pages: tuple[Page, ...] = ()


class Failure(NamedTuple):
    """A file, or a part of one, that could not be indexed; the reason; what to do about it."""

    source: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options for reading files.

    Attributes:
        text_column: of tables; ``None`` looks for one of ``TEXT_COLUMNS``.
        encoding: of text files that are not UTF-8 and have no byte-order mark; ``None`` refuses them.
        max_file_bytes: larger files are refused; for compressed files, the unpacked size counts.
        max_seconds: time limit for each file.
    """

    text_column: str | None = None
    encoding: str | None = None
    max_file_bytes: int = MAX_FILE_BYTES
    max_seconds: float = MAX_SECONDS

    def __post_init__(self) -> None:
        if self.encoding is not None:
            object.__setattr__(self, "encoding", check_encoding(self.encoding))
        if self.max_file_bytes < 1:
            raise InputError(f"max_file_bytes must be positive, not {self.max_file_bytes}.")
        if not 0 < self.max_seconds < float("inf"):
            raise InputError(f"max_seconds must be positive and finite, not {self.max_seconds}.")


def load_document(
    path: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    source: str | None = None,
    text_column: str | None = None,
    encoding: str | None = None,
    max_file_bytes: int = MAX_FILE_BYTES,
    max_seconds: float = MAX_SECONDS,
) -> Document:
    """Read one file.

    ::

        document = load_document("manuals/ferry.pdf")
        passages = chunk_document(document)

    Args:
        path: of the file; its ending tells its format.
        root: makes ``source`` the path relative to it; ``None`` takes the file's name.
        source: sets ``Document.source`` directly.
        text_column: of a table; ``None`` looks for one of the usual names.
        encoding: of text that is not UTF-8.
        max_file_bytes: larger files are refused.

    Raises:
        DocumentError: missing, unreadable, too large, empty, binary, wrongly encoded, damaged, protected, without
            text or of an unknown format; the hint says what to do.
        MissingDependencyError: the format needs a package that is not installed.
    """
    path = Path(path)
    options = LoadOptions(text_column, encoding, max_file_bytes, max_seconds)
    name = source or (Path(os.path.relpath(path, root)).as_posix() if root is not None else path.name)
    return parse_document(read_bytes(path, max_file_bytes), name, options, file_name=path.name)


def read_bytes(path: Path, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Read a file once, so that its hash and its text belong to the same state of the file.

    DocumentError if it is missing, not a plain file, unreadable, empty, or larger than ``max_bytes``.
    """
    try:
        # Non-blocking: opening a pipe without a writer would never return.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _not_a_file(status.st_mode)
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(max_bytes + 1) if status.st_size <= max_bytes else b""
        finally:
            os.close(descriptor)
    except DocumentError:
        raise
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if status.st_size > max_bytes or len(data) > max_bytes:
        raise DocumentError(
            f"It has {max(status.st_size, len(data)):,} bytes; the limit is {max_bytes:,}.",
            hint="Split the file, or raise the limit (--max-file-mb).",
        )
    if not data:
        raise DocumentError("It is empty (0 bytes).", hint="Leave it out, or add some text.")
    return data


def _not_a_file(mode: int) -> DocumentError:
    if stat.S_ISDIR(mode):
        return DocumentError("It is a folder, not a plain file.", hint="Give its files, or index the folder.")
    kind = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
    return DocumentError(f"It is a {kind}, not a plain file.", hint="Save its output to a file first.")


def _unreadable(path: Path, error: OSError | ValueError) -> DocumentError:
    """Convert an error of the operating system."""
    number = getattr(error, "errno", None)
    if number == errno.ENOENT and os.path.islink(path):
        return DocumentError("The symbolic link is broken.", hint="Remove the link or restore its target.")
    if number == errno.ENOENT:
        return DocumentError("There is no such file.", hint="Check the path; quote it if it has spaces.")
    if number == errno.ELOOP:
        return DocumentError("The symbolic link points to itself.", hint="Remove the link.")
    if number in (errno.ENXIO, errno.ENODEV, errno.EOPNOTSUPP):  # a socket, or a pipe without a writer
        return DocumentError("It is a socket or a device, not a plain file.", hint="Save its output to a file first.")
    if isinstance(error, PermissionError):
        return DocumentError("It may not be read: permission denied.", hint="chmod u+r it, or leave it out.")
    reason = getattr(error, "strerror", None) or str(error)
    return DocumentError(f"It cannot be read: {reason}.", hint="Check the disk and the path.")


def parse_document(data: bytes, source: str, options: LoadOptions, *, file_name: str) -> Document:
    """Convert a file's bytes to a document of the format that ``file_name`` tells; errors as of ``load_document``."""
    try:
        source.encode()
    except UnicodeEncodeError as error:
        raise DocumentError("Its name is not valid UTF-8.", hint="Rename the file.") from error
    if any(unicodedata.category(character) == "Cc" for character in source):
        raise DocumentError("Its name contains control characters.", hint="Rename the file.")
    found = file_format(file_name)
    if found is None:
        kind = ending(file_name)
        export = f"Export it to text, PDF or HTML. Known endings: {' '.join(SUFFIXES)}"
        hint = f"You can {way}." if (way := way_out(kind)) else export
        raise DocumentError(f"Its format ({kind}) is not supported.", hint=hint)
    try:
        budget = Budget(options.max_seconds)
        content = _unpack(data, found.packed, options.max_file_bytes, budget) if found.packed else data
        kind, read = _extract(found.kind, content, options, budget)
    except MemoryError as error:
        raise DocumentError("It does not fit into memory.", hint="Split the file.") from error
    if kind not in _NAMELESS and not read.segments:
        read = with_groups(read)
    if not read.text.strip():
        why = f"; {read.problems[0].message}" if read.problems else ""
        raise DocumentError(f"It contains no text{why}.", hint="Leave it out, or check that it is the right file.")
    title, digest = _title_of(source, kind, read), hashlib.sha256(data).hexdigest()
    return Document(source, read.text, title, kind, digest, read.headings, read.segments, read.problems, read.pages)


def _title_of(source: str, kind: str, extracted: Extracted) -> str:
    """Return a file's title, behind the names that only its path gives: "Brookfield: General By-laws".

    Of several documents of a kind (a town's, a product's), users name the one they ask about, and many do not name
    themselves at their beginning.
    """
    title = extracted.title or _stem(source)
    if kind in _NAMELESS:
        return title
    *folders, _ = PurePath(source).parts
    least = dict.fromkeys((word.casefold() for part in folders for word in _NAME.findall(part)), _OF_FOLDER)
    least |= dict.fromkeys((word.casefold() for word in _NAME.findall(_stem(source))), _OF_FILE)
    given = [_code(word, number, extracted.text, title) for word, number in _CODE.findall(_stem(source))]
    codes = [*filter(None, given)]
    known = title.casefold() + " ".join(codes).casefold()
    names = [_name(word, extracted.text, times) for word, times in least.items() if word not in known]
    return ": ".join(filter(None, (" ".join(filter(None, (*names, *codes))), title)))


def _code(word: str, number: str, text: str, title: str) -> str:
    """Return a word with a number as a text writes them, if it has them so often, with a capital, and not as a title.

    >>> _code("math", "141", "Math 141 is in spring. All members of Math 141 meet.", "Syllabus")
    'Math 141'
    >>> _code("version", "2", "In version 2 it is new, and from version 2 on.", "Notes")
    ''
    """
    written = re.compile(rf"(?<![^\W_])(?i:{word})[-\s]?{number}(?![^\W_]|[.,]\d)")
    forms = Counter(" ".join(form.split()) for form in written.findall(text) if form[0].isupper())
    if written.search(title) or forms.total() < _OF_CODE:
        return ""
    return forms.most_common(1)[0][0]


def _name(word: str, text: str, times: int) -> str:
    """Return a word as a text writes it, if it has it so often, always with a capital, and once within a sentence."""
    end = r"(?![^\W\d_])"
    if re.search(rf"[a-z,] (?i:{word}){end}", text) is None:
        return ""
    found = Counter(re.findall(rf"(?<![^\W\d_]){word}{end}", text, re.IGNORECASE))
    ((form, _),) = found.most_common(1)
    return form if found.total() >= times and not any(map(str.islower, found)) and not form.isupper() else ""


def _stem(source: str) -> str:
    path = PurePath(source)
    return PurePath(path.stem).stem if path.suffix.lower() in PACKED else path.stem


def _unpack(data: bytes, packed: str, limit: int, budget: Budget) -> bytes:
    """Unpack a compressed file; DocumentError if it is damaged or beyond the limits."""
    try:
        with _OPEN[packed](io.BytesIO(data)) as stream:
            return b"".join(read_unpacked(stream, budget, limit))
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(f"{packed} file", error) from error


def _extract(kind: str, data: bytes, options: LoadOptions, budget: Budget) -> tuple[str, Extracted]:
    """Return the actual format (JSON may be a table, a notebook or plain code) and the extracted text."""
    # Imported here, so that parsers of formats that are not used cost nothing.
    if kind in OFFICE:
        kind = office_format(kind, data)
    if kind in BINARY:
        from shared_core.documents.loaders.isolated import read_isolated

        return kind, read_isolated(kind, data, budget)
    if kind == "html":
        from shared_core.documents.loaders.html import load_html

        return kind, load_html(data, options.encoding, budget)
    from shared_core.documents.loaders import mail

    if kind == "mbox":
        return "text", mail.load_mailbox(data, options.encoding, budget)
    if kind == "text" and (sent := mail.load_mail(data, options.encoding, budget)) is not None:
        return kind, sent
    text = decode(data, fallback=options.encoding)
    if "\n" not in text:  # lines end as on old Macs
        text = text.replace("\r", "\n")
    if kind == "text" and is_rst(text) and importlib.util.find_spec("docutils") is not None:
        kind = "rst"
    if kind == "text" and (saved := mail.load_saved_mail(text)) is not None:
        return kind, saved
    return _extract_text(kind, text, options, budget)


def _extract_text(kind: str, text: str, options: LoadOptions, budget: Budget) -> tuple[str, Extracted]:
    if kind in ("csv", "tsv"):
        from shared_core.documents.loaders.sheets import read_csv

        return kind, read_csv(text, options.text_column, budget, delimiter="\t" if kind == "tsv" else None)
    if kind in ("json", "jsonl", "notebook", "config"):
        from shared_core.documents.loaders import config

        if kind == "config":
            return "code", config.load_config(text)
        if kind == "jsonl":
            return kind, config.load_jsonl(text, options.text_column, budget)
        found = config.load_notebook(text) if kind == "notebook" else config.load_json(text, options.text_column)
        return (kind, found) if found is not None else ("code", config.load_other_json(text))
    if kind in ("man", "text"):
        from shared_core.documents.loaders import man

        if kind == "man":
            found = man.load_man(text, budget)
            return (kind, found) if found is not None else ("code", Extracted(text))
        if man.is_manual_text(text):
            return kind, man.load_manual_text(text)
    if kind in ("markdown", "mdx"):
        from shared_core.documents.loaders.markdown import load_markdown

        return "markdown", load_markdown(text, budget, mdx=kind == "mdx")
    if kind == "rst":
        from shared_core.documents.loaders.isolated import read_isolated

        return kind, read_isolated(kind, text.encode(), budget)
    if kind == "adoc":
        from shared_core.documents.loaders.adoc import load_adoc

        return kind, load_adoc(text, budget)
    if kind == "code":
        return kind, Extracted(text)
    if kind == "tex":
        from shared_core.documents.loaders.tex import load_tex

        return "text", load_tex(text)
    from shared_core.documents.loaders import text as texts

    if kind in texts.MARKUP:
        return "text", texts.load_markup(text, kind)
    return kind, texts.load_subtitles(text) if kind == "subtitles" else texts.load_text(text)
