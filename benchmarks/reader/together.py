"""Several processes that train one network: each computes a part of every step, and they share the gradient's mean.

``torchrun --nproc-per-node 2 -m benchmarks.reader …`` starts them. On a CPU a process for each core is about
twice as fast as a thread for each core: small matrices leave threads waiting for each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from shared_core.training.trainer import processes

if TYPE_CHECKING:
    from torch import Tensor


def join() -> tuple[int, int]:
    """(number of this process, how many there are); meets the others of a ``torchrun`` launch first, if there are."""
    from torch import distributed

    if processes() == 1:
        return 0, 1
    if not distributed.is_initialized():
        distributed.init_process_group("gloo")
    return distributed.get_rank(), distributed.get_world_size()


def share_gradients(parameters: Iterable[Tensor]) -> None:
    """Put the mean over all processes into the gradients, in one exchange; without other processes, nothing."""
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
