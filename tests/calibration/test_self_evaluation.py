"""Calibrating what a model says of its own claims: fitted, written, read, applied by the engine; labels of claims."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from shared_core import ResearchSettings, SelfReflectEngine, SelfReflectSettings
from shared_core.calibration import FittedGuarantee
from shared_core.calibration import io as calibration_io
from shared_core.errors import CalibrationError, InputError
from shared_core.evaluation.dataset import Question, read_questions
from shared_core.evaluation.fitting import ClaimLabels, FitOptions, Fitted, fit
from shared_core.evaluation.judging import can_be_judged
from shared_core.lm.base import Capabilities
from shared_core.training.research.searches import run_searches
from shared_core.types import Claim
from tests.command import selfreflect
from tests.fakes import Shelf
from tests.pipelines.research_scripts import Model, claim

SURE, UNSURE = 90, 70
"""What the model says of its claims: it is too sure of both kinds."""


def number(text: str) -> int:
    found = re.search(r"\d+", text)
    assert found is not None
    return int(found.group())


class Boaster(Model):
    """Says of item i's name, which is right, 90 and of its colour, which is not, 70; of every ninth item nothing."""

    def __init__(self, **more: Any) -> None:
        super().__init__([[]], think=self._state, **more)

    def _reply(self, request: Any) -> Any:
        text = request.prompt.text
        if "probability of the following claim" in text:
            return self._state(request)
        i = number(text.split("Question: ")[-1])
        return [f"Item {i} is called name{i}. Item {i} is red."] * request.params.n

    def _state(self, request: Any) -> str:
        if number(claim(request)) % 9 == 0:
            return "Hard to say."
        return str(SURE if "called" in claim(request) else UNSURE)


QUESTIONS = [Question(str(i), f"What is item {i}?", (f"name{i}",), True) for i in range(1, 41)]
CLOSED = {"closed_book": True, "samples": 1, "rounds": 1, "splitter": "sentences"}
TWICE = {"self_consistency_samples": 2}  # of the group published


def engine(model: Model | None = None, calibrations: Any = None, **research: Any) -> SelfReflectEngine:
    settings = SelfReflectSettings(
        pipeline="research", research=ResearchSettings.upgrade({**CLOSED, **TWICE, **research})
    )
    return SelfReflectEngine(Shelf(), (model or Boaster()).lm, settings, calibrations=calibrations)


def fitted(**more: Any) -> Fitted:
    return fit("self_evaluation", engine(), more.pop("rows", QUESTIONS), FitOptions(**more))


def test_what_is_fitted_is_written_read_and_applied(tmp_path: Path) -> None:
    before = engine().answer("What is item 50?")
    assert [c.support for c in before.claims] == [0.9, 0.7]
    assert not before.calibrated
    made = fitted()
    calibration_io.save(tmp_path / "c.json", {"self_evaluation": made.calibration})
    settings = engine().settings.replace(calibration=tmp_path / "c.json")
    asked = SelfReflectEngine(Shelf(), Boaster().lm, settings)
    after = asked.answer("What is item 50?")
    called, red = (c.support for c in after.claims)
    assert called is not None
    assert red is not None
    assert called > 0.8
    assert red < 0.2  # of such claims none was right
    assert after.calibrated
    assert after.metadata["verdicts"] == ["likely", "unlikely"]
    assert any(d.kind == "calibrate" for d in after.trace)


def test_the_candidate_is_chosen_by_calibrated_probabilities() -> None:
    class Two(Boaster):
        def _reply(self, request: Any) -> Any:
            if "probability of the following claim" in request.prompt.text:
                return super()._reply(request)
            return ["Item 50 is red. Item 50 is blue.", "Item 50 is called name50."]

    raw = engine(Two(), samples=2).answer("What is item 50?")
    assert "red" in raw.text or raw.utility == pytest.approx(0.8)
    calibrated = engine(Two(), {"self_evaluation": fitted().calibration}, samples=2)
    # the binding does not hold the number of candidates: what a claim is worth does not depend on it
    assert calibrated.answer("What is item 50?").text == "Item 50 is called name50."


def test_unread_probabilities_are_counted_and_left_out() -> None:
    made = fitted()
    assert made.calibration.unknown == 8  # items 9, 18, 27 and 36, two claims each
    assert made.calibration.n == 72
    assert "8 of 80 claims: no probability" in made.summary()
    answer = engine(calibrations={"self_evaluation": made.calibration}).answer("What is item 54?")
    assert answer.abstained
    assert answer.reason == "certainty unknown"


def test_nothing_is_fitted_where_nothing_can_be_read_or_judged() -> None:
    class Mute(Boaster):
        def _state(self, request: Any) -> str:
            return "about 80%, or 90%"

    with pytest.raises(CalibrationError, match="No probability could be read"):
        fit("self_evaluation", engine(Mute()), QUESTIONS)
    with pytest.raises(CalibrationError, match="No question can be judged"):
        fit("self_evaluation", engine(), [Question("1", "What is item 1?")])
    with pytest.raises(CalibrationError, match="not enough"):
        fitted(rows=QUESTIONS[:5])
    with pytest.raises(CalibrationError, match="not enough"):
        fitted(label=lambda question, claim: True)
    with pytest.raises(InputError, match="closed-book"):
        fit("self_evaluation", engine(closed_book=False), QUESTIONS)


def test_the_logits_variant_is_calibrated_too_and_each_by_itself() -> None:
    def scores(request: Any) -> Any:
        yes, no = (0.9, 0.1) if "called" in claim(request) else (0.7, 0.3)
        half = len(request.continuations) // 2
        return [(math.log(yes),)] * half + [(math.log(no),)] * half

    model = Boaster(capabilities=Capabilities(score=True), score=scores)
    made = fit("self_evaluation", engine(model, evaluation="logits"), QUESTIONS)
    assert made.calibration.unknown == 0
    assert made.calibration.bound_to["evaluation"] == "logits"
    asked = engine(
        Boaster(capabilities=Capabilities(score=True), score=scores),
        {"self_evaluation": made.calibration},
        evaluation="logits",
    )
    answer = asked.answer("What is item 50?")
    assert answer.calibrated
    with pytest.raises(CalibrationError, match="evaluation"):
        engine(calibrations={"self_evaluation": made.calibration})


@pytest.mark.parametrize("other", [{"self_consistency_samples": 3}, {"subset_sentences": 4}, {"prompts": "biography"}])
def test_another_way_to_ask_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(CalibrationError, match="was fitted for"):
        engine(calibrations={"self_evaluation": fitted().calibration}, **other)


def test_a_guarantee_over_calibrated_self_evaluation() -> None:
    own = {"self_evaluation": fitted().calibration}
    others = [Question(str(i), f"What is item {i}?", (f"name{i}",), True) for i in range(100, 160)]
    asked = engine(calibrations=own)
    made = fit("guarantee", asked, others, FitOptions(guarantee="conformal_risk_control")).calibration
    promised = asked.over(
        Shelf(), asked.settings.replace(guarantee="conformal_risk_control"), calibrations={**own, "guarantee": made}
    )
    answer = promised.answer("What is item 200?")
    assert [c.text for c in answer.kept_claims] == ["Item 200 is called name200."]
    assert answer.metadata["guarantee"]["holds"]


def test_searches_for_training_use_it_and_are_bound_to_it(tmp_path: Path) -> None:
    made = fitted().calibration
    calibrated = engine(calibrations={"self_evaluation": made})
    ((search,), _) = run_searches(calibrated, [Question("50", "What is item 50?")], tmp_path)
    called, red = search.candidates[0].probabilities
    assert called is not None
    assert red is not None
    assert called > 0.8 > 0.2 > red
    with pytest.raises(InputError, match="calibration"):
        run_searches(engine(), [Question("50", "What is item 50?")], tmp_path)


# --- labels of claims ------------------------------------------------------------------------------------------------


def test_your_labels_go_before_the_accepted_answers() -> None:
    rows = [
        Question("1", "q", ("oak",), True, {"claims": [{"claim": "It is RED.", "label": True}]}),
        Question("2", "q", (), None, {"claims": [{"claim": "Nobody knows", "label": None}]}),
    ]
    labels = ClaimLabels(rows)
    assert labels(rows[0], Claim("it is red")) is True
    assert labels(rows[0], Claim("It is of oak.")) is True
    assert labels(rows[0], Claim("It is of ash.")) is False
    assert labels(rows[1], Claim("Nobody knows.")) is None
    assert labels(rows[1], Claim("Something else.")) is None  # no answer is known
    assert labels.by == {"you": 1, "answer": 2, "unknown": 2}
    assert "1 by your labels, 2 by the accepted answers, 2 left out" in labels.summary()
    assert can_be_judged(rows[1])


@pytest.mark.parametrize(
    "claims",
    ["red", [{"claim": "x", "label": "perhaps"}], [{"label": True}], [{"claim": " "}], ["x"],
     [{"claim": "x", "label": True}, {"claim": "X.", "label": False}]],
)  # fmt: skip
def test_labels_of_another_shape_are_refused_before_anything_is_asked(claims: Any) -> None:
    with pytest.raises(InputError, match="Question '7'"):
        ClaimLabels([Question("7", "q", metadata={"claims": claims})])


# --- the command -----------------------------------------------------------------------------------------------------


def invoke(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> Result:
    monkeypatch.setattr("shared_core.cli.common.build_model", lambda model, base_url, dtype=None: Boaster().lm)
    settings = [f"--set=research.{name}={json.dumps(value)}" for name, value in CLOSED.items()]
    settings += [f"--set=research.published.{name}={json.dumps(value)}" for name, value in TWICE.items()]
    return selfreflect(*arguments, "--pipeline", "research", "--model", "m", *settings)


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    path = tmp_path / "q.jsonl"
    rows = [{"id": q.id, "question": q.question, "answers": list(q.answers)} for q in QUESTIONS]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return path


def test_the_command_calibrates_closed_book_without_documents(
    monkeypatch: pytest.MonkeyPatch, asked: Path, tmp_path: Path
) -> None:
    file = tmp_path / "c.json"
    done = invoke(monkeypatch, "calibrate", asked, "-o", file, "--plots", tmp_path / "plots")
    assert done.exit_code == 0, done.output
    assert set(calibration_io.load(file)) == {"self_evaluation"}
    assert "8 of 80 claims: no probability" in done.output
    assert (tmp_path / "plots" / "self_evaluation_reliability.png").exists()
    answered = invoke(monkeypatch, "ask", "What is item 50?", "--calibration", file, "--json")
    told = json.loads(answered.output)
    assert told["calibrated"] is True
    assert told["claims"][1]["support"] < 0.2


def test_side_claims_are_labelled_in_the_file_of_questions(
    monkeypatch: pytest.MonkeyPatch, asked: Path, tmp_path: Path
) -> None:
    file, claims = tmp_path / "c.json", tmp_path / "claims.jsonl"
    command = ["calibrate", "--guarantee", "conformal_risk_control", "--target-accuracy", "0.6", "-o", file]
    first = invoke(monkeypatch, *command, asked, "--write-claims", claims)
    assert first.exit_code == 0, first.output
    assert kept_share(file) == 0.5
    found = read_questions(claims)
    assert found[0].metadata["claims"] == [
        {"claim": "Item 1 is called name1.", "label": True, "by": "answer"},
        {"claim": "Item 1 is red.", "label": False, "by": "answer"},  # a side remark is wrong, as far as anybody said
    ]
    rows = [json.loads(line) for line in claims.read_text("utf-8").splitlines()]
    for row in rows:
        for one in row["claims"]:
            one["label"] = True  # it is red indeed
    claims.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    second = invoke(monkeypatch, *command, claims)
    assert second.exit_code == 0, second.output
    assert "by your labels" in second.output
    assert kept_share(file) == 1.0


@pytest.mark.parametrize("purpose", [[], ["--guarantee", "conformal_risk_control", "--target-accuracy", "0.6"]])
def test_a_command_that_was_killed_goes_on_where_it_was(
    monkeypatch: pytest.MonkeyPatch, asked: Path, tmp_path: Path, purpose: list[str]
) -> None:
    from shared_core.support.run_log import RunLog

    file, kept, add = tmp_path / "c.json", tmp_path / "c.json.rows", RunLog.add

    def stop(self: RunLog, rows: Any) -> None:
        add(self, rows)
        if self.path is not None and len(kept.read_text("utf-8").splitlines()) >= 16:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunLog, "add", stop)
        assert invoke(patch, "calibrate", asked, "-o", file, *purpose).exit_code == 130
    assert len(RunLog(kept).rows) == 23  # batches of 1, 2, 4, 8 and 8
    added: list[str] = []
    note = lambda self, rows: (added.extend(rows) if self.path else None) or add(self, rows)  # noqa: E731
    monkeypatch.setattr(RunLog, "add", note)
    done = invoke(monkeypatch, "calibrate", asked, "-o", file, *purpose)
    assert done.exit_code == 0, done.output
    assert "23 rows of a run that did not end" in " ".join(done.output.split())
    assert len(added) == len(QUESTIONS) - 23
    assert not kept.exists()


def test_wrong_use_is_told(monkeypatch: pytest.MonkeyPatch, asked: Path, tmp_path: Path) -> None:
    monkeypatch.setattr("shared_core.cli.common.build_model", lambda model, base_url, dtype=None: Boaster().lm)
    command = ["calibrate", asked, "--purpose", "self_evaluation", "-o", tmp_path / "c.json"]
    assert selfreflect(*command, "--model", "m").exit_code == 2  # not closed book
    closed = ["--pipeline", "research", "--set", "research.closed_book=true"]
    assert selfreflect(*command, *closed).exit_code == 2  # no model


def kept_share(file: Path) -> float:
    """Of the guarantee that was fitted."""
    fitted = calibration_io.load(file)["guarantee"]
    assert isinstance(fitted, FittedGuarantee)
    return fitted.kept_share
