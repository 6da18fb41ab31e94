"""Plots of the figures: estimators side by side, risk against coverage, utilities."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from benchmarks.lab.measure.estimating import Answered
from benchmarks.lab.measure.setting import Figures
from shared_core.evaluation import plots

_BLUE, _ORANGE = "#1f5fa8", "#c8551b"


def draw(figures: Figures, opened: Answered, folder: Path) -> list[Path]:
    """Draw ``lab_estimators.png`` (AUROCs) and ``lab_risk_coverage.png`` (answers from passages, by Gram).

    Raises:
        MissingDependencyError: matplotlib is not installed.
        InputError: the folder cannot be written to.
    """
    sure = [-m.values["gram"] for m in opened.rows]
    right = [float(m.right) for m in opened.rows]
    path = folder / "lab_risk_coverage.png"
    curve = plots.risk_coverage({"": (sure, right)}, path, title="Answers from passages, by Gram")
    return [_estimators(figures, folder / "lab_estimators.png"), curve]


def draw_utilities(figures: Figures, folder: Path) -> Path:
    """Draw ``lab_pipelines.png``: utilities of all pipelines and of the frameworks' plain chains.

    Bars are utility per question at ρ* = .5; a label gives the share answered, and the share of that which is right.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    names = [n.removeprefix("utility_") for n in figures if n.startswith("utility_")]
    names = [n for n in names if f"coverage_{n}" in figures and n != "other_seed"]
    names.sort(key=lambda n: figures[f"utility_{n}"])
    plain = [n.startswith("plain") or n in ("always", "never") for n in names]
    values = [figures[f"utility_{n}"] for n in names]
    path = folder / "lab_pipelines.png"
    with _bars(path, 11) as axes:
        axes.barh(range(len(names)), values, 0.7, color=[_ORANGE if p else _BLUE for p in plain])
        for row, name in enumerate(names):
            label = f"{figures[f'coverage_{name}']:.0%} answered, {figures[f'kept_accuracy_{name}']:.0%} of it right"
            axes.text(max(values[row], 0) + 0.01, row, label, va="center", fontsize=8)
        axes.set_yticks(range(len(names)), [n.replace("_", " ") for n in names])
        axes.axvline(0, color=plots.GREY, linewidth=0.8)
        limits = min(values) - 0.03, max(values) + 0.37
        axes.set(xlabel="utility per question at a target accuracy of .5", xlim=limits)
    return path


def _bars(path: Path, rows: int) -> AbstractContextManager[Any]:
    """Give the axes of a picture with that many bars."""
    return plots.figure_of(path, "", size=(7.2, 0.32 * rows + 1.4))


def _estimators(figures: Figures, path: Path) -> Path:
    names = [n.removeprefix("auroc_answer_") for n in figures if n.startswith("auroc_answer_")]
    names.sort(key=lambda n: figures[f"auroc_{n}"])
    rows = range(len(names))
    least = min(v for n in names for v in (figures[f"auroc_{n}"], figures[f"auroc_answer_{n}"]) if v == v)  # no NaN
    with _bars(path, len(names)) as axes:
        for shift, prefix, colour, label in (
            (0.2, "auroc_", _BLUE, "known against unknown facts"),
            (-0.2, "auroc_answer_", _ORANGE, "right against wrong, with passages"),
        ):
            axes.barh([r + shift for r in rows], [figures[prefix + n] for n in names], 0.38, color=colour, label=label)
        axes.set_yticks(list(rows), [n.replace("_", " ") for n in names])
        axes.set(xlim=(min(0.4, least - 0.02), 1.0), ylim=(-0.6, len(names) - 0.4), xlabel="AUROC")
        axes.axvline(0.5, color=plots.GREY, linestyle=":", label="chance")
        axes.figure.legend(loc="outside lower center", ncols=3)
    return path
