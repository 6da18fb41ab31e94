"""The caller of a retriever or a chat model: the run's callbacks, and the documents seen so far.

Within one question this travels in a context variable. In a batch, requests of many questions go out together; there
each request carries its own caller, in a string that otherwise behaves like the plain one (``Tagged``).
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from difflib import get_close_matches
from typing import Any, TypeVar

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig

from shared_core.conversation.turns import Turn
from shared_core.errors import OptionError
from shared_core.facades.arguments import unknown_argument
from shared_core.runtime.flow import Flow, Generate, HiddenStates, Retrieve, Score, Together, intercept

T = TypeVar("T")
PER_CALL = ("target_accuracy", "top_k", "where", "deadline", "on_abstain")
"""Settings that a single call may change."""
_JOINED = [name.replace("_", "") for name in PER_CALL]
_ALIKE = 0.82  # of two names, from which on one is taken for the other
_OWN = "selfreflect"


@dataclasses.dataclass(frozen=True, eq=False)
class Caller:
    """One question's run.

    Attributes:
        config: for everything called on its behalf; its callbacks are the run's children.
        options: settings of this call alone.
        history: the conversation before the question.
        documents: every document retrieved for it, by the id of its passage.
        slots: for retrievals that run at once (``max_concurrency`` of the config), shared by a batch.
    """

    config: RunnableConfig = dataclasses.field(default_factory=RunnableConfig)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    history: tuple[Turn, ...] = ()
    documents: dict[str, Document] = dataclasses.field(default_factory=dict)
    slots: asyncio.Semaphore | None = None

    @classmethod
    def of(cls, config: RunnableConfig, given: Mapping[str, Any]) -> Caller:
        """Create the caller of a call with keywords ``given``; settings also stand under ``configurable``.

        Raises:
            ArgumentError: a keyword is nearly one of ``PER_CALL``, or a name of our own under ``configurable`` is none.
        """
        _refuse_misspelt(given)
        shared = config.get("configurable") or {}
        named = {**shared, **_own(shared), **given}
        options = {name: named[name] for name in PER_CALL if named.get(name) is not None}
        limit = config.get("max_concurrency")
        return cls(config, options, slots=asyncio.Semaphore(limit) if limit else None)

    @classmethod
    def of_all(cls, configs: Sequence[RunnableConfig], given: Mapping[str, Any]) -> list[Caller]:
        """Create the callers of a batch; the first one's ``max_concurrency`` holds for all of them together."""
        callers = [cls.of(config, given) for config in configs]
        return [dataclasses.replace(caller, slots=callers[0].slots) for caller in callers]

    def slot(self) -> AbstractAsyncContextManager[None]:
        """Return a context to retrieve in, which is entered once there is room for one more retrieval."""
        return self.slots if self.slots is not None else nullcontext()


def _own(shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings under our own names, which no other node of a graph can mean."""
    nested = shared.get(_OWN, {})
    if not isinstance(nested, Mapping):
        raise OptionError(
            f"configurable[{_OWN!r}] must be a dict, not {nested!r}.", hint=f"{{{_OWN!r}: {{'top_k': 3}}}}"
        )
    flat = {str(name): value for name, value in shared.items()}
    own = {name.removeprefix(f"{_OWN}_"): v for name, v in flat.items() if name.startswith(f"{_OWN}_")}
    own.update(nested)
    for name in own:
        if name not in PER_CALL:
            raise unknown_argument(str(name), PER_CALL, "a call")
    return own


def _refuse_misspelt(given: Mapping[str, Any]) -> None:
    """Raise ArgumentError for a keyword that is nearly one of ours; others (``stop``) are not meant for us."""
    for name in given:
        if name not in PER_CALL and get_close_matches(name.replace("_", ""), _JOINED, 1, _ALIKE):
            raise unknown_argument(name, PER_CALL, "a call")


_CURRENT: ContextVar[Caller | None] = ContextVar("selfreflect_caller", default=None)


class Tagged(str):
    """String that carries its caller."""

    caller: Caller

    @classmethod
    def by(cls, text: str, caller: Caller) -> Tagged:
        """Tag ``text``."""
        tagged = cls(text)
        tagged.caller = caller
        return tagged


def caller_of(text: str = "") -> Caller:
    """Return the caller that ``text`` is tagged with, else the current one, else a new one without callbacks."""
    if isinstance(text, Tagged):
        return text.caller
    return _CURRENT.get() or Caller()


def enter(caller: Caller) -> None:
    """Set the current caller for the rest of this context; for code that runs in a context of its own."""
    _CURRENT.set(caller)


@contextmanager
def calling(caller: Caller) -> Iterator[Caller]:
    """Set the current caller within a ``with`` block."""
    token = _CURRENT.set(caller)
    try:
        yield caller
    finally:
        _CURRENT.reset(token)


def tagged(flow: Flow[T], caller: Caller) -> Flow[T]:
    """Wrap the flow: every request carries the caller."""
    return intercept(flow, lambda request: _tag(request, caller))


def _tag(request: Any, caller: Caller) -> Any:
    if isinstance(request, Together):
        return dataclasses.replace(request, requests=tuple(_tag(r, caller) for r in request.requests))
    if isinstance(request, Retrieve):
        return dataclasses.replace(request, query=Tagged.by(request.query, caller))
    if isinstance(request, (Generate, Score, HiddenStates)):
        return dataclasses.replace(request, model=Tagged.by(request.model, caller))
    return request
