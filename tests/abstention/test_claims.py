from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.abstention import (
    ClaimCache,
    claim_key,
    parse_probability,
    random_subsets,
    self_consistency,
    split_claims,
    unique_claims,
)
from shared_core.errors import InputError, SettingsError


@pytest.mark.parametrize(("reply", "expected"), [
    ("85", 0.85), ("85%", 0.85), (" 85 % ", 0.85), ("85/100", 0.85), ("85 out of 100.", 0.85), ("0", 0.0), ("100", 1.0),
    ("100/100", 1.0), ("Probability: 7.", 0.07), ("I'd say 90, yes, 90.", 0.9), ("８５", 0.85), ("", None),
    ("unlikely", None), ("0.85", None), ("0,85", None), ("101", None), ("-5", None), ("60-80", None),
    ("between 60 and 80", None), ("8/10", None), ("1,000", None), ("100/1000", None), ("nan", None),
])  # fmt: skip
def test_verbalised_probabilities(reply: str, expected: float | None) -> None:
    assert parse_probability(reply) == expected


@given(st.text(max_size=30))
def test_any_reply_gives_a_probability_or_nothing(reply: str) -> None:
    parsed = parse_probability(reply)
    assert parsed is None or 0 <= parsed <= 1


def test_self_consistency_reports_what_is_missing() -> None:
    result = self_consistency(["80", "no idea", "60%", None, math.nan, 0.1])
    assert result.probability == pytest.approx(0.5)
    assert (result.parsed, result.missing) == (3, 3)
    assert self_consistency(["?"]).probability is None
    assert self_consistency([]).probability is None
    with pytest.raises(InputError):
        self_consistency([1.5])


def test_claims_are_sentences_at_their_place() -> None:
    text = "Dr. Voss was born in 1901.\n\n...\n\nShe built bridges."
    claims = split_claims(text)
    assert [c.text for c in claims] == ["Dr. Voss was born in 1901.", "She built bridges."]
    assert all(text[c.start : c.end] == c.text for c in claims)
    assert split_claims("") == []
    with pytest.raises(InputError):
        split_claims(None)  # type: ignore[arg-type]


def test_repeated_claims_are_one() -> None:
    assert unique_claims(["Ada  wrote it.", "ada wrote it", "", " . ", "He left."]) == ["Ada  wrote it.", "He left."]
    assert claim_key("ﬁne") == claim_key("FINE.")
    assert claim_key("born 1901") != claim_key("born 1902")


def test_the_cache_scores_each_claim_once() -> None:
    cache = ClaimCache()
    assert cache.missing(["A.", "B.", "a."]) == ["A.", "B."]
    cache.add("A.", 0.8)
    cache.add("B.", None)
    cache.add("C.", math.nan)
    assert cache.missing(["a", "B.", "D."]) == ["D."]
    assert (cache.hits, cache.misses) == (3, 3)
    assert cache.probabilities(["a", "b", "c", "d"]) == [0.8, None, None, None]
    assert len(cache) == 3


def test_likely_claims_are_strictly_above_the_target() -> None:
    cache = ClaimCache()
    for claim, p in (("A", 0.7), ("B", 0.71), ("C", None), ("D", 1.0)):
        cache.add(claim, p)
    assert cache.likely(0.7) == ["B", "D"]
    with pytest.raises(SettingsError):
        cache.likely(1.0)


@pytest.mark.parametrize(("claim", "p"), [("A", 1.2), ("A", "0.5"), ("", 0.5), (" . ", 0.5)])
def test_the_cache_refuses(claim: str, p: Any) -> None:
    with pytest.raises(InputError):
        ClaimCache().add(claim, p)


@given(st.lists(st.integers(), max_size=12), st.integers(0, 5), st.integers(0, 14), st.integers(0, 99))
def test_random_subsets(items: list[int], count: int, size: int, seed: int) -> None:
    subsets = random_subsets(items, count, size, seed)
    assert subsets == random_subsets(items, count, size, seed)
    assert len(subsets) == count
    for subset in subsets:
        assert len(subset) == min(size, len(items))
        rest = iter(items)
        assert all(x in rest for x in subset)  # in the order of the items, none twice


def test_subsets_differ() -> None:
    assert len({tuple(s) for s in random_subsets(range(20), 8, 5)}) > 4
    with pytest.raises(InputError):
        random_subsets([1], -1, 1)
