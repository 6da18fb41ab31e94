"""Searches on Ray Data: batches of questions go to workers, in several processes or on several machines.

Each worker has an engine of its own, made of the one that is given (a model is loaded there anew, a server called from
there). What a batch of questions comes to does not depend on which worker searches it.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import warnings
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared_core.errors import BackendUnavailableError, InputError, MissingDependencyError
from shared_core.evaluation.dataset import Question
from shared_core.training.research.rows import Searched
from shared_core.training.research.searches import BatchResult, search_batch

if TYPE_CHECKING:
    from shared_core.facades.engine import SelfReflectEngine


_RESTARTS = 2
"""A worker that dies (for want of memory, with its machine) is started again so often, then the run ends."""


@dataclass(frozen=True, slots=True)
class OnRay:
    """A carrier of searches on Ray; call it with an engine and batches of questions.

    Attributes:
        workers: engines at work at the same time.
        gpus: that each worker takes of its machine.
        address: of a running cluster (``auto`` for the one this machine belongs to); ``None`` for that of
            ``RAY_ADDRESS``, or else for workers on this machine only, as long as the run lasts.
    """

    workers: int = 2
    gpus: float = 0.0
    address: str | None = None

    def __post_init__(self) -> None:
        """Refuse numbers of workers or GPUs that could never run."""
        if self.workers < 1 or self.gpus < 0:
            raise InputError(f"Ray needs a worker at least, and gpus of 0 or more, not {self}.")

    def __call__(
        self, engine: SelfReflectEngine, batches: Sequence[Sequence[Question]], abstention: str
    ) -> Generator[BatchResult, None, None]:
        """Yield the result of each batch as soon as it is done, in any order.

        Raises:
            MissingDependencyError: ray is not installed.
            InputError: the engine cannot go to other processes, or estimates from the questions asked so far.
            BackendUnavailableError: there is no cluster at the address, or a worker died of something that is no
                question's failure.
        """
        payload = _packed(engine)
        if not batches:
            return
        try:
            import ray
            import ray.data
        except ImportError as error:
            raise MissingDependencyError("ray", extra="ray", purpose="Searching in several processes") from error
        started = not ray.is_initialized()
        if started:
            self._start(ray)
        try:
            yield from self._results(ray, payload, batches, abstention)
        except ray.exceptions.RayError as error:
            raise BackendUnavailableError(
                f"Ray gave up: {str(error).strip().splitlines()[-1]}",
                hint="What was done is kept: mend the cause and run the same command again.",
            ) from error
        finally:
            if started:
                ray.shutdown()

    def _start(self, ray: Any) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to anybody
        quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
        address = self.address or os.environ.get("RAY_ADDRESS")
        try:
            if address:
                ray.init(address=address, **quiet)
            else:  # a core for each worker and one for what moves the data, however few there are
                cores = max(os.cpu_count() or 1, self.workers + 1)
                ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise BackendUnavailableError(
                f"Ray cannot be started: {error}", hint="Check --ray-address, or leave it out for this machine alone."
            ) from error

    def _results(
        self, ray: Any, payload: bytes, batches: Sequence[Sequence[Question]], abstention: str
    ) -> Iterator[BatchResult]:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        rows = [{"batch": json.dumps([(q.id, q.question) for q in batch])} for batch in batches]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # by default a worker is started again for ever; 2.63 has no other word
            done = ray.data.from_items(rows, override_num_blocks=len(rows)).map(  # a block each: none waits for another
                _Worker,
                fn_constructor_args=(payload, abstention),
                compute=ray.data.ActorPoolStrategy(size=min(self.workers, len(rows))),
                num_gpus=self.gpus or None,
                max_restarts=_RESTARTS,
                max_task_retries=_RESTARTS,
            )
        for row in done.iter_rows():
            found = json.loads(row["found"])
            yield [Searched.from_dict(one) for one in found["searches"]], found["errors"]


class _Worker:
    """Searches batches, in a process of its own."""

    def __init__(self, payload: bytes, abstention: str) -> None:
        self._engine: SelfReflectEngine = pickle.loads(payload)
        self._abstention = abstention

    def __call__(self, row: dict[str, str]) -> dict[str, str]:
        batch = [Question(name, text) for name, text in json.loads(row["batch"])]
        made, errors = search_batch(self._engine, batch, self._abstention)
        return {"found": json.dumps({"searches": [s.to_dict() for s in made], "errors": errors}, allow_nan=False)}


def _packed(engine: SelfReflectEngine) -> bytes:
    """Pickle the engine, by value where its parts are defined in the running program."""
    if engine.settings.expected_answerable == "auto":
        raise InputError(
            "expected_answerable='auto' depends on the questions asked before, which each worker sees others of.",
            hint="Give a share: --set expected_answerable=0.75",
        )
    try:
        from ray import cloudpickle
    except ImportError as error:
        raise MissingDependencyError("ray", extra="ray", purpose="Searching in several processes") from error
    try:
        packed: bytes = cloudpickle.dumps(engine)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise InputError(
            f"This engine cannot go to other processes: {error}",
            hint="Give models by name or path, and an index or a Chroma server rather than what lives in memory.",
        ) from error
    return packed
