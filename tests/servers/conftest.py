"""One released model behind every backend that this machine has, and the table of what each does."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import pytest

from shared_core.errors import ModelLoadError
from shared_core.lm._hf.gguf import find_gguf, load_gguf
from shared_core.lm.base import LanguageModel
from shared_core.lm.openai import OpenAICompatibleLM
from shared_core.lm.transformers import TransformersLM

BACKENDS = (
    *("transformers float32", "transformers bfloat16", "vLLM float32", "vLLM bfloat16"),
    *("vLLM server", "llama.cpp server"),
)
CELLS = pytest.StashKey[dict[tuple[str, str], str]]()
ROOT = Path(__file__).parents[2]
SERVER_PYTHON = {
    "llama.cpp server": (ROOT / os.environ.get("SELFREFLECT_SERVERS", ".venv-servers") / "bin/python", "test-servers"),
    "vLLM server": (ROOT / os.environ.get("SELFREFLECT_VLLM", ".venv-vllm") / "bin/python", "test-vllm"),
}
"""Of the environment of each server, and the make target that builds it."""
VLLM_ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
LENGTH = 2048


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


@runtime_checkable
class Closing(Protocol):
    """What holds a process or connections."""

    def close(self) -> None: ...


class Server:
    """A process that serves a model on 127.0.0.1.

    Args:
        command: to start it, without host and port.
        log: file for what it prints.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--port", port],
                stdout=out,
                stderr=out,
                env={**os.environ, **VLLM_ENVIRONMENT},
            )
        self.url = f"http://127.0.0.1:{port}/v1"
        for _ in range(600):
            assert self.process.poll() is None, log.read_text()[-4000:]
            try:
                urllib.request.urlopen(f"{self.url}/models", timeout=5).close()
                return
            except OSError:
                time.sleep(1)
        raise AssertionError(f"The server did not start:\n{log.read_text()[-4000:]}")

    def stop(self) -> None:
        ended = self.process.poll()
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
        assert ended is None, "Something that was sent has ended the server."


class Models(dict[str, LanguageModel]):
    """Models by backend, made when they are asked for.

    Args:
        file: in the format GGUF.
        folder: for what servers print.
    """

    def __init__(self, file: Path, folder: Path) -> None:
        super().__init__()
        self.file, self.folder = file, folder
        self.servers: list[Server] = []

    def __missing__(self, name: str) -> LanguageModel:
        kind, what = name.split()
        if what == "server":
            self[name] = OpenAICompatibleLM(self._start(name), timeout=300)
        elif kind == "vLLM":
            self[name] = self._in_process(what)
        else:
            self[name] = TransformersLM(str(self.file), device="cpu", dtype=what)
        return self[name]

    def close(self) -> None:
        for lm in self.values():
            if isinstance(lm, Closing):
                lm.close()
        for server in self.servers:
            server.stop()

    def _start(self, name: str) -> str:
        python, target = SERVER_PYTHON[name]
        if not python.exists():
            pytest.skip(f"There is no {python}: run `make {target}`.")
        if name == "llama.cpp server":
            options = f"-m llama_cpp.server --model_alias smollm2 --n_ctx {LENGTH} --n_threads 1"
            model = str(self.file)
        else:
            options = (
                f"-m vllm.entrypoints.openai.api_server --served-model-name smollm2 --dtype bfloat16 --block-size 32 "
                f"--max-model-len {LENGTH} --enforce-eager --no-enable-chunked-prefill --enable-tokenizer-info-endpoint"
                ' --structured-outputs-config {"backend":"guidance"}'
            )
            model = self._checkpoint("bfloat16")
        log = self.folder / f"{name.replace(' ', '-')}.log"
        self.servers.append(Server([str(python), *options.split(), "--model", model], log))
        return self.servers[-1].url

    def _in_process(self, dtype: str) -> LanguageModel:
        pytest.importorskip("vllm", reason="vLLM is not installed here: run `make test-vllm`.")
        from shared_core.lm.vllm import VLLM

        os.environ.update(VLLM_ENVIRONMENT)
        return VLLM(self._checkpoint(dtype), dtype=dtype, max_model_len=LENGTH)

    def _checkpoint(self, dtype: str) -> str:
        """Return the folder of the dequantised copy: vLLM's CPU build reads no GGUF."""
        import torch

        return load_gguf(self.file, lambda folder, _: folder, getattr(torch, dtype), with_tokenizer=True)


@pytest.fixture(scope="session")
def models(gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    """Models by backend."""
    made = Models(gguf, tmp_path_factory.mktemp("servers"))
    yield made
    made.close()


@pytest.fixture
def lm(backend: str, models: dict[str, LanguageModel]) -> LanguageModel:
    """The model behind a backend."""
    return models[backend]
