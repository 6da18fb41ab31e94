"""Workbooks: each sheet's rows with the names of their columns, and values as the workbook shows them."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape, quoteattr

import pytest

from shared_core.documents.chunking import chunk_document
from tests.documents.reading import headings, made_by, read, refuses
from tests.documents.test_office import LAUGHS, OFFICE, PACKAGE, related, zipped

pytest.importorskip("office_oxide")

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
FORMATS = ("General", "hh:mm", "yyyy-mm-dd hh:mm", "[h]:mm", "0.0%", '"€"#,##0.00', "dd/mm/yyyy")
Cell = str | float | tuple[float, str] | None


def sheet(*rows: tuple[Cell, ...]) -> str:
    """The rows of a sheet; a cell is a text, a number, a number with its format, or XML that begins with ``<``."""
    out = []
    for y, row in enumerate(rows, 1):
        cells = []
        for x, value in enumerate(row):
            name, style = f"{chr(65 + x)}{y}", 0
            if isinstance(value, tuple):
                value, shown = value
                style = FORMATS.index(shown)
            if isinstance(value, str) and value.startswith("<"):
                cells.append(f'<c r="{name}">{value}</c>')
            elif isinstance(value, str):
                cells.append(f'<c r="{name}" t="inlineStr"><is><t>{escape(value)}</t></is></c>')
            elif value is not None:
                cells.append(f'<c r="{name}" s="{style}"><v>{value!r}</v></c>')
        out.append(f'<row r="{y}">{"".join(cells)}</row>')
    return f"<sheetData>{''.join(out)}</sheetData>"


def xlsx(sheets: Mapping[str, str], *, hidden: str = "") -> bytes:
    """A workbook of these sheets, by name."""
    numbered = list(enumerate(sheets.items(), 1))
    listed = "".join(
        f'<sheet name="{escape(name)}" sheetId="{i}" r:id="sheet{i}"' + ' state="hidden"' * (name == hidden) + "/>"
        for i, (name, _) in numbered
    )
    formats = "".join(
        f"<numFmt numFmtId='{164 + i}' formatCode={quoteattr(shown)}/>" for i, shown in enumerate(FORMATS)
    )
    styles = "".join(f'<xf numFmtId="{164 + i}" applyNumberFormat="1"/>' for i in range(len(FORMATS)))
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        f"xl/worksheets/sheet{i}.xml": f'<worksheet xmlns="{MAIN}">{rows}</worksheet>' for i, (_, rows) in numbered
    }
    types = "".join(f'<Override PartName="/{name}" ContentType="{kind}.worksheet+xml"/>' for name in parts)
    relations = "".join(
        f'<Relationship Id="sheet{i}" Type="{OFFICE}/worksheet" Target="worksheets/sheet{i}.xml"/>' for i, _ in numbered
    )
    return zipped(
        {
            "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" ContentType='
            f'"application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" '
            f'ContentType="{kind}.sheet.main+xml"/><Override PartName="/xl/styles.xml" '
            f'ContentType="{kind}.styles+xml"/>{types}</Types>',
            "_rels/.rels": related(officeDocument="xl/workbook.xml"),
            "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>{listed}</sheets></workbook>',
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">{relations}'
            f'<Relationship Id="styles" Type="{OFFICE}/styles" Target="styles.xml"/></Relationships>',
            "xl/styles.xml": f'<styleSheet xmlns="{MAIN}"><numFmts>{formats}</numFmts><cellXfs>{styles}</cellXfs>'
            "</styleSheet>",
            **parts,
        }
    )


def text_of(*rows: tuple[Cell, ...]) -> str:
    return read(xlsx({"Sheet1": sheet(*rows)}), "a.xlsx").text


def test_a_workbook_as_programs_write_it() -> None:
    document = made_by("openpyxl_prices.xlsx")
    assert headings(document) == [
        (1, "Price list 2026"), (2, "Harbour Boats Ltd – price list"), (1, "Staff"), (1, "Quarter"), (1, "Notes")
    ]  # fmt: skip
    assert (
        "Article: Kayak Auk; Length (m): 4.25; Price: €899.00; Discount: 7.5%; Available from: 2026-04-15; "
        "Open at: 09:00; In stock: FALSE\n" in document.text
    )
    assert "Region: South; 2024 Units: 7; 2024 Revenue: 1500; 2025 Units: 9; 2025 Revenue: 1700" in document.text
    assert "secret" not in document.text
    assert [problem.message for problem in document.problems] == [
        "sheet 'Price list 2026': 3 formulas have no stored value",
        "1 hidden sheet is not read",
    ]


def test_each_row_is_a_passage_of_its_sheet() -> None:
    names = sheet(("Name", "Role"), ("Ida Berg", "Captain"), ("Tom Hale", "Clerk"))
    passages = chunk_document(read(xlsx({"Crew": names, "Office": names}), "staff.xlsx"))
    assert [p.text for p in passages] == ["Name: Ida Berg; Role: Captain", "Name: Tom Hale; Role: Clerk"] * 2
    assert [p.metadata["sheet"] for p in passages] == ["Crew", "Crew", "Office", "Office"]
    assert [p.metadata["section"] for p in passages] == ["Crew", "Crew", "Office", "Office"]
    assert [p.metadata["row"] for p in passages] == [1, 2, 1, 2]


@pytest.mark.parametrize(("value", "shown"), [
    ((0.3541666666666667, "hh:mm"), "08:30"),
    ((46082.75, "yyyy-mm-dd hh:mm"), "2026-03-01 18:00"),
    ((46082.0, "dd/mm/yyyy"), "2026-03-01"),
    ((1.0625, "[h]:mm"), "25:30"),
    ((0.075, "0.0%"), "7.5%"),
    ((1290.5, '"€"#,##0.00'), "€1,290.50"),
    (0.1 + 0.2, "0.3"),
    (1450.0, "1450"),
    ("<f>B2*2</f><v>84.0</v>", "84"),
])  # fmt: skip
def test_values_are_as_the_workbook_shows_them(value: Cell, shown: str) -> None:
    assert text_of(("Boat", "Value"), ("Teal", value)) == f"Boat: Teal; Value: {shown}"


def test_a_formula_without_a_stored_value_is_reported() -> None:
    document = read(xlsx({"Sheet1": sheet(("Boat", "Total"), ("Teal", "<f>B1*2</f>"))}), "a.xlsx")
    assert document.text == "Boat: Teal"
    (problem,) = document.problems
    assert problem.message == "sheet 'Sheet1': 1 formula has no stored value"


NOTE = "Boats are let from noon to noon, in winter for a week or more."


@pytest.mark.parametrize(("rows", "text"), [
    ([("Prices include VAT.",), (None,), ("Ask at the desk.",)], "Prices include VAT.\n\nAsk at the desk."),
    ([("Boat", "Price"), ("Teal", 12.0), (None,), ("Auk", 9.0), (None,), ("Crew", "Phone"), ("Ida Berg", "55 12 34"),
      (None,), ("Rates hold until spring.",)],  # several tables
     "Boat: Teal; Price: 12\n\nBoat: Auk; Price: 9\n\nCrew: Ida Berg; Phone: 55 12 34\n\nRates hold until spring."),
    ([("Boat", "Price"), ("Teal", 12.0), (NOTE,)], f"Boat: Teal; Price: 12\n\n{NOTE}"),
    ([("Berth", "A place for a boat."), ("Mole", "A wall in the sea.")],  # sentences are no names
     "Berth: A place for a boat.\n\nMole: A wall in the sea."),
    ([("€", 2001.0, 2002.0), (6000.0, 0.1, 0.2)], "€: 6000; 2001: 0.1; 2002: 0.2"),
    ([(None, "Boat", None, "Price"), (None, "Teal", None, 12.0)], "Boat: Teal; Price: 12"),
])  # fmt: skip
def test_tables_and_text_of_a_sheet_are_told_apart(rows: list[tuple[Cell, ...]], text: str) -> None:
    assert text_of(*rows) == text


def test_a_single_sheet_needs_no_name_that_the_program_gave_it() -> None:
    rows = sheet(("Boat", "Price"), ("Teal", 12.0))
    assert headings(read(xlsx({"Tabelle1": rows}), "a.xlsx")) == []
    assert headings(read(xlsx({"Prices": rows}), "a.xlsx")) == [(1, "Prices")]
    assert headings(read(xlsx({"Prices": rows, "Old": rows}, hidden="Old"), "a.xlsx")) == [(1, "Prices")]


def test_bad_workbooks_are_refused() -> None:
    whole = xlsx({"Sheet1": sheet(("Boat", "Price"), ("Teal", 12.0))})
    assert "damaged" in refuses(whole[:300], "a.xlsx").message
    assert ".xlsx" in refuses(b"\xd0\xcf\x11\xe0" + b"\0" * 600, "c.xlsx").hint
    assert "damaged" in refuses(zipped({"other.xml": "<a/>"}), "e.xlsx").message
    assert "no text" in refuses(xlsx({"Sheet1": sheet()}), "f.xlsx").message
    assert "damaged" in refuses(xlsx({"Sheet1": "<broken"}), "g.xlsx").message
    assert "damaged" in refuses(xlsx({"Sheet1": LAUGHS}), "h.xlsx").message
    assert "as .xlsx" in refuses(b"PK", "g.numbers").hint


def test_the_names_of_columns_stand_below_titles() -> None:
    """Of 284 real workbooks, most have a title and the like above their table."""
    document = read(
        xlsx({
            "Fleet": sheet(
                ("Fleet of the yard",), ("Printed by:", "I. Berg"), (None,), ("Boats for hire",),
                ("Boat", "Berth", "Price"), ("Teal", "A4", 12.0), ("Auk", "B1", 9.0),
            )
        }),
        "a.xlsx",
    )  # fmt: skip
    assert document.text == (
        "Fleet\n\nFleet of the yard\n\nPrinted by: I. Berg\n\nBoats for hire\n\n"
        "Boat: Teal; Berth: A4; Price: 12\n\nBoat: Auk; Berth: B1; Price: 9"
    )
    assert headings(document) == [(1, "Fleet"), (2, "Boats for hire")]
    passages = chunk_document(document)
    assert passages[-1].metadata["section"] == "Fleet > Boats for hire"
    assert "Printed by: I. Berg" in passages[0].text


def test_words_above_columns_without_values_are_text() -> None:
    text = text_of(
        (None, "Gas and Condensate", "Run at noon"), ("Report WGT", None, None), ("Period: March", None, None)
    )
    assert all(words in text for words in ("Gas and Condensate", "Run at noon", "Report WGT", "Period: March"))


def test_rows_of_values_are_no_names() -> None:
    text = text_of(("Teal", 12.0), ("Auk", 9.0))
    assert "Teal: Auk" not in text
    assert "Auk: 9" in text


def test_a_name_may_end_in_a_colon_and_has_one() -> None:
    rows = (("Boat", "Berth", "Price per day:"), ("Teal", "A4", 12.0), ("Auk", "B1", 9.0))
    assert text_of(("Boats for hire",), *rows).endswith(
        "Boat: Teal; Berth: A4; Price per day: 12\n\nBoat: Auk; Berth: B1; Price per day: 9"
    )
    assert read("Boat:,Berth:\nTeal,A4\n", "a.csv").text == "Boat: Teal; Berth: A4"
    page = "<table><tr><th>Boat:</th><th>Berth:</th></tr><tr><td>Teal</td><td>A4</td></tr></table>"
    assert read(page, "a.html").text == "Boat: Teal; Berth: A4"


@pytest.mark.parametrize("labels", [("Printed by:", "I. Berg", "Checked by:"), ("Boat:", "Owner:", "Berth:")])
def test_labels_beside_or_above_their_values_are_no_names(labels: tuple[str, ...]) -> None:
    text = text_of(labels, ("Teal", "A4", 12.0), ("Auk", "B1", 9.0))
    assert "\t".join(labels) in text


def test_a_cell_across_columns_names_the_rows_below() -> None:
    rows = sheet(
        ("Sno.", "Name", "Price"), ("Sparklers",), ("1", "Star", 35), ("2", "Comet", 40), ("Pots",), ("3", "Koti", 175)
    )
    merged = rows + '<mergeCells count="2"><mergeCell ref="A2:C2"/><mergeCell ref="A5:C5"/></mergeCells>'
    document = read(xlsx({"Sheet1": merged}), "a.xlsx")
    assert [heading.label for heading in document.headings] == ["Sparklers", "Pots", ""]
    assert "Sno.: 3; Name: Koti; Price: 175" in document.text
    assert "\ue000" not in document.text
    sections = {passage.text: passage.metadata["section"] for passage in chunk_document(document)}
    assert sections["Sno.: 2; Name: Comet; Price: 40"] == "Sparklers"


def test_a_single_cell_that_is_set_like_others_names_nothing() -> None:
    rows = sheet(("Item", "Qty"), ("Clamp",), ("Nail", 35), ("Rope",), ("Lamp", 3))
    assert "Item: Clamp" in read(xlsx({"Sheet1": rows}), "a.xlsx").text
