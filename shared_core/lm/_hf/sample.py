"""Choose tokens for many branches at once, reproducibly.

The random numbers of a token depend on the seed, the prompt, the sample's index and the token's place alone, so that
a sample comes out the same however requests are batched. Tokens are drawn by the Gumbel-max trick (argmax of
logit + noise; Maddison, Tarlow, Minka 2014) with noise fixed for each id: rounding, which batching changes, then
changes a draw only where two of these sums are nearly equal. Inverting the cumulative distribution would add up
the rounding of a whole vocabulary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shared_core.lm.base import SamplingParams

_NUCLEUS = 1024  # candidates looked at first when only top_p limits them
_BLOCK = 256  # ids whose noise is drawn together
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def noise_key(seed: int, prompt: NDArray[np.int64], sample: int) -> int:
    """Return the 64-bit key of one sample's random numbers."""
    digest = hashlib.blake2b(f"{seed}/{sample}/".encode() + prompt.tobytes(), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix 64 bits (SplitMix64: Steele, Lea, Flood 2014, figure 17)."""
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class Noise:
    """Random numbers of a step, for a key and the number of earlier tokens of each row."""

    keys: NDArray[np.uint64]
    steps: NDArray[np.uint64]

    def of(self, rows: Sequence[int]) -> Noise:
        """Return the noise of some rows."""
        return Noise(self.keys[list(rows)], self.steps[list(rows)])

    def gumbel(self, places: NDArray[Any]) -> NDArray[np.float64]:
        """Return standard Gumbel noise for (rows or 1, places) numbers: ids, or others that no id has."""
        with np.errstate(over="ignore"):
            states = _mixed(self.keys + (self.steps + np.uint64(1)) * _GOLDEN)
            bits = _mixed(states[:, None] + (places + np.uint64(1)) * _GOLDEN)
        uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53  # in (0, 1)
        found: NDArray[np.float64] = -np.log(-np.log(uniform))
        return found


def look_up(ids: NDArray[np.int64], most: int, longest: int = 3) -> list[int]:
    """Return what followed the last tokens of a sequence where they occurred before, at most ``most`` tokens.

    A draft for greedy decoding: an answer that repeats words of its prompt is checked in one pass instead of written
    token by token (prompt lookup decoding: Saxena 2023).

    Args:
        ids: (length,) token ids.
        longest: number of last tokens to look for; fewer where so many did not occur. The last place wins that has
            so many tokens behind it, else the first.

    >>> look_up(np.array([5, 6, 7, 8, 9, 6, 7]), most=2)
    [8, 9]
    """
    for n in range(min(longest, len(ids) - 1), 0, -1):
        windows = np.lib.stride_tricks.sliding_window_view(ids[:-1], n)  # (length - n, n): those before the last
        places = np.flatnonzero((windows == ids[-n:]).all(axis=1))
        if len(places):
            whole = places[places + n + most <= len(ids)]
            start = int(whole[-1] if len(whole) else places[0]) + n
            found: list[int] = ids[start : start + most].tolist()
            return found
    return []


def choose(logits: torch.Tensor, how: Sequence[SamplingParams], noise: Noise) -> torch.Tensor:
    """Choose a token for each row of (rows, vocabulary) logits; forbidden tokens are -inf. Returns (rows,) ids.

    Of ``how`` only temperature, top-k and top-p count.
    """
    groups: dict[str, list[int]] = {}
    for i, h in enumerate(how):
        groups.setdefault(_kind(h, logits.shape[1]), []).append(i)
    if list(groups) == ["greedy"]:
        return logits.argmax(1)
    tokens = torch.empty(len(how), dtype=torch.long, device=logits.device)
    for kind, rows in groups.items():
        index = torch.tensor(rows, device=logits.device)
        part = logits if len(groups) == 1 else logits[index]
        if kind == "greedy":
            tokens[index] = part.argmax(1)
        else:
            tokens[index] = _draw(_limited(part, kind, [how[i] for i in rows]), noise.of(rows))
    return tokens


def _kind(how: SamplingParams, vocabulary: int) -> str:
    if how.temperature == 0 or how.top_k == 1:
        return "greedy"
    if 0 < how.top_k < vocabulary:
        return "top_k"
    return "top_p" if how.top_p < 1 else "all"


def _limited(logits: torch.Tensor, kind: str, how: Sequence[SamplingParams]) -> torch.Tensor:
    """Divide by the temperature, and set what top-k and top-p leave out to -inf."""
    device = logits.device
    scaled = logits / torch.tensor([h.temperature for h in how], device=device)[:, None]
    if kind == "all":
        return scaled
    top_p = torch.tensor([h.top_p for h in how], device=device)[:, None]
    if kind == "top_k":
        top_k = torch.tensor([h.top_k for h in how], device=device)[:, None]
        values, ids = scaled.topk(int(top_k.max()), dim=1)  # (rows, k), likeliest first
        beyond = torch.arange(values.shape[1], device=device)[None] >= top_k
        values = values.masked_fill(beyond, -torch.inf)
        p = values.softmax(1)
    else:
        total = scaled.logsumexp(1, keepdim=True)
        for size in (min(_NUCLEUS, logits.shape[1]), logits.shape[1]):
            values, ids = scaled.topk(size, dim=1)
            p = (values - total).exp()
            if bool((p.sum(1, keepdim=True) >= top_p).all()):
                break
    if any(h.top_p < 1 for h in how):
        before = p.cumsum(1) - p  # probability of the likelier tokens
        values = values.masked_fill((before >= top_p) & (top_p < 1), -torch.inf)  # the first that reaches top_p stays
    return torch.full_like(scaled, -torch.inf).scatter_(1, ids, values)


def _draw(scores: torch.Tensor, noise: Noise) -> torch.Tensor:
    """Draw an id for each row of log-weights: a block of ids first, then one of the block.

    The maximum of logit + noise over a block is distributed as noise + logsumexp of the block, so that two small draws
    do what noise for a whole vocabulary would, at a hundredth of the random numbers.
    """
    size = scores.shape[1]
    blocks = -(-size // _BLOCK)
    padded = torch.nn.functional.pad(scores, (0, blocks * _BLOCK - size), value=-torch.inf)
    padded = padded.view(len(scores), blocks, _BLOCK)  # padding is -inf: no block wins by it
    # Behind the ids' own places: 2³² is more than any vocabulary has.
    of_block = noise.gumbel((np.arange(blocks, dtype=np.uint64) + np.uint64(1 << 32))[None])
    block = (padded.logsumexp(2) + _on(of_block, scores)).argmax(1)
    first = block.cpu().numpy().astype(np.uint64)[:, None] * np.uint64(_BLOCK)
    of_id = noise.gumbel(first + np.arange(_BLOCK, dtype=np.uint64))
    inside = padded[torch.arange(len(scores), device=scores.device), block] + _on(of_id, scores)
    return block * _BLOCK + inside.argmax(1)


def _on(values: NDArray[np.float64], like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(values).to(like.device, like.dtype)
