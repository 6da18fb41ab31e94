"""Comparison of configurations and the files it is written to: JSON, CSV, plots, and one HTML page that holds them."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shared_core.evaluation import plots
from shared_core.evaluation.compare.figures import METHOD, ComparisonFigures, Estimate
from shared_core.evaluation.compare.outcomes import ComparisonRow
from shared_core.evaluation.report import page_environment
from shared_core.evaluation.runner import judgements, write_result

DISAGREEMENTS = 60
"""Most questions shown of those that some configurations answer right and others do not."""

_OF_MODELS = ("calls", "prompt_tokens", "generated_tokens")


class Comparison(ComparisonFigures):
    """Result of ``compare`` and ``merge``: the figures, and the files they are written to."""

    def write(self, path: str | Path) -> Path:
        """Write ``to_dict`` as JSON, atomically; InputError if the file cannot be written."""
        return write_result(path, json.dumps(self.to_dict(), ensure_ascii=False, indent=2, default=str) + "\n")

    def plot(self, folder: str | Path) -> list[Path]:
        """Draw risk–coverage, reliability, utility and cost of all configurations, as far as they are defined, as PNGs.

        Raises:
            InputError: a file cannot be written.
            MissingDependencyError: matplotlib is not installed.
        """
        folder = Path(folder)
        judged = {name: judgements(row.record for row in rows) for name, rows in self.rows.items()}
        sure = {name: found for name, found in judged.items() if any(not math.isnan(c) for c in found[0])}
        target = headline_target(self)
        written = []
        utility = {n: self.figures[n][f"utility_{target:g}"] for n in self.names}
        defined = any(math.isfinite(e.value) for e in utility.values())
        if defined:
            written.append(utilities(utility, target, self.level, folder / "utility.png"))
        if sure:
            written.append(plots.risk_coverage(sure, folder / "risk_coverage.png"))
            written.append(plots.reliability(sure, folder / "reliability.png"))
        if defined and len(utility) > 1:
            seconds = {n: self.figures[n]["seconds_per_question"].value for n in self.names}
            written.append(cost(utility, seconds, target, folder / "cost.png"))
        return written

    def save(self, folder: str | Path) -> list[Path]:
        """Write ``comparison.json``, ``figures.csv``, ``answers.csv``, the plots and ``report.html``, which holds them.

        ``answers.csv`` has a line per question and configuration. Errors as of ``plot``.
        """
        folder = Path(folder)
        answers = [_flat(self.rows[name][i]) for i in range(len(self.questions)) for name in self.names]
        written = [
            self.write(folder / "comparison.json"),
            write_result(folder / "figures.csv", _as_csv(self.table())),
            write_result(folder / "answers.csv", _as_csv(answers)),
        ]
        drawn = self.plot(folder)
        return [*written, *drawn, write_result(folder / "report.html", _page(self, drawn))]


def _flat(row: ComparisonRow) -> dict[str, Any]:
    record = row.record
    usage = row.usage
    plain = {name: getattr(record, name) for name in record.__slots__ if name not in ("id", "seconds", "error")}
    return {
        "id": record.id,
        "configuration": row.configuration,
        "position": row.position,
        **plain,
        "answers": "|".join(record.answers),
        "text": row.text,
        "retrieved": row.retrieved,
        "calls": usage.calls if usage else None,
        "prompt_tokens": usage.prompt_tokens if usage else None,
        "generated_tokens": usage.generated_tokens if usage else None,
        "seconds": record.seconds,
        **row.measures,
        "error": record.error,
    }


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, names, lineterminator="\n")  # writes unknown as empty
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def headline(comparison: ComparisonFigures) -> list[str]:
    """Return the main figures that any configuration defines; calls and tokens only if a model was asked."""
    rho = f"{headline_target(comparison):g}"
    wanted = (
        f"utility_{rho}", "accuracy", "coverage", "exact_match", "f1", f"kept_accuracy_{rho}", f"coverage_{rho}",
        "auroc_correct", "ece", "abstention_precision", "abstention_recall", "recall", "retrieved", "calls",
        "prompt_tokens", "generated_tokens", "seconds_per_question",
    )  # fmt: skip
    found = [(n, e.value) for of in comparison.figures.values() for n, e in of.items()]
    known = {n for n, value in found if math.isfinite(value) and (value or n not in _OF_MODELS)}
    own = {name for rows in comparison.rows.values() for row in rows for name in row.measures}
    return [name for name in (*wanted, *sorted(own)) if name in known]


def show_figure(estimate: Estimate | None, *, signed: bool = False) -> str:
    """Format as ``0.612 [0.551, 0.674]``; an en dash if undefined."""
    if estimate is None or not math.isfinite(estimate.value):
        return "–"
    value = _number(estimate.value, signed=signed)
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} [{_number(estimate.low, signed=signed)}, {_number(estimate.high, signed=signed)}]"


def _number(value: float, *, signed: bool) -> str:
    digits = 3 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
    form = ".2g" if 0 < abs(value) < 0.01 else f".{digits}f"
    return f"{value + 0.0:{'+' if signed else ''}{form}}"


def _page(comparison: ComparisonFigures, plots: Sequence[Path]) -> str:
    """Make one self-contained HTML page: no scripts, no outside resources."""
    return page_environment().get_template("comparison.html.j2").render(
        title="Evaluation",
        c=comparison,
        method=METHOD,
        first=headline(comparison),
        rest=_rest(comparison),
        counts={name: _counts(comparison, name) for name in comparison.names},
        show=show_figure,
        plots=[(p.stem.replace("_", " "), base64.b64encode(p.read_bytes()).decode()) for p in plots],
        disagreements=_disagreements(comparison),
        shown=DISAGREEMENTS,
        sessions=[json.dumps(s, indent=2, ensure_ascii=False, default=str) for s in comparison.run.sessions],
        made_with={n: json.dumps(comparison.run.configurations[n], indent=2, default=str) for n in comparison.names},
    )  # fmt: skip


def _rest(comparison: ComparisonFigures) -> list[str]:
    first = {"questions", "errors", *headline(comparison)}
    every = dict.fromkeys(name for of in comparison.figures.values() for name in of)
    return [
        name for name in every
        if name not in first and any(math.isfinite(of[name].value) for of in comparison.figures.values() if name in of)
    ]  # fmt: skip


def _counts(comparison: ComparisonFigures, name: str) -> Mapping[str, int]:
    records = [row.record for row in comparison.rows[name]]
    return {
        "answered": sum(not r.abstained and not r.error for r in records),
        "abstained": sum(r.abstained for r in records),
        "failed": sum(bool(r.error) for r in records),
        "judged": sum(r.correct is not None for r in records),
        "answerable": sum(r.answerable is True for r in records),
        "unanswerable": sum(r.answerable is False for r in records),
    }


def _disagreements(comparison: ComparisonFigures) -> list[dict[str, Any]]:
    """Return the questions whose outcomes differ, those first where the fewest agree with the baseline."""
    found: list[tuple[int, dict[str, Any]]] = []
    for number in range(len(comparison.questions)):
        rows = {name: comparison.rows[name][number] for name in comparison.names}
        outcomes = {name: _outcome(row.utility(0.5)) for name, row in rows.items()}
        if len(set(outcomes.values())) > 1 and None not in outcomes.values():
            agree = sum(outcome == outcomes[comparison.reference] for outcome in outcomes.values())
            record = rows[comparison.reference].record
            found.append((agree, {"rows": rows, "outcomes": outcomes, "record": record}))
    return [item for _, item in sorted(found, key=lambda pair: pair[0])]


def _outcome(utility: float | None) -> str | None:
    return None if utility is None else "right" if utility > 0 else "wrong" if utility < 0 else "nothing shown"


def headline_target(comparison: ComparisonFigures) -> float:
    """Return the ρ* at which utility is shown: the baseline's own if it is among them, else the first."""
    made_with = comparison.run.configurations[comparison.reference]
    own = (made_with.get("settings") or {}).get("target_accuracy")
    return float(own) if own in comparison.rhos else comparison.rhos[0]


def utilities(estimates: Mapping[str, Estimate], target: float, level: float, path: Path) -> Path:
    """Plot the mean utility of an answer with its interval, one row per configuration."""
    height = 1.6 + 0.42 * len(estimates)
    with plots.figure_of(path, f"Utility per question at ρ* = {target:g}", size=(7.2, height)) as axes:
        for i, estimate in enumerate(estimates.values()):
            if not math.isfinite(estimate.value):
                axes.annotate("not defined", (0, i), color=plots.GREY, va="center", xytext=(6, 0), **_POINTS)
                continue
            axes.errorbar(estimate.value, i, xerr=_bars(estimate), **_marked(i), markersize=8, linewidth=2.4)
            label = f"{estimate.value:.3f}"
            axes.annotate(label, (estimate.value, i), xytext=(0, 7), **_POINTS, ha="center", fontsize=9)
        axes.axvline(0, color=plots.GREY, linestyle="--", linewidth=1.2)
        axes.set_yticks(range(len(estimates)), [plots.shorten(name) for name in estimates])
        axes.set(ylim=(len(estimates) - 0.5, -0.7))
        axes.set_xlabel(f"1 for a right answer, -{target / (1 - target):.3g} for a wrong one, 0 for none · {level:.0%}")
        axes.margins(x=0.08)
    return path


def cost(estimates: Mapping[str, Estimate], seconds: Mapping[str, float], target: float, path: Path) -> Path:
    """Plot utility against seconds per question."""
    with plots.figure_of(path, "Utility and what it costs", size=(7.2, 5.4)) as axes:
        for i, (name, estimate) in enumerate(estimates.items()):
            if not math.isfinite(estimate.value) or not seconds[name] > 0:
                continue
            own = {**_marked(i), "linestyle": "none", "label": plots.shorten(name)}
            axes.errorbar(seconds[name], estimate.value, yerr=_bars(estimate), **own, markersize=9)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(_some_minor)
        axes.set(xlabel="seconds per question (logarithmic)", ylabel=f"utility per question at ρ* = {target:g}")
        axes.margins(0.12)
        plots.place_legend(axes)
    return path


_POINTS: Mapping[str, Any] = {"textcoords": "offset points"}


def _bars(estimate: Estimate) -> list[list[float]] | None:
    """Return the lengths of an error bar, below and above the value."""
    if estimate.low is None or estimate.high is None:
        return None
    return [[max(0.0, estimate.value - estimate.low)], [max(0.0, estimate.high - estimate.value)]]


def _marked(number: int) -> dict[str, str]:
    return {"color": plots.drawing(number)["color"], "marker": plots.mark_of(number)}


def _some_minor(value: float, _: int) -> str:
    """Label 2 and 5 of each decade; all nine labels would overlap."""
    return f"{value:g}" if f"{value:e}"[0] in "25" else ""
