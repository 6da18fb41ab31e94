"""Benchmarks, one script each, and the packages ``lab`` and ``reader`` that rebuild and measure the shipped weights."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path


def write_figures(figures: Mapping[str, float], path: Path | None) -> None:
    """Write figures as flat JSON where a file is named; what is not finite becomes null."""
    if path is not None:
        plain = {key: value if math.isfinite(value) else None for key, value in figures.items()}
        path.write_text(json.dumps(plain, indent=1) + "\n", "utf-8")
