"""The reflection tokens of a model: which ids they have, and what positions say by them."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

from shared_core.errors import InputError
from shared_core.reflection import (
    REFLECTION_TOKENS,
    RELEASED_IDS,
    SUPPORT_TOKENS,
    VERDICT_TOKENS,
    ReflectionVocabulary,
    group_logprobs,
)


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
