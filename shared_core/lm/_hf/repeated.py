"""Decode every branch as a row of an ordinary batch, for models that tree decoding does not suit.

Prompts of different length are padded on the left; models with a recurrent state get only prompts of one length. The
model keeps the cache of its own kind, repeated for each sample; a model that takes no cache we know is run over the
whole sequences again at each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from shared_core.lm._hf.forest import Feed, Opened
from shared_core.lm._hf.model import Runner
from shared_core.lm._hf.plan import Ids


class Repeated:
    """Session like ``Forest`` in which all live branches advance together, one token at a time."""

    lockstep = True

    def __init__(self, runner: Runner, *, cached: bool = True, switch: int | None = None) -> None:
        """Set up an empty session.

        Args:
            cached: whether the model's own cache is used; else every step runs the whole sequences.
            switch: sequences that grow beyond so many tokens are computed anew then, because all their keys change
                (longrope); all prompts must be of one length.
        """
        self.runner = runner
        self._cached = cached and runner.cache_name is not None
        self._switch = switch
        self._device = runner.device
        self._branches: list[int] = []
        self._cache: Any = None
        self._ids = torch.zeros((0, 0), dtype=torch.long)
        self._real = torch.zeros((0, 0), dtype=torch.long)

    @property
    def cache_bytes(self) -> int:
        """Bytes of keys and values held by this session (0 where the model keeps other state)."""
        layers = getattr(self._cache, "layers", ())
        tensors = [t for x in layers for t in (getattr(x, "keys", None), getattr(x, "values", None)) if t is not None]
        return sum(t.numel() * t.element_size() for t in tensors)

    def open(self, bodies: Sequence[Ids], rows: Sequence[Sequence[int]]) -> Opened:
        """Open as ``Forest.open`` does; ``rows`` is not used."""
        longest = max(map(len, bodies))
        # (rows, tokens) ids, padded on the left, and 1 where they are real.
        self._ids = torch.zeros((len(bodies), longest), dtype=torch.long, device=self._device)
        self._real = torch.zeros_like(self._ids)
        for r, body in enumerate(bodies):
            if len(body):
                self._ids[r, longest - len(body) :] = torch.from_numpy(body)
                self._real[r, longest - len(body) :] = 1
        self._branches = list(range(len(bodies)))
        if self._cached:
            self._cache = self._new_cache()
            if longest:
                self._forward(self._ids, [])
        return Opened([len(b) + 1 for b in bodies], [0] * len(bodies))

    def _new_cache(self) -> Any:
        from transformers import DynamicCache

        return DynamicCache(config=self.runner.model.config)

    def _forward(self, ids: torch.Tensor, columns: list[int]) -> torch.Tensor:
        if bool(self._real.all()):  # nothing is padded: the model numbers the positions itself
            return self.runner.forward(ids, None, self._cache, None, columns)
        # (rows, tokens): the first real token of each row has position 0, whatever padding stands before it.
        positions = (self._real.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        return self.runner.forward(ids, positions, self._cache, self._real, columns)

    def feed(self, feeds: Sequence[Feed], every: Sequence[bool]) -> torch.Tensor:
        """Feed as ``Forest.feed`` does, with exactly one token for every live branch."""
        row = {branch: r for r, branch in enumerate(self._branches)}
        # (rows, 1): exactly one token for each row keeps all rows of one length.
        tokens = torch.zeros((len(self._branches), 1), dtype=torch.long, device=self._device)
        for branch, fed in feeds:
            tokens[row[branch], 0] = fed[0]
        self._ids = torch.cat([self._ids, tokens], dim=1)
        self._real = torch.cat([self._real, torch.ones_like(tokens)], dim=1)
        # Beyond the switch every key has other rotary frequencies: the cache is rebuilt from the ids.
        if self._cached and self._switch is not None and self._ids.shape[1] == self._switch + 1:
            self._cache = self._new_cache()
            new = self._ids
        else:
            new = tokens if self._cached else self._ids
        last = new.shape[1] - 1
        places = [(row[branch], last) for branch, _ in feeds]
        return self.runner.collect(new.shape[1], new.shape[1], places, places, lambda a, b, w: self._forward(new, w))

    def fork(self, counts: Sequence[int], lanes: Sequence[int], steps: int) -> None:
        """Fork as ``Forest.fork`` does; ``lanes`` and ``steps`` are not used."""
        self._select([self._branches.index(b) for b, n in enumerate(counts) for _ in range(n)])
        self._branches = list(range(sum(counts)))

    def drop(self, branches: Sequence[int]) -> None:
        """Drop as ``Forest.drop`` does."""
        gone = set(branches)
        kept = [r for r, b in enumerate(self._branches) if b not in gone]
        if len(kept) < len(self._branches):
            self._branches = [self._branches[r] for r in kept]
            if kept:
                self._select(kept)

    def _select(self, rows: list[int]) -> None:
        index = torch.tensor(rows, device=self._device)
        self._ids, self._real = self._ids[index], self._real[index]
        if self._cache is not None:
            # Rows of keys and values, (rows, heads, tokens, width), in the new order; some several times.
            self._cache.reorder_cache(index)

    def keep_root(self) -> None:
        """Do nothing: this session keeps nothing between calls."""

    def keep(self, branch: int, ids: Sequence[int]) -> None:
        """Do nothing: this session keeps nothing between calls."""
