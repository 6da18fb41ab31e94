"""A server in this process: an engine of fakes behind the real application."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi")
import uvicorn
from fastapi import FastAPI
from starlette.testclient import TestClient

from shared_core import SelfReflectEngine
from shared_core.serve import Limits, create_app
from tests.serve.engines import MakeClient, Serve, make_engine


@pytest.fixture
def client() -> MakeClient:
    """Makes a client of a new server; errors are responses, as over a network."""

    def make(engine: SelfReflectEngine | None = None, index: Any = None, **limits: Any) -> TestClient:
        app = create_app(engine or make_engine(), index, Limits(**limits))
        return TestClient(app, raise_server_exceptions=False)

    return make


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Runs applications on ports of their own, until the test ends; returns the base URL."""
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def run(app: FastAPI) -> str:
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        running.append((server, thread))
        while not server.started:
            time.sleep(0.01)
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    yield run
    for server, thread in running:
        server.should_exit = True
        thread.join()
