"""The reading network in torch, for training; ``shared_core.reading.network`` runs it as it ships.

Parameters are a plain mapping of tensors. ``graphs`` writes the same functions as ONNX graphs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.reader.bert import drop_units, embed_tokens, run_layers
from shared_core.reading.features import QUESTION_FEATURES, TOKEN_FEATURES

if TYPE_CHECKING:
    from torch import Tensor

LAYERS = 6
LOWER = 2
"""Layers that see question and window apart."""
CHEAP = 64
"""Numbers of a token's vector in the cheap score."""


class Inputs(NamedTuple):
    """A batch of B questions (or claims) beside windows (or evidence), padded to M and N tokens.

    Attributes:
        window: (B, N, D) and question: (B, M, D), vectors of ``read_apart``.
        window_mask, question_mask: (B, N), (B, M) bool, true for real tokens.
        body: (B, N) bool, true for the text's own tokens (not the title's, not the marks).
        token_features: (B, N, TOKEN_FEATURES); question_features: (B, M, QUESTION_FEATURES); zeros outside of texts.
        claim: (B,) bool, true where the question is a claim.
    """

    window: Tensor
    question: Tensor
    window_mask: Tensor
    question_mask: Tensor
    body: Tensor
    token_features: Tensor
    question_features: Tensor
    claim: Tensor


class Outputs(NamedTuple):
    """Logits; ``start``, ``end``, ``sentence`` are compared with 0 for "no answer", and -inf outside of the text.

    Attributes:
        start, end: (B, N), the answer's first and last token.
        sentence: (B, N), parts of a sentence's logit: ``logsumexp`` over its tokens.
        window: (B,) part of all of them: how far the window answers the question.
        support: (B, 3), of the classes SUPPORTED, UNSUPPORTED, REFUTED of ``shared_core.reading.network``.
    """

    start: Tensor
    end: Tensor
    sentence: Tensor
    window: Tensor
    support: Tensor


def initial(base: Mapping[str, Tensor], seed: int = 0) -> dict[str, Tensor]:
    """Fresh parameters around the embedding model's: what is added says nothing until it is trained.

    Args:
        base: parameters of all-MiniLM-L6-v2 as ``bert.rename`` names them; its word vectors stay outside.
        seed: of the random numbers.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    width = base["types.w"].shape[1]

    def linear(name: str, inside: int, outside: int, scale: float = 1.0) -> dict[str, Tensor]:
        weight = torch.randn(outside, inside, generator=generator) * scale * inside**-0.5
        return {f"{name}.w": weight, f"{name}.b": torch.zeros(outside)}

    return {
        **{name: value.detach().float().clone() for name, value in base.items() if name != "words.w"},
        **linear("token", TOKEN_FEATURES, width, 0.0),
        **linear("asked", QUESTION_FEATURES, width, 0.0),
        "sides.w": torch.zeros(3, width),  # added to questions, claims, windows
        **linear("cheap", width, CHEAP),
        **linear("weigh", width + QUESTION_FEATURES, 1),
        "cheap_scale.w": torch.tensor([8.0, 1.0]),
        **linear("heads", width, 3, 0.1),
        **linear("pool", width, width),
        **linear("verdict", width, 1, 0.1),
        **linear("support", width, 3, 0.1),
    }


def read_apart(p: Mapping[str, Tensor], words: Tensor, ids: Tensor, mask: Tensor | None = None) -> Tensor:
    """(B, N) word pieces → (B, N, D): what the lower layers make of texts, each by itself.

    Args:
        p: the network's parameters; ``words``: (vocabulary, D), the embedding model's word vectors.
        ids: padded with anything where ``mask`` (B, N) is false.
    """
    h = embed_tokens({**p, "words.w": words}, ids)
    return run_layers(p, h, range(LOWER), mask)


def score_cheaply(p: Mapping[str, Tensor], x: Inputs) -> Tensor:
    """(B,) how far each window looks like answering, from what is known before reading both together; any scale."""
    import torch
    from torch.nn import functional as f

    asked = f.normalize(f.linear(x.question, p["cheap.w"], p["cheap.b"]).float(), dim=-1)
    held = f.normalize(f.linear(x.window, p["cheap.w"], p["cheap.b"]).float(), dim=-1)
    near = (asked @ held.transpose(1, 2)).masked_fill(~x.body[:, None, :], -1.0).amax(-1)  # (B, M)
    known = torch.cat([x.question.float(), x.question_features.float()], -1)
    weights = f.linear(known, p["weigh.w"].float(), p["weigh.b"].float())[..., 0]
    weights = weights.masked_fill(~x.question_mask, -1e4).softmax(-1)
    scale = p["cheap_scale.w"].float()
    covered = x.token_features[..., -1].float().amax(-1)  # the window's and title's share of the question's words
    out: Tensor = scale[0] * (weights * near).sum(-1) + scale[1] * covered
    return out


def forward(p: Mapping[str, Tensor], x: Inputs, *, dropout: float = 0.0) -> Outputs:
    """Read questions and windows together; ``dropout`` is for training only."""
    import torch
    from torch.nn import functional as f

    m = x.question.shape[1]
    sides = p["sides.w"]
    side = sides[x.claim.long()][:, None, :]  # (B, 1, D)
    asked = x.question + side + f.linear(x.question_features, p["asked.w"], p["asked.b"])
    held = x.window + sides[2] + f.linear(x.token_features, p["token.w"], p["token.b"])
    mask = torch.cat([x.question_mask, x.window_mask], dim=1)
    h = run_layers(p, torch.cat([asked, held], dim=1), range(LOWER, LAYERS), mask, dropout=dropout)
    pooled = f.gelu(f.linear(drop_units(h[:, :1], dropout)[:, 0], p["pool.w"], p["pool.b"]))
    window = f.linear(pooled, p["verdict.w"], p["verdict.b"])[:, 0].float()
    logits = f.linear(h[:, m:], p["heads.w"], p["heads.b"]).float() + window[:, None, None]
    logits = logits.masked_fill(~x.body[..., None], float("-inf"))
    support = f.linear(pooled, p["support.w"], p["support.b"]).float()
    return Outputs(logits[..., 0], logits[..., 1], logits[..., 2], window, support)
