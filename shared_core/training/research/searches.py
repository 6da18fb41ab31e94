"""Searches over many questions, logged as they are done: a killed run resumes where it stopped.

A folder holds ``searches.jsonl``, one search per line, and ``searches.json``, the configuration that they were made
with (``support.run_log``). A question that failed is searched again by the next run.

Batches of questions are searched in this process, or by ``OnRay`` in several or on several machines: each worker has an
engine of its own, made of the one that is given (a model is loaded there anew, a server called from there). What a
batch comes to does not depend on which worker searches it.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared_core.abstention import expected_utility
from shared_core.errors import BackendUnavailableError, InputError, MissingDependencyError, SelfReflectError
from shared_core.evaluation.dataset import Question
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.research.asking import write_prompt
from shared_core.pipelines.research.evaluate import SELF_EVALUATION
from shared_core.pipelines.research.loop import searched
from shared_core.pipelines.research.search import Search
from shared_core.runtime import flow as flows
from shared_core.runtime.budget import Meter
from shared_core.settings import SelfReflectSettings
from shared_core.support.run_log import RUN, Batches, Progress, RunLog, digest_of_values
from shared_core.training.labelling import check_questions, made_with, without_names
from shared_core.training.research.rows import Scored, Searched

if TYPE_CHECKING:
    from shared_core.facades.engine import SelfReflectEngine

SEARCHES, CARD = "searches.jsonl", "searches.json"
_FREE = {"calibration", "deadline", "max_calls", "max_tokens"}
"""Settings that a resumed run may change: budgets (what one ended is done again), and a file, which is hashed."""

BatchResult = tuple[list[Searched], dict[str, str]]
"""The searches of a batch of questions, and the errors of those that failed, by id."""
Carrier = Callable[["SelfReflectEngine", Sequence[Sequence[Question]], str], Generator[BatchResult, None, None]]
"""Searches batches of questions with an engine, and yields the result of each once it is done."""


def searches_log(folder: str | Path) -> RunLog:
    """Open the log of a folder's searches."""
    return RunLog(Path(folder) / SEARCHES, key="id", card=CARD)


def settings_of(folder: str | Path) -> tuple[SelfReflectSettings | None, bool]:
    """Read the settings that a folder's searches were made with, and whether claims were judged with a calibration.

    The settings are ``None`` where the folder has no card.

    Raises:
        InputError: the card is damaged, or holds settings that there are not.
        DocumentError: it cannot be read.
    """
    found = searches_log(folder).description()[0].get(RUN)
    if found is None:
        return None, False
    recorded = found.get("settings") or _settings_of_0_1_0(found)
    return SelfReflectSettings(**{**recorded, "pipeline": "research"}), found.get("calibration") is not None


def options_of(settings: SelfReflectSettings, abstention: str) -> dict[str, Any]:
    """Return the part of a configuration that is known before models and documents are loaded."""
    return {"settings": settings.model_dump(mode="json", exclude=_FREE), "abstention": abstention}


def configuration(engine: SelfReflectEngine, abstention: str) -> dict[str, Any]:
    """List everything that searches depend on: models, documents, settings, calibration, the abstention's text."""
    closed, parts = engine.settings.research.closed_book, engine.resources
    fitted = engine.context.calibrations.get(SELF_EVALUATION) if closed else engine.context.stack
    return {
        **options_of(engine.settings, abstention),
        **made_with(parts),
        **({"documents": None} if closed else {"judge": getattr(parts.judge, "name", None)}),
        "calibration": None if fitted is None else digest_of_values(fitted.to_dict())[:12],
    }


def _settings_of_0_1_0(old: Mapping[str, Any]) -> dict[str, Any]:
    names = ("target_accuracy", "seed", "top_k", "witnesses", "research")
    return SelfReflectSettings.upgrade({name: old[name] for name in names if name in old})


def _upgraded(old: Mapping[str, Any], engine: SelfReflectEngine) -> dict[str, Any]:
    """Convert a configuration of 0.1.0, which recorded five settings and the names of models."""
    recorded = _settings_of_0_1_0(old)
    settings = SelfReflectSettings(**{**recorded, "pipeline": "research"})  # which knows settings by former names, too
    now = engine.settings.model_dump(mode="json", exclude=_FREE)
    then = settings.model_dump(mode="json", include=settings.model_fields_set)
    rest = {name: value for name, value in old.items() if name not in {*recorded, "witnesses"}}
    return {"calibration": None, **without_names(rest, engine.resources), "settings": {**now, **then}}


def run_searches(
    engine: SelfReflectEngine,
    questions: Sequence[Question],
    folder: str | Path,
    *,
    abstention: str = "I do not know.",
    batch_size: int = 8,
    progress: Progress | None = None,
    carrier: Carrier | None = None,
) -> tuple[list[Searched], dict[str, str]]:
    """Search every question that was not searched yet; each batch is on the disk before the next begins.

    The searches of all the questions that did not fail come in their order; the errors of the others by id.

    Args:
        engine: of the pipeline ``research``.
        questions: of distinct ids.
        folder: of this run or of an earlier one of the same configuration.
        abstention: text of an answer that abstains.
        progress: called with (done, all) after every batch, those of earlier runs included.
        carrier: searches the batches; one after the other in this process, or ``OnRay``.

    Raises:
        InputError: another pipeline, a batch size below 1, ids that are not distinct or whose question has changed, a
            folder of another configuration.
        DocumentError: the folder cannot be used.
    """
    if engine.settings.pipeline != "research":
        raise InputError("Searches need an engine of the pipeline research.", hint="pipeline='research'")
    by_id = {q.id: q for q in questions}
    log = searches_log(folder)
    log.check({RUN: options_of(engine.settings, abstention)})
    with log.locked():
        log.bind({RUN: configuration(engine, abstention)}, upgrade=lambda old: _upgraded(old, engine))
        check_questions(log, questions)

        def work(batches: Batches) -> Generator[tuple[dict[str, Any], dict[str, str]], None, None]:
            asked = [[by_id[name] for name in batch] for batch in batches]
            here = (search_batch(engine, batch, abstention) for batch in asked)
            for found, errors in here if carrier is None else carrier(engine, asked, abstention):
                yield {s.id: s.to_dict() for s in found}, errors

        failed = log.fill(by_id, work, batch_size=batch_size, progress=progress)
        return [_read(log, name) for name in by_id if name in log.rows], failed


def _read(log: RunLog, name: str) -> Searched:
    try:
        return Searched.from_dict(log.rows[name])
    except (KeyError, TypeError, ValueError) as error:
        hint = "Give a folder of its own: --output DIR"
        raise InputError(f"{log.path}, id {name!r}: not a search ({error}).", hint=hint) from error


def search_batch(engine: SelfReflectEngine, batch: Sequence[Question], abstention: str) -> BatchResult:
    """Search a batch of questions at once; a search that a limit ended counts as failed."""
    runs = [QuestionRun(engine.settings, engine.context) for _ in batch]
    waiting = [Meter(engine.settings).watch(searched(q.question.strip(), run)) for q, run in zip(batch, runs)]
    made, errors = [], {}
    for question, run, result in zip(
        batch, runs, flows.run_many(waiting, engine.resources, deadline=engine.settings.deadline)
    ):
        if isinstance(result, Search) and run.trace.limit is None:
            made.append(_told(question.id, result, abstention))
        elif isinstance(result, Search):
            errors[question.id] = str(run.trace.limit)  # half a search would teach what it did not get to
        elif isinstance(result, SelfReflectError):
            errors[question.id] = str(result)
        else:
            raise result
    return made, errors


def _told(name: str, state: Search, abstention: str) -> Searched:
    candidates = []
    for candidate in state.candidates:
        p = state.probabilities(candidate)
        utility = expected_utility(p, state.target)  # of the whole, which is what is learned
        candidates.append(Scored(candidate.text, utility, tuple(candidate.claims), tuple(p), candidate.round))
    prompt = write_prompt(state.question, state.passages, (), state.options)
    made = Searched(
        name, state.question, prompt, tuple(candidates), abstention, state.tokens, passages=tuple(state.passages)
    )
    return Searched.from_dict(made.to_dict())  # as it will be read: adjoining parts of the prompt are one


# --- on Ray Data -----------------------------------------------------------------------------------------------------


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
        ray = _ray()
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


def _ray() -> Any:
    """Import ray with all that is used of it."""
    try:
        import ray
        import ray.cloudpickle
        import ray.data
    except ImportError as error:
        raise MissingDependencyError("ray", extra="ray", purpose="Searching in several processes") from error
    return ray


def _packed(engine: SelfReflectEngine) -> bytes:
    """Pickle the engine, by value where its parts are defined in the running program."""
    if engine.settings.expected_answerable == "auto":
        raise InputError(
            "expected_answerable='auto' depends on the questions asked before, which each worker sees others of.",
            hint="Give a share: --set expected_answerable=0.75",
        )
    ray = _ray()
    try:
        packed: bytes = ray.cloudpickle.dumps(engine)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise InputError(
            f"This engine cannot go to other processes: {error}",
            hint="Give models by name or path, and an index or a Chroma server rather than what lives in memory.",
        ) from error
    return packed
