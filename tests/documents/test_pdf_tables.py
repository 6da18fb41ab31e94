"""Tables of PDFs: a row has the names of its columns, wherever its cells stand in the file; nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.documents.chunking import chunk_document
from tests.documents.pdf_files import At, Rule, from_streams, grid, pdf, stream
from tests.documents.reading import headings, made_by, read

LAMPS = [
    ("Lamp", "Range in miles", "Oil in litres"),
    ("Norrhaven", "14", "1,140"),
    ("Ostrand", "9", "620"),
    ("Saltmere", "11", "505"),
]
NAMED = [
    "Lamp: Norrhaven; Range in miles: 14; Oil in litres: 1,140",
    "Lamp: Ostrand; Range in miles: 9; Oil in litres: 620",
    "Lamp: Saltmere; Range in miles: 11; Oil in litres: 505",
]
XS = (60.0, 220.0, 380.0)


def placed(
    rows: Sequence[Sequence[str]], xs: Sequence[float] = XS, *, top: float = 700, size: float = 10, step: float = 15
) -> list[At]:
    """The cells of rows, each at the left of its column; empty ones are not written."""
    return [
        (x, top - step * i, size, cell) for i, row in enumerate(rows) for x, cell in zip(xs, row, strict=True) if cell
    ]


def text_of(*pages: Sequence[At]) -> str:
    return read(pdf(pages), "a.pdf").text


def lines_of(cells: Sequence[At], rules: Sequence[Rule]) -> list[str]:
    """The lines that are read of a page of text and rules."""
    return read(from_streams([stream(cells, rules)]), "a.pdf").text.split("\n")


# --- without rules -------------------------------------------------------------------------------------------------


def test_names_above_values_are_written_into_each_row() -> None:
    before: At = (60, 740, 10, "The lamps of the coast, as of March:")
    after: At = (60, 620, 10, "Saltmere was closed in May.")
    assert text_of([before, *placed(LAMPS), after]).split("\n\n") == [before[3], "\n".join(NAMED), after[3]]


CODED = [
    ("LN004", "Norrhaven lamp", "ea. 1"),
    ("LS011", "Ostrand", "3 ea"),
    ("LN012", "Saltmere", "1 ea"),
    ("LS013", "Vessen", "2 ea"),
    ("LN020", "Tarn", "1 ea"),
]


def test_a_row_that_begins_with_a_code_like_those_below_it_names_nothing() -> None:
    assert text_of(placed(CODED)) == "\n".join("\t".join(row) for row in CODED)
    named = [("Lamp no.", "Place", "Boats"), *CODED]
    assert text_of(placed(named)).split("\n")[1] == "Lamp no.: LS011; Place: Ostrand; Boats: 3 ea"


def test_a_name_with_a_number_above_other_values_names_them() -> None:
    rows = [("Lamp", "Q1", "Q2"), *((*row[:1], str(i), str(i + 2)) for i, row in enumerate(CODED, 3))]
    assert text_of(placed(rows)).split("\n")[0] == "Lamp: LN004; Q1: 3; Q2: 5"
    codes = [("Lamp", "A1", "B12"), *((f"Lamp {i}", f"{i} t", f"{i + 4} t") for i in range(1, 6))]
    assert text_of(placed(codes)).split("\n")[1] == "Lamp: Lamp 2; A1: 2 t; B12: 6 t"


def test_the_order_in_the_file_does_not_matter() -> None:
    cells = placed(LAMPS)
    by_column = [cell for x in XS for cell in cells if cell[0] == x]
    assert text_of(by_column).split("\n") == NAMED
    assert text_of(cells[::-1]).split("\n") == NAMED


def test_an_empty_cell_takes_no_value_from_its_neighbours() -> None:
    rows = [*LAMPS[:2], ("Ostrand", "", "620"), LAMPS[3]]
    assert text_of(placed(rows)).split("\n")[1] == "Lamp: Ostrand; Oil in litres: 620"


def test_values_as_close_as_words_are_cells_of_their_columns() -> None:
    xs = (60.0, 130.0, 160.0)
    rows = [("Lamp", "Miles", "Oil"), ("Norrhaven", "1,404", "1,140"), ("Ostrand", "9,106", "6,200")]
    assert text_of(placed(rows, xs)).split("\n")[1] == "Lamp: Ostrand; Miles: 9,106; Oil: 6,200"


def test_labels_on_two_lines_are_one_row() -> None:
    cells = [*placed(LAMPS[:2]), (60.0, 665.0, 10.0, "Lamp on the old"), (60.0, 653.0, 10.0, "mole of Ostrand")]
    cells += [(220.0, 665.0, 10.0, "9"), (380.0, 665.0, 10.0, "620"), *placed(LAMPS[3:], top=630)]
    assert "Lamp: Lamp on the old mole of Ostrand; Range in miles: 9; Oil in litres: 620" in text_of(cells).split("\n")


def test_a_name_above_several_columns_is_part_of_each_ones_name() -> None:
    xs = (60.0, 200.0, 260.0, 360.0, 420.0)
    rows = [
        ("Lamp", "Miles", "Litres", "Miles", "Litres"),
        ("Norrhaven", "14", "1,140", "15", "1,200"),
        ("Ostrand", "9", "620", "9", "640"),
    ]
    years: list[At] = [(231.0, 715, 10, "1998"), (391.0, 715, 10, "2004")]
    assert text_of([*years, *placed(rows, xs)]).split("\n")[0] == (
        "Lamp: Norrhaven; 1998 Miles: 14; 1998 Litres: 1,140; 2004 Miles: 15; 2004 Litres: 1,200"
    )


def test_a_name_that_may_stand_for_one_column_or_for_three_names_none() -> None:
    xs = (60.0, 140.0, 210.0, 280.0, 350.0, 420.0, 490.0)
    rows = [
        ("Lamp", "Miles", "Litres", "Crew", "Boats", "Oars", "Sails"),
        ("Norrhaven", "14", "1,140", "3", "1", "4", "1"),
        ("Ostrand", "9", "620", "2", "2", "8", "2"),
    ]
    text = text_of([(208.0, 715, 10, "Spring"), (420.0, 715, 10, "Autumn"), *placed(rows, xs)])
    assert "Norrhaven\t14\t1,140\t3\t1\t4\t1" in text
    assert ":" not in text


def test_a_row_in_words_below_the_names_is_not_taken_for_names() -> None:
    rows = [LAMPS[0], ("Norrhaven", "not measured", "none"), *LAMPS[2:]]
    assert text_of(placed(rows)).split("\n")[0] == "Lamp: Norrhaven; Range in miles: not measured; Oil in litres: none"


@pytest.mark.parametrize("year", ["2011", "31/12/2011"])
def test_years_and_dates_name_columns_of_other_values(year: str) -> None:
    rows = [("Lamp", year, year.replace("2011", "2012")), *LAMPS[1:]]
    assert text_of(placed(rows)).split("\n")[0].startswith(f"Lamp: Norrhaven; {year}: 14; ")


def test_years_below_a_name_are_values() -> None:
    rows = [
        ("Lamp", "Built", "Closed"),
        ("Norrhaven", "1804", "1922"),
        ("Ostrand", "1811", "-"),
        ("Saltmere", "1901", "1923"),
    ]
    assert text_of(placed(rows)).split("\n")[0] == "Lamp: Norrhaven; Built: 1804; Closed: 1922"


def test_leaders_from_a_label_to_its_value_are_left_out() -> None:
    rows = [(f"{lamp} . . . . . . ." if i else lamp, *more) for i, (lamp, *more) in enumerate(LAMPS)]
    assert text_of(placed(rows)).split("\n") == NAMED


def test_running_text_beside_a_table_stays_apart_from_it() -> None:
    prose = [
        "The keepers of the coast wrote down",
        "each night how far their lamps were",
        "seen, and by whom, and the oil used.",
    ]
    cells = [(400.0, 700 - 12 * i, 10.0, line) for i, line in enumerate(prose)]
    text = text_of([*placed(LAMPS, (60.0, 160.0, 260.0)), *cells])
    assert "\n".join(NAMED) in text
    assert "\n".join(prose) in text


def test_a_list_of_labels_and_values_without_names_stays_as_it_is() -> None:
    rows = [("Height", "14 m"), ("Built", "1804"), ("Keepers", "3")]
    assert text_of(placed(rows, (60.0, 220.0))) == "Height\t14 m\nBuilt\t1804\nKeepers\t3"


# --- with rules ----------------------------------------------------------------------------------------------------


def test_sentences_in_cells_with_rules_are_whole() -> None:
    cells: list[At] = [
        (64, 686, 10, "Signal"), (204, 686, 10, "Meaning"), (464, 686, 10, "Hours"),
        (64, 660, 10, "Black ball"), (204, 660, 10, "The bar is closed and no boat"), (464, 660, 10, "12"),
        (204, 648, 10, "may leave the inner harbour."),
        (64, 625, 10, "White cone"), (204, 625, 10, "Pilots are not at hand until the"), (464, 625, 10, "6"),
        (204, 613, 10, "wind has turned to the west."),
    ]  # fmt: skip
    assert lines_of(cells, grid((60, 200, 460, 540), (700, 675, 640, 605))) == [
        "Signal: Black ball; Meaning: The bar is closed and no boat may leave the inner harbour.; Hours: 12",
        "Signal: White cone; Meaning: Pilots are not at hand until the wind has turned to the west.; Hours: 6",
    ]


def test_a_rule_parts_cells_that_are_as_close_as_words() -> None:
    cells = placed([("Lamp", "Oil"), ("Skerry 12", ""), ("Sound 9", "")], (64.0, 114.0), top=686, step=20)
    rules = grid((60, 94.3, 140), (700, 680, 660, 640))
    assert lines_of(cells, rules) == ["Lamp: Skerry; Oil: 12", "Lamp: Sound; Oil: 9"]


def test_rows_without_rules_between_them_are_told_by_their_values() -> None:
    cells = placed(LAMPS, (64.0, 224.0, 384.0), top=686)
    assert lines_of(cells, grid((60, 220, 380, 540), (700, 680, 630))) == NAMED


def test_a_cell_that_spans_rows_is_written_in_each() -> None:
    rows = [("Coast", *LAMPS[0]), ("North", *LAMPS[1]), ("", *LAMPS[2]), ("South", *LAMPS[3])]
    xs, ys = (60.0, 140.0, 260.0, 400.0, 540.0), (700.0, 680.0, 660.0, 640.0, 620.0)
    rules = [rule for rule in grid(xs, ys) if rule[1] != 660 or rule[3] != 660] + [(140.0, 660.0, 540.0, 660.0)]
    cells = placed(rows, [x + 4 for x in xs[:-1]], top=686, step=20)
    assert lines_of(cells, rules) == [
        f"Coast: {coast}; {row}" for coast, row in zip(("North", "North", "South"), NAMED, strict=True)
    ]


def test_a_title_across_a_table_and_a_note_below_stay_text() -> None:
    xs = (60.0, 220.0, 380.0, 540.0)
    cells = [
        (64.0, 706.0, 10.0, "Lamps of the northern coast"),
        *placed(LAMPS, (64.0, 224.0, 384.0), top=686, step=20),
        (64.0, 606.0, 10.0, "Measured in March by the keepers"),
    ]
    rules = grid(xs, (720, 700, 680, 660, 640, 620, 600))
    rules = [rule for rule in rules if rule[0] != rule[2] or rule[0] in (60, 540)]
    rules += [(x, 620, x, 700) for x in xs[1:3]]
    text = "\n".join(lines_of(cells, rules))
    assert text.split("\n\n") == ["Lamps of the northern coast", "\n".join(NAMED), "Measured in March by the keepers"]


def test_boxes_around_running_text_are_no_table() -> None:
    cells: list[At] = [
        (64 + 240 * j, 686 - 12 * i, 10, f"word {j} {i} of a long column of text") for j in (0, 1) for i in range(30)
    ]
    assert not any("; " in line for line in lines_of(cells, grid((60, 300, 540), (700, 500, 320))))


def test_a_page_with_thousands_of_lines_is_read_without_them() -> None:
    hatched = [(x / 10, 100.0, x / 10, 90.0) for x in range(600, 6000)] * 4
    assert lines_of(placed(LAMPS), hatched) == NAMED


# --- on several pages ----------------------------------------------------------------------------------------------


def test_a_table_that_goes_on_on_the_next_page_keeps_its_names() -> None:
    more = [("Kelp Point", "7", "301"), ("Hook", "8", "299"), ("Ness", "12", "710")]
    assert text_of(placed(LAMPS), placed(more)).split("\n")[-1] == "Lamp: Ness; Range in miles: 12; Oil in litres: 710"


def test_another_table_on_the_next_page_does_not_take_them() -> None:
    other = placed([("Kelp Point", "7", "301"), ("Hook", "8", "299"), ("Ness", "12", "710")], (60.0, 300.0, 480.0))
    assert "Lamp: Ness" not in text_of(placed(LAMPS), other)


def test_a_table_of_words_does_not_take_the_names_of_one_above_or_before_it() -> None:
    crews = [("Boat", "Crew", "Berth"), ("Ida", "Holm and Falk", "inner quay"), ("Ness", "Berg", "mole")]
    ruled = grid((60, 220, 380, 540), (700, 680, 660, 640, 620)) + grid((60, 220, 380, 540), (560, 540, 520, 500))
    cells = placed(LAMPS, (64.0, 224.0, 384.0), top=686, step=20)
    below = placed(crews, (64.0, 224.0, 384.0), top=546, step=20)
    assert not any("Lamp: Boat" in line for line in lines_of([*cells, *below], ruled))
    pages = [stream(cells, ruled[:9]), stream(below, ruled[9:])]
    assert "Lamp: Boat" not in read(from_streams(pages), "a.pdf").text


def test_tables_that_are_alike_on_each_page_are_not_running_heads() -> None:
    pages = [
        [*placed([LAMPS[0], ("Norrhaven", str(n), f"1,14{n}"), ("Ostrand", "9", f"62{n}")]),
         (60.0, 500.0, 10.0, f"Report of night {n}.")]
        for n in range(1, 6)
    ]  # fmt: skip
    assert text_of(*pages).count("Lamp: Norrhaven;") == 5


@pytest.mark.parametrize("turn", [90, 270])
def test_a_table_on_a_turned_page(turn: int) -> None:
    """The page is on its side in the file, so that its text is upright when it is turned."""
    written = [
        f"BT /F1 {size} Tf 0 1 -1 0 {600 - y} {x} Tm ({text}) Tj ET"
        if turn == 90
        else f"BT /F1 {size} Tf 0 -1 1 0 {y} {800 - x} Tm ({text}) Tj ET"
        for x, y, size, text in placed(LAMPS, top=500)
    ]
    assert read(from_streams(["\n".join(written).encode()], rotate=turn), "a.pdf").text.split("\n") == NAMED


def test_rules_are_turned_with_the_page() -> None:
    cells = placed([("Lamp", "Oil"), ("Skerry 12", ""), ("Sound 9", "")], (64.0, 114.0), top=486, step=20)
    written = [f"BT /F1 {size} Tf 0 1 -1 0 {600 - y} {x} Tm ({text}) Tj ET" for x, y, size, text in cells]
    upright = grid((60, 94.3, 140), (500, 480, 460, 440))
    drawn = [f"{600 - y0} {x0} m {600 - y1} {x1} l S" for x0, y0, x1, y1 in upright]
    text = read(from_streams(["\n".join(drawn + written).encode()], rotate=90), "a.pdf").text
    assert text.split("\n") == ["Lamp: Skerry; Oil: 12", "Lamp: Sound; Oil: 9"]


def test_tables_of_other_programs() -> None:
    assert "Year: 1976; Hives: 34; Honey in kg: 1,140" in made_by("chromium_handbook.pdf").text
    assert "Place: Entrance; March: 6.1 m; June: 5.6 m" in made_by("libreoffice_minutes.pdf").text
    assert "Year: 1889; Hours of fog: 412; Blasts: 32,960" in made_by("xelatex_report.pdf").text


def test_rows_are_sentences_of_their_section() -> None:
    document = read(
        pdf([[(60, 740, 16, "The lamps"), (60, 720, 10, "They are lit at dusk."), *placed(LAMPS)]]), "a.pdf"
    )
    assert headings(document) == [(1, "The lamps")]
    (passage,) = chunk_document(document)
    assert passage.text.endswith("\n".join(NAMED))


def test_a_caption_heads_the_rows_below_it_and_nothing_else() -> None:
    caption: At = (60, 752, 10, "Table 4: Lamps of the northern coast")
    units: At = (60, 722, 10, "(as of March)")
    after: At = (60, 620, 10, "Saltmere was closed in May.")
    document = read(pdf([[caption, units, *placed(LAMPS), after]]), "a.pdf")
    sections = {passage.text: passage.metadata.get("section") for passage in chunk_document(document)}
    assert [section for text, section in sections.items() if NAMED[0] in text] == [caption[3]]
    assert sections[after[3]] is None


@pytest.mark.parametrize("above", ["The lamps burn rapeseed oil.", "which are lit at dusk"])
def test_a_sentence_above_a_table_is_no_caption(above: str) -> None:
    assert not read(pdf([[(60, 740, 10, above), *placed(LAMPS)]]), "a.pdf").headings


def test_a_label_heads_the_rows_below_it() -> None:
    rows = [
        LAMPS[0],
        ("North", "", ""),
        *LAMPS[1:],
        ("Kelp Point", "8", "299"),
        ("South", "", ""),
        *LAMPS[1:],
        *LAMPS[1:],
    ]
    document = read(pdf([placed(rows)]), "a.pdf")
    sections = {passage.metadata["section"]: passage.text for passage in chunk_document(document)}
    assert list(sections) == ["North", "South"]
    assert NAMED[0] in sections["North"]
    assert NAMED[0] in sections["South"]


def test_rows_without_values_are_no_labels() -> None:
    rows = [LAMPS[0], ("Hook", "", ""), LAMPS[1], ("Ness", "", ""), *LAMPS[2:]]
    assert not read(pdf([placed(rows)]), "a.pdf").headings


def test_the_name_of_a_column_without_values_is_not_lost() -> None:
    rows = [(*LAMPS[0], "Remarks"), *((*row, "") for row in LAMPS[1:])]
    text = text_of(placed(rows, (*XS, 500.0)))
    assert "Remarks" in text
    assert NAMED[0] in text


# --- nothing is lost -----------------------------------------------------------------------------------------------

WORD = st.text("abcdefghij", min_size=1, max_size=5)
CELL = st.one_of(
    st.just(""), WORD, st.integers(0, 99_999).map(str), st.lists(WORD, min_size=2, max_size=3).map(" ".join)
)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(2, 5).flatmap(lambda n: st.lists(st.lists(CELL, min_size=n, max_size=n), min_size=2, max_size=8)),
    ruled=st.booleans(),
)
def test_no_word_of_a_table_is_lost(rows: list[list[str]], ruled: bool) -> None:
    """Whatever is taken for names: each word is in the text, those of a body's cell together, in its order."""
    if not any(map(any, rows)):
        return
    xs = [60.0 + 100 * i for i in range(len(rows[0]) + 1)]
    ys = [720.0 - 20 * i for i in range(len(rows) + 1)]
    cells = placed(rows, [x + 4 for x in xs[:-1]], top=706, step=20)
    text = "\n".join(lines_of(cells, grid(xs, ys) if ruled else []))
    for row in rows:
        for cell in row:
            assert cell in text or all(word in text for word in cell.split())
    for cell in filter(None, rows[-1]):
        assert cell in text
