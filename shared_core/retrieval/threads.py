"""One thread of torch's at a time, for work that comes in small pieces."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_state: list[int] = [0, 0]  # users at work, and torch's threads before the first of them began


@contextmanager
def one_thread() -> Iterator[int]:
    """Keep torch to one thread meanwhile, then put its number back; gives that number.

    Texts are read in pieces too small to share out: more threads within an operation gain next to nothing on an idle
    machine, and on a busy one they wait for each other many times as long as they work. Threads started meanwhile, each
    with a text of its own, do share the work out; they too stay at one.
    """
    import torch

    with _lock:
        if _state[0] == 0:
            _state[1] = torch.get_num_threads()
            torch.set_num_threads(1)
        _state[0] += 1
        usual = _state[1]
    try:
        yield usual
    finally:
        with _lock:
            _state[0] -= 1
            if _state[0] == 0:
                torch.set_num_threads(_state[1])
