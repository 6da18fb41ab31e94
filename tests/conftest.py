"""Fixtures that several rooms share: a small trained tokenizer and small random models, made here, never downloaded."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A busy machine draws examples slowly; that is no fault of the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

DATA = Path(__file__).parents[1] / "../shared/data"
"""The development data beside the project; tests that use it skip where it is missing (marker ``data``)."""

REFLECTION = ("[Retrieval]", "[No Retrieval]", "[Relevant]", "[Irrelevant]", "<paragraph>", "</paragraph>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_TEXT = (
    "The river Thale rises in the hills of Orm and flows through the old town. It was bridged in 1841 by Mira Dorn. "
    "Who built the bridge over the river? The bridge over the Thale was built by the engineer Mira Dorn. "
    "Question: When was the town founded? Answer: The town was founded in 1204, and it has two museums. "
    "Context: The museum keeps letters, maps and paintings from the sixteenth century onwards. naïve café 日本語 🙂 "
)


@pytest.fixture(scope="session", autouse=True)
def no_certificates() -> Iterator[None]:
    """Read no certificates: no test speaks TLS, and each new HTTP client would read them all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_verify_locations", lambda *args, **kwargs: None)
        yield


@pytest.fixture(scope="session")
def tiny_tokenizer() -> Any:
    """A byte-level BPE of about 400 entries with BOS, EOS, PAD, ChatML markers, reflection tokens, a chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<pad>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator([_TEXT], trainer)
    core.add_tokens(list(REFLECTION))  # ordinary added tokens, as many checkpoints have them
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", core.token_to_id("<s>"))]
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def tiny_config(tokenizer: Any, **options: Any) -> Any:
    """Configuration of a small Llama with grouped-query attention and a context of 1,024."""
    from transformers import LlamaConfig

    ids = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    shape = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024}
    return LlamaConfig(vocab_size=len(tokenizer), **shape, **ids, **options)


@pytest.fixture(scope="session")
def tiny_model(tiny_tokenizer: Any) -> Any:
    """A random Llama of 2 layers, 48 wide, grouped-query attention, context 1,024."""
    import torch
    from transformers import LlamaForCausalLM

    torch.manual_seed(0)
    # The range is far enough from uniform for samples to differ and greedy to be stable.
    config = tiny_config(
        tiny_tokenizer, hidden_size=48, intermediate_size=96, num_hidden_layers=2, initializer_range=0.3
    )
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="session")
def tiny_lm(tiny_model: Any, tiny_tokenizer: Any) -> Any:
    """``TransformersLM`` over ``tiny_model``: every capability of the white-box backend at no cost."""
    from shared_core.lm.transformers import TransformersLM

    return TransformersLM(tiny_model, tiny_tokenizer)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Keep torch to one thread: the models are so small that threads only wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
