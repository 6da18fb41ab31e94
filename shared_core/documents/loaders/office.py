"""Read office documents (DOCX, PPTX; through office-oxide) and books (EPUB): zip archives, converted to HTML.

Members are unpacked in chunks and counted over the whole document, because the sizes that an archive states may be
wrong. Entities are never expanded.
"""

from __future__ import annotations

import io
import posixpath
import re
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING
from urllib.parse import unquote
from xml.parsers import expat

from shared_core.documents.loaders.extracted import (
    RAISED,
    Extracted,
    Problem,
    damaged,
    decode,
    first_line_title,
    is_no_title,
    join_parts,
    one_line,
    without_surrogates,
)
from shared_core.documents.loaders.html import read_html
from shared_core.documents.loaders.limits import MAX_UNPACKED_BYTES, Budget, read_unpacked
from shared_core.errors import DocumentError

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
_END_RECORD = struct.Struct("<4s4H2LH")  # of the archive's directory (zip application note, 4.3.16)
_MAX_DIRECTORY_BYTES = 4 * 2**20  # some 40,000 members; a document has tens
_LEFT_OUT = re.compile(r"(word|ppt)/(media|embeddings|comments|header|footer|notesSlides)")
_ON_EACH_SLIDE = re.compile(
    rb'<p:sp\b(?:(?!</?p:sp\b)[\s\S])*<p:ph\b[^>]*\btype="(?:ftr|hdr|sldNum|dt)"(?:(?!</p:sp>)[\s\S])*</p:sp>'
)
_SLIDE_ENDS = "<hr />"
_NO_TEXT = re.compile(r"(?<=>)\n(?=<)|</?(?:span|strong|em|u)\b[^>]*>")
_EXPONENT = re.compile(r"[+\-−–]?\d+")
_PARTED = {"d": "|", "mr": ", ", "eqArr": "; "}
_PAGES = frozenset(("application/xhtml+xml", "text/html"))


def read_office(kind: str, data: bytes, budget: Budget) -> Extracted:
    """Read a Word document (``docx``) or a presentation (``pptx``), whose slides are pages.

    Headers, footers, comments, deleted, struck-out and hidden text are left out; notes come last.

    Raises:
        DocumentError: damaged, protected by a password, in an older format, or beyond the limits.
    """
    import office_oxide

    archive = _Archive(data, kind.upper(), budget)
    try:
        html = office_oxide.Document.from_bytes(archive.copy(), kind).to_html()
    except office_oxide.OfficeOxideError as error:
        raise damaged(archive.kind, error) from error
    slides = html.split(_SLIDE_ENDS) if kind == "pptx" else [html]
    # Line breaks between tags are not in the document; the spaces within paragraphs are.
    parts = (f"<main>{_NO_TEXT.sub('', slide.strip())}</main>".replace("\u2011", "-") for slide in slides)
    found = join_parts(read_html(part, budget, spaces=True) for part in parts)
    title = archive.tree("docProps/core.xml").findtext(".//{*}title") if "docProps/core.xml" in archive.names else ""
    title = one_line(without_surrogates(title or ""))
    if not title or is_no_title(title):
        title = first_line_title(found.text)  # of the style "Title", which makes no heading
        title = found.headings[0].label if found.headings and not (title and found.headings[0].start) else title
    return Extracted(found.text, title, found.headings, pages=found.pages if kind == "pptx" else ())


def read_epub(data: bytes, budget: Budget) -> Extracted:
    """Read a book: its chapters in order, without its table of contents; headings as in HTML.

    Raises:
        DocumentError: damaged, protected, or beyond the limits of time and size.
    """
    archive = _Archive(data, "EPUB", budget)
    if {"META-INF/encryption.xml", "META-INF/rights.xml"} <= archive.names.keys():
        raise DocumentError("The EPUB is protected against copying.", hint="Leave it out.")
    container = archive.tree("META-INF/container.xml").find(".//{*}rootfile")
    root = "" if container is None else container.get("full-path", "")
    if not root:
        raise damaged("EPUB", ValueError("its container names no book"))
    book = archive.tree(root)
    hrefs = {
        item.get("id", ""): item.get("href", "")
        for item in book.iter("{*}item")
        if item.get("media-type") in _PAGES and "nav" not in item.get("properties", "").split()
    }
    order = (hrefs[id_] for entry in book.iter("{*}itemref") if (id_ := entry.get("idref", "")) in hrefs)
    names = [posixpath.normpath(posixpath.join(posixpath.dirname(root), unquote(href))) for href in order]
    found = join_parts(read_html(decode(archive.read(name)), budget) for name in names if name in archive.names)
    title = one_line(book.findtext(".//{*}title") or "") or next((h.label for h in found.headings), "")
    missing = (name for name in names if name not in archive.names)
    problems = tuple(Problem(f"{name} is missing from the book", "Get the book again.") for name in missing)
    return Extracted(found.text, title, found.headings, problems=problems)


def _spelt_out(root: Element) -> bytes:
    """Return a part with signs for what only the layout of its formulas shows: a half is not 12, but 1/2."""
    from lxml import etree

    for formula in root.iter("{*}oMath"):
        for part in reversed(list(formula.iter("{*}*"))):  # the inner ones first
            before, after = _signs(part)
            if before:
                part.insert(0, _run(part, before))
            if after:
                part.append(_run(part, after))
    return bytes(etree.tostring(root))


def _run(part: Element, sign: str) -> Element:
    space = part.tag[: part.tag.index("}") + 1]
    run = part.makeelement(f"{space}r")
    run.append(part.makeelement(f"{space}t"))
    run[0].text = sign
    return run


def _signs(part: Element) -> tuple[str, str]:
    """Return the signs before and behind a part of a formula; digits of an exponent become raised ones."""
    from lxml import etree

    parent = part.getparent()
    name, within = etree.QName(part).localname, etree.QName(parent).localname if parent is not None else ""
    text = "".join(map(str, part.itertext()))
    opened, closed = ("", "") if len(text) == 1 or text.isdecimal() else ("(", ")")
    if name in ("sup", "deg") and _EXPONENT.fullmatch(text):
        for letters in part.iter("{*}t"):
            letters.text = (letters.text or "").translate(RAISED)
        return "", ""
    if name == "num":
        no_bar = parent is not None and any(t.values() == ["noBar"] for t in parent.iterfind("{*}fPr/{*}type"))
        return opened, closed + (" over " if no_bar else "/")
    if name == "e" and within in _PARTED and part.getprevious() is not None and part.getprevious().tag == part.tag:
        return _PARTED[within], ""
    if name in ("nary", "d"):
        given = {etree.QName(sign).localname: "".join(sign.values()) for sign in part.iterfind("{*}*/{*}*")}
        return (given.get("chr", "∫"), "") if name == "nary" else (given.get("begChr", "("), given.get("endChr", ")"))
    return {
        "den": (opened, closed), "sup": (f"^{opened}", closed), "fName": ("", " "), "mr": ("", "; "),
        "sub": ("", "") if not opened else ("_", "") if text.isalnum() else ("_(", ")"),
        "e": {"rad": (f"√{opened}", closed), "nary": (" ", "")}.get(within, ("", "")),
    }.get(name, ("", ""))  # fmt: skip


class _Archive:
    """An open document; ``kind`` is its name in error messages (``DOCX``).

    Raises:
        DocumentError: not an archive, damaged, protected by a password, or with an oversized directory.
    """

    def __init__(self, data: bytes, kind: str, budget: Budget) -> None:
        self.kind, self._budget, self._unpacked = kind, budget, 0
        if data.startswith(_OLD_OFFICE):
            raise DocumentError(
                f"The file is in an older format or protected by a password, not a plain {kind}.",
                hint=f"Save it as an unprotected .{kind.lower()}.",
            )
        # zipfile reads the directory whole into memory, so its size is checked first.
        place = data.rfind(b"PK\x05\x06", max(0, len(data) - _END_RECORD.size - 65_535))
        if place < 0 or place + _END_RECORD.size > len(data):
            raise damaged(kind, ValueError("the end of the archive is missing"))
        if (size := int(_END_RECORD.unpack_from(data, place)[5])) > _MAX_DIRECTORY_BYTES:
            raise damaged(kind, ValueError(f"it has a directory of {size:,} bytes, which no document needs"))
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error, OSError) as error:
            raise damaged(kind, error) from error
        self.names = dict.fromkeys(self._archive.namelist())

    def copy(self) -> bytes:
        """Return an archive of the members to read: unpacked, and checked to be XML without a document type.

        office-oxide would read broken XML up to the fault. No program writes a document type; entity bombs need one.

        Raises:
            DocumentError: as for ``read``; also if XML is not well-formed.
        """
        copy = io.BytesIO()
        with zipfile.ZipFile(copy, "w") as kept:
            for name in self.names:
                if _LEFT_OUT.match(name):
                    continue
                content = self.read(name)
                if name.endswith((".xml", ".rels")):
                    parser = expat.ParserCreate()
                    parser.StartDoctypeDeclHandler = self._refuse_doctype
                    try:
                        parser.Parse(content, True)
                    except expat.ExpatError as error:
                        raise damaged(self.kind, error) from error
                if b":oMath" in content:
                    content = _spelt_out(self._parsed(content))
                kept.writestr(name, _ON_EACH_SLIDE.sub(b"", content) if name.startswith("ppt/slides/") else content)
        return copy.getvalue()

    def _refuse_doctype(self, *_: object) -> None:
        raise damaged(self.kind, ValueError("it declares a document type"))

    def read(self, name: str) -> bytes:
        """Unpack a member.

        Raises:
            DocumentError: it is missing, damaged or encrypted, or the document unpacks to too much.
        """
        try:
            with self._archive.open(name) as stream:
                chunks = list(read_unpacked(stream, self._budget, MAX_UNPACKED_BYTES, before=self._unpacked))
        except DocumentError:
            raise
        except KeyError as error:
            raise damaged(self.kind, ValueError(f"it has no {name}")) from error
        except RuntimeError as error:  # zipfile's way of saying that a password is needed
            raise DocumentError(
                f"The {self.kind} is protected by a password.", hint="Save a copy without the password."
            ) from error
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError) as error:
            raise damaged(self.kind, error) from error
        self._unpacked += sum(map(len, chunks))
        return b"".join(chunks)

    def tree(self, name: str) -> Element:
        """Parse a member as XML and return its root element.

        Raises:
            DocumentError: as for ``read``; also if it is not well-formed XML, or nested too deeply.
        """
        return self._parsed(self.read(name))

    def _parsed(self, content: bytes) -> Element:
        from lxml import etree

        parser = etree.XMLParser(
            resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True
        )
        try:
            return etree.fromstring(content, parser)
        except etree.LxmlError as error:
            raise damaged(self.kind, error) from error
