"""Decode the bytes of text files without guessing."""

from __future__ import annotations

import codecs
import re

from shared_core.errors import DocumentError, InputError
from shared_core.support.regex import lazy_regex

# The UTF-32 mark begins with the UTF-16 one, so it must be tried first.
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
_CONTROL = lazy_regex("[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_SAMPLE = 65_536
_CONTROL_SHARE = 0.02
_LATIN = lazy_regex(
    r"mac_(?:roman|latin2|iceland|turkish)|cp(?:125[0247]|1006|437|775|85\d)$|hp_roman8|latin_1|iso8859_\d+"
)
_WESTERN = lazy_regex(r"(?>(?i:[\x00-\x7fàáâãäåæçèéêëìíîïñòóôõöøùúûüœß\xa0“”„‘’‚–—…•€£§°©®™«»¿¡²½·])*)")
_META_CHARSET = lazy_regex(
    rb"""<meta[^>]{0,300}?charset\s*=\s*["']?\s*([a-zA-Z0-9_.:-]+)|<\?xml[^>]{0,200}?encoding\s*=\s*["']([^"']+)""",
    re.IGNORECASE,
)
_DECLARED_WITHIN = 4096


def check_encoding(name: str) -> str:
    """Return the canonical name of a text encoding; InputError if Python has none of that name."""
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
    """Decode bytes without guessing: byte-order mark, strict UTF-8, declared encoding, then ``fallback``.

    Args:
        declared: the encoding that the file itself declares (HTML); ignored if it does not fit.
        fallback: the user's choice for files that are not UTF-8.

    Raises:
        DocumentError: the bytes are not text, or not in any of these encodings. A guess goes into the hint only: a
            wrong one would put words into a quote that are not in the file.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _strict(data[len(mark) :], encoding, len(mark))
    binary = _looks_binary(data)
    # Bytes beyond ASCII that are valid UTF-8 are UTF-8, although pages often declare something else.
    unicode = None if b"\x00" in data else "utf-8"
    for name in (declared if data.isascii() else unicode, declared, unicode, fallback):
        if name and not (binary and name != fallback):
            try:
                text = data.decode(name)
            except (UnicodeError, LookupError):
                continue
            if _is_prose(text):
                return text
    if not binary and b"\x00" not in data:
        _strict(data, "utf-8", 0)  # fails, unless it is UTF-8 with more control characters than text has
    what = f"It looks like {binary}." if binary else "If it is UTF-16 text, save it with a byte-order mark."
    raise DocumentError("The file is binary, not text.", hint=f"{what} Rename or convert it, or leave it out.")


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
    hint = "Save it as UTF-8, or give the encoding of such files (--encoding NAME)."
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return hint
    sample = data[max(0, position - _SAMPLE // 2) : position + _SAMPLE // 2]
    best = from_bytes(sample).best()
    guess = best.encoding if best is not None else "utf_8"
    # Windows' Western encoding is the most frequent of those that a short text does not tell apart.
    if _LATIN.match(guess) and _WESTERN.fullmatch(sample.decode("cp1252", "replace")):
        guess = "cp1252"
    return f"{hint} It may be {guess}." if guess != "utf_8" else hint


def declared_in_html(data: bytes) -> str | None:
    """Return the encoding that an HTML page declares at its beginning, if Python knows it."""
    match = _META_CHARSET.search(data, 0, _DECLARED_WITHIN)
    if match is None:
        return None
    name = (match.group(1) or match.group(2)).decode("ascii", "replace").lower()
    # As browsers do (WHATWG Encoding Standard, "names and labels"): pages that declare Latin-1 use its superset.
    name = "cp1252" if name in {"iso-8859-1", "latin1", "latin-1", "ascii", "us-ascii"} else name
    try:
        return codecs.lookup(name).name
    except LookupError:
        return None
