"""Clients that do not wait between attempts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from shared_core.lm.encoding import Encoder
from shared_core.lm.openai import OpenAICompatibleLM
from tests.lm.hostile import TOKENIZERS
from tests.lm.openai_client import KEY, Connect, Serve
from tests.openai_server import FakeServer


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
    lm.probe()
    return lm


@pytest.fixture(scope="module", params=TOKENIZERS, ids=lambda f: f.__name__)
def encoder(request: pytest.FixtureRequest, tiny_tokenizer: Any) -> Encoder:
    """The encoder of each kind of tokenizer."""
    return Encoder(request.param(tiny_tokenizer))


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder, empty."""
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda *args, **kwargs: tmp_path / "cache")
    return tmp_path / "cache"
