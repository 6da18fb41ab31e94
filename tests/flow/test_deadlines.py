"""Deadlines: whatever hangs, every driver comes back, and the flow is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import pytest

from shared_core.errors import DeadlineError, InputError
from shared_core.lm.base import GenerateResult, Prompt
from shared_core.lm.scripted import ScriptedLM
from shared_core.runtime import flow as flows
from shared_core.runtime.flow import Deadline, Embed, Flow, Generate, Report, Resources, Retrieve, Together
from shared_core.support.threads import given_up, run_within
from shared_core.types import Decided, Decision, Passage
from tests.fakes import HangingLM

SOON = 0.4
LONG = 20.0
"""How long something hangs that nobody waits for; a driver that does wait gets its result, and the test fails."""


class Hanging(HangingLM):
    """Blocks at prompts that say so, until it is let go."""

    def __init__(self) -> None:
        super().__init__("fine", lambda request: "hang" in request.prompt.text)


class HangingAsync(Hanging):
    """The same with an async form of its own."""

    async def agenerate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        if any("hang" in r.prompt.text for r in requests):
            await asyncio.sleep(LONG)
        return ScriptedLM.generate(self, requests)


class Shelf:
    def __init__(self) -> None:
        self.queries: list[str] = []

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        self.queries.append(query)
        return [Passage(query, query)]


@pytest.fixture(params=[Hanging, HangingAsync])
def lm(request: Any) -> Iterator[Hanging]:
    made = request.param()
    yield made
    made.let_go.set()


def ask(text: str) -> Generate:
    return Generate(Prompt.trusted(text))


def flow(word: str, told: list[str] | None = None) -> Flow[str]:
    """Asks twice; told of a deadline, it ends with what it has."""
    said: list[str] = []
    try:
        for i in range(2):
            said.append((yield ask(f"{word} {i}")).text)
            yield Report(Decided(Decision(word, str(i))))
    except DeadlineError as error:
        if told is None:
            raise
        told.append(error.message)
    return " ".join(said)


def drain(events: Iterator[Any]) -> tuple[int, Any]:
    count = 0
    while True:
        try:
            next(events)
        except StopIteration as stop:
            return count, stop.value
        count += 1


async def adrain(events: AsyncIterator[Any]) -> int:
    return len([event async for event in events])


DRIVERS: dict[str, Callable[[Flow[str], Resources], Any]] = {
    "run": lambda flow, resources: flows.run(flow, resources, deadline=SOON),
    "arun": lambda flow, resources: asyncio.run(flows.arun(flow, resources, deadline=SOON)),
    "stream": lambda flow, resources: drain(flows.stream(flow, resources, deadline=SOON))[1],
    "astream": lambda flow, resources: asyncio.run(adrain(flows.astream(flow, resources, deadline=SOON))),
}


@pytest.mark.parametrize("catches", [True, False])
@pytest.mark.parametrize("driver", DRIVERS.values(), ids=DRIVERS)
def test_a_flow_that_hangs_is_thrown_the_error_and_may_end_with_what_it_has(
    lm: Hanging, driver: Callable[[Flow[str], Resources], Any], catches: bool
) -> None:
    told: list[str] = []
    if catches:
        assert not driver(flow("hang", told), Resources({"default": lm}))
        assert len(told) == 1
    else:
        with pytest.raises(DeadlineError, match="1 Generate") as caught:
            driver(flow("hang"), Resources({"default": lm}))
        assert isinstance(caught.value, TimeoutError)


def test_in_time_everything_is_as_without_a_deadline(lm: Hanging) -> None:
    resources = Resources({"default": lm}, Shelf())
    assert flows.run(flow("a"), resources, deadline=LONG) == "fine fine"
    assert asyncio.run(flows.arun(flow("a"), resources, deadline=LONG)) == "fine fine"
    assert drain(flows.stream(flow("a"), resources, deadline=LONG)) == (2, "fine fine")
    assert flows.run_many([flow("a"), flow("b")], resources, deadline=LONG) == ["fine fine"] * 2


@pytest.mark.parametrize("driver", ["run_many", "arun_many"])
def test_of_many_flows_those_that_are_done_keep_their_results(driver: str) -> None:
    lm = Hanging()

    def late(word: str) -> Flow[str]:  # hangs at its second step, when the others are done
        first = (yield ask(word)).text
        second = (yield ask("hang")).text
        return f"{first} {second}"

    def quick() -> Flow[str]:
        return (yield ask("quick")).text  # type: ignore[no-any-return]

    todo = [late("a"), quick(), late("b")]
    resources = Resources({"default": lm})
    if driver == "run_many":
        found = flows.run_many(todo, resources, deadline=SOON)
    else:
        found = asyncio.run(flows.arun_many(todo, resources, deadline=SOON))
    lm.let_go.set()
    assert isinstance(found[0], DeadlineError)
    assert found[1] == "fine"
    assert isinstance(found[2], DeadlineError)


def test_nothing_is_begun_after_the_deadline() -> None:
    lm, shelf = Hanging(), Shelf()

    def both() -> Flow[list[Any]]:
        found = yield Together((ask("hang"), Retrieve("too late")), return_errors=True)
        return [*found, *(yield Together((Retrieve("much too late"),), return_errors=True))]

    found = flows.run(both(), Resources({"default": lm}, shelf), deadline=SOON)
    lm.let_go.set()
    assert all(isinstance(f, DeadlineError) for f in found)
    assert "1 Generate, 1 Retrieve" in str(found[0])
    for thread in threading.enumerate():
        if thread.name == "selfreflect-call":
            thread.join(LONG)
    assert shelf.queries == []


async def test_kinds_that_are_done_in_time_are_kept() -> None:
    def both() -> Flow[list[Any]]:
        return list((yield Together((ask("hang"), Retrieve("q")), return_errors=True)))

    slow, found = await flows.arun(both(), Resources({"default": HangingAsync()}, Shelf()), deadline=SOON)
    assert isinstance(slow, DeadlineError)
    assert found[0].id == "q"


def test_a_flow_that_will_not_hear_is_ended() -> None:
    asked: list[int] = []

    def deaf() -> Flow[str]:
        while True:
            try:
                asked.append(len(asked))
                yield ask("hang")
            except DeadlineError:
                continue

    lm = Hanging()
    with pytest.raises(DeadlineError):
        flows.run(deaf(), Resources({"default": lm}), deadline=SOON)
    lm.let_go.set()
    assert len(asked) < 1000


_WHO: ContextVar[str] = ContextVar("who", default="nobody")


def test_the_callers_context_reaches_the_thread_and_errors_come_back() -> None:
    class Asking(Shelf):
        def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
            return [Passage("p", _WHO.get())]

    class Breaking:
        name = "breaking"

        def embed(self, texts: Sequence[str]) -> Any:
            raise KeyError("vectors")

    def who() -> Flow[str]:
        return (yield Retrieve("q"))[0].text  # type: ignore[no-any-return]

    def broken() -> Flow[Any]:
        return (yield Embed(("a",)))

    _WHO.set("me")
    assert flows.run(who(), Resources({}, Asking()), deadline=LONG) == "me"
    assert asyncio.run(flows.arun(who(), Resources({}, Asking()), deadline=LONG)) == "me"
    with pytest.raises(KeyError, match="vectors"):
        flows.run(broken(), Resources({}, embedder=Breaking()), deadline=LONG)


@pytest.mark.parametrize(("seconds", "reserve"), [(0, 0), (-1, 0), (float("nan"), 0), (2.0, 2.0), (2.0, -0.1)])
def test_a_deadline_must_lie_ahead_and_leave_time(seconds: float, reserve: float) -> None:
    with pytest.raises(InputError, match="deadline"):
        Deadline(seconds, reserve)
    if not reserve:
        with pytest.raises(InputError, match="deadline"):
            flows.run(flow("a"), Resources({"default": Hanging()}), deadline=seconds)


@pytest.mark.parametrize("driver", ["run", "arun"])
def test_a_call_left_behind_is_told_so_and_one_that_is_waited_for_is_not(driver: str) -> None:
    told: list[bool] = []
    left, ended = threading.Event(), threading.Event()

    class Listening(ScriptedLM):
        def generate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
            told.append(given_up())
            if "hang" in requests[0].prompt.text:
                left.wait(LONG)
                told.append(given_up())
                ended.set()
            return super().generate(requests)

    resources = Resources({"default": Listening(lambda request: "fine")})
    for word in ("a", "hang"):
        if driver == "run":
            flows.run(flow(word, []), resources, deadline=SOON)
        else:
            asyncio.run(flows.arun(flow(word, []), resources, deadline=SOON))
    left.set()
    assert ended.wait(LONG)
    assert told[0] is False
    assert told[-1] is True


def test_a_call_within_one_that_is_left_behind_is_told_so() -> None:
    told: list[bool] = []
    asked, over = threading.Event(), threading.Event()

    def inner() -> None:
        asked.wait(5)
        told.append(given_up())
        over.set()

    def outer() -> None:
        run_within(10, inner)

    assert not run_within(0.05, outer)
    asked.set()
    assert over.wait(5)
    assert told == [True]
