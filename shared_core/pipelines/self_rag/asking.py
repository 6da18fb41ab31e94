"""A batch of requests to the model, within the limits: as many as they allow, the first ones first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from shared_core.errors import BudgetError, ContextOverflowError, LanguageModelError, LimitError
from shared_core.lm.base import Generation
from shared_core.pipelines.decision.question_run import QuestionRun, raise_faults
from shared_core.runtime.flow import Flow, Generate, LeafRequest, Together

T = TypeVar("T")


def ask_all(requests: Sequence[LeafRequest], run: QuestionRun) -> Flow[list[object]]:
    """The results in order, errors of the model as values.

    Where a limit of the settings does not allow all of them, the rest has the limit's error for a result, and the run
    is marked as stopped (``run.trace.limit``).
    """
    if not requests:
        return []
    count = len(requests)
    stopped: LimitError | None = None
    try:
        results: list[object] = yield Together(tuple(requests), return_errors=True)
    except LimitError as error:
        stopped = error
        yield run.stop(error)
        count = min(count, error.calls_left) if isinstance(error, BudgetError) else 0
        results = (yield Together(tuple(requests[:count]), return_errors=True)) if count else []
        results = [*results, *[stopped] * (len(requests) - count)]
    late = [r for r in results if isinstance(r, LimitError)]
    if late and stopped is None:
        yield run.stop(late[0])
    raise_faults([r for r in results if not isinstance(r, LimitError)])
    return results


def generate_all(requests: Sequence[Generate], run: QuestionRun) -> Flow[list[Generation | None]]:
    """Generate for each request; ``None`` if it failed, a limit was reached or the context was too short.

    Raises:
        LanguageModelError: every request failed, and not for its length: the model cannot be used now.
        ContextOverflowError: a prompt is too long, and ``on_overflow`` is ``raise``.
    """
    results = yield from ask_all(requests, run)
    failed = [r for r in results if isinstance(r, LanguageModelError)]
    too_long = [r for r in failed if isinstance(r, ContextOverflowError)]
    if too_long:
        if run.settings.on_overflow == "raise":
            raise too_long[0]
        yield run.note("context", f"{len(too_long)} of {len(results)} prompts left out", too_long[0].message)
    others = [r for r in failed if not isinstance(r, ContextOverflowError)]
    if others and len(others) == len(results):
        raise others[0]
    if others:
        yield run.note("write", f"{len(others)} of {len(results)} failed", others[0].message)
    return [r if isinstance(r, Generation) else None for r in results]
