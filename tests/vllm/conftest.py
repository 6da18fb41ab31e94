"""One tiny random model, made here, behind vLLM in this process, behind its server, and in transformers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared_core.lm.base import LanguageModel
from shared_core.lm.openai import OpenAICompatibleLM
from tests.conftest import tiny_config
from tests.servers.process import VLLM_ENVIRONMENT, VLLM_OPTIONS, Server

GENERATION_CONFIG = {"repetition_penalty": 1.8, "temperature": 0.7, "top_k": 3, "top_p": 0.5}
"""What the model's authors would have vLLM's server do where a request says nothing."""


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any) -> Path:
    """A random Llama of 3 layers with heads of 32, the least that vLLM's CPU attention takes."""
    import torch
    from transformers import LlamaForCausalLM

    torch.manual_seed(0)
    config = tiny_config(
        tiny_tokenizer, hidden_size=128, intermediate_size=256, num_hidden_layers=3, initializer_range=0.15
    )
    path = tmp_path_factory.mktemp("checkpoint") / "tiny"
    LlamaForCausalLM(config).save_pretrained(path)
    tiny_tokenizer.save_pretrained(path)
    own = json.loads((path / "generation_config.json").read_text())
    (path / "generation_config.json").write_text(json.dumps(own | GENERATION_CONFIG | {"do_sample": True}))
    return path


@pytest.fixture(scope="session")
def reference(checkpoint: Path) -> Any:
    from shared_core.lm.transformers import TransformersLM

    return TransformersLM(str(checkpoint), device="cpu")


@pytest.fixture(scope="session")
def engine(checkpoint: Path) -> Iterator[Any]:
    from shared_core.lm.vllm import VLLM

    os.environ.update(VLLM_ENVIRONMENT)
    with VLLM(str(checkpoint), dtype="float32") as lm:
        yield lm


@pytest.fixture(scope="session")
def server_url(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    options = f"{VLLM_OPTIONS} --served-model-name tiny --dtype float32 --enable-prompt-tokens-details"
    command = [sys.executable, *options.split(), "--model", str(checkpoint)]
    server = Server(command, tmp_path_factory.mktemp("server") / "log.txt")
    yield server.url
    server.stop()


@pytest.fixture(scope="session")
def client(server_url: str) -> Iterator[OpenAICompatibleLM]:
    with OpenAICompatibleLM(server_url, api_key="sk-unused", timeout=300) as lm:
        yield lm


@pytest.fixture(params=["engine", "client"])
def lm(request: pytest.FixtureRequest) -> LanguageModel:
    """Both ways to vLLM."""
    found: LanguageModel = request.getfixturevalue(request.param)
    return found
