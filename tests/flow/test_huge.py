"""Passages that are whole books."""

from __future__ import annotations

import logging
import time

import pytest

from shared_core import Answer, Passage, SelfReflectEngine, SelfReflectSettings
from shared_core.runtime import huge
from tests.fakes import FirstSentenceReader, Fixed

LIT = "The lamp was lit in 1871. "


def book(repeated: str) -> Passage:
    return Passage("book", LIT + repeated * (huge.LONGEST // len(repeated) + 9))


def ask(passage: Passage, **settings: float) -> Answer:
    engine = SelfReflectEngine(Fixed(passage), settings=SelfReflectSettings(**settings), reader=FirstSentenceReader())
    return engine.answer("When was the lamp lit?")


@pytest.mark.parametrize("repeated", ["The keeper wrote a letter about oil. ", "word ", "x", "灯台守は手紙を書いた。"])
def test_the_beginning_is_read_and_trace_and_log_say_so(repeated: str, caplog: pytest.LogCaptureFixture) -> None:
    huge._warn.cache_clear()
    whole = book(repeated)
    cut = huge.cut_huge(whole)
    assert whole.text.startswith(cut.text)
    assert huge.LONGEST - 2_000 <= len(cut.text) <= huge.LONGEST
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            answer = ask(whole)
            assert answer.text == "The lamp was lit in 1871. [1]"
            assert [d.outcome for d in answer.trace if d.kind == "passages"] == ["1 cut"]
    assert len([r for r in caplog.records if "Split documents" in r.getMessage()]) == 1


def test_its_place_in_the_file_is_that_of_what_is_read() -> None:
    whole = book("The keeper wrote. ")
    placed = Passage("book", whole.text, metadata={"source": "a.txt", "start": 10, "end": 10 + len(whole.text)})
    cut = huge.cut_huge(placed)
    assert (cut.metadata["start"], cut.metadata["end"]) == (10, 10 + len(cut.text))


def test_others_stay_as_they_are() -> None:
    passage = Passage("page", "x" * huge.LONGEST)
    assert huge.cut_huge(passage) is passage
    assert not huge.note_huge([passage])


def test_a_deadline_holds_beside_a_book() -> None:
    text = LIT + "".join(f"In {1000 + i % 900} keeper {i} wrote about oil.\n\n" for i in range(40_000))
    engine = SelfReflectEngine(Fixed(Passage("book", text)), settings=SelfReflectSettings(deadline=1.0)).warm_up()
    start = time.monotonic()
    engine.answer("When was the lamp lit?")
    assert time.monotonic() - start < 3
