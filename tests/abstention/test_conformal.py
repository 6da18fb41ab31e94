from __future__ import annotations

import copy
import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.abstention import (
    CalibratedThreshold,
    conformal_factuality_threshold,
    factuality_scores,
    learn_then_test_threshold,
    risk_control_threshold,
)
from shared_core.errors import InputError, SettingsError

PARITY = json.loads((Path(__file__).parents[1] / "parity" / "conformal_factual.json").read_text())["cases"]
CASES, INDEX_CASE = PARITY[:-1], PARITY[-1]


def number(value: Any) -> float:
    return float({"+inf": math.inf, "-inf": -math.inf, -100000: -math.inf}.get(value, value))  # the published code's -∞


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
def test_parity_factuality(case: dict[str, Any]) -> None:
    scores, labels = case["input"]["scores"], case["input"]["labels"]
    for a in case["input"]["a_levels"]:
        expected = [number(r) for r in case["expected"]["r_scores"][str(a)]]
        assert factuality_scores(scores, labels, a) == expected
        for alpha in case["input"]["alphas"]:
            ours = conformal_factuality_threshold(scores, labels, alpha, a)
            published = case["expected"]["conformal_threshold"][f"a={a},alpha={alpha}"]
            if isinstance(published, dict):  # k > n: an IndexError there, abstention and no claim here
                assert published == {"raises": "IndexError"}
                assert ours == math.inf
                assert not ours.guarantee.claimed
            else:
                assert ours == number(published)
                assert ours.guarantee.claimed


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
def test_parity_risk_control(case: dict[str, Any]) -> None:
    scores, labels = case["input"]["scores"], case["input"]["labels"]
    for rho in case["input"]["rhos"]:
        ours = risk_control_threshold(scores, labels, rho)
        assert ours == number(case["expected"]["crc"][str(rho)]["threshold"]), rho


def test_the_quantile_index_is_exact() -> None:
    """The published index, computed in floats, is one too large at places; ours is the exact one."""
    differing = 0
    for alpha in INDEX_CASE["input"]["alphas"]:
        for n in INDEX_CASE["input"]["n"]:
            answers = [[float(i)] for i in range(1, n + 1)]  # one false claim each: r_i = i
            ours = conformal_factuality_threshold(answers, [[False]] * n, alpha)
            exact = INDEX_CASE["expected"]["index_1based_exact"][str(alpha)][n - 1]
            assert ours == (exact if exact <= n else math.inf)
            assert ours.guarantee.claimed == (exact <= n)
            differing += exact != INDEX_CASE["expected"]["index_1based_float"][str(alpha)][n - 1]
    assert differing > 0


def test_a_guarantee_says_what_it_promises_and_on_what_conditions() -> None:
    scores, labels = [[0.9, 0.2]] * 19, [[True, False]] * 19
    threshold = conformal_factuality_threshold(scores, labels, alpha=0.05)
    assert threshold == threshold.threshold == 0.2
    assert threshold.keep([0.9, 0.2, None, math.nan, 0.21]) == [0, 4]
    guarantee = threshold.guarantee
    assert (guarantee.kind, guarantee.level, guarantee.n, guarantee.needed_n) == ("conformal_factuality", 0.95, 19, 19)
    assert "0.95" in guarantee.text
    assert "exchangeable" in guarantee.text
    refused = conformal_factuality_threshold(scores[:18], labels[:18], alpha=0.05)
    assert refused == math.inf
    assert refused.guarantee.text.startswith("No guarantee")
    assert refused.keep([1.0]) == []


def test_a_threshold_survives_copying() -> None:
    threshold = risk_control_threshold([[0.9]] * 9, [[True]] * 9, 0.9)
    for again in (pickle.loads(pickle.dumps(threshold)), copy.deepcopy(threshold)):
        assert isinstance(again, CalibratedThreshold)
        assert (again, again.guarantee) == (threshold, threshold.guarantee)


@pytest.mark.parametrize("threshold", [
    lambda s, t: conformal_factuality_threshold(s, t, 0.2), lambda s, t: risk_control_threshold(s, t, 0.7),
    lambda s, t: learn_then_test_threshold(s, t, 0.7),
])  # fmt: skip
class TestAllThree:
    def test_claims_of_unknown_score_do_not_count_and_are_never_kept(self, threshold: Any) -> None:
        scores = [[0.1 * (i % 7), 0.9] for i in range(30)]
        labels = [[i % 3 == 0, True] for i in range(30)]
        plain = threshold(scores, labels)
        unknown = threshold([[*s, None, math.nan] for s in scores], [[*t, False, True] for t in labels])
        assert plain == unknown
        assert math.isfinite(plain)
        assert unknown.keep([None, math.nan, -math.inf]) == []

    def test_arrays_are_taken(self, threshold: Any) -> None:
        scores = np.random.default_rng(0).random((40, 3))
        labels = np.random.default_rng(1).random((40, 3)) < scores
        assert threshold(scores, labels) == threshold(scores.tolist(), labels.tolist())

    @pytest.mark.parametrize(("scores", "labels"), [
        ([], []), ([[0.5]], []), ([[0.5]], [[True, False]]), ([0.5], [True]), ([[math.inf]], [[True]]),
        ([["0.5"]], [[True]]), ([[0.5]], [[None]]), ([[0.5]], [["yes"]]), ([[0.5]], [[0.5]]),
    ])  # fmt: skip
    def test_bad_input(self, threshold: Any, scores: Any, labels: Any) -> None:
        with pytest.raises(InputError):
            threshold(scores, labels)


@pytest.mark.parametrize("value", [0, 1, -1, math.nan, None, True])
def test_levels_out_of_range(value: Any) -> None:
    with pytest.raises(SettingsError):
        conformal_factuality_threshold([[0.5]], [[True]], value)
    with pytest.raises(SettingsError):
        risk_control_threshold([[0.5]], [[True]], value)
    with pytest.raises(SettingsError):
        learn_then_test_threshold([[0.5]], [[True]], 0.5, value)
    if value is not True and value != 1:
        with pytest.raises(SettingsError):
            conformal_factuality_threshold([[0.5]], [[True]], 0.1, value)


def test_learn_then_test_needs_answers_even_without_errors() -> None:
    for n, claimed in ((6, False), (7, True)):  # 0.7^7 <= 0.1 < 0.7^6
        threshold = learn_then_test_threshold([[0.5]] * n, [[True]] * n, 0.7)
        assert threshold.guarantee.claimed == claimed
        assert (threshold == 0.0) == claimed
        assert math.isfinite(threshold) == claimed


def test_learn_then_test_grid() -> None:
    scores, labels = [[0.8, 0.3]] * 200, [[True, False]] * 200
    assert learn_then_test_threshold(scores, labels, 0.7, thresholds=[0.1, 0.5, 0.9]) == 0.5
    for grid in ([], [math.nan]):
        with pytest.raises(InputError):
            learn_then_test_threshold(scores, labels, 0.7, thresholds=grid)


ANSWERS = st.lists(
    st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.5, 0.8, 0.9]), st.booleans()), max_size=5), min_size=1, max_size=12
)


@given(ANSWERS, st.sampled_from([0.3, 0.5, 0.75, 0.9]))
@settings(deadline=None)
def test_risk_control_against_its_definition(answers: list[list[tuple[float, bool]]], rho: float) -> None:
    scores, labels = [[s for s, _ in a] for a in answers], [[t for _, t in a] for a in answers]
    n, candidates = len(answers), sorted({-math.inf, *(s for a in answers for s, _ in a)})

    def false_share(answer: list[tuple[float, bool]], t: float) -> float:
        kept = [is_true for s, is_true in answer if s > t]
        return kept.count(False) / len(kept) if kept else 0.0

    def bound(t: float) -> float:
        losses = [max(false_share(a, u) for u in candidates if u >= t) for a in answers]
        return n / (n + 1) * sum(losses) / n + 1 / (n + 1)

    allowed = [t for t in candidates if bound(t) <= 1 - rho + 1e-12]
    assert risk_control_threshold(scores, labels, rho) == min(allowed, default=math.inf)


def test_the_guarantees_hold_on_average() -> None:
    """On fresh answers of the same kind, averaged over 150 calibrations (3 standard errors of slack)."""
    rng = np.random.default_rng(7)

    def draw(n: int) -> tuple[list[list[float]], list[list[bool]]]:
        scores = [rng.random(rng.integers(1, 6)).tolist() for _ in range(n)]
        return scores, [[bool(rng.random() < p**0.7) for p in answer] for answer in scores]

    wrong, shares = [], []
    for _ in range(150):
        calibration, (scores, labels) = draw(60), draw(60)
        factual = conformal_factuality_threshold(*calibration, 0.2)
        risk = risk_control_threshold(*calibration, 0.8)
        for s, t in zip(scores, labels):
            wrong.append(not all(t[i] for i in factual.keep(s)))
            kept = [t[i] for i in risk.keep(s)]
            shares.append(kept.count(False) / len(kept) if kept else 0.0)
    assert 0.1 < np.mean(wrong) <= 0.2 + 0.02
    assert 0.1 < np.mean(shares) <= 0.2 + 0.02
