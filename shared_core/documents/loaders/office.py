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
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote
from xml.parsers import expat

from shared_core.documents.loaders.extracted import (
    MAX_UNPACKED_BYTES,
    RAISED,
    Budget,
    Extracted,
    Heading,
    Problem,
    damaged,
    given_title,
    hidden_parts,
    join_pages,
    one_line,
    protected,
    read_unpacked,
    title_of_text,
)
from shared_core.documents.loaders.formats import COMPOUND, decode
from shared_core.documents.loaders.html import read_html
from shared_core.documents.loaders.numbering import WordNumbers, attribute, new_run, write_numbers
from shared_core.errors import DocumentError
from shared_core.support.regex import lazy_regex

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_CONTENTS = lazy_regex(r"toc (?:\d|heading)", re.IGNORECASE)
_END_RECORD = struct.Struct("<4s4H2LH")  # of the archive's directory (zip application note, 4.3.16)
_MAX_DIRECTORY_BYTES = 4 * 2**20  # some 40,000 members; a document has tens
_LEFT_OUT = lazy_regex(r"(word|ppt|xl)/(media|embeddings|comments|header|footer|notesSlides)")
_ON_EACH_SLIDE = lazy_regex(
    rb'<p:sp\b(?:(?!</?p:sp\b)[\s\S])*<p:ph\b[^>]*\btype="(?:ftr|hdr|sldNum|dt)"(?:(?!</p:sp>)[\s\S])*</p:sp>'
)
_HIDDEN_SLIDE = lazy_regex(rb"""<p:sld\b[^>]*\bshow=["'](?:0|false)["']""")
_ON_SLIDE = lazy_regex(rb"(?<=<p:spTree>)[\s\S]*(?=</p:spTree>)")
# Put on each slide: office-oxide passes over one without any text, and the slides after it would be counted from there.
_BLANK = "\ufdd0"
_BLANK_BOX = (
    '<p:sp><p:nvSpPr><p:cNvPr id="0" name=""/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/><p:txBody>'
    '<a:p xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main">'
    f"<a:r><a:t>&#x{ord(_BLANK):x};</a:t></a:r></a:p></p:txBody></p:sp>"
).encode()
SLIDE_ENDS = "<hr />"
_FIGURE = lazy_regex(r"<figure>\s*<figcaption>([^<]*)</figcaption>\s*</figure>\n?")
_MADE_BY_PROGRAM = lazy_regex(
    r"(?:automatically generated|automatisch generierte? \w+|générée? automatiquement|generad[ao] automáticamente"
    r"|generat[ao] automaticamente|gerad[ao] automaticamente|自動的に生成された説明|已自动生成\w*)\Z"
    r"|\A(?:(?:picture|image|graphic|grafik|bild)\s*\d*|[\w .-]+\.(?:png|jpe?g|gif|[ew]mf|svg|bmp|tiff?))\Z",
    re.IGNORECASE,
)
"""A picture's description that no person wrote."""
_LINE_OF_SLIDE = lazy_regex(r"<p>((?:<(?:span|strong|em|u)\b[^>]*>|</(?:span|strong|em|u)>|[^<])+)</p>")
_POINTS = lazy_regex(r"font-size:(\d+(?:\.\d+)?)pt")
_WORD = lazy_regex(r"[^\W\d_]{3}")
_TAG = lazy_regex(r"<[^>]*>")
_LARGER = 1.15  # times the next size of letters
_LONGEST_TITLE = 120
NO_TEXT = lazy_regex(r"(?<=>)\n(?=<)|</?(?:span|strong|em|u)\b[^>]*>")
_EXPONENT = lazy_regex(r"[+\-−–]?\d+")
_PARTED = {"d": "|", "mr": ", ", "eqArr": "; "}
_PAGES = frozenset(("application/xhtml+xml", "text/html"))


def read_office(kind: str, data: bytes, budget: Budget) -> Extracted:
    """Read a Word document (``docx``) or a presentation (``pptx``), whose slides are pages.

    Headers, footers, comments, deleted, struck-out and hidden text and hidden slides are left out; notes come last.
    DocumentError if it is damaged, protected by a password, in an older format, or beyond the limits.
    """
    import office_oxide

    archive = Archive(data, kind.upper(), budget)
    try:
        html = office_oxide.Document.from_bytes(archive.copy(), kind).to_html()
    except office_oxide.OfficeOxideError as error:
        raise damaged(archive.kind, error) from error
    html = _FIGURE.sub(lambda figure: "" if _MADE_BY_PROGRAM.search(figure[1].strip()) else figure[0], html)
    slides = [*map(_headed_slide, html.split(SLIDE_ENDS))] if kind == "pptx" else [html]
    # Line breaks between tags are not in the document; the spaces within paragraphs are.
    signs = str.maketrans({"\u2011": "-", _BLANK: None})
    parts = (f"<main>{NO_TEXT.sub('', slide.strip())}</main>".translate(signs) for slide in slides)
    found = join_pages(read_html(part, budget, spaces=True) for part in parts)
    pages = found.pages if kind == "pptx" else ()
    problems = hidden_parts(archive.hidden_slides, "slide")
    title = archive.title() or title_of_text(found)
    return Extracted(found.text, title, found.headings, problems=problems, pages=pages)


def _headed_slide(slide: str) -> str:
    """Mark the line in the largest letters as the heading of a slide without a title, as other programs export them."""
    body, notes, rest = slide.partition("<aside")
    if "<h2" in body:
        return slide
    lines = []
    for line in _LINE_OF_SLIDE.finditer(body):
        if sizes := [float(size) for size in _POINTS.findall(line[1])]:
            lines.append((min(sizes), line))
    lines.sort(key=lambda sized: -sized[0])
    if len(lines) < 2 or lines[0][0] < _LARGER * lines[1][0]:
        return slide
    line = lines[0][1]
    text = _TAG.sub("", line[1])
    if len(text) > _LONGEST_TITLE or not _WORD.search(text):
        return slide
    return f"{body[: line.start()]}<h2>{line[1]}</h2>{body[line.end() :]}{notes}{rest}"


def read_epub(data: bytes, budget: Budget) -> Extracted:
    """Read a book: its chapters in order, without its table of contents; headings as in HTML.

    DocumentError if it is damaged, protected, or beyond the limits of time and size.
    """
    archive = Archive(data, "EPUB", budget)
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
    labels = _contents(archive, book, posixpath.dirname(root))
    parts = ((name, read_html(decode(archive.read(name)), budget)) for name in names if name in archive.names)
    found = join_pages(_headed(part, labels.get(name, "")) for name, part in parts)
    title = one_line(book.findtext(".//{*}title") or "") or next((h.label for h in found.headings), "")
    missing = (name for name in names if name not in archive.names)
    problems = tuple(Problem(f"{name} is missing from the book", "Get the book again.") for name in missing)
    return Extracted(found.text, title, found.headings, problems=problems)


def _contents(archive: Archive, book: Element, folder: str) -> dict[str, str]:
    """Return what a book's table of contents, if it can be read, calls the file of each chapter."""
    labels: dict[str, str] = {}
    for item in book.iter("{*}item"):
        listed = "nav" in item.get("properties", "").split() or item.get("media-type") == "application/x-dtbncx+xml"
        name = posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
        if not listed or name not in archive.names:
            continue
        try:
            tree = archive.tree(name)
        except DocumentError:
            continue
        links = [(a.get("href", ""), "".join(map(str, a.itertext()))) for a in tree.iter("{*}a")]
        links += [
            (content.get("src", ""), point.findtext("{*}navLabel/{*}text") or "")
            for point in tree.iter("{*}navPoint")
            if (content := point.find("{*}content")) is not None
        ]
        for target, label in links:
            if "#" not in target:  # else it may begin anywhere in the file
                file = posixpath.join(posixpath.dirname(name), unquote(target))
                labels.setdefault(posixpath.normpath(file), one_line(label))
    return labels


def _headed(chapter: Extracted, label: str) -> Extracted:
    """Return a chapter that begins without a heading with the one of the table of contents.

    It would be in a section of the chapter before. So is a file without either: long chapters are in several files.
    """
    if not label or (chapter.headings and not chapter.headings[0].start):
        return chapter
    return replace(chapter, headings=(Heading(0, 0, 1, label), *chapter.headings))


def _spelt_out(root: Element) -> bytes:
    """Return a part with signs for what only the layout of its formulas shows: a half is not 12, but 1/2."""
    from lxml import etree

    for formula in root.iter("{*}oMath"):
        for part in reversed(list(formula.iter("{*}*"))):  # the inner ones first
            before, after = _signs(part)
            if before:
                part.insert(0, new_run(part, before))
            if after:
                part.append(new_run(part, after))
    return bytes(etree.tostring(root))


def _without_contents(root: Element, content: bytes, styles: Element) -> bytes:
    """Return a Word document without its table of contents, whose paragraphs are of styles with names like "toc 1"."""
    from lxml import etree

    named = [(attribute(style, "styleId"), style.iterfind("{*}name")) for style in styles.iterfind("{*}style")]
    contents = {of for of, names in named if any(_CONTENTS.fullmatch(attribute(name, "val")) for name in names)}
    entries = [
        paragraph
        for paragraph in root.iter("{*}p")
        if any(attribute(style, "val") in contents for style in paragraph.iterfind("{*}pPr/{*}pStyle"))
    ]
    for paragraph in entries:
        parent = paragraph.getparent()
        if parent is not None and paragraph.find("{*}pPr/{*}sectPr") is None:
            parent.remove(paragraph)
    return bytes(etree.tostring(root)) if entries else content


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


class Archive:
    """An open document; ``kind`` is its name in error messages (``DOCX``).

    DocumentError if it is no archive, damaged, protected by a password, or has an oversized directory.
    """

    def __init__(self, data: bytes, kind: str, budget: Budget) -> None:
        self.kind, self._budget, self._unpacked = kind, budget, 0
        if data.startswith(COMPOUND):
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
        self.hidden_slides = 0

    def copy(self) -> bytes:
        """Return an archive of the members to read: unpacked, and checked to be XML without a document type.

        office-oxide would read broken XML up to the fault. No program writes a document type; entity bombs need one.
        Errors as of ``read`` and ``parse_xml``.
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
                if name == "word/document.xml" and "word/styles.xml" in self.names:
                    styles = self.tree("word/styles.xml")
                    content = _without_contents(self._parsed(content), content, styles)
                    if "word/numbering.xml" in self.names:
                        numbering = WordNumbers(self.tree("word/numbering.xml"), styles)
                        content = write_numbers(self._parsed(content), numbering)
                kept.writestr(name, self._shown(content) if name.startswith("ppt/slides/") else content)
        return copy.getvalue()

    def _shown(self, slide: bytes) -> bytes:
        """Return a slide without what is on each of them; nothing of a hidden one, which keeps its number."""
        if _HIDDEN_SLIDE.search(slide):
            self.hidden_slides += 1
            return _ON_SLIDE.sub(_BLANK_BOX, slide)
        return _ON_EACH_SLIDE.sub(b"", slide).replace(b"</p:spTree>", _BLANK_BOX + b"</p:spTree>")

    def _refuse_doctype(self, *_: object) -> None:
        raise damaged(self.kind, ValueError("it declares a document type"))

    def read(self, name: str) -> bytes:
        """Unpack a member; DocumentError if it is missing, damaged or encrypted, or the whole unpacks to too much."""
        try:
            with self._archive.open(name) as stream:
                chunks = list(read_unpacked(stream, self._budget, MAX_UNPACKED_BYTES, before=self._unpacked))
        except DocumentError:
            raise
        except KeyError as error:
            raise damaged(self.kind, ValueError(f"it has no {name}")) from error
        except RuntimeError as error:  # zipfile's way of saying that a password is needed
            raise protected(self.kind) from error
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError) as error:
            raise damaged(self.kind, error) from error
        self._unpacked += sum(map(len, chunks))
        return b"".join(chunks)

    def title(self) -> str:
        """Return the title among an office document's properties; empty if none is given that names it."""
        if "docProps/core.xml" not in self.names:
            return ""
        return given_title(self.tree("docProps/core.xml").findtext(".//{*}title") or "")

    def tree(self, name: str) -> Element:
        """Parse a member as XML and return its root element; errors as of ``read`` and ``parse_xml``."""
        return self._parsed(self.read(name))

    def _parsed(self, content: bytes) -> Element:
        return parse_xml(content, self.kind)


def parse_xml(content: bytes, kind: str) -> Element:
    """Parse XML of a document (``kind`` is its name in error messages) without expanding entities.

    DocumentError if it is not well-formed, or nested too deeply.
    """
    from lxml import etree

    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True
    )
    try:
        return etree.fromstring(content, parser)
    except etree.LxmlError as error:
        raise damaged(kind, error) from error
