"""What a confidence is, on every pipeline and with every kind of model: bounded by its witnesses, unknown if they are,
calibrated where a calibration was fitted, which is then what is shown."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.calibration import io as calibration_io
from shared_core.errors import CalibrationError, InputError
from shared_core.evaluation.fitting import FitOptions, fit
from shared_core.lm.base import Capabilities, Generate, Sample, Score
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.confidence import signal_values
from shared_core.settings import PipelineName
from shared_core.types import Answer
from tests.fakes import Critic, FirstSentenceReader, SameEmbedder, Shelf
from tests.lamps import LAMPS, QUESTIONS, LampCritic, Lamps

PIPELINES = get_args(PipelineName)
SMALL: dict[str, Any] = {
    "seakr": {"samples": 2, "multi_hop": False},
    "research": {"samples": 1, "rounds": 1, "splitter": "sentences"},
    "self_rag": {"form": "short", "mode": "always"},
}
TEXT_ONLY = Capabilities()
LOGPROBS = Capabilities(token_logprobs=True)
WHITE = Capabilities(token_logprobs=True, hidden_states=True, score=True)
MODELS = {"text-only": TEXT_ONLY, "log-probabilities": LOGPROBS, "white-box": WHITE}
QUESTION = "When was the lamp lit?"
SAID = "The lamp was lit in 1871."
P = st.none() | st.floats(0, 1) | st.just(math.nan)


def yes(request: Score) -> list[list[float]]:
    """Says yes, relevant, true: whatever does not begin with a word of denial."""
    denials = ("no", "irrel", "false", "unsup", "contra", "part")
    said = [c.text.strip(" [").lower() for c in request.continuations]
    return [[-4.0 if word.startswith(denials) or word in "1234" else -0.1] for word in said]


def model(kind: str, said: str = SAID) -> ScriptedLM:
    """Always claims the same and is always sure, in the form that it is asked for."""

    def reply(request: Generate) -> Any:
        text, params = request.prompt.text, request.params
        if request.model == "judge" or "0 to 100" in text or "probability of" in text:
            said_now = "97"
        elif "\nS1: " in text:
            said_now = f"<reference>S1</reference><claim>{said}</claim>"
        elif text.rstrip().endswith("So the answer is"):
            said_now = f" {said.split()[-1]}\n"
        elif "Question:" in text and "\nAnswer:" in text:
            said_now = f" {said} So the answer is {said.split()[-1]}\n"
        else:
            said_now = said
        tokens = tuple(f"{w} " for w in said_now.split())
        more: dict[str, Any] = {"tokens": tokens, "logprobs": (-0.1,) * len(tokens)} if params.logprobs else {}
        rows = np.eye(params.n, 8, dtype=np.float32) * 0.01
        return [Sample(said_now, hidden_state=rows[i] if params.capture else None, **more) for i in range(params.n)]

    return ScriptedLM(reply, capabilities=MODELS[kind], name=kind, score=yes)


class Reader(FirstSentenceReader):
    """Says one thing of every sentence, quoted ones as well."""

    def _one(self, request: Any) -> Any:
        result = super()._one(request)
        judged = tuple(dataclasses.replace(result.readings[0], quote=s) for s in request.spans)
        return dataclasses.replace(result, judged=judged)


def ask(pipeline: Any, kind: str, quoted: float | None, critic: float | None, **more: Any) -> Answer:
    options = SelfReflectSettings(pipeline=pipeline, **{**SMALL, **more})
    engine = SelfReflectEngine(
        Shelf(),
        model(kind),
        options,
        reader=Reader(quoted, answerable=quoted),
        critic=Critic(critic),
        embedder=SameEmbedder(),
    )
    return engine.answer(QUESTION)


@pytest.mark.parametrize("compete", [False, True], ids=["alone", "beside the reader's own quotes"])
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("pipeline", PIPELINES)
@given(quoted=P, critic=P)
@settings(deadline=None, derandomize=True, max_examples=10)
def test_a_confidence_is_no_surer_than_its_witnesses(
    pipeline: Any, kind: str, compete: bool, quoted: float | None, critic: float | None
) -> None:
    answer = ask(pipeline, kind, quoted, critic, compete=compete)
    if not compete:
        by_default = answer.metadata.get("answered_by") == "embedded default"  # what the model wrote is in no passage
        assert answer.calibrated is by_default  # nothing was fitted for this model
    assert answer.confidence is None or 0 <= answer.confidence <= 1
    assert bool(answer.reason) is answer.abstained
    assert answer.reason != "nothing retrieved"  # a passage matches
    for claim in answer.kept_claims:
        assert claim.citations or "without a quote" in answer.text
        assert claim.support is not None
        assert claim.support > answer.metadata["target_accuracy"]
        signals = claim.signals  # a candidate beside others may be surer than the reader is of its quote
        bounds = (signals.entailed, signals.certain, None if compete else signals.quoted)
        heard = [p for p in bounds if p is not None]
        assert claim.support <= min(heard, default=1.0) + 1e-9
        assert heard or compete


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_less_evidence_is_less_confidence_and_none_is_unknown(pipeline: Any, kind: str) -> None:
    sure, doubtful = ask(pipeline, kind, 0.9, 0.9), ask(pipeline, kind, 0.2, 0.9)
    assert not sure.abstained
    assert doubtful.abstained  # as when the passage that answers is taken away
    assert (doubtful.confidence or 0.0) < (sure.confidence or 0.0)
    sure, contradicted = (ask(pipeline, kind, 0.9, said, compete=False) for said in (0.9, 0.05))
    if pipeline == "seakr":  # its statement is judged, which does not stand in its quote word by word
        assert contradicted.abstained
    assert (contradicted.confidence or 0.0) <= (sure.confidence or 0.0)


# --- every calibration that is accepted is what is shown -----------------------------------------------------------


def lamp_model(kind: str) -> ScriptedLM:
    """Reads the year off whatever passage it is shown; without one it knows lamps with an even number."""

    def reply(request: Generate) -> Any:
        asked = request.prompt.text.rsplit("lamp ", 1)[-1].split()[0]
        number = int(asked) if asked.isdigit() else 1
        knows = f"lit in {1800 + number}." in request.prompt.text or number % 2 == 0
        found = model(kind, f"Lamp {number} was lit in {1800 + number if knows else 1700}.").generate([request])[0]
        samples: tuple[Sample, ...] = found.samples  # type: ignore[union-attr]
        if not knows and request.params.capture is not None:
            samples = tuple(dataclasses.replace(s, hidden_state=s.hidden_state * 1000) for s in samples)
        return list(samples)

    return ScriptedLM(reply, capabilities=MODELS[kind], name=kind, score=yes)


def lamps(pipeline: Any, lm: Any, **more: Any) -> SelfReflectEngine:
    options = SelfReflectSettings(pipeline=pipeline, target_accuracy=0.05, **SMALL, **more)
    return SelfReflectEngine(
        Lamps(), lm, options, reader=Reader(0.8, answerable=0.9), critic=LampCritic(), embedder=SameEmbedder()
    )


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_claims_calibrated_on_a_pipeline_show_what_the_stack_says(pipeline: Any, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    fitted = fit("claims", lamps(pipeline, lamp_model("text-only")), QUESTIONS).calibration
    calibration_io.save(file, {"claims": fitted})
    answer = lamps(pipeline, lamp_model("text-only"), calibration=file).answer(QUESTIONS[1].question)
    assert answer.calibrated
    best = max(answer.claims, key=lambda c: c.support or 0.0)
    assert best.support == pytest.approx(fitted.combine(signal_values(best.signals)))
    with pytest.raises(CalibrationError, match="fitted for"):
        lamps(pipeline, ScriptedLM(["x"], name="another"), calibration=file)


def fit_gate_and_answer(engine: SelfReflectEngine, file: Path) -> Any:
    """Fit and save both; the calibration of answers."""
    gate = fit("gate", engine, QUESTIONS).calibration
    answers = fit("answer", engine, QUESTIONS, FitOptions(gate=gate)).calibration
    calibration_io.save(file, {"gate": gate, "answer": answers})
    return answers


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_gate_and_answer_are_applied_or_refused(pipeline: Any, tmp_path: Path) -> None:
    engine = lamps(pipeline, lamp_model("white-box"))
    if pipeline not in ("composed", "seakr"):
        for purpose in ("gate", "answer"):
            with pytest.raises(InputError, match="no effect"):
                fit(purpose, engine, QUESTIONS)
        return
    file = tmp_path / "c.json"
    answers = fit_gate_and_answer(engine, file)
    known = QUESTIONS[4].question
    answer = lamps(pipeline, lamp_model("white-box"), calibration=file, allow_answers_without_citation=True).answer(
        known
    )
    (value,) = [d.values["uncertainty"] for d in answer.trace if d.kind == "uncertainty"]
    assert answer.calibrated
    assert answer.confidence == pytest.approx(answers.probability(float(value or 0.0)), abs=1e-4)
    assert "without a quote" in answer.text
    if pipeline == "composed":  # by default what is shown has a quote
        cited = lamps(pipeline, lamp_model("white-box"), calibration=file).answer(known)
        assert all(c.citations for c in cited.claims)
        assert "allow_answers_without_citation" in next(d.reason for d in cited.trace if d.kind == "gate")


def test_attention_is_read_for_the_gate_that_decides_by_it(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    fit_gate_and_answer(lamps("composed", lamp_model("white-box")), file)
    lm = lamp_model("white-box")
    lm.capabilities = dataclasses.replace(lm.capabilities, attention=True, token_statistics=True)
    small = {**SMALL["seakr"], "gate": "dragin"}
    options = SelfReflectSettings(**{**SMALL, "seakr": small}, calibration=file, allow_answers_without_citation=True)
    SelfReflectEngine(Lamps(), lm, options, reader=Reader(0.8), critic=LampCritic()).answer(QUESTIONS[4].question)
    assert next(r for r in lm.requests if isinstance(r, Generate)).params.attention


def test_the_confidence_of_quoted_answers(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    fitted = fit("confidence", lamps("composed", None), QUESTIONS, FitOptions(method="platt")).calibration
    calibration_io.save(file, {"confidence": fitted})
    answer = lamps("composed", None, calibration=file).answer(QUESTIONS[1].question)
    assert answer.confidence == pytest.approx(fitted.probability(0.8))
    with pytest.raises(CalibrationError):
        lamps("composed", lamp_model("text-only"), calibration=file)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_support_is_the_calibrated_one(pipeline: Any, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    rows = [("Lamp 1 was lit.", f"It was {'sold' if i % 2 else 'lit'} {i}.", i % 2 == 0) for i in range(40)]
    fitted = fit(
        "support", lamps(pipeline, lamp_model("text-only")), options=FitOptions(claims=rows, method="platt")
    ).calibration
    calibration_io.save(file, {"support": fitted})
    engine = lamps(pipeline, lamp_model("text-only"), calibration=file)
    checked = engine.check("Somebody lit the lamp.", passages=[LAMPS[1]])
    assert checked.calibrated
    assert checked.claims[0].support == pytest.approx(fitted.probability(0.7))
    notes = [d.reason for d in engine.answer(QUESTIONS[1].question).trace if d.kind == "support"]
    assert not notes or "calibrated on labelled claims" in notes
