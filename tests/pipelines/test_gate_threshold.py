"""The threshold of the gate: from the settings or a calibration of this very configuration, and nowhere else."""

from __future__ import annotations

import math
from typing import Any

import pytest

from shared_core.calibration import Calibration
from shared_core.errors import CalibrationError
from shared_core.lm.base import Capabilities
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.gating.choose import ChosenEstimator, choose_estimator, choose_threshold
from shared_core.settings import SelfReflectSettings
from tests.pipelines.scripts import WHITE
from tests.pipelines.test_measure import context, settings


def estimator_of(lm: Any, **seakr: Any) -> tuple[ChosenEstimator, SelfReflectSettings]:
    options = settings(**seakr)
    return choose_estimator(options, context(lm)), options


def test_thresholds_come_from_the_settings_then_calibration_and_nowhere_else() -> None:
    lm = ScriptedLM(capabilities=WHITE)
    chosen, options = estimator_of(lm, threshold=-3.0)
    assert choose_threshold(chosen, options, context(lm)).value == -3.0
    chosen, options = estimator_of(lm, samples=20)
    assert choose_threshold(chosen, options, context(lm)).value is None
    bound = {"model": lm.name, **chosen.binding}
    fitted = Calibration("platt", False, bound, slope=-1.0, threshold=-2.0)
    assert choose_threshold(chosen, options, context(lm, calibrations={"gate": fitted})).value == -2.0


def test_below_a_calibrated_threshold_too_a_model_that_is_more_often_wrong_retrieves() -> None:
    lm = ScriptedLM(capabilities=WHITE)
    chosen, options = estimator_of(lm)
    bound = {"model": lm.name, **chosen.binding}
    fitted = Calibration("platt", False, bound, slope=-1.0, intercept=-2.0, threshold=0.0)
    asked = choose_threshold(chosen, options.replace(target_accuracy=0.6), context(lm, calibrations={"gate": fitted}))
    assert not asked.decide(-3.0)[0]  # p = .73
    assert asked.decide(-2.3) == (True, "at uncertainty -2.300 the model is right with p = 0.57 ≤ 0.6")
    assert asked.decide(0.1)[0]


def test_the_paper_s_threshold_is_nobody_s_default() -> None:
    """It is of Llama 2 7B: by it a random model knows everything."""
    lm = ScriptedLM(capabilities=WHITE)
    for seakr in ({"samples": 20}, {"samples": 10}, {"samples": 20, "estimator": "normalized_gram"}):
        chosen, options = estimator_of(lm, **seakr)
        threshold = choose_threshold(chosen, options, context(lm))
        assert threshold.value is None
        assert threshold.decide(-100.0)[0]
        assert "calibrate" in threshold.source


def test_a_threshold_for_one_estimator_is_not_used_for_its_stand_in() -> None:
    lm = ScriptedLM(capabilities=Capabilities(token_logprobs=True))
    chosen, options = estimator_of(lm, threshold=-3.0)
    assert chosen.estimator.name == "length_normalized_entropy"
    assert choose_threshold(chosen, options, context(lm)).value is None


@pytest.mark.parametrize("other", [
    {"samples": 10}, {"layer": 3}, {"hidden": "residual"}, {"temperature": 0.5}, {"alpha": 0.1},
    {"estimator": "eigenscore"}, {"position": "last"}, {"max_step_tokens": 50}, {"top_p": 1.0}, {"model": "other"},
    {"form": "step"},
])  # fmt: skip
def test_a_calibration_of_another_configuration_is_refused(other: dict[str, Any]) -> None:
    lm = ScriptedLM(capabilities=WHITE, name=other.pop("model", "scripted"))
    fitted_for, _ = estimator_of(ScriptedLM(capabilities=WHITE), samples=20)
    bound = {"model": "scripted", **fitted_for.binding}
    calibrations = {"gate": Calibration("platt", False, bound, slope=-1.0, threshold=-2.0)}
    form = other.pop("form", "answer")
    options = settings(**{"samples": 20, **other})
    here = context(lm, calibrations=calibrations)
    with pytest.raises(CalibrationError, match="fitted for"):
        choose_threshold(choose_estimator(options, here, form=form), options, here)


def test_a_calibration_without_threshold_says_retrieve_always() -> None:
    lm = ScriptedLM(capabilities=WHITE)
    chosen, options = estimator_of(lm, samples=20)
    fitted = Calibration("platt", False, {"model": lm.name, **chosen.binding}, slope=-1.0, threshold=None)
    threshold = choose_threshold(chosen, options, context(lm, calibrations={"gate": fitted}))
    assert threshold.value is None


@pytest.mark.parametrize("unknown", [math.nan, math.inf])
def test_an_unknown_uncertainty_retrieves(unknown: float) -> None:
    lm = ScriptedLM(capabilities=WHITE)
    chosen, options = estimator_of(lm, threshold=5.0)
    threshold = choose_threshold(chosen, options, context(lm))
    assert threshold.decide(unknown)[0]
    assert threshold.decide(5.1)[0]
    assert not threshold.decide(5.0)[0]  # retrieve if U > δ
