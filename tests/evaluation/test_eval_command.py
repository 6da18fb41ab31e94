from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import Result

from shared_core.cli.options import DocumentOptions
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer
from tests.command import selfreflect
from tests.evaluation.systems import Dice

QUESTIONS = [
    {"id": "1", "question": "Who built it?", "answers": ["Mira Dorn"]},
    {"id": "2", "question": "Who fell?", "answerable": False},
]


class Engine:
    def answer_many(self, questions: Sequence[str]) -> list[Answer | Exception]:
        nothing = Answer("q", "Not here.", abstained=True, reason="passages do not answer", confidence=0.2)
        return [Answer(q, "Mira Dorn", confidence=0.8) if "built" in q else nothing for q in questions]


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, QUESTIONS)))
    return path


Eval = Callable[..., tuple[Result, dict[str, Any]]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Eval:
    """Evaluate an engine, and tell what the command built it with."""

    def invoke(engine: Any, *arguments: object) -> tuple[Result, dict[str, Any]]:
        built: dict[str, Any] = {}

        def build(options: DocumentOptions, settings: SelfReflectSettings) -> Any:
            built.update(vars(options), settings=settings)
            return SimpleNamespace(engine=engine)

        monkeypatch.setattr("shared_core.cli.options.DocumentOptions.build", build)
        return selfreflect("eval", *arguments), built

    return invoke


def test_eval(run: Eval, asked: Path, tmp_path: Path) -> None:
    report, folder = tmp_path / "eval.json", tmp_path / "plots"
    result, built = run(
        Engine(), asked, "--docs", tmp_path, "--target-accuracy", "0.6", "--top-k", "3",
        "--json", report, "--plots", folder,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "exact match" in result.output
    assert "1.000" in result.output
    metrics = json.loads(report.read_text())["metrics"]
    assert (metrics["exact_match"], metrics["coverage"], metrics["abstention_recall"]) == (1.0, 0.5, 1.0)
    assert len(list(folder.glob("*.png"))) == 3
    assert built["docs"] == [tmp_path]
    settings = built["settings"]
    assert isinstance(settings, SelfReflectSettings)
    assert (settings.target_accuracy, settings.top_k) == (0.6, 3)
    assert {built[k] for k in ("index", "vectors", "model", "base_url")} == {None}


def test_a_limit(run: Eval, asked: Path, tmp_path: Path) -> None:
    report = tmp_path / "eval.json"
    result, _ = run(Engine(), asked, "--limit", "1", "--json", report)
    assert result.exit_code == 0
    assert json.loads(report.read_text())["metrics"]["questions"] == 1


def test_bad_input_is_told_before_anything_is_built(run: Eval, asked: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{")
    for arguments in (
        [tmp_path / "missing.jsonl"],
        [tmp_path / "bad.jsonl"],
        [asked, "--target-accuracy", "1.5"],
        [asked, "--pipeline", "nonsense"],
        [asked, "--batch-size", "0"],
    ):
        result, built = run(Engine(), *arguments)
        assert result.exit_code == 2, arguments
        assert not built


def test_if_every_question_fails_so_does_the_command(run: Eval, asked: Path) -> None:
    result, _ = run(Dice(1.0, fails=lambda question: True), asked)
    assert result.exit_code == 1
    assert "The index is gone." in result.output


def test_without_matplotlib_nothing_is_asked(
    run: Eval, monkeypatch: pytest.MonkeyPatch, asked: Path, tmp_path: Path
) -> None:
    """A folder of results holds plots: what they need is looked for before the work, not after it."""
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "matplotlib" else found(name))
    for option in ("-o", "--plots"):
        result, built = run(Engine(), asked, "--docs", tmp_path, option, tmp_path / "out")
        assert result.exit_code == 1
        assert "matplotlib" in result.output
        assert not built
    result, _ = run(Engine(), asked, "--docs", tmp_path)  # a table needs none
    assert result.exit_code == 0
