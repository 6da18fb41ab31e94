"""Choose tokens for many branches at once, reproducibly.

The random number of a token depends on the seed, the prompt, the sample's index and the token's place alone, so that
a sample comes out the same however requests are batched. Tokens are drawn by inverting the cumulative distribution in
the order of token ids: a swap of two nearly equal logits, which batching may cause, then changes nothing.

Imported by ``lm/transformers.py`` inside functions only (it needs torch).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

_NUCLEUS = 1024  # candidates looked at first when only top_p limits them
_EXACT = 4096  # above this many candidates float32 sums are too coarse


def noise_key(seed: int, prompt: NDArray[np.int64], sample: int) -> int:
    """Return the 64-bit key of one sample's random numbers."""
    digest = hashlib.blake2b(f"{seed}/{sample}/".encode() + prompt.tobytes(), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def uniforms(keys: NDArray[np.uint64], steps: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Draw uniform numbers in [0, 1), one for each key at its step (SplitMix64: Steele, Lea, Flood 2014, figure 17)."""
    with np.errstate(over="ignore"):
        z = keys + (steps + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return np.asarray((z >> np.uint64(11)).astype(np.float64) * 2.0**-53)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters of a branch; ``temperature`` 0 is greedy, ``top_k`` 0 and ``top_p`` 1 are off."""

    temperature: float
    top_k: int
    top_p: float


def choose(logits: torch.Tensor, how: Sequence[Sampling], uniform: NDArray[np.float64]) -> torch.Tensor:
    """Choose a token for each row of (rows, vocabulary) logits; forbidden tokens are -inf. Returns (rows,) ids."""
    groups: dict[str, list[int]] = {}
    for i, h in enumerate(how):
        groups.setdefault(_kind(h, logits.shape[1]), []).append(i)
    if list(groups) == ["greedy"]:
        return logits.argmax(1)
    tokens = torch.empty(len(how), dtype=torch.long, device=logits.device)
    for kind, rows in groups.items():
        index = torch.tensor(rows, device=logits.device)
        part = logits if len(groups) == 1 else logits[index]
        tokens[index] = part.argmax(1) if kind == "greedy" else _draw(part, kind, [how[i] for i in rows], uniform[rows])
    return tokens


def _kind(how: Sampling, vocabulary: int) -> str:
    if how.temperature == 0 or how.top_k == 1:
        return "greedy"
    if 0 < how.top_k < vocabulary:
        return "top_k"
    return "top_p" if how.top_p < 1 else "all"


def _draw(logits: torch.Tensor, kind: str, how: Sequence[Sampling], uniform: NDArray[np.float64]) -> torch.Tensor:
    device = logits.device
    temperature = torch.tensor([h.temperature for h in how], device=device)[:, None]
    u = torch.from_numpy(uniform).to(device, torch.float64 if device.type != "mps" else torch.float32)
    if kind == "all":
        return _invert((logits / temperature).softmax(1), u)
    top_p = torch.tensor([h.top_p for h in how], device=device)[:, None]
    if kind == "top_k":
        top_k = torch.tensor([h.top_k for h in how], device=device)[:, None]
        values, ids = logits.topk(int(top_k.max()), dim=1)  # (rows, k), likeliest first
        beyond = torch.arange(values.shape[1], device=device)[None] >= top_k
        p = (values.masked_fill(beyond, -torch.inf) / temperature).softmax(1)
    else:
        scaled = logits / temperature
        total = scaled.logsumexp(1, keepdim=True)
        for size in (min(_NUCLEUS, logits.shape[1]), logits.shape[1]):
            values, ids = scaled.topk(size, dim=1)
            p = (values - total).exp()
            if bool((p.sum(1, keepdim=True) >= top_p).all()):
                break
    if any(h.top_p < 1 for h in how):
        before = p.cumsum(1) - p  # probability of the likelier tokens
        p = p.masked_fill((before >= top_p) & (top_p < 1), 0.0)  # the first that reaches top_p stays
    ids, order = ids.sort(dim=1)
    return ids.gather(1, _invert(p.gather(1, order), u)[:, None])[:, 0]


def _invert(p: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """Find the column at which each row's cumulative sum passes ``u`` of its total; never one of probability 0."""
    exact = p.double() if p.shape[1] > _EXACT and p.device.type != "mps" else p
    cumulative = exact.cumsum(1)
    target = u.to(cumulative.dtype)[:, None] * cumulative[:, -1:]
    found = torch.searchsorted(cumulative, target, right=True)[:, 0]
    # Rounding may carry the target to the very end: then the last column that has any probability.
    last = (cumulative < cumulative[:, -1:]).sum(1)
    return torch.minimum(found, last)
