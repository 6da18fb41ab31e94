"""An HTML page for a comparison: figures with intervals, differences, plots, where answers differ, what was run."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shared_core.errors import InputError
from shared_core.evaluation.compare.compared import METHOD, Compared, Estimate
from shared_core.evaluation.compare.comparison_plots import headline_target
from shared_core.evaluation.report import page_environment
from shared_core.support.files import replace_file

DISAGREEMENTS = 60
"""Questions shown of those that some configurations answer rightly and others do not."""

_OF_MODELS = ("calls", "prompt_tokens", "generated_tokens")


def headline(comparison: Compared) -> list[str]:
    """The figures to look at first, as far as they are defined for one of the configurations; calls and tokens where
    a language model was asked."""
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
    """``0.612 [0.551, 0.674]``; an en dash where it is not defined."""
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


def write_page(comparison: Compared, plots: Sequence[Path], path: Path, *, title: str = "Evaluation") -> Path:
    """Write one self-contained HTML page (no scripts, no outside resources) and return its path.

    Raises:
        InputError: it cannot be written.
    """
    page = page_environment().get_template("comparison.html.j2").render(
        title=title,
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
    try:
        with replace_file(path) as file:
            file.write(page.encode("utf-8", "replace").decode())
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from error
    return path


def _rest(comparison: Compared) -> list[str]:
    first = {"questions", "errors", *headline(comparison)}
    every = dict.fromkeys(name for of in comparison.figures.values() for name in of)
    return [
        name for name in every
        if name not in first and any(math.isfinite(of[name].value) for of in comparison.figures.values() if name in of)
    ]  # fmt: skip


def _counts(comparison: Compared, name: str) -> Mapping[str, int]:
    records = [row.record for row in comparison.rows[name]]
    return {
        "answered": sum(not r.abstained and not r.error for r in records),
        "abstained": sum(r.abstained for r in records),
        "failed": sum(bool(r.error) for r in records),
        "judged": sum(r.correct is not None for r in records),
        "answerable": sum(r.answerable is True for r in records),
        "unanswerable": sum(r.answerable is False for r in records),
    }


def _disagreements(comparison: Compared) -> list[dict[str, Any]]:
    """Questions on which outcomes differ, those first on which the fewest agree with the baseline."""
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
