"""The reading network: a small head over frozen token vectors that finds, in each window, where the answer stands.

Question and window meet by attention over late-interaction similarities (BiDAF: Seo et al., ICLR 2017, sec. 2), two
blocks of convolution and self-attention follow (QANet: Yu et al., ICLR 2018, sec. 2.1), and every question word is
checked against the window, which gives one number for "this window answers this question". All windows of a question
compete in one softmax with a "no answer" whose logit is 0 (shared normalisation: Clark & Gardner, ACL 2018, sec. 3.3),
so scores of different passages compare.

Parameters are a plain mapping of tensors; ``forward`` is used alike for training and for reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from shared_core.reading.features import QUESTION_FEATURES, TOKEN_FEATURES
from shared_core.reading.joint import drop_units, read_together

if TYPE_CHECKING:
    from torch import Tensor

HEADS = 4
KERNEL = 7


class Inputs(NamedTuple):
    """A batch of B windows, padded to N window and M question tokens.

    Attributes:
        window: (B, N, D) token vectors; question: (B, M, D).
        window_mask, question_mask: (B, N), (B, M) bool, true for real tokens.
        token_features: (B, N, TOKEN_FEATURES); question_features: (B, M, QUESTION_FEATURES).
        match: (B, N, M).
    """

    window: Tensor
    question: Tensor
    window_mask: Tensor
    question_mask: Tensor
    token_features: Tensor
    question_features: Tensor
    match: Tensor


class Outputs(NamedTuple):
    """Logits, to be compared with 0 for "no answer"; -inf at padding.

    Attributes:
        start, end: (B, N), the answer's first and last token.
        sentence: (B, N), parts of a sentence's logit: ``logsumexp`` over its tokens.
        window: (B,) part of all of them: how far the window answers the question.
    """

    start: Tensor
    end: Tensor
    sentence: Tensor
    window: Tensor


def initial(width: int, size: int = 96, blocks: int = 2, seed: int = 0) -> dict[str, Tensor]:
    """Fresh parameters.

    Args:
        width: of the token vectors.
        size: of the network's own vectors, a multiple of ``HEADS``.
        blocks: convolution and self-attention blocks.
        seed: of the random numbers.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    out: dict[str, Tensor] = {}

    def linear(name: str, inside: int, outside: int, bias: bool = True) -> None:
        out[f"{name}.w"] = torch.randn(outside, inside, generator=generator) * inside**-0.5
        if bias:
            out[f"{name}.b"] = torch.zeros(outside)

    def norm(name: str) -> None:
        out[f"{name}.w"], out[f"{name}.b"] = torch.ones(size), torch.zeros(size)

    linear("project", width, size)
    norm("project_norm")
    linear("token", TOKEN_FEATURES, size, bias=False)
    linear("asked", QUESTION_FEATURES, size, bias=False)
    linear("similar", size, size, bias=False)
    out["similar.match"] = torch.ones(1)
    linear("pool", size, 1)
    linear("fuse", 4 * size + TOKEN_FEATURES + 1, size)
    for i in range(blocks):
        norm(f"block{i}.conv_norm")
        out[f"block{i}.depth"] = torch.randn(size, 1, KERNEL, generator=generator) * KERNEL**-0.5
        linear(f"block{i}.point", size, size)
        norm(f"block{i}.attend_norm")
        linear(f"block{i}.attend", size, 3 * size)
        linear(f"block{i}.mix", size, size)
        norm(f"block{i}.feed_norm")
        linear(f"block{i}.up", size, 2 * size)
        linear(f"block{i}.down", 2 * size, size)
    norm("final_norm")
    linear("check", 3 * size + QUESTION_FEATURES + 1, size)
    linear("verdict", size, 1)
    linear("heads", size, 3)
    return out


def widened(p: Mapping[str, Tensor], extra: int) -> dict[str, Tensor]:
    """Parameters for token vectors that are ``extra`` wider, which say the same until trained."""
    import torch

    wide = torch.cat([p["project.w"], torch.zeros(p["project.w"].shape[0], extra)], dim=1)
    return {**p, "project.w": wide}


def forward(p: Mapping[str, Tensor], x: Inputs, *, dropout: float = 0.0) -> Outputs:
    """Run the network; ``dropout`` is for training only.

    With the parameters of ``joint.corrected`` in ``p``, question and window first read each other in the embedding
    model's upper layers, and the vectors that these give stand beside the others.
    """
    import torch
    from torch.nn import functional as f

    def drop(v: Any) -> Any:
        return drop_units(v, dropout)

    def linear(name: str, v: Any) -> Any:
        return f.linear(v, p[f"{name}.w"], p.get(f"{name}.b"))

    def norm(name: str, v: Any) -> Any:
        return f.layer_norm(v, v.shape[-1:], p[f"{name}.w"], p[f"{name}.b"])

    size = p["project.b"].shape[0]
    of_window, of_question = x.window, x.question
    if "ends" in p:
        below = p["ends"].shape[1]
        both = x.question[..., :below], x.window[..., :below], x.question_mask, x.window_mask
        question, window = read_together(p, *both, dropout=dropout)
        of_window, of_question = torch.cat([of_window, window], -1), torch.cat([of_question, question], -1)
    tokens = norm("project_norm", drop(linear("project", of_window))) + linear("token", x.token_features)
    asked = norm("project_norm", drop(linear("project", of_question))) + linear("asked", x.question_features)
    no_word, no_token = ~x.question_mask[:, None, :], ~x.window_mask[:, :, None]

    similar = linear("similar", tokens * size**-0.5) @ asked.transpose(1, 2) + p["similar.match"] * x.match
    over_words = similar.masked_fill(no_word, -1e4)
    read = over_words.softmax(-1) @ asked
    best = over_words.amax(-1, keepdim=True)
    pooled = (linear("pool", asked).masked_fill(~x.question_mask[..., None], -1e4).softmax(1) * asked).sum(1)
    fused = torch.cat([tokens, read, tokens * read, tokens * pooled[:, None], x.token_features, best], dim=-1)
    h = f.gelu(linear("fuse", drop(fused)))

    blocks = sum(name.endswith(".depth") for name in p)
    for i in range(blocks):
        v = norm(f"block{i}.conv_norm", h).masked_fill(no_token, 0.0)
        v = f.conv1d(v.transpose(1, 2), p[f"block{i}.depth"], padding=KERNEL // 2, groups=size).transpose(1, 2)
        h = h + drop(f.gelu(linear(f"block{i}.point", v)))
        v = linear(f"block{i}.attend", norm(f"block{i}.attend_norm", h))
        q, k, w = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in v.chunk(3, dim=-1))
        attention = ((q * (size / HEADS) ** -0.5) @ k.transpose(-1, -2)).masked_fill(
            ~x.window_mask[:, None, None, :], -1e4
        )
        h = h + drop(linear(f"block{i}.mix", (attention.softmax(-1) @ w).transpose(1, 2).flatten(2)))
        v = linear(f"block{i}.up", norm(f"block{i}.feed_norm", h))
        h = h + drop(linear(f"block{i}.down", f.gelu(v)))
    h = norm("final_norm", h)

    over_tokens = similar.masked_fill(no_token, -1e4)
    found = over_tokens.softmax(1).transpose(1, 2) @ h
    closest = over_tokens.amax(1)[..., None]
    check = f.gelu(linear("check", drop(torch.cat([asked, found, asked * found, x.question_features, closest], -1))))
    verdicts = linear("verdict", check)[..., 0].masked_fill(~x.question_mask, 0.0)
    window = verdicts.sum(1)

    logits = linear("heads", drop(h)).float() + window.float()[:, None, None]
    logits = logits.masked_fill(no_token, float("-inf"))
    return Outputs(logits[..., 0], logits[..., 1], logits[..., 2], window.float())
