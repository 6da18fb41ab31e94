"""Clients that do not wait between attempts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from shared_core.lm._server.abilities import Abilities
from shared_core.lm._server.request import Planner
from shared_core.lm.encoding import Encoder
from shared_core.lm.openai import OpenAICompatibleLM
from tests.lm.hostile import TOKENIZERS
from tests.lm.openai_client import KEY, Connect, Serve
from tests.openai_server import FakeServer

_FOUND: dict[str, Abilities] = {}


def informed(lm: OpenAICompatibleLM, kind: str) -> None:
    """Let a client know what an earlier one found out about a server of that kind: asking takes 24 requests."""
    if kind in _FOUND:
        lm._planner = Planner(lm._endpoint, _FOUND[kind], lm._encoder, lm._control)
    else:
        _FOUND[kind] = lm.probe()


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Makes clients that do not wait between attempts; ``lm.slept`` holds how long they would have."""
    made: list[OpenAICompatibleLM] = []

    def make(server: FakeServer | str, **options: Any) -> OpenAICompatibleLM:
        options = {"api_key": KEY, "timeout": 5.0, "max_retries": 2, **options}
        lm = OpenAICompatibleLM(server if isinstance(server, str) else server.url, **options)
        slept: list[float] = []

        async def sleep(seconds: float) -> None:
            slept.append(seconds)

        lm._endpoint._sleep = sleep  # type: ignore[assignment]
        lm.slept = slept  # type: ignore[attr-defined]
        made.append(lm)
        return lm

    yield make
    for lm in made:
        lm.close()


@pytest.fixture
def serve(connect: Connect) -> Iterator[Serve]:
    """Starts servers (arguments as ``FakeServer``), each with a client that knows what it can do."""
    with ExitStack() as running:

        def start(*features: Any, **options: Any) -> tuple[FakeServer, OpenAICompatibleLM]:
            server = running.enter_context(FakeServer(*features, **options))
            lm = connect(server)
            if options.keys() <= {"reply"}:
                informed(lm, repr([sorted(f) for f in features]))
            else:
                lm.probe()
            return server, lm

        yield start


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A server that does everything."""
    with FakeServer() as server:
        yield server


@pytest.fixture
def lm(connect: Connect, server: FakeServer) -> OpenAICompatibleLM:
    """A client of that server, which knows what it can do."""
    lm = connect(server)
    informed(lm, "all")
    return lm


@pytest.fixture(scope="module", params=TOKENIZERS, ids=lambda f: f.__name__)
def encoder(request: pytest.FixtureRequest, tiny_tokenizer: Any) -> Encoder:
    """The encoder of each kind of tokenizer."""
    return Encoder(request.param(tiny_tokenizer))


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder, empty; what was found out about servers is not known either."""
    _FOUND.clear()
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda *args, **kwargs: tmp_path / "cache")
    return tmp_path / "cache"
