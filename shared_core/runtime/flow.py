"""Flows: write a pipeline's logic once, run it blocking, async, as a stream of events or for many questions at once.

A flow is a generator. It yields requests and is sent their results; it never waits and does no I/O itself. To write
one, yield a request wherever you would call a model or a retriever, and return the result at the end:

>>> from shared_core.errors import LanguageModelError
>>> from shared_core.lm import Prompt, ScriptedLM
>>> from shared_core.retrieval import BM25Retriever
>>> from shared_core.types import Decided, Decision, Passage
>>> def best_draft(question: str) -> Flow[str]:
...     passages = yield Retrieve(question, k=2)
...     yield Report(Decided(Decision("retrieve", "yes")))  # an event for whoever listens
...     prompt = Prompt.untrusted(f"{passages[0].text} {question}")
...     try:
...         short, long = yield Together((Generate(prompt), Generate(prompt, model="large")))  # one batch
...     except LanguageModelError as error:  # a request that failed raises where it was yielded
...         return f"no answer: {error.message}"
...     good = yield from is_supported(short.text, passages[0])  # flows call flows
...     return short.text if good else long.text
>>> def is_supported(claim: str, passage: Passage) -> Flow[bool]:
...     (support,) = yield Judge(((passage.text, claim),))
...     return support is not None and support > 0.5

``Resources`` hold the models, retriever and judges that carry the requests out. A driver runs the flow:

>>> class WordJudge:
...     name = "words"
...     def score(self, pairs):
...         return [float(claim in evidence) for evidence, claim in pairs]
>>> passages = [Passage("a", "The dam was built in 1911."), Passage("b", "Herons nest there.")]
>>> models = {"default": ScriptedLM(lambda r: "1911"), "large": ScriptedLM(lambda r: "In 1911, I think.")}
>>> resources = Resources(models, BM25Retriever(passages), judge=WordJudge())
>>> run(best_draft("When was the dam built?"), resources)
'1911'
>>> [event.decision.outcome for event in stream(best_draft("When was the dam built?"), resources)]
['yes']
>>> run_many([best_draft("When was the dam built?"), best_draft("Which birds nest there?")], resources)
['1911', 'In 1911, I think.']

In ``run_many`` the two flows' requests of a kind went to each model as one batch. ``arun``, ``astream`` and
``arun_many`` are the same for asyncio. A test replays results by hand: ``next(flow)``, then ``flow.send(result)``.

To count, check or change a flow's requests from outside, wrap it in ``intercept``; budgets and callbacks do.

Every driver takes a ``deadline`` (seconds, or a ``Deadline``), counted from its call. Afterwards the requests that a
flow waits for, and all that it makes later, fail with ``DeadlineError``. Until then a call that blocks runs in a thread
of its own, which is abandoned if it hangs.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Generic, TypeVar

from shared_core.lm.base import Generate, HiddenStates, Score, TokenIds
from shared_core.reading.base import Judge, Rate, Read
from shared_core.runtime.requests import (
    Clock,
    Compute,
    Deadline,
    Embed,
    Flow,
    LeafRequest,
    Report,
    Request,
    Retrieve,
    Together,
    describe,
    leaves_of,
    send_results,
)
from shared_core.runtime.resources import LATE, Resources
from shared_core.types import Event

__all__ = [
    "Compute", "Deadline", "Embed", "Flow", "Generate", "HiddenStates", "Judge", "LeafRequest", "Rate", "Read",
    "Report", "Request", "Resources", "Retrieve", "Score", "Together", "TokenIds", "arun", "arun_many", "astream",
    "describe", "fail", "intercept", "leaves_of", "run", "run_many", "stream",
]  # fmt: skip

T = TypeVar("T")


def intercept(
    flow: Flow[T],
    before: Callable[[Request], Request] = lambda request: request,
    after: Callable[[Request, Any], None] | None = None,
) -> Flow[T]:
    """Wrap a flow so that each request passes through ``before`` and each result through ``after``.

    Args:
        flow: is closed when the wrapper is.
        before: takes a request and returns the one to carry out instead, often the same. If it raises, the request
            does not go out and the error is raised inside the flow, where it was yielded.
        after: takes the request that went out and its result, or the exception it failed with, before the flow does.

    >>> from shared_core.lm import Prompt, ScriptedLM
    >>> def ask(question: str) -> Flow[str]:
    ...     reply = yield Generate(Prompt.untrusted(question))
    ...     return reply.text
    >>> seen = []
    >>> flow = intercept(ask("Where is Aster?"), after=lambda request, result: seen.append(describe([request])))
    >>> run(flow, Resources({"default": ScriptedLM(["In the valley."])})), seen
    ('In the valley.', ['1 Generate'])
    """
    try:
        request = next(flow)
        while True:
            try:
                sent = before(request)
            except Exception as error:
                request = flow.throw(error)
                continue
            try:
                result = yield sent
            except Exception as error:
                if after is not None:
                    after(sent, error)
                request = flow.throw(error)
            else:
                if after is not None:
                    after(sent, result)
                request = flow.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        flow.close()


def fail(error: Exception) -> Flow[Any]:
    """Create a flow that raises the error when it runs."""
    yield from ()
    raise error


_LATE_REQUESTS = 100
"""Requests that a flow may still make after its deadline, all refused, before it is ended by force."""


class _Track(Generic[T]):
    """The state of one flow: the request it waits for, or its value or error."""

    def __init__(self, flow: Flow[T], on_event: Callable[[Event], None], clock: Clock) -> None:
        self.flow = flow
        self.on_event = on_event
        self.clock = clock
        self.late = 0
        self.request: LeafRequest | Together | None = None
        self.value: T | None = None
        self.error: Exception | None = None
        self._step(lambda: next(flow))

    @property
    def done(self) -> bool:
        return self.request is None

    @property
    def leaves(self) -> tuple[LeafRequest, ...]:
        return () if self.request is None else leaves_of(self.request)

    def resume(self, results: list[Any]) -> None:
        request = self.request
        assert request is not None, "a flow that is done waits for nothing"
        late = [leaf for leaf, result in zip(self.leaves, results) if result is LATE]
        if late:
            error = self.clock.error(late)
            results = [error if result is LATE else result for result in results]
            self.late += 1
            if self.late > _LATE_REQUESTS:  # the flow catches the error and asks again, for ever
                self.request, self.error = None, error
                return
        self._step(lambda: send_results(self.flow, request, results))

    def _step(self, advance: Callable[[], Request]) -> None:
        flow = self.flow
        try:
            request = advance()
            # Reports and empty batches need no driver: handle them here, so that no batch waits for them.
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


_Steps = Generator[tuple[list[LeafRequest], float | None], list[Any], None]


def _drive(tracks: Sequence[_Track[T]], clock: Clock) -> _Steps:
    """Yield the requests of all waiting flows as one batch, with the seconds they have, until no flow waits.

    Requests that there is no time to begin are late; the others' results are sent back in the order of the batch.
    """
    try:
        while waiting := [t for t in tracks if not t.done]:
            batch = [leaf for t in waiting for leaf in t.leaves]
            results: list[Any] = [LATE] * len(batch)
            begun = clock.open(batch)
            asked = [batch[i] for i in begun]
            for i, result in zip(begun, (yield asked, clock.left(asked)), strict=True):
                results[i] = result
            start = 0
            for track in waiting:  # each flow takes as many results as it asked for
                size = len(track.leaves)
                track.resume(results[start : start + size])
                start += size
    finally:
        for track in tracks:  # also when a driver is stopped early: flows may hold resources in ``finally``
            track.flow.close()


def _pump(tracks: Sequence[_Track[T]], clock: Clock, resources: Resources) -> Iterator[None]:
    steps = _drive(tracks, clock)
    try:
        asked, seconds = next(steps)
        while True:
            yield
            asked, seconds = steps.send(resources.execute(asked, seconds))
    except StopIteration:
        return
    finally:
        steps.close()


async def _apump(tracks: Sequence[_Track[T]], clock: Clock, resources: Resources) -> AsyncGenerator[None, None]:
    steps = _drive(tracks, clock)
    try:
        asked, seconds = next(steps)
        while True:
            yield
            asked, seconds = steps.send(await resources.aexecute(asked, seconds))
    except StopIteration:
        return
    finally:
        steps.close()


def _outcome(track: _Track[T]) -> T:
    if track.error is not None:
        raise track.error
    return track.value  # type: ignore[return-value]  # a finished track has a value


def run(flow: Flow[T], resources: Resources, *, deadline: Deadline | float | None = None) -> T:
    """Run one flow to its end and return its result; errors the flow does not catch are raised."""
    clock = Clock(deadline)
    track = _Track(flow, lambda event: None, clock)
    for _ in _pump([track], clock, resources):
        pass
    return _outcome(track)


async def arun(flow: Flow[T], resources: Resources, *, deadline: Deadline | float | None = None) -> T:
    """Run one flow as ``run`` does, without blocking the event loop."""
    clock = Clock(deadline)
    track = _Track(flow, lambda event: None, clock)
    async for _ in _apump([track], clock, resources):
        pass
    return _outcome(track)


def stream(
    flow: Flow[T], resources: Resources, *, deadline: Deadline | float | None = None
) -> Generator[Event, None, T]:
    """Yield the flow's events as they happen; the generator's return value is the flow's result."""
    events: list[Event] = []
    clock = Clock(deadline)
    track = _Track(flow, events.append, clock)
    for _ in _pump([track], clock, resources):
        yield from _drain(events)
    yield from _drain(events)
    return _outcome(track)


async def astream(
    flow: Flow[T], resources: Resources, *, deadline: Deadline | float | None = None
) -> AsyncGenerator[Event, None]:
    """Yield events as ``stream`` does, without blocking; the last event carries the flow's result."""
    events: list[Event] = []
    clock = Clock(deadline)
    track = _Track(flow, events.append, clock)
    async with aclosing(_apump([track], clock, resources)) as steps:  # a stream left early ends at once
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
    flows: Sequence[Flow[T]],
    resources: Resources,
    on_event: Callable[[int, Event], None] | None = None,
    *,
    deadline: Deadline | float | None = None,
) -> list[T | Exception]:
    """Run many flows at once, with one batch for requests of a kind; a flow that fails leaves its error as result."""
    clock = Clock(deadline)
    tracks = _tracks(flows, on_event, clock)
    for _ in _pump(tracks, clock, resources):
        pass
    return _results(tracks)


async def arun_many(
    flows: Sequence[Flow[T]],
    resources: Resources,
    on_event: Callable[[int, Event], None] | None = None,
    *,
    deadline: Deadline | float | None = None,
) -> list[T | Exception]:
    """Run many flows as ``run_many`` does, without blocking the event loop."""
    clock = Clock(deadline)
    tracks = _tracks(flows, on_event, clock)
    async for _ in _apump(tracks, clock, resources):
        pass
    return _results(tracks)


def _tracks(flows: Sequence[Flow[T]], on_event: Callable[[int, Event], None] | None, clock: Clock) -> list[_Track[T]]:
    hear = on_event or (lambda i, event: None)
    return [_Track(flow, partial(hear, i), clock) for i, flow in enumerate(flows)]


def _results(tracks: Sequence[_Track[T]]) -> list[T | Exception]:
    return [track.error if track.error is not None else _outcome(track) for track in tracks]
