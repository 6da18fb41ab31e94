"""What a loader gives back, and what loaders share: decoding bytes and choosing a title."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from shared_core.errors import DocumentError, InputError
from shared_core.types import MetadataValue


class Heading(NamedTuple):
    """A heading: ``text[start:end]`` is its line (without line break), ``level`` counts from 1, the highest."""

    start: int
    end: int
    level: int
    label: str


class Page(NamedTuple):
    """Where a page begins in the text; its number counts from 1, its label (``iv``) is empty if that is its number."""

    start: int
    number: int
    label: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch ``[start, end)`` of the text that no passage crosses: a row.

    Attributes:
        start, end: code points in the extracted text.
        title: of its own (a row's title column); empty takes the document's.
        metadata: added to each of its passages.
    """

    start: int
    end: int
    title: str = ""
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)


class Problem(NamedTuple):
    """Something within a file that could not be used while the rest could (a line, a page)."""

    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Extracted:
    """What was found in a file.

    Attributes:
        text: exactly as extracted; all offsets count its code points.
        title: empty if the file names none.
        headings: in order.
        parts: in order, not overlapping; empty means the text is one part. Text outside all parts (the front matter
            of a Markdown file) is kept but not made into passages.
        problems: what had to be left out.
        pages: where pages begin, in order; pages without text have none. A paragraph may run over a page's end.
    """

    text: str
    title: str = ""
    headings: tuple[Heading, ...] = ()
    parts: tuple[Part, ...] = ()
    problems: tuple[Problem, ...] = ()
    pages: tuple[Page, ...] = ()


# The UTF-32 mark begins with the UTF-16 one, so it has to be tried first.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MAGIC = (
    (b"%PDF-", "a PDF"),
    (b"PK\x03\x04", "a zip archive or an Office document"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\x00", "a database"),
)
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_SAMPLE = 65_536
_CONTROL_SHARE = 0.02
_SURROGATE = re.compile("[\ud800-\udfff]")
_SENTENCE_ENDS = tuple(".?!;:,。？！؟")
_TITLE_CHARACTERS = 120
_FIRST_LINE = re.compile(r"\s*(\S[^\r\n]*)(?:\r\n|\r|\n)[^\S\r\n]*[\r\n]")  # and an empty line below it


def check_encoding(name: str) -> str:
    """The canonical name of a text encoding; InputError if Python knows none of that name."""
    try:
        info = codecs.lookup(name)
        if not getattr(info, "_is_text_encoding", True):
            raise LookupError(name)
    except LookupError as error:
        raise InputError(
            f"There is no text encoding {name!r}.", hint="Examples: utf-8, utf-16-le, cp1252, shift_jis, koi8-r."
        ) from error
    return info.name


def decode(data: bytes, *, declared: str | None = None, fallback: str | None = None) -> str:
    """Bytes as text, never by guessing: byte-order mark, strict UTF-8, declared encoding, then ``fallback``.

    Args:
        data: the whole file.
        declared: what the file itself says it is in (HTML); ignored if it does not fit.
        fallback: for files that are not UTF-8, given by the user.

    Raises:
        DocumentError: the bytes are not text, or not in any of these encodings. A guess goes into the hint only: a
            wrong one would put words into a quote that its file does not have.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _strict(data[len(mark) :], encoding, len(mark))
    binary = _looks_binary(data)
    # Bytes beyond ASCII that happen to be valid UTF-8 are UTF-8: pages often declare something else.
    unicode = None if b"\x00" in data else "utf-8"
    for name in (declared if data.isascii() else unicode, declared, unicode, fallback):
        if name and not (binary and name != fallback):
            try:
                text = data.decode(name)
            except (UnicodeError, LookupError):
                continue
            if _is_prose(text):
                return text
    if binary or b"\x00" in data or _decodes(data, "utf-8"):
        what = f"It begins like {binary}." if binary else "If it is UTF-16 text, save it with a byte-order mark."
        raise DocumentError("The file is binary, not text.", hint=f"{what} Rename or convert it, or leave it out.")
    return _strict(data, "utf-8", 0)


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeError:
        return False
    return True


def _looks_binary(data: bytes) -> str:
    return next((what for magic, what in _MAGIC if data.startswith(magic)), "")


def _is_prose(text: str) -> bool:
    sample = text[:_SAMPLE]
    return "\x00" not in text and len(_CONTROL.findall(sample)) <= _CONTROL_SHARE * len(sample)


def _strict(data: bytes, encoding: str, skipped: int) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DocumentError(
            f"The file is not valid {encoding.upper()}: byte {error.start + skipped} (line {line}) cannot be decoded.",
            hint=_encoding_hint(data, error.start),
        ) from error


def _encoding_hint(data: bytes, position: int) -> str:
    hint = "Save it as UTF-8, or name the encoding of such files (--encoding NAME)."
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return hint
    best = from_bytes(data[max(0, position - _SAMPLE // 2) : position + _SAMPLE // 2]).best()
    return f"{hint} It could be {best.encoding}." if best is not None and best.encoding != "utf_8" else hint


# What programs write into the title field when nobody gave one.
_NO_TITLE = re.compile(
    r"^(untitled.*|microsoft (word|powerpoint) - .*|slide \d+|powerpoint presentation"
    r"|.*\.(docx?|odt|pptx?|tex|dvi|indd))$",
    re.IGNORECASE,
)


def is_no_title(title: str) -> bool:
    """Whether a title is one that a program made up."""
    return _NO_TITLE.match(title) is not None


def damaged(kind: str, error: Exception) -> DocumentError:
    """The error of a file that its parser gives up on."""
    detail = one_line(without_surrogates(str(error))) or type(error).__name__
    return DocumentError(
        f"The {kind} is damaged and cannot be read: {detail[:200]}",
        hint=f"Open it in the program that made it and save it as {kind} again.",
    )


def without_surrogates(text: str) -> str:
    """Lone surrogates (broken escapes in JSON or PDF) as U+FFFD: no file or database could hold them."""
    return _SURROGATE.sub("\ufffd", text)


def one_line(text: str) -> str:
    """The text with each run of white space as one space."""
    return " ".join(text.split())


def first_line_title(text: str) -> str:
    """The first line if it stands alone and reads like a title (short, not a sentence); else empty."""
    match = _FIRST_LINE.match(text)
    if match is None:
        return ""
    line = one_line(match.group(1))
    return line if len(line) <= _TITLE_CHARACTERS and not line.endswith(_SENTENCE_ENDS) else ""
