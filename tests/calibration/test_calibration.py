"""Calibrations: monotone, honest about what they are for, and the same after a trip through a file."""

from __future__ import annotations

import json
import math
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.calibration import Calibration, choose_threshold, fit_calibration
from shared_core.calibration import io as calibration_io
from shared_core.errors import CalibrationError, InputError

BOUND = {"model": "tiny", "estimator": "gram", "k": 20, "layer": 2, "hidden": "mlp"}
SCORES = st.floats(-1e6, 1e6)


def sample(n: int = 400, seed: int = 0, increasing: bool = False) -> tuple[Any, Any]:
    """Scores whose true probability is logistic, so that a calibration can be checked against the truth."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n) * 2 - 5
    slope = 1.5 if increasing else -1.5
    return scores, (rng.random(n) < 1 / (1 + np.exp(-slope * (scores + 5)))).astype(int)


@pytest.fixture(scope="module", params=[("isotonic", False), ("isotonic", True), ("platt", False), ("platt", True)])
def fitted(request: pytest.FixtureRequest) -> Calibration:
    method, increasing = request.param
    scores, labels = sample(increasing=increasing)
    return fit_calibration(scores, labels, bound_to=BOUND, method=method, increasing=increasing)


@given(a=SCORES, b=SCORES)
@settings(deadline=None, derandomize=True, max_examples=80)
def test_monotone_and_a_probability(fitted: Calibration, a: float, b: float) -> None:
    low, high = sorted((a, b))
    p, q = fitted.probability(low), fitted.probability(high)
    assert p is not None
    assert q is not None
    assert 0 <= p <= 1
    assert 0 <= q <= 1
    assert (p <= q) if fitted.increasing else (p >= q)


def test_close_to_the_truth_and_better_than_the_base_rate(fitted: Calibration) -> None:
    slope = 1.5 if fitted.increasing else -1.5
    for score in (-7.0, -5.0, -3.0):
        assert fitted.probability(score) == pytest.approx(1 / (1 + math.exp(-slope * (score + 5))), abs=0.15)
    assert fitted.metrics["brier"] < fitted.metrics["brier_constant"]
    assert fitted.metrics["auroc"] > 0.8
    assert fitted.metrics["ece"] < 0.12
    assert (fitted.n, fitted.unknown) == (400, 0)


def test_unknown_stays_unknown(fitted: Calibration) -> None:
    assert fitted.probabilities([None, math.nan, math.inf, -math.inf]) == [None] * 4


def test_agrees_with_scikit_learn() -> None:
    from sklearn.isotonic import IsotonicRegression

    scores, labels = sample(100)
    ours = fit_calibration(scores, labels, bound_to={}, method="isotonic")
    margin = 1 / 102
    theirs = IsotonicRegression(y_min=margin, y_max=1 - margin, increasing=False, out_of_bounds="clip")
    theirs.fit(scores, labels)
    grid = np.linspace(-15, 5, 57)
    assert ours.probabilities(list(grid)) == pytest.approx(list(theirs.predict(grid)))


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_nothing_is_certain_even_where_scores_separate(method: Any) -> None:
    scores, labels = np.arange(30.0), np.arange(30) < 15
    made = fit_calibration(scores, labels, bound_to={}, method=method)
    values = [made.probability(s) for s in (0.0, 29.0)]
    assert values[0] is not None
    assert values[1] is not None
    assert 0.9 < values[0] < 1
    assert 0 < values[1] < 0.1


@given(
    scores=st.lists(st.integers(-1000, 1000), min_size=20, max_size=60),
    cut=st.integers(5, 15),
    probe=SCORES,
    increasing=st.booleans(),
)
@settings(deadline=None, derandomize=True, max_examples=60)
def test_platt_says_no_more_than_its_rows_allow(scores: list[int], cut: int, probe: float, increasing: bool) -> None:
    x = np.array(scores) / 100
    right = np.argsort(np.argsort(x if increasing else -x)) >= cut  # as well apart as can be: the steepest slopes
    made = fit_calibration(x, right, bound_to={}, method="platt", increasing=increasing)
    p = made.probability(probe)
    assert p is not None
    assert 1 / (made.n - made.positives + 2) <= p <= (made.positives + 1) / (made.positives + 2)
    assert p == made.probability(min(max(probe, x.min()), x.max()))  # nothing is known beyond the scores seen


def test_platt_of_an_earlier_version_is_bounded_when_it_is_read() -> None:
    old = Calibration("platt", False, {}, slope=-56.0, intercept=-364.0, n=30, positives=20).to_dict()
    for name in ("low", "high", "floor", "ceiling"):
        del old[name]
    assert Calibration.from_dict(old).probability(-9.0) == pytest.approx(21 / 22)
    assert Calibration.from_dict(old).probability(0.0) == pytest.approx(1 / 12)


def test_a_score_of_the_wrong_direction_tells_nothing() -> None:
    scores, labels = sample(increasing=True)
    for method in ("isotonic", "platt"):
        made = fit_calibration(scores, labels, bound_to={}, method=method, increasing=False)  # type: ignore[arg-type]
        values = made.probabilities([-9.0, -5.0, -1.0])
        assert values == pytest.approx([labels.mean()] * 3, abs=0.03)


def test_raw_probabilities_get_figures_before_and_after() -> None:
    rng = np.random.default_rng(1)
    p = rng.random(600)
    labels = rng.random(600) < p**3  # over-confident
    made = fit_calibration(p, labels, bound_to={}, increasing=True)
    assert made.metrics["ece"] < made.metrics["ece_before"]
    assert made.metrics["brier"] < made.metrics["brier_before"]


def test_rows_without_a_score_are_left_out_and_counted() -> None:
    scores, labels = sample(60)
    scores[:5] = [math.nan, math.inf, -math.inf, math.nan, math.inf]
    made = fit_calibration(scores, labels, bound_to={})
    assert (made.n, made.unknown) == (55, 5)


def test_refusals_of_fit() -> None:
    scores, labels = sample(60)
    for bad in ((scores[:5], labels[:5]), (scores, np.ones(60)), (np.full(60, math.nan), labels)):
        with pytest.raises(CalibrationError) as caught:
            fit_calibration(*bad, bound_to={})
        assert caught.value.hint
    for wrong in ((scores, labels[:-1]), (scores, labels + 0.5), ("x", labels)):
        with pytest.raises(InputError):
            fit_calibration(*wrong, bound_to={})
    with pytest.raises(InputError):
        fit_calibration(scores, labels, bound_to={}, method="magic")  # type: ignore[arg-type]
    rising = np.arange(40.0)
    with pytest.raises(CalibrationError, match="4 positives are not enough"):
        fit_calibration(rising, rising < 4, bound_to={})
    assert fit_calibration(rising, rising < 5, bound_to={}).positives == 5


# --- what it is for -----------------------------------------------------------------------------------------------


def test_use_with_another_configuration_is_refused(fitted: Calibration) -> None:
    assert fitted.require(**BOUND) is fitted
    assert fitted.require(**BOUND, reader=None) is fitted
    for change in ({"model": "other"}, {"k": 10}, {"layer": None}, {"hidden": "residual"}, {"reader": "x"}):
        with pytest.raises(CalibrationError, match=next(iter(change))) as caught:
            fitted.require(**{**BOUND, **change})
        assert "selfreflect calibrate" in caught.value.hint


def test_frozen_hashable_and_picklable(fitted: Calibration) -> None:
    with pytest.raises(AttributeError):
        fitted.n = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        fitted.bound_to["k"] = 3  # type: ignore[index]
    assert pickle.loads(pickle.dumps(fitted)) == fitted
    assert hash(fitted) == hash(Calibration.from_dict(fitted.to_dict()))


@pytest.mark.parametrize("change", [
    {"version": 99}, {"method": "magic"}, {"points": []}, {"points": [[0, 0.5], [1, 0.9]]}, {"points": [[0, 1.5]]},
    {"points": [[1, 0.5], [0, 0.4]]}, {"points": [[math.nan, 0.5]]}, {"points": [["x", 0.5]]}, {"points": [[1]]},
    {"points": 3}, {"surprise": 1}, {"method": "platt", "slope": 1.0}, {"method": "platt", "slope": math.nan},
    {"floor": 0.9, "ceiling": 0.1}, {"low": math.inf}, {"threshold": math.nan}, {"threshold": "x"}, {"bound_to": 3},
    {"increasing": "no"},
])  # fmt: skip
def test_damaged_data_is_refused(change: dict[str, Any]) -> None:
    data = Calibration("isotonic", False, BOUND, points=((0.0, 0.9), (1.0, 0.1))).to_dict()
    assert Calibration.from_dict(data).probability(0.5) == 0.5
    with pytest.raises(CalibrationError):
        Calibration.from_dict({**data, **change})


# --- thresholds ---------------------------------------------------------------------------------------------------


def test_threshold_of_balanced_accuracy() -> None:
    scores, right = [1.0, 2.0, 3.0, 4.0, 5.0], [1, 1, 0, 0, 0]
    assert choose_threshold(scores, right) == 2.5
    assert choose_threshold([-s for s in scores], right, increasing=True) == -2.5
    assert choose_threshold([*scores, math.nan], [*right, 1]) == 2.5


@given(st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=2, max_size=15), st.booleans())
@settings(deadline=None, derandomize=True, max_examples=150)
def test_threshold_is_the_best_there_is(rows: list[tuple[int, bool]], increasing: bool) -> None:
    x, y = np.array([r[0] for r in rows], dtype=float), np.array([r[1] for r in rows], dtype=float)
    if y.min() == y.max():
        with pytest.raises(CalibrationError):
            choose_threshold(x, y, increasing=increasing)
        return

    def quality(threshold: float) -> float:
        predicted = x > threshold if increasing else x <= threshold
        return float((predicted[y == 1].mean() + (~predicted[y == 0]).mean()) / 2)

    chosen = choose_threshold(x, y, increasing=increasing)
    assert chosen is not None
    candidates = np.concatenate([np.unique(x) + 0.5, [x.min() - 0.5]])
    # At least one side is always accepted, so accepting nothing is no candidate unless it is no better than chance.
    assert quality(chosen) >= max(max(map(quality, candidates)), 0.5) - 1e-9


def test_threshold_for_a_target() -> None:
    scores, right = [1, 2, 3, 4, 5, 6], [1, 1, 0, 1, 0, 0]
    assert choose_threshold(scores, right, rule="target_accuracy", target=0.75) == 4.5
    assert choose_threshold(scores, right, rule="target_accuracy", target=1.0) == 2.5
    assert choose_threshold(scores, right, rule="target_accuracy", target=0.5) == 6
    assert choose_threshold(scores, [0, 1, 1, 1, 1, 1], rule="target_accuracy", target=1.0) is None
    up = choose_threshold([1, 2], [1, 1], rule="target_accuracy", target=0.5, increasing=True)
    assert up is not None
    assert 0 < up < 1  # accepts both
    with pytest.raises(InputError):
        choose_threshold(scores, right, rule="target_accuracy")
    with pytest.raises(CalibrationError):
        choose_threshold([], [])


# --- files --------------------------------------------------------------------------------------------------------


def test_file_round_trip(tmp_path: Path, fitted: Calibration) -> None:
    path = tmp_path / "new" / "calibration.json"
    made = {"gate": fitted.with_threshold(-5.5, "balanced accuracy"), "support": fitted}
    calibration_io.save(path, made)
    assert calibration_io.load(path) == made
    assert json.loads(path.read_text())["calibrations"]["gate"]["bound_to"]["model"] == "tiny"
    calibration_io.save(path, {"gate": fitted})
    assert list(calibration_io.load(path)) == ["gate"]
    assert os.listdir(path.parent) == ["calibration.json"]


HEAD = '{"format": "selfreflect-calibrations", "version": '
CLAIMS = '1, "calibrations": {"claims": {"names": ["a"], "weights": [1], "silent": [0], "intercept": 0, %s}}}'


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"a": 1}', HEAD + "2}", HEAD + "1}", HEAD + '1, "calibrations": {"x": 3}}',
     HEAD + '1, "calibrations": {"x": {}}}',
     HEAD + CLAIMS % '"signals": null', HEAD + CLAIMS % '"metrics": "x"',
     HEAD + CLAIMS % '"signals": {"claims": [NaN]}', HEAD + CLAIMS % '"signals": {"claims": ["a"]}',
     HEAD + '1, "calibrations": {}}', "[" * 100_000],
)  # fmt: skip
def test_files_that_are_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(CalibrationError) as caught:
        calibration_io.load(path)
    assert caught.value.hint
    assert str(path) in caught.value.message


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ({"slope": math.nan}, "slope"),
        ({"low": 1.0, "high": 0.0}, "its range ends before it begins"),
        ({"signals": {"claims": [1.0, math.nan]}}, "'claims' is not finite"),
        ({"signals": {"claims": ["many"]}}, "many"),
    ],
)
def test_a_damaged_entry_is_refused_when_it_is_read_by_file_and_purpose(
    tmp_path: Path, damage: dict[str, Any], told: str
) -> None:
    path = tmp_path / "c.json"
    sound = Calibration("platt", True, BOUND, slope=2.0, signals={"claims": (1.0, 2.0)})
    calibration_io.save(path, {"confidence": sound, "support": sound})
    content = json.loads(path.read_text())
    content["calibrations"]["support"] |= damage
    path.write_text(json.dumps(content))
    with pytest.raises(CalibrationError, match=told) as caught:
        calibration_io.load(path)
    assert f"{path}, support: " in caught.value.message


def test_a_byte_order_mark_is_no_damage(tmp_path: Path, fitted: Calibration) -> None:
    path = tmp_path / "c.json"
    calibration_io.save(path, {"gate": fitted})
    path.write_text("\ufeff" + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert calibration_io.load(path) == {"gate": fitted}


def test_missing_and_unwritable_files(tmp_path: Path, fitted: Calibration, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CalibrationError, match="no calibration file"):
        calibration_io.load(tmp_path / "none.json")
    with pytest.raises(CalibrationError):
        calibration_io.save(tmp_path / "c.json", {})
    path = tmp_path / "c.json"
    calibration_io.save(path, {"old": fitted})

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(CalibrationError, match="disk full"):
        calibration_io.save(path, {"new": fitted})
    assert list(calibration_io.load(path)) == ["old"]  # whole, and nothing left beside it
    assert os.listdir(tmp_path) == ["c.json"]
