"""``selfreflect eval`` of several configurations, or of one whose answers are kept: ask, show, merge."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from rich.table import Table
from rich.text import Text

from shared_core.cli.common import FAILED, check_output, reports_errors
from shared_core.cli.console import err, note, out, question_progress
from shared_core.cli.options import with_set
from shared_core.errors import CalibrationError, InputError, SettingsError
from shared_core.settings import PipelineName, SelfReflectSettings

if TYPE_CHECKING:
    from shared_core.evaluation.compare import Comparison, Estimate, Shard
    from shared_core.evaluation.runner import AnswersMany, Evaluation
    from shared_core.facades.engine import SelfReflectEngine

Resamples = Annotated[int, typer.Option("--resamples", min=0, help="Bootstrap draws for the intervals; 0: none.")]
Baseline = Annotated[
    str, typer.Option("--baseline", help="Configuration that the others are compared with; by default the first.")
]


def read_shard(text: str | None) -> Shard | None:
    """Parse ``2/4`` as (2, 4); InputError for anything else."""
    if text is None:
        return None
    number, slash, count = text.partition("/")
    if not slash or not number.strip().isdecimal() or not count.strip().isdecimal():
        raise InputError(f"--shard takes I/N, not {text!r}.", hint="--shard 1/4")
    return int(number), int(count)


def drawn(comparison: Comparison) -> Comparison:
    """Compute a comparison's figures, with a progress bar."""
    with question_progress(err, comparison.resamples, "drawing") as progress:
        comparison = dataclasses.replace(comparison, progress=progress)
        assert comparison.figures
    return comparison


def save_all(comparison: Comparison, folder: Path) -> None:
    """Write every file and print their paths, the page last."""
    paths = comparison.save(folder)
    for path in paths[:-1]:
        err.print(f"written: {path}")
    err.print(f"report: {paths[-1]}")


def show_comparison(comparison: Comparison) -> None:
    """Print the main figures, one line per figure and configuration, and the failures."""
    from shared_core.evaluation.compare.page import headline, show_figure

    columns = ["figure", "configuration", f"value [{comparison.level:.0%}]", "n"]
    if len(comparison.names) > 1:
        columns.append(f"difference from {comparison.reference}")
    table = Table(*columns, header_style="bold")
    for figure in headline(comparison):
        for number, name in enumerate(comparison.names):
            estimate = comparison.figures[name].get(figure)
            over = "" if estimate is None or estimate.over is None else str(estimate.over)
            line = [figure.replace("_", " ") if not number else "", name, show_figure(estimate), over]
            difference = comparison.differences.get((name, comparison.reference), {}).get(figure)
            if len(comparison.names) > 1:
                line.append(_shown(difference))
            table.add_row(*line, end_section=number == len(comparison.names) - 1)
    out.print(table)
    out.print(Text(f"over {len(comparison.questions)} questions · {_note(comparison)}", style="dim"))
    for name in comparison.names:
        show_failed(comparison.errors(name), f" with {name}")
    if comparison.left_out:
        note(
            f"{comparison.left_out} answers left out: not every configuration was asked their questions.",
            style="yellow",
        )


def show_failed(failed: Mapping[str, Sequence[str]], whose: str = "") -> None:
    """Print the errors of failed questions, each with the first of their ids."""
    for error, ids in failed.items():
        which = ", ".join(ids[:5]) + (", …" if len(ids) > 5 else "")
        err.print(Text(f"failed{whose} ({len(ids)}: {which}): {error}", style="yellow"))


def show_written(what: str, result: Comparison | Evaluation, json_file: Path | None, plots: Path | None) -> None:
    """Write the result as JSON and its plots, where they are asked for, and print their paths."""
    if json_file is not None:
        err.print(Text(f"{what}: {result.write(json_file)}"))
    for path in result.plot(plots) if plots is not None else ():
        err.print(Text(f"plot: {path}"))


def _shown(difference: Estimate | None) -> str:
    from shared_core.evaluation.compare.page import show_figure

    if difference is None or not math.isfinite(difference.value):
        return ""
    return show_figure(difference, signed=True) + (" *" if difference.differs else "")


def _note(comparison: Comparison) -> str:
    if not comparison.resamples:
        return "no intervals: --resamples 0"
    starred = " · * the interval excludes 0" if len(comparison.names) > 1 else ""
    return f"intervals: paired bootstrap, {comparison.resamples} draws, seed {comparison.seed}{starred}"


def all_failed(comparison: Comparison) -> bool:
    """Return whether every question failed."""
    return all(row.record.error for rows in comparison.rows.values() for row in rows)


@reports_errors
def eval_merge_command(
    folders: Annotated[list[Path], typer.Argument(help="Folders of `selfreflect eval -o`: shards, or other runs.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder for all answers, figures and the page; may be one of FOLDERS."),
    ],
    baseline: Baseline = "",
    resamples: Resamples = 1000,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the comparison as JSON here.")] = None,
) -> None:
    """Merge shards, or runs of several models on the same questions; for one folder, write figures and page again.

    Exit codes: 0 done, 2 bad usage or input, 1 failure (also if every question failed).
    """
    from shared_core.evaluation.compare import merge, missing_shards
    from shared_core.evaluation.plots import require_matplotlib

    check_output(json_file, "--json")
    require_matplotlib()
    comparison = drawn(merge(folders, output, baseline=baseline, resamples=resamples))
    show_comparison(comparison)
    missing = missing_shards(comparison.run.sessions)
    if missing:
        note(f"Missing shards: {', '.join(missing)}.", style="yellow")
    save_all(comparison, output)
    show_written("comparison", comparison, json_file, None)
    if all_failed(comparison):
        raise typer.Exit(FAILED)


PLAIN = "plain"
_BASELINES = (PLAIN, "closed-book")
KINDS = (*get_args(PipelineName), *_BASELINES)
_FILE_SHAPE = '{"strict": {"pipeline": "composed", "target_accuracy": 0.8}, "without us": {"pipeline": "plain"}}'


@dataclass(frozen=True, slots=True)
class Wanted:
    """Requested configuration; ``kind`` is a pipeline, ``plain`` or ``closed-book``."""

    name: str
    kind: str
    settings: SelfReflectSettings


def wanted_systems(
    base: SelfReflectSettings, compare: Sequence[str], vary: Sequence[str], file: Path | None
) -> list[Wanted]:
    """Combine every kind with every combination of the varied settings, then add those of the file.

    Args:
        base: settings that all share, and the pipeline if none is named.
        compare: kinds, several in one text separated by commas.
        vary: ``name=value,value``.
        file: JSON, configurations by name.

    Raises:
        InputError: an unknown kind, nothing to vary, an unusable file, or two of one name.
        SettingsError: unknown setting, or an invalid value.
    """
    from shared_core.evaluation.baselines import SETTINGS

    kinds = [kind.strip() for text in compare for kind in text.split(",") if kind.strip()]
    if not kinds and (vary or file is None):
        kinds = [base.pipeline]
    for kind in kinds:
        _require_kind(kind)
    varied = [_varied(text) for text in vary]
    found: dict[str, Wanted] = {}
    for kind in kinds:
        own = [(name, values) for name, values in varied if kind not in SETTINGS or name in SETTINGS[kind]]
        for combination in itertools.product(*([f"{name}={value}" for value in values] for name, values in own)):
            name = " ".join([kind, *combination])
            if name in found:
                raise InputError(f"{name!r} is named twice.")
            found[name] = Wanted(name, kind, with_set(_of_kind(base, kind), combination))
    for name, values in _read_file(file).items():
        if name in found:
            raise InputError(f"{name!r} is named twice.")
        found[name] = _from_file(name, values, base)
    return list(found.values())


def make_systems(engine: SelfReflectEngine, wanted: Sequence[Wanted]) -> dict[str, AnswersMany]:
    """Build systems by name over one engine's documents and models; nothing is loaded twice.

    InputError if one cannot be made: it needs a model, or its calibration was fitted for another configuration.
    """
    from shared_core.evaluation.baselines import Plain

    made: dict[str, AnswersMany] = {}
    for one in wanted:
        try:
            own = _sibling(engine, one.settings)
            made[one.name] = own if one.kind not in _BASELINES else Plain(own, retrieve=one.kind == PLAIN)
        except (SettingsError, CalibrationError) as error:
            hint = error.hint
            if isinstance(error, CalibrationError):
                hint = "Give each configuration its own calibration, or none: --configurations FILE"
            raise InputError(f"{one.name}: {error.message}", hint=hint) from error
    return made


def _sibling(engine: SelfReflectEngine, settings: SelfReflectSettings) -> SelfReflectEngine:
    """Build an engine of these settings over the same parts; unlike ``over``'s it shares no learnt state."""
    parts = engine.resources
    assert parts.retriever is not None
    return type(engine)(
        parts.retriever,
        None,
        settings,
        reader=parts.reader,
        judge=parts.judge,
        critic=parts.critic,
        embedder=parts.embedder,
        models=parts.models,
    )


def _require_kind(kind: str) -> None:
    if kind not in KINDS:
        raise InputError(f"Unknown system {kind!r} to compare.", hint=f"Choose from: {', '.join(KINDS)}.")


def _of_kind(base: SelfReflectSettings, kind: str) -> SelfReflectSettings:
    if kind in _BASELINES:  # only lends its parts, its own answers are not used
        return base.replace(pipeline="composed", calibration=None, guarantee=None)
    return base.replace(pipeline=kind)


def _varied(text: str) -> tuple[str, list[str]]:
    name, equals, values = text.partition("=")
    name = name.strip()
    if not equals or not name or not values.strip():
        raise InputError(f"--vary takes NAME=VALUE,VALUE, not {text!r}.", hint="--vary target_accuracy=0.5,0.8")
    if name == "pipeline":
        raise InputError("Pipelines are varied with --compare.", hint=f"--compare {values}")
    try:
        found = [v if isinstance(v, str) else json.dumps(v) for v in json.loads(f"[{values}]")]
    except ValueError:
        found = [value.strip() for value in values.split(",") if value.strip()]
    return name, found


def _read_file(path: Path | None) -> Mapping[str, Mapping[str, Any]]:
    if path is None:
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.", hint=_FILE_SHAPE) from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}.", hint=_FILE_SHAPE) from error
    if not isinstance(content, dict) or not content or not all(isinstance(v, dict) for v in content.values()):
        raise InputError(f"{path} holds no configurations by name.", hint=_FILE_SHAPE)
    return content


def _from_file(name: str, values: Mapping[str, Any], base: SelfReflectSettings) -> Wanted:
    kind = str(values.get("pipeline", base.pipeline))
    _require_kind(kind)
    pairs = []
    for setting, value in values.items():
        if setting == "pipeline":
            continue
        if isinstance(value, dict) and setting != "where":
            pairs += [f"{setting}.{inner}={json.dumps(v)}" for inner, v in value.items()]
        else:
            pairs.append(f"{setting}={json.dumps(value)}")
    return Wanted(name, kind, with_set(_of_kind(base, kind), pairs))
