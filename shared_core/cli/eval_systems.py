"""Build the systems that ``selfreflect eval`` compares: pipelines, settings, and the model without us."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from shared_core.cli.options import with_set
from shared_core.errors import CalibrationError, InputError, SettingsError
from shared_core.settings import PipelineName, SelfReflectSettings

if TYPE_CHECKING:
    from shared_core.evaluation.runner import AnswersMany
    from shared_core.facades.engine import SelfReflectEngine

PLAIN, CLOSED_BOOK = "plain", "closed-book"
KINDS = (*get_args(PipelineName), PLAIN, CLOSED_BOOK)
_MATTERS = {
    PLAIN: {"top_k", "where", "on_overflow", "seed", "deadline", "max_calls", "max_tokens"},
    CLOSED_BOOK: {"seed", "deadline", "max_calls", "max_tokens"},
}
"""Settings that affect the model without us."""
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
    kinds = [kind.strip() for text in compare for kind in text.split(",") if kind.strip()]
    if not kinds and (vary or file is None):
        kinds = [base.pipeline]
    for kind in kinds:
        _require_kind(kind)
    varied = [_varied(text) for text in vary]
    found: dict[str, Wanted] = {}
    for kind in kinds:
        own = [(name, values) for name, values in varied if kind not in _MATTERS or name in _MATTERS[kind]]
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

    Raises:
        InputError: a configuration cannot be made: it needs a model, or its calibration was fitted for another.
    """
    from shared_core.evaluation.baselines import Plain

    made: dict[str, AnswersMany] = {}
    for one in wanted:
        try:
            own = _sibling(engine, one.settings)
            made[one.name] = own if one.kind not in _MATTERS else Plain(own, retrieve=one.kind == PLAIN)
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
    if kind in _MATTERS:  # only lends its parts, its own answers are not used
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
