"""Word documents, OpenDocument texts, slides and books: in order, by styles, within bounds."""

from __future__ import annotations

import contextlib
import io
import struct
import subprocess
import sys
import zipfile
from collections.abc import Mapping

import pytest

from shared_core.documents.loaders import archive, epub, isolated, limits, office
from shared_core.documents.loaders.limits import Budget
from shared_core.documents.loaders.tables import table_text
from shared_core.errors import DocumentError, MissingDependencyError
from tests.documents.reading import headings, made_by, read, refuses

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"
BODY = "word/document.xml"


def zipped(members: Mapping[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return buffer.getvalue()


def docx(body: str, **members: str) -> bytes:
    """A Word document of this body; further members by name with ``/`` and ``.`` as ``__`` and ``_``."""
    named = {name.replace("__", "/").replace("_xml", ".xml"): content for name, content in members.items()}
    return zipped({BODY: f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>', **named})


def paragraph(text: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def made_with_a_library(title: str = "") -> bytes:
    word = pytest.importorskip("docx")
    document = word.Document()
    document.core_properties.title = title
    document.add_heading("The Harbour", level=1)
    document.add_paragraph("It was dug in 1804.")
    document.add_heading("Cranes", level=2)
    table = document.add_table(rows=2, cols=2)
    for i, cell in enumerate(("Crane", "Built", "Old Meg", "1811")):
        table.cell(i // 2, i % 2).text = cell
    document.add_paragraph("Both still work.")
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def test_docx_in_order_with_headings_and_tables() -> None:
    document = read(made_with_a_library("Works of the harbour"), "a.docx")
    assert document.text == (
        "The Harbour\n\nIt was dug in 1804.\n\nCranes\n\nCrane\tBuilt\nOld Meg\t1811\n\nBoth still work."
    )
    assert document.title == "Works of the harbour"
    assert headings(document) == [(1, "The Harbour"), (2, "Cranes")]
    assert read(made_with_a_library(), "b.docx").title == "The Harbour"


@pytest.mark.parametrize("kind", ["docx", "odt"])
def test_minutes_by_a_word_processor(kind: str) -> None:
    document = made_by(f"libreoffice_minutes.{kind}")
    assert headings(document) == [(1, "The dredger"), (2, "Soundings"), (1, "The lifeboat"), (1, "Other business")]
    assert "Place: Entrance; March: 6.1 m; June: 5.6 m\nPlace: Coal quay; March: 7.4 m; June: 7.3 m" in document.text
    assert document.text.endswith("is kept with the papers of the meeting.")  # the footnote, behind the text
    assert "installation required a further fortnight.\n\n" in document.text
    assert "confidential" not in document.text
    assert document.title == "Minutes of the Harbour Board"


def test_documents_by_a_converter() -> None:
    document = made_by("pandoc_handbook.docx")
    assert "Year: 1975; Hives: 31; Honey in kg: 620\n" in document.text
    assert "weight = hive - empty_hive\nif weight < 11:\n    feed(11 - weight)" in document.text
    listed = made_by("pandoc_toc.docx")
    assert "Contents" not in listed.text
    assert listed.text.count("Raw material") == 1


def test_slides_are_pages() -> None:
    document = made_by("pandoc_slides.pptx")
    assert headings(document) == [(1, "The Tar Works"), (1, "Raw material"), (1, "Yield"), (1, "Visitors")]
    assert "Kiln\tBarrels\nNorth\t31\nSouth\t27" in document.text
    assert [document.text[p.start :].split("\n")[0] for p in document.pages] == [h.label for h in document.headings]


def test_books_by_chapters_without_their_contents() -> None:
    document = made_by("pandoc_handbook.epub")
    assert document.format == "epub"
    assert [label for _, label in headings(document)][-3:] == ["Spring", "Summer", "Autumn and winter"]
    assert document.text.count("Autumn and winter") == 1


def test_what_is_not_seen_is_not_read() -> None:
    body = (
        "<w:p><w:r><w:t>Kept </w:t></w:r><w:del><w:r><w:delText>deleted</w:delText></w:r></w:del>"
        "<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r><w:ins><w:r><w:t>inserted</w:t></w:r></w:ins>"
        "<w:r><w:instrText>PAGE</w:instrText><w:tab/><w:t>end</w:t><w:br/><w:t>line</w:t></w:r></w:p>"
        "<w:sdt><w:sdtPr><w:docPartObj><w:docPartGallery w:val='Table of Contents'/></w:docPartObj></w:sdtPr>"
        "<w:sdtContent><w:p><w:r><w:t>Chapter 1 ... 3</w:t></w:r></w:p></w:sdtContent></w:sdt>"
        "<w:sdt><w:sdtContent><w:p><w:r><w:t>A box.</w:t></w:r></w:p></w:sdtContent></w:sdt>"
    )
    assert read(docx(body), "a.docx").text == "Kept inserted\tend\nline\n\nA box."


def test_headings_by_style_by_what_it_is_based_on_and_by_level() -> None:
    styles = (
        f'<w:styles xmlns:w="{W}">'
        '<w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
        '<w:style w:styleId="Mine"><w:name w:val="My title"/><w:basedOn w:val="berschrift1"/></w:style>'
        '<w:style w:styleId="A"><w:name w:val="a"/><w:basedOn w:val="B"/></w:style>'
        '<w:style w:styleId="B"><w:name w:val="b"/><w:basedOn w:val="A"/></w:style>'
        '<w:style w:styleId="Verzeichnis1"><w:name w:val="toc 1"/></w:style></w:styles>'
    )
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r" '
        'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles" Target="styles.xml"/>'
        "</Relationships>"
    )
    body = (
        paragraph("One", '<w:pStyle w:val="Mine"/>')
        + paragraph("text", '<w:pStyle w:val="A"/>')
        + paragraph("Three", '<w:outlineLvl w:val="2"/>')
        + paragraph("One 5", '<w:pStyle w:val="Verzeichnis1"/>')
    )
    data = zipped(
        {
            BODY: f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>',
            "word/styles.xml": styles,
            "word/_rels/document.xml.rels": relations,
        }
    )
    document = read(data, "a.docx")
    assert headings(document) == [(1, "One"), (3, "Three")]
    assert document.text == "One\n\ntext\n\nThree"


def test_bad_documents_are_refused() -> None:
    whole = docx(paragraph("Some text."))
    assert "damaged" in refuses(whole[:200], "a.docx").message
    assert "damaged" in refuses(b"PK\x03\x04 nothing", "b.docx").message
    assert ".docx" in refuses(b"\xd0\xcf\x11\xe0" + b"\0" * 600, "c.docx").hint
    assert "damaged" in refuses(zipped({BODY: "<broken"}), "d.docx").message
    assert "document.xml" in refuses(zipped({"other.xml": "<a/>"}), "e.docx").message
    assert "no text" in refuses(docx("<w:p/>"), "f.docx").message
    for kind in ("odt", "pptx", "epub"):
        assert refuses(zipped({"x": "y"}), f"a.{kind}").hint
    locked = '<m xmlns:m="urn:x"><m:encryption-data/></m>'
    assert "password" in refuses(zipped({"META-INF/manifest.xml": locked, "content.xml": "x"}), "g.odt").message


LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghi", "bcdefghij", strict=True))
    + "]>"
)


@pytest.mark.parametrize("kind", ["docx", "odt", "pptx", "epub"])
def test_entities_are_never_expanded(kind: str) -> None:
    part = {"docx": BODY, "odt": "content.xml", "pptx": "ppt/presentation.xml", "epub": "META-INF/container.xml"}[kind]
    bomb = (
        f'{LAUGHS}<w:document xmlns:w="{W}" x="&j;"><w:body><w:p><w:r><w:t>&j;</w:t></w:r></w:p></w:body></w:document>'
    )
    error = refuses(zipped({part: bomb}), f"a.{kind}")
    assert "document type" in error.message or "damaged" in error.message


def refused_here(kind: str, data: bytes, budget: Budget | None = None) -> DocumentError:
    """The error of reading in this process, where limits can be changed."""
    readers = {"docx": office.read_docx, "epub": epub.read_epub}
    with pytest.raises(DocumentError) as caught:
        readers[kind](data, budget or Budget())
    return caught.value


def test_what_unpacks_to_too_much_is_refused_while_it_unpacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 300_000)
    assert office.read_docx(docx(paragraph("word " * 20_000)), Budget()).text.startswith("word")
    assert refused_here("docx", docx(paragraph("word " * 200_000))).message == "It unpacks to more than 300,000 bytes."
    small = [paragraph("x " * 40_000)] * 5  # no member alone, but all together
    book = {f"p{i}.xhtml": f"<html><body>{body}</body></html>" for i, body in enumerate(small)}
    items = "".join(f'<item id="i{i}" href="p{i}.xhtml" media-type="application/xhtml+xml"/>' for i in range(5))
    spine = "".join(f'<itemref idref="i{i}"/>' for i in range(5))
    container = '<container><rootfiles><rootfile full-path="b.opf"/></rootfiles></container>'
    opf = f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>"
    error = refused_here("epub", zipped({"META-INF/container.xml": container, "b.opf": opf, **book}))
    assert error.message == "It unpacks to more than 300,000 bytes."


def test_a_bomb_is_refused_by_the_limits_in_use() -> None:
    """150 kB that unpack to 150 MB."""
    error = refuses(docx(paragraph(" " * 1_000_000) * 150), "a.docx")
    assert error.message == "It unpacks to more than 134,217,728 bytes."


def test_a_size_that_lies_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(docx(paragraph("word " * 100_000)))
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 50_000)
    for mark, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):  # uncompressed size in both places
        struct.pack_into("<L", data, data.index(mark) + offset, 10)
    error = refused_here("docx", bytes(data))
    assert "unpacks" in error.message or "damaged" in error.message


def test_a_directory_beyond_measure_is_not_read() -> None:
    data = bytearray(docx(paragraph("Some text.")))
    place = data.rindex(b"PK\x05\x06")
    struct.pack_into("<L", data, place + 12, 1 << 30)
    assert "directory" in refuses(bytes(data), "a.docx").message


def test_deep_nesting_is_refused_or_read_but_never_followed_down() -> None:
    for depth in (200, 50_000):
        body = "<w:tbl><w:tr><w:tc>" * depth + paragraph("deep") + "</w:tc></w:tr></w:tbl>" * depth
        with contextlib.suppress(DocumentError):
            assert "deep" in read(docx(body), "a.docx").text


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does")
def test_a_small_file_of_much_xml_costs_the_calling_process_its_text_only() -> None:
    """62 kB that unpack to 20 MB: the tree of it, some 150 MB, is built in the helper process."""
    runs = "<w:r><w:rPr><w:b/></w:rPr><w:t>a </w:t></w:r>" * 40
    data = docx(f"<w:p>{runs}</w:p>" * 11_000)
    assert len(data) < 100_000
    code = (
        "import sys, resource, time\nfrom shared_core.documents.load import LoadOptions, parse_document\n"
        "data = sys.stdin.buffer.read()\n"
        "small = data[: int(sys.argv[1])]\n"
        "parse_document(small, 'a.docx', LoadOptions(), file_name='a.docx')\n"
        "before, start = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()\n"
        "document = parse_document(data[len(small):], 'a.docx', LoadOptions(), file_name='a.docx')\n"
        "after = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(len(document.text), after.ru_maxrss - before.ru_maxrss, time.monotonic() - start)"
    )
    first = docx(paragraph("Some text."))
    result = subprocess.run(
        [sys.executable, "-c", code, str(len(first))], input=first + data, capture_output=True, timeout=120, check=True
    )
    letters, kilobytes, seconds = map(float, result.stdout.split())
    assert letters > 800_000
    assert kilobytes < 40_000
    assert seconds < 90  # two or three on an idle core


def test_a_document_that_fills_the_memory_costs_itself_only() -> None:
    """Its tree would take some 2 GB."""
    error = refuses(docx("<w:p/>" * 12_000_000), "a.docx")
    assert "memory" in error.message
    assert read(docx(paragraph("Still here.")), "b.docx").text == "Still here."


def test_time_is_checked_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(1_000_000))
    monkeypatch.setattr(limits.time, "monotonic", lambda: float(next(ticks)))
    message = refused_here("docx", docx(paragraph("word " * 1_000_000)), Budget(20)).message
    assert message.startswith("Reading it took longer than 20 seconds")
    assert next(ticks) < 40


def test_a_document_that_takes_too_long_is_given_up() -> None:
    data = docx("<w:p><w:r><w:t>a</w:t></w:r></w:p>" * 300_000)
    assert "0.3 seconds" in refuses(data, "a.docx", max_seconds=0.3).message


def test_text_that_libraries_lose_is_kept() -> None:
    """Ampersands, tracked insertions, fields, controls, smart tags; spaces and nested spans of ODT."""
    run = "<w:r><w:t>{}</w:t></w:r>"
    body = (
        f"<w:p>{run.format('R&amp;D &lt; 5, ')}<w:ins>{run.format('inserted')}</w:ins>"
        f"<w:smartTag>{run.format(' tag')}</w:smartTag><w:fldSimple>{run.format(' field')}</w:fldSimple>"
        f"<w:sdt><w:sdtContent>{run.format(' control')}</w:sdtContent></w:sdt>"
        f"<w:r><w:pPr/><w:t>.</w:t></w:r></w:p>"
    )
    for name in ("a.docx", "a.docm"):
        assert read(docx(body), name).text == "R&D < 5, inserted tag field control."
    strict = zipped({BODY: f'<w:document xmlns:w="{STRICT}"><w:body>{body}</w:body></w:document>'})
    assert read(strict, "b.docx").text == "R&D < 5, inserted tag field control."
    odt = (
        '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
        'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
        'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:text>'
        "<text:p>a &amp; b<text:s/>it&apos;s <text:span>nes<text:span>ted</text:span></text:span> tail"
        "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>The note.</text:p>"
        "</text:note-body></text:note><office:annotation><text:p>COMMENT</text:p></office:annotation> end</text:p>"
        "<table:table><table:table-row><table:table-cell><text:p>A</text:p><text:p>A2</text:p></table:table-cell>"
        "<table:table-cell><text:p>B</text:p></table:table-cell></table:table-row></table:table>"
        "</office:text></office:body></office:document-content>"
    )
    assert read(zipped({"content.xml": odt}), "a.odt").text == "a & b it's nested tail end\n\nA A2\tB\n\nThe note."


def test_a_missing_library_is_named_with_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated.importlib.util, "find_spec", lambda name: None)
    for kind, package in (("docx", "lxml"), ("odt", "lxml"), ("pptx", "lxml"), ("epub", "lxml"), ("pdf", "pypdfium2")):
        with pytest.raises(MissingDependencyError, match=package) as caught:
            read(docx(paragraph("Some text.")), f"a.{kind}")
        assert "documents" in caught.value.hint


HEADED = [["Mill", "Built", "Miller"], ["North", "1871", "Ila Venn"], ["South", "1902", "Tom Hale"]]


def test_rows_carry_the_names_of_their_columns() -> None:
    """A row alone says nothing of what its numbers are."""
    assert table_text(HEADED).split("\n") == [
        "Mill: North; Built: 1871; Miller: Ila Venn",
        "Mill: South; Built: 1902; Miller: Tom Hale",
    ]


@pytest.mark.parametrize(
    "rows",
    [
        [row[:2] for row in HEADED],  # two columns: names and values as often as a header
        HEADED[:2],  # one row below
        [["North", "1871", "Ila Venn"], *HEADED[1:]],  # the first row is like the others
        [["Mill", "Mill", "Miller"], *HEADED[1:]],
        [["Mill", "", "Miller"], *HEADED[1:]],
        [["Mill", "Built", "Miller"], ["North", "long ago", "Ila Venn"], ["South", "1902", "Tom Hale"]],
        [*HEADED, ["East", "1903"]],
    ],
)
def test_other_tables_keep_their_cells(rows: list[list[str]]) -> None:
    assert table_text(rows) == "\n".join("\t".join(row) for row in rows)


def test_empty_rows_and_cells_say_nothing() -> None:
    assert table_text([]) == ""
    assert table_text([["", " "], [" "]]) == ""
    assert table_text([*HEADED, ["", "", ""]]) == table_text(HEADED)
    assert table_text([*HEADED, ["East", "1903", ""]]).endswith("\nMill: East; Built: 1903")
