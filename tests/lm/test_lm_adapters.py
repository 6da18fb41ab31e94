"""Two adapters of one model behind two backends: each answers as if it were alone."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.errors import InputError
from shared_core.lm.base import Prompt
from shared_core.lm.transformers import TransformersLM
from tests.fakes import Shelf
from tests.lm.tiny_requests import one


@pytest.fixture(scope="module")
def adapted(tiny_model: Any) -> Any:
    """The tiny model with two random LoRA adapters."""
    import torch
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(3)
    config = LoraConfig(r=4, target_modules=["q_proj", "v_proj", "up_proj"], init_lora_weights=False)
    model = get_peft_model(copy.deepcopy(tiny_model), config, adapter_name="reference")
    model.add_adapter("claim", config)
    return model.eval()


def text(lm: TransformersLM) -> str:
    return one(lm, Prompt.trusted("The river Thale rises in the hills of Orm and"), max_tokens=12).text


def test_backends_over_one_model_take_turns(adapted: Any, tiny_tokenizer: Any) -> None:
    reference = TransformersLM(adapted, tiny_tokenizer, adapter="reference")
    claim = TransformersLM(adapted, tiny_tokenizer, adapter="claim")
    first, second = text(reference), text(claim)
    assert first != second
    assert (text(reference), text(claim)) == (first, second)
    assert reference.model is claim.model
    assert reference.name.endswith("#reference")


def test_they_write_an_answer_together(adapted: Any, tiny_tokenizer: Any) -> None:
    models = {name: TransformersLM(adapted, tiny_tokenizer, adapter=name) for name in ("reference", "claim")}
    settings = SelfReflectSettings(pipeline="reclaim", reclaim={"max_pairs": 1, "max_claim_tokens": 8})
    answer = SelfReflectEngine(Shelf(), settings=settings, models=models).answer("When was the lamp lit?")
    assert answer.trace[-1].kind in ("answer", "abstain")


def test_an_adapter_that_is_not_there_is_refused(adapted: Any, tiny_model: Any, tiny_tokenizer: Any) -> None:
    with pytest.raises(InputError, match="nobody") as caught:
        TransformersLM(adapted, tiny_tokenizer, adapter="nobody")
    assert "claim" in caught.value.hint
    with pytest.raises(InputError):
        TransformersLM(tiny_model, tiny_tokenizer, adapter="claim")
