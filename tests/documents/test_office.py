"""Word documents, slides and books: in order, by styles, within bounds."""

from __future__ import annotations

import contextlib
import io
import re
import struct
import subprocess
import sys
import zipfile
from collections.abc import Mapping

import pytest

from shared_core.documents.chunking import chunk_document
from shared_core.documents.loaders import extracted, isolated, office
from shared_core.documents.loaders.extracted import Budget
from shared_core.errors import DocumentError, MissingDependencyError
from tests.documents.reading import FILES, headings, made_by, read, refuses

pytest.importorskip("office_oxide")

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"
BODY = "word/document.xml"


def zipped(members: Mapping[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return buffer.getvalue()


PACKAGE = "http://schemas.openxmlformats.org/package/2006"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml"


def related(**targets: str) -> str:
    named = "".join(f'<Relationship Id="{k}" Type="{OFFICE}/{k}" Target="{v}"/>' for k, v in targets.items())
    return f'<Relationships xmlns="{PACKAGE}/relationships">{named}</Relationships>'


def docx(body: str, *, space: str = W, **parts: str) -> bytes:
    """A Word document of this body; further parts (``styles``, ``footnotes`` …) by the name of their relation."""
    kinds = {"word/document.xml": "document.main", **{f"word/{name}.xml": name for name in parts}}
    types = "".join(f'<Override PartName="/{n}" ContentType="{TYPE}.{kind}+xml"/>' for n, kind in kinds.items())
    return zipped(
        {
            "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" ContentType='
            f'"application/vnd.openxmlformats-package.relationships+xml"/>{types}</Types>',
            "_rels/.rels": related(officeDocument="word/document.xml"),
            BODY: f'<w:document xmlns:w="{space}"><w:body>{body}</w:body></w:document>',
            "word/_rels/document.xml.rels": related(**{name: f"{name}.xml" for name in parts}),
            **{f"word/{name}.xml": f'<w:{name} xmlns:w="{W}">{part}</w:{name}>' for name, part in parts.items()},
        }
    )


def paragraph(text: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def test_minutes_by_a_word_processor() -> None:
    document = made_by("libreoffice_minutes.docx")
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
    passages = chunk_document(made_by("pandoc_toc.docx"))
    assert not any("Contents" in passage.text for passage in passages)
    assert sum(passage.text.count("Raw material") for passage in passages) == 1


def slides(pattern: bytes, replacement: bytes) -> bytes:
    """The slides of pandoc's presentation, the second one with a change."""
    changed = "ppt/slides/slide2.xml"
    with zipfile.ZipFile(FILES / "pandoc_slides.pptx") as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    return zipped({**parts, changed: re.sub(pattern, replacement, parts[changed])})


def test_slides_are_pages() -> None:
    document = made_by("pandoc_slides.pptx")
    assert headings(document) == [(2, "The Tar Works"), (2, "Raw material"), (2, "Yield"), (2, "Visitors")]
    assert "Kiln: North; Barrels: 31\nKiln: South; Barrels: 27\n\nVisitors" in document.text
    assert [document.text[p.start :].split("\n")[0] for p in document.pages] == [h.label for h in document.headings]
    footer = b'<p:sp><p:nvSpPr><p:cNvPr id="9" name="f"/><p:cNvSpPr/><p:nvPr><p:ph sz="quarter" type="ftr"/></p:nvPr>'
    footer += b"</p:nvSpPr><p:spPr/><p:txBody><a:p><a:r><a:t>On each slide</a:t></a:r></a:p></p:txBody></p:sp>"
    assert read(slides(b"(?=</p:spTree>)", footer), "a.pptx").text == document.text


def test_hidden_slides_are_not_read_and_that_is_said() -> None:
    document = read(slides(b"<p:sld ", b'<p:sld show="0" '), "a.pptx")
    assert [label for _, label in headings(document)] == ["The Tar Works", "Yield", "Visitors"]
    assert "Pine stumps" not in document.text
    assert [page.number for page in document.pages] == [1, 3, 4]
    assert [problem.message for problem in document.problems] == ["1 hidden slide is not read"]


def test_slides_without_text_count() -> None:
    document = read(slides(rb"(?<=<p:spTree>)[\s\S]*(?=</p:spTree>)", b""), "a.pptx")  # a picture
    assert [page.number for page in document.pages] == [1, 3, 4]


def _box(text: str, size: int) -> str:
    run = f'<a:r><a:rPr lang="en-US" sz="{size}"/><a:t>{text}</a:t></a:r>'
    head = '<p:nvSpPr><p:cNvPr id="9" name="CustomShape 1"/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/>'
    return f"<p:sp>{head}<p:txBody><a:bodyPr/><a:p>{run}</a:p></p:txBody></p:sp>"


@pytest.mark.parametrize(
    ("boxes", "label"),
    [
        ((("CHAPTER 2", 2000), ("Tar kilns", 4400), ("They burn for nine days.", 2000)), "Tar kilns"),
        ((("Tar kilns burn for nine days.", 2000), ("They are two.", 2000)), None),
        ((("45 %", 6000), ("of the stumps are pine.", 2000)), None),
    ],
)
def test_the_line_in_the_largest_letters_is_the_title_of_a_slide_without_one(
    boxes: tuple[tuple[str, int], ...], label: str | None
) -> None:
    tree = "".join(_box(text, size) for text, size in boxes).encode()
    document = read(slides(rb"(?<=<p:spTree>)[\s\S]*(?=</p:spTree>)", tree), "a.pptx")
    assert all(text in document.text for text, _ in boxes)
    expected = [label] if label else []
    assert [h.label for h in document.headings] == ["The Tar Works", *expected, "Yield", "Visitors"]


def test_descriptions_of_pictures_that_programs_wrote_are_no_text() -> None:
    def picture(description: str) -> bytes:
        made = f'<p:nvPicPr><p:cNvPr id="8" name="Picture 7" descr="{description}"/><p:cNvPicPr/><p:nvPr/></p:nvPicPr>'
        return f"<p:pic>{made}<p:blipFill/><p:spPr/></p:pic>".encode()

    plain = made_by("pandoc_slides.pptx").text
    for description in ("A stump on white&#xA;&#xA;Description automatically generated", "kiln 2.png"):
        assert read(slides(b"(?=</p:spTree>)", picture(description)), "a.pptx").text == plain
    assert "Two kilns in snow" in read(slides(b"(?=</p:spTree>)", picture("Two kilns in snow")), "a.pptx").text


@pytest.mark.parametrize("kind", ["nav", "ncx", ""])
def test_a_chapter_without_a_heading_is_none_of_the_chapter_before(kind: str) -> None:
    """Its name is in the table of contents only; a file that is not in there goes on with the chapter before."""
    contents = {
        "nav": "<html><nav><a href='../t/1.xhtml'>One</a><a href='../t/2%20.xhtml'>Two</a></nav></html>",
        "ncx": "<ncx><navMap><navPoint><navLabel><text>Two</text></navLabel><content src='../t/2%20.xhtml'/></navPoint>"
        "</navMap></ncx>",
    }
    nav = {"nav": 'properties="nav" media-type="text/html"', "ncx": 'media-type="application/x-dtbncx+xml"'}
    opf = '<package><item id="a" href="t/1.xhtml" media-type="text/html"/>'
    opf += '<item id="b" href="t/2%20.xhtml" media-type="text/html"/><itemref idref="a"/><itemref idref="b"/>'
    opf += f'<item id="n" href="o/n" {nav.get(kind, "")}/></package>'
    parts = {"t/1.xhtml": "<h1>One</h1><p>The lamp was lit.</p>", "t/2 .xhtml": "<p>Two</p><p>It is 31 m high.</p>"}
    container = "<container><rootfiles><rootfile full-path='b.opf'/></rootfiles></container>"
    book = zipped({"META-INF/container.xml": container, "b.opf": opf, "o/n": contents.get(kind, "<a/>"), **parts})
    sections = {p.text.split("\n")[-1]: p.metadata["section"] for p in chunk_document(read(book, "a.epub"))}
    assert sections["It is 31 m high."] == ("Two" if kind else "One")


def test_books_by_chapters_without_their_contents() -> None:
    document = made_by("pandoc_handbook.epub")
    assert document.format == "epub"
    assert [label for _, label in headings(document)][-3:] == ["Spring", "Summer", "Autumn and winter"]
    assert document.text.count("Autumn and winter") == 1


def test_what_is_not_seen_is_not_read() -> None:
    body = (
        '<w:p><w:r><w:t xml:space="preserve">Kept </w:t></w:r><w:del><w:r><w:delText>deleted</w:delText></w:r></w:del>'
        "<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r><w:ins><w:r><w:t>inserted</w:t></w:r></w:ins>"
        "<w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom><w:r><w:commentReference w:id='0'/></w:r>"
        "<w:r><w:instrText>PAGE</w:instrText></w:r><w:r><w:tab/><w:t>end</w:t><w:br/><w:t>line</w:t></w:r></w:p>"
        "<w:sdt><w:sdtContent><w:p><w:r><w:t>A non</w:t><w:noBreakHyphen/><w:t>box.</w:t></w:r></w:p></w:sdtContent>"
        "</w:sdt>"
    )
    header = "<w:p><w:r><w:t>confidential</w:t></w:r></w:p>"
    comment = '<w:comment w:id="0"><w:p><w:r><w:t>COMMENT</w:t></w:r></w:p></w:comment>'
    assert read(docx(body, comments=comment, header=header), "a.docx").text == "Kept inserted\tend\nline\n\nA non-box."


def test_raised_digits_are_told_apart_and_struck_out_text_is_left_out() -> None:
    parts = [("10", ""), ("6", '<w:vertAlign w:val="superscript"/>'), (" H", "")]
    parts += (("2", '<w:vertAlign w:val="subscript"/>'), ("O is ", ""), ("cheap", "<w:strike/>"), ("dear", ""))
    runs = "".join(f'<w:r><w:rPr>{how}</w:rPr><w:t xml:space="preserve">{t}</w:t></w:r>' for t, how in parts)
    assert read(docx(f"<w:p>{runs}</w:p>"), "a.docx").text == "10⁶ H2O is dear"


FORMULAS = [
    ("<m:f><m:num>{1}</m:num><m:den>{2}</m:den></m:f>{x}", "1/2x"),
    ("<m:f><m:num>{a+b}</m:num><m:den>{c}</m:den></m:f>", "(a+b)/c"),
    ("<m:f><m:fPr><m:type m:val='noBar'/></m:fPr><m:num>{n}</m:num><m:den>{k}</m:den></m:f>", "n over k"),
    ("<m:sSup><m:e>{10}</m:e><m:sup>{-3}</m:sup></m:sSup>", "10⁻³"),
    ("<m:sSup><m:e>{e}</m:e><m:sup>{n+1}</m:sup></m:sSup>{t}", "e^(n+1)t"),
    ("<m:sSubSup><m:e>{v}</m:e><m:sub>{max}</m:sub><m:sup>{2}</m:sup></m:sSubSup>", "v_max²"),
    ("<m:d><m:dPr/><m:e>{a+b}</m:e></m:d>{c}", "(a+b)c"),
    ("<m:d><m:dPr><m:begChr m:val='['/><m:endChr m:val=']'/></m:dPr><m:e>{1}</m:e><m:e>{2}</m:e></m:d>", "[1|2]"),
    ("<m:rad><m:deg/><m:e>{x+1}</m:e></m:rad>{y}", "√(x+1)y"),
    ("<m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr><m:sub>{i=1}</m:sub><m:sup>{n}</m:sup><m:e>{i}</m:e></m:nary>",
     "∑_(i=1)^n i"),
]  # fmt: skip


@pytest.mark.parametrize(("formula", "spelt"), FORMULAS)
def test_formulas_say_what_their_layout_shows(formula: str, spelt: str) -> None:
    math = "http://schemas.openxmlformats.org/officeDocument/2006/math"
    runs = re.sub(r"\{([^}]*)\}", r"<m:r><m:t>\1</m:t></m:r>", formula)
    body = f'<w:p><w:r><w:t xml:space="preserve">It is </w:t></w:r><m:oMath xmlns:m="{math}">{runs}</m:oMath></w:p>'
    assert read(docx(body), "a.docx").text == f"It is {spelt}"


def test_the_title_above_the_first_heading_is_the_documents() -> None:
    heading = paragraph("Membership", '<w:outlineLvl w:val="0"/>') + paragraph("The fee is 85 pounds.")
    assert (
        read(docx(paragraph("Statutes of the Rowing Club") + heading), "a.docx").title == "Statutes of the Rowing Club"
    )
    assert read(docx(paragraph("This is a sentence.") + heading), "a.docx").title == "Membership"
    assert read(docx(heading), "a.docx").title == "Membership"


def test_headings_by_style_by_what_it_is_based_on_and_by_level() -> None:
    styles = (
        '<w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/>'
        '<w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style>'
        '<w:style w:type="paragraph" w:styleId="Mine"><w:name w:val="mine"/><w:basedOn w:val="berschrift1"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="A"><w:name w:val="a"/><w:basedOn w:val="B"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="B"><w:name w:val="b"/><w:basedOn w:val="A"/></w:style>'
    )
    body = (
        paragraph("One", '<w:pStyle w:val="Mine"/>')
        + paragraph("text", '<w:pStyle w:val="A"/>')
        + paragraph("Three", '<w:outlineLvl w:val="2"/>')
    )
    document = read(docx(body, styles=styles), "a.docx")
    assert headings(document) == [(1, "One"), (3, "Three")]
    assert document.text == "One\n\ntext\n\nThree"


def level(at: int, form: str, text: str, more: str = "") -> str:
    return (
        f'<w:lvl w:ilvl="{at}"><w:start w:val="1"/><w:numFmt w:val="{form}"/><w:lvlText w:val="{text}"/>{more}</w:lvl>'
    )


def listed(text: str, at: int, number: int = 1) -> str:
    return paragraph(text, f'<w:numPr><w:ilvl w:val="{at}"/><w:numId w:val="{number}"/></w:numPr>')


def test_automatic_numbers_are_text_and_numbered_headings_are_headings() -> None:
    numbering = (
        '<w:abstractNum w:abstractNumId="7">'
        + level(0, "upperRoman", "Article %1.")
        + level(1, "decimal", "%1.%2", "<w:isLgl/>")
        + level(2, "lowerLetter", "(%3)")
        + '</w:abstractNum><w:abstractNum w:abstractNumId="8">'
        + level(0, "bullet", "-")
        + '</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>'
        '<w:num w:numId="2"><w:abstractNumId w:val="8"/></w:num><w:num w:numId="3"><w:abstractNumId w:val="7"/>'
        '<w:lvlOverride w:ilvl="2"><w:startOverride w:val="27"/></w:lvlOverride></w:num>'
    )
    styles = (
        '<w:style w:type="paragraph" w:styleId="H"><w:name w:val="heading 1"/><w:pPr><w:numPr><w:numId w:val="1"/>'
        '</w:numPr><w:outlineLvl w:val="0"/></w:pPr></w:style><w:style w:type="paragraph" w:styleId="Sub">'
        '<w:name w:val="sub"/><w:basedOn w:val="H"/><w:pPr><w:numPr><w:numId w:val="0"/></w:numPr></w:pPr></w:style>'
    )
    heading = '<w:pStyle w:val="H"/>'
    body = (
        paragraph("Term", heading)
        + listed("It begins in May.", 1)
        + listed("", 1)
        + listed("It ends in June.", 1)
        + paragraph("Rent", heading)
        + listed("It is due:", 1)
        + listed("in summer;", 2)
        + listed("in winter.", 2)
        + listed("elsewhere.", 2, 3)
        + listed("Keys", 0, 2)
        + listed("Unknown", 0, 99)
        + paragraph("Rates", '<w:pStyle w:val="Sub"/>')
    )
    document = read(docx(body, styles=styles, numbering=numbering), "a.docx")
    assert headings(document) == [(1, "Article I. Term"), (1, "Article II. Rent"), (1, "Rates")]
    assert [line for line in document.text.split("\n") if line] == [
        "Article I. Term", "1.1 It begins in May.", "1.3 It ends in June.", "Article II. Rent", "2.1 It is due:",
        "(a) in summer;", "(b) in winter.", "(aa) elsewhere.", "- Keys", "Unknown", "Rates",
    ]  # fmt: skip


def test_lists_and_styles_without_a_name_number_nothing() -> None:
    numbering = (
        f'<w:abstractNum w:abstractNumId="7">{level(0, "decimal", "%1.")}</w:abstractNum>'
        '<w:num w:numId=""><w:abstractNumId w:val="7"/></w:num><w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>'
    )
    styles = '<w:style w:type="paragraph" w:styleId=""><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
    body = "<w:p><w:r><w:t>Plain.</w:t></w:r></w:p>"
    assert read(docx(body, styles=styles, numbering=numbering), "a.docx").text == "Plain."


@pytest.mark.parametrize("space", [W, STRICT])
def test_a_table_of_contents_is_left_out(space: str) -> None:
    def paragraph(text: str, style: str = "") -> str:
        styled = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' * bool(style)
        return f"<w:p>{styled}<w:r><w:t>{text}</w:t></w:r></w:p>"

    names = {
        "Verzeichnis1": "toc 1",
        "TOC2": "toc 2",
        "TOCHeading": "TOC Heading",
        "Tocsin": "Tocsin",
        "H1": "heading 1",
    }
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{of}"><w:name w:val="{name}"/></w:style>' for of, name in names.items()
    )
    listed = [("Contents", "TOCHeading"), ("1 Pay 5", "Verzeichnis1"), ("1.1 Days 6", "TOC2")]
    body = [("1 Pay", "H1"), ("Keepers are paid on Fridays.", ""), ("The bell rings at six.", "Tocsin")]
    data = docx("".join(paragraph(*one) for one in (*listed, *body)), space=space, styles=styles)
    assert read(data, "a.docx").text.split("\n\n") == [text for text, _ in body]


def test_notes_come_last() -> None:
    body = "<w:p><w:r><w:t>Text.</w:t></w:r><w:r><w:{0}noteReference w:id='2'/></w:r></w:p>" + paragraph("More.")
    note = "<w:{0}note w:id='2'><w:p><w:r><w:t>A note.</w:t></w:r></w:p></w:{0}note>"
    for kind in ("foot", "end"):
        data = docx(body.format(kind), **{f"{kind}notes": note.format(kind)})
        assert read(data, "a.docx").text == "Text.\n\nMore.\n\nA note."


def test_bad_documents_are_refused() -> None:
    whole = docx(paragraph("Some text."))
    assert "damaged" in refuses(whole[:200], "a.docx").message
    assert "damaged" in refuses(b"PK\x03\x04 nothing", "b.docx").message
    assert ".docx" in refuses(b"\xd0\xcf\x11\xe0" + b"\0" * 600, "c.docx").hint
    for broken in ("<broken", paragraph("One.") + "<w:p><w:r></w:p></w:r>" + paragraph("Two.")):
        assert "damaged" in refuses(docx(broken), "d.docx").message
    assert "damaged" in refuses(zipped({"other.xml": "<a/>"}), "e.docx").message
    assert "no text" in refuses(docx("<w:p/>"), "f.docx").message
    for kind in ("docx", "pptx", "xlsx", "epub"):
        for data in (b" \n", b"\xef\xbb\xbf", zipped({"x": "y"})):
            assert refuses(data, f"a.{kind}").hint
    assert "as .docx" in refuses(b"PK", "g.pages").hint


LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghi", "bcdefghij", strict=True))
    + "]>"
)


def test_entities_are_never_expanded() -> None:
    bomb = docx("<w:p><w:r><w:t>&j;</w:t></w:r></w:p>")
    with zipfile.ZipFile(io.BytesIO(bomb)) as whole:
        parts = {name: whole.read(name).decode() for name in whole.namelist()}
    for data, name in (
        (zipped({**parts, BODY: LAUGHS + parts[BODY]}), "a.docx"),
        (zipped({"META-INF/container.xml": f"{LAUGHS}<container x='&j;'/>"}), "a.epub"),
        (zipped({"content.xml": f"{LAUGHS}<x>&j;</x>", "META-INF/manifest.xml": "<m/>"}), "a.odt"),
    ):
        assert "damaged" in refuses(data, name).message


def refused_here(kind: str, data: bytes, budget: Budget | None = None) -> DocumentError:
    """The error of reading in this process, where limits can be changed."""
    with pytest.raises(DocumentError) as caught:
        isolated._reader(kind)(data, budget or Budget())
    return caught.value


def test_what_unpacks_to_too_much_is_refused_while_it_unpacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(office, "MAX_UNPACKED_BYTES", 300_000)
    assert office.read_office("docx", docx(paragraph("word " * 20_000)), Budget()).text.startswith("word")
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
    monkeypatch.setattr(office, "MAX_UNPACKED_BYTES", 50_000)
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
    error = refuses(docx(paragraph("a") * 2_000_000), "a.docx")
    assert "memory" in error.message
    assert read(docx(paragraph("Still here.")), "b.docx").text == "Still here."


def test_time_is_checked_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(1_000_000))
    monkeypatch.setattr(extracted.time, "monotonic", lambda: float(next(ticks)))
    message = refused_here("docx", docx(paragraph("word " * 1_000_000)), Budget(20)).message
    assert message.startswith("Reading it took longer than 20 seconds")
    assert next(ticks) < 40


def test_a_document_that_takes_too_long_is_given_up() -> None:
    data = docx("<w:p><w:r><w:t>a</w:t></w:r></w:p>" * 300_000)
    assert "0.3 seconds" in refuses(data, "a.docx", max_seconds=0.3).message


def test_text_that_other_libraries_lose_is_kept() -> None:
    """Ampersands, tracked insertions, fields, controls, smart tags."""
    run = '<w:r><w:t xml:space="preserve">{}</w:t></w:r>'
    body = (
        f"<w:p>{run.format('R&amp;D &lt; 5, ')}<w:ins>{run.format('inserted')}</w:ins>"
        f"<w:smartTag>{run.format(' tag')}</w:smartTag><w:fldSimple>{run.format(' field')}</w:fldSimple>"
        f"<w:sdt><w:sdtContent>{run.format(' control')}</w:sdtContent></w:sdt>{run.format('.')}</w:p>"
    )
    for data, name in ((docx(body), "a.docx"), (docx(body), "a.docm"), (docx(body, space=STRICT), "b.docx")):
        assert read(data, name).text == "R&D < 5, inserted tag field control."


def test_a_missing_library_is_named_with_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated.importlib.util, "find_spec", lambda name: None)
    for kind, package in (
        ("docx", "office-oxide"), ("xlsx", "office-oxide"), ("rtf", "lxml"), ("epub", "lxml"), ("pdf", "pypdfium2")
    ):  # fmt: skip
        with pytest.raises(MissingDependencyError, match=package) as caught:
            read(b"{\\rtf1 Text.}" if kind == "rtf" else docx(paragraph("Some text.")), f"a.{kind}")
        assert "documents" in caught.value.hint
