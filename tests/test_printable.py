"""What is shown cannot steer a terminal, and nothing else is lost."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.support.sanitize import to_printable, to_printable_json, to_printable_line

HARMLESS = "naïve e\u0301 水 👩\u200d👩 می\u200cخواهم tab\tline\nend"


def is_safe(text: str) -> bool:
    bidi = {unicodedata.bidirectional(c) for c in text} & {
        "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI",
    }  # fmt: skip
    return not bidi and all(c in "\t\n" or unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp") for c in text)


@given(st.text(st.characters(codec=None)))
def test_no_text_steers_a_terminal(text: str) -> None:
    assert is_safe(to_printable(text))
    assert "\n" not in to_printable_line(text)
    shown = to_printable_json({"text": text})
    assert is_safe(shown)
    assert json.loads(shown) == {"text": text}


def test_what_is_harmless_stays() -> None:
    assert to_printable(HARMLESS) == HARMLESS
    assert json.loads(to_printable_json([HARMLESS])) == [HARMLESS]


@pytest.mark.parametrize(("text", "shown"), [
    ("a\x1b[2Jb", "a\ufffd[2Jb"), ("a\x9b31mb", "a\ufffd31mb"), ("a\r\nb\rc", "a\nb\nc"), ("abc\u202ecba", "abccba"),
    ("a\ufeffb\U000e0041", "ab"), ("\ud800", "\ufffd"),
])  # fmt: skip
def test_what_is_not(text: str, shown: str) -> None:
    assert to_printable(text) == shown
