from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.abstention import expected_utility, keep_claims, penalty, realised_utility, select_answer
from shared_core.errors import InputError, SettingsError

PARITY = json.loads((Path(__file__).parents[1] / "parity" / "research_utility.json").read_text())
CASES = [(case, rho) for case in PARITY["cases"] for rho in case["expected"]["by_rho"]]
PROBABILITIES = st.floats(0, 1)
RHOS = st.floats(0.01, 0.99)


def candidates(case: dict[str, Any]) -> list[list[float]]:
    return [[float(p) for p in claims] for claims in case["input"]["candidates_claim_probs"]]


@pytest.mark.parametrize(("case", "rho"), CASES, ids=lambda v: v if isinstance(v, str) else v["name"])
def test_parity(case: dict[str, Any], rho: str) -> None:
    expected, answers = case["expected"]["by_rho"][rho], candidates(case)
    assert penalty(float(rho)) == pytest.approx(expected["lambda"], abs=1e-12)
    for claims, utility, exact in zip(answers, expected["expected_utility"], expected["expected_utility_exact"]):
        assert expected_utility(claims, float(rho)) == pytest.approx(utility, abs=1e-12)
        assert expected_utility(claims, float(rho)) == float(Fraction(exact))
    chosen = select_answer(answers, float(rho))
    assert (-1 if chosen.index is None else chosen.index) == expected["select_abstain_on_tie"]
    assert chosen.utility == pytest.approx(expected["max"], abs=1e-12)
    assert [keep_claims(claims, float(rho)) for claims in answers] == expected["accepted_claims_p_gt_rho"]


@pytest.mark.parametrize("rho", [0, 1, -0.1, 1.5, math.nan, math.inf, None, "0.7", True])
def test_a_target_accuracy_outside_0_1_is_refused(rho: Any) -> None:
    for call in (
        lambda: penalty(rho),
        lambda: expected_utility([0.5], rho),
        lambda: keep_claims([0.5], rho),
        lambda: select_answer([[0.5]], rho),
        lambda: realised_utility(1, 0, rho),
    ):
        with pytest.raises(SettingsError) as caught:
            call()
        assert isinstance(caught.value, ValueError)
        assert caught.value.hint


@pytest.mark.parametrize("value", [-0.1, 1.1, math.inf, "0.5", [0.5]])
def test_what_is_no_probability_is_refused(value: Any) -> None:
    with pytest.raises(InputError):
        expected_utility([value], 0.5)
    with pytest.raises(InputError):
        select_answer([[0.9], [value]], 0.5)


def test_a_flat_list_of_candidates_is_refused() -> None:
    with pytest.raises(InputError):
        select_answer([0.9, 0.8], 0.5)  # type: ignore[list-item]


@pytest.mark.parametrize("unknown", [None, math.nan])
def test_the_unknown_is_never_confident(unknown: float | None) -> None:
    assert keep_claims([unknown, 0.9], 0.5) == [1]
    assert expected_utility([unknown], 0.75) == -penalty(0.75)
    assert select_answer([[unknown], [unknown, 0.6]], 0.5) == (None, 0.0)
    assert select_answer([[unknown]], 0.5).abstained


def test_ties_go_to_abstention_then_to_the_first() -> None:
    assert select_answer([[0.7], []], 0.7) == (None, 0.0)
    assert select_answer([[0.1, 0.2, 0.3]], 0.2).index is None  # 0.1 + 0.2 + 0.3 - 3·0.2 is not 0 in floats
    assert select_answer([[0.6], [0.9], [0.9]], 0.5).index == 1
    assert select_answer([], 0.5) == (None, 0.0)


@given(st.lists(PROBABILITIES, max_size=7), RHOS)
@settings(deadline=None)
def test_keeping_p_above_rho_is_the_best_subset(claims: list[float], rho: float) -> None:
    kept = expected_utility([claims[i] for i in keep_claims(claims, rho)], rho)
    subsets = itertools.chain.from_iterable(itertools.combinations(claims, n) for n in range(len(claims) + 1))
    assert kept == pytest.approx(max(expected_utility(s, rho) for s in subsets), abs=1e-9)
    assert kept >= 0


@given(st.lists(st.booleans(), max_size=20), RHOS)
@settings(deadline=None)
def test_certain_claims_have_their_realised_utility(labels: list[bool], rho: float) -> None:
    true, false = labels.count(True), labels.count(False)
    assert expected_utility([float(x) for x in labels], rho) == pytest.approx(realised_utility(true, false, rho))
    assert realised_utility(true, false, 0.5) == true - false


@given(st.lists(st.lists(PROBABILITIES, max_size=5), max_size=5), RHOS)
@settings(deadline=None)
def test_selection_is_the_maximum(answers: list[list[float]], rho: float) -> None:
    chosen = select_answer(answers, rho)
    assert chosen.utility == pytest.approx(max([0.0, *(expected_utility(a, rho) for a in answers)]), abs=1e-9)
    if chosen.index is not None:
        assert chosen.utility > 0
        assert chosen.utility == expected_utility(answers[chosen.index], rho)
