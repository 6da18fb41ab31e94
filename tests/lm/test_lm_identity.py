"""Which model it is: its weights, wherever they lie, and what they are asked with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from shared_core.calibration.binding import require_same
from shared_core.errors import CalibrationError
from shared_core.lm.identity import identity_of, identity_of_files, identity_of_module, module_within, plain_name
from shared_core.lm.openai import OpenAICompatibleLM
from shared_core.lm.scripted import ScriptedLM
from tests.lm.tiny_models import make
from tests.openai_server import FakeServer

torch = pytest.importorskip("torch")


def test_weights_in_another_place_are_the_same_and_others_in_the_same_place_are_not(tmp_path: Path) -> None:
    first = make("llama")
    known = identity_of_module(first)
    assert known.startswith("LlamaForCausalLM, float32, weights ")
    first.save_pretrained(tmp_path / "a")
    again = type(first).from_pretrained(tmp_path / "a")
    assert identity_of_module(again) == known
    with torch.no_grad():
        again.model.layers[0].mlp.up_proj.weight[3, 5] += 0.01  # one number of them all
    assert identity_of_module(again) != known
    with torch.no_grad():
        first.lm_head.weight.copy_(first.lm_head.weight.flip(0))  # the same numbers, elsewhere
    assert identity_of_module(first) != known


def test_settings_and_chat_template_count() -> None:
    model = make("llama")

    class Tokenizer:
        chat_template = "a"

        def get_vocab(self) -> dict[str, int]:
            return {"x": 1}

    known = identity_of_module(model, Tokenizer())
    changed = Tokenizer()
    changed.chat_template = "b"
    assert identity_of_module(model, changed) != known
    model.config.rms_norm_eps = 0.5
    assert identity_of_module(model, Tokenizer()) != known


def test_a_checkpoint_on_disk(tmp_path: Path) -> None:
    make("llama").save_pretrained(tmp_path / "a")
    known = identity_of_files(tmp_path / "a", "vLLM")
    assert known is not None
    os.rename(tmp_path / "a", tmp_path / "b")
    assert identity_of_files(f"{tmp_path}/./b/", "vLLM") == known
    (weights,) = (tmp_path / "b").glob("*.safetensors")
    raw = bytearray(weights.read_bytes())
    raw[-100] ^= 1
    weights.write_bytes(bytes(raw))
    assert identity_of_files(tmp_path / "b", "vLLM") != known
    assert identity_of_files(tmp_path / "none", "vLLM") is None


def test_names_have_one_spelling() -> None:
    assert plain_name("./mem") == plain_name("mem/") == plain_name("mem") == "mem"
    assert plain_name("owner/model") == "owner/model"
    assert identity_of(ScriptedLM(["x"], name="./mem")) == "mem"


def test_a_model_of_another_library_is_known_by_its_weights() -> None:
    class Pipeline:
        def __init__(self, model: Any) -> None:
            self.model = model

    class Chat:
        def __init__(self, pipeline: Pipeline) -> None:
            self.pipeline = pipeline

    model = make("llama")
    assert module_within(Chat(Pipeline(model))) is model
    assert module_within(Chat(Pipeline("gpt-x"))) is None


def test_a_server_is_known_by_what_it_says_of_its_model() -> None:
    def identity(**said: Any) -> str:
        with (
            FakeServer(models=[{"id": "m", "created": os.getpid(), **said}]) as server,
            OpenAICompatibleLM(server.url, model="m") as lm,
        ):
            return identity_of(lm)

    assert identity() == "m"
    assert identity(root="m") == "m"
    assert identity(root="/models/a") != identity(root="/models/b")
    assert "7" in identity(meta={"n_params": 7, "n_ctx": 100})


def test_a_calibration_that_knows_its_model_by_name_only_says_so() -> None:
    with pytest.raises(CalibrationError, match="name or path only") as caught:
        require_same(
            "It", {"model": "/old/mem"}, {"model": "LlamaForCausalLM, weights 12"}, hint="selfreflect calibrate"
        )
    assert "selfreflect calibrate" in caught.value.hint
