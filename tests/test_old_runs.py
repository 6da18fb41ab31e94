"""Folders of runs that 0.1.0 began and did not end go on, with a warning about what it did not record."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest

from shared_core.errors import InputError
from shared_core.evaluation.compare import compare, merge
from shared_core.support.run_log import RUN, RunLog
from shared_core.training.labelling import Labelled, label_all, open_log
from shared_core.training.research.searches import run_searches, searches_log, settings_of
from shared_core.training.self_rag.label import LabelSettings, Subject, label
from tests.evaluation.systems import questions as dice_questions
from tests.evaluation.test_comparing import DESCRIBED, FAST, two
from tests.training.test_labelling import QUESTIONS, Labeller, resources
from tests.training.test_research_rows import QUESTIONS as SEARCHED
from tests.training.test_research_rows import made


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return shutil.copytree(Path(__file__).with_name("runs_of_0_1_0"), tmp_path / "runs")


def label_again(folder: Path, labeller: Labeller, **changes: object) -> Labelled:
    settings = LabelSettings(votes=1)
    options = {**settings.model_dump(mode="json"), "declines": 0.1, **changes}
    parts = resources(labeller)
    log = open_log(folder, "labels", options)
    return label_all(QUESTIONS[:3], lambda q: label(Subject(q.question), settings, parts), parts, log, options)


def test_labels_go_on(runs: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InputError, match=r"declines 0\.1, not 0\.2"):
        label_again(runs / "labels", Labeller(), declines=0.2)
    with caplog.at_level(logging.WARNING, "shared_core"):
        done = label_again(runs / "labels", labeller := Labeller())
    assert "0.1.0, which did not record documents and weights" in caplog.text
    assert ([r["id"] for r in done.records], labeller.asked["write"]) == (["0", "1", "2"], 1)
    recorded = RunLog(runs / "labels" / "labels.jsonl", card="labels.json").description()[0][RUN]
    assert recorded["weights"] == {"default": "scripted"}
    caplog.clear()
    label_again(runs / "labels", Labeller())
    assert not caplog.text


def test_labels_of_a_model_of_another_name_are_refused(runs: Path) -> None:
    card = runs / "labels" / "labels.json"
    card.write_text(card.read_text().replace('"scripted"', '"another"'))
    with pytest.raises(InputError, match=r'weights\.default "another", not "scripted"'):
        label_again(runs / "labels", Labeller())


def test_searches_go_on(runs: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings, calibrated = settings_of(runs / "searches")
    assert settings is not None
    assert (settings.research.samples, settings.target_accuracy, calibrated) == (2, 0.5, False)
    as_then = {"max_tokens": 256}  # the default of 0.1.0
    with pytest.raises(InputError, match=r"settings\.research\.max_tokens 256, not null"):
        run_searches(made()[0], SEARCHED[:3], runs / "searches")
    with pytest.raises(InputError, match=r"settings\.research\.samples 2, not 3"):
        run_searches(made(samples=3, **as_then)[0], SEARCHED[:3], runs / "searches")
    engine, model = made(**as_then)
    with caplog.at_level(logging.WARNING, "shared_core"):
        searches, failed = run_searches(engine, SEARCHED[:3], runs / "searches")
    assert caplog.text.count("did not record weights:") == 1
    assert ([s.id for s in searches], failed, model.counts["write"]) == (["0", "1", "2"], {}, 1)
    assert searches_log(runs / "searches").description()[0][RUN]["weights"]


def test_evaluations_go_on_and_are_read(runs: Path) -> None:
    assert len(merge([runs / "evaluation"]).questions) == 2
    systems = two()
    found = compare(systems, dice_questions(4), folder=runs / "evaluation", made_with=DESCRIBED, **FAST)
    assert [len(s.asked) for s in systems.values()] == [2, 2]
    assert len(found.run.sessions) == 2
    card = json.loads((runs / "evaluation" / "run.json").read_text())
    assert (card["format"], card["version"]) == ("selfreflect-run", 2)


def test_rows_of_a_calibration_are_read(runs: Path) -> None:
    assert len(RunLog(runs / "calibration" / "c.json.rows").rows) == 8
