"""Fitted guarantees: what they keep, what they say of themselves, what they refuse; coverage; the check for drift."""

from __future__ import annotations

import dataclasses
import gzip
import json
import math
import pickle
import re
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.abstention import conformal_factuality_threshold, risk_control_threshold
from shared_core.calibration import GUARANTEES, DriftWatch, FittedGuarantee, fit_guarantee, two_sample_p
from shared_core.errors import CalibrationError, InputError, SettingsError
from shared_core.settings import GuaranteeName

BIOGRAPHIES = Path(__file__).parents[2] / "../shared/data/claims/biographies.jsonl.gz"


def answers(n: int, right: float = 0.7, seed: int = 0) -> tuple[list[list[float]], list[list[bool]]]:
    """Claims whose score says something of their truth."""
    rng = np.random.default_rng(seed)
    scores, labels = [], []
    for _ in range(n):
        truth = rng.random(4) < right
        scores.append([float(s) for s in np.clip(rng.normal(np.where(truth, 0.7, 0.4), 0.15), 0, 1)])
        labels.append([bool(t) for t in truth])
    return scores, labels


def fit(kind: Any = "conformal_factuality", n: int = 200, target: float = 0.8, **more: Any) -> FittedGuarantee:
    return fit_guarantee(kind, *answers(n), target_accuracy=target, **more)


@pytest.mark.parametrize("kind", GUARANTEES)
def test_it_says_what_holds_under_which_conditions_and_what_it_keeps(kind: Any) -> None:
    fitted = fit(kind, target=0.8, alpha=0.2)
    told = fitted.describe()
    assert told["n"] == 200
    assert told["target_accuracy"] == 0.8
    assert told["alpha"] == (None if kind == "conformal_risk_control" else 0.2)
    assert "exchangeable with the 200 calibration answers" in told["text"]
    kept = [s > fitted.bar for answer in answers(200)[0] for s in answer]
    assert told["kept_share"] == pytest.approx(np.mean(kept))
    assert 0 < told["kept_share"] < 1
    assert not told["vacuous"]
    assert fitted.bar >= 0.8


def test_a_promise_may_fail_one_time_in_ten_unless_said_otherwise() -> None:
    assert fit() == fit(alpha=0.1)
    assert fit(alpha=0.05).threshold > fit().threshold


def test_the_thresholds_are_those_of_the_methods() -> None:
    scores, labels = answers(100)
    made = fit_guarantee("conformal_factuality", scores, labels, target_accuracy=0.8, alpha=0.2)
    assert made.threshold == conformal_factuality_threshold(scores, labels, 0.2, 0.8)
    made = fit_guarantee("conformal_risk_control", scores, labels, target_accuracy=0.8)
    assert made.threshold == risk_control_threshold(scores, labels, 0.8)


def test_learn_then_test_keeps_to_the_thresholds_it_tested() -> None:
    fitted = fit_guarantee(
        "learn_then_test", [[0.9, 0.955]] * 300, [[True, True]] * 300, target_accuracy=0.555, alpha=0.1
    )
    assert fitted.bar == 0.56
    assert dataclasses.replace(fitted, target_accuracy=0.715).bar == 0.72  # above all thresholds that were needed


@pytest.mark.parametrize(
    ("kind", "n"), [("conformal_factuality", 8), ("conformal_risk_control", 3), ("learn_then_test", 10)]
)
def test_below_the_needed_answers_it_is_refused(kind: Any, n: int) -> None:
    with pytest.raises(CalibrationError, match="too few"):
        fit(kind, n=n, target=0.8)


def test_a_vacuous_one_says_so() -> None:
    fitted = fit_guarantee("conformal_factuality", [[0.9, 0.8]] * 20, [[False, False]] * 20, target_accuracy=0.8)
    assert fitted.vacuous
    assert fitted.kept_share == 0
    assert fitted.describe()["text"].startswith("Vacuous: it keeps none of 40")
    assert "All 40 calibration claims are wrong" in fitted.text


def test_answers_without_claims_promise_nothing_about_claims() -> None:
    fitted = fit_guarantee("conformal_factuality", [[]] * 20, [[]] * 20, target_accuracy=0.8)
    assert fitted.vacuous
    assert fitted.threshold == -math.inf
    assert fitted.describe()["threshold"] is None


@pytest.mark.parametrize("wrong", [{"target_accuracy": 1.0}, {"target_accuracy": 0.0}, {"alpha": 0.0}, {"alpha": 1.0}])
@pytest.mark.parametrize("kind", GUARANTEES)
def test_levels_out_of_range_are_refused(kind: Any, wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError):
        fit_guarantee(kind, *answers(50), **{"target_accuracy": 0.8, "alpha": 0.1, **wrong})


def test_the_setting_names_what_can_be_fitted() -> None:
    assert get_args(GuaranteeName) == GUARANTEES


def test_what_is_no_guarantee_is_refused() -> None:
    with pytest.raises(SettingsError, match="Choose from: conformal_factuality"):
        fit("certainty")
    with pytest.raises(InputError):
        fit_guarantee("conformal_factuality", [[0.5]], [], target_accuracy=0.8)
    with pytest.raises(CalibrationError):
        FittedGuarantee.from_dict({"kind": "x"})
    with pytest.raises(CalibrationError):
        FittedGuarantee.from_dict({**fit().to_dict(), "version": 99})


def test_it_survives_writing_and_pickling() -> None:
    for made in (fit(signals={"best": [1.0] * 200}, bound_to={"model": "m"}), fit(target=0.3)):
        assert FittedGuarantee.from_dict(json.loads(json.dumps(made.to_dict(), allow_nan=False))) == made
        assert pickle.loads(pickle.dumps(made)) == made
    everything = fit_guarantee("conformal_factuality", [[]] * 20, [[]] * 20, target_accuracy=0.8)
    assert FittedGuarantee.from_dict(json.loads(json.dumps(everything.to_dict(), allow_nan=False))) == everything


def test_another_configuration_is_named() -> None:
    made = fit(bound_to={"model": "a", "top_k": 5})
    assert made.require(model="a", top_k=5) is made
    with pytest.raises(CalibrationError, match="model 'a', not 'b'"):
        made.require(model="b", top_k=5)


def test_settings_that_differ_can_be_set_back() -> None:
    fitted = fit(bound_to={"pipeline": "composed", "top_k": 5})
    with pytest.raises(CalibrationError) as found:
        fitted.require(pipeline="composed", top_k=1000)
    assert "settings that it was fitted for: top_k=5" in str(found.value)
    with pytest.raises(CalibrationError) as found:
        fitted.require(pipeline="composed", top_k=1000, model="another")
    assert "settings that it was fitted for" not in str(found.value)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_higher_bar_never_breaks_the_promise_on_the_calibration_answers(data: Any) -> None:
    """Conformal factuality: whatever bar at or above the threshold, at most α(n+1) answers fail."""
    scores, labels = answers(60, seed=data.draw(st.integers(0, 1000)))
    made = fit_guarantee("conformal_factuality", scores, labels, target_accuracy=0.75, alpha=0.2)
    bar = made.bar + data.draw(st.floats(0, 0.5))
    kept = [[t for s, t in zip(a, b) if s > bar] for a, b in zip(scores, labels)]
    assert sum(bool(k) and np.mean(k) < 0.75 for k in kept) <= 0.2 * 61


# --- coverage on real claims ---------------------------------------------------------------------------------------


def biographies() -> tuple[list[list[float]], list[list[bool]]]:
    """Claims of model-written biographies with a simple score: short claims without figures are right more often."""
    scores, labels = [], []
    with gzip.open(BIOGRAPHIES, "rt", encoding="utf-8") as file:
        for line in file:
            claims = json.loads(line)["claims"]
            texts = [c["message"] for c in claims]
            scores.append([_simple(t, i, len(texts)) for i, t in enumerate(texts)])
            labels.append([c["annotation"] == "T" for c in claims])
    return scores, labels


def _simple(text: str, place: int, count: int) -> float:
    """Early, short, without digits: in (0, 1)."""
    early = 1 - place / max(count, 1)
    short = 1 / (1 + len(text.split()) / 8)
    return 0.5 * early + 0.3 * short + 0.2 * (re.search(r"\d", text) is None)


@pytest.mark.skipif(not BIOGRAPHIES.exists(), reason="the labelled biographies are not part of the project")
@pytest.mark.parametrize("kind", ["conformal_factuality", "conformal_risk_control"])
def test_the_promised_level_holds_over_random_splits(kind: Any) -> None:
    scores, labels = biographies()
    rng = np.random.default_rng(0)
    level, target, found = 0.9, 0.7, []
    for _ in range(100):
        order = rng.permutation(len(scores))
        first, rest = order[:120], order[120:]
        made = fit_guarantee(
            kind, [scores[i] for i in first], [labels[i] for i in first], target_accuracy=target, alpha=1 - level
        )
        shares = [sum(k) / len(k) if (k := _kept(made.threshold, scores[i], labels[i])) else 1.0 for i in rest]
        found.append(np.mean(np.array(shares) >= target) if kind == "conformal_factuality" else np.mean(shares))
    promised = level if kind == "conformal_factuality" else target
    slack = 3 * np.std(found) / math.sqrt(len(found))  # of the mean over splits
    assert np.mean(found) >= promised - slack
    if kind == "conformal_factuality":  # and no more than a step of 1 / (n + 1) above it, but for ties
        assert np.mean(found) <= promised + 1 / 121 + slack


def _kept(threshold: float, scores: list[float], labels: list[bool]) -> list[bool]:
    return [t for s, t in zip(scores, labels) if s > threshold]


# --- drift ---------------------------------------------------------------------------------------------------------


def test_samples_of_one_distribution_are_seldom_told_apart() -> None:
    rng = np.random.default_rng(0)
    found = [two_sample_p(rng.integers(0, 5, 80), rng.integers(0, 5, 40), shuffles=199) for _ in range(200)]
    assert np.mean(np.array(found) <= 0.05) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 200)


def test_samples_of_different_distributions_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    assert two_sample_p(rng.normal(0, 1, 100), rng.normal(1.5, 1, 50)) < 0.001
    assert two_sample_p([1.0] * 30, [1.0] * 30) == 1.0
    for wrong in ([], [math.nan]):
        with pytest.raises(InputError):
            two_sample_p([1.0], wrong)


def test_a_watch_says_which_signals_look_otherwise_and_takes_it_back() -> None:
    rng = np.random.default_rng(1)
    watch = DriftWatch({"best": rng.random(100).tolist(), "claims": [2.0] * 100}, window=40)
    for value in rng.random(40):
        watch.see({"best": float(value), "claims": 2.0})
    assert watch.checked == 40
    assert watch.drifted == {}
    for _ in range(40):
        watch.see({"best": 0.01, "claims": 2.0})
    assert list(watch.drifted) == ["best"]
    for value in rng.random(40):
        watch.see({"best": float(value), "claims": 2.0, "something else": 1.0})
    assert watch.drifted == {}
    assert pickle.loads(pickle.dumps(watch)).checked == 120


def test_without_a_reference_nothing_is_watched() -> None:
    watch = DriftWatch({})
    watch.see({"best": 1.0})
    assert (watch.checked, watch.drifted) == (0, {})
