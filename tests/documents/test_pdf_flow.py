"""Sentences around notes, tables and stamps; divided words; raised letters at the beginning of a piece of a line."""

from __future__ import annotations

import pytest

from tests.documents.pdf_files import At, from_streams, lines, pdf, stream
from tests.documents.reading import read

LEFT = [
    "The lamps of the coast were lit by keepers who had",
    "little else to do and who wrote down each ship. We read",
    "all of their books, and found that most of the ships are",
]
RIGHT = ["named more than once. The fog was thick in March.", "Later books say less of the weather and of the ships."]


def columns(last: list[str], notes: list[str], following: list[str]) -> list[At]:
    """Two columns, with notes in smaller letters at the end of the first."""
    return [
        *lines(last, x=50, top=740, size=10),
        *lines(notes, x=50, top=690, size=8),
        *lines(following, x=320, top=740, size=10),
    ]


def test_a_sentence_goes_on_in_the_next_column_before_the_notes_below_it() -> None:
    text = read(pdf([columns(LEFT, ["1 The books are kept in Vessen."], RIGHT)]), "a.pdf").text
    assert f"{LEFT[-1]}\n{RIGHT[0]}" in text
    assert text.endswith("1 The books are kept in Vessen.")


def test_notes_stay_on_their_page_behind_a_paragraph_that_goes_on() -> None:
    pages = [
        [*lines(LEFT, size=10, top=740), *lines(["1 The books are kept in Vessen."], size=8, top=690)],
        [*lines(RIGHT, size=10, top=740), *lines(["Oil", "was dear."], size=10, top=600)],
    ]
    document = read(pdf(pages), "a.pdf")
    assert "\n".join([*LEFT, *RIGHT, "", "1 The books"]) in document.text
    starts = {document.text[page.start :][:6]: page.number for page in document.pages}
    assert starts == {"The la": 1, "named ": 2, "1 The ": 1, "Oil\nwa": 2}


def test_a_caption_in_letters_of_the_text_interrupts_no_sentence() -> None:
    caption = ["Figure 3: Ships in each year since the first lamp was lit", "in the harbour of Vessen."]
    pages = [lines(LEFT, size=10, top=740), [*lines(caption, size=10, top=740), *lines(RIGHT, size=10, top=690)]]
    assert "\n".join([LEFT[-1], *RIGHT, "", *caption]) in read(pdf(pages), "a.pdf").text


def test_a_divided_word_is_not_joined_to_a_note() -> None:
    last = [*LEFT[:2], "all of their books, and found many well-tun-"]
    text = read(
        pdf([columns(last, ["11Ada is named by one of them."], ["ed lamps in them. The fog was thick."])]), "a.pdf"
    ).text
    assert "well-tuned\nlamps in them." in text
    assert "11Ada" in text
    assert "tun11" not in text


def test_notes_in_letters_of_the_text_are_known_by_their_marks() -> None:
    last = [*LEFT[:2], "all of their books, and found that many were well-tun-"]
    page = [
        *columns(last, [], ["ed lamps in them. The fog was thick."]),
        (50.0, 690.0, 10.0, "8https://example.org/lamps"),
    ]
    text = read(pdf([page]), "a.pdf").text
    assert "were well-tuned\nlamps in them." in text
    assert text.endswith("8https://example.org/lamps")


def test_the_next_item_of_a_list_is_no_end_of_a_sentence() -> None:
    last = [*LEFT[:2], "all of their books, for these reasons that we know;"]
    text = read(pdf([columns(last, ["1 In Vessen."], ["2) the oil was dear;", "3) the fog was thick."])]), "a.pdf").text
    assert text.index("1 In Vessen.") < text.index("2) the oil")


def test_what_runs_along_the_margin_of_most_pages_goes() -> None:
    stamp = b"BT /F1 8 Tf 0 1 -1 0 580 200 Tm (Downloaded from example.org on May 7) Tj ET "
    page = stamp + stream(lines(LEFT, size=10, top=740))
    assert "Downloaded" not in read(from_streams([page] * 4), "a.pdf").text
    assert read(from_streams([page]), "a.pdf").text.count("Downloaded") == 1


def test_a_large_number_at_the_foot_of_each_page_goes() -> None:
    pages = [
        [*lines([f"{line} {name}" for line in LEFT], size=10, top=740), (500.0, 40.0, 16.0, "123")]
        for name in ("Ada", "Bert", "Cy", "Dee")
    ]
    assert "123" not in read(pdf(pages), "a.pdf").text


@pytest.mark.parametrize(
    ("rest", "divided", "joined"),
    [
        ("It is a left-to-right reader.", ("We read left-to-", "right and more."), "left-to-right"),
        ("It is a left-to-right reader.", ("We read left-", "to-right and more."), "left-to-right"),
        ("The source is dear, and the target near.", ("We read source-", "target words."), "source-target"),
        ("Ships were wrecked, and nine under fog performs.", ("This under-", "performs by far."), "underperforms"),
        ("No word of these is here.", ("This is ex-", "plicit at last."), "explicit"),
        ("No word of these is here.", ("This is a light-", "house of stone."), "lighthouse"),
    ],
)
def test_compounds_keep_their_hyphen_at_the_end_of_a_line(rest: str, divided: tuple[str, str], joined: str) -> None:
    text = read(pdf([[*lines([rest], top=740), *lines(divided, top=690)]]), "a.pdf").text
    assert joined in text.split("\n\n")[1].replace("\n", " ")


def test_the_raised_mark_of_a_note_does_not_part_its_lines() -> None:
    note = [(60.0, 702.6, 6.0, "1"), (63.4, 700.0, 8.0, "The books are kept in the town hall of Vessen, and"),
            (60.0, 689.6, 8.0, "some of them in Norrhaven.")]  # fmt: skip
    text = read(pdf([note]), "a.pdf").text
    assert text == "1The books are kept in the town hall of Vessen, and\nsome of them in Norrhaven."
