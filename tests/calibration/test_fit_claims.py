"""Calibrating what witnesses say of claims: fitted, written, read, applied, and bound to what it was fitted for."""

from __future__ import annotations

from typing import Any

import pytest

from shared_core.calibration import io as calibration_io
from shared_core.errors import CalibrationError, InputError
from shared_core.evaluation.fitting import fit
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.scripted import ScriptedLM
from shared_core.settings import SelfReflectSettings
from tests.fakes import FirstSentenceReader
from tests.lamps import QUESTIONS, LampCritic, Lamps


def quoting(request: Any) -> str:
    """A model that always quotes and is always sure."""
    return "<reference>S1</reference><claim>It was in " + request.prompt.text.split(" lit in ")[-1][:4] + ".</claim>"


def engine(pipeline: Any = "composed", **values: Any) -> SelfReflectEngine:
    settings = SelfReflectSettings(pipeline=pipeline, **values)
    return SelfReflectEngine(Lamps(), ScriptedLM(quoting), settings, reader=FirstSentenceReader(), critic=LampCritic())


@pytest.mark.parametrize("pipeline", ["composed", "reclaim"])
def test_a_fit_is_written_read_and_applied(pipeline: str, tmp_path: Any) -> None:
    fitted = fit("claims", engine(pipeline), QUESTIONS)
    assert fitted.calibration.n == 60
    assert fitted.calibration.metrics["auroc"] > 0.9
    calibration_io.save(tmp_path / "c.json", {"claims": fitted.calibration})
    calibrated = engine(pipeline, calibration=str(tmp_path / "c.json"))
    right, wrong = calibrated.answer(QUESTIONS[1].question), calibrated.answer(QUESTIONS[3].question)
    assert right.calibrated
    assert not right.abstained
    assert wrong.abstained
    assert wrong.claims[0].support is not None
    assert (right.confidence or 0) > 0.7 > 0.3 > wrong.claims[0].support
    assert not engine(pipeline).answer(QUESTIONS[1].question).calibrated


def test_it_holds_for_its_configuration_only(tmp_path: Any) -> None:
    file = tmp_path / "c.json"
    calibration_io.save(file, {"claims": fit("claims", engine(), QUESTIONS).calibration})
    others = ({"pipeline": "reclaim"}, {"top_k": 3}, {"signals": "support_only"})
    for other in (*others, {"expected_answerable": 0.5}, {"rerank": "none"}, {"candidates": 7}):
        with pytest.raises(CalibrationError, match="fitted for"):
            engine(**{"calibration": str(file), **other})
    over = engine(calibration=str(file)).over(Lamps())
    assert over.context.stack is not None
    assert over.resources.critic is not None
    assert over.resources.critic.name == "critic@test"


def test_what_cannot_be_fitted_is_refused_early() -> None:
    with pytest.raises(CalibrationError, match="Only 5"):
        fit("claims", engine(), QUESTIONS[:5])
    with pytest.raises(InputError, match="language model"):
        fit("claims", SelfReflectEngine(Lamps(), reader=FirstSentenceReader()), QUESTIONS)
    with pytest.raises(CalibrationError, match="too few"):
        fit("claims", engine(), [q for q in QUESTIONS if q.answers])


def test_the_pictures_and_the_summary(tmp_path: Any) -> None:
    fitted = fit("claims", engine(), QUESTIONS)
    assert all(path.exists() for path in fitted.plot(tmp_path))
    assert "stack of signals on 60 rows, 40" in fitted.summary()


@pytest.mark.parametrize("model", [True, False])
def test_drift_of_the_questions_is_told(model: bool, tmp_path: Any) -> None:
    def lamps(**settings: Any) -> SelfReflectEngine:
        return (
            engine(**settings)
            if model
            else SelfReflectEngine(Lamps(), None, SelfReflectSettings(**settings), reader=FirstSentenceReader())
        )

    file = tmp_path / "c.json"
    name = "claims" if model else "confidence"
    calibration_io.save(file, {name: fit(name, lamps(), QUESTIONS).calibration})
    calibrated = lamps(calibration=str(file))
    alike = calibrated.answer_many([q.question for q in QUESTIONS])
    assert all("drift" not in answer.metadata for answer in alike)
    other = calibrated.answer_many([f"{q.question} Tell me all about it." for q in QUESTIONS])
    assert "words of the question" in other[-1].metadata["drift"]
    assert any(d.kind == "drift" and "calibrate again" in d.reason for d in other[-1].trace)
    over = calibrated.over(Lamps())
    assert over.context.drift is calibrated.context.drift
