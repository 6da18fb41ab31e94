"""Key-value cache of tree decoding, and a cache of prompt prefixes that lives between calls."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from shared_core.errors import DeadlineError
from shared_core.lm._hf.plan import Ids, common_prefix
from shared_core.support.threads import given_up

KeyValues = dict[int, tuple[torch.Tensor, torch.Tensor]]
"""For each layer that has a cache of its own keys and values, each (rows, heads, slots, width)."""


def stop_if_given_up() -> None:
    """Raise DeadlineError if nobody waits for this call any more: what answers in its stead needs the processor."""
    if given_up():
        raise DeadlineError("Nobody waits for this call any more.")


class SlotLayer(CacheLayerMixin):  # type: ignore[misc]  # transformers is not typed
    """One layer's slots in a buffer that grows in steps, so that appending writes in place instead of copying all.

    Buffers are (rows, heads, slots, width). Slots behind ``length`` are uninitialised and never looked at; those of
    shorter rows before it are zero, because a masked NaN would still spoil a sum.
    """

    is_sliding = False
    is_croppable = False

    def __init__(self) -> None:
        super().__init__()
        self.length = 0
        self.reserve = 64  # slots beyond those needed, at each growth

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        width = key_states.shape[-2]
        self.keys, self.values = (_grown(x, 0, width + self.reserve) for x in (key_states, value_states))
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        stop_if_given_up()  # in each layer: one pass over many long prompts takes seconds
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.length + key_states.shape[-2]
        if end > self.keys.shape[-2]:  # amortised: most steps find room and copy nothing
            self.keys = _grown(self.keys, self.length, end + self.reserve)
            self.values = _grown(self.values, self.length, end + self.reserve)
        # (rows, heads, slots, width): new slots are a contiguous stretch of each head, written in place.
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def trim(self, count: int) -> None:
        """Drop the last slots."""
        self.length -= count  # the buffer stays: the next update overwrites what lies behind

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0  # all slots from the first on: masks span the whole row

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1  # no limit


def _grown(buffer: torch.Tensor, length: int, capacity: int) -> torch.Tensor:
    """Return a buffer (rows, heads, capacity, width) with a copy of the first slots of another one."""
    grown = buffer.new_empty((*buffer.shape[:2], capacity, buffer.shape[3]))
    grown[:, :, :length] = buffer[:, :, :length]
    return grown


class SlotCache(Cache):  # type: ignore[misc]  # transformers is not typed
    """A cache whose rows are trees rather than sequences: the caller decides which token sits in which slot."""

    def __init__(self, layers: int) -> None:
        super().__init__(layers=[SlotLayer() for _ in range(layers)])

    @property
    def slots(self) -> int:
        """Used slots per row, padding included."""
        return max((int(x.length) for x in self.used), default=0)

    def reserve(self, slots: int) -> None:
        """Grow by at least that many slots at each growth."""
        for layer in self.layers:
            layer.reserve = slots

    @property
    def used(self) -> list[SlotLayer]:
        """The layers that hold anything; some stay empty in models that share keys and values between layers."""
        return [layer for layer in self.layers if layer.is_initialized]

    def nbytes(self) -> int:
        """Bytes of the buffers."""
        return sum(t.numel() * t.element_size() for layer in self.used for t in (layer.keys, layer.values))

    def trim(self, count: int) -> None:
        """Drop the last slots of every row."""
        for layer in self.used:
            layer.trim(count)

    def read(self, row: int, slots: slice | torch.Tensor) -> KeyValues:
        """Return keys and values of some slots of a row, copied if ``slots`` are indices; empty if none are cached."""
        return {
            i: (_picked(x.keys, row, slots), _picked(x.values, row, slots))
            for i, x in enumerate(self.layers)
            if x.is_initialized
        }

    def write(self, rows: Sequence[KeyValues]) -> None:
        """Fill an empty cache: each row's slots from the start, zeros after them; rows may differ in length."""
        template = next((r for r in rows if r), None)
        if template is None:
            return
        longest = max(slot_count(r) for r in rows)  # shorter rows are padded with zeros up to it
        for i, pair in template.items():
            layer = self.layers[i]
            layer.keys, layer.values = (_beside(rows, i, kind, pair[kind], longest + layer.reserve) for kind in (0, 1))
            layer.length, layer.is_initialized = longest, True

    def select_rows(self, rows: torch.Tensor) -> None:
        """Keep these rows in this order; a row may appear several times."""
        for layer in self.used:
            index = rows.to(layer.keys.device)  # a model may be spread over devices
            layer.keys, layer.values = _taken(layer.keys, index, layer), _taken(layer.values, index, layer)

    def select_slots(self, rows: Sequence[int], slots: torch.Tensor) -> None:
        """Build new rows from slots of the old ones: row i gets the slots ``slots[i]`` of the old row ``rows[i]``.

        Args:
            rows: old rows, as often as they are wanted.
            slots: (len(rows), number kept).
        """
        of: dict[int, list[int]] = {}  # old row -> the new rows taken from it
        for new, old in enumerate(rows):
            of.setdefault(old, []).append(new)
        for layer in self.used:
            index = slots.to(layer.keys.device)
            layer.keys = _regrouped(layer.keys, of, index, layer.reserve)
            layer.values = _regrouped(layer.values, of, index, layer.reserve)
            layer.length = slots.shape[1]


def slot_count(states: KeyValues) -> int:
    """Return the number of slots of a row's states."""
    return next((int(k.shape[-2]) for k, _ in states.values()), 0)


def behind(states: KeyValues, start: int) -> KeyValues:
    """Return a view of a row's states without its first slots."""
    return {i: (k[:, :, start:], v[:, :, start:]) for i, (k, v) in states.items()}


def _beside(rows: Sequence[KeyValues], layer: int, kind: int, like: torch.Tensor, room: int) -> torch.Tensor:
    # (rows, heads, room, width); zeros behind shorter rows, since 0 · NaN in a masked slot would be NaN.
    buffer = like.new_zeros((len(rows), like.shape[1], room, like.shape[3]))
    for r, row in enumerate(rows):
        if row:
            states = row[layer][kind]
            buffer[r : r + 1, :, : states.shape[-2]] = states
    return buffer


def _picked(buffer: torch.Tensor, row: int, slots: slice | torch.Tensor) -> torch.Tensor:
    if isinstance(slots, slice):
        return buffer[row : row + 1, :, slots]
    return buffer[row : row + 1].index_select(2, slots.to(buffer.device))


def _taken(buffer: torch.Tensor, rows: torch.Tensor, layer: SlotLayer) -> torch.Tensor:
    """Copy rows of a buffer (rows, heads, slots, width), with room for more slots."""
    if len(rows) <= buffer.shape[0]:  # rows were dropped: the old capacity is room enough
        return buffer.index_select(0, rows)
    _, heads, _, width = buffer.shape
    taken = buffer.new_empty((len(rows), heads, layer.length + layer.reserve, width))
    # Only the used slots are copied; `out=` writes them without an intermediate of the full size.
    torch.index_select(buffer[:, :, : layer.length], 0, rows, out=taken[:, :, : layer.length])
    return taken


def _regrouped(buffer: torch.Tensor, of: dict[int, list[int]], slots: torch.Tensor, reserve: int) -> torch.Tensor:
    """Copy slots of a buffer (rows, heads, slots, width) as ``select_slots`` says, with room for more.

    One ``index_select`` for each old row copies whole vectors at a time; one ``gather`` over all rows would need an
    index as large as the buffer.
    """
    _, heads, _, width = buffer.shape
    count, kept = slots.shape
    grown = buffer.new_empty((count, heads, kept + reserve, width))
    for old, new in of.items():
        chosen = buffer[old].index_select(1, slots[new].flatten())  # (heads, len(new) * kept, width)
        grown[new, :, :kept] = chosen.view(heads, len(new), kept, width).transpose(0, 1)
    return grown


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Keys and values of a stretch of tokens, possibly shared by several kept sequences."""

    states: KeyValues
    nbytes: int

    @classmethod
    def of(cls, states: KeyValues) -> Segment:
        """Copy the states into a segment: a view into a much larger buffer would keep all of it alive."""
        exact = sum(t.numel() * t.element_size() for pair in states.values() for t in pair)
        held = sum(t.untyped_storage().nbytes() for pair in states.values() for t in pair)
        if held > 1.25 * exact:  # a copy costs time, a view memory: a quarter of slack is worth no copy
            states, held = {i: (k.clone(), v.clone()) for i, (k, v) in states.items()}, exact
        return cls(states, held)


@dataclass(frozen=True, slots=True)
class _Entry:
    ids: Ids
    segments: tuple[Segment, ...]
    side: int

    def states(self, length: int) -> KeyValues:
        """Return the states of the first tokens; a view where they lie in the first segment."""
        pieces: list[KeyValues] = []
        for segment in self.segments:
            if length > 0:
                pieces.append({i: (k[:, :, :length], v[:, :, :length]) for i, (k, v) in segment.states.items()})
            length -= slot_count(segment.states)
        if len(pieces) == 1:
            return pieces[0]
        return {
            i: (torch.cat([p[i][0] for p in pieces], 2), torch.cat([p[i][1] for p in pieces], 2)) for i in pieces[0]
        }


class PrefixCache:
    """Keys and values of token sequences, bounded in bytes; the least recently used are dropped first.

    Any common beginning with a kept sequence is reused, not only whole ones. States of different *sides* (of a switch
    of the rotary frequencies) are never mixed.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._next = 0
        self._stamp: object = None

    @property
    def nbytes(self) -> int:
        """Bytes held; shared segments count once."""
        return sum({id(s): s.nbytes for e in self._entries.values() for s in e.segments}.values())

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

    def belong_to(self, stamp: object) -> None:
        """Forget everything if the stamp of the weights differs from the last call's."""
        if stamp != self._stamp:
            self.clear()
        self._stamp = stamp

    def match(self, ids: Ids, side: int = 0) -> tuple[int, KeyValues]:
        """Find the longest kept prefix of ``ids``: its length and states; (0, {}) if there is none."""
        best, length = None, 0
        for key, entry in self._entries.items():  # linear: a few hundred prompts at most fit into the bytes
            common = common_prefix(entry.ids, ids) if entry.side == side else 0
            if common > length:
                best, length = key, common
        if best is None:
            return 0, {}
        self._entries.move_to_end(best)
        return length, self._entries[best].states(length)

    def put(self, ids: Sequence[int] | Ids, segments: Sequence[Segment], side: int = 0) -> None:
        """Keep the states of a sequence unless they are too large; drop kept sequences that it continues."""
        if not len(ids) or not segments or sum(s.nbytes for s in segments) > self.max_bytes:
            return
        sequence = np.asarray(ids, dtype=np.int64)
        # Of two sequences of which one continues the other, only the longer one is kept: `match` reuses any prefix.
        for key, entry in list(self._entries.items()):
            common = common_prefix(entry.ids, sequence) if entry.side == side else -1
            if common == len(sequence):
                self._entries.move_to_end(key)
                return
            if common == len(entry.ids):
                del self._entries[key]
        self._entries[self._next] = _Entry(sequence, tuple(segments), side)
        self._next += 1
        while self.nbytes > self.max_bytes:
            self._entries.popitem(last=False)
