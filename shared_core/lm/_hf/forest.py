"""Tree decoding: many continuations of shared prompts over one cache in which nothing is replicated.

A *row* of the batch holds one tree: slots of the cache in the order they were written, and for each live *branch*
the set of slots that are its past (``visible``). A step feeds the new tokens of all branches of a row as one sequence
under a 4-D additive mask, with explicit position ids. k samples of a prompt are k branches of one row; prompts that
share only their first part are rows beside each other whose shared part was computed once and copied; padding is
simply invisible. See ``reference: tree decoding`` in the documentation for what it is worth.

Imported by ``lm/transformers.py`` inside functions only (it needs torch).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from shared_core.lm._hf.cache import KeyValues, PrefixCache, SlotCache
from shared_core.lm._hf.model import Runner
from shared_core.lm._hf.plan import Ids, RowTree, common_length, row_tree, similar_lengths, sort_key

Feed = tuple[int, Sequence[int]]
"""A branch and the tokens to append to it, at least one."""

_CHUNK = 1024  # tokens of a sequence fed at once where a mask is needed
_MASK = 1 << 25  # entries of a mask at most
_BATCH = 1 << 14  # tokens of a batch fed at once without a mask
_SPARSE = 0.6  # below this share of slots in use the cache is compacted


@dataclass(slots=True)
class Opened:
    """Tokens of each prompt that were computed or found in the cache, without those shared with an earlier prompt."""

    prompt_tokens: list[int]
    cached_tokens: list[int]


class Forest:
    """A session of tree decoding: ``open``, then ``feed``, ``fork`` and ``drop`` branches until all are done."""

    lockstep = False

    def __init__(self, runner: Runner, prefixes: PrefixCache) -> None:
        self._run = runner
        self._prefixes = prefixes
        self._device = runner.device
        self._at: dict[int, tuple[int, int]] = {}
        self._position: dict[int, int] = {}
        self._visible = torch.zeros(0)
        self._cache = SlotCache(runner.layers)
        self._root_cache: SlotCache | None = None

    @property
    def cache_bytes(self) -> int:
        """Bytes of keys and values held by this session."""
        return self._cache.nbytes()

    # --- prefill -----------------------------------------------------------------------------------------------

    def open(self, bodies: Sequence[Ids], rows: Sequence[Sequence[int]]) -> Opened:
        """Compute the prompts: branch i stands at the end of ``bodies[i]``.

        Args:
            bodies: token ids of each prompt without its last token (which the first feed brings).
            rows: which prompts form a tree; every prompt in exactly one row.
        """
        root, found = self._root(bodies, rows)
        starts: list[tuple[int, KeyValues | None]] = []
        for members in rows:
            trunk = bodies[members[0]][: common_length([bodies[i] for i in members])]
            length, states = self._prefixes.match(trunk) if len(rows) > 1 else (0, None)
            starts.append((length, states) if length > len(root) else (len(root), self._root_states))
            found = [max(f, length) if i in members else f for i, f in enumerate(found)]
        trees = [row_tree([bodies[i] for i in m], start) for m, (start, _) in zip(rows, starts)]
        self._fill(trees, [states for _, states in starts])
        for r, members in enumerate(rows):
            for q, i in enumerate(members):
                self._at[i], self._position[i] = (r, q), len(bodies[i])
        return _opened(bodies, found)

    def _root(self, bodies: Sequence[Ids], rows: Sequence[Sequence[int]]) -> tuple[Ids, list[int]]:
        """What all prompts begin with, computed once as a plain sequence; how much of it each found in the cache."""
        root = bodies[0][: common_length(bodies)]
        length, states = self._prefixes.match(root)
        self._root_states = states
        if length < len(root):
            cache = SlotCache(self._run.layers)
            cache.reserve(64)
            cache.write([states])
            for start in range(length, len(root), _CHUNK):
                piece = root[start : min(start + _CHUNK, len(root))]
                ids = torch.from_numpy(piece)[None].to(self._device)
                positions = torch.arange(start, start + len(piece), device=self._device)[None]
                self._run.forward(ids, positions, cache, None, [])
            self._root_states = cache.read(0, slice(0, len(root)))
            self._root_cache = cache
        self._root_ids = root
        return root, [length] * len(bodies)

    def _fill(self, trees: list[RowTree], states: list[KeyValues | None]) -> None:
        """Compute the rows' trees behind their starts, rows of similar length together; set what branches see."""
        buckets = similar_lengths([len(t.tokens) for t in trees])
        single = len(buckets) == 1
        pieces: list[KeyValues | None] = [None] * len(trees)
        offsets = [0] * len(trees)
        for bucket in buckets:
            chosen = [trees[i] for i in bucket]
            cache = self._started([states[i] for i in bucket])
            width = cache.slots
            self._prefill(cache, chosen, width)
            for j, i in enumerate(bucket):
                offsets[i] = width
                if not single:
                    pieces[i] = cache.read(j, slice(0, width + len(trees[i].tokens)))
            if single:
                self._cache = cache
        if not single:
            self._cache = SlotCache(self._run.layers)
            self._cache.write(pieces)
        branches = max(len(t.paths) for t in trees)
        visible = np.zeros((len(trees), branches, self._cache.slots + 256), dtype=bool)
        for r, tree in enumerate(trees):
            visible[r, :, : tree.start] = True
            for q, path in enumerate(tree.paths):
                visible[r, q, offsets[r] + path] = True
        self._visible = torch.from_numpy(visible).to(self._device)

    def _started(self, states: list[KeyValues | None]) -> SlotCache:
        if len(states) == 1 and self._root_cache is not None and states[0] is self._root_states:
            cache = self._root_cache  # the root's own buffer goes on being used: nothing is copied
            self._root_cache = None
            return cache
        cache = SlotCache(self._run.layers)
        cache.write(states)
        return cache

    def _prefill(self, cache: SlotCache, trees: list[RowTree], width: int) -> None:
        longest = max(len(t.tokens) for t in trees)
        if not longest:
            return
        rows = len(trees)
        ids = np.zeros((rows, longest), dtype=np.int64)
        positions = np.zeros_like(ids)
        for r, tree in enumerate(trees):
            ids[r, : len(tree.tokens)], positions[r, : len(tree.tokens)] = tree.tokens, tree.positions
        # Causal attention from the first slot on needs no mask of ours: padding stands behind all that is real.
        plain = width == 0 and all(len(t.paths) == 1 for t in trees) and rows * longest <= _BATCH
        chunk = longest if plain else _chunk(rows, width + longest)
        for start in range(0, longest, chunk):
            end = min(start + chunk, longest)
            mask = None if plain else self._prefill_mask(trees, width, start, end)
            tokens, places = (torch.from_numpy(x[:, start:end]).to(self._device) for x in (ids, positions))
            self._run.forward(tokens, places, cache, mask, [])

    def _prefill_mask(self, trees: list[RowTree], width: int, start: int, end: int) -> torch.Tensor:
        seen = np.zeros((len(trees), end - start, width + end), dtype=bool)
        seen[:, np.arange(end - start), width + np.arange(start, end)] = True  # padding sees itself: no empty softmax
        for r, tree in enumerate(trees):
            size, last = len(tree.tokens), min(end, len(tree.tokens))
            seen[r, : max(0, last - start), : tree.start] = True
            if last > start:
                seen[r, : last - start, width : width + min(size, end)] = tree.mask(start, last)[:, :end]
        return self._additive(torch.from_numpy(seen).to(self._device))

    def _additive(self, seen: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(seen.shape, dtype=self._run.dtype, device=self._device)
        return mask.masked_fill_(~seen, torch.finfo(self._run.dtype).min)[:, None]

    # --- decoding ----------------------------------------------------------------------------------------------

    def feed(self, feeds: Sequence[Feed], every: Sequence[bool]) -> torch.Tensor:
        """Append tokens to branches, all in as few forward passes as fit.

        Args:
            feeds: branches and their tokens; branches left out wait.
            every: for each feed whether the logits at all its tokens are wanted, or only at its last.

        Returns:
            Float32 logits (wanted positions, vocabulary), in the order of the feeds.
        """
        rows = self._visible.shape[0]
        fill = [0] * rows
        places: list[tuple[int, int, int]] = []  # row, first column, number of tokens
        for branch, tokens in feeds:
            r, _ = self._at[branch]
            places.append((r, fill[r], len(tokens)))
            fill[r] += len(tokens)
        width = max(fill)
        ids = np.zeros((rows, width), dtype=np.int64)
        positions = np.zeros((rows, width), dtype=np.int64)
        owner = np.full((rows, width), -1, dtype=np.int64)
        wanted: list[tuple[int, int]] = []
        for (branch, tokens), (r, c, size), each in zip(feeds, places, every):
            at = self._position[branch]
            ids[r, c : c + size] = tokens
            positions[r, c : c + size] = range(at, at + size)
            owner[r, c : c + size] = self._at[branch][1]
            self._position[branch] = at + size
            wanted += [(r, c + j) for j in range(0 if each else size - 1, size)]
        last = [(r, c + size - 1) for r, c, size in places]
        return self._run.collect(
            width,
            _chunk(rows, self._cache.slots + width),
            wanted,
            last,
            lambda a, b, w: self._step(ids[:, a:b], positions[:, a:b], owner[:, a:b], w),
        )

    def _step(self, ids: Ids, positions: Ids, owner: Ids, columns: list[int]) -> torch.Tensor:
        tokens, place, own = (
            torch.from_numpy(np.ascontiguousarray(x)).to(self._device) for x in (ids, positions, owner)
        )
        rows, width = own.shape
        slots = self._cache.slots
        if slots + width > self._visible.shape[2]:
            room = self._visible.new_zeros((*self._visible.shape[:2], slots + width + 256))
            room[:, :, :slots] = self._visible[:, :, :slots]
            self._visible = room
        row = torch.arange(rows, device=self._device)[:, None]
        past = self._visible[row, own.clamp(min=0), :slots]
        new = (own[:, :, None] == own[:, None, :]).tril()  # padding sees padding, itself at least
        mask = self._additive(torch.cat([past, new], dim=2))
        self._cache.reserve(max(64, 16 * width))
        logits = self._run.forward(tokens, place, self._cache, mask, columns)
        branch = torch.arange(self._visible.shape[1], device=self._device)
        self._visible[:, :, slots : slots + width] = branch[None, :, None] == own[:, None, :]
        return logits

    def fork(self, counts: Sequence[int]) -> None:
        """Branch i becomes ``counts[i]`` branches, numbered on in order; all branches must be live."""
        members: list[list[int]] = [[] for _ in range(self._visible.shape[0])]
        at: dict[int, tuple[int, int]] = {}
        position: dict[int, int] = {}
        for branch, count in enumerate(counts):
            r, q = self._at[branch]
            for _ in range(count):
                at[len(at)] = (r, len(members[r]))
                position[len(position)] = self._position[branch]
                members[r].append(q)
        self._at, self._position = at, position
        self._select(list(range(len(members))), members)

    def drop(self, branches: Sequence[int]) -> None:
        """Forget branches; rows and slots that nothing needs any more are given up when it pays."""
        if not branches:
            return
        for branch in branches:
            del self._at[branch], self._position[branch]
        rows, width = self._visible.shape[:2]
        live: list[list[int]] = [[] for _ in range(rows)]
        for branch, (r, _) in self._at.items():
            live[r].append(branch)
        kept = [r for r in range(rows) if live[r]]
        if not kept:
            return
        if len(kept) > 0.75 * rows:
            kept = list(range(rows))
        if len(kept) == rows and max(map(len, live)) == width:
            return
        members = [[self._at[b][1] for b in live[r]] for r in kept]
        for new, r in enumerate(kept):
            for q, branch in enumerate(live[r]):
                self._at[branch] = (new, q)
        self._select(kept, members)
        self._compact(members)

    def _select(self, rows: list[int], members: list[list[int]]) -> None:
        width = max(map(len, members))
        index = np.zeros((len(rows), width), dtype=np.int64)
        for r, row in enumerate(members):
            index[r, : len(row)] = row
        chosen = torch.tensor(rows, device=self._device)
        if len(rows) < self._visible.shape[0]:
            self._cache.select_rows(chosen)
        self._visible = self._visible[chosen[:, None], torch.from_numpy(index).to(self._device)]

    def _compact(self, members: list[list[int]]) -> None:
        slots = self._cache.slots
        counts = torch.tensor([len(m) for m in members], device=self._device)
        real = torch.arange(self._visible.shape[1], device=self._device)[None, :] < counts[:, None]
        used = (self._visible[:, :, :slots] & real[:, :, None]).any(1)
        needed = int(used.sum(1).max())
        if slots < 256 or needed > _SPARSE * slots:
            return
        order = (~used).int().argsort(dim=1, stable=True)[:, :needed]
        self._cache.select_slots(order)
        row = torch.arange(len(members), device=self._device)[:, None, None]
        branch = torch.arange(self._visible.shape[1], device=self._device)[None, :, None]
        kept = self._visible[row, branch, order[:, None, :]]
        self._visible = torch.cat([kept, kept.new_zeros((*kept.shape[:2], 256))], dim=2)

    # --- what stays --------------------------------------------------------------------------------------------

    def keep_root(self) -> None:
        """Keep the common beginning of the prompts for later calls."""
        self._prefixes.put(self._root_ids, self._root_states)

    def keep(self, branch: int, ids: Sequence[int]) -> None:
        """Keep a branch for later calls; ``ids`` are all the tokens it holds."""
        r, q = self._at[branch]
        slots = self._visible[r, q, : self._cache.slots].nonzero()[:, 0]
        if len(slots) == len(ids):
            self._prefixes.put(ids, self._cache.read(r, slots))


def _chunk(rows: int, slots: int) -> int:
    """Tokens of each row to feed at once, such that the mask stays small."""
    return max(16, min(_CHUNK, _MASK // max(1, rows * slots)))


def _opened(bodies: Sequence[Ids], found: Sequence[int]) -> Opened:
    order = sorted(range(len(bodies)), key=lambda i: sort_key(bodies[i]))
    prompt, cached = [0] * len(bodies), [0] * len(bodies)
    before: Ids | None = None
    for i in order:
        shared = 0 if before is None else common_length([before, bodies[i]])
        # The last token of a prompt is fed with its first step.
        prompt[i] = len(bodies[i]) + 1 - shared
        cached[i] = max(0, min(found[i], len(bodies[i])) - shared)
        before = bodies[i]
    return Opened(prompt, cached)
