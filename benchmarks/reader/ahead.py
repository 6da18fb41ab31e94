"""Make batches in other processes, ahead of the step that needs them: one process is too slow for a GPU."""

from __future__ import annotations

import multiprocessing
import pickle
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from benchmarks.reader.batches import Batch, WindowBatch
from benchmarks.reader.network import Inputs

_AHEAD = 3  # batches of each process that wait


def ahead(make: Callable[[int], Iterator[Batch]], start: int, workers: int) -> Iterator[Batch]:
    """Yield the batches of ``make(start)`` from step ``start`` on, made by ``workers`` processes.

    Args:
        make: returns the batches of every ``workers``-th step, from the step given on.
        start: first step.
        workers: number of processes; they are forked, so that what is read already is shared.

    Raises:
        RuntimeError: a process ended.
    """
    context = multiprocessing.get_context("fork")
    with ExitStack() as stack:
        queues = [context.Queue(_AHEAD) for _ in range(workers)]
        processes = [
            context.Process(target=_work, args=(make, start + i, queues[i]), daemon=True) for i in range(workers)
        ]
        for process in processes:
            process.start()
            stack.callback(process.terminate)
        ready: queue.Queue[Batch] = queue.Queue(_AHEAD)
        threading.Thread(target=_collect, args=(queues, ready), daemon=True).start()
        while True:
            try:
                yield ready.get(timeout=5)
            except queue.Empty:
                if not all(p.is_alive() for p in processes):
                    raise RuntimeError("A process that makes batches has ended; see its error above.") from None


def _work(make: Callable[[int], Iterator[Batch]], first: int, out: Any) -> None:
    import torch

    torch.set_num_threads(1)
    for batch in make(first):
        # Plain arrays: tensors would go through shared memory, of which a container may have little.
        out.put(pickle.dumps(_plain(batch), protocol=5))


def _collect(queues: list[Any], ready: queue.Queue[Batch]) -> None:
    while True:
        for one in queues:
            ready.put(_tensors(pickle.loads(one.get())))


def _plain(value: Any) -> Any:
    """Turn a batch into tuples of arrays; bfloat16, which numpy lacks, as float16: features are small."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.half().numpy() if value.dtype == torch.bfloat16 else value.numpy()
    return tuple(map(_plain, value))


def _tensors(plain: Any) -> Batch:
    import torch

    def one(array: Any) -> Any:
        found = torch.from_numpy(array)
        return found.bfloat16() if found.dtype == torch.float16 else found

    parts, *rest = plain
    made = [WindowBatch(one(w), one(q), Inputs(*map(one, inputs)), one(wanted)) for w, q, inputs, wanted in parts]
    return Batch(made, *map(one, rest))


def on_device(batch: Batch, device: Any) -> Batch:
    """Move a batch to a device, without waiting for it."""

    def one(tensor: Any) -> Any:
        return (tensor.pin_memory() if str(device) != "cpu" else tensor).to(device, non_blocking=True)

    parts = [
        WindowBatch(one(p.window_ids), one(p.question_ids), Inputs(*map(one, p.inputs)), one(p.wanted))
        for p in batch.parts
    ]
    return Batch(parts, one(batch.groups), one(batch.claims), one(batch.labels))
