"""Tiny checkpoints and rows for the tests that train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shared_core.training.rows import TrainingRow
from tests.training import reclaim_world as world


@pytest.fixture(scope="module")
def base(tiny_model: Any, tiny_tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    tiny_model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def rows() -> list[TrainingRow]:
    return world.rows(world.sources(20), "reference")


@pytest.fixture(scope="module")
def tokenizer(rows: list[TrainingRow]) -> Any:
    return world.tokenizer(["".join(r.render().values()) for r in rows])


@pytest.fixture(scope="module")
def checkpoint(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    return world.checkpoint(tmp_path_factory.mktemp("base"), tokenizer, torch.bfloat16)
