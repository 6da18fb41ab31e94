"""The threshold of the gate: from the settings or a calibration of this very configuration, and nowhere else."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from shared_core.calibration import Calibration
from shared_core.errors import CalibrationError
from shared_core.lm.base import Capabilities
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.gating.choose import Form, Threshold, choose_estimator, choose_threshold
from tests.pipelines.scripts import WHITE
from tests.pipelines.test_measure import context, settings


def fitted(threshold: float | None, intercept: float = 0.0, able: Capabilities = WHITE, **seakr: Any) -> Calibration:
    """A calibration of a white-box model's gate, with 20 samples."""
    lm = ScriptedLM(capabilities=able)
    chosen = choose_estimator(settings(samples=20, **seakr), context(lm))
    bound = {"model": lm.name, **chosen.binding}
    return Calibration("platt", False, bound, slope=-1.0, intercept=intercept, threshold=threshold)


def threshold(
    calibration: Calibration | None = None,
    *,
    model: str = "scripted",
    able: Capabilities = WHITE,
    form: Form = "answer",
    target: float = 0.5,
    **seakr: Any,
) -> Threshold:
    options = settings(**{"samples": 20, **seakr}).replace(target_accuracy=target)
    calibrations = {} if calibration is None else {"gate": calibration}
    here = context(ScriptedLM(capabilities=able, name=model), calibrations=calibrations)
    return choose_threshold(choose_estimator(options, here, form=form), options, here)


def test_thresholds_come_from_the_settings_then_calibration_and_nowhere_else() -> None:
    assert threshold(threshold=-3.0).value == -3.0
    assert threshold().value is None
    assert threshold(fitted(-2.0)).value == -2.0
    assert threshold(fitted(None)).value is None  # fitted, and says: retrieve always


def test_below_a_calibrated_threshold_too_a_model_that_is_more_often_wrong_retrieves() -> None:
    asked = threshold(fitted(0.0, intercept=-2.0), target=0.6)
    assert not asked.decide(-3.0)[0]  # p = .73
    assert asked.decide(-2.3) == (True, "at uncertainty -2.300 the model is right with p = 0.57 ≤ 0.6")
    assert asked.decide(0.1)[0]


@pytest.mark.parametrize("seakr", [{}, {"samples": 10}, {"estimator": "normalized_gram"}])
def test_the_paper_s_threshold_is_nobody_s_default(seakr: dict[str, Any]) -> None:
    """It is of Llama 2 7B: by it a random model knows everything."""
    found = threshold(**seakr)
    assert found.value is None
    assert found.decide(-100.0)[0]
    assert "calibrate" in found.source


def test_a_threshold_for_one_estimator_is_not_used_for_its_stand_in() -> None:
    assert threshold(able=Capabilities(token_logprobs=True), threshold=-3.0).value is None


@pytest.mark.parametrize("other", [
    {"samples": 10}, {"layer": 3}, {"hidden": "residual"}, {"temperature": 0.5}, {"alpha": 0.1},
    {"estimator": "eigenscore"}, {"position": "last"}, {"max_step_tokens": 50}, {"top_p": 1.0}, {"model": "other"},
    {"form": "step"},
])  # fmt: skip
def test_a_calibration_of_another_configuration_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(CalibrationError, match="fitted for"):
        threshold(fitted(-2.0), **other)


def test_the_middle_layer_is_bound_by_its_number() -> None:
    """Which layer is read by default has changed: what was fitted before is not to load silently."""
    known = dataclasses.replace(WHITE, layers=6)
    assert threshold(fitted(-2.0, able=known), able=known, layer=2).value == -2.0
    with pytest.raises(CalibrationError, match="layer 2, not 3"):
        threshold(fitted(-2.0, able=known), able=known, layer=3)
    before = fitted(-2.0, able=known)
    before = dataclasses.replace(before, bound_to={**before.bound_to, "layer": None})
    for able, layer in ((known, "2"), (WHITE, "'middle'")):
        with pytest.raises(CalibrationError, match=rf"layer None, not {layer}.*the one above today's"):
            threshold(before, able=able)


def test_what_was_fitted_to_states_at_the_end_of_a_sequence_is_no_calibration_of_its_last_token() -> None:
    """Position "last" used to read the EOS token of samples that had one."""
    before = fitted(-2.0, position="last")
    assert threshold(before, position="last").value == -2.0
    before = dataclasses.replace(before, bound_to={**before.bound_to, "position": "last"})
    with pytest.raises(CalibrationError, match="position 'last', not 'last of the text'"):
        threshold(before, position="last")


def test_where_no_hidden_state_is_read_no_layer_is_bound() -> None:
    options = settings(estimator="perplexity")
    chosen = choose_estimator(options, context(ScriptedLM(capabilities=dataclasses.replace(WHITE, layers=6))))
    assert chosen.binding["layer"] is None


@pytest.mark.parametrize(("uncertainty", "retrieves"), [
    (math.nan, True), (math.inf, True), (5.1, True), (5.0, False),  # retrieve if U > δ
])  # fmt: skip
def test_what_is_above_the_threshold_or_unknown_retrieves(uncertainty: float, retrieves: bool) -> None:
    assert threshold(threshold=5.0).decide(uncertainty)[0] is retrieves
