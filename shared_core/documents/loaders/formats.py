"""Recognise formats by file names and by content, suggest what to do about others, and decode text without guessing."""

from __future__ import annotations

import codecs
import re
from importlib import resources
from pathlib import PurePath
from typing import NamedTuple

from shared_core.errors import DocumentError, InputError
from shared_core.support.regex import lazy_regex


def _keys(table: str) -> dict[str, str]:
    """Map each word of a table to the key of its line: ``key: word word``; indented lines go on."""
    lines = [line for line in re.sub(r"\n  ", " ", table).splitlines() if not line.startswith("#")]
    return {word: key for key, _, words in (line.rpartition(":") for line in lines) for word in words.split()}


_LISTS = resources.files("shared_core.documents.loaders").joinpath("formats.txt").read_text("utf-8")
# Formats by endings, and by names without one; what to do with other files, by their endings.
SUFFIXES, NAMES, _SAVE_AS = map(_keys, _LISTS.split("\n\n"))

PACKED = {".gz": "gzip", ".bz2": "bzip2"}
"""Endings of compressed files: ``notes.md.gz`` is read as ``notes.md``."""

OFFICE = frozenset("docx pptx xlsx doc ppt xls rtf odt odp ods".split())
"""Formats of office programs, which are told by content as well."""

BINARY = OFFICE | {"pdf", "epub"}
"""Formats to which a text encoding does not apply."""

TABLES = frozenset(("csv", "tsv", "jsonl", "json"))

_MANUAL = lazy_regex(r"\.[1-9][a-z]{0,4}")  # section of a manual
_PARTS = frozenset((".inc", ".in"))  # of files that others include, or that a build fills in: "usage.rst.inc"
_TEMPLATE = ".erb"  # of a site's page: "pages/hosting.html.md.erb"
_PAGES = frozenset(("markdown", "adoc", "text"))
_KEPT = frozenset((".debian", ".old", ".orig"))
# Behind the ending of a page, web servers tell its language and encoding: "caching.html.en", "caching.html.ja.utf8".
_LANGUAGES = ".ar .bg .ca .cs .da .de .el .en .es .et .fa .fi .fr .he .hi .hr .hu .id .is .it .ja .ko .lt .lv .nl .no"
_VARIANTS = frozenset(f"{_LANGUAGES} .pl .pt .pt-br .ro .ru .sk .sl .sr .sv .th .tr .uk .vi .zh .zh-cn .zh-tw".split())
_ENCODINGS = frozenset((".utf8", ".utf-8", ".latin1", ".iso-8859-1", ".euc-jp", ".euc-kr", ".jis", ".big5", ".gb2312"))
_GENERATED = lazy_regex(r"search[-_]?index\.js(?:on)?|package-lock\.json")
_HASH = lazy_regex(r"[-._](?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,20}(?=\.)")  # of its content: "book-a0b12cfe.js"
COMPOUND = b"\xd0\xcf\x11\xe0"
"""Beginning of a document of Office 97 to 2003, or of a newer one with a password."""
# As the directory of a compound file names them: in UTF-16, padded with zeros (MS-CFB 2.6.1).
_STREAMS = {"doc": ("WordDocument",), "ppt": ("PowerPoint Document",), "xls": ("Workbook", "Book")}
_MEMBERS = {"docx": b"word/document", "pptx": b"ppt/presentation", "xlsx": b"xl/workbook"}
_OPENDOCUMENT = lazy_regex(rb"mimetypeapplication/vnd\.oasis\.opendocument\.(text|presentation|spreadsheet)")
_OPENDOCUMENT_KINDS = {b"text": "odt", b"presentation": "odp", b"spreadsheet": "ods"}
_HTML = lazy_regex(
    rb"(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?<(?:!doctype html|html|table|head|body|meta)\b", re.I | re.S
)
_RST = lazy_regex(r"^\.\. (?:[\w:+-]+::|_[^:\n]+:)|(?<!\w):[a-z]+(?::[a-z]+)*:`[^`\n]+`", re.MULTILINE)
_LITERAL = lazy_regex(r"(?<![`\w])``[^`\s](?:[^`\n]*[^`\s])?``(?![`\w])")
_UNDERLINED = lazy_regex(r"^[^\W_][^\n]*\n([=~^*+-])\1{3,}[ \t]*$", re.MULTILINE)
_SAMPLE = 65_536
_TEXT_BEGINS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


class Format(NamedTuple):
    """A file's format and its compression (empty without one)."""

    kind: str
    packed: str = ""


def file_format(name: str) -> Format | None:
    """Return the format that a file's name stands for; ``None`` if it is not read.

    >>> file_format("notes.md.gz"), file_format("README.Debian"), file_format("tar.1")
    (Format(kind='markdown', packed='gzip'), Format(kind='text', packed=''), Format(kind='man', packed=''))
    >>> file_format("caching.html.en.utf8"), file_format("notes.en")
    (Format(kind='html', packed=''), None)
    """
    path = PurePath(name.lower())
    packed = PACKED.get(path.suffix, "")
    if packed:
        path = path.with_suffix("")
    kind = _kind(path) or _kind_by_name(PurePath(name).name, path)
    if not packed and may_be_manual(name):
        return Format("man")
    if packed and not kind:
        # A compressed file without an ending is most likely a text, one that ends in .1 or .3pm a manual page.
        kind = "man" if _MANUAL.fullmatch(path.suffix) else "" if path.suffix else "text"
    return Format(kind, packed) if kind else None


def _kind(path: PurePath) -> str:
    if path.suffix in SUFFIXES:
        return SUFFIXES[path.suffix]
    if path.suffix[1:].isdigit() and ".log" in path.suffixes:  # rotated logs: "system.log.2"
        return SUFFIXES[".log"]
    if path.suffix in _PARTS and len(path.suffixes) > 1:
        inner = path.with_suffix("")
        return _kind(inner) or ("man" if _MANUAL.fullmatch(inner.suffix) else "")
    if path.suffix in _VARIANTS or path.suffix in _ENCODINGS:
        inner = path.with_suffix("")
        return _kind(inner) if inner.suffix else ""
    if path.suffix == _TEMPLATE and (kind := SUFFIXES.get(path.with_suffix("").suffix, "")) in _PAGES:
        return kind
    return "" if path.suffix else NAMES.get(path.name, "")


def may_be_manual(name: str) -> bool:
    """Return whether a name without another known format ends in a manual's section: ``tar.1``, but also ``libz.so.1``.

    >>> [may_be_manual(name) for name in ("tar.1", "Tk.3pm", "libz.so.1", "old.7z", "notes.md", "tar.1.gz")]
    [True, True, True, False, False, False]
    """
    path = PurePath(name.lower())
    known = path.suffix in _SAVE_AS or _kind(path) or _kind_by_name(PurePath(name).name, path)
    return not known and _MANUAL.fullmatch(path.suffix) is not None


def _kind_by_name(name: str, path: PurePath) -> str:
    """Return the format of ``README.Debian``, ``COPYING.LIB`` or ``NEWS.1``: the name tells, the ending is any."""
    first = name.partition(".")[0]
    if path.suffix in _SAVE_AS or not (first.isupper() or _KEPT.intersection(path.suffixes)):
        return ""
    return NAMES.get(first.lower(), "")


def office_format(kind: str, data: bytes) -> str:
    """Return the format that an office document has by its content, whatever its name says.

    Programs write RTF, web pages, mails and newer documents under ``.doc``, web pages and CSV under ``.xls``.

    >>> office_format("doc", b"{\\\\rtf1 Bees.}"), office_format("xls", b"<html><table>"), office_format("docx", b"PK")
    ('rtf', 'html', 'docx')
    """
    begins = data[:1024].lstrip()
    if begins.startswith(b"{\\rtf"):
        return "rtf"
    if data.startswith(b"PK\x03\x04"):
        if match := _OPENDOCUMENT.search(data, 0, 200):
            return _OPENDOCUMENT_KINDS[match[1]]
        return next((found for found, member in _MEMBERS.items() if member in data), kind)
    if data.startswith(COMPOUND):
        written = ((of, f"{name}\0".encode("utf-16-le") + b"\0") for of, names in _STREAMS.items() for name in names)
        found = [of for of, name in written if name in data]
        return kind if kind in found or not found else found[0]  # others may be embedded in it
    if kind in ("doc", "xls") and (b"\0" not in begins or data.startswith(_TEXT_BEGINS)):
        return "html" if _HTML.match(begins) else "text" if kind == "doc" else "csv"
    return kind


def is_rst(text: str) -> bool:
    """Return whether a plain text is marked up as reStructuredText, as the documentation of Django and Zope is.

    >>> is_rst(".. setting:: DEBUG\\n\\nDEBUG\\n=====\\n\\nSee :setting:`ADMINS`."), is_rst("See:`x`. .. note")
    (True, False)
    """
    text = text[:_SAMPLE]
    return len(_RST.findall(text)) > 1 or (len(_LITERAL.findall(text)) > 2 and _UNDERLINED.search(text) is not None)


def is_generated(path: PurePath) -> bool:
    """Return whether a script, style sheet or search index comes from a documentation generator or a bundler.

    >>> [is_generated(PurePath(name)) for name in ("_static/jquery.js", "searchindex-7a90acc2.js", "src/winch.js")]
    [True, True, False]
    """
    name = path.name.lower()
    if _GENERATED.fullmatch(_HASH.sub("", name)):
        return True
    if path.suffix.lower() not in (".js", ".mjs", ".css"):
        return False
    return "_static" in path.parts[:-1] or ".min." in name or _HASH.search(name) is not None


def ending(name: str) -> str:
    """Return a file's ending for messages: ``.xlsx``, ``.tar.gz``, ``no ending``."""
    path = PurePath(name.lower())
    if path.suffix in PACKED and len(path.suffixes) > 1:
        return "".join(path.suffixes[-2:])
    return path.suffix or "no ending"


def way_out(ending: str) -> str:
    """Suggest what to do with files of a format that is not read; empty if nothing is known."""
    return _SAVE_AS.get(ending, "")


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
    binary = next((what for magic, what in _MAGIC if data.startswith(magic)), "")
    # Bytes beyond ASCII that are valid UTF-8 are UTF-8, although pages often declare something else.
    unicode = None if b"\x00" in data else "utf-8"
    for name in (declared if data.isascii() else unicode, declared, unicode, fallback):
        if name and not (binary and name != fallback):
            try:
                text = data.decode(name)
            except (UnicodeError, LookupError):
                continue
            sample = text[:_SAMPLE]
            if "\x00" not in text and len(_CONTROL.findall(sample)) <= _CONTROL_SHARE * len(sample):
                return text
    if not binary and b"\x00" not in data:
        _strict(data, "utf-8", 0)  # fails, unless it is UTF-8 with more control characters than text has
    what = f"It looks like {binary}." if binary else "If it is UTF-16 text, save it with a byte-order mark."
    raise DocumentError("The file is binary, not text.", hint=f"{what} Rename or convert it, or leave it out.")


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
