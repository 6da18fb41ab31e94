"""Tables as statistics, budgets and tariffs print them: names that run up, or stand above groups of columns."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shared_core.citation.sentences import split_sentences
from tests.documents.pdf_files import At, from_streams, grid, stream
from tests.documents.reading import read
from tests.documents.test_pdf_tables import LAMPS, lines_of, placed, text_of


def running(cells: Sequence[At], *, down: bool) -> bytes:
    """Text that runs up the page from x, y, or down."""
    turn = "0 -1 1 0" if down else "0 1 -1 0"
    return "\n".join(f"BT /F1 {size} Tf {turn} {x} {y} Tm ({text}) Tj ET" for x, y, size, text in cells).encode()


@pytest.mark.parametrize("down", [False, True])
def test_names_that_run_up_or_down_name_their_columns(down: bool) -> None:
    xs, ys = (60.0, 160.0, 220.0, 280.0), (740.0, 640.0, 620.0, 600.0, 580.0)
    cells = placed(LAMPS[1:], (65.0, 180.0, 240.0), top=626, step=20)
    first, second = ("Range", "in miles"), ("Oil", "in litres")
    if down:
        names: list[At] = [(x - 12 * i, 735, 10, text) for x, two in ((192.0, first), (252.0, second))
                           for i, text in enumerate(two)]  # fmt: skip
    else:
        names = [(x + 12 * i, 645, 10, text) for x, two in ((186.0, first), (246.0, second))
                 for i, text in enumerate(two)]  # fmt: skip
    lamp: list[At] = [(65, 690, 10, "Lamp")]
    content = stream([*lamp, *cells], grid(xs, ys)) + b"\n" + running(names, down=down)
    found = read(from_streams([content]), "a.pdf").text.split("\n")
    assert found[0] == "Lamp: Norrhaven; Range in miles: 14; Oil in litres: 1,140"
    assert found[-1] == "Lamp: Saltmere; Range in miles: 11; Oil in litres: 505"


def test_labels_before_the_rules_name_their_rows() -> None:
    xs, ys = (160.0, 220.0, 280.0), (740.0, 720.0, 700.0, 680.0, 660.0)
    cells = placed(
        [("Miles", "Litres"), ("14", "1,140"), ("9", "620"), ("11", "505")], (180.0, 240.0), top=726, step=20
    )
    labels = placed([("Norrhaven",), ("Ostrand",), ("Saltmere",)], (60.0,), top=706, step=20)
    assert lines_of([*cells, *labels], grid(xs, ys)) == [
        "Norrhaven; Miles: 14; Litres: 1,140",
        "Ostrand; Miles: 9; Litres: 620",
        "Saltmere; Miles: 11; Litres: 505",
    ]


def test_a_line_of_the_columns_numbers_is_neither_name_nor_value() -> None:
    rows = [
        ("Lamp", "Miles", "Litres"),
        ("(1)", "(2)", "(3) = 2 x 80"),
        ("Norrhaven", "14", "1,120"),
        ("Ostrand", "9", "720"),
        ("Saltmere", "11", "880"),
    ]
    assert text_of(placed(rows)).split("\n")[0] == "Lamp: Norrhaven; Miles: 14; Litres: 1,120"


GROUPED = [
    ("Lamp", "No.", "Miles", "Litres", "Miles", "Litres", "Miles", "Page"),
    ("Norrhaven", "1", "14", "1,140", "15", "1,200", "29", "4-5"),
    ("Ostrand", "2", "9", "620", "9", "640", "18", "6-7"),
    ("Saltmere", "3", "11", "505", "10", "500", "21", "8-9"),
]
GROUPED_XS = (40.0, 120.0, 160.0, 220.0, 300.0, 360.0, 440.0, 500.0)
GROUP_NAMES: list[At] = [(190.0, 715, 10, "1998"), (330.0, 715, 10, "2004"), (440.0, 715, 10, "Both")]


def test_columns_with_names_of_their_own_stand_beside_groups() -> None:
    assert text_of([*GROUP_NAMES, *placed(GROUPED, GROUPED_XS)]).split("\n")[0] == (
        "Lamp: Norrhaven; No.: 1; 1998 Miles: 14; 1998 Litres: 1,140; 2004 Miles: 15; 2004 Litres: 1,200; "
        "Both Miles: 29; Page: 4-5"
    )


def test_what_stands_above_the_labels_and_fits_no_column_is_a_caption() -> None:
    caption: list[At] = [(40.0, 730, 10, "Lamps 1998-2004"), (420.0, 730, 10, "(in thousands of crowns)")]
    found = text_of([*caption, *GROUP_NAMES, *placed(GROUPED, GROUPED_XS)]).split("\n")
    assert found[0] == "Lamps 1998-2004\t(in thousands of crowns)"
    assert found[1].startswith("Lamp: Norrhaven; No.: 1; 1998 Miles: 14; ")


def test_the_fields_of_a_form_above_a_table_name_none_of_its_columns() -> None:
    form: list[At] = [(60.0, 715, 10, "Keeper: Ida Holm"), (220.0, 715, 10, "Mole: old")]
    found = text_of([*form, *placed([("Lamp", "Miles", "Litres"), *LAMPS[1:]])]).split("\n")
    assert found[:2] == ["Keeper: Ida Holm\tMole: old", "Lamp: Norrhaven; Miles: 14; Litres: 1,140"]


def test_lines_of_names_that_are_alike_are_those_of_their_columns() -> None:
    xs = (60.0, 160.0, 240.0, 320.0, 400.0)
    rows = [
        ("", "", "Standing", "", "Standing"),
        ("", "Rate", "", "Rate", ""),
        ("", "", "charge", "", "charge"),
        ("Region", "p/kWh", "p/day", "p/kWh", "p/day"),
        ("North", "26.19", "57.86", "7.89", "33.60"),
        ("South", "25.37", "58.40", "7.84", "33.60"),
        ("West", "25.25", "54.69", "8.17", "33.60"),
    ]
    groups: list[At] = [(195.0, 712, 10, "Light"), (355.0, 712, 10, "Gas")]
    assert text_of([*groups, *placed(rows, xs, top=700)]).split("\n")[0] == (
        "Region: North; Light Rate p/kWh: 26.19; Light Standing charge p/day: 57.86; Gas Rate p/kWh: 7.89; "
        "Gas Standing charge p/day: 33.60"
    )


def test_numbers_before_labels_belong_to_them() -> None:
    rows = [
        ("Purpose", "", "Old", "New", "Both"),
        ("HARBOUR AND COAST", "", "31", "38", "69"),
        ("1.", "Lamps", "14", "20", "34"),
        ("2.", "Boats", "9", "11", "20"),
        ("3.", "Piers", "8", "7", "15"),
    ]
    found = text_of(placed(rows, (60.0, 85.0, 240.0, 320.0, 400.0), top=685)).split("\n")
    assert found[1] == "Purpose: 1. Lamps; Old: 14; New: 20; Both: 34"


def test_names_beyond_a_rule_may_be_far_above_the_values() -> None:
    heads = placed([("Lamp", "Miles", "Litres")], top=720)
    values = placed(LAMPS[1:], top=680)
    with_rule = lines_of([*heads, *values], [(60, 710, 500, 710)])
    assert with_rule[0] == "Lamp: Norrhaven; Miles: 14; Litres: 1,140"
    assert "Miles: 14" not in text_of([*heads, *values])


def test_cells_stacked_beside_one_label_are_rows_of_it() -> None:
    xs, ys = (60.0, 140.0, 240.0, 320.0, 400.0), (740.0, 720.0, 660.0)
    heads = placed([("Line", "Route", "Guests", "Share")], (65.0, 145.0, 250.0, 330.0), top=726)
    label: list[At] = [(65, 690, 10, "Ferries")]
    rows = [("Norrhaven", "157", "75.0"), ("Ostrand", "42", "62.0"), ("Saltmere", "97", "58.9")]
    cells = placed(rows, (145.0, 250.0, 330.0), top=706, step=16)
    assert lines_of([*heads, *label, *cells], grid(xs, ys))[2] == (
        "Line: Ferries; Route: Saltmere; Guests: 97; Share: 58.9"
    )


BOTH_ENDS = [
    ("", "1998", "2004", "Both", ""),
    ("Norrhaven", "14.1", "15.5", "29.6", "Norrhaven"),
    ("Ostrand", "9.2", "9.3", "18.5", "Ostrand"),
    ("Saltmere", "11.4", "10.2", "21.6", "Saltmere"),
]
BOTH_XS = (60.0, 180.0, 260.0, 340.0, 420.0)


def test_labels_repeated_at_the_end_of_rows_are_written_once() -> None:
    assert text_of(placed(BOTH_ENDS, BOTH_XS)).split("\n")[0] == "Norrhaven; 1998: 14.1; 2004: 15.5; Both: 29.6"


def test_a_row_with_nothing_but_the_label_at_its_end_is_kept() -> None:
    text = text_of(placed([BOTH_ENDS[0], ("", "", "", "", "Lamps"), *BOTH_ENDS[1:]], BOTH_XS))
    assert all(word in text for word in ("Lamps", "Norrhaven", "14.1", "21.6"))


def test_a_line_that_goes_back_to_the_left_is_another_one() -> None:
    cells: list[At] = [(420, 700, 9, "Both years"), (60, 697.5, 9, "Lamp"), (200, 697.5, 9, "Miles")]
    assert "Both years Lamp" not in text_of(cells)


def test_long_dots_to_a_value_are_short() -> None:
    assert text_of([(60, 700, 10, "Lamps lit " + "." * 60 + " 14")]) == "Lamps lit ... 14"


def test_lines_of_prose_with_room_between_them_are_one_paragraph() -> None:
    prose = [
        "It also confirms important differences between the harbours of the coast. On the whole, then,",
        "ranking of the harbours is as described before, and the most lamps are found in Norrhaven and",
        "Ostrand, the fewest in Saltmere.",
    ]
    close = [
        (60.0, 300.0 - 12 * i, 10.0, f"Lamp {i}: lit every night at dusk, and put out at dawn by its keeper.")
        for i in range(9)
    ]
    spaced = [(60.0, 700.0 - 21 * i, 10.0, line) for i, line in enumerate(prose)]
    assert "\n".join(prose) in text_of([*spaced, *close])


def test_a_row_is_one_sentence_whatever_full_stops_its_cells_have() -> None:
    rows = [
        "Sl. No.: 26; District: Sambalpur; Rice: 2.59; Paddy: 3.87",
        "Sl. No.: 27; District: St. Ives; Rice: 7.31; Paddy: 10.91",
        "Sl. No.: 28; District: Deogarh; Rice: 0.72; Paddy: 1.07",
    ]
    text = "\n".join(rows)
    assert [text[a:b] for a, b in split_sentences(text)] == rows


def test_sentences_of_a_narrow_column_are_whole() -> None:
    text = (
        "The harbour board proposes to amend\nthe order on lamps of the old mole (LO)\n2018-23, which applies to all"
        " the\nNorrhaven lamps and the lamps of the\nOstrand mole. Since that order was made\nthe board has found that"
        " oil of\nSaltmere is needed on each of these\nlamps. The board must receive comments\non this by September 21,"
        " 2020."
    )
    found = [" ".join(text[a:b].split()) for a, b in split_sentences(text)]
    assert found[0].endswith("and the lamps of the Ostrand mole.")
    assert found[-1] == "The board must receive comments on this by September 21, 2020."
