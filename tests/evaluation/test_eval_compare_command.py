"""``selfreflect eval`` of several configurations, kept in a folder, in shards; and ``eval-merge``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import Result

from shared_core.calibration import io as calibration_io
from shared_core.calibration.calibration import Calibration
from shared_core.cli.eval_compare import wanted_systems
from shared_core.cli.options import DocumentOptions
from shared_core.errors import InputError, SettingsError
from shared_core.evaluation.compare.run_folder import read_run
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.scripted import ScriptedLM
from shared_core.settings import SelfReflectSettings
from tests.command import selfreflect, succeeds
from tests.fakes import FirstSentenceReader, Shelf, WordCritic

ROWS = [
    {"id": "1", "question": "When was the lamp lit?", "answers": ["1871"]},
    {"id": "2", "question": "Who was the captain of the Marrow?", "answers": ["Ila Venn"]},
    {"id": "3", "question": "Who carved the figurehead?", "answerable": False},
    {"id": "4", "question": "What did the lamp burn?", "answers": ["whale oil"]},
]
Eval = Callable[..., Result]


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    return path


class Counting(FirstSentenceReader):
    """Ends the run, as Ctrl-C would, after so many batches."""

    stop_after: int | None = None

    def read(self, requests: Sequence[Any]) -> list[Any]:
        if self.stop_after is not None and len(self.batches) >= self.stop_after:
            raise KeyboardInterrupt
        return super().read(requests)


@pytest.fixture
def reader() -> Counting:
    return Counting(0.65)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, asked: Path, reader: Counting) -> Eval:
    def build(options: DocumentOptions, settings: SelfReflectSettings) -> Any:
        lm = ScriptedLM(lambda request: "It was lit in 1871.") if options.model else None
        return SimpleNamespace(engine=SelfReflectEngine(Shelf(), lm, settings, reader=reader, critic=WordCritic()))

    monkeypatch.setattr("shared_core.cli.options.DocumentOptions.build", build)

    def invoke(*arguments: object) -> Result:
        return selfreflect("eval", asked, "--resamples", "20", *arguments)

    return invoke


def test_several_in_one_run(run: Eval, tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = run("--vary", "target_accuracy=.5,.9", "-o", out, "--json", tmp_path / "c.json", "--plots", tmp_path / "p")
    assert result.exit_code == 0, result.output
    for shown in ("composed target_accuracy=.5", "composed target_accuracy=.9", "difference", "coverage"):
        assert shown in result.output
    data = json.loads((tmp_path / "c.json").read_text())
    assert data == json.loads((out / "comparison.json").read_text())
    figures = {name: c["figures"] for name, c in data["configurations"].items()}
    assert figures["composed target_accuracy=.5"]["coverage"]["value"] > 0
    assert figures["composed target_accuracy=.9"]["coverage"]["value"] == 0
    assert data["sessions"][0]["file"]["sha256"]
    assert (out / "report.html").exists()
    assert list((tmp_path / "p").glob("*.png"))


def test_a_model_with_and_without_us(run: Eval, tmp_path: Path) -> None:
    result = run("--compare", "composed,plain", "--compare", "closed-book", "--model", "m", "-o", tmp_path / "run")
    assert result.exit_code == 0, result.output
    found = read_run(tmp_path / "run")
    assert list(found.configurations) == ["composed", "plain", "closed-book"]
    assert len(found.rows) == 12
    retrieved = {name: {r.retrieved for r in found.rows if r.configuration == name} for name in found.configurations}
    assert retrieved["closed-book"] == {False}
    assert True in retrieved["plain"]
    assert "generated tokens" in result.output


def test_interrupted_it_says_so_and_goes_on(run: Eval, tmp_path: Path, reader: Counting) -> None:
    reader.stop_after = 4  # one to warm up, then two of the one configuration and one of the other
    arguments = ("--vary", "target_accuracy=.5,.9", "-o", tmp_path / "run", "--batch-size", "1")
    result = run(*arguments)
    assert result.exit_code == 130, result.output
    assert "continues there" in result.output
    before = len(read_run(tmp_path / "run").rows)
    assert 0 < before < 8
    reader.stop_after = None
    assert run(*arguments).exit_code == 0
    keys = [row.key for row in read_run(tmp_path / "run").rows]
    assert len(keys) == len(set(keys)) == 8


def test_one_configuration_that_is_kept_shows_what_it_always_did(run: Eval, tmp_path: Path) -> None:
    plain = run("--json", tmp_path / "a.json")
    kept = run("--json", tmp_path / "b.json", "-o", tmp_path / "run")
    assert plain.exit_code == kept.exit_code == 0, kept.output
    a, b = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    for data in (a, b):
        del data["metrics"]["seconds_per_question"]
        for record in data["records"]:
            del record["seconds"]
    assert a == b
    assert "95%" in kept.output
    assert "95%" not in plain.output
    run("--set", "max_claims=1", "-o", tmp_path / "run")
    other = run("--set", "max_claims=1", "-o", tmp_path / "run")
    assert other.exit_code == 2
    assert "max_claims" in other.output


def test_shards_are_merged(run: Eval, tmp_path: Path) -> None:
    for i in (1, 2):
        assert run("--shard", f"{i}/2", "-o", tmp_path / f"part{i}").exit_code == 0
    whole = run("-o", tmp_path / "whole")
    assert whole.exit_code == 0
    parts = [tmp_path / f"part{i}" for i in (1, 2)]
    succeeds("eval", "merge", *parts, "-o", tmp_path / "all", "--resamples", "20")
    a, b = (json.loads((tmp_path / n / "comparison.json").read_text())["configurations"] for n in ("all", "whole"))
    for data in (a, b):
        del data["composed"]["figures"]["seconds_per_question"]
    assert a == b
    alone = selfreflect("eval", "merge", parts[0], "-o", tmp_path / "some", "--resamples", "0")
    assert "2/2" in alone.output
    succeeds("eval", "merge", tmp_path / "all", "-o", tmp_path / "all")
    nothing = selfreflect("eval-merge", tmp_path, "-o", tmp_path / "x")
    assert "use: selfreflect eval merge" in " ".join(nothing.output.split())
    assert nothing.exit_code == 2


def test_configurations_of_a_file(run: Eval, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"strict": {"target_accuracy": 0.9}, "few": {"top_k": 1, "seakr": {"samples": 5}}}))
    result = run("--configurations", file, "-o", tmp_path / "run")
    assert result.exit_code == 0, result.output
    found = read_run(tmp_path / "run").configurations
    assert list(found) == ["strict", "few"]
    assert found["few"]["settings"]["seakr"]["samples"] == 5


@pytest.mark.parametrize(("arguments", "says"), [
    (["--compare", "composed,magic"], "magic"), (["--compare", "plain"], "language model"),
    (["--compare", "seakr"], "language model"), (["--compare", "composed,composed"], "twice"),
    (["--vary", "target_accuracy"], "NAME=VALUE"), (["--vary", "nonsense=1,2"], "nonsense"),
    (["--vary", "target_accuracy=.5,2"], "target_accuracy"), (["--vary", "pipeline=seakr"], "--compare"),
    (["--shard", "1/2"], "-o"), (["--shard", "half", "-o", "x"], "--shard"),
    (["--vary", "top_k=1,2", "--baseline", "nobody"], "nobody"), (["--configurations", "missing.json"], "missing.json"),
])  # fmt: skip
def test_bad_input_is_told_before_anything_is_asked(
    run: Eval, reader: Counting, arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert says in result.output.replace("\n", " ")
    assert reader.batches == []


def test_every_combination_is_a_configuration() -> None:
    found = wanted_systems(
        SelfReflectSettings(), ["composed,plain,closed-book"], ["target_accuracy=.5,.8", "top_k=3,5"], None
    )
    assert [w.name for w in found] == [
        "composed target_accuracy=.5 top_k=3", "composed target_accuracy=.5 top_k=5",
        "composed target_accuracy=.8 top_k=3", "composed target_accuracy=.8 top_k=5",
        "plain top_k=3", "plain top_k=5", "closed-book",
    ]  # fmt: skip
    assert (found[3].settings.target_accuracy, found[3].settings.top_k) == (0.8, 5)
    assert [w.settings.top_k for w in found[4:6]] == [3, 5]


def test_values_are_json_or_text() -> None:
    found = wanted_systems(SelfReflectSettings(), [], ["rerank=none,reading", "expected_answerable=auto,0.5"], None)
    assert {(w.settings.rerank, w.settings.expected_answerable) for w in found} == {
        ("none", "auto"), ("none", 0.5), ("reading", "auto"), ("reading", 0.5),
    }  # fmt: skip


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"a": 1}', '{"a": {"pipeline": "magic"}}'])
def test_an_unusable_file_of_configurations(tmp_path: Path, content: str) -> None:
    (tmp_path / "c.json").write_text(content)
    with pytest.raises((InputError, SettingsError)):
        wanted_systems(SelfReflectSettings(), [], [], tmp_path / "c.json")


def test_a_calibration_of_one_configuration_is_not_applied_to_another(run: Eval, tmp_path: Path) -> None:
    bound = {"pipeline": "composed", "reader": "first-sentence", "top_k": 5}
    file = tmp_path / "calibration.json"
    calibration_io.save(file, {"confidence": Calibration("platt", True, bound, slope=1.0)})
    assert run("--calibration", file, "--vary", "target_accuracy=.5,.9", "-o", tmp_path / "run").exit_code == 0
    refused = run("--calibration", file, "--vary", "top_k=5,3")
    assert refused.exit_code == 2
    assert "composed top_k=3: The calibration was fitted for top_k 5, not 3." in refused.output.replace("\n", " ")
    uncalibrated = run("--vary", "target_accuracy=.5,.9", "-o", tmp_path / "run")
    assert uncalibrated.exit_code == 2
    assert "calibrations.confidence" in uncalibrated.output.replace("\n", " ")
