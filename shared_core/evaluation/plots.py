"""Plot confidences: risk–coverage, reliability, accuracy and coverage against the target accuracy."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shared_core.errors import InputError, MissingDependencyError
from shared_core.evaluation.metrics.confidence import accuracy_at, aurc, expected_calibration_error, reliability_bins
from shared_core.evaluation.metrics.confidence import risk_coverage_curve as curve

_BLUE, _ORANGE, _GREY, _PALE = "#1f5fa8", "#c8551b", "#6b7280", "#cfe0f3"
_STYLE = {
    "axes.edgecolor": "#9ca3af", "axes.grid": True, "axes.spines.right": False, "axes.spines.top": False,
    "axes.titlelocation": "left", "axes.titlesize": 12, "axes.titleweight": "bold", "font.size": 10.5,
    "grid.color": "#e5e7eb", "grid.linewidth": 0.8, "legend.frameon": False, "axes.axisbelow": True,
}  # fmt: skip


def risk_coverage(
    confidence: ArrayLike, correct: ArrayLike, path: str | Path, *, title: str = "Risk–coverage", label: str = ""
) -> Path:
    """Plot the error rate of the most confident answers against the share of questions answered.

    Args:
        confidence: (N,) any scale; NaN is least confident.
        correct: (N,) in [0, 1].
        path: file to write; its suffix names the format (png, svg, pdf).
        title, label: title of the plot, label in its legend.

    Returns:
        The path.

    Raises:
        InputError: nothing to plot, or the file cannot be written.
        MissingDependencyError: matplotlib is not installed.
    """
    found = curve(confidence, correct, ties="mean")
    with figure_of(path, title) as axes:
        legend = f"{label or 'by confidence'} (AURC {aurc(confidence, correct, ties='mean'):.3f})"
        axes.plot(found.coverage, found.risk, color=_BLUE, linewidth=2, label=legend)
        axes.fill_between(found.coverage, found.risk, color=_PALE, alpha=0.6, linewidth=0)
        best = curve(correct, correct).risk
        axes.plot(found.coverage, best, color=_GREY, linestyle="--", linewidth=1.2, label="best possible order")
        axes.axhline(found.risk[-1], color=_GREY, linestyle=":", linewidth=1.2, label="random order")
        axes.set(xlabel="coverage (share of questions answered)", ylabel="risk (share of answers that are wrong)")
        # Room for the legend above the curves.
        axes.set(xlim=(0, 1), ylim=(0, max(0.05, 1.4 * float(max(found.risk.max(), best.max())))))
        axes.legend(loc="upper left")
    return Path(path)


def reliability(
    confidence: ArrayLike, correct: ArrayLike, path: str | Path, *, bins: int = 10, title: str = "Reliability"
) -> Path:
    """Plot accuracy against mean confidence in bins of equal width, with the share of answers in each.

    Arguments and errors as for ``risk_coverage``; confidences are probabilities, an unknown one counts as 0.
    """
    found = reliability_bins(confidence, correct, bins=bins)
    filled = found.size > 0
    if not filled.any():
        raise InputError("There are no answers to plot.")
    share = found.size / found.size.sum()
    with figure_of(path, title) as axes:
        widths = found.upper - found.lower
        axes.bar(found.lower, share, widths, align="edge", color=_PALE, edgecolor="white", label="share of answers")
        axes.plot([0, 1], [0, 1], color=_GREY, linestyle="--", linewidth=1.2, label="perfectly calibrated")
        ece = expected_calibration_error(confidence, correct, bins=bins)
        axes.plot(
            found.confidence[filled], found.accuracy[filled], color=_BLUE, linewidth=1.5, marker="o", markersize=6,
            label=f"accuracy (ECE {ece:.3f})",
        )  # fmt: skip
        axes.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1.02))
        axes.legend(loc="upper left")
    return Path(path)


def target_accuracy(
    confidence: ArrayLike, correct: ArrayLike, path: str | Path, *, title: str = "What a target accuracy gives"
) -> Path:
    """Plot accuracy and coverage of the answers with confidence > ρ* against ρ*.

    Arguments and errors as for ``risk_coverage``; confidences are probabilities.
    """
    targets = np.arange(1, 100) / 100
    kept = [accuracy_at(confidence, correct, float(rho)) for rho in targets]
    with figure_of(path, title) as axes:
        axes.plot([0, 1], [0, 1], color=_GREY, linestyle="--", linewidth=1.2, label="accuracy = target")
        axes.plot(targets, [k.accuracy for k in kept], color=_BLUE, linewidth=2, label="accuracy of kept answers")
        axes.plot(targets, [k.coverage for k in kept], color=_ORANGE, linewidth=2, label="coverage")
        axes.set(xlabel="target accuracy ρ*", ylabel="share", xlim=(0, 1), ylim=(0, 1.02))
        axes.legend(loc="best")
    return Path(path)


def require_matplotlib() -> None:
    """Raise MissingDependencyError if plots cannot be drawn; to be called before long work that ends in plots."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingDependencyError("matplotlib", extra="eval", purpose="Drawing plots")


@contextmanager
def figure_of(path: str | Path, title: str, *, size: tuple[float, float] = (6.4, 4.4)) -> Iterator[Any]:
    """Yield the axes of a figure and save it to ``path``; thread-safe, without a display. ``size`` is in inches.

    Raises:
        InputError: the file cannot be written.
        MissingDependencyError: matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("matplotlib", extra="eval", purpose="Drawing plots") from error
    path = Path(path)
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size, dpi=150, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        axes.set_title(title)
        yield axes
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path)
        except (OSError, ValueError) as error:
            raise InputError(f"The plot cannot be written to {path}: {error}.", hint="Name a .png file.") from error
