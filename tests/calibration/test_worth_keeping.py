"""A fit that does no better than what it would replace is not written, and the command says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.calibration import fit_stack
from shared_core.calibration import io as calibration_io
from shared_core.calibration.held_out import find_shortfall
from shared_core.errors import CalibrationError
from shared_core.evaluation.fitting import fit
from tests.calibration import test_fit_claims as lamps
from tests.calibration import test_fit_gate as items
from tests.fakes import FirstSentenceReader
from tests.pipelines.scripts import SURE, UNSURE


def misleading(body: str) -> Any:
    """Knows the even items and is the surer the less it knows."""
    i = items.number(body)
    return f" {'thing' if i % 2 == 0 else 'guess'} {i}.\n", (UNSURE if i % 2 == 0 else SURE) * (2 - i / 100)


def test_a_gate_that_is_worse_than_chance_is_not_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    monkeypatch.setattr(items, "reply", misleading)
    done = items.invoke(monkeypatch, tmp_path, "gate", "--model", "x", "-o", file)
    said = " ".join(done.output.split())
    assert done.exit_code == 1, done.output
    assert "not written: gate: its AUROC is 0.000, no better than chance" in said
    assert not file.exists()
    assert (tmp_path / "c.json.rows").exists()  # with more questions the same ones are not asked again
    assert "c.json.rows" in said


def test_what_the_file_holds_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    assert items.invoke(monkeypatch, tmp_path, "gate", "--model", "x", "-o", file).exit_code == 0
    before = file.read_bytes()
    monkeypatch.setattr(items, "reply", misleading)
    assert items.invoke(monkeypatch, tmp_path, "answer", "--model", "x", "-o", file, "--update").exit_code == 1
    assert file.read_bytes() == before
    assert set(calibration_io.load(file)) == {"gate"}


class Knowing(FirstSentenceReader):
    """Right about every lamp: as sure as can be that one was lit, and that none was sold."""

    def _one(self, request: Any) -> Any:
        self.probabilities = (0.999 if "lit" in request.question else 0.001,)
        return super()._one(request)


def test_confidence_that_is_right_already_is_left_alone() -> None:
    made = fit("confidence", SelfReflectEngine(lamps.Lamps(), reader=Knowing()), lamps.QUESTIONS)
    assert "no better than the 0.000 without it" in made.shortfall


def test_confidence_that_is_off_is_replaced() -> None:
    made = fit("confidence", SelfReflectEngine(lamps.Lamps(), reader=FirstSentenceReader()), lamps.QUESTIONS)
    assert made.shortfall == ""


def test_a_confidence_holds_for_the_prior_it_was_fitted_at(tmp_path: Path) -> None:
    plain = SelfReflectEngine(lamps.Lamps(), reader=FirstSentenceReader())
    calibration_io.save(tmp_path / "c.json", {"confidence": fit("confidence", plain, lamps.QUESTIONS).calibration})
    settings = SelfReflectSettings(calibration=tmp_path / "c.json")
    assert SelfReflectEngine(lamps.Lamps(), settings=settings, reader=FirstSentenceReader()).context.calibrations
    for other in ({"expected_answerable": 0.1}, {"top_k": 3}):
        with pytest.raises(CalibrationError, match=f"fitted for {next(iter(other))}"):
            SelfReflectEngine(lamps.Lamps(), settings=settings.replace(**other), reader=FirstSentenceReader())


def test_a_stack_is_compared_with_the_support_that_it_replaces() -> None:
    right = [i % 3 > 0 for i in range(60)]
    signals = [[0.6 if yes else 0.4] for yes in right]
    sure = fit_stack(["entailed"], signals, right, before=[float(yes) for yes in right])
    assert find_shortfall(sure.metrics)
    unsure = fit_stack(["entailed"], signals, right, before=[0.5] * 60)
    assert not find_shortfall(unsure.metrics)
    hidden = fit_stack(["entailed"], signals, right, before=[None] * 60)  # claims of unknown support are not shown
    assert hidden.metrics["brier_before"] == pytest.approx(np.mean(right))
