"""Recognise formats by file names and by content, and suggest what to do about the ones that are not read."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import PurePath
from typing import NamedTuple

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
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


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
        found = [of for of, names in _STREAMS.items() if any(_stream_name(name) in data for name in names)]
        return kind if kind in found or not found else found[0]  # others may be embedded in it
    if kind in ("doc", "xls") and (b"\0" not in begins or data.startswith(_MARKS)):
        return "html" if _HTML.match(begins) else "text" if kind == "doc" else "csv"
    return kind


def is_rst(text: str) -> bool:
    """Return whether a plain text is marked up as reStructuredText, as the documentation of Django and Zope is.

    >>> is_rst(".. setting:: DEBUG\\n\\nDEBUG\\n=====\\n\\nSee :setting:`ADMINS`."), is_rst("See:`x`. .. note")
    (True, False)
    """
    text = text[:_SAMPLE]
    return len(_RST.findall(text)) > 1 or (len(_LITERAL.findall(text)) > 2 and _UNDERLINED.search(text) is not None)


def _stream_name(name: str) -> bytes:
    """Return a name as the directory of a compound file holds it: UTF-16, padded with zeros (MS-CFB 2.6.1)."""
    return name.encode("utf-16-le") + b"\0\0\0"


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
