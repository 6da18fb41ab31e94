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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote
from xml.parsers import expat

from shared_core.documents.loaders.extracted import (
    RAISED,
    Extracted,
    Heading,
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
_LEFT_OUT = re.compile(r"(word|ppt|xl)/(media|embeddings|comments|header|footer|notesSlides)")
_ON_EACH_SLIDE = re.compile(
    rb'<p:sp\b(?:(?!</?p:sp\b)[\s\S])*<p:ph\b[^>]*\btype="(?:ftr|hdr|sldNum|dt)"(?:(?!</p:sp>)[\s\S])*</p:sp>'
)
_HIDDEN_SLIDE = re.compile(rb"""<p:sld\b[^>]*\bshow=["'](?:0|false)["']""")
_ON_SLIDE = re.compile(rb"(?<=<p:spTree>)[\s\S]*(?=</p:spTree>)")
# Put on each slide: office-oxide passes over one without any text, and the slides after it would be counted from there.
_BLANK = "\ufdd0"
_BLANK_BOX = (
    '<p:sp><p:nvSpPr><p:cNvPr id="0" name=""/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/><p:txBody>'
    '<a:p xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main">'
    f"<a:r><a:t>&#x{ord(_BLANK):x};</a:t></a:r></a:p></p:txBody></p:sp>"
).encode()
_SLIDE_ENDS = "<hr />"
_NO_TEXT = re.compile(r"(?<=>)\n(?=<)|</?(?:span|strong|em|u)\b[^>]*>")
_EXPONENT = re.compile(r"[+\-−–]?\d+")
_PARTED = {"d": "|", "mr": ", ", "eqArr": "; "}
_PAGES = frozenset(("application/xhtml+xml", "text/html"))


def read_office(kind: str, data: bytes, budget: Budget) -> Extracted:
    """Read a Word document (``docx``) or a presentation (``pptx``), whose slides are pages.

    Headers, footers, comments, deleted, struck-out and hidden text and hidden slides are left out; notes come last.

    Raises:
        DocumentError: damaged, protected by a password, in an older format, or beyond the limits.
    """
    import office_oxide

    archive = Archive(data, kind.upper(), budget)
    try:
        html = office_oxide.Document.from_bytes(archive.copy(), kind).to_html()
    except office_oxide.OfficeOxideError as error:
        raise damaged(archive.kind, error) from error
    slides = html.split(_SLIDE_ENDS) if kind == "pptx" else [html]
    # Line breaks between tags are not in the document; the spaces within paragraphs are.
    signs = str.maketrans({"\u2011": "-", _BLANK: None})
    parts = (f"<main>{_NO_TEXT.sub('', slide.strip())}</main>".translate(signs) for slide in slides)
    found = join_parts(read_html(part, budget, spaces=True) for part in parts)
    title = archive.title()
    if not title:
        title = first_line_title(found.text)  # of the style "Title", which makes no heading
        title = found.headings[0].label if found.headings and not (title and found.headings[0].start) else title
    hidden = archive.hidden_slides
    said = "1 hidden slide is" if hidden == 1 else f"{hidden} hidden slides are"
    problem = Problem(f"{said} not read", "To have them read, show them.")
    pages = found.pages if kind == "pptx" else ()
    return Extracted(found.text, title, found.headings, problems=(problem,) if hidden else (), pages=pages)


def read_epub(data: bytes, budget: Budget) -> Extracted:
    """Read a book: its chapters in order, without its table of contents; headings as in HTML.

    Raises:
        DocumentError: damaged, protected, or beyond the limits of time and size.
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
    found = join_parts(_headed(part, labels.get(name, "")) for name, part in parts)
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


@dataclass(frozen=True, slots=True)
class _Level:
    """A level of a list: its first number, how numbers are written, the text around them (``%1.%2``), its style."""

    start: int
    format: str
    text: str
    decimals: bool
    style: str

    def write(self, number: int, decimals: bool) -> str:
        """Write a number as this level shows it, or in decimals."""
        kind = "decimal" if decimals or number < 1 else self.format
        if kind.endswith("Letter"):
            found = chr(ord("a") + (number - 1) % 26) * (1 + (number - 1) // 26)
        elif kind.endswith("Roman"):
            found = ""
            for letters, value in _ROMAN.items():
                found += letters * (number // value)
                number %= value
        else:
            found = f"{number:02}" if kind == "decimalZero" else str(number)
        return found.upper() if kind.startswith("upper") else found


_ROMAN = {
    "m": 1000, "cm": 900, "d": 500, "cd": 400, "c": 100, "xc": 90, "l": 50, "xl": 40, "x": 10, "ix": 9, "v": 5, "iv": 4,
    "i": 1,
}  # fmt: skip


class _Numbering:
    """The automatic numbers of a Word document, which stand nowhere in its text (ISO/IEC 29500-1, 17.9).

    Args:
        numbering, styles: the parts of these names.
    """

    def __init__(self, numbering: Element, styles: Element) -> None:
        self._lists: dict[str, tuple[str, dict[int, _Level]]] = {}  # by numId; what is counted together has one name
        self._counts: dict[str, dict[int, int]] = {}
        abstract = {_attribute(a, "abstractNumId"): a for a in numbering.iterfind("{*}abstractNum")}
        linked = {name: a for a in abstract.values() if (name := _value(a, "styleLink"))}
        for number in numbering.iterfind("{*}num"):
            name, counted = _attribute(number, "numId"), _value(number, "abstractNumId")
            if (found := abstract.get(counted)) is None:
                continue
            levels = dict(_levels(linked.get(_value(found, "numStyleLink"), found)))
            for over in number.iterfind("{*}lvlOverride"):
                levels |= _levels(over)
                at, start = _int(_attribute(over, "ilvl")), _value(over, "startOverride")
                if start and at in levels:
                    levels[at] = replace(levels[at], start=_int(start))
                    counted = f"{counted}, {name}"
            self._lists[name] = counted, levels
        self._styles: dict[str, tuple[str, int]] = {}
        known = {name: s for s in styles.iterfind("{*}style") if (name := _attribute(s, "styleId"))}
        for name, style in known.items():
            based = [style]
            while (base := known.get(_value(based[-1], "basedOn"))) is not None and base not in based:
                based.append(base)
            list_ = next((found for s in based if (found := _value(s, "pPr/{*}numPr/{*}numId"))), "")
            level = next((found for s in based if (found := _value(s, "pPr/{*}numPr/{*}ilvl"))), "")
            own = (at for at, one in self._lists.get(list_, ("", {}))[1].items() if one.style == name)
            self._styles[name] = list_, next(own, _int(level))

    def next(self, paragraph: Element) -> str | None:
        """Count a paragraph and return its number; ``None`` if it has none, or a bullet."""
        list_, level = self._styles.get(_value(paragraph, "pPr/{*}pStyle"), ("", 0))
        list_ = _value(paragraph, "pPr/{*}numPr/{*}numId") or list_
        level = _int(_value(paragraph, "pPr/{*}numPr/{*}ilvl"), level)
        counted, levels = self._lists.get(list_, ("", {}))
        if not list_ or level not in levels or paragraph.find("{*}pPr/{*}rPr/{*}del") is not None:
            return None
        before = self._counts.get(counted, {})
        counts = {at: before.get(at, levels[at].start - (at == level)) for at in range(level + 1) if at in levels}
        counts[level] += 1
        self._counts[counted] = counts  # without the levels below, which begin anew
        one = levels[level]
        if one.format == "bullet":
            return None

        def written(sign: re.Match[str]) -> str:
            at = int(sign[1]) - 1
            return levels[at].write(counts[at], one.decimals) if at in counts else ""

        return re.sub(r"%([1-9])", written, one.text).strip()


def _levels(element: Element) -> Iterator[tuple[int, _Level]]:
    for level in element.iterfind("{*}lvl"):
        kind = _value(level, "numFmt") or "decimal"
        text = "" if kind == "none" else _value(level, "lvlText")
        decimals = level.find("{*}isLgl") is not None
        yield (
            _int(_attribute(level, "ilvl")),
            _Level(_int(_value(level, "start")), kind, text, decimals, _value(level, "pStyle")),
        )


def _attribute(element: Element, name: str) -> str:
    return next((str(value) for key, value in element.items() if str(key).rpartition("}")[2] == name), "")


def _value(element: Element, path: str) -> str:
    """Return the value of an element below; "" if there is none."""
    found = element.find(f"{{*}}{path}")
    return "" if found is None else _attribute(found, "val")


def _int(text: str, default: int = 0) -> int:
    return int(text) if text.isdecimal() and len(text) < 9 else default


def _numbered(document: Element, numbering: _Numbering) -> bytes:
    """Return the document with its automatic numbers as text, and their paragraphs as what they are without them."""
    from lxml import etree

    for paragraph in document.iter("{*}p"):
        number = numbering.next(paragraph)
        if number is None:
            continue
        space = paragraph.tag[: paragraph.tag.index("}") + 1]
        properties = paragraph.find(f"{space}pPr")  # there is one with the list, or with its style
        for given in properties.findall(f"{space}numPr"):
            properties.remove(given)
        none = etree.SubElement(etree.SubElement(properties, f"{space}numPr"), f"{space}numId")
        none.set(f"{space}val", "0")
        if number and "".join(paragraph.itertext()).strip():
            run = _run(paragraph, f"{number} ")
            run[0].set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
            properties.addnext(run)
    return bytes(etree.tostring(document))


class Archive:
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
        self.hidden_slides = 0

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
                if name == "word/document.xml" and {"word/numbering.xml", "word/styles.xml"} <= self.names.keys():
                    numbering = _Numbering(self.tree("word/numbering.xml"), self.tree("word/styles.xml"))
                    content = _numbered(self._parsed(content), numbering)
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

    def title(self) -> str:
        """Return the title among an office document's properties; empty if none is given that names it."""
        if "docProps/core.xml" not in self.names:
            return ""
        title = one_line(without_surrogates(self.tree("docProps/core.xml").findtext(".//{*}title") or ""))
        return "" if is_no_title(title) else title

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
