"""Tokens and the text they spell: stop strings, end-of-sequence tokens and characters spread over tokens."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core import uncertainty as u


@pytest.mark.parametrize(("text", "tokens", "expected"), [
    ("a b", ["a", " b"], [("a", (0,)), (" b", (1,))]), ("a b", ["a", " b", "</s>"], [("a", (0,)), (" b", (1,))]),
    ("a. ", ["a", ". Next", " one"], [("a", (0,)), (". ", (1,))]),
    ("né!", ["n", "\ufffd", "\ufffd", "!"], [("n", (0,)), ("é", (1, 2)), ("!", (3,))]),
    ("日本", ["\ufffd", "\ufffd", "\ufffd", "\ufffd"], [("日本", (0, 1, 2, 3))]),
    ("ab", ["", "a", "", "b"], [("a", (1,)), ("b", (3,))]), ("", ["</s>"], []), ("a", [], []),
])  # fmt: skip
def test_pieces(text: str, tokens: list[str], expected: list[tuple[str, tuple[int, ...]]]) -> None:
    assert [(p.text, p.tokens) for p in u.pieces_of(text, tokens)] == expected


TOKEN = st.text(alphabet="ab. ü", min_size=1, max_size=3).map(lambda t: [t])
BROKEN = st.sampled_from("é日").map(lambda c: ["\ufffd"] * len(c.encode()))


@given(st.lists(TOKEN | BROKEN, max_size=8), st.sampled_from([[], ["</s>"], ["\nQ", "x"]]))
@settings(deadline=None, derandomize=True, max_examples=300)
def test_pieces_spell_the_text_and_keep_the_order_of_their_tokens(spelt: list[list[str]], rest: list[str]) -> None:
    text = "".join("é日"[len(t) - 2] if t[0] == "\ufffd" else t[0] for t in spelt)
    tokens = [token for t in spelt for token in t]
    pieces = u.pieces_of(text, [*tokens, *rest])
    assert "".join(p.text for p in pieces) == text
    assert [i for p in pieces for i in p.tokens] == list(range(len(tokens)))


def test_a_character_both_broken_and_whole_does_not_lose_text() -> None:
    pieces = u.pieces_of("ééé", ["\ufffd", "\ufffd", "\ufffd", "\ufffd", "é"])
    assert "".join(p.text for p in pieces) == "ééé"
