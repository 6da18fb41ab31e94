"""Calibrating the gate, the model's own answers, and support."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.calibration import io as calibration_io
from shared_core.errors import CalibrationError, CapabilityError, DocumentError, GenerationError, InputError
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.fitting import FitOptions, fit, read_labelled_claims
from shared_core.evaluation.fitting.observe import agree
from shared_core.facades.gated_retriever import GatedRetriever
from shared_core.lm.base import Capabilities
from shared_core.lm.scripted import ScriptedLM
from shared_core.support.run_log import RunLog
from shared_core.types import Passage
from tests.command import selfreflect
from tests.pipelines.scripts import SURE, UNSURE, made, scripted

COUNT = 50
QUESTIONS = [Question(str(i), f"What is item {i}?", (f"thing {i}",)) for i in range(COUNT)]


class Library:
    def __init__(self, passages: int = 1) -> None:
        self.passages = passages

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        return [Passage(f"p{i}", "All items and things, in order.") for i in range(self.passages)]


def number(body: str) -> int:
    return int(body.split("item ")[1].split("?")[0])


def reply(body: str) -> Any:
    """Knows the even items and is sure of them (in the main); with the passage it knows nearly all."""
    i, given = number(body), "Context" in body
    knows = i % 2 == 0 or (given and i % 10 != 1)
    level = SURE if knows != (i % 10 == 0) else UNSURE  # one in ten is the wrong way round
    return f" {'thing' if knows else 'other' if given else 'guess'} {i}.\n", level * (2 - i / 100)


def engine(lm: Any = None, pipeline: str = "composed", passages: int = 1, **seakr: Any) -> SelfReflectEngine:
    values = {"threshold": None, "multi_hop": False, **seakr}
    return SelfReflectEngine(Library(passages), lm or scripted(reply), made(pipeline, **values))


def judging(lm: Any) -> SelfReflectEngine:
    """The engine with nobody but its model to judge support."""
    return SelfReflectEngine(Library(1), lm, made("composed").replace(signals="support_only"))


@pytest.mark.parametrize("method", ["platt", "isotonic", "auto"])
def test_the_gate_parts_what_the_model_knows_from_what_it_does_not(method: str) -> None:
    fitted = fit("gate", engine(), QUESTIONS, FitOptions(method=method))
    c = fitted.calibration
    assert (c.n, c.positives, c.unknown) == (COUNT, COUNT // 2, 0)
    assert c.method == ("isotonic" if method == "isotonic" else "platt")
    assert c.threshold is not None
    assert c.threshold_rule == "balanced accuracy"
    right = sum((r.score <= c.threshold) == r.held for r in fitted.rows)
    assert right == COUNT - COUNT // 10  # but for those that are the wrong way round
    assert c.metrics["auroc"] > 0.7
    assert "right" in c.event
    assert (c.bound_to["model"], c.bound_to["k"], c.bound_to["form"]) == ("scripted", 4, "answer")
    assert c.probability(-9.0) > c.probability(3.0)  # type: ignore[operator]
    assert "threshold" in fitted.summary()


def test_the_fitted_gate_is_used_and_refused_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "calibration.json"
    calibration_io.save(file, {"gate": fit("gate", engine(), QUESTIONS).calibration})
    settings = engine().settings.replace(calibration=file)
    gated = GatedRetriever(Library(), scripted(reply), settings)
    assert [gated.ask(q.question).retrieved for q in QUESTIONS[1:5]] == [True, False, True, False]
    for other in ({"samples": 5}, {"published": {"layer": 1}}):
        changed = settings.replace(seakr=settings.seakr.replace(**other))
        with pytest.raises(CalibrationError, match="fitted for"):
            GatedRetriever(Library(), scripted(reply), changed).ask(QUESTIONS[0].question)
    with pytest.raises(CalibrationError, match="fitted for"):
        GatedRetriever(Library(), scripted(reply, name="other"), settings).ask(QUESTIONS[0].question)


def test_the_rule_of_target_accuracy() -> None:
    c = fit("gate", engine(), QUESTIONS, FitOptions(rule="target_accuracy", target=0.85)).calibration
    assert c.threshold is not None
    assert c.threshold_rule == "target accuracy 0.85"
    never = fit("gate", engine(), QUESTIONS, FitOptions(rule="target_accuracy", target=1.0))
    assert never.calibration.threshold is None or all(
        r.held for r in never.rows if r.score <= never.calibration.threshold
    )


def test_unanswerable_questions_are_not_known() -> None:
    rows = [*QUESTIONS, Question("u", "What is item 2?", (), False)]
    assert fit("gate", engine(), rows).rows[-1].held is False


def test_labels_of_the_model_itself() -> None:
    blank = [Question(q.id, q.question) for q in QUESTIONS]
    fitted = fit("gate", engine(), blank, FitOptions(labels="self"))
    assert [r.held for r in fitted.rows] == [i % 2 == 0 for i in range(COUNT)]
    assert "agrees" in fitted.calibration.event
    mixed = fit("gate", engine(), [*QUESTIONS[:20], *blank[20:]])
    assert [r.held for r in mixed.rows] == [r.held for r in fitted.rows]
    with pytest.raises(CalibrationError, match="can be judged"):
        fit("gate", engine(), blank, FitOptions(labels="gold"))


def test_without_passages_nothing_can_be_labelled() -> None:
    blank = [Question(q.id, q.question) for q in QUESTIONS]
    with pytest.raises(CalibrationError, match="can be judged"):
        fit("gate", engine(passages=0), blank)


def test_too_few_or_one_sided_questions_are_refused() -> None:
    with pytest.raises(CalibrationError, match="not enough"):
        fit("gate", engine(), QUESTIONS[:10])
    with pytest.raises(CalibrationError, match="not enough"):
        fit("gate", engine(), QUESTIONS[::2])
    with pytest.raises(InputError, match="method"):
        fit("gate", engine(), QUESTIONS, FitOptions(method="magic"))
    with pytest.raises(InputError, match="labels"):
        fit("gate", engine(), QUESTIONS, FitOptions(labels="guess"))  # type: ignore[arg-type]


def test_a_question_that_fails_counts_alone_and_a_missing_capability_counts_for_all() -> None:
    def failing(body: str) -> Any:
        return GenerationError("no") if number(body) == 3 else reply(body)

    fitted = fit("gate", engine(scripted(failing)), QUESTIONS)
    assert fitted.calibration.n == COUNT - 1
    lm = scripted(reply, capabilities=Capabilities())
    with pytest.raises(CapabilityError):
        fit("gate", engine(lm, allow_fallback=False), QUESTIONS)


def test_steps_are_measured_by_the_least_certain() -> None:
    def steps(body: str) -> Any:
        i = number(body)
        after = body.split("\nAnswer:")[1]
        if "First" in after:
            return f"So the answer is thing {i if i % 2 == 0 else 99}. ", SURE
        return f"First item {i}? it is. ", UNSURE if i % 2 else SURE * (1 + i / 100)

    fitted = fit("gate", engine(scripted(steps), "seakr", multi_hop=True), QUESTIONS)
    c = fitted.calibration
    assert c.bound_to["form"] == "step"
    assert c.threshold is not None
    assert all((r.score <= c.threshold) == r.held for r in fitted.rows)


@pytest.mark.parametrize("pipeline", ["composed", "seakr"])
def test_answers_of_the_pipeline(pipeline: str) -> None:
    made_engine = engine(pipeline=pipeline)
    gate = fit("gate", made_engine, QUESTIONS).calibration
    fitted = fit("answer", made_engine, QUESTIONS, FitOptions(gate=gate))
    c = fitted.calibration
    assert c.bound_to["pipeline"] == pipeline
    assert c.threshold is None
    if pipeline == "composed":  # closed book
        assert c.positives == COUNT // 2
        return
    assert c.positives > 0.85 * COUNT  # passages help
    settings = made_engine.settings
    answering = SelfReflectEngine(Library(), scripted(reply), settings, calibrations={"gate": gate, "answer": c})
    answer = answering.answer(QUESTIONS[4].question)
    value = next(d.values["uncertainty"] for d in answer.trace if d.kind == "uncertainty")
    assert answer.confidence == pytest.approx(c.probability(float(value or 0)), abs=1e-4)


def test_support_from_labelled_claims() -> None:
    def judge(request: Any) -> str:
        return str(90 if "true" in request.prompt.text.split("Claim: ")[1] else 20)

    claims = [(f"quote {i}", f"{'true' if i % 2 else 'false'} {i}", bool(i % 2)) for i in range(30)]
    fitted = fit("support", judging(ScriptedLM(judge)), options=FitOptions(claims=claims))
    c = fitted.calibration
    assert c.increasing
    assert c.bound_to["support_method"] == "verbalised"
    assert (c.probability(0.9) or 0) > 0.8 > 0.2 > (c.probability(0.2) or 1)
    with pytest.raises(InputError):
        fit("support", engine(), options=FitOptions(claims=[]))


@pytest.mark.parametrize(("first", "second", "same"), [
    ("Paris", "paris.", True), ("the Orm", "Orm hills", True), ("Paris", "Rome", False), ("", "a", False),
    (None, "a", False),
])  # fmt: skip
def test_agreement(first: str | None, second: str, same: bool) -> None:
    assert agree(first, second) is same


def test_rows_of_claims(tmp_path: Path) -> None:
    file = tmp_path / "claims.jsonl"
    file.write_text('{"quote": "q", "claim": "c", "label": true}\n{"quote": "q", "claim": "d", "label": "neutral"}\n')
    assert read_labelled_claims(file) == [("q", "c", True), ("q", "d", False)]
    table = tmp_path / "claims.csv"
    table.write_text("quote,claim,label\nq,c,1\n")
    assert read_labelled_claims(table) == [("q", "c", True)]
    for bad in ('{"quote": "q"}', '{"quote": "q", "claim": "c", "label": "perhaps"}', "[1]", ""):
        file.write_text(bad)
        with pytest.raises(InputError):
            read_labelled_claims(file)
    with pytest.raises(DocumentError):
        read_labelled_claims(tmp_path / "claims.txt")


# --- the command -----------------------------------------------------------------------------------------------------


def invoke(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *arguments: object) -> Any:
    asked = tmp_path / "questions.jsonl"
    asked.write_text("\n".join(json.dumps({"question": q.question, "answers": list(q.answers)}) for q in QUESTIONS))
    made_of = "shared_core.cli.options.DocumentOptions.build"
    monkeypatch.setattr(made_of, lambda _, settings: SimpleNamespace(engine=engine(pipeline=settings.pipeline)))
    purpose = [arguments[0]] if arguments[0] in ("gate", "answer") else []
    return selfreflect("calibrate", *purpose, asked, *arguments[len(purpose) :])


@pytest.mark.parametrize("command", [("--pipeline", "seakr"), ("gate", "--answer")])
def test_gate_and_answer_go_into_one_file(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file, plots = tmp_path / "c.json", tmp_path / "plots"
    result = invoke(monkeypatch, tmp_path, *command, "--model", "x", "-o", file, "--plots", plots)
    assert result.exit_code == 0, result.output
    assert set(calibration_io.load(file)) == {"gate", "answer"}
    assert {p.name for p in plots.glob("*.png")} == {
        "gate_reliability.png", "gate_risk_coverage.png", "answer_reliability.png", "answer_risk_coverage.png",
    }  # fmt: skip
    assert "threshold" in result.output


def test_a_file_can_be_added_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    invoke(monkeypatch, tmp_path, "--model", "x", "--purpose", "gate", "-o", file)
    invoke(monkeypatch, tmp_path, "--model", "x", "--purpose", "answer", "-o", file, "--update")
    assert set(calibration_io.load(file)) == {"gate", "answer"}
    invoke(monkeypatch, tmp_path, "--model", "x", "--purpose", "gate", "-o", file)
    assert set(calibration_io.load(file)) == {"gate"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--purpose", "gate"],  # no model
        ["--purpose", "luck", "--model", "x"],
        ["--purpose", "support", "--model", "x"],
        ["--labels", "none", "--model", "x"],
        ["--rule", "target_accuracy", "--model", "x"],
        ["--target", "0.9", "--model", "x"],
    ],
)
def test_wrong_use_is_told_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str]
) -> None:
    result = invoke(monkeypatch, tmp_path, *arguments, "-o", tmp_path / "c.json")
    assert result.exit_code == 2
    assert not (tmp_path / "c.json").exists()


@pytest.mark.parametrize(("pipeline", "multi_hop"), [("composed", False), ("seakr", False), ("seakr", True)])
def test_gate_and_answers_ask_nothing_twice(pipeline: Any, multi_hop: bool) -> None:
    from tests.engine.test_confidence_everywhere import QUESTIONS, lamp_model, lamps

    def calls(shared: RunLog | None) -> tuple[int, int]:
        lm = lamp_model("white-box")
        options = SelfReflectSettings(
            pipeline=pipeline, target_accuracy=0.05, seakr={"samples": 2, "multi_hop": multi_hop, "max_steps": 2}
        )
        parts = lamps(pipeline, lm).resources
        engine = SelfReflectEngine(
            parts.retriever, lm, options, reader=parts.reader, critic=parts.critic, embedder=parts.embedder
        )
        gate = fit("gate", engine, QUESTIONS, kept=shared).calibration
        before = len(lm.requests)
        fit("answer", engine, QUESTIONS, FitOptions(gate=gate), kept=shared)
        if pipeline == "composed" and shared is not None:  # answers from memory, which the gate asked for
            assert len(lm.requests) == before
        return len(lm.requests), len({(type(r), r.prompt, getattr(r, "params", None), r.model) for r in lm.requests})

    asked, different = calls(RunLog())
    assert asked == different
    assert asked < calls(None)[0]


def test_old_flags_work_and_name_the_new_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    old = invoke(monkeypatch, tmp_path, "--model", "x", "--purpose", "gate", "-o", file)
    assert old.exit_code == 0, old.output
    assert "use: selfreflect calibrate gate" in " ".join(old.output.split())
    before = file.read_bytes()
    new = invoke(monkeypatch, tmp_path, "gate", "--model", "x", "-o", file)
    assert "warning" not in new.output
    assert file.read_bytes() == before
