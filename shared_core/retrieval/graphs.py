"""Files of weights that ship, and how their graphs run: one text at a time, several texts on several cores.

A file is a numpy archive (.npz). Its graphs are in ONNX, with weights in 8 bits; activations are quantised anew at each
matrix product, by the range of the whole text. So texts are never batched or padded: the result for one would depend on
the others. Every graph runs in one thread, so results do not depend on the number of cores either.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from shared_core.errors import MissingDependencyError, ModelLoadError

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")
R = TypeVar("R")

_WAIT = 30.0  # seconds
_HINT = "Reinstall the package, or restore the file in a checkout of the project."


def read_archive(path: Path) -> dict[str, NDArray[Any]]:
    """Read all arrays of a file of weights, verifying its checksums; ModelLoadError if it is missing or damaged."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:  # OSError, ValueError, BadZipFile, zlib.error, …
        raise ModelLoadError(f"The weights in {path} cannot be read: {error}", hint=_HINT) from error


class _Running:
    """Wait for the graphs in progress when the process ends.

    A thread that was given up at a deadline may be inside onnxruntime, and the interpreter ends such a thread in a way
    that aborts the process. One graph takes milliseconds; a thread that would compute another one is ended.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._number = 0
        self._ended = False
        atexit.register(self._end)

    def __enter__(self) -> None:
        with self._changed:
            if self._ended:
                raise SystemExit  # ends a thread without a word
            self._number += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._number -= 1
            self._changed.notify_all()

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.wait_for(lambda: not self._number, _WAIT)


_RUNNING = _Running()


class Graph:
    """One graph of a file of weights. Safe to run from several threads at once.

    Args:
        archive: arrays of the file; the graph is the bytes of one of them.

    Raises:
        MissingDependencyError: onnxruntime is not installed.
        ModelLoadError: the archive has no such graph, or the graph cannot be loaded.
    """

    def __init__(self, archive: Mapping[str, NDArray[Any]], name: str) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingDependencyError("onnxruntime", extra="offline", purpose="The embedded network") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_mem_pattern = False  # it keeps a plan for each length that a text may have
        # CPUs with AVX2 but without VNNI sum products of 8-bit numbers in 16 bits, and clip large sums, which changes
        # vectors and probabilities; with this they compute as all others do, a quarter slower.
        options.add_session_config_entry("session.x64quantprecision", "1")
        options.log_severity_level = 3
        try:
            model = archive[name].tobytes()
            self._session: Any = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # KeyError, or one of onnxruntime's own, which share no class
            raise ModelLoadError(f"The graph {name!r} cannot be loaded: {error}", hint=_HINT) from error

    def __call__(self, **inputs: NDArray[Any]) -> list[NDArray[Any]]:
        """Compute the graph's outputs, in its order."""
        with _RUNNING:
            outputs: list[NDArray[Any]] = self._session.run(None, inputs)
        return outputs


def each(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Apply ``function`` to each item, in order, on the cores that this process may use.

    ``OMP_NUM_THREADS`` lowers their number, as in other numerical libraries.
    """
    workers = min(len(items), _cores())
    if workers < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(workers, "network") as pool:
        return list(pool.map(function, items))


def _cores() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(wanted)) if wanted.isdecimal() and int(wanted) > 0 else cores
