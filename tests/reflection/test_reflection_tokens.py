"""Reflection tokens: order, the ids that models have for them, what positions say by them, and text freed of them."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.errors import InputError
from shared_core.reflection import (
    REFLECTION_TOKENS,
    RELEASED_IDS,
    SUPPORT_TOKENS,
    TOKEN_GROUPS,
    VERDICT_TOKENS,
    ReflectionVocabulary,
    group_logprobs,
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
    assert sorted(t for group in TOKEN_GROUPS.values() for t in group) == sorted(REFLECTION_TOKENS)


def test_ids_of_a_vocabulary() -> None:
    assert reflection_ids(RELEASED_IDS) == dict(RELEASED_IDS)
    with pytest.raises(InputError, match="Relevant"):
        reflection_ids({t: i for t, i in RELEASED_IDS.items() if t != "[Relevant]"})
    with pytest.raises(InputError):
        reflection_ids({})
    with pytest.raises(InputError, match="one id"):
        reflection_ids(dict.fromkeys(REFLECTION_TOKENS, 5))


def test_the_released_checkpoints_ids() -> None:
    released = ReflectionVocabulary.released()
    assert [released.ids[t] for t in REFLECTION_TOKENS] == list(range(32_000, 32_015))
    assert len(released.verdicts) == 13 == len(VERDICT_TOKENS)
    assert released.token_of(32_000) == "[No Retrieval]"
    assert released.token_of(5) is None
    assert pickle.loads(pickle.dumps(released.of(SUPPORT_TOKENS))) == (32_012, 32_013, 32_014)


def test_a_vocabulary_that_lacks_a_token_is_unknown_and_not_half_known() -> None:
    ids: list[int | None] = list(RELEASED_IDS.values())
    assert ReflectionVocabulary.of_lookup(ids) == ReflectionVocabulary.released()
    assert ReflectionVocabulary.of_lookup([*ids[:-1], None]) is None
    assert ReflectionVocabulary.of_lookup([*ids[:-1], ids[0]]) is None  # two share an id
    with pytest.raises(InputError):
        ReflectionVocabulary.of_lookup(ids[:3])
    with pytest.raises(InputError):
        ReflectionVocabulary({"[Relevant]": 1})


def test_positions_by_token_and_what_the_server_did_not_say() -> None:
    released = ReflectionVocabulary.released()
    rows = np.full((2, 13), math.nan)
    rows[1, VERDICT_TOKENS.index("[Relevant]")] = -0.5
    assert released.rows(rows, 2) == [{}, {"[Relevant]": -0.5}]
    assert released.rows(None, 2) == [{}, {}]
    with pytest.raises(InputError):
        released.rows(rows, 3)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_group_that_cannot_be_trusted_is_unknown(bad: float) -> None:
    full: dict[str, Any] = {"[Fully supported]": -0.1, "[Partially supported]": -3.0, "[Relevant]": -1.0}
    assert group_logprobs(full, SUPPORT_TOKENS) == {"[Fully supported]": -0.1, "[Partially supported]": -3.0}
    assert group_logprobs(full | {"[Partially supported]": bad}, SUPPORT_TOKENS) == {}
    assert group_logprobs({"[Fully supported]": -math.inf}, SUPPORT_TOKENS) == {}
    assert group_logprobs({}, SUPPORT_TOKENS) == {}


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
