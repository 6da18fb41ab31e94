"""Engines of fakes for the server's tests, and the types of the fixtures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.errors import BackendUnavailableError
from tests.fakes import FirstSentenceReader, Shelf, WordCritic

MakeClient = Callable[..., Any]
"""Makes a client of a new server from an engine, an index and limits."""
Serve = Callable[[Any], str]
"""Runs an application and returns its base URL."""


def make_engine(*, retriever: Any = None, lm: Any = None, support: float = 0.9, **settings: Any) -> SelfReflectEngine:
    return SelfReflectEngine(
        retriever or Shelf(),
        lm,
        SelfReflectSettings(**settings),
        reader=FirstSentenceReader(support),
        critic=WordCritic(),
    )


def dead_model(request: Any) -> str:
    raise BackendUnavailableError("The model server is down.", hint="Start it.")
