"""Options for what has no option of its own: any setting by its name, and the guarantee."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from shared_core.cli.console import note
from shared_core.errors import InputError
from shared_core.settings import SelfReflectSettings, Settings

Set = Annotated[
    list[str],
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting, repeatable: research.samples=4."),
]


def _place_of_vectors(value: str | None) -> str | None:
    """Accept the bare URL of ``--chroma-url``, the old name of this option, with a warning."""
    if value is None or not value.startswith(("http://", "https://")):
        return value
    note(f"warning: --chroma-url is now --vectors chroma:{value}", style="yellow")
    return f"chroma:{value}"


Vectors = Annotated[
    str | None,
    typer.Option(
        "--vectors",
        "--chroma-url",
        metavar="PLACE",
        callback=_place_of_vectors,
        help="Where dense vectors live: index (its own file, the default), chroma (embedded), chroma:URL (a server) "
        "or none (BM25 only). An index remembers it.",
    ),
]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first so many questions.")]
Guarantee = Annotated[
    str | None,
    typer.Option(
        "--guarantee",
        help="conformal_factuality, conformal_risk_control or learn_then_test: what is promised of the claims shown.",
    ),
]


def with_set(settings: SelfReflectSettings, pairs: Sequence[str]) -> SelfReflectSettings:
    """The settings with these ``name=value``; values are JSON (``4``, ``true``, ``null``), anything else is text.

    Raises:
        InputError: a pair has no ``=``.
        SettingsError: no such setting, or a value that it cannot have.
    """
    changes: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--set takes NAME=VALUE, not {pair!r}.", hint="--set research.samples=4")
        group, dot, inner = name.strip().partition(".")
        if not dot:
            changes[group] = _read(value)
            continue
        own = changes.get(group, getattr(settings, group, None))
        values = own.model_dump(include=own.model_fields_set) if isinstance(own, Settings) else dict(own or {})
        changes[group] = {**values, inner: _read(value)}
    return settings.replace(**changes) if changes else settings


def _read(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value.strip()
