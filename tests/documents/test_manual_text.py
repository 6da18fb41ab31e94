"""Manual pages as ``man`` prints them: sections and terms are found by how far they are indented."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared_core.documents.chunking import chunk_document
from shared_core.documents.loaders.man import load_manual_text
from tests.documents.reading import read

PAGE = """\
WINCH-ROPE(1)                     Dock Manual                    WINCH-ROPE(1)

NAME
       winch-rope - Manage the ropes of a winch

SYNOPSIS
       winch rope [--wet | --dry]
               [--out <drum>]

COMMANDS
   Hauling
       pull [--fast] <rope>
           Pull in a rope until a knot comes. The ropes that hang beside it are
           left as they are, even wet ones.

       drop ROPE...
           Let ropes go.

OPTIONS
       -w, --wet
           Don't dry the rope, only haul it.

       -t     Tar the rope before it is
              hauled in.
       -u     Undo that.

       After all options, ropes can be named.

   Things to haul
       ROPE   A rope that hangs at the quay. A rope of hemp is tarred be‐
              fore it is hauled in.

DISCUSSION
       Three ropes are enough for most
       ships:

           $ winch rope pull 1

Dock 2.1                          05/01/2020                     WINCH-ROPE(1)
"""


def headings(text: str) -> dict[str, int]:
    return {heading.label: heading.level for heading in load_manual_text(text).headings if heading.label}


def test_sections_and_terms_are_found_by_their_indents() -> None:
    found = headings(PAGE)
    sections = [name for name, level in found.items() if level == 1]
    assert sections == ["NAME", "SYNOPSIS", "COMMANDS", "OPTIONS", "DISCUSSION"]
    assert [name for name, level in found.items() if level == 2] == ["Hauling", "Things to haul"]
    terms = [name for name, level in found.items() if level >= 10]
    assert terms == ["pull [--fast] <rope>", "drop ROPE...", "-w, --wet", "-t", "-u", "ROPE"]


def test_a_page_has_its_name_as_title_and_neither_head_nor_foot() -> None:
    document = read(PAGE, "winch-rope.txt")
    assert document.title == "winch-rope(1)"
    assert "Dock Manual" not in document.text
    assert "05/01/2020" not in document.text


@pytest.mark.parametrize("form", ["tabs", "overstruck", "plain"])
def test_terms_are_apart_with_their_definitions_however_the_page_was_saved(form: str) -> None:
    text = PAGE
    if form == "tabs":  # as col writes it
        text = text.replace(" " * 8, "\t")
    if form == "overstruck":  # as old printers did
        text = text.replace("NAME\n", "N\bNA\bAM\bME\bE\n").replace("--wet\n", "-\b--\b-w\bwe\bet\bt\n")
    passages = chunk_document(read(text, "winch-rope.txt"))
    wet = [p for p in passages if p.metadata["section"] == "OPTIONS > -w, --wet"]
    assert ["Don't dry the rope, only haul it." in p.text for p in wet] == [True]
    ropes = [p for p in passages if p.metadata["section"] == "OPTIONS"]
    assert ["After all options" in p.text for p in ropes] == [True]


def test_a_word_set_on_two_lines_is_one() -> None:
    assert "tarred before" in " ".join(load_manual_text(PAGE).text.split())


def test_a_head_may_have_the_name_alone() -> None:
    head, _, rest = PAGE.partition("\n")
    document = read(f"WINCH-ROPE(1)\n{rest}", "winch-rope.txt")
    assert (head[:13], document.title) == ("WINCH-ROPE(1)", "winch-rope(1)")
    assert document.text.startswith("NAME")


def test_other_text_is_no_manual_page() -> None:
    letter = "WINCH(1) is the page to read.\n\nDear Ada,\n\n       it hangs\n           at the quay.\n"
    assert read(letter, "letter.txt").text.startswith("WINCH(1) is")
    assert all("hangs" not in heading.label for heading in read(letter, "letter.txt").headings)


LINES = st.lists(
    st.tuples(st.integers(0, 16), st.text(st.characters(codec="utf-8", exclude_characters="\b\x1b‐"), max_size=30))
)


@example([(1, "\xa00")])
@given(LINES)
def test_headings_lie_in_the_text_in_order_and_are_what_they_say(lines: list[tuple[int, str]]) -> None:
    body = "\n".join(" " * indent + text for indent, text in lines)
    found = load_manual_text(f"ROPE(1)   Docks   ROPE(1)\n\n{body}\n")
    starts = [heading.start for heading in found.headings]
    assert starts == sorted(starts)
    for heading in found.headings:
        assert 0 <= heading.start <= heading.end <= len(found.text)
        assert heading.label == " ".join(found.text[heading.start : heading.end].split())
