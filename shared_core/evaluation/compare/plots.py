"""Plots of several configurations side by side: risk–coverage, reliability, utility and cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shared_core.evaluation.compare.figures import ComparisonFigures, Estimate
from shared_core.evaluation.compare.outcomes import ComparisonRow
from shared_core.evaluation.metrics import confidence as ranking
from shared_core.evaluation.plots import figure_of

# Okabe and Ito's palette, safe for colour-blind readers, and a marker for each colour.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b4fa0", "#4d4d4d")
_MARKS = "osD^vPX*"
_GREY = "#6b7280"
_LONG = 34


def draw(comparison: ComparisonFigures, folder: Path) -> list[Path]:
    """Draw the plots that are defined, each a PNG file.

    Raises:
        InputError: a file cannot be written.
        MissingDependencyError: matplotlib is not installed.
    """
    judged = {name: _judgements(rows) for name, rows in comparison.rows.items()}
    sure = {name: found for name, found in judged.items() if any(not math.isnan(c) for c in found[0])}
    target = headline_target(comparison)
    written = []
    utility = {n: comparison.figures[n][f"utility_{target:g}"] for n in comparison.names}
    if any(math.isfinite(e.value) for e in utility.values()):
        written.append(utilities(utility, target, comparison.level, folder / "utility.png"))
    if sure:
        written.append(risk_coverage(sure, folder / "risk_coverage.png"))
        written.append(reliability(sure, folder / "reliability.png"))
    if len(utility) > 1 and any(math.isfinite(e.value) for e in utility.values()):
        seconds = {n: comparison.figures[n]["seconds_per_question"].value for n in comparison.names}
        written.append(cost(utility, seconds, target, folder / "cost.png"))
    return written


def headline_target(comparison: ComparisonFigures) -> float:
    """Return the ρ* at which utility is shown: the baseline's own if it is among them, else the first."""
    made_with = comparison.run.configurations[comparison.reference]
    own = (made_with.get("settings") or {}).get("target_accuracy")
    return float(own) if own in comparison.rhos else comparison.rhos[0]


def risk_coverage(judged: Mapping[str, tuple[Sequence[float], Sequence[float]]], path: Path) -> Path:
    """Plot the error rate of the most confident answers against their share, one line per configuration.

    Args:
        judged: (confidences, correctness) by name, (N,) each; NaN ranks as least confident.
        path: file to write.
    """
    with figure_of(path, "Risk–coverage", size=(7.2, 5.4)) as axes:
        highest = 0.05
        for i, (name, (sure, right)) in enumerate(judged.items()):
            found = ranking.risk_coverage_curve(sure, right, ties="mean")
            area = ranking.aurc(sure, right, ties="mean")
            axes.plot(
                found.coverage, found.risk, color=_colour(i), linewidth=2, linestyle=_line(i),
                label=f"{_short(name)} (AURC {area:.3f})",
            )  # fmt: skip
            highest = max(highest, float(found.risk[found.coverage >= 0.02].max()))
        axes.set(xlabel="coverage (share of questions answered, the surest first)", xlim=(0, 1))
        axes.set(ylabel="risk (share of answers that are wrong)", ylim=(0, min(1.02, 1.08 * highest)))
        _legend(axes)
    return path


def reliability(judged: Mapping[str, tuple[Sequence[float], Sequence[float]]], path: Path, bins: int = 10) -> Path:
    """Plot accuracy against mean confidence in bins of equal width; larger markers hold more answers.

    Arguments as for ``risk_coverage``; an unknown confidence counts as 0.
    """
    with figure_of(path, "Reliability", size=(7.2, 5.4)) as axes:
        axes.plot([0, 1], [0, 1], color=_GREY, linestyle="--", linewidth=1.2, label="perfectly calibrated")
        for i, (name, (sure, right)) in enumerate(judged.items()):
            found = ranking.reliability_bins(sure, right, bins=bins)
            filled = found.size > 0
            error = ranking.expected_calibration_error(sure, right, bins=bins)
            x, y = found.confidence[filled], found.accuracy[filled]
            axes.plot(x, y, color=_colour(i), linewidth=1.4, linestyle=_line(i), alpha=0.8)
            sizes = 20 + 220 * found.size[filled] / found.size.sum()
            axes.scatter(x, y, s=sizes, color=_colour(i), marker=_MARKS[i % len(_MARKS)], alpha=0.75, linewidths=0)
            axes.plot(
                [], [], color=_colour(i), marker=_MARKS[i % len(_MARKS)], linestyle=_line(i),
                label=f"{_short(name)} (ECE {error:.3f})",
            )  # fmt: skip
        axes.set(xlabel="confidence", ylabel="accuracy", xlim=(-0.02, 1.02), ylim=(-0.02, 1.04))
        _legend(axes)
    return path


def utilities(estimates: Mapping[str, Estimate], target: float, level: float, path: Path) -> Path:
    """Plot the mean utility of an answer with its interval, one row per configuration."""
    height = 1.6 + 0.42 * len(estimates)
    with figure_of(path, f"Utility per question at ρ* = {target:g}", size=(7.2, height)) as axes:
        for i, estimate in enumerate(estimates.values()):
            if not math.isfinite(estimate.value):
                axes.annotate(
                    "not defined", (0, i), color=_GREY, va="center", xytext=(6, 0), textcoords="offset points"
                )
                continue
            if estimate.low is not None and estimate.high is not None:
                axes.plot(
                    [estimate.low, estimate.high], [i, i], color=_colour(i), linewidth=2.4, solid_capstyle="round"
                )
            axes.plot(estimate.value, i, color=_colour(i), marker=_MARKS[i % len(_MARKS)], markersize=8)
            axes.annotate(
                f"{estimate.value:.3f}", (estimate.value, i), xytext=(0, 7), textcoords="offset points",
                ha="center", fontsize=9,
            )  # fmt: skip
        axes.axvline(0, color=_GREY, linestyle="--", linewidth=1.2)
        axes.set_yticks(range(len(estimates)), [_short(name) for name in estimates])
        axes.set(ylim=(len(estimates) - 0.5, -0.7))
        axes.set_xlabel(f"1 for a right answer, -{target / (1 - target):.3g} for a wrong one, 0 for none · {level:.0%}")
        axes.margins(x=0.08)
    return path


def cost(estimates: Mapping[str, Estimate], seconds: Mapping[str, float], target: float, path: Path) -> Path:
    """Plot utility against seconds per question."""
    with figure_of(path, "Utility and what it costs", size=(7.2, 5.4)) as axes:
        for i, (name, estimate) in enumerate(estimates.items()):
            if not math.isfinite(estimate.value) or not seconds[name] > 0:
                continue
            if estimate.low is not None and estimate.high is not None:
                x = seconds[name]
                axes.plot([x, x], [estimate.low, estimate.high], color=_colour(i), linewidth=1.6, alpha=0.6)
            axes.plot(
                seconds[name], estimate.value, color=_colour(i), marker=_MARKS[i % len(_MARKS)], markersize=9,
                linestyle="none", label=_short(name),
            )  # fmt: skip
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(_some_minor)
        axes.set(xlabel="seconds per question (logarithmic)", ylabel=f"utility per question at ρ* = {target:g}")
        axes.margins(0.12)
        _legend(axes)
    return path


def _judgements(rows: Sequence[ComparisonRow]) -> tuple[list[float], list[float]]:
    """Return (confidences, correctness) of the rows without error that can be judged."""
    known = [row.record for row in rows if row.record.correct is not None and not row.record.error]
    sure = [math.nan if r.confidence is None else r.confidence for r in known]
    return sure, [float(bool(r.correct)) for r in known]


def _legend(axes: Any) -> None:
    """Place the legend below the plot, where it hides no curve."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize=9)


def _some_minor(value: float, _: int) -> str:
    """Label 2 and 5 of each decade; all nine labels would overlap."""
    return f"{value:g}" if f"{value:e}"[0] in "25" else ""


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _line(number: int) -> str:
    return ("-", "--", "-.", ":")[number // len(_COLOURS) % 4]


def _short(name: str) -> str:
    # A dollar sign would start a formula.
    return (name if len(name) <= _LONG else f"{name[: _LONG - 1]}…").replace("$", r"\$")
