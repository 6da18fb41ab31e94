"""Work of a model over many questions, logged as it is done, within one budget for all runs of a folder.

A folder holds ``NAME.jsonl``, one record per question, and ``NAME.json``, the configuration that they were made with
(``support.run_log``). Killed at any moment, the same call goes on from there; questions that failed are asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from shared_core.errors import BudgetError, InputError, LimitError, SelfReflectError
from shared_core.evaluation.compare.run_folder import describe_retriever
from shared_core.lm.identity import identity_of
from shared_core.runtime import flow as flows
from shared_core.runtime.flow import Flow, Request, Resources, Together, intercept, leaves_of
from shared_core.runtime.requests import ASKS_MODEL
from shared_core.support.run_log import RUN, Batches, Progress, RunLog
from shared_core.types import Usage

if TYPE_CHECKING:
    from shared_core.evaluation.dataset import Question
    from shared_core.retrieval.base import Retriever

T = TypeVar("T")
Record = dict[str, Any]
_STOPPED = "the budget is spent"


@dataclass
class Cost:
    """Requests to models, and tokens read and written."""

    calls: int = 0
    tokens: int = 0


class Budget:
    """A budget that many flows share.

    Calls are reserved before they go out, so their number is never exceeded, however many questions run at once. The
    tokens of a request are known afterwards, so those under way when the last token is spent still count.

    Args:
        max_calls, max_tokens: of everything, earlier runs included; ``None`` for no limit.
        spent: by earlier runs.

    >>> Budget(max_calls=10, spent=Cost(calls=10)).over
    True
    """

    def __init__(self, max_calls: int | None = None, max_tokens: int | None = None, spent: Cost | None = None) -> None:
        for name, value in (("max_calls", max_calls), ("max_tokens", max_tokens)):
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, not {value}.")
        self.max_calls, self.max_tokens = max_calls, max_tokens
        self.spent = spent or Cost()

    @property
    def over(self) -> bool:
        """Whether nothing more can be asked."""
        calls = self.max_calls is not None and self.spent.calls >= self.max_calls
        return calls or (self.max_tokens is not None and self.spent.tokens >= self.max_tokens)

    def watch(self, flow: Flow[T], cost: Cost) -> Flow[T]:
        """Wrap a flow so that its requests add to ``cost``. BudgetError is thrown into it where the budget ends."""

        def reserve(request: Request) -> Request:
            calls = sum(isinstance(leaf, ASKS_MODEL) for leaf in leaves_of(request))
            self._reserve(calls)
            cost.calls += calls
            return request

        def count(request: Request, result: Any) -> None:
            results = result if isinstance(request, Together) and isinstance(result, list) else [result]
            found = [u for u in (getattr(r, "usage", None) for r in results) if isinstance(u, Usage)]
            tokens = sum(u.prompt_tokens + u.generated_tokens for u in found)
            cost.tokens += tokens
            self.spent.tokens += tokens

        return intercept(flow, reserve, count)

    def _reserve(self, count: int) -> None:
        if not count:
            return
        if self.max_tokens is not None and self.spent.tokens >= self.max_tokens:
            raise BudgetError(f"{self.spent.tokens} tokens are spent of {self.max_tokens}.", hint="Raise the budget.")
        if self.max_calls is not None and self.spent.calls + count > self.max_calls:
            raise BudgetError(
                f"{self.spent.calls} calls are spent of {self.max_calls}.", hint="Raise the budget.", calls_left=0
            )
        self.spent.calls += count


@dataclass(frozen=True)
class Labelled:
    """The records of a run.

    Attributes:
        records: of all questions that are done, in the questions' order, earlier runs' included.
        failed: id → error message; these questions are asked again next time.
        left: number of questions not asked because the budget was spent.
        spent: by everything, earlier runs included.
    """

    records: list[Record]
    failed: dict[str, str] = field(default_factory=dict)
    left: int = 0
    spent: Cost = field(default_factory=Cost)


def made_with(resources: Resources) -> dict[str, Any]:
    """Identify the models by their weights where these are at hand, and the documents by a hash of all passages."""
    return {
        "weights": {role: identity_of(lm) for role, lm in resources.models.items()},
        "documents": None if resources.retriever is None else describe_retriever(resources.retriever),
    }


def open_log(folder: str | Path, name: str, options: Mapping[str, Any]) -> RunLog:
    """Open the log ``NAME.jsonl`` of a folder, before models and documents are loaded.

    Raises:
        InputError: the folder's records were made with other options.
        DocumentError: it cannot be read.
    """
    log = RunLog(Path(folder) / f"{name}.jsonl", key="id", card=f"{name}.json")
    log.check({RUN: options})
    return log


def check_documents(log: RunLog, retriever: Retriever | None) -> None:
    """Refuse other documents than a log's, before models are loaded; InputError names the value that differs."""
    if log.description()[0]:
        log.check({RUN: {"documents": None if retriever is None else describe_retriever(retriever)}})


def without_names(old: Mapping[str, Any], resources: Resources) -> dict[str, Any]:
    """Turn a configuration of 0.1.0, which knew models by their names only, into one that leaves their weights open."""
    names = {role: lm.name for role, lm in resources.models.items()}
    rest = {name: value for name, value in old.items() if name != "models"}
    return rest if old.get("models", names) == names else {**rest, "weights": old["models"]}


def check_questions(log: RunLog, questions: Sequence[Question]) -> None:
    """Refuse (InputError) questions that share an id, or whose logged record is of another question."""
    if len({q.id for q in questions}) < len(questions):
        raise InputError("Two questions have the same id.", hint="Ids identify the questions that are done.")
    for q in questions:
        record = log.rows.get(q.id)
        if record is not None and record.get("question") not in (q.question, q.question.strip()):
            raise InputError(
                f"The question {q.id!r} is not the one that was asked here before.",
                hint="Give a folder of its own: --output DIR",
            )


def label_all(
    questions: Sequence[Question],
    ask: Callable[[Question], Flow[Record]],
    resources: Resources,
    log: RunLog,
    options: Mapping[str, Any],
    *,
    max_calls: int | None = None,
    max_tokens: int | None = None,
    batch_size: int = 8,
    progress: Progress | None = None,
) -> Labelled:
    """Ask about every question that has no record yet; each batch is on the disk before the next begins.

    Args:
        questions: of distinct ids.
        ask: the flow that makes a question's record; ``id``, ``question``, ``calls`` and ``tokens`` are added to it.
        resources: models, retriever and judges for the flows.
        log: of this run, or of an earlier one of the same configuration (``open_log``).
        options: everything else that records depend on; resources are added to it.
        max_calls, max_tokens: budget of the whole folder, earlier runs included.
        progress: called with (done, all) after every batch.

    Raises:
        InputError: ids that are not distinct or whose question has changed, a batch size or budget below 1; the log is
            of other options, models or documents; or another run is writing to it.
        DocumentError: the folder cannot be used.
    """
    by_id = {q.id: q for q in questions}
    with log.locked():
        log.bind({RUN: {**options, **made_with(resources)}}, upgrade=lambda old: without_names(old, resources))
        check_questions(log, questions)
        before = log.rows.values()
        spent = Cost(sum(r["calls"] for r in before), sum(r["tokens"] for r in before))
        budget = Budget(max_calls, max_tokens, spent)

        def work(batches: Batches) -> Generator[tuple[dict[str, Record], dict[str, str]], None, None]:
            for batch in batches:
                if budget.over:
                    return
                yield _ask([by_id[name] for name in batch], ask, resources, budget)

        failed = log.fill(by_id, work, batch_size=batch_size, progress=progress)
        records = {name: log.rows.get(name) for name in by_id}
    errors = {name: why for name, why in failed.items() if why != _STOPPED}
    left = sum(record is None and name not in errors for name, record in records.items())
    return Labelled([r for r in records.values() if r is not None], errors, left, budget.spent)


def _ask(
    batch: Sequence[Question], ask: Callable[[Question], Flow[Record]], resources: Resources, budget: Budget
) -> tuple[dict[str, Record], dict[str, str]]:
    costs = [Cost() for _ in batch]
    waiting = [budget.watch(ask(q), cost) for q, cost in zip(batch, costs)]
    made: dict[str, Record] = {}
    errors: dict[str, str] = {}
    for question, cost, result in zip(batch, costs, flows.run_many(waiting, resources)):
        if isinstance(result, LimitError):
            errors[question.id] = _STOPPED  # half of the verdicts would teach to leave the other half out
        elif isinstance(result, SelfReflectError):
            errors[question.id] = str(result)
        elif isinstance(result, Exception):
            raise result
        else:
            head = {"id": question.id, "question": question.question}
            made[question.id] = {**head, **result, "calls": cost.calls, "tokens": cost.tokens}
    return made, errors
