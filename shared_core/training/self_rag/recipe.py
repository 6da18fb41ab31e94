"""Train Self-RAG's critic and generator on rows: add the tokens, then follow ``recipes``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shared_core.errors import InputError
from shared_core.reflection import REFLECTION_TOKENS, ReflectionVocabulary
from shared_core.training.recipes import train
from shared_core.training.self_rag.rows import CriticRow, GeneratorRow, balance
from shared_core.training.settings import TrainingSettings
from shared_core.training.trainer import TrainingResult
from shared_core.training.watch import Progress

PAPER: Mapping[str, Any] = {
    "method": "full",
    "learning_rate": 2e-5,
    "epochs": 3,
    "batch_size": 128,
    "warmup": 0.03,
    "schedule": "linear",
}
"""Asai et al. 2023, training details, for critic and generator. Under LoRA, which
is not the paper's, the rows that are added to the embeddings are trained beside the adapters."""


def self_rag_recipe(**changes: Any) -> TrainingSettings:
    """Make the paper's settings, with changes; SettingsError if one is out of range or unknown."""
    return TrainingSettings(**{**PAPER, **changes})


def train_self_rag(
    rows: Sequence[GeneratorRow | CriticRow],
    model: str | Path,
    output: str | Path,
    settings: TrainingSettings | None = None,
    *,
    sources: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    evaluate_on: Sequence[GeneratorRow | CriticRow] = (),
) -> TrainingResult:
    """Fine-tune a causal language model of transformers on rows of one kind; arguments and errors as of ``train``.

    Reflection tokens that its tokenizer lacks are added, their embeddings the mean of the others. Rows that are there
    twice count once. The result's card says how often each verdict was taught (``balance``).

    Args:
        rows: all of the generator, or all of the critic.
        settings: ``self_rag_recipe()`` by default.
    """
    if len({row.role for row in rows}) > 1:
        raise InputError("The rows are of critic and generator.", hint="Train one at a time.")
    once = list(dict.fromkeys(rows))
    given = {**(sources or {}), "base": str(model), "balance": balance(once), "repeated": len(rows) - len(once)}
    return train(
        once,
        model,
        output,
        settings or self_rag_recipe(),
        sources=given,
        progress=progress,
        evaluate_on=evaluate_on,
        prepare_base=_add_tokens,
    )


def _add_tokens(model: Any, tokenizer: Any) -> Sequence[int]:
    """Add the reflection tokens, and return the ids of those that were missing."""
    known = set(tokenizer.get_vocab())
    ids = add_reflection_tokens(model, tokenizer).ids
    return [i for token, i in ids.items() if token not in known]


def add_reflection_tokens(model: Any, tokenizer: Any) -> ReflectionVocabulary:
    """Add the reflection tokens that a transformers model and its tokenizer lack; both change in place.

    Their rows of the input and output embeddings become the mean of the rows that had a token, so that none is likelier
    than others before training; rows that only pad a matrix are neither averaged nor kept for a new token. Tokens that
    exist already keep their ids and rows; the vocabulary is not padded. InputError if the tokenizer cannot hold them as
    one token each.
    """
    import torch

    words = len(tokenizer)  # before adding: later rows are padding
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
    before = model.get_input_embeddings().weight.shape[0]
    after = max(before, len(tokenizer), max(found.ids.values()) + 1)
    if after > before:
        model.resize_token_embeddings(after, mean_resizing=False)
    added = [i for token, i in found.ids.items() if token not in known]
    heads = [model.get_input_embeddings(), model.get_output_embeddings()]
    with torch.no_grad():
        for layer in (h for h in heads if h is not None):
            mean = layer.weight[: min(words, before)].float().mean(0)
            layer.weight[added] = mean.to(layer.weight.dtype)
    return found


def _id(tokenizer: Any, token: str) -> int | None:
    ids = tokenizer.encode(token, add_special_tokens=False)
    return int(ids[0]) if len(ids) == 1 else None
