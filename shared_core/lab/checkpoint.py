"""The shipped model of the lab: its folder, its card, and loading it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared_core.errors import ModelLoadError

if TYPE_CHECKING:
    from shared_core.lm.transformers import TransformersLM

__all__ = ["CARD", "CHECKPOINT", "lab_card", "load_lab_model"]

CARD = "lab.json"
"""Name of the file beside the weights that records data, settings and losses."""
CHECKPOINT = Path(__file__).parent / "weights"
"""Folder of the shipped model."""


def load_lab_model(folder: str | Path | None = None, *, device: str | None = None) -> TransformersLM:
    """Load the lab's model as a white-box backend: grammars, log-probabilities, hidden states, verdicts.

    Args:
        folder: a checkpoint that ``python -m benchmarks.lab.train`` wrote; the shipped one if not given.
        device: for instance ``cuda``; by default the CPU, which is as fast for so small a model.

    Raises:
        ModelLoadError: the folder holds no lab model.
        MissingDependencyError: torch or transformers is not installed.
    """
    from shared_core.lm.transformers import TransformersLM

    path = _checked(folder)
    return TransformersLM(str(path), device=device or "cpu", dtype="float32", name="lab")


def lab_card(folder: str | Path | None = None) -> dict[str, Any]:
    """Read the model's card: settings, world, losses by family of rows, learning curves.

    Raises:
        ModelLoadError: the folder holds no lab model.
    """
    found: dict[str, Any] = json.loads((_checked(folder) / CARD).read_text(encoding="utf-8"))
    return found


def _checked(folder: str | Path | None) -> Path:
    path = Path(folder) if folder is not None else CHECKPOINT
    if not (path / "config.json").is_file() or not (path / CARD).is_file():
        raise ModelLoadError(
            f"There is no lab model in {path}.",
            hint="Make one in a checkout of the project: python -m benchmarks.lab.train --out DIR --minutes 90",
        )
    return path
