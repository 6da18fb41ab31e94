"""``selfreflect lab``: the tutorial, the world as files, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared_core import lab
from shared_core.evaluation.dataset import read_questions
from shared_core.lab import World, setup
from shared_core.lm.transformers import TransformersLM
from tests.command import selfreflect, succeeds

pytest.importorskip("transformers")


@pytest.mark.train
def test_one_question_through_every_pipeline() -> None:
    result = selfreflect("lab", "--brief", "--json")
    assert result.exit_code in (0, 3), result.output
    told = json.loads(result.stdout)
    assert set(told) == {"composed", "self_rag", "seakr", "reclaim", "research"}
    assert all(answer["trace"] for answer in told.values())
    assert len({answer["question"] for answer in told.values()}) == 1


@pytest.mark.train
def test_the_tutorial_says_what_is_true(lab_lm: TransformersLM, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "World", lambda seed: world)  # both are loaded for real above
    monkeypatch.setattr(setup, "load_lab_model", lambda folder: lab_lm)
    result = selfreflect("lab")
    assert result.exit_code in (0, 3), result.output
    for words in ("trained on", "never seen", "truth:", "self_rag", "invented name"):
        assert words in result.stdout


def test_a_world_is_written_as_files_that_other_commands_read(tmp_path: Path) -> None:
    folder = tmp_path / "world"
    succeeds("lab", "write", folder, "--size", "0.1")
    questions = read_questions(folder / "questions_test.jsonl")
    assert {q.answerable for q in questions} == {True, False}
    assert all(q.answers for q in questions if q.answerable)
    assert len(list((folder / "docs").glob("*.md"))) > 50
    again = selfreflect("lab", "write", folder)
    assert again.exit_code == 2


@pytest.mark.parametrize(
    "arguments", [["--model", "nowhere"], ["train", "--out", "x", "--minutes", "0"], ["write", "x", "--size", "huge"]]
)
def test_bad_input_is_refused(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = selfreflect("lab", *arguments)
    assert result.exit_code in (1, 2), result.output
    assert "Traceback" not in result.output


def test_training_names_the_script_that_trains() -> None:
    result = selfreflect("lab", "train", "--out", "x", "--minutes", "90")
    assert result.exit_code == 2
    assert "python -m benchmarks.lab.train" in " ".join(result.output.split())
