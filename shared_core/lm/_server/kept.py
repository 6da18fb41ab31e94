"""Keep what was found out about a server in the user's cache folder, so that another process need not ask again.

An entry belongs to an address, a model with its details, and the server's version; a server that tells none is asked
each time. Only servers that give log-probabilities and take grammars are kept: what another lacks may be a matter of
the flags it was started with, which no version shows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shared_core.lm._server.abilities import Abilities, Route
from shared_core.lm._server.http import Deadline, Endpoint, Failure
from shared_core.support.files import replace_file

_FORMAT = 1  # raise it when probes or abilities change: older entries are then passed over
_AGE = 24 * 3600.0  # seconds


async def version_of(endpoint: Endpoint, deadline: Deadline) -> str:
    """Return what the server tells of its version; empty if it tells nothing."""
    for path, keys in (("/version", ("version",)), ("/api/version", ("version",)), ("/openapi.json", ("info",))):
        try:
            answer = await endpoint.get(endpoint.root + path, deadline)
        except Failure:
            continue
        if any(answer.get(k) for k in keys):
            return json.dumps([answer.get(k) for k in keys], sort_keys=True)
    return ""


def place_of(endpoint: Endpoint, version: str, api: str, entry: Mapping[str, Any], model: str) -> Path | None:
    """Return the file of a server's abilities; ``None`` if nothing is kept of it."""
    if not version:
        return None
    try:
        import platformdirs
    except ImportError:
        return None
    known = {k: v for k, v in entry.items() if k not in ("created", "permission", "permissions")}
    key = json.dumps([_FORMAT, endpoint.url, version, api, known, model], sort_keys=True, default=str)
    folder = platformdirs.user_cache_path("selfreflect", appauthor=False) / "servers"
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def read_kept(place: Path | None) -> Abilities | None:
    """Return the abilities kept there; ``None`` if there are none, or they are a day old or cannot be read."""
    if place is None:
        return None
    try:
        if time.time() - place.stat().st_mtime > _AGE:
            return None
        found = json.loads(place.read_text(encoding="utf-8"))
        found |= {name: _route(found[name]) for name in ("chat", "completions")}
        found |= {"details": tuple(map(tuple, found["details"])), "control_strings": tuple(found["control_strings"])}
        return Abilities(**found)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _route(values: Mapping[str, Any] | None) -> Route | None:
    if values is None:
        return None
    return Route(**{**values, "neutral": tuple((str(n), float(v)) for n, v in values["neutral"])})


def keep(place: Path | None, able: Abilities) -> None:
    """Keep abilities, unless other flags of the server might give more; a folder that cannot be written is no error."""
    routes = [r for r in (able.chat, able.completions) if r is not None]
    if place is None or not all(r.grammar is not None and r.logprobs for r in routes):
        return
    with contextlib.suppress(OSError), replace_file(place) as file:
        json.dump(dataclasses.asdict(able), file)


def forget(place: Path | None) -> None:
    """Remove abilities that turned out to be wrong."""
    if place is not None:
        with contextlib.suppress(OSError):
            place.unlink(missing_ok=True)
