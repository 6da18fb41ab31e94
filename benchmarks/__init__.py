"""Benchmarks, one script each, and the packages ``lab`` and ``reader`` that rebuild and measure the shipped weights."""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]


def command_line(doc: str | None, *, quick: str = "", data: bool = True) -> argparse.ArgumentParser:
    """Make a parser with what most scripts take: ``--quick`` if ``quick`` describes it, ``--json``, and ``--data``."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if quick:
        parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", metavar="FILE", type=Path, help="file to write the figures to")
    if data:
        parser.add_argument("--data", type=Path, default=ROOT / "../shared/data", help="folder of the development data")
    return parser


def alternate(
    actions: Mapping[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
    before: Callable[[], object] = lambda: None,
) -> dict[str, float]:
    """Return the median seconds of each action, run after ``before``.

    Actions alternate, so that other load on the machine affects all alike.
    """
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(repeats):
        for name, act in actions.items():
            before()
            start = clock()
            act()
            taken[name].append(clock() - start)
    return {name: statistics.median(times) for name, times in taken.items()}


def show_figures(figures: Mapping[str, float], title: str, targets: Mapping[str, str] | None = None) -> None:
    """Print figures as a table, with the targets that there are for some of them."""
    table = Table("figure", title=title, title_justify="left")
    table.add_column("value", justify="right")
    if targets is not None:
        table.add_column("target")
    for name, value in figures.items():
        shown = f"{value:,.3g}" if abs(value) < 1e4 else f"{value:,.0f}"
        table.add_row(name, shown, *([] if targets is None else [targets.get(name, "")]))
    Console().print(table)


def write_figures(figures: Mapping[str, float], path: Path | None) -> None:
    """Write figures as flat JSON where a file is named; what is not finite becomes null."""
    if path is not None:
        plain = {key: value if math.isfinite(value) else None for key, value in figures.items()}
        path.write_text(json.dumps(plain, indent=1) + "\n", "utf-8")
