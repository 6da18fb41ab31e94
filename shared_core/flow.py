"""Flows: a pipeline's logic written once, and the drivers that run it four ways.

A flow is a generator that yields requests and is sent their results; it neither waits nor does I/O. ``run``,
``arun``, ``stream`` and ``run_many`` (with their async twins) differ only in how they carry requests out, so they
cannot drift apart; a pipeline is tested by replaying results.

A request that fails raises its error inside the flow, at the ``yield``; the flow may catch it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from shared_core.errors import CapabilityError, InputError, LanguageModelError, RetrievalError, SelfReflectError
from shared_core.lm.base import Generate, HiddenStates, LanguageModel, Score
from shared_core.reading.base import Judge, Read, Reader, SupportScorer
from shared_core.retrieval.base import Embedder, Retriever, Where
from shared_core.types import Event, Passage

__all__ = [
    "Embed", "Flow", "Generate", "HiddenStates", "Judge", "Read", "Report", "Request", "Resources", "Retrieve", "Score",
    "Together", "arun", "arun_many", "astream", "run", "run_many", "stream",
]  # fmt: skip

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retrieve:
    """Find passages. Result: ``tuple[Passage, ...]``, best first."""

    query: str
    k: int = 5
    where: Where | None = None


@dataclass(frozen=True, slots=True)
class Embed:
    """Unit vectors of texts. Result: (len(texts), d) float32."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Tell whoever listens that something happened. Result: ``None``, at once."""

    event: Event


@dataclass(frozen=True, slots=True)
class Together:
    """Carry several requests out at once, as one batch where they are of a kind. Result: a list, in order.

    Attributes:
        requests: of any kinds, but not ``Report`` or ``Together``.
        return_errors: give errors as values in the list instead of raising the first.
    """

    requests: tuple[Generate | Score | HiddenStates | Retrieve | Read | Judge | Embed, ...]
    return_errors: bool = False


LeafRequest = Generate | Score | HiddenStates | Retrieve | Read | Judge | Embed
Request = LeafRequest | Report | Together
Flow = Generator[Request, Any, T]
"""``Flow[Answer]`` is a generator of requests that returns an ``Answer``."""


# --- carrying requests out -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resources:
    """What requests are carried out with. ``models`` maps ``Generate.model`` to a backend; ``default`` stands in."""

    models: Mapping[str, LanguageModel] = field(default_factory=dict)
    retriever: Retriever | None = None
    reader: Reader | None = None
    judge: SupportScorer | None = None
    embedder: Embedder | None = None

    def model(self, role: str) -> LanguageModel:
        """The model of that role; CapabilityError if there is none."""
        found = self.models.get(role) or self.models.get("default")
        if found is None:
            raise CapabilityError(
                "text", "none", hint="Give the engine a language model (lm=…), or use pipeline='composed'."
            )
        return found

    def execute(self, requests: Sequence[LeafRequest]) -> list[Any]:
        """Results (or errors, as values) of the requests, in order; those of a kind go out as one batch."""
        results: list[Any] = [None] * len(requests)
        for group in _groups(requests):
            for i, result in zip(group, self._execute_group([requests[i] for i in group])):
                results[i] = result
        return results

    async def aexecute(self, requests: Sequence[LeafRequest]) -> list[Any]:
        """``execute`` without blocking; batches of different kinds run at the same time."""
        groups = _groups(requests)
        done = await asyncio.gather(*(self._aexecute_group([requests[i] for i in g]) for g in groups))
        results: list[Any] = [None] * len(requests)
        for group, values in zip(groups, done):
            for i, value in zip(group, values):
                results[i] = value
        return results

    def _execute_group(self, group: list[Any]) -> list[Any]:
        try:
            return _checked(group, self._call(group))
        except Exception as error:  # handed to the flows that asked, which know what to do
            return [error] * len(group)

    async def _aexecute_group(self, group: list[Any]) -> list[Any]:
        try:
            return _checked(group, await self._acall(group))
        except Exception as error:
            return [error] * len(group)

    def _call(self, group: list[Any]) -> list[Any]:
        first = group[0]
        if isinstance(first, Generate):
            return list(self.model(first.model).generate(group))
        if isinstance(first, Score):
            return list(self.model(first.model).score(group))
        if isinstance(first, HiddenStates):
            return list(self.model(first.model).hidden_states(group))
        if isinstance(first, Retrieve):
            return _retrieve_all(_needed(self.retriever, "retriever"), group)
        if isinstance(first, Read):
            return list(_needed(self.reader, "reader").read(group))
        if isinstance(first, Judge):
            return _judge_all(_needed(self.judge, "judge"), group)
        return _embed_all(_needed(self.embedder, "embedder"), group)

    async def _acall(self, group: list[Any]) -> list[Any]:
        first = group[0]
        if isinstance(first, Generate):
            return list(await self.model(first.model).agenerate(group))
        if isinstance(first, Score):
            return list(await self.model(first.model).ascore(group))
        if isinstance(first, HiddenStates):
            return list(await self.model(first.model).ahidden_states(group))
        if isinstance(first, Retrieve) and hasattr(self.retriever, "aretrieve"):
            return list(await asyncio.gather(*(_aretrieve(self.retriever, r) for r in group)))
        return await asyncio.to_thread(self._call, group)


def _needed(resource: T | None, name: str) -> T:
    if resource is None:
        raise InputError(f"This pipeline needs a {name}, and the engine has none.", hint=f"SelfReflectEngine({name}=…)")
    return resource


def _groups(requests: Sequence[LeafRequest]) -> list[list[int]]:
    groups: dict[tuple[type, str], list[int]] = {}
    for i, request in enumerate(requests):
        groups.setdefault((type(request), getattr(request, "model", "")), []).append(i)
    return list(groups.values())


def _checked(group: list[Any], results: list[Any]) -> list[Any]:
    if len(results) != len(group):
        raise LanguageModelError(
            f"A backend gave {len(results)} results for {len(group)} requests.", hint="This is a bug of the backend."
        )
    return results


def _retrieval_error(query: str, error: Exception) -> Exception:
    if isinstance(error, SelfReflectError):
        return error
    wrapped = RetrievalError(f"Retrieving passages for {query[:80]!r} failed: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


def _keywords(request: Retrieve) -> dict[str, Any]:
    return {"k": request.k} if request.where is None else {"k": request.k, "where": request.where}


def _retrieve_all(retriever: Any, group: list[Retrieve]) -> list[Any]:
    if len(group) > 1 and hasattr(retriever, "retrieve_many") and len({(r.k, repr(r.where)) for r in group}) == 1:
        try:
            found = retriever.retrieve_many([r.query for r in group], **_keywords(group[0]))
            return [tuple(passages) for passages in found]
        except Exception:
            pass
    results: list[Any] = []
    for request in group:
        try:
            results.append(tuple(retriever.retrieve(request.query, **_keywords(request))))
        except Exception as error:
            results.append(_retrieval_error(request.query, error))
    return results


async def _aretrieve(retriever: Any, request: Retrieve) -> tuple[Passage, ...] | Exception:
    try:
        return tuple(await retriever.aretrieve(request.query, **_keywords(request)))
    except Exception as error:
        return _retrieval_error(request.query, error)


def _judge_all(judge: SupportScorer, group: list[Judge]) -> list[Any]:
    scores = judge.score([pair for request in group for pair in request.pairs])
    return _split(scores, [len(r.pairs) for r in group], tuple)


def _embed_all(embedder: Embedder, group: list[Embed]) -> list[Any]:
    vectors = embedder.embed([text for request in group for text in request.texts])
    return _split(vectors, [len(r.texts) for r in group], lambda rows: rows)


def _split(values: Any, sizes: list[int], make: Callable[[Any], Any]) -> list[Any]:
    parts, start = [], 0
    for size in sizes:
        parts.append(make(values[start : start + size]))
        start += size
    return parts


# --- stepping flows ------------------------------------------------------------------------------------------------


class _Track(Generic[T]):
    """One flow on its way: what it waits for, or how it ended."""

    def __init__(self, flow: Flow[T], on_event: Callable[[Event], None]) -> None:
        self.flow = flow
        self.on_event = on_event
        self.request: LeafRequest | Together | None = None
        self.value: T | None = None
        self.error: Exception | None = None
        self._step(lambda: next(flow))

    @property
    def done(self) -> bool:
        return self.request is None

    @property
    def leaves(self) -> tuple[LeafRequest, ...]:
        if self.request is None:
            return ()
        return self.request.requests if isinstance(self.request, Together) else (self.request,)

    def resume(self, results: list[Any]) -> None:
        request, flow = self.request, self.flow
        errors = [r for r in results if isinstance(r, BaseException)]
        if isinstance(request, Together):
            if errors and not request.return_errors:
                self._step(lambda: flow.throw(errors[0]))
            else:
                self._step(lambda: flow.send(results))
        elif errors:
            self._step(lambda: flow.throw(errors[0]))
        else:
            self._step(lambda: flow.send(results[0]))

    def _step(self, advance: Callable[[], Request]) -> None:
        flow = self.flow
        try:
            request = advance()
            while isinstance(request, Report) or (isinstance(request, Together) and not request.requests):
                if isinstance(request, Report):
                    self.on_event(request.event)
                    request = flow.send(None)
                else:
                    request = flow.send([])
            self.request = request
        except StopIteration as stop:
            self.request, self.value = None, stop.value
        except Exception as error:
            self.request, self.error = None, error


def _ignore(event: Event) -> None:
    pass


def _drive(tracks: Sequence[_Track[T]]) -> Generator[list[LeafRequest], list[Any], None]:
    """Yield the batch that all waiting flows ask for, be sent its results; until none waits. Closes the flows."""
    try:
        while waiting := [t for t in tracks if not t.done]:
            batch = [leaf for t in waiting for leaf in t.leaves]
            results = yield batch
            start = 0
            for track in waiting:
                size = len(track.leaves)
                track.resume(results[start : start + size])
                start += size
    finally:
        for track in tracks:
            track.flow.close()


def _pump(steps: Generator[list[LeafRequest], list[Any], None], resources: Resources) -> Iterator[None]:
    try:
        batch = next(steps)
        while True:
            yield
            batch = steps.send(resources.execute(batch))
    except StopIteration:
        return
    finally:
        steps.close()


async def _apump(
    steps: Generator[list[LeafRequest], list[Any], None],
    execute: Callable[[Sequence[LeafRequest]], Awaitable[list[Any]]],
) -> AsyncGenerator[None, None]:
    try:
        batch = next(steps)
        while True:
            yield
            batch = steps.send(await execute(batch))
    except StopIteration:
        return
    finally:
        steps.close()


def _outcome(track: _Track[T]) -> T:
    if track.error is not None:
        raise track.error
    return track.value  # type: ignore[return-value]  # a finished track has a value


def run(flow: Flow[T], resources: Resources, on_event: Callable[[Event], None] = _ignore) -> T:
    """Run one flow to its end and return its result; errors the flow does not catch are raised."""
    track = _Track(flow, on_event)
    for _ in _pump(_drive([track]), resources):
        pass
    return _outcome(track)


async def arun(flow: Flow[T], resources: Resources, on_event: Callable[[Event], None] = _ignore) -> T:
    """``run`` without blocking the event loop."""
    track = _Track(flow, on_event)
    async for _ in _apump(_drive([track]), resources.aexecute):
        pass
    return _outcome(track)


def stream(flow: Flow[T], resources: Resources) -> Generator[Event, None, T]:
    """Yield the flow's events as they happen; the generator's return value is the flow's result."""
    events: list[Event] = []
    track = _Track(flow, events.append)
    for _ in _pump(_drive([track]), resources):
        yield from _drain(events)
    yield from _drain(events)
    return _outcome(track)


async def astream(flow: Flow[T], resources: Resources) -> AsyncGenerator[Event, None]:
    """``stream`` without blocking; the flow's result is whatever its last event carries."""
    events: list[Event] = []
    track = _Track(flow, events.append)
    async with aclosing(_apump(_drive([track]), resources.aexecute)) as steps:  # a stream left early ends at once
        async for _ in steps:
            for event in _drain(events):
                yield event
    for event in _drain(events):
        yield event
    _outcome(track)


def _drain(events: list[Event]) -> list[Event]:
    ready = events[:]
    events.clear()
    return ready


def run_many(
    flows: Sequence[Flow[T]], resources: Resources, on_event: Callable[[int, Event], None] | None = None
) -> list[T | Exception]:
    """Run many flows at once: requests waiting at the same time become one batch. A failing flow gives its error."""
    tracks = _tracks(flows, on_event)
    for _ in _pump(_drive(tracks), resources):
        pass
    return [_result(t) for t in tracks]


async def arun_many(
    flows: Sequence[Flow[T]], resources: Resources, on_event: Callable[[int, Event], None] | None = None
) -> list[T | Exception]:
    """``run_many`` without blocking the event loop."""
    tracks = _tracks(flows, on_event)
    async for _ in _apump(_drive(tracks), resources.aexecute):
        pass
    return [_result(t) for t in tracks]


def _tracks(flows: Sequence[Flow[T]], on_event: Callable[[int, Event], None] | None) -> list[_Track[T]]:
    def listener(i: int) -> Callable[[Event], None]:
        return _ignore if on_event is None else lambda event: on_event(i, event)

    return [_Track(flow, listener(i)) for i, flow in enumerate(flows)]


def _result(track: _Track[Any]) -> Any:
    return track.error if track.error is not None else track.value
