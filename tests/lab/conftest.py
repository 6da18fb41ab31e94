"""One world and one model for all tests of the lab."""

from __future__ import annotations

import pytest

from benchmarks.lab.measure.setting import Lab
from shared_core.lab import World, load_lab_model
from shared_core.lm.transformers import TransformersLM


@pytest.fixture(scope="session")
def world() -> World:
    return World(0)


@pytest.fixture(scope="session")
def lab_lm() -> TransformersLM:
    return load_lab_model()


@pytest.fixture(scope="session")
def lab(world: World, lab_lm: TransformersLM) -> Lab:
    return Lab(world, lab_lm)
