"""Searches over many questions, kept on disk as they are done: killed at any moment, it goes on where it was.

The folder holds ``searches.jsonl``, one search a line, appended and flushed to the disk batch by batch, and
``searches.json``, which says what it was made with. A line that was torn by a crash is cut off, and its question asked
again; a question that failed is asked again, too. Another configuration is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared_core.abstention import expected_utility
from shared_core.errors import DocumentError, InputError, SelfReflectError
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.research.asking import write_prompt
from shared_core.pipelines.research.evaluate import SELF_EVALUATION
from shared_core.pipelines.research.loop import searched
from shared_core.pipelines.research.search import Search
from shared_core.runtime import flow as flows
from shared_core.runtime.budget import Meter
from shared_core.support.files import replace_file
from shared_core.support.run_log import Journal
from shared_core.training.research.rows import Scored, Searched

if TYPE_CHECKING:
    from shared_core.evaluation.dataset import Question
    from shared_core.facades.engine import SelfReflectEngine

SEARCHES, CARD = "searches.jsonl", "searches.json"

BatchResult = tuple[list[Searched], dict[str, str]]
"""The searches of a batch of questions, and the errors of those that failed, by id."""
Carrier = Callable[["SelfReflectEngine", Sequence[Sequence["Question"]], str], Generator[BatchResult, None, None]]
"""Searches batches of questions with an engine, and gives each one's result once it is done."""


class SearchStore:
    """The folder of a run.

    Args:
        folder: made if it is not there.
        configuration: what the searches are made with; compared with what the folder's were.

    Raises:
        InputError: the folder's searches were made with something else, or hold a line that is no search.
        DocumentError: it cannot be read or written.
    """

    def __init__(self, folder: str | Path, configuration: dict[str, Any]) -> None:
        self.folder = Path(folder)
        self._journal = Journal(self.folder / SEARCHES)
        plain = json.loads(json.dumps(configuration, default=str))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._check(plain)
        except OSError as error:
            raise DocumentError(f"{self.folder} cannot be used: {error.strerror or error}.") from error

    def _check(self, configuration: dict[str, Any]) -> None:
        card = self.folder / CARD
        if not card.exists():
            if self._journal.path.exists():
                raise InputError(f"{self._journal.path} has no {CARD} beside it.", hint="Give a folder of its own.")
            with replace_file(card) as file:
                file.write(json.dumps(configuration, indent=2, ensure_ascii=False) + "\n")
            return
        try:
            before = json.loads(card.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{card} is no JSON: {error}.", hint="Give a folder of its own.") from error
        names = sorted({*before, *configuration})
        different = [n for n in names if before.get(n) != configuration.get(n)]
        if different:
            told = "; ".join(f"{n} {before.get(n)!r}, not {configuration.get(n)!r}" for n in different)
            raise InputError(f"The searches in {self.folder} were made with {told}.", hint="Give a folder of its own.")

    def read(self) -> list[Searched]:
        """The searches that were done, in the order in which they were; InputError if a line is none."""
        found: list[Searched] = []
        for number, entry in enumerate(self._journal.read(), 1):
            try:
                found.append(Searched.from_dict(entry))
            except (KeyError, TypeError, ValueError) as error:
                raise InputError(f"{self._journal.path}, line {number}: no search ({error}).") from error
        return found

    @contextmanager
    def writing(self) -> Generator[Callable[[Sequence[Searched]], None], None, None]:
        """A function that appends searches and returns once they are on the disk; one process at a time.

        Raises:
            InputError: another process is at it.
        """
        with self._journal.writing() as write:
            yield lambda searches: write([s.to_dict() for s in searches])


def configuration(engine: SelfReflectEngine, abstention: str) -> dict[str, Any]:
    """What searches depend on: models, what is retrieved and how, the settings, what abstaining says."""
    settings = engine.settings
    closed = settings.research.closed_book
    passages = {} if closed else {"top_k": settings.top_k, "witnesses": settings.witnesses}
    fitted = engine.context.calibrations.get(SELF_EVALUATION) if closed else engine.context.stack
    calibrated = {} if fitted is None else {"calibration": _digest(fitted.to_dict())}
    return {
        "models": {role: model.name for role, model in engine.resources.models.items()},
        "target_accuracy": settings.target_accuracy,
        "seed": settings.seed,
        "research": settings.research.model_dump(mode="json"),
        "abstention": abstention,
        **passages,
        **calibrated,
    }


def _digest(fitted: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fitted, sort_keys=True).encode()).hexdigest()[:12]


def run_searches(
    engine: SelfReflectEngine,
    questions: Sequence[Question],
    folder: str | Path,
    *,
    abstention: str = "I do not know.",
    batch_size: int = 8,
    progress: Callable[[int, int], None] | None = None,
    carrier: Carrier | None = None,
) -> tuple[list[Searched], dict[str, str]]:
    """Search every question that was not searched yet; each batch is put on the disk once it is done.

    Args:
        engine: of the pipeline ``research``.
        questions: of distinct ids.
        folder: of this run or of an earlier one of the same configuration.
        abstention: what abstaining is to say.
        batch_size: questions searched at once.
        progress: told (done, all) after every batch, those of earlier runs included.
        carrier: who searches the batches; one after the other in this process, or ``on_ray.OnRay``.

    Returns:
        The searches of all the questions that did not fail, in their order, and the errors of the others by id.

    Raises:
        InputError: another pipeline, a batch size below 1, ids that are not distinct or whose question has changed, a
            folder of another configuration.
        DocumentError: the folder cannot be used.
    """
    if engine.settings.pipeline != "research" or batch_size < 1:
        raise InputError("Searches need pipeline='research' and a batch size of at least 1.")
    ids = [q.id for q in questions]
    if len(set(ids)) < len(ids):
        raise InputError("Two questions have the same id.", hint="Ids tell which questions are done.")
    store = SearchStore(folder, configuration(engine, abstention))
    failed: dict[str, str] = {}
    with store.writing() as write:
        done = {s.id: s for s in store.read()}
        changed = [q.id for q in questions if q.id in done and done[q.id].question != q.question.strip()]
        if changed:
            raise InputError(f"The question {changed[0]!r} is another than the one searched.", hint="Another folder.")
        todo = [q for q in questions if q.id not in done]
        batches = [todo[i : i + batch_size] for i in range(0, len(todo), batch_size)]
        told = len(questions) - len(todo)
        with closing((carrier or _here)(engine, batches, abstention)) as results:
            for made, errors in results:
                write(made)
                done.update((s.id, s) for s in made)
                failed.update(errors)
                told += len(made) + len(errors)
                if progress is not None:
                    progress(told, len(questions))
    return [done[i] for i in ids if i in done], failed


def _here(
    engine: SelfReflectEngine, batches: Sequence[Sequence[Question]], abstention: str
) -> Generator[BatchResult, None, None]:
    for batch in batches:
        yield search_batch(engine, batch, abstention)


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
