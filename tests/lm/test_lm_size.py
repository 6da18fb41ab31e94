"""How large a model is, by weights or name: wrong guesses towards large would show a poor model's claims."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.lm.scripted import ScriptedLM
from shared_core.lm.size import Size, size_of


def size(name: str) -> Size | None:
    return size_of(ScriptedLM("", name=name))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", "large"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "large"),
        ("qwen3-30b-a3b", "large"),
        ("gpt-4o", "large"),
        ("gpt-5.1", "large"),
        ("o3", "large"),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", "large"),
        ("gemini-2.5-pro", "large"),
        ("llama3.3", "large"),
        ("glm-4.6", "large"),
        ("llama3.1:8b", "medium"),
        ("llama3.1", "medium"),
        ("mistral:latest", "medium"),
        ("ollama/qwen3", "medium"),
        ("mistral-small-latest", "medium"),
        ("/models/Qwen2.5-7B-Instruct-Q4_K_M.gguf", "medium"),
        ("./models/Qwen2.5-14B-Instruct/", "medium"),
        ("gpt-oss-20b", "medium"),
        ("gpt-4o-mini", "medium"),
        ("gpt-3.5-turbo", "medium"),
        ("claude-3-haiku-20240307", "medium"),
        ("gemini-1.5-flash-8b", "medium"),
        ("command-r7b-12-2024", "medium"),
    ],
)
def test_names_that_tell_a_size(name: str, expected: Size) -> None:
    assert size(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        *("SmolLM2-135M-Instruct", "qwen2.5:0.5b", "gemma-2-2b-it", "gemma3n:e4b", "deepseek-r1:1.5b"),
        *("DeepSeek-R1-Distill-Qwen-1.5B", "Phi-3-mini-4k-instruct", "my-model-4bit", "scripted", "gpt2", "MockLLM"),
        *("llama3.2", "gemma3", "phi3", "mistral-tiny", "my-mistral", "llama3-groq-tool-use", "smollm2:latest"),
        *("llama-3.1-70b-base", "gemma-2-27b-pt", "fake", "llm", "", "b", "8", "7bb", "echo1", "demo3", "tiny-o1ive"),
    ],
)
def test_small_unknown_and_base_models_are_expected_to_do_nothing_special(name: str) -> None:
    assert size(name) is None


def of_weights(count: int, template: str | None) -> Any:
    """A model of transformers: its weights tell its size, whatever its folder is called."""
    model: Any = ScriptedLM("", name="checkpoint-70b")
    model.model = SimpleNamespace(num_parameters=lambda: count)
    model.tokenizer = SimpleNamespace(chat_template=template)
    return model


def test_weights_come_before_the_name() -> None:
    assert size_of(of_weights(135_000_000, "{{ messages }}")) is None
    assert size_of(of_weights(8_030_000_000, "{{ messages }}")) == "medium"
    assert size_of(of_weights(70_600_000_000, None)) is None  # without a chat template it follows no instructions


@given(billions=st.floats(0.1, 999).map(lambda b: round(b, 1)), vendor=st.sampled_from(["llama-", "qwen:", "a/b_"]))
def test_a_stated_number_decides(billions: float, vendor: str) -> None:
    expected = "large" if billions >= 30 else "medium" if billions >= 7 else None
    assert size(f"{vendor}{billions:g}B-Instruct") == expected
