"""Plot confidences: risk–coverage, reliability, accuracy and coverage against the target accuracy."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shared_core.errors import InputError, MissingDependencyError
from shared_core.evaluation.metrics.confidence import accuracy_at, expected_calibration_error, reliability_bins
from shared_core.evaluation.metrics.confidence import risk_coverage_curve as curve

Judged = Mapping[str, tuple[ArrayLike, ArrayLike]]
"""By name (confidences, correctness) of the same answers."""
GREY = "#6b7280"
# Okabe and Ito's palette, safe for colour-blind readers, and a marker for each colour.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b4fa0", "#4d4d4d")
_MARKS = "osD^vPX*"
_LONG = 34
_SIZE = (7.2, 5.4)
_STYLE = {
    "axes.edgecolor": "#9ca3af", "axes.grid": True, "axes.spines.right": False, "axes.spines.top": False,
    "axes.titlelocation": "left", "axes.titlesize": 12, "axes.titleweight": "bold", "font.size": 10.5,
    "grid.color": "#e5e7eb", "grid.linewidth": 0.8, "legend.frameon": False, "axes.axisbelow": True,
}  # fmt: skip


def risk_coverage(judged: Judged, path: str | Path, *, title: str = "Risk–coverage") -> Path:
    """Plot the error rate of the most confident answers against the share of questions answered, and return ``path``.

    Args:
        judged: (confidences, correctness in [0, 1]) by name, (N,) each; a NaN confidence is the least. A name may be
            empty. With one pair the best possible order and a random one are drawn too.
        path: file to write; its suffix names the format (png, svg, pdf).

    Raises:
        InputError: nothing to plot, or the file cannot be written.
        MissingDependencyError: matplotlib is not installed.
    """
    curves = {name: curve(sure, right, ties="mean") for name, (sure, right) in judged.items()}
    with figure_of(path, title, size=_SIZE) as axes:
        highest = 0.05
        for i, (name, found) in enumerate(curves.items()):
            area = float(found.risk.mean())
            axes.plot(found.coverage, found.risk, **drawing(i), linewidth=2, label=_labelled(name, f"AURC {area:.3f}"))
            highest = max(highest, float(found.risk[found.coverage >= 0.02].max()))
        if len(curves) == 1:
            ((_, right),) = judged.values()
            axes.plot(found.coverage, curve(right, right).risk, color=GREY, linestyle="--", label="best possible order")
            axes.axhline(found.risk[-1], color=GREY, linestyle=":", label="random order")
        axes.set(xlabel="coverage (share of questions answered, the surest first)", xlim=(0, 1))
        axes.set(ylabel="risk (share of answers that are wrong)", ylim=(0, min(1.02, 1.08 * highest)))
        place_legend(axes)
    return Path(path)


def reliability(judged: Judged, path: str | Path, *, bins: int = 10, title: str = "Reliability") -> Path:
    """Plot accuracy against mean confidence in bins of equal width; larger markers hold more answers.

    Arguments and errors as for ``risk_coverage``; confidences are probabilities, an unknown one counts as 0.
    """
    binned = {name: reliability_bins(sure, right, bins=bins) for name, (sure, right) in judged.items()}
    if not all(found.size.any() for found in binned.values()):
        raise InputError("There are no answers to plot.")
    with figure_of(path, title, size=_SIZE) as axes:
        axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1.2, label="perfectly calibrated")
        for i, (name, found) in enumerate(binned.items()):
            filled = found.size > 0
            x, y, style, mark = found.confidence[filled], found.accuracy[filled], drawing(i), mark_of(i)
            axes.plot(x, y, **style, linewidth=1.4, alpha=0.8)
            sizes = 20 + 220 * found.size[filled] / found.size.sum()
            axes.scatter(x, y, s=sizes, color=style["color"], marker=mark, alpha=0.75, linewidths=0)
            error = expected_calibration_error(*judged[name], bins=bins)
            axes.plot([], [], **style, marker=mark, label=_labelled(name, f"ECE {error:.3f}"))
        axes.set(xlabel="confidence", ylabel="accuracy", xlim=(-0.02, 1.02), ylim=(-0.02, 1.04))
        place_legend(axes)
    return Path(path)


def target_accuracy(
    confidence: ArrayLike, correct: ArrayLike, path: str | Path, *, title: str = "What a target accuracy gives"
) -> Path:
    """Plot accuracy and coverage of the answers with confidence > ρ* against ρ*.

    Args:
        confidence: (N,) probabilities; correct: (N,) in [0, 1].
        path, title: as for ``risk_coverage``, and so are the errors.
    """
    targets = np.arange(1, 100) / 100
    kept = [accuracy_at(confidence, correct, float(rho)) for rho in targets]
    with figure_of(path, title) as axes:
        axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1.2, label="accuracy = target")
        axes.plot(targets, [k.accuracy for k in kept], color=_COLOURS[0], linewidth=2, label="accuracy of kept answers")
        axes.plot(targets, [k.coverage for k in kept], color=_COLOURS[1], linewidth=2, label="coverage")
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


def drawing(number: int) -> dict[str, str]:
    """Return colour and line style of the configuration of that number."""
    return {"color": _COLOURS[number % 8], "linestyle": ("-", "--", "-.", ":")[number // 8 % 4]}


def mark_of(number: int) -> str:
    """Return the marker of the configuration of that number."""
    return _MARKS[number % 8]


def place_legend(axes: Any) -> None:
    """Place the legend below the plot, where it hides no curve."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize=9)


def shorten(name: str) -> str:
    """Shorten a name for a legend; a dollar sign would start a formula."""
    return (name if len(name) <= _LONG else f"{name[: _LONG - 1]}…").replace("$", r"\$")


def _labelled(name: str, figure: str) -> str:
    return f"{shorten(name)} ({figure})" if name else figure
