"""The key-value cache of tree decoding, and the cache of prompt prefixes kept between calls.

Imported by ``lm/transformers.py`` inside functions only (it needs torch).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers.cache_utils import Cache, CacheLayerMixin

KeyValues = list[tuple[torch.Tensor, torch.Tensor]]
"""Per layer keys and values, each (rows, heads, slots, width)."""


class SlotLayer(CacheLayerMixin):  # type: ignore[misc]
    """One layer's slots in a buffer that grows in steps: appending writes in place instead of copying everything.

    Unused slots are zero, never uninitialised memory: a masked NaN would still spoil a sum.
    """

    is_sliding = False
    is_croppable = False

    def __init__(self) -> None:
        super().__init__()
        self.length = 0
        self.reserve = 64

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.keys = _room(key_states, self.reserve)
        self.values = _room(value_states, self.reserve)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.length + key_states.shape[-2]
        if end > self.keys.shape[-2]:
            self.keys = _grown(self.keys, self.length, end + self.reserve)
            self.values = _grown(self.values, self.length, end + self.reserve)
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1


def _room(states: torch.Tensor, reserve: int) -> torch.Tensor:
    shape = list(states.shape)
    shape[-2] += reserve
    return states.new_zeros(shape)


def _grown(buffer: torch.Tensor, length: int, capacity: int) -> torch.Tensor:
    shape = list(buffer.shape)
    shape[-2] = capacity
    grown = buffer.new_zeros(shape)
    grown[:, :, :length] = buffer[:, :, :length]
    return grown


class SlotCache(Cache):  # type: ignore[misc]
    """A cache whose slots are placed by us: rows of trees, not rows of sequences."""

    def __init__(self, layers: int) -> None:
        super().__init__(layers=[SlotLayer() for _ in range(layers)])

    @property
    def slots(self) -> int:
        """Used slots per row, padding included."""
        return int(self.layers[0].length) if self.layers else 0

    def reserve(self, slots: int) -> None:
        """Grow by at least that many slots whenever it grows."""
        for layer in self.layers:
            layer.reserve = slots

    @property
    def used(self) -> list[SlotLayer]:
        """The layers that hold anything (models that share keys and values between layers leave some empty)."""
        return [layer for layer in self.layers if layer.is_initialized]

    def nbytes(self) -> int:
        """Bytes of the buffers."""
        return sum(t.numel() * t.element_size() for layer in self.used for t in (layer.keys, layer.values))

    def read(self, row: int, slots: slice | torch.Tensor) -> KeyValues | None:
        """Keys and values of some slots of a row, a copy if ``slots`` are indices; ``None`` if layers are empty."""
        if len(self.used) != len(self.layers):
            return None
        return [(x.keys[row : row + 1, :, slots], x.values[row : row + 1, :, slots]) for x in self.layers]

    def write(self, rows: Sequence[KeyValues | None]) -> None:
        """Fill an empty cache: each row's slots from the start, zeros behind; rows may be of different length."""
        longest = max((r[0][0].shape[-2] for r in rows if r), default=0)
        if not longest:
            return
        template = next(r for r in rows if r)
        for i, layer in enumerate(self.layers):
            for kind in (0, 1):
                like = template[i][kind]
                buffer = like.new_zeros((len(rows), like.shape[1], longest + layer.reserve, like.shape[3]))
                for j, row in enumerate(rows):
                    if row:
                        buffer[j : j + 1, :, : row[i][kind].shape[-2]] = row[i][kind]
                setattr(layer, "keys" if kind == 0 else "values", buffer)
            layer.length, layer.is_initialized = longest, True

    def select_rows(self, rows: torch.Tensor) -> None:
        """Keep some rows."""
        for layer in self.used:
            layer.keys, layer.values = layer.keys.index_select(0, rows), layer.values.index_select(0, rows)

    def select_slots(self, slots: torch.Tensor) -> None:
        """Keep some slots of each row: ``slots`` is (rows, number kept)."""
        for layer in self.used:
            layer.keys, layer.values = _gathered(layer.keys, slots), _gathered(layer.values, slots)
            layer.length = slots.shape[1]


def _gathered(buffer: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    rows, heads, _, width = buffer.shape
    index = slots[:, None, :, None].expand(rows, heads, slots.shape[1], width)
    return buffer.gather(2, index)


@dataclass(slots=True)
class _Entry:
    ids: NDArray[np.int64]
    states: KeyValues
    nbytes: int


class PrefixCache:
    """Keys and values of token sequences, least recently used first out, bounded in bytes.

    Any common beginning with a kept sequence is reused, not only whole ones.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._next = 0

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(e.nbytes for e in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

    def match(self, ids: NDArray[np.int64]) -> tuple[int, KeyValues | None]:
        """Length and states of the longest kept beginning of ``ids``; (0, None) if there is none."""
        best, length = None, 0
        for key, entry in self._entries.items():
            common = common_prefix(entry.ids, ids)
            if common > length:
                best, length = key, common
        if best is None:
            return 0, None
        self._entries.move_to_end(best)
        return length, [(k[:, :, :length], v[:, :, :length]) for k, v in self._entries[best].states]

    def put(self, ids: Sequence[int] | NDArray[np.int64], states: KeyValues | None) -> None:
        """Keep the states of a sequence; too large ones are not kept. Sequences that it continues are dropped."""
        if not len(ids) or states is None:
            return
        sequence = np.asarray(ids, dtype=np.int64)
        # What is stored may be a view into a larger buffer: its storage is what it costs.
        nbytes = sum(t.untyped_storage().nbytes() for pair in states for t in pair)
        exact = sum(t.numel() * t.element_size() for pair in states for t in pair)
        if exact > self.max_bytes:
            return
        for key, entry in list(self._entries.items()):
            common = common_prefix(entry.ids, sequence)
            if common == len(sequence):
                self._entries.move_to_end(key)
                return
            if common == len(entry.ids):
                del self._entries[key]
        if nbytes > 1.25 * exact:
            states, nbytes = [(k.clone(), v.clone()) for k, v in states], exact
        self._entries[self._next] = _Entry(sequence, states, nbytes)
        self._next += 1
        while self.nbytes > self.max_bytes:
            self._entries.popitem(last=False)


def common_prefix(a: NDArray[np.int64], b: NDArray[np.int64]) -> int:
    """How many ids the two begin with in common."""
    size = min(len(a), len(b))
    different = np.flatnonzero(a[:size] != b[:size])
    return int(different[0]) if len(different) else size
