from __future__ import annotations

import math

import numpy as np
import pytest

from shared_core.evaluation.compare.figures import Draws, percentiles
from shared_core.evaluation.metrics.confidence import auroc


def draws_of(*columns: np.ndarray, seed: int = 0, resamples: int = 400) -> Draws:
    statistics = {str(i): (lambda at, v=v: {"mean": float(v[at].mean())}) for i, v in enumerate(columns)}
    return Draws(statistics, len(columns[0]), resamples=resamples, seed=seed)


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    random = np.random.default_rng(5)
    truth = 0.6 - float(np.mean(random.random(400_000) + random.normal(0, 0.2, 400_000) < 0.6))
    means, differences, n = 0, 0, 120
    for trial in range(n):
        hard = random.random(80)  # what makes a question hard does so for both
        one, other = (hard < 0.6).astype(float), (hard + random.normal(0, 0.2, 80) < 0.6).astype(float)
        draws = draws_of(one, other, seed=trial)
        interval = draws.interval("0", "mean")
        assert interval is not None
        means += interval.low <= 0.6 <= interval.high
        paired = draws.difference("0", "1", "mean")
        assert paired is not None
        differences += paired.low <= truth <= paired.high
    assert 0.88 <= means / n <= 0.99
    assert 0.88 <= differences / n <= 0.99


def test_a_figure_that_is_no_mean_is_covered_too() -> None:
    random = np.random.default_rng(3)
    covered, n = 0, 60
    for trial in range(n):
        right = (random.random(120) < 0.5).astype(float)
        sure = random.normal(right, 1.0)  # of normals a standard deviation apart: P(X > Y) = Φ(1/√2)
        draws = Draws({"a": lambda at, s=sure, r=right: {"auroc": auroc(s[at], r[at])}}, 120, resamples=300, seed=trial)
        interval = draws.interval("a", "auroc")
        assert interval is not None
        covered += interval.low <= 0.7602 <= interval.high
    assert 0.85 <= covered / n <= 1.0


def test_pairing_makes_differences_narrower() -> None:
    random = np.random.default_rng(0)
    hard = random.random(200)
    one, other = (hard < 0.6).astype(float), (hard < 0.55).astype(float)
    paired = draws_of(one, other).difference("0", "1", "mean")
    single = draws_of(one, other).interval("0", "mean")
    assert paired is not None
    assert single is not None
    assert paired.high - paired.low < 0.6 * (single.high - single.low)  # unpaired it would be 1.4 times


def test_where_draws_cannot_tell_there_is_no_interval() -> None:
    assert percentiles([]) is None
    assert percentiles([1.0] * 100) is None  # twenty right answers of twenty say nothing of the next one's odds
    assert percentiles([math.nan] * 20 + list(np.linspace(0, 1, 80))) is None
    assert percentiles([math.nan] * 5 + list(np.linspace(0, 1, 95))) == pytest.approx((0.025, 0.975))
    assert draws_of(np.array([0.0, 1.0]), resamples=0).interval("0", "mean") is None
    assert Draws({"a": lambda at: {"mean": 0.0}}, 0).interval("a", "mean") is None
    assert draws_of(np.array([0.0, 1.0])).interval("0", "another") is None
