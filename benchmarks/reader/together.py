"""Data-parallel training: each process computes a part of every step, and all share the mean gradient.

``torchrun --nproc-per-node 2 -m benchmarks.reader …`` starts them. On a CPU, one process per core is about twice as
fast as one thread per core: with small matrices threads wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from shared_core.training.trainer import processes

if TYPE_CHECKING:
    from torch import Tensor


def join() -> tuple[int, int]:
    """Return (rank, number of processes), after joining the others of a ``torchrun`` launch if there are any."""
    from torch import distributed

    if processes() == 1:
        return 0, 1
    if not distributed.is_initialized():
        distributed.init_process_group("gloo")
    return distributed.get_rank(), distributed.get_world_size()


def share_gradients(parameters: Iterable[Tensor]) -> None:
    """Replace gradients by their mean over all processes, in one exchange; do nothing in a single process."""
    import torch
    from torch import distributed

    if processes() == 1:
        return
    every = [p for p in parameters if p.requires_grad]
    for p in every:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    flat = torch.cat([p.grad.flatten() for p in every if p.grad is not None])
    distributed.all_reduce(flat)
    flat /= distributed.get_world_size()
    for p, mean in zip(every, torch.split(flat, [p.numel() for p in every])):
        p.grad = mean.view_as(p)
