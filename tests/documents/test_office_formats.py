"""Documents of older and of free office programs: read as their newer and other forms are, or refused."""

from __future__ import annotations

import contextlib
import io
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.documents.chunking import chunk_document
from shared_core.documents.load import load_document
from shared_core.documents.loaders.extracted import Budget
from shared_core.documents.loaders.rtf import read_rtf
from shared_core.errors import DocumentError
from tests.documents.reading import FILES, headings, made_by, read, refuses
from tests.documents.test_office import docx, paragraph, zipped

pytest.importorskip("office_oxide")
pytest.importorskip("xlrd")

RULES = ("libreoffice_rules.doc", "libreoffice_rules.rtf", "libreoffice_rules.odt", "sources/rules.fodt")
TOLLS = ("libreoffice_tolls.xls", "libreoffice_tolls.ods", "sources/tolls.fods")
KELP = ("libreoffice_kelp.ppt.gz", "libreoffice_kelp.odp", "sources/kelp.fodp")


@pytest.mark.parametrize("name", RULES)
def test_a_text_is_read_without_what_its_pages_do_not_show(name: str) -> None:
    document = made_by(name)
    assert document.title == "Rules of the Ropewalk"
    numbers = ("", "", "", "") if name.endswith(".doc") else ("1. ", "1.1 ", "2. ", "2.1 ")
    names = ("Opening", "Visitors", "Ropes", "Tar")
    assert headings(document) == [
        (level, number + label) for level, number, label in zip((1, 2, 1, 2), numbers, names, strict=True)
    ]
    assert "on weekdays from eight to six, in winter until four. A key costs twelve crowns.\n" in document.text
    assert "Up to 10² may come in a day." in document.text
    assert "Rope: Hawser; Girth: 9 cm; Load: 4 t\nRope: Cable; Girth: 21 cm; Load: 17 t" in document.text
    assert "95 °C – never above – and Søren’s recipe" in document.text
    assert document.text.endswith("\n\nIt lies in the tar house.")  # the footnote
    for unseen in ("Sundays", "foreman", "nine twelve", "spare key", "for members", "Sheet"):
        assert unseen not in document.text


@pytest.mark.parametrize("name", RULES[1:])
def test_automatic_numbers_are_read_and_bullets_are_not(name: str) -> None:
    text = made_by(name).text
    assert "\n(a) Children under ten walk with an adult.\n\n(b) Dogs stay at the gate.\n" in text
    assert "\nHawsers of three strands\n" in text


@pytest.mark.parametrize("name", TOLLS)
def test_a_workbook_is_read_with_the_values_it_shows(name: str) -> None:
    document = made_by(name)
    assert "Bridge: Nether Bridge; Opens: 08:30; Toll: 4.5; Rebate: 15%; Built on: 1931-06-02\n" in document.text
    assert "Bridge: Fell Bridge; Opens: 08:30; Toll: 6; Built on: 1958-11-20\n" in document.text
    assert headings(document) == [(1, "Tolls"), (1, "Notes")]
    assert "The toll was three." not in document.text
    assert [problem.message for problem in document.problems] == ["1 hidden sheet is not read"]
    assert {passage.metadata["sheet"] for passage in chunk_document(document)} == {"Tolls", "Notes"}


@pytest.mark.parametrize("name", KELP)
def test_slides_are_pages(name: str) -> None:
    document = made_by(name)
    hidden = "A tonne fetched ninety crowns." not in document.text  # which a PPT does not tell
    assert hidden is not name.endswith(".ppt.gz")
    assert [problem.message for problem in document.problems] == ["1 hidden slide is not read"] * hidden
    assert [page.number for page in document.pages] == ([1, 3] if hidden else [1, 2, 3])
    last = document.text[document.pages[-1].start :]
    assert [line for line in last.splitlines() if line] == [
        "Drying", "Racks stand on the north shore.", "A load dries in four days.", "Turn it twice."
    ]  # fmt: skip
    assert document.title == "The kelp harvest"
    assert "Thank the harbour master" not in document.text


def test_a_document_is_what_it_holds_whatever_its_name_says() -> None:
    rules = (FILES / "libreoffice_rules.rtf").read_bytes()
    assert read(rules, "rules.doc").format == "rtf"
    assert read((FILES / "libreoffice_rules.doc").read_bytes(), "rules.docx").format == "doc"
    assert read(docx(paragraph("Ropes are laid here.")), "rules.doc").text == "Ropes are laid here."
    assert read((FILES / "libreoffice_tolls.ods").read_bytes(), "tolls.xls").format == "ods"
    assert read("Ropes are laid here.\n", "notes.doc").text == "Ropes are laid here.\n"
    page = "<html><body><table><tr><th>Rope</th><th>Load</th></tr><tr><td>Cable</td><td>17 t</td></tr></table>"
    assert read(page, "ropes.xls").text == "Rope: Cable; Load: 17 t"
    assert read("Rope\tLoad\nCable\t17 t\n", "ropes.xls").text == "Rope: Cable; Load: 17 t"


@pytest.mark.parametrize("name", [*RULES[:3], *TOLLS[:2], "libreoffice_kelp.odp"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_file_that_was_cut_off_is_refused(name: str, share: float) -> None:
    data = (FILES / name).read_bytes()
    assert "damaged" in refuses(data[: int(share * len(data))], name).message


@pytest.mark.parametrize("kind", ["doc", "ppt", "xls", "rtf", "odt", "odp", "ods"])
def test_bad_files_are_refused(kind: str) -> None:
    for data in (b"\xd0\xcf\x11\xe0" + b"\0" * 600, b"PK\x03\x04 nothing", b"\0\1\2\3" * 200, zipped({"x": "y"})):
        assert refuses(data, f"a.{kind}").hint


def odt(content: str, manifest: str = "<m/>", **parts: str) -> bytes:
    space = "urn:oasis:names:tc:opendocument:xmlns"
    root = f'<o:document-content xmlns:o="{space}:office:1.0" xmlns:t="{space}:text:1.0" xmlns:b="{space}:table:1.0">'
    whole = f"{root}<o:body><o:text>{content}</o:text></o:body></o:document-content>"
    named = {f"{name}.xml": part for name, part in parts.items()}
    return zipped({"content.xml": whole, "META-INF/manifest.xml": manifest, **named})


def test_opendocument_without_its_usual_parts() -> None:
    assert read(odt("<t:p>One<t:s t:c='2'/>two<t:tab/>three<t:line-break/>four</t:p>"), "a.odt").text == (
        "One  two\tthree\nfour"
    )
    cells = "<b:table-cell b:number-columns-spanned='2'><t:p>Rope</t:p></b:table-cell><b:covered-table-cell/>"
    row = f"<b:table-row>{cells}<b:table-cell b:number-columns-repeated='2'><t:p>x</t:p></b:table-cell></b:table-row>"
    assert read(odt(f"<b:table>{row}</b:table>"), "a.odt").text.split() == ["Rope", "x", "x"]
    assert "damaged" in refuses(odt("<t:p>"), "a.odt").message
    assert "no text" in refuses(odt("<t:p/>"), "a.odt").message
    assert "password" in refuses(odt("<t:p>x</t:p>", "<m><encryption-data/></m>"), "a.odt").message


def test_repeated_cells_without_end_are_bounded() -> None:
    cell = "<b:table-cell b:number-columns-repeated='99999999'><t:p>x</t:p></b:table-cell>"
    table = f"<b:table>{f'<b:table-row>{cell}</b:table-row>' * 3}</b:table>"
    assert len(read(odt(table), "a.odt").text) < 10_000


def rtf(body: str, fonts: str = "") -> bytes:
    return f"{{\\rtf1\\ansi\\ansicpg1252{{\\fonttbl{fonts}}}{body}}}".encode("latin-1")


def text_of(body: str, fonts: str = "") -> str:
    return read_rtf(rtf(body, fonts), Budget()).text


@pytest.mark.parametrize(("body", "text"), [
    ("Caf\\'e9 \\u8211? \\uc2\\u8364??5\\par", "Café – €5"),
    ("\\u-10179?\\u-8704?", "😀"),
    ("{\\f1 \\'ca\\'e0\\'ed\\'e0\\'f2}", "Канат"),
    ("{\\f2 \\'93\\'fa\\'96\\'7b}", "日本"),
    ("H{\\sub 2}O and 10{\\super 6} m{\\super 2}", "H2O and 10⁶ m2"),
    ("10{\\up6 -7} M, 2\\up0 0", "10⁻⁷ M, 20"),
    ("seen {\\v hidden} {\\deleted gone}{\\strike old }\\plain new\\{1\\}", "seen new{1}"),
    ("One{\\*\\unknown lost}{\\pict 0102}{\\header Page 1} two\\~three\\-four\\_five", "One two\xa0threefour-five"),
    ("{\\field{\\*\\fldinst HYPERLINK \"x\"}{\\fldrslt the link}}", "the link"),
    ("One.{\\footnote A note.\\par} Two.\\par Three.", "One. Two.\n\nThree.\n\nA note."),
    ("{\\shp{\\*\\shpinst{\\sp{\\sn a}{\\sv b}}{\\shptxt In a box.\\par}}{\\shprslt In a box.}}", "In a box."),
    ("one\\\ntwo\\line three", "one\n\ntwo\nthree"),
    ("before\\bin4 }}{{after", "beforeafter"),
    ("{\\i0\\*\\cs7 Ropes}", "Ropes"),
])  # fmt: skip
def test_control_words(body: str, text: str) -> None:
    fonts = "{\\f1\\fcharset204 A;}{\\f2\\fcharset128 B;}"
    assert " ".join(text_of(body, fonts).split(" ")).replace("  ", " ") == text


def test_headings_are_paragraphs_of_their_styles_or_with_an_outline_level() -> None:
    styles = "{\\stylesheet{\\s1 heading 1;}{\\s2\\outlinelevel1 Part;}{\\s3 Body;}}"
    body = "\\pard\\s1 Ropes\\par\\pard\\s2 Tar\\par\\pard\\s3 Hot.\\par\\pard\\outlinelevel0 End\\par"
    found = read_rtf(rtf(styles + body), Budget())
    assert [(heading.level, heading.label) for heading in found.headings] == [(1, "Ropes"), (2, "Tar"), (1, "End")]
    assert found.text == "Ropes\n\nTar\n\nHot.\n\nEnd"


def test_cells_that_span_rows_or_columns() -> None:
    ends = "\\cellx100\\cellx200\\cellx300"
    head = f"\\trowd\\trhdr{ends}\\intbl Rope\\cell Girth\\cell Load\\cell\\row"
    first = "\\trowd\\clvmgf\\cellx100\\cellx200\\cellx300\\intbl Cable\\cell 9 cm\\cell 4 t\\cell\\row"
    second = "\\trowd\\clvmrg\\cellx100\\cellx200\\cellx300\\intbl\\cell 21 cm\\cell 17 t\\cell\\row"
    third = "\\trowd\\cellx100\\clmgf\\cellx200\\clmrg\\cellx300\\intbl Hawser\\cell unknown\\cell\\cell\\row"
    text = text_of(f"{head}{first}{second}\\pard End\\par")
    assert text == "Rope: Cable; Girth: 9 cm; Load: 4 t\nRope: Cable; Girth: 21 cm; Load: 17 t\n\nEnd"
    assert "\nHawser\tunknown\n" in text_of(f"{head}{first}{third}\\pard End\\par")


def test_groups_without_end_are_refused_and_nested_ones_are_bounded() -> None:
    for body in (b"{\\rtf1 {\\b Ropes", b"{\\rtf1 " + b"{" * 200_000):
        with pytest.raises(DocumentError):
            read_rtf(body, Budget())
    assert read_rtf(b"{\\rtf1 Ropes}" + b"\0" * 10, Budget()).text == "Ropes"  # as some programs pad it


@given(st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf", "Mn", "Zs", "Zl", "Zp", "Co", "Cn")), min_size=1))
@settings(max_examples=60, deadline=None)
def test_every_letter_is_read_as_it_was_written(text: str) -> None:
    units = text.encode("utf-16-le")
    numbers = (int.from_bytes(units[i : i + 2], "little", signed=True) for i in range(0, len(units), 2))
    assert text_of("".join(f"\\u{number}?" for number in numbers)) == text


WORDS = """{ } \\par \\cell \\row \\trowd \\intbl \\pard \\u-9 \\uc0 \\bin9 \\' \\* \\footnote \\cellx5 \\clvmrg
    \\stylesheet \\fonttbl \\f3 \\fcharset1 \\info \\title \\nestcell \\listtext \\sect a \\"""


@given(st.lists(st.sampled_from([f"{word} " for word in WORDS.split()])))
@settings(max_examples=150, deadline=None)
def test_anything_is_read_or_refused(parts: list[str]) -> None:
    with contextlib.suppress(DocumentError):
        read_rtf(rtf("".join(parts)), Budget())


def test_files_under_test_are_those_of_the_sources(tmp_path: Path) -> None:
    """The zip archive and the flat form of one document are read alike."""
    assert load_document(FILES / RULES[2]).text == load_document(FILES / RULES[3]).text
    with zipfile.ZipFile(io.BytesIO((FILES / RULES[2]).read_bytes())) as archive:
        assert archive.read("mimetype") == b"application/vnd.oasis.opendocument.text"
