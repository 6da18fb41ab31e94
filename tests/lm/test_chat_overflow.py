"""Refusals for the context's length, in the words of many providers."""

from __future__ import annotations

from typing import Any

import pytest

from shared_core.errors import ContextOverflowError
from shared_core.lm.chat.overflow import context_overflow

WORDS: list[tuple[Any, int | None, int | None]] = [
    (
        "This model's maximum context length is 4097 tokens. However, you requested 5360 tokens "
        "(5104 in the messages, 256 in the completion).",
        5360,
        4097,
    ),
    ("This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.", 9001, 8192),
    (
        "This model's maximum context length is 1024 tokens. However, your prompt contains at "
        "least 1025 input tokens, which exceeds this limit",
        1025,
        1024,
    ),
    (
        "'max_tokens' or 'max_completion_tokens' is too large: 200. This model's maximum context "
        "length is 128 tokens and your request has 10 input tokens (200 > 128 - 10).",
        210,
        128,
    ),
    ("max_tokens=5000 cannot be greater than max_model_len=1024. Please request fewer output tokens.", 5000, 1024),
    (
        {
            "error": {
                "message": "the request exceeds the available context size",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 700,
                "n_ctx": 512,
            }
        },
        700,
        512,
    ),
    ("maximum context length is 100 tokens. However, your messages resulted in 140 tokens.", 140, 100),
    ("This model's maximum context length is 100 tokens. However, you requested 150 tokens", 150, 100),
    ("prompt is too long: 205137 tokens > 200000 maximum", 205137, 200000),
    (
        "input length and `max_tokens` exceed context limit: 197202 + 21333 > 200000, decrease "
        "input length or `max_tokens` and try again",
        218535,
        200000,
    ),
    ("The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", 1196265, 1048575),
    (
        "Unable to submit request because the input token count is 33000 but model only supports "
        "up to 32768. Reduce the input token count and try again.",
        33000,
        32768,
    ),
    ("prompt token count of 130000 exceeds the limit of 128000", 130000, 128000),
    (
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        40000,
        32768,
    ),
    (
        "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received "
        "5000. Try using a shorter prompt",
        5000,
        4081,
    ),
    (
        "too many tokens: size limit exceeded by 1234 tokens. Try using shorter or fewer inputs. "
        "The limit for this model is 128000 tokens.",
        129234,
        128000,
    ),
    (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 "
        "`inputs` tokens and 100 `max_new_tokens`",
        5100,
        4096,
    ),
    ("Input validation error: `inputs` must have less than 1024 tokens. Given: 5000", 5000, 1024),
    ("Requested tokens (700) exceed context window of 512", 700, 512),
    (
        "The prompt has 5000 tokens, which is too long for the model. Please use a prompt that "
        "fits within 4096 tokens.",
        5000,
        4096,
    ),
    ("Your request exceeded model token limit: 8192 (requested: 9000)", 9000, 8192),
    (
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is "
        "loaded with context length of only 4096 tokens, which is not enough.",
        5000,
        4096,
    ),
    ("the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model", 5000, 4096),
    (
        "The estimated number of input and maximum output tokens (9000) exceeded this model "
        "context window limit (8192).",
        9000,
        8192,
    ),
    ("Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192", 9000, 8192),
    ("The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure", 5000, 4096),
    ("The prompt (total length 5000) is too long to fit into the model (context length 4096).", 5000, 4096),
    ("Input length (5000) exceeds model's maximum context length (4096).", 5000, 4096),
    ("The input (5000 tokens) is longer than the model's context length (4096 tokens).", 5000, 4096),
    (
        "Requested token count exceeds the model's maximum context length of 4096 tokens. You "
        "requested a total of 5000 tokens: 4900 tokens from the input messages and 100 tokens for "
        "the completion.",
        5000,
        4096,
    ),
    ("Prompt length (5000) exceeds maximum input length (4096). Set log level", 5000, 4096),
    ("The prompt is too long: 5000, model maximum context length: 4096", 5000, 4096),
    ("This model's maximum prompt length is 131072 but the request contains 150000 tokens.", 150000, 131072),
    (
        "This endpoint's maximum context length is 8192 tokens. However, you requested about 9000 "
        "tokens (8800 of text input, 200 in the output). Please reduce the length",
        9000,
        8192,
    ),
    (
        "This model's maximum context length is 4096 tokens. However, you requested 100 output "
        "tokens and your prompt contains at least 4097 input tokens, for a total of at least 4197 "
        "tokens.",
        4197,
        4096,
    ),
    (
        "Token indices sequence length is longer than the specified maximum sequence length for "
        "this model (5000 > 512). Running this",
        5000,
        512,
    ),
    ("Input length of input_ids is 600, but `max_length` is set to 20. This can lead to unexpected behavior.", 600, 20),
    ("Your input exceeds the context window of this model. Please adjust your input and try again.", None, None),
    ({"error": {"message": "too long", "code": "context_length_exceeded"}}, None, None),
    ("Input is too long for requested model.", None, None),
    ("input length exceeds the context length", None, None),
    ("the input length exceeds the maximum context length", None, None),
    ("the request exceeds the available context size, try increasing it", None, None),
    ("the request exceeds the available context size (4096 tokens), try increasing it", None, 4096),
    ("Please reduce the length of the messages or completion.", None, None),
    ("The number of tokens to keep from the initial prompt is greater than the context length", None, None),
    ("invalid params, context window exceeds limit", None, None),
    ("Request body too large for gpt-4o model. Max size: 8000 tokens.", None, 8000),
    ("413 Request Entity Too Large", None, None),
    (
        "Error code: 400 - {'error': {'message': \"This model's maximum context length is 16385 "
        "tokens. However, your messages resulted in 20,000 tokens. Please reduce the length of "
        "the messages.\", 'code': 'context_length_exceeded'}}",
        20000,
        16385,
    ),
    (
        "litellm.ContextWindowExceededError: AnthropicException - prompt is too long: 205137 tokens > 200000 maximum",
        205137,
        200000,
    ),
]
OTHERS = [
    "Rate limit reached for gpt-4o in organization org on tokens per min (TPM): Limit 30000, "
    "Used 29000, Requested 5000. Please try again in 6s.",
    "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000. The "
    "input or output tokens must be reduced",
    "max_tokens is too large: 5000. This model supports at most 4096 completion tokens, whereas you provided 5000.",
    "Invalid API key",
    "Unsupported value: 'temperature'",
    "model not found",
    "internal error",
    "You exceeded your current quota",
    "The context is missing",
    "maximum recursion depth exceeded",
]


@pytest.mark.parametrize(("said", "needed", "available"), WORDS)
def test_an_overflow_is_known_with_its_figures_where_they_are_told(
    said: Any, needed: int | None, available: int | None
) -> None:
    found = context_overflow(said)
    assert isinstance(found, ContextOverflowError)
    assert (found.needed, found.available) == (needed, available)
    assert (found.excess > 0) == (needed is not None and available is not None)
    assert str(available) in found.message or available is None
    assert "top_k" in found.hint


@pytest.mark.parametrize("said", OTHERS)
def test_another_refusal_is_none(said: str) -> None:
    assert context_overflow(said) is None
    assert context_overflow({"error": {"message": said}}) is None


@pytest.mark.parametrize("said", [None, "", {}, {"error": None}, [], 7, {"error": {"message": 7, "n_ctx": True}}])
def test_what_says_nothing_is_none(said: Any) -> None:
    assert context_overflow(said) is None
