"""What is wrapped: incomplete checkpoints, models that cannot be moved, settings that are not applied, layouts."""

from __future__ import annotations

import copy
import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from shared_core.cli import app
from shared_core.errors import CapabilityError, InputError, ModelLoadError
from shared_core.lm.base import (
    Capture,
    Generate,
    Generation,
    HiddenStates,
    LanguageModel,
    Prompt,
    SamplingParams,
    States,
)
from shared_core.lm.transformers import TransformersLM
from tests.lm.tiny_models import make, number_tokenizer
from tests.lm.tiny_requests import FEW_SHOT, requests, same, samples

pytestmark = pytest.mark.usefixtures("one_thread")


# --- checkpoints


def saved(model: Any, tokenizer: Any, path: Path) -> Path:
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture
def checkpoint(tiny_model: Any, tiny_tokenizer: Any, tmp_path: Path) -> Path:
    return saved(tiny_model, tiny_tokenizer, tmp_path / "checkpoint")


def test_a_saved_checkpoint_loads_in_the_dtype_that_is_named(checkpoint: Path, tiny_lm: Any) -> None:
    import torch

    lm = TransformersLM(str(checkpoint), device="cpu")
    assert isinstance(lm, LanguageModel)
    assert lm.capabilities.context_length == 1024
    assert lm.capabilities.grammar
    same(samples(lm.generate(requests())), samples(tiny_lm.generate(requests())))
    assert lm.model.dtype == torch.float32
    assert TransformersLM(str(checkpoint), device="cpu", dtype="bfloat16").model.dtype == torch.bfloat16
    with pytest.raises(InputError, match="float7"):
        TransformersLM(str(checkpoint), device="cpu", dtype="float7")


@pytest.mark.parametrize(("what", "hint"), [
    ("missing", "There is no such folder."),  # not: give a local path
    ("file", "config.json"), ("empty", "save_pretrained"), ("config only", "safetensors"),
    ("someone/some-model", "HF_HUB_OFFLINE"),
])  # fmt: skip
def test_what_is_not_a_checkpoint_is_refused_with_the_way_out(
    what: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    path = tmp_path / "model"
    if what == "file":
        path.write_text("weights")
    elif what in ("empty", "config only"):
        path.mkdir()
    if what == "config only":
        (path / "config.json").write_text('{"model_type": "llama"}')
    name = what if "/" in what else str(path)
    with pytest.raises(ModelLoadError) as error:
        TransformersLM(name, device="cpu")
    assert name in error.value.message
    assert hint in error.value.hint


def test_a_checkpoint_without_some_of_its_layers_is_refused(checkpoint: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(checkpoint / "model.safetensors")
    kept = {k: v for k, v in weights.items() if "layers.1.mlp" not in k}
    assert len(kept) < len(weights)
    save_file(kept, checkpoint / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelLoadError, match=r"layers\.1\.mlp\.down_proj\.weight") as error:
        TransformersLM(str(checkpoint), device="cpu")
    assert str(checkpoint) in error.value.message
    assert error.value.hint


def test_a_checkpoint_of_other_shapes_is_refused(checkpoint: Path) -> None:
    config = json.loads((checkpoint / "config.json").read_text())
    config["intermediate_size"] *= 2
    (checkpoint / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelLoadError):
        TransformersLM(str(checkpoint), device="cpu")


def gpt2(tokenizer: Any, **options: Any) -> Any:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    size = {"vocab_size": len(tokenizer), "n_positions": 128, "n_embd": 16, "n_layer": 2, "n_head": 2}
    return GPT2LMHeadModel(GPT2Config(**size, **options))


def test_tied_weights_are_not_missing(tiny_tokenizer: Any, tmp_path: Path) -> None:
    saved(gpt2(tiny_tokenizer), tiny_tokenizer, tmp_path)
    assert TransformersLM(str(tmp_path), device="cpu").fallback == ""


# --- what is wrapped


@pytest.mark.parametrize("spread", [False, True])
def test_a_model_that_cannot_be_moved_stays_or_is_refused(
    spread: bool, tiny_model: Any, tiny_tokenizer: Any, tiny_lm: Any
) -> None:
    model = copy.deepcopy(tiny_model)
    if spread:
        model.hf_device_map = {"model.embed_tokens": "cpu", "model.layers": "disk"}
    else:
        model.is_quantized = True

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise ValueError("`.to` is not supported")

    model.to = refuse
    same(samples(TransformersLM(model, tiny_tokenizer, device="cpu").generate(requests())),
         samples(tiny_lm.generate(requests())))  # fmt: skip
    with pytest.raises(InputError, match="moved") as error:
        TransformersLM(model, tiny_tokenizer, device="cuda")
    assert "device_map" in error.value.hint
    with pytest.raises(InputError):
        TransformersLM(model, tiny_tokenizer, dtype="float16")


def test_settings_of_the_checkpoint_that_are_not_applied_are_named_once(
    tiny_model: Any, tiny_tokenizer: Any, caplog: Any
) -> None:
    model = copy.deepcopy(tiny_model)
    model.generation_config.repetition_penalty = 1.3
    model.generation_config.no_repeat_ngram_size = 2
    lm = TransformersLM(model, tiny_tokenizer)
    lm.generate(requests())
    told = [r.getMessage() for r in caplog.records if "generation_config" in r.getMessage()]
    assert len(told) == 1
    assert "repetition_penalty=1.3" in told[0]
    assert "no_repeat_ngram_size=2" in told[0]
    caplog.clear()
    TransformersLM(tiny_model, tiny_tokenizer)
    assert not [r for r in caplog.records if "generation_config" in r.getMessage()]


def test_an_unknown_layout_is_refused(tiny_model: Any, tiny_tokenizer: Any) -> None:
    with pytest.raises(InputError, match="treee") as error:
        TransformersLM(tiny_model, tiny_tokenizer, layout="treee")  # type: ignore[arg-type]
    assert "fallback" in error.value.hint


def test_dropout_is_off_while_the_model_answers_and_on_again_afterwards(tiny_tokenizer: Any) -> None:
    model = gpt2(tiny_tokenizer, resid_pdrop=0.5, embd_pdrop=0.5).train()
    lm = TransformersLM(model, tiny_tokenizer)
    assert lm.fallback == ""
    same(samples(lm.generate(requests())), samples(lm.generate(requests())))
    assert all(m.training for m in model.modules())


# --- what was kept is forgotten when the weights change


def test_prefixes_are_forgotten_when_weights_are_trained(tiny_model: Any, tiny_tokenizer: Any) -> None:
    import torch

    model = copy.deepcopy(tiny_model)
    lm = TransformersLM(model, tiny_tokenizer)
    before = samples(lm.generate(requests()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model(torch.tensor([[5, 6, 7, 8]]), labels=torch.tensor([[5, 6, 7, 8]])).loss.backward()
    optimizer.step()
    results = lm.generate(requests())
    assert sum(r.usage.cached_tokens for r in results) == 0
    fresh = samples(TransformersLM(model, tiny_tokenizer).generate(requests()))
    same(samples(results), fresh)
    assert [s.logprobs for s in fresh] != [s.logprobs for s in before]
    assert sum(r.usage.cached_tokens for r in lm.generate(requests())) > 0  # and kept again afterwards


def test_prefixes_are_forgotten_when_weights_are_replaced(tiny_model: Any, tiny_tokenizer: Any) -> None:
    import torch

    model = copy.deepcopy(tiny_model)
    lm = TransformersLM(model, tiny_tokenizer)
    lm.generate(requests())
    torch.manual_seed(5)
    model.load_state_dict({k: torch.randn_like(v) / 5 for k, v in model.state_dict().items()})
    same(samples(lm.generate(requests())), samples(TransformersLM(model, tiny_tokenizer).generate(requests())))


def test_prefixes_are_forgotten_when_an_adapter_is_switched_off_or_merged(tiny_model: Any, tiny_tokenizer: Any) -> None:
    import torch
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(3)
    config = LoraConfig(r=4, target_modules=["q_proj", "v_proj", "up_proj"], init_lora_weights=False)
    model = get_peft_model(copy.deepcopy(tiny_model), config)
    lm = TransformersLM(model, tiny_tokenizer)
    adapted = samples(lm.generate(requests()))
    with model.disable_adapter():
        same(samples(lm.generate(requests())), samples(TransformersLM(tiny_model, tiny_tokenizer).generate(requests())))
    same(samples(lm.generate(requests())), adapted)
    model.merge_adapter()
    assert sum(r.usage.cached_tokens for r in lm.generate(requests())) == 0
    same(samples(lm.generate(requests())), adapted)


# --- states of the MLP


@pytest.mark.parametrize(("name", "norm"), [
    ("llama", "post_attention_layernorm"), ("bloom", "post_attention_layernorm"), ("mpt", "norm_2"),
    ("llama4 with chunks", "post_attention_layernorm"), ("mixtral", "post_attention_layernorm"), ("gpt2", "ln_2"),
])  # fmt: skip
def test_the_state_of_the_mlp_is_its_output_before_the_residual_is_added(name: str, norm: str) -> None:
    import torch

    model = make(name)
    lm = TransformersLM(model, number_tokenizer(), context_length=128)
    prompts = [[5, 9, 30, 44, 8], [7, 7, 60]]
    layers = next(m for m in model.modules() if isinstance(m, torch.nn.ModuleList) and len(m) == 2)
    for layer in (0, 1):
        [found] = lm.hidden_states(
            [HiddenStates(tuple(map(Prompt.tokens, prompts)), Capture(layer=layer, kind="mlp", position="last"))]
        )
        assert isinstance(found, States), found
        assert found.states.shape == (2, 32)
        kept: dict[str, Any] = {}
        hooks = [
            getattr(layers[layer], norm).register_forward_pre_hook(lambda m, i, k=kept: k.update(before=i[0])),
            layers[layer].register_forward_hook(
                lambda m, i, o, k=kept: k.update(after=o if torch.is_tensor(o) else o[0])
            ),
        ]
        for prompt, state in zip(prompts, found.states):
            with torch.inference_mode():
                model(torch.tensor([prompt]))
            # The stream behind the layer, less the stream before its MLP, is what the MLP has added.
            added = (kept["after"] - kept["before"])[0, -1]
            np.testing.assert_allclose(state, added, atol=1e-4)
        for hook in hooks:
            hook.remove()


def test_a_module_without_a_vector_for_each_token_is_refused_and_harms_nobody(
    tiny_model: Any, tiny_tokenizer: Any, monkeypatch: Any
) -> None:
    import torch

    class Gate(torch.nn.Module):
        """One number for each token."""

        def forward(self, hidden: Any) -> Any:
            return hidden.sum(-1)

    model = copy.deepcopy(tiny_model)
    lm = TransformersLM(model, tiny_tokenizer)
    layer = model.model.layers[1]
    gate, inner = Gate(), layer.mlp.forward
    layer.mlp.forward = lambda x: (gate(x), inner(x))[1]
    monkeypatch.setattr(lm._runner, "_module", lambda tap: gate)
    params = SamplingParams(max_tokens=3)
    refused, fine = lm.generate(
        [Generate(FEW_SHOT, dataclasses.replace(params, capture=Capture())), Generate(FEW_SHOT, params)]
    )
    assert isinstance(refused, CapabilityError)
    assert "residual" in refused.hint
    assert isinstance(fine, Generation)


# --- dtypes


@pytest.mark.parametrize("computes", [True, False])
def test_bfloat16_is_kept_on_a_cpu_that_computes_in_it(
    tiny_model: Any, tiny_tokenizer: Any, tmp_path: Path, computes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": computes}, raising=False)
    saved(copy.deepcopy(tiny_model).bfloat16(), tiny_tokenizer, tmp_path)
    found = TransformersLM(str(tmp_path), device="cpu").model.dtype
    assert found == (torch.bfloat16 if computes else torch.float32)


@pytest.mark.parametrize(
    ("more", "says"),
    [([], "no effect"), (["--base-url", "http://127.0.0.1:9/v1"], "no effect"), (["--model", "MODEL"], "float7")],
)
def test_a_dtype_on_the_command_line_that_has_no_effect_or_does_not_exist(
    more: list[str], says: str, checkpoint: Path, tmp_path: Path
) -> None:
    more = [str(checkpoint) if word == "MODEL" else word for word in more]
    result = CliRunner().invoke(app, ["ask", "Who?", "--docs", str(tmp_path), "--dtype", "float7", *more])
    assert result.exit_code == 2
    assert says in " ".join(result.output.split())


def test_without_torch_the_error_names_the_extra() -> None:
    """Not a ModuleNotFoundError of an import: who installed the embedded default alone has no torch."""
    program = """
import sys
sys.modules["torch"] = sys.modules["transformers"] = None  # as if they were not installed
from shared_core.errors import MissingDependencyError
from shared_core.lab import load_lab_model
from shared_core.lm import TransformersLM
for load in (load_lab_model, lambda: TransformersLM("smollm2")):
    try:
        load()
    except MissingDependencyError as error:
        assert "[transformers]" in error.hint, error.hint
    else:
        sys.exit("it loaded")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
