"""One released model behind every backend that this machine has, and the table of what each does."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared_core.errors import ModelLoadError
from shared_core.lm._hf.gguf import find_gguf
from shared_core.lm.base import LanguageModel
from shared_core.lm.openai import OpenAICompatibleLM
from shared_core.lm.transformers import TransformersLM

BACKENDS = ("transformers float32", "transformers bfloat16", "llama.cpp server")
CELLS = pytest.StashKey[dict[tuple[str, str], str]]()
PYTHON = Path(__file__).parents[2] / os.environ.get("SELFREFLECT_SERVERS", ".venv-servers") / "bin" / "python"
"""Of the environment that `make test-servers` makes."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[CELLS] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> object:
    report = yield
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    if "backend" in parameters and (call.when == "call" or call.excinfo is not None):
        check = item.name.removeprefix("test_").split("[")[0].replace("_", " ")
        refused = dict(item.user_properties).get("refused")
        outcome = {"passed": "yes", "skipped": "not run"}.get(report.outcome, "FAILS")
        item.config.stash[CELLS][check, parameters["backend"]] = f"refused: {refused}" if refused else outcome
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table of docs/models.md."""
    cells = config.stash[CELLS]
    if cells:
        write = terminalreporter.write_line
        write(f"\n| | {' | '.join(BACKENDS)} |")
        write("|---" * (len(BACKENDS) + 1) + "|")
        for check in dict.fromkeys(c for c, _ in cells):
            write(f"| {check} | {' | '.join(cells.get((check, b), 'not run') for b in BACKENDS)} |")


@pytest.fixture(scope="session")
def gguf() -> Path:
    """The file of SmolLM2-135M-Instruct."""
    try:
        found = find_gguf("smollm2")
    except ModelLoadError as error:
        pytest.skip(error.message)
    assert found is not None
    return found


@pytest.fixture(scope="session")
def models(gguf: Path) -> Iterator[dict[str, LanguageModel]]:
    """Models by backend, made when they are asked for."""

    class Made(dict[str, LanguageModel]):
        def __missing__(self, name: str) -> LanguageModel:
            if name == "llama.cpp server":
                self[name] = OpenAICompatibleLM(self.url(), timeout=300)
            else:
                self[name] = TransformersLM(str(gguf), device="cpu", dtype=name.split()[1])
            return self[name]

        def url(self) -> str:
            if not PYTHON.exists():
                pytest.skip(f"There is no {PYTHON}: run `make test-servers`.")
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = str(free.getsockname()[1])
            command = [str(PYTHON), "-m", "llama_cpp.server", "--model", str(gguf), "--model_alias", "smollm2"]
            self.process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--port", port, "--n_ctx", "2048", "--n_threads", "1"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            address = f"http://127.0.0.1:{port}/v1"
            for _ in range(300):
                assert self.process.poll() is None
                try:
                    urllib.request.urlopen(f"{address}/models", timeout=5).close()
                    return address
                except OSError:
                    time.sleep(1)
            raise AssertionError("The server did not start.")

    made = Made()
    yield made
    server = made.get("llama.cpp server")
    if isinstance(server, OpenAICompatibleLM):
        ended = made.process.poll()
        server.close()
        made.process.terminate()
        made.process.wait(60)
        assert ended is None, "Something that was sent has ended the server."


@pytest.fixture
def lm(backend: str, models: dict[str, LanguageModel]) -> LanguageModel:
    """The model behind a backend."""
    return models[backend]
