"""What is calibrated for a pipeline is accepted and applied by the engine and by both plug-ins."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, get_args

import pytest

from langchain_selfreflect import SelfReflectChain
from llamaindex_selfreflect import SelfReflectQueryEngine
from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.calibration import io as calibration_io
from shared_core.evaluation.fitting import fit
from shared_core.settings import PipelineName
from tests.engine.test_confidence_everywhere import SMALL, lamp_model
from tests.fakes import SameEmbedder
from tests.lamps import QUESTIONS, LampCritic, Lamps


class Words(LampCritic):
    """A judge: what all parts of this test share, so that both plug-ins are bound to the same."""

    name = "judge@test"


def asked(door: str, pipeline: Any, question: str, **more: Any) -> tuple[float | None, bool]:
    """(confidence, whether it is calibrated) through that door."""
    settings = SelfReflectSettings(pipeline=pipeline, target_accuracy=0.05, signals="support_only", **SMALL, **more)
    lm = lamp_model("text-only")
    given: dict[str, Any] = {"settings": settings, "judge": Words(), "embedder": SameEmbedder()}
    if door == "llamaindex":
        response = SelfReflectQueryEngine(Lamps(), llm=lm, **given).query(question)
        answer = response.answer
    elif door == "langchain":
        told = SelfReflectChain(retriever=Lamps(), llm=lm, **given).invoke(question).response_metadata["selfreflect"]
        return told["confidence"], told["calibrated"]
    else:
        answer = SelfReflectEngine(Lamps(), lm, **given).answer(question)
    return answer.confidence, answer.calibrated


@pytest.mark.parametrize("pipeline", get_args(PipelineName))
def test_claims_are_applied_through_every_door(pipeline: Any, tmp_path: Path) -> None:
    settings = SelfReflectSettings(pipeline=pipeline, target_accuracy=0.05, signals="support_only", **SMALL)
    engine = SelfReflectEngine(Lamps(), lamp_model("text-only"), settings, judge=Words(), embedder=SameEmbedder())
    fitted = fit("claims", engine, QUESTIONS).calibration
    calibration_io.save(tmp_path / "c.json", {"claims": fitted})
    question = QUESTIONS[1].question
    doors = ("engine", "langchain", "llamaindex")
    plain = [asked(door, pipeline, question) for door in doors]
    found = [asked(door, pipeline, question, calibration=tmp_path / "c.json") for door in doors]
    assert [calibrated for _, calibrated in plain] == [False] * 3
    assert [calibrated for _, calibrated in found] == [True] * 3
    assert found[0][0] is not None
    assert found[0][0] != plain[0][0]
    assert [confidence for confidence, _ in found] == pytest.approx([found[0][0]] * 3, abs=1e-6)


def test_what_is_not_calibrated_is_said_once_a_process(caplog: pytest.LogCaptureFixture) -> None:
    from shared_core.facades import engine as module

    module._warn_uncalibrated.cache_clear()
    with caplog.at_level(logging.WARNING, "shared_core.facades.engine"):
        for door in ("engine", "langchain", "llamaindex", "engine"):
            asked(door, "reclaim", QUESTIONS[1].question)
    assert caplog.text.count("are not calibrated for this model") == 1
