"""Clients that do not wait between attempts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shared_core.lm.openai import OpenAICompatibleLM
from tests.lm.openai_client import KEY, Connect
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
