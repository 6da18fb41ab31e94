"""Reflection tokens: order, ids, and text freed of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.errors import InputError
from shared_core.reflection import (
    REFLECTION_TOKENS,
    RELEASED_IDS,
    TOKEN_GROUPS,
    reflection_ids,
    strip_reflection_tokens,
)

PIECES = st.sampled_from(
    [*REFLECTION_TOKENS, "[No", " Retrieval]", "[Rel", "evant]", "Paris", " is", ".", " ", "\n", "</s>", "[1]"]
)


def test_order_and_groups() -> None:
    assert len(REFLECTION_TOKENS) == len(set(REFLECTION_TOKENS)) == 15
    assert REFLECTION_TOKENS[:3] == ("[No Retrieval]", "[Retrieval]", "[Continue to Use Evidence]")
    assert REFLECTION_TOKENS[-1] == "[No support / Contradictory]"
    assert (RELEASED_IDS["[No Retrieval]"], RELEASED_IDS["[No support / Contradictory]"]) == (32000, 32014)
    assert sorted(t for group in TOKEN_GROUPS.values() for t in group) == sorted(REFLECTION_TOKENS)


def test_ids_of_a_vocabulary() -> None:
    assert reflection_ids(RELEASED_IDS) == dict(RELEASED_IDS)
    with pytest.raises(InputError, match="Relevant"):
        reflection_ids({t: i for t, i in RELEASED_IDS.items() if t != "[Relevant]"})
    with pytest.raises(InputError):
        reflection_ids({})
    with pytest.raises(InputError, match="one id"):
        reflection_ids(dict.fromkeys(REFLECTION_TOKENS, 5))


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("[Relevant]Paris is big.[Fully supported][Utility:5]</s>", "Paris is big."),
        ("One.[Continue to Use Evidence]Two.", "One. Two."),  # published post-processing forgets this token
        ("A.[Retrieval]<paragraph>T\nsecret</paragraph>[Relevant]B.[Utility:5]", "A. B."),
        ("Paris [Fully supported].", "Paris."),
        ("no tokens [1] at (all)", "no tokens [1] at (all)"),
        ("[No[Relevant] Retrieval]x", "x"),
        ("a\n\n[Utility:3]b", "a\n\nb"),
        ("", ""),
    ],
)
def test_strip(text: str, clean: str) -> None:
    assert strip_reflection_tokens(text) == clean


@given(st.lists(PIECES, max_size=14))
@settings(deadline=None, derandomize=True, max_examples=200)
def test_nothing_is_left_and_again_changes_nothing(pieces: list[str]) -> None:
    stripped = strip_reflection_tokens("".join(pieces))
    assert not any(token in stripped for token in (*REFLECTION_TOKENS, "</s>"))
    assert strip_reflection_tokens(stripped) == stripped
