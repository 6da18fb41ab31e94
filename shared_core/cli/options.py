"""Options for what has no option of its own: any setting by its name, and the guarantee."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
        *groups, last = name.strip().split(".")
        own: object = settings
        values = changes
        for group in groups:
            own = getattr(own, group, None) if isinstance(own, Settings) else None
            if not isinstance(values.get(group), dict):  # the first change in this group: begin with what is set
                given = own.model_dump(exclude_unset=True) if isinstance(own, Settings) else own
                values[group] = dict(given) if isinstance(given, Mapping) else {}
            values = values[group]
        values[last] = _read(value)
    return settings.replace(**changes) if changes else settings


def _read(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value.strip()
