"""A calibration that is stopped goes on where it was, and what cannot succeed is refused before any work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shared_core import SelfReflectEngine
from shared_core.calibration import io as calibration_io
from shared_core.errors import CalibrationInputError, GenerationError
from shared_core.evaluation.fitting import fit
from shared_core.lm.base import Generate
from shared_core.lm.scripted import ScriptedLM
from shared_core.settings import SelfReflectSettings
from shared_core.support.run_log import RunLog
from shared_core.types import Passage
from tests.calibration import test_fit_claims as lamps
from tests.calibration import test_fit_gate as estimators
from tests.calibration.test_fit_gate import COUNT, QUESTIONS, engine, invoke, reply
from tests.command import selfreflect
from tests.fakes import FirstSentenceReader
from tests.lamps import LAMPS
from tests.pipelines.scripts import scripted


class Stopped(BaseException):
    """As a Ctrl-C."""


def stopping(after: int, monkeypatch: pytest.MonkeyPatch) -> SelfReflectEngine:
    made = lamps.engine()
    ask: Any = SelfReflectEngine.answer_many
    asked: list[Any] = []

    def answer_many(self: Any, questions: Any, **more: Any) -> Any:
        asked.extend(questions)
        if len(asked) > after:
            raise Stopped
        return ask(self, questions, **more)

    monkeypatch.setattr(SelfReflectEngine, "answer_many", answer_many)  # fitting asks a copy of the engine
    return made


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rows"
    with pytest.raises(Stopped):
        fit("claims", stopping(25, monkeypatch), lamps.QUESTIONS, kept=RunLog(file))
    monkeypatch.undo()
    with file.open("a") as lines:
        lines.write('{"key": "half a li')  # killed while it wrote
    again = lamps.engine()
    resumed = fit("claims", again, lamps.QUESTIONS, kept=RunLog(file))
    lm = again.resources.models["default"]
    assert isinstance(lm, ScriptedLM)
    asked = [r for r in lm.requests if isinstance(r, Generate) and "numbered sentences" in r.prompt.text]
    assert len(asked) == len(lamps.QUESTIONS) - 23  # batches of 1, 2, 4, 8 and 8
    whole = fit("claims", lamps.engine(), lamps.QUESTIONS)
    assert resumed.calibration == whole.calibration
    assert sorted(r.text for r in resumed.rows) == sorted(r.text for r in whole.rows)


def test_progress_shows_with_the_first_question_and_the_cost_is_told() -> None:
    told: list[tuple[int, int]] = []
    fitted = fit("gate", engine(scripted(reply)), QUESTIONS, progress=lambda *at: told.append(at))
    assert told[:4] == [(0, COUNT), (1, COUNT), (3, COUNT), (7, COUNT)]
    assert fitted.usage.calls >= COUNT
    assert f"cost: {fitted.usage.calls} calls, " in fitted.summary()


def test_rows_of_another_configuration_are_not_taken(tmp_path: Path) -> None:
    kept = RunLog(tmp_path / "rows")
    fit("claims", lamps.engine(), lamps.QUESTIONS, kept=kept)
    other = lamps.engine(top_k=3)
    fit("claims", other, lamps.QUESTIONS, kept=kept)
    assert other.resources.models["default"].requests  # type: ignore[attr-defined]


def test_rows_of_other_documents_are_not_taken(tmp_path: Path) -> None:
    kept = RunLog(tmp_path / "rows")

    class Listed(lamps.Lamps):
        def __init__(self, passages: list[Passage]) -> None:
            self.passages = {p.id: p for p in passages}

        def ids(self) -> list[str]:
            return list(self.passages)

        def get(self, ids: list[str]) -> list[Passage]:
            return [self.passages[i] for i in ids]

    fit("claims", lamps.engine().over(Listed(LAMPS)), lamps.QUESTIONS, kept=kept)
    for passages, again in ((LAMPS, False), (LAMPS[:-1], True)):
        engine = lamps.engine().over(Listed(passages))
        model: Any = engine.resources.models["default"]
        model.requests.clear()
        fit("claims", engine, lamps.QUESTIONS, kept=kept)
        assert bool(model.requests) is again


def test_nothing_is_left_of_a_run_that_is_done(tmp_path: Path) -> None:
    kept = RunLog(tmp_path / "rows")
    kept.remove()
    kept.add({"one": 1})
    kept.remove()
    assert not list(tmp_path.iterdir())


def test_the_confidence_is_kept_too(tmp_path: Path) -> None:
    asked: list[str] = []

    class Retriever(lamps.Lamps):
        def retrieve(self, query: str, k: int = 5) -> Any:
            asked.append(query)
            return super().retrieve(query, k)

    made = SelfReflectEngine(Retriever(), None, SelfReflectSettings(), reader=FirstSentenceReader())
    first = fit("confidence", made, lamps.QUESTIONS, kept=RunLog(tmp_path / "rows"))
    asked.clear()
    again = fit("confidence", made, lamps.QUESTIONS, kept=RunLog(tmp_path / "rows"))
    assert again.calibration == first.calibration
    assert not asked


# --- refused before any work -----------------------------------------------------------------------------------------

MANY = [{"question": f"Q{i}?", "answers": ["x"]} for i in range(30)]
HOPELESS = [{"question": f"Q{i}?", "answerable": False} for i in range(30)]


@pytest.mark.parametrize(("rows", "arguments", "said"), [
    (MANY[:5], [], "Only 5"), ([{"question": q["question"], "gold": "x"} for q in MANY], [], "'gold'"),
    (HOPELESS, [], "unanswerable"), (HOPELESS, ["--model", "x"], "unanswerable"),
    (HOPELESS, ["--model", "x", "--purpose", "gate"], "unanswerable"), ([{"prompt": "?"}], [], "'prompt'"),
    (MANY, ["--method", "magic"], "magic"), (MANY, ["--plots", "/proc/none/here"], "cannot be written"),
    (MANY, ["-o", "/proc/none/c.json"], "cannot be written"),
])  # fmt: skip
def test_what_is_known_beforehand_is_told_beforehand(
    rows: list[dict[str, Any]], arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*_: Any) -> Any:
        raise AssertionError("nothing is to be built")

    monkeypatch.setattr("shared_core.cli.options.DocumentOptions.build", build)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "q.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    result = selfreflect("calibrate", file, *arguments)
    assert (result.exit_code, said in " ".join(result.output.split())) == (2, True), result.output


def test_confidences_that_are_all_unknown_are_said_to_be() -> None:
    class Silent(FirstSentenceReader):
        def _one(self, request: Any) -> Any:
            self.probabilities = (None,)
            return super()._one(request)

    made = SelfReflectEngine(lamps.Lamps(), None, SelfReflectSettings(), reader=Silent())
    with pytest.raises(CalibrationInputError, match="every score, of 60 rows, is unknown"):
        fit("confidence", made, lamps.QUESTIONS)


def test_the_command_leaves_nothing_but_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "out" / "c.json"
    file.parent.mkdir()
    assert invoke(monkeypatch, tmp_path, "--model", "x", "--purpose", "gate", "-o", file).exit_code == 0
    assert [p.name for p in file.parent.iterdir()] == ["c.json"]
    assert set(calibration_io.load(file)) == {"gate"}


def test_the_command_goes_on_from_its_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    kept = RunLog(tmp_path / "c.json.rows")
    fit("gate", engine(threshold=None), QUESTIONS, kept=kept)
    monkeypatch.setattr(estimators, "reply", lambda body: GenerationError("asked again"))
    result = invoke(monkeypatch, tmp_path, "--model", "x", "--purpose", "gate", "-o", file)
    assert result.exit_code == 0, result.output
    assert "rows of a run that did not end" in " ".join(result.output.split())
