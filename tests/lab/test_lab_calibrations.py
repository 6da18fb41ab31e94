"""The lab's calibrations belong to the reader and critic that ship."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import shared_core.lab
from shared_core.reading.critic import CriticSupportScorer
from shared_core.reading.extractive import ExtractiveReader

FILES = sorted((Path(shared_core.lab.__file__).parent / "weights").glob("calibration_*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_calibrations_are_fitted_with_the_reader_and_critic_that_ship(file: Path) -> None:
    named = re.findall(r"\b(?:extractive-reader|critic)@[\w.-]+", file.read_text("utf-8"))
    assert {*named} <= {ExtractiveReader().name, CriticSupportScorer().name}


def test_the_composed_pipelines_are_among_them() -> None:
    assert "extractive-reader@" in next(f for f in FILES if f.stem.endswith("composed")).read_text("utf-8")
