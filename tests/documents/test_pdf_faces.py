"""PDFs: what is bold and what is a heading, and sentences that go on in another face or far to the left."""

from __future__ import annotations

import pytest

from tests.documents.pdf_files import At, from_streams, pdf
from tests.documents.reading import headings, read


def _page(parts: list[tuple[int, str]]) -> bytes:
    """Lines one below another, each with its render mode: 2 fills letters and draws their outlines, too."""
    drawn = [f"BT /F1 11 Tf {mode} Tr 60 {740 - 30 * i} Td ({text}) Tj ET" for i, (mode, text) in enumerate(parts)]
    return "\n".join(["0.3 w", *drawn]).encode()


def test_letters_with_an_outline_are_bold() -> None:
    prose = [
        f"In the year 18{n} the keepers of the lamp were paid in salt, oil and {n} loaves of bread." for n in (71, 84)
    ]
    parts = [(2, "How they were paid"), (0, prose[0]), (2, "How that was changed"), (0, prose[1])]
    found = [label for _, label in headings(read(from_streams([_page(parts)]), "a.pdf"))]
    assert found == ["How they were paid", "How that was changed"]


@pytest.mark.parametrize("modes", [(2, 2), (0, 0), (1, 0), (3, 0)])
def test_outlines_of_all_letters_and_other_ways_to_draw_some_head_nothing(modes: tuple[int, int]) -> None:
    """Some programs outline all letters; others draw nothing but the outline, or nothing at all above a scan."""
    prose = "In the year 1871 the keepers of the lamp were paid in salt, oil and bread, as others on the coast were."
    parts = [(modes[0], "How they were paid"), (modes[1], prose)]
    assert headings(read(from_streams([_page(parts)]), "a.pdf")) == []


def _described(name: str, weight: int) -> bytes:
    """A font with a description: programs write a stem's width that says nothing of how bold it is."""
    return (
        b"<< /Type /Font /Subtype /TrueType /BaseFont /%s /Encoding /WinAnsiEncoding /FirstChar 32 /LastChar 126 "
        b"/Widths [%s] /FontDescriptor << /Type /FontDescriptor /FontName /%s /Flags 32 /StemV %d /ItalicAngle 0 "
        b"/FontBBox [0 -200 1000 900] /Ascent 900 /Descent -200 /CapHeight 700 >> >>"
        % (name.encode(), b"550 " * 95, name.encode(), weight)
    )


@pytest.mark.parametrize(
    ("plain", "found"),
    [
        ("Helvetica", ["How they were paid"]),
        ("Times-Roman", ["How they were paid"]),
        ("ABCDEF+Corben-Regular", ["How they were paid"]),
        ("Corben", []),  # as bold as the other, by its weight
    ],
)
def test_fonts_whose_names_say_that_they_are_plain_are_not_bold(plain: str, found: list[str]) -> None:
    objects = [_described(plain, 160), _described("Corben-Bold", 160)]
    prose = "In the year 1871 the keepers of the lamp were paid in salt, oil and bread, as others on the coast were."
    content = f"BT /F3 11 Tf 60 740 Td (How they were paid) Tj ET BT /F2 11 Tf 60 700 Td ({prose}) Tj ET"
    fonts = b"/F2 5 0 R /F3 6 0 R"
    document = read(from_streams([content.encode()], objects=objects, fonts=fonts), "a.pdf")
    assert [label for _, label in headings(document)] == found


def _faces(rows: list[tuple[float, float, str]]) -> str:
    """The text of lines from x at y, those in asterisks in bold letters."""
    drawn = [f"BT /F1 11 Tf {2 * t.startswith('*')} Tr {x} {y} Td ({t.strip('*')}) Tj ET" for x, y, t in rows]
    return read(from_streams(["\n".join(["0.3 w", *drawn]).encode()]), "a.pdf").text


BROKEN = "*We must have on record the telephone number of a neighbour of every*"


def test_a_sentence_that_begins_in_bold_letters_goes_on_in_plain_ones() -> None:
    rows = [(60.0, 700.0, BROKEN), (60.0, 686.8, "keeper. It can be reached at night, even in winter, and by post.")]
    assert _faces(rows).split("\n\n") == [f"{BROKEN.strip('*')}\n{rows[1][2]}"]
    rows[1] = (60.0, 686.8, "This number can be reached at night, even in winter, and by post.")
    assert len(_faces(rows).split("\n\n")) == 2


@pytest.mark.parametrize(
    "items", [("oil", "bread and salt"), ("a) oil for the lamp, which is brought by boats in May", "b) bread")]
)
def test_small_letters_below_a_short_bold_line_begin_a_list(items: tuple[str, str]) -> None:
    rows = [(60.0, 700.0, "*What the keepers get*"), *((60.0, 686.8 - 13.2 * i, item) for i, item in enumerate(items))]
    assert _faces(rows).split("\n\n")[0] == "What the keepers get"


def test_paragraphs_of_two_lines_whose_first_stands_far_in_are_whole() -> None:
    pairs = [
        ("Storm: When it is drawn, all boats that are not in a harbour go back to", "their home ports."),
        ("Pilot: When it is drawn, take one of the cards from the hand of any other", "player. Show it to nobody."),
        ("Beacon: When it is drawn, it stays on the table in front of you for the next", "two rounds."),
    ]
    rows: list[At] = []
    for i, (first, second) in enumerate(pairs):
        rows += [(96.0, 700.0 - 28 * i, 11.0, first), (60.0, 686.8 - 28 * i, 11.0, second)]
    text = read(pdf([[(60.0, 740.0, 11.0, "Each player gets the same number of cards."), *rows]]), "a.pdf").text
    assert text.split("\n\n")[1:] == ["\n".join(pair) for pair in pairs]


def test_terms_in_small_letters_below_short_definitions_begin_a_paragraph() -> None:
    pairs = [("abort", "Stops at once without a word"), ("bounce back", "Sends the letter back to whom it came from")]
    rows: list[At] = [
        (60.0, 740.0, 11.0, "These are the words that a keeper of the post office may write on a letter.")
    ]
    for i, (term, meaning) in enumerate(pairs):
        rows += [(60.0, 714.0 - 26.4 * i, 11.0, term), (100.0, 700.8 - 26.4 * i, 11.0, meaning)]
    text = read(pdf([rows]), "a.pdf").text
    assert "Stops at once without a word" in text.split("\n\n")


@pytest.mark.parametrize(("mark", "heads"), [("\x95 ", False), ("- ", False), ("\xb7 ", False), ("", True)])
def test_items_of_lists_in_large_letters_are_no_headings(mark: str, heads: bool) -> None:
    prose = "In the year 1871 the keepers of the lamp were paid in salt, oil and bread, as others on the coast were."
    shown = f"{mark}Oil for the lamp".encode("latin-1")
    content = b"BT /F1 15 Tf 60 740 Td (%s) Tj ET BT /F1 11 Tf 60 700 Td (%s) Tj ET" % (shown, prose.encode())
    assert bool(headings(read(from_streams([content]), "a.pdf"))) == heads
