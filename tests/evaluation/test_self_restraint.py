from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.abstention import penalty
from shared_core.errors import InputError, SettingsError
from shared_core.evaluation.metrics.confidence import self_restraint

TABLES = {
    c["name"]: c["expected"]["rows"]
    for c in json.loads((Path(__file__).parents[1] / "parity" / "research_tables.json").read_text())["cases"]
}
LABELS = st.lists(st.one_of(st.none(), st.lists(st.booleans(), max_size=6)), min_size=1, max_size=15)


@given(LABELS, st.sampled_from([0.2, 0.5, 0.8]))
@settings(deadline=None)
def test_identities(labels: list[list[bool] | None], rho: float) -> None:
    result = self_restraint(labels, rho)
    claims, accuracy = result.claims_per_answer, result.accuracy
    if claims:
        assert result.utility == pytest.approx(claims * (accuracy - penalty(rho) * (1 - accuracy)))
        assert claims / (1 - result.abstention_rate) == pytest.approx(result.claims_per_given_answer)
        assert 0 <= result.macro_accuracy <= 1
        if rho == 0.5:
            assert result.utility == pytest.approx(claims * (2 * accuracy - 1))
    else:
        assert math.isnan(accuracy)
        assert math.isnan(result.claims_per_given_answer)
        assert (result.utility, result.abstention_rate) == (0, 1)


def test_an_example() -> None:
    result = self_restraint([[True, True, True, False], [False], None, []], 0.5)
    assert result == (3 / 5, 3 / 8, 5 / 4, 5 / 2, 0.5, 1 / 4, 4)


def test_the_identity_needs_micro_accuracy() -> None:
    """With the macro accuracies the paper's tables show, it fails by up to .38: the tables are no check of it."""
    rows = TABLES["table_1"] + TABLES["table_2"]
    gaps = [abs(r["claims"] * (2 * r["accuracy"] - 1) - r["utility_rho_0.5"]) for r in rows]
    assert 0.3 < max(gaps) < 0.4
    assert sum(gap > 0.1 for gap in gaps) > 5
    uneven = self_restraint([[True] * 9 + [False], [False]])
    assert uneven.claims_per_answer * (2 * uneven.macro_accuracy - 1) != pytest.approx(uneven.utility)


def test_published_rates_hang_together() -> None:
    """C/(1-A) of the given answers of Table 11 falls with ρ*, as abstention rises."""
    rows = [r for r in TABLES["table_11"] if r["threshold"] is not None]
    assert [r["threshold"] for r in rows] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    abstention = [r["abstention_rate"] for r in rows]
    assert abstention == sorted(abstention)
    assert (abstention[0], abstention[-1]) == (0.01, 0.775)
    assert (rows[0]["accuracy"], rows[-1]["accuracy"]) == (0.613, 0.85)


@pytest.mark.parametrize(
    ("labels", "rho", "error"),
    [([], 0.5, InputError), ([[None]], 0.5, InputError), ([["T"]], 0.5, InputError), ([[True]], 1.0, SettingsError)],
)
def test_bad_input(labels: Any, rho: float, error: type[Exception]) -> None:
    with pytest.raises(error):
        self_restraint(labels, rho)
