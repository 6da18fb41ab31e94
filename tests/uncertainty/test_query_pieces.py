"""Tokens and the text they spell: stop strings, end-of-sequence tokens and characters spread over tokens."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core import uncertainty as u


@pytest.mark.parametrize(
    ("text", "tokens", "expected"),
    [
        ("a b", ["a", " b"], [("a", (0,)), (" b", (1,))]),
        ("a b", ["a", " b", "</s>"], [("a", (0,)), (" b", (1,))]),
        ("a. ", ["a", ". Next", " one"], [("a", (0,)), (". ", (1,))]),
        ("né!", ["n", "\ufffd", "\ufffd", "!"], [("n", (0,)), ("é", (1, 2)), ("!", (3,))]),
        ("日本", ["\ufffd", "\ufffd", "\ufffd", "\ufffd"], [("日本", (0, 1, 2, 3))]),
        ("ab", ["", "a", "", "b"], [("a", (1,)), ("b", (3,))]),
        ("", ["</s>"], []),
        ("a", [], []),
    ],
)
def test_pieces(text: str, tokens: list[str], expected: list[tuple[str, tuple[int, ...]]]) -> None:
    assert [(p.text, p.tokens) for p in u.pieces_of(text, tokens)] == expected


@given(st.text(alphabet="ab. é日", max_size=12), st.integers(1, 4), st.text(alphabet="xyz", max_size=4))
@settings(deadline=None, derandomize=True, max_examples=200)
def test_pieces_of_bytes_spell_the_text_and_keep_their_order(text: str, size: int, rest: str) -> None:
    raw = text.encode()
    tokens = [raw[i : i + size].decode("utf-8", "replace") for i in range(0, len(raw), size)]
    pieces = u.pieces_of(text, [*tokens, *rest])
    assert "".join(p.text for p in pieces) == text
    places = [i for p in pieces for i in p.tokens]
    assert places == list(range(len(places)))
    assert len(places) <= len(tokens)
