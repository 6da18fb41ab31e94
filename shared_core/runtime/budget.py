"""Count the usage of a question as it runs, and keep it within the budgets of the settings."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable
from typing import TypeVar

from shared_core.errors import BudgetError, CapabilityError, ContextOverflowError, LimitError
from shared_core.runtime.flow import Flow, LeafRequest, Request, Retrieve, Together, describe, intercept, leaves_of
from shared_core.runtime.requests import ASKS_MODEL, ModelRequest
from shared_core.settings import SelfReflectSettings
from shared_core.types import Passage, Usage

T = TypeVar("T")


class Meter:
    """Counts and limits the usage of one question's flows.

    A request to a model goes out only if it fits the budget whole; otherwise ``BudgetError`` is raised in the flow,
    with what was left undone. ``max_calls`` is never exceeded by requests as counted here (a backend may ask again
    for one). How many tokens a request will use is not known before, so the one that reaches ``max_tokens`` is the
    last.

    Args:
        settings: with ``max_calls`` and ``max_tokens``.
        calls_of: counts the calls that a request takes (``Resources.calls_of``); one each by default.

    >>> from shared_core.lm import Generate, Prompt, ScriptedLM
    >>> from shared_core.runtime.flow import Resources, run
    >>> def ask_twice() -> Flow[str]:
    ...     first = yield Generate(Prompt.trusted("Where is Aster?"))
    ...     try:
    ...         yield Generate(Prompt.trusted("Are you sure?"))
    ...     except BudgetError:
    ...         return f"{first.text} (one call only)"
    ...     return first.text
    >>> meter = Meter(SelfReflectSettings(max_calls=1))
    >>> run(meter.watch(ask_twice()), Resources({"default": ScriptedLM(lambda request: "In the valley.")}))
    'In the valley. (one call only)'
    >>> meter.usage.calls
    1
    """

    def __init__(
        self, settings: SelfReflectSettings, calls_of: Callable[[ModelRequest], int] = lambda request: 1
    ) -> None:
        self._calls_of = calls_of
        self._max_calls, self._max_tokens = settings.max_calls, settings.max_tokens
        self._usage = Usage()
        self._calls = 0
        self._passages: dict[str, Passage] = {}
        self._start = time.perf_counter()

    @property
    def usage(self) -> Usage:
        """The usage so far, with the seconds since this meter was made."""
        return dataclasses.replace(self._usage, seconds=time.perf_counter() - self._start)

    @property
    def passages(self) -> tuple[Passage, ...]:
        """All passages retrieved so far, in the order in which they were found."""
        return tuple(self._passages.values())

    def watch(self, flow: Flow[T]) -> Flow[T]:
        """Wrap the flow: count its requests and keep them within the budget."""
        return intercept(flow, self._admit, self._count)

    def _admit(self, request: Request) -> Request:
        # Only requests to language models: retrieval and the shipped reader and critic cost no calls or tokens.
        asked = [leaf for leaf in leaves_of(request) if isinstance(leaf, ASKS_MODEL)]
        if not asked:
            return request
        tokens = self._usage.prompt_tokens + self._usage.generated_tokens
        if self._max_tokens is not None and tokens >= self._max_tokens:
            raise BudgetError(
                f"{tokens} tokens are spent of max_tokens={self._max_tokens}; left undone: {describe(asked)}.",
                hint="Raise max_tokens, or ask for less: fewer samples, passages or claims.",
            )
        # All of a batch or nothing: half a batch of samples would bias what is measured on it.
        if self._max_calls is None:
            return request
        spent = itertools.accumulate(map(self._calls_of, asked), initial=self._calls)
        fitting = sum(total <= self._max_calls for total in itertools.islice(spent, 1, None))
        if fitting < len(asked):
            raise BudgetError(
                f"{self._calls} calls are spent of max_calls={self._max_calls}; left undone: {describe(asked)}.",
                hint="Raise max_calls, or ask for less: fewer samples, passages or claims.",
                calls_left=fitting,
            )
        return request

    def _count(self, request: Request, result: object) -> None:
        if isinstance(result, Exception):
            self._count_failures(request, result)
            return
        results = result if isinstance(request, Together) and isinstance(result, list) else [result]
        for leaf, one in zip(leaves_of(request), results):
            self._count_one(leaf, one)

    def _count_one(self, leaf: LeafRequest, result: object) -> None:
        usage = getattr(result, "usage", None)
        if isinstance(result, Exception):
            self._count_failures(leaf, result)
        elif isinstance(usage, Usage):
            self._usage = self._usage + usage
            self._calls += max(1, usage.calls)  # a backend that counts none was called all the same
        elif isinstance(leaf, Retrieve) and isinstance(result, tuple):
            self._passages.update((p.id, p) for p in result if isinstance(p, Passage))

    def _count_failures(self, request: Request, error: Exception) -> None:
        """Count a request that failed, unless it never went out or was refused for what it asks."""
        paid = getattr(error, "usage", None)
        spent = paid if isinstance(paid, Usage) else Usage()
        self._usage = self._usage + spent
        calls = 0
        # These three cost nothing: the request was never sent, or refused unread.
        if not isinstance(error, (LimitError, CapabilityError, ContextOverflowError)):
            calls = sum(self._calls_of(leaf) for leaf in leaves_of(request) if isinstance(leaf, ASKS_MODEL))
        self._calls += max(calls, spent.calls)
