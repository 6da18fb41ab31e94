"""Read trees of rows that share their beginnings, and put them side by side in batches."""

from __future__ import annotations

import io
import multiprocessing
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

STEP = 64  # lengths of batches are multiples of it


class Trees:
    """Trees of rows that share their beginnings, depth first: a token sees i where i <= it < end[i]."""

    def __init__(self, file: Path) -> None:
        with np.load(io.BytesIO(unpacked(file))) as found:
            for name in found.files:
                setattr(self, name, found[name])
        new = self.new.astype(np.int64)
        self.first_row = np.concatenate([[0], np.cumsum(self.rows, dtype=np.int64)])
        self.first_id = np.concatenate([[0], np.cumsum(new)])
        self.first_range = np.concatenate([[0], np.cumsum(self.ranges, dtype=np.int64)])
        self.sizes = self.first_id[self.first_row[1:]] - self.first_id[self.first_row[:-1]]

    def __len__(self) -> int:
        return len(self.skills)

    def tree(self, n: int) -> dict:
        """ids, depth, end of each token; nodes, labels, weights of what is learnt."""
        r0, r1 = int(self.first_row[n]), int(self.first_row[n + 1])
        ids = self.ids[self.first_id[r0] : self.first_id[r1]].astype(np.int64)
        size = len(ids)
        end, depth = np.full(size, size, dtype=np.int64), np.empty(size, dtype=np.int64)
        path, at = np.empty(0, dtype=np.int64), 0
        nodes, labels, weights = [], [], []
        for r in range(r0, r1):
            shared, new = int(self.shared[r]), int(self.new[r])
            end[path[shared:]] = at
            path = np.concatenate([path[:shared], np.arange(at, at + new)])
            depth[at : at + new] = np.arange(shared, shared + new)
            at += new
            row = np.append(ids[path], self.last[r])
            ranges = range(int(self.first_range[r]), int(self.first_range[r + 1]))
            places = np.concatenate([self.starts[k] + np.arange(self.lengths[k], dtype=np.int64) for k in ranges])
            weight = np.full(len(places), len(places) ** (-1 / 3), dtype=np.float32)
            weight[0] = 1.0
            nodes.append(path[places - 1])
            labels.append(row[places])
            weights.append(weight)
        return {
            "ids": ids, "depth": depth, "end": end, "nodes": np.concatenate(nodes),
            "labels": np.concatenate(labels), "weights": np.concatenate(weights),
        }  # fmt: skip

    def batches(self, tokens: int, seed: int, some: np.ndarray | None = None) -> list[list[int]]:
        """Divide trees, shuffled, into batches of equal lengths of at most so many tokens with what pads them."""
        rng = random.Random(seed)
        order = list(range(len(self))) if some is None else [int(i) for i in some]
        rng.shuffle(order)
        batches = []
        for start in range(0, len(order), 2048):
            part = sorted(order[start : start + 2048], key=lambda n: self.sizes[n])
            found, batch = [], []
            for n in part:  # ascending: the last is the longest
                if batch and (len(batch) + 1) * padded(int(self.sizes[n])) > tokens:
                    found.append(batch)
                    batch = []
                batch.append(n)
            found.append(batch)
            rng.shuffle(found)
            batches += found
        return batches

    def collate(self, batch: list[int]) -> dict:
        """Put trees side by side; a padding token sees itself."""
        trees = [self.tree(n) for n in batch]
        length = padded(max(len(t["ids"]) for t in trees))
        shape = (len(trees), length)
        ids, depth = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
        end = np.broadcast_to(np.arange(1, length + 1, dtype=np.int32), shape).copy()
        for b, t in enumerate(trees):
            size = len(t["ids"])
            ids[b, :size], depth[b, :size], end[b, :size] = t["ids"], t["depth"], t["end"]
        counts = [len(t["nodes"]) for t in trees]
        return {
            "ids": ids, "depth": depth, "end": end, "tokens": sum(len(t["ids"]) for t in trees),
            "nodes": np.concatenate([t["nodes"] for t in trees]).astype(np.int32),
            "labels": np.concatenate([t["labels"] for t in trees]).astype(np.int32),
            "weights": np.concatenate([t["weights"] for t in trees]),
            "tree": np.repeat(np.arange(len(trees), dtype=np.int32), counts),
            "skill": np.repeat(self.skills[batch].astype(np.int32), counts),
        }  # fmt: skip


def unpacked(file: Path) -> bytes:
    try:
        import lzma
    except ImportError:  # a Python that was built without it
        return subprocess.run(["xz", "-dc", str(file)], check=True, stdout=subprocess.PIPE).stdout
    return lzma.decompress(file.read_bytes())


def padded(size: int) -> int:
    return -(-size // STEP) * STEP


_SHARED: list[Trees] = []


def _collate(batch: list[int]) -> dict:
    return _SHARED[0].collate(batch)


def _settle() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def make_pool(trees: Trees, workers: int):
    """Start processes that put trees side by side; before CUDA begins, since they are forks of this one."""
    _SHARED[:] = [trees]
    return multiprocessing.get_context("fork").Pool(workers, initializer=_settle) if workers else None


def stream(trees: Trees, tokens: int, seed: int, pool, say: Callable[[str], None]) -> Iterator[dict]:
    """Yield batches without end, made by other processes; by this one where they fail."""
    while True:
        batches = trees.batches(tokens, seed)
        for start in range(0, len(batches), 512):  # so that what waits stays small
            part = batches[start : start + 512]
            made = pool.imap(_collate, part) if pool is not None else None
            for batch in part:
                if made is not None:
                    try:
                        yield made.next(timeout=30)
                        continue
                    except Exception as error:
                        say(f"workers failed, going on without: {error!r}")
                        made = pool = None
                yield trees.collate(batch)
        seed += 1
