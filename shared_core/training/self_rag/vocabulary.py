"""Reflection tokens for a model that has none: in its tokenizer, and as rows of its embeddings."""

from __future__ import annotations

from typing import Any

from shared_core.errors import InputError
from shared_core.reflection import REFLECTION_TOKENS, ReflectionVocabulary

__all__ = ["add_reflection_tokens"]


def add_reflection_tokens(model: Any, tokenizer: Any) -> ReflectionVocabulary:
    """Add what is missing of the fifteen to a model of transformers and its tokenizer, both changed in place.

    New rows of the input and output embeddings are the mean of the old ones, so that no token is likelier than others
    before training. Tokens that are there already keep their ids and rows; the vocabulary is padded by nothing.

    Args:
        model: a causal language model of transformers.
        tokenizer: its tokenizer.

    Returns:
        The ids.

    Raises:
        InputError: the tokenizer cannot hold them as one token each.
    """
    import torch

    before = model.get_input_embeddings().weight.shape[0]
    known = set(tokenizer.get_vocab())
    tokenizer.add_special_tokens(
        {"additional_special_tokens": [t for t in REFLECTION_TOKENS if t not in known]},
        replace_extra_special_tokens=False,
    )
    found = ReflectionVocabulary.of_lookup([_id(tokenizer, token) for token in REFLECTION_TOKENS])
    if found is None:
        raise InputError(
            f"{type(tokenizer).__name__} cannot hold the reflection tokens as one token each.",
            hint="Use a tokenizer that takes added tokens.",
        )
    after = max(before, len(tokenizer), max(found.ids.values()) + 1)
    if after > before:
        model.resize_token_embeddings(after, mean_resizing=False)
        heads = [model.get_input_embeddings(), model.get_output_embeddings()]
        with torch.no_grad():
            for layer in (h for h in heads if h is not None):
                layer.weight[before:] = layer.weight[:before].float().mean(0).to(layer.weight.dtype)
    return found


def _id(tokenizer: Any, token: str) -> int | None:
    ids = tokenizer.encode(token, add_special_tokens=False)
    return int(ids[0]) if len(ids) == 1 else None
