"""Networks do not read what the reader of a page does not see, and quotes stay as they are in the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import Passage
from shared_core.reading.base import Read
from shared_core.reading.extractive import ExtractiveReader
from shared_core.retrieval.minilm import load_model
from shared_core.support.markup import blank_unseen

PIECES = [
    "[",
    "]",
    "(",
    ")",
    "![",
    "](http://x.org/a)",
    "<b>",
    "</b>",
    '<a href="x">',
    "<",
    ">",
    "a",
    " ",
    "\n",
    "=",
    "É",
    "x[1](y.z)",
]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_only_blanks_take_the_place_of_characters(text: str) -> None:
    seen = blank_unseen(text)
    assert len(seen) == len(text)
    assert all(new in (old, " ") for old, new in zip(text, seen))
    assert blank_unseen(seen) == seen or "[" in seen


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("[![Logo](logo.png)](https://x.org/a_(b)) of [Ost](../ost.md 'Ost'){.a}", "Logo of Ost"),
        ('The <span class="t">Provider</span> <br/>pays <u>us</u>.', "The Provider pays us ."),
        ("d[k](x.y), a<b and c>d, cp <source> <path>, [1](a), [see](that one)", None),
    ],
)
def test_targets_and_tags_are_not_seen(text: str, seen: str | None) -> None:
    assert " ".join(blank_unseen(text).split()) == (seen or text)


def test_markup_does_not_change_vectors_and_readings() -> None:
    plain = "The lamp of Vessen was lit in 1871 by Ada Holm."
    marked = "The [lamp of Vessen](https://lamps.org/a/b?x=1) was lit <b>in 1871</b> by <a href='#h'>Ada Holm</a>."
    ids = [encoding.ids for encoding in load_model().tokenize([plain, marked])]
    assert ids[0] == ids[1]
    (one, two) = (
        ExtractiveReader().read([Read("When was the lamp of Vessen lit?", (Passage("p", text),))])[0]
        for text in (plain, marked)
    )
    assert two.readings[0].quote.text == marked
    assert two.readings[0].short_answer.text == "1871"
    assert two.readings[0].probability == pytest.approx(one.readings[0].probability, abs=1e-6)
