"""Work of a model over many questions, kept on disk as it is done, within a budget for all of it.

A folder holds ``NAME.jsonl``, one record a question, appended and flushed to the disk batch by batch, and
``NAME.json``, which says what it was made with. Killed at any moment, the same call goes on where it was: a line that
was torn is cut off and its question asked again; so is one that failed. Another configuration is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from shared_core.errors import BudgetError, DocumentError, InputError, LimitError, SelfReflectError
from shared_core.runtime import flow as flows
from shared_core.runtime.flow import Flow, Generate, HiddenStates, Resources, Score, Together, leaves_of
from shared_core.support.files import replace_file
from shared_core.support.run_log import Journal as Lines
from shared_core.types import Usage

if TYPE_CHECKING:
    from shared_core.evaluation.dataset import Question

__all__ = ["Bill", "Budget", "Journal", "Labelled", "label_all"]

T = TypeVar("T")
Record = dict[str, Any]


@dataclass
class Bill:
    """What one question cost so far: calls as requests are counted, and tokens read and written."""

    calls: int = 0
    tokens: int = 0


class Budget:
    """A budget that many flows share.

    Calls are reserved before they go out, so their number is never exceeded, however many questions are asked at once;
    what a request costs in tokens is known afterwards, so those that are out when the last token is spent still count.

    Args:
        max_calls, max_tokens: of everything, earlier runs included; ``None`` for no limit.
        spent: by earlier runs.
    """

    def __init__(self, max_calls: int | None = None, max_tokens: int | None = None, spent: Bill | None = None) -> None:
        for name, value in (("max_calls", max_calls), ("max_tokens", max_tokens)):
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, not {value}.")
        self.max_calls, self.max_tokens = max_calls, max_tokens
        self.spent = spent or Bill()

    @property
    def over(self) -> bool:
        """Whether nothing more can be asked."""
        calls = self.max_calls is not None and self.spent.calls >= self.max_calls
        return calls or (self.max_tokens is not None and self.spent.tokens >= self.max_tokens)

    def watch(self, flow: Flow[T], bill: Bill) -> Flow[T]:
        """The same flow, counted on its bill; BudgetError is thrown into it where the budget does not suffice."""
        try:
            request = next(flow)
            while True:
                asked = [r for r in leaves_of(request) if isinstance(r, (Generate, Score, HiddenStates))]
                try:
                    self._reserve(len(asked))
                    bill.calls += len(asked)
                    result = yield request
                except Exception as error:
                    request = flow.throw(error)
                else:
                    results = result if isinstance(request, Together) and isinstance(result, list) else [result]
                    found = [u for u in (getattr(r, "usage", None) for r in results) if isinstance(u, Usage)]
                    tokens = sum(u.prompt_tokens + u.generated_tokens for u in found)
                    bill.tokens += tokens
                    self.spent.tokens += tokens
                    request = flow.send(result)
        except StopIteration as stop:
            value: T = stop.value
            return value
        finally:
            flow.close()

    def _reserve(self, count: int) -> None:
        if not count:
            return
        if self.max_tokens is not None and self.spent.tokens >= self.max_tokens:
            raise BudgetError(f"{self.spent.tokens} tokens are spent of {self.max_tokens}.", hint="Raise the budget.")
        left = count if self.max_calls is None else max(0, self.max_calls - self.spent.calls)
        if count > left:
            raise BudgetError(
                f"{self.spent.calls} calls are spent of {self.max_calls}.", hint="Raise the budget.", calls_left=0
            )
        self.spent.calls += count


class Journal:
    """The records of a run.

    Args:
        folder: made if it is not there.
        name: of the files within.
        configuration: what the records are made with; compared with what the folder's were.

    Raises:
        InputError: the folder's records were made with something else.
        DocumentError: it cannot be read or written.
    """

    def __init__(self, folder: str | Path, name: str, configuration: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self.file, self._card = self.folder / f"{name}.jsonl", self.folder / f"{name}.json"
        self._lines = Lines(self.file)
        plain = json.loads(json.dumps(configuration, default=str))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._check(plain)
        except OSError as error:
            raise DocumentError(f"{self.folder} cannot be used: {error.strerror or error}.") from error

    def _check(self, configuration: dict[str, Any]) -> None:
        if not self._card.exists():
            if self.file.exists():
                raise InputError(f"{self.file} has no {self._card.name} beside it.", hint="Give a folder of its own.")
            with replace_file(self._card) as file:
                file.write(json.dumps(configuration, indent=2, ensure_ascii=False) + "\n")
            return
        try:
            before = json.loads(self._card.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{self._card} is no JSON: {error}.", hint="Give a folder of its own.") from error
        different = [n for n in sorted({*before, *configuration}) if before.get(n) != configuration.get(n)]
        if different:
            told = "; ".join(f"{n} {before.get(n)!r}, not {configuration.get(n)!r}" for n in different)
            raise InputError(f"What is in {self.folder} was made with {told}.", hint="Give a folder of its own.")

    def read(self) -> list[Record]:
        """The records, in the order in which they were made; InputError if a line is none."""
        found = self._lines.read()
        for number, record in enumerate(found, 1):
            if not {"id", "question"} <= record.keys():
                raise InputError(f"{self.file}, line {number}: no record.")
        return found

    @contextmanager
    def writing(self) -> Iterator[Callable[[Sequence[Record]], None]]:
        """A function that appends records and returns once they are on the disk; one process at a time.

        Raises:
            InputError: another process is at it.
        """
        with self._lines.writing() as append:
            yield append


@dataclass(frozen=True)
class Labelled:
    """What a run came to.

    Attributes:
        records: of all questions that are done, in the questions' order, earlier runs' included.
        failed: id → why, of those that failed; they are asked again next time.
        left: how many were not asked, because the budget was spent.
        spent: by everything, earlier runs included.
    """

    records: list[Record]
    failed: dict[str, str] = field(default_factory=dict)
    left: int = 0
    spent: Bill = field(default_factory=Bill)


def label_all(
    questions: Sequence[Question],
    ask: Callable[[Question], Flow[Record]],
    resources: Resources,
    journal: Journal,
    *,
    max_calls: int | None = None,
    max_tokens: int | None = None,
    batch_size: int = 8,
    progress: Callable[[int, int], None] | None = None,
) -> Labelled:
    """Ask about every question that was not asked about yet; each batch is on the disk before the next begins.

    Args:
        questions: of distinct ids.
        ask: the flow that makes a question's record; ``id``, ``question``, ``calls`` and ``tokens`` are added to it.
        resources: who answers.
        journal: of this run or of an earlier one of the same configuration.
        max_calls, max_tokens: budget of the whole folder, earlier runs included.
        batch_size: questions asked at once.
        progress: told (done, all) after every batch.

    Raises:
        InputError: ids that are not distinct or whose question has changed, a batch size or budget below 1, or another
            run is at it.
        DocumentError: the folder cannot be used.
    """
    ids = [q.id for q in questions]
    if len(set(ids)) < len(ids) or batch_size < 1:
        raise InputError("Questions need distinct ids, and a batch at least one question.")
    failed: dict[str, str] = {}
    with journal.writing() as write:
        done = {r["id"]: r for r in journal.read()}
        changed = [q.id for q in questions if q.id in done and done[q.id]["question"] != q.question]
        if changed:
            raise InputError(f"The question {changed[0]!r} is another than the one asked.", hint="Another folder.")
        spent = Bill(sum(r["calls"] for r in done.values()), sum(r["tokens"] for r in done.values()))
        budget = Budget(max_calls, max_tokens, spent)
        todo = [q for q in questions if q.id not in done]
        finished = len(questions) - len(todo)
        for start in range(0, len(todo), batch_size):
            if budget.over:
                break
            batch = todo[start : start + batch_size]
            made, errors = _ask(batch, ask, resources, budget)
            write(made)
            done.update((r["id"], r) for r in made)
            failed.update(errors)
            finished += len(batch)
            if progress is not None:
                progress(finished, len(questions))
    stopped = {i for i, why in failed.items() if why == _STOPPED}
    left = len([i for i in ids if i not in done and (i in stopped or i not in failed)])
    rest = {i: why for i, why in failed.items() if i not in stopped}
    return Labelled([done[i] for i in ids if i in done], rest, left, budget.spent)


_STOPPED = "the budget is spent"


def _ask(
    batch: Sequence[Question], ask: Callable[[Question], Flow[Record]], resources: Resources, budget: Budget
) -> tuple[list[Record], dict[str, str]]:
    bills = [Bill() for _ in batch]
    waiting = [budget.watch(ask(q), bill) for q, bill in zip(batch, bills)]
    made: list[Record] = []
    errors: dict[str, str] = {}
    for question, bill, result in zip(batch, bills, flows.run_many(waiting, resources)):
        if isinstance(result, LimitError):
            errors[question.id] = _STOPPED  # half of what was to be asked would teach what it did not get to
        elif isinstance(result, SelfReflectError):
            errors[question.id] = str(result)
        elif isinstance(result, Exception):
            raise result
        else:
            head = {"id": question.id, "question": question.question}
            made.append({**head, **result, "calls": bill.calls, "tokens": bill.tokens})
    return made, errors
