"""Tree decoding: many continuations of shared prompts over one cache that replicates nothing.

A *row* of the batch holds one tree: slots of the cache in the order they were written, and for each live *branch*
the set of slots that are its past (``visible``). A step feeds the new tokens of all branches of a row as one sequence
under a 4-D additive mask, with explicit position ids. k samples of a prompt are k branches of one row, or of several
(*lanes*), where a row would mostly hold what its branches must not see; prompts that share only their first part are
rows beside each other whose shared part was computed once; padding is simply invisible. What all prompts begin with
is held once for all rows where the model's attention can be exchanged (``attention``), and copied to each where not.

Shapes, throughout: R rows, B branches in the fullest row, S slots in use, w tokens fed to each row at a time.
A stem is not among the slots. ``visible`` is (R, B, S + room) bool, a mask (R, 1, w, S + w) of the model's dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from shared_core.lm._hf import attention
from shared_core.lm._hf.cache import KeyValues, PrefixCache, Segment, SlotCache, behind, slot_count
from shared_core.lm._hf.model import Runner
from shared_core.lm._hf.plan import Ids, RowTree, common_length, common_prefix, row_tree, similar_lengths, sort_key

Feed = tuple[int, Sequence[int]]
"""A branch and the tokens to append to it, at least one."""

_CHUNK = 1024  # tokens of a sequence fed at once where a mask is needed
_MASK = 1 << 25  # entries of a mask at most
_BATCH = 1 << 14  # tokens of a batch fed at once without a mask
_SPARSE = 0.6  # below this share of slots in use the cache is compacted


@dataclass(slots=True)
class Opened:
    """Tokens of each prompt that were computed or found in the cache, not counting those of an earlier prompt."""

    prompt_tokens: list[int]
    cached_tokens: list[int]


class Forest:
    """Session of tree decoding: ``open``, then ``feed``, ``fork`` and ``drop`` branches until all are done."""

    lockstep = False

    def __init__(self, runner: Runner, prefixes: PrefixCache, anchor: int | None = None) -> None:
        """``anchor``: a position that every forward pass shall hold, for frequencies that depend on the longest."""
        self._run = runner
        self._prefixes = prefixes
        self._anchor = anchor
        self._side = 0 if anchor is None else 1
        self._device = runner.device
        self._at: dict[int, tuple[int, int]] = {}
        self._position: dict[int, int] = {}
        self._visible = torch.zeros(0)
        self._most = 0
        self._cache = SlotCache(runner.layers)
        self._root_ids: Ids = np.zeros(0, dtype=np.int64)
        self._root_cache: SlotCache | None = None
        self._root_states: KeyValues = {}
        self._root_kept: Segment | None = None
        self._stem: KeyValues = {}

    @property
    def cache_bytes(self) -> int:
        """Bytes of keys and values held by this session."""
        return self._cache.nbytes() + sum(t.nbytes for pair in self._stem.values() for t in pair)

    # --- prefill -----------------------------------------------------------------------------------------------

    def open(self, bodies: Sequence[Ids], rows: Sequence[Sequence[int]]) -> Opened:
        """Compute the prompts; afterwards branch i is at the end of ``bodies[i]``.

        Args:
            bodies: token ids of each prompt without its last token (which the first feed brings).
            rows: which prompts form a tree; every prompt in exactly one row.
        """
        root, found = self._root(bodies)
        self._stem = self._root_states if self._run.stems else {}
        starts: list[tuple[int, KeyValues]] = []
        for members in rows:
            trunk = bodies[members[0]][: common_length([bodies[i] for i in members])]
            length, states = self._prefixes.match(trunk, self._side) if len(rows) > 1 else (0, {})
            starts.append((length, states) if length > len(root) else (len(root), self._root_states))
            found = [max(f, length) if i in members else f for i, f in enumerate(found)]
        trees = [row_tree([bodies[i] for i in m], start) for m, (start, _) in zip(rows, starts)]
        held = slot_count(self._stem)
        self._fill(trees, [behind(states, held) if held else states for _, states in starts])
        for r, members in enumerate(rows):
            for q, i in enumerate(members):
                self._at[i], self._position[i] = (r, q), len(bodies[i])
        return _opened(bodies, found)

    def _root(self, bodies: Sequence[Ids]) -> tuple[Ids, list[int]]:
        """Compute the prefix common to all prompts once, as a plain sequence; return how much each found cached."""
        root = bodies[0][: common_length(bodies)]
        length, states = self._prefixes.match(root, self._side)
        self._root_states = states
        if length < len(root):
            cache = SlotCache(self._run.layers)
            cache.reserve(len(root) - length if self._run.stems else 64)
            cache.write([states])
            for start in range(length, len(root), _CHUNK):
                piece = root[start : min(start + _CHUNK, len(root))]
                ids = torch.from_numpy(piece)[None].to(self._device)
                positions = torch.arange(start, start + len(piece), device=self._device)[None]
                self._forward(ids, positions, cache, None, [])
            self._root_states = cache.read(0, slice(0, len(root)))
            self._root_cache = cache
        self._root_ids = root
        return root, [length] * len(bodies)

    def _fill(self, trees: list[RowTree], states: list[KeyValues]) -> None:
        """Compute the rows' trees after their starts, rows of similar length together, and set what branches see."""
        buckets = similar_lengths([len(t.tokens) for t in trees])
        single = len(buckets) == 1
        pieces: list[KeyValues] = [{}] * len(trees)
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
            visible[r, :, : tree.start - slot_count(self._stem)] = True
            for q, path in enumerate(tree.paths):
                visible[r, q, offsets[r] + path] = True
        self._visible = torch.from_numpy(visible).to(self._device)

    def _started(self, states: list[KeyValues]) -> SlotCache:
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
        alone = not self._stem and width == 0
        plain = alone and all(len(t.paths) == 1 for t in trees) and rows * longest <= _BATCH
        chunk = longest if plain else _chunk(rows, width + longest)
        for start in range(0, longest, chunk):
            end = min(start + chunk, longest)
            mask = None if plain else self._prefill_mask(trees, width, start, end)
            tokens, places = (torch.from_numpy(x[:, start:end]).to(self._device) for x in (ids, positions))
            self._forward(tokens, places, cache, mask, [])

    def _prefill_mask(self, trees: list[RowTree], width: int, start: int, end: int) -> torch.Tensor:
        seen = np.zeros((len(trees), end - start, width + end), dtype=bool)
        seen[:, np.arange(end - start), width + np.arange(start, end)] = True  # padding sees itself: no empty softmax
        for r, tree in enumerate(trees):
            size, last = len(tree.tokens), min(end, len(tree.tokens))
            seen[r, : max(0, last - start), : tree.start - slot_count(self._stem)] = True
            if last > start:
                seen[r, : last - start, width : width + min(size, end)] = tree.mask(start, last)[:, :end]
        return self._additive(torch.from_numpy(seen).to(self._device))

    def _additive(self, seen: torch.Tensor) -> torch.Tensor:
        """Turn a (R, w, S) visibility mask into (R, 1, w, S) zeros and lowest numbers to add to attention scores."""
        mask = torch.zeros(seen.shape, dtype=self._run.dtype, device=self._device)
        return mask.masked_fill_(~seen, torch.finfo(self._run.dtype).min)[:, None]

    def _forward(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        cache: SlotCache,
        mask: torch.Tensor | None,
        columns: list[int],
    ) -> torch.Tensor:
        """Call ``Runner.forward`` behind the stem, with an extra token at the anchor's position that no other sees."""
        if self._anchor is not None:
            ids = torch.nn.functional.pad(ids, (0, 1))
            positions = torch.nn.functional.pad(positions, (0, 1), value=self._anchor)
            if mask is not None:  # one more query and one more slot: the slot is seen by that query alone
                mask = torch.nn.functional.pad(mask, (0, 1, 0, 1), value=float(torch.finfo(mask.dtype).min))
                mask[:, :, -1, -1] = 0.0
        with attention.grown_from(self._stem):
            logits = self._run.forward(ids, positions, cache, mask, columns)
        if self._anchor is not None:
            cache.trim(1)
        return logits

    # --- decoding ----------------------------------------------------------------------------------------------

    def feed(self, feeds: Sequence[Feed], every: Sequence[bool]) -> torch.Tensor:
        """Append tokens to branches in as few forward passes as possible.

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
        positions, owner = np.zeros_like(ids), np.full_like(ids, -1)
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
        seen = torch.cat([past, new], dim=2)  # (R, w, S + w)
        one = width == 1 and self._anchor is None  # then a mask that hides nothing can be left out
        mask = None if one and bool(seen.all()) else self._additive(seen)
        self._cache.reserve(self._room(width))
        logits = self._forward(tokens, place, self._cache, mask, columns)  # writes the new slots
        branch = torch.arange(self._visible.shape[1], device=self._device)
        self._visible[:, :, slots : slots + width] = branch[None, :, None] == own[:, None, :]
        return logits

    def rewind(self, branch: int, tokens: int) -> None:
        """Take back the last tokens of the only branch that is live."""
        if tokens:
            self._cache.trim(tokens)  # what is visible of these slots is set when they are written again
            self._position[branch] -= tokens

    def fork(self, counts: Sequence[int], lanes: Sequence[int], steps: int) -> None:
        """Replace branch i by ``counts[i]`` branches, numbered consecutively; all branches must be live.

        Args:
            counts: for each branch, at least 1.
            lanes: for each row over how many rows its branches are spread from now on.
            steps: tokens that a branch may still get.
        """
        of_row: list[list[tuple[int, int]]] = [[] for _ in lanes]  # place in the old row, new branch
        position: dict[int, int] = {}
        for branch, count in enumerate(counts):
            r, q = self._at[branch]
            for _ in range(count):
                of_row[r].append((q, len(position)))
                position[len(position)] = self._position[branch]
        rows: list[int] = []
        members: list[list[int]] = []
        at: dict[int, tuple[int, int]] = {}
        for r, branches in enumerate(of_row):
            branches.sort()  # prompts stand in the order in which neighbours share most
            width = -(-len(branches) // lanes[r])
            for start in range(0, len(branches), width):
                lane = branches[start : start + width]
                at |= {branch: (len(rows), i) for i, (_, branch) in enumerate(lane)}
                rows.append(r)
                members.append([q for q, _ in lane])
        self._at, self._position = at, position
        self._most = self._cache.slots + steps * max(map(len, members))
        self._cache.reserve(self._room(0))
        self._select(rows, members)

    def _room(self, width: int) -> int:
        """Return how many slots to grow by: double (amortised copying), but no more than can still come."""
        slots = self._cache.slots
        return max(width, min(self._most - slots, max(64, slots)))

    def drop(self, branches: Sequence[int]) -> None:
        """Forget branches; free rows and slots that nothing needs once that pays."""
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

    def _select(self, rows: list[int], members: list[list[int]]) -> None:
        """Build new rows: the i-th has the branches ``members[i]`` of the old row ``rows[i]``."""
        before = self._visible.shape[0]
        index = np.zeros((len(rows), max(map(len, members))), dtype=np.int64)
        for r, row in enumerate(members):
            index[r, : len(row)] = row
        chosen = torch.tensor(rows, device=self._device)
        # (R', 1) and (R', B') index the old (R, B, S): visible becomes (R', B', S).
        self._visible = self._visible[chosen[:, None], torch.from_numpy(index).to(self._device)]
        if not self._compact(rows, members) and rows != list(range(before)):
            self._cache.select_rows(chosen)

    def _compact(self, rows: list[int], members: list[list[int]]) -> bool:
        """Keep only slots that a branch of a new row sees; return False, unchanged, where that does not pay."""
        slots = self._cache.slots
        counts = torch.tensor([len(m) for m in members], device=self._device)
        real = torch.arange(self._visible.shape[1], device=self._device)[None, :] < counts[:, None]
        used = (self._visible[:, :, :slots] & real[:, :, None]).any(1)  # (R', S)
        needed = int(used.sum(1).max())
        if slots < 256 or needed > _SPARSE * slots:
            return False
        order = (~used).int().argsort(dim=1, stable=True)[:, :needed]  # used slots first, in their old order
        self._cache.select_slots(rows, order)
        row = torch.arange(len(members), device=self._device)[:, None, None]
        branch = torch.arange(self._visible.shape[1], device=self._device)[None, :, None]
        kept = self._visible[row, branch, order[:, None, :]]
        self._visible = torch.cat([kept, kept.new_zeros((*kept.shape[:2], 256))], dim=2)
        return True

    # --- what stays --------------------------------------------------------------------------------------------

    def keep_root(self) -> None:
        """Keep the common prefix of the prompts for later calls."""
        if self._root_states:
            self._prefixes.put(self._root_ids, [self._root_segment()], self._side)

    def keep(self, branch: int, ids: Sequence[int]) -> None:
        """Keep a branch for later calls; ``ids`` are all the tokens it holds."""
        r, q = self._at[branch]
        slots = self._visible[r, q, : self._cache.slots].nonzero()[:, 0]
        if slot_count(self._stem) + len(slots) != len(ids):
            return
        root = slot_count(self._root_states)
        # Slots were written in the order of the tokens, so the first are the root's: every branch shares those.
        rest = self._cache.read(r, slots if self._stem else slots[root:])
        shared = [self._root_segment()] if root else []
        self._prefixes.put(ids, [*shared, Segment.of(rest)], self._side)

    def _root_segment(self) -> Segment:
        if self._root_kept is None:
            self._root_kept = Segment.of(self._root_states)
        return self._root_kept


def _chunk(rows: int, slots: int) -> int:
    """Return how many tokens of each row to feed at once so that the mask stays small."""
    return max(16, min(_CHUNK, _MASK // max(1, rows * slots)))


def _opened(bodies: Sequence[Ids], found: Sequence[int]) -> Opened:
    order = sorted(range(len(bodies)), key=lambda i: sort_key(bodies[i]))
    prompt, cached = [0] * len(bodies), [0] * len(bodies)
    before: Ids | None = None
    for i in order:
        shared = 0 if before is None else common_prefix(before, bodies[i])
        # The last token of a prompt is fed with its first step.
        prompt[i] = len(bodies[i]) + 1 - shared
        cached[i] = max(0, min(found[i], len(bodies[i])) - shared)
        before = bodies[i]
    return Opened(prompt, cached)
