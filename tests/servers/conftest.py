"""One released model behind every backend that this machine has, and the table of what each does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, runtime_checkable

import pytest

from shared_core.errors import ModelLoadError
from shared_core.lm._hf.gguf import dequantised, find_gguf
from shared_core.lm.base import LanguageModel
from shared_core.lm.openai import OpenAICompatibleLM
from shared_core.lm.transformers import TransformersLM
from tests.servers.process import VLLM_ENVIRONMENT, VLLM_OPTIONS, Server

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
            options = f"{VLLM_OPTIONS} --served-model-name smollm2 --dtype bfloat16 --max-model-len {LENGTH}"
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

        return dequantised(self.file, getattr(torch, dtype), with_tokenizer=True)


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
