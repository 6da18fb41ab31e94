"""Papers: letters that are pictures, titles among other large lines, formulas, stamps."""

from __future__ import annotations

import re

import pytest

from tests.documents.pdf_files import At, drawn, from_streams, lines, pdf, stream
from tests.documents.reading import headings, read, refuses

BODY = [
    "The importance of a page depends on the readers interests and",
    "their knowledge. This paper describes a method for rating pages",
    "mechanically and effectively.",
]


def below(texts: list[str], *, top: float) -> list[At]:
    return lines(texts, top=top, size=10)


def test_letters_that_are_pictures_are_read_in_words_lines_and_sizes() -> None:
    page = [(60.0, 700.0, 17.0, "Ranking pages"), *below(BODY, top=640), (60.0, 580.0, 14.0, "1 Related work")]
    page += below(["Others have counted citations of papers for a long time."], top=560)
    document = read(drawn([page], kerned="pb"), "a.pdf")
    assert document.title == "Ranking pages"
    assert headings(document) == [(1, "Ranking pages"), (2, "1 Related work")]
    assert "\n".join(BODY) in document.text
    assert "\t" not in document.text


@pytest.mark.parametrize("codes", ["\x0b\x0c\r\x0e\x0f", "\x1b\x1c\x1d\x1e\x1f"])
def test_ligatures_of_tex_are_letters(codes: str) -> None:
    ff, fi, fl, ffi, ffl = codes
    written = f"We de{fi}ne e{ffi}cient {fi}lters, a di{ff}erent {fl}ow and ba{ffl}es, and {fi}nd them."
    text = read(drawn([below([written], top=700)]), "a.pdf").text
    assert text == "We define efficient filters, a different flow and baffles, and find them."


def test_other_control_characters_are_no_ligatures() -> None:
    text = read(drawn([below(["Fun\x0dtional rea\x0dtive s\x0dheme pra\x0dti\x0de"], top=700)]), "a.pdf").text
    assert "fl" not in text


@pytest.mark.parametrize("first", [1, 10, 20, 26, 29])
def test_shapes_counted_from_the_first_are_no_text(first: int) -> None:
    """Old converters number a font's shapes as they come, so that letters say nothing."""
    said = [line.lower() for line in BODY] * 6
    codes = {ord(letter): chr(number) for number, letter in enumerate(dict.fromkeys("".join(said)), first)}
    error = refuses(drawn([below([line.translate(codes) for line in said], top=700)] * 2), "a.pdf")
    assert "no table of characters" in error.message
    assert "ocrmypdf" in (error.hint or "")


def test_a_page_of_formulas_is_read() -> None:
    formulas = [f"{chr(16 + i % 3)} X_{i} = \x0c (p_{i} q) {chr(17)} n u v w x" for i in range(30)]
    document = read(pdf([below(BODY * 4, top=700), below(BODY * 4, top=700), below(formulas, top=700)]), "a.pdf")
    assert not document.problems
    assert "X_29" in document.text


def test_a_stamp_along_the_margin_is_neither_title_nor_heading() -> None:
    stamp = b"BT /F1 20 Tf 0 1 -1 0 30 200 Tm (arXiv:2301.00001v1 [cs.DS] 1 Jan 2023) Tj ET "
    text = stream([(60.0, 700.0, 16.0, "On squared squares"), *below(BODY, top=650)])
    document = read(from_streams([stamp + text], title="arXiv:2301.00001v1  [cs.DS]  1 Jan 2023"), "a.pdf")
    assert document.title == "On squared squares"
    assert headings(document) == [(1, "On squared squares")]
    assert document.text.endswith("arXiv:2301.00001v1 [cs.DS] 1 Jan 2023")


@pytest.mark.parametrize(
    ("given", "title"),
    [
        ("", "Ranking pages by their links"),
        ("template for conference proceedings", "Ranking pages by their links"),
        ("Ranking_final_2", "Ranking pages by their links"),
        ("https://example.org/papers/ranking.html", "Ranking pages by their links"),
        ("doi:10.1016/j.tcs.2003.05.002", "Ranking pages by their links"),
        ("Ranking Pages by their <i>Links</i>", "Ranking Pages by their Links"),
        ("Ranking pages by links", "Ranking pages by links"),
    ],
)
def test_a_title_is_not_that_of_what_the_file_was_made_from(given: str, title: str) -> None:
    page = [(60.0, 720.0, 18.0, "Ranking pages"), (60.0, 698.0, 18.0, "by their links"), *below(BODY, top=650)]
    assert read(pdf([page], title=given), "a.pdf").title == title


def test_names_below_the_title_and_formulas_are_no_headings() -> None:
    page = [
        (60.0, 740.0, 18.0, "Ranking pages"),
        (60.0, 710.0, 13.0, "Ada Byron"),
        (60.0, 694.0, 10.0, "Institute of Numbers"),
        (60.0, 678.0, 13.0, "Bert Cole"),
        (60.0, 662.0, 10.0, "bert@example.org"),
        (60.0, 630.0, 13.0, "Abstract"),
        *below(BODY, top=612),
        (60.0, 560.0, 13.0, "1 Model"),
        *below(BODY, top=542),
        (200.0, 490.0, 15.0, "N ="),
        (200.0, 465.0, 15.0, "RQ MBits ="),
        *below(BODY, top=440),
    ]
    assert headings(read(pdf([page]), "a.pdf")) == [(1, "Ranking pages"), (2, "Abstract"), (2, "1 Model")]


def test_headings_of_a_leaflet_stay() -> None:
    page = [(60.0, 740.0, 18.0, "Lido of Vessen")]
    for i, (label, told) in enumerate((("Opening hours", "Daily from 9 to 17"), ("Prices", "Adults 5, children 2"))):
        page += [(60.0, 700.0 - 60 * i, 13.0, label), (60.0, 680.0 - 60 * i, 10.0, told)]
    page += below(["We look forward to seeing you at our pool in summer."], top=540)
    assert headings(read(pdf([page]), "a.pdf")) == [(1, "Lido of Vessen"), (2, "Opening hours"), (2, "Prices")]


def test_a_heading_below_the_title_of_a_rule_book_stays() -> None:
    page = [(60.0, 740.0, 18.0, "Travel policy"), (60.0, 710.0, 13.0, "Booking"), *below(BODY, top=690)]
    assert headings(read(pdf([page]), "a.pdf")) == [(1, "Travel policy"), (2, "Booking")]


WIDTHS = {
    **dict.fromkeys("ijl", 0.222), **dict.fromkeys(" tf", 0.278), **dict.fromkeys("r()", 0.333),
    **dict.fromkeys("ckszy", 0.5), **dict.fromkeys("wCHNRU", 0.722), "m": 0.833,
    **dict.fromkeys("GO", 0.778), **dict.fromkeys("AES", 0.667), **dict.fromkeys("FT", 0.611),
}  # fmt: skip
"""Of Helvetica's letters, in font sizes, where it is not 0.556."""


def raised(*pieces: tuple[str, float, float]) -> bytes:
    """A line of pieces, each a text with its font size and how far it is above the base line."""
    x, parts = 60.0, []
    for text, size, up in pieces:
        parts.append(
            b"BT /F1 %.1f Tf 1 0 0 1 %.2f %.2f Tm (%s) Tj ET"
            % (size, x, 700 + up, re.sub(r"([()])", r"\\\1", text).encode())
        )
        x += sum(WIDTHS.get(c, 0.556) for c in text) * size
    return b"\n".join(parts)


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([("in each of the 2", 10, 0), ("n", 7, 4.5), (" states of the system", 10, 0)], "2^n states"),
        ([("the queue needs O(n", 10, 0), ("2", 7, 4), (") steps", 10, 0)], "O(n²) steps"),
        ([("built in the 21", 10, 0), ("st", 7, 4), (" century", 10, 0)], "21st century"),
        ([("a rope of 10", 10, 0), ("mm", 7, 0.5), (" is kept dry", 10, 0)], "10mm"),
        ([("two molecules of H", 10, 0), ("2", 7, -2), ("O are seen", 10, 0)], "H2O"),
        ([("the score of FERN", 10, 0), ("LARGE", 7, -1.5), (" is seen", 10, 0)], "FERN LARGE is"),
        (
            [("a tax on CO", 10, 0), ("2", 7, -2), (" and NO", 10, 0), ("x", 7, -2), (" is due", 10, 0)],
            "CO2 and NOx is",
        ),
        ([("small capitals of N", 10, 0), ("ATO", 7, 0), (" and U", 10, 0), ("NESCO", 7, 0)], "NATO and UNESCO"),
    ],
)
def test_raised_letters_and_digits_stay_in_their_line(pieces: list[tuple[str, float, float]], text: str) -> None:
    document = read(from_streams([raised(*pieces)]), "a.pdf")
    assert text in document.text
    assert "\n" not in document.text


def test_headings_that_only_numbers_show_are_found() -> None:
    page = [(60.0, 760.0, 16.0, "Ranking pages"), *below(BODY, top=735), (60.0, 690.0, 13.0, "1 Model")]
    y = 670.0
    for label in ("1.1 Walks on the graph", "1.2 Sinks", "2.1 Speed of the method", "2.2 Storage"):
        page += [(60.0, y, 10.0, label), *below(BODY, top=y - 20)]
        y -= 80
    assert headings(read(pdf([page]), "a.pdf")) == [
        (1, "Ranking pages"),
        (2, "1 Model"),
        (3, "1.1 Walks on the graph"),
        (3, "1.2 Sinks"),
        (3, "2.1 Speed of the method"),
        (3, "2.2 Storage"),
    ]


def test_numbered_steps_are_no_headings() -> None:
    steps = ["Open the valve", "Press the green button", "Wait for the lamp", "Close the valve", "Read the dial"]
    page = [(60.0, 760.0, 16.0, "Starting the pump"), *below(BODY, top=735)]
    page += [(60.0, 680.0 - 24 * i, 10.0, f"1.{i} {step}") for i, step in enumerate(steps, 1)]
    assert headings(read(pdf([page]), "a.pdf")) == [(1, "Starting the pump")]
