"""The same flow gives the same result under every driver; batches form; failures stay alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from shared_core.errors import CapabilityError, GenerationError, LanguageModelError, RetrievalError
from shared_core.lm.base import BaseLanguageModel, Generation, Prompt, Sample, SamplingParams
from shared_core.lm.scripted import ScriptedLM
from shared_core.runtime.flow import (
    Flow,
    Generate,
    Report,
    Resources,
    Retrieve,
    Together,
    arun,
    arun_many,
    astream,
    run,
    run_many,
    stream,
)
from shared_core.types import Decided, Decision, Passage


class Shelf:
    """A retriever over two passages that cannot stand the word 'broken'."""

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        if "broken" in query:
            raise OSError("disk on fire")
        return [Passage("a", f"about {query}"), Passage("b", "else")][:k]


def flow(question: str) -> Flow[str]:
    passages = yield Retrieve(question, k=1)
    yield Report(Decided(Decision("retrieve", "yes")))
    drafts = yield Together(tuple(Generate(Prompt.untrusted(f"{question} {i}")) for i in range(2)))
    final = yield Generate(Prompt.untrusted(" | ".join(d.text for d in drafts)))
    return f"{passages[0].text}: {final.text}"


def resources() -> Resources:
    return Resources({"default": ScriptedLM(lambda r: r.prompt.text.upper())}, Shelf())


EXPECTED = "about q: Q 0 | Q 1"


def test_every_driver_gives_the_same_answer() -> None:
    assert run(flow("q"), resources()) == EXPECTED
    assert asyncio.run(arun(flow("q"), resources())) == EXPECTED
    assert run_many([flow("q")], resources()) == [EXPECTED]
    assert asyncio.run(arun_many([flow("q")], resources())) == [EXPECTED]


def test_stream_yields_events_as_they_happen_and_returns_the_result() -> None:
    def collect() -> Flow[str]:
        result = yield from stream(flow("q"), resources())  # type: ignore[misc]  # events stand in for requests here
        return result

    steps = collect()
    assert next(steps).kind == "Decided"  # type: ignore[union-attr]
    with pytest.raises(StopIteration) as stop:
        next(steps)
    assert stop.value.value == EXPECTED


async def test_astream_yields_the_same_events_as_stream() -> None:
    assert [e async for e in astream(flow("q"), resources())] == list(stream(flow("q"), resources()))


def test_stream_reports_before_the_next_request_is_carried_out() -> None:
    lm = ScriptedLM(lambda r: "x")
    steps = stream(flow("q"), Resources({"default": lm}, Shelf()))
    next(steps)
    assert lm.requests == []
    steps.close()


def test_run_many_makes_one_batch_of_what_waits_at_the_same_time() -> None:
    lm = ScriptedLM(lambda r: r.prompt.text.upper())
    answers = run_many([flow(f"q{i}") for i in range(8)], Resources({"default": lm}, Shelf()))
    assert answers == [f"about q{i}: Q{i} 0 | Q{i} 1" for i in range(8)]
    assert lm.batches == [16, 8]


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_one_failing_question_fails_alone(driver: str) -> None:
    flows = [flow("q0"), flow("broken"), flow("q2")]
    answers = run_many(flows, resources()) if driver == "sync" else asyncio.run(arun_many(flows, resources()))
    assert answers[0] == "about q0: Q0 0 | Q0 1"
    assert answers[2] == "about q2: Q2 0 | Q2 1"
    assert isinstance(answers[1], RetrievalError)
    assert "disk on fire" in str(answers[1])


def test_a_failing_model_request_fails_alone() -> None:
    lm = ScriptedLM(lambda r: GenerationError("NaN logits") if "bad" in r.prompt.text else "fine")
    answers = run_many([flow("good"), flow("bad")], Resources({"default": lm}, Shelf()))
    assert answers[0] == "about good: fine"
    assert isinstance(answers[1], GenerationError)


def test_a_flow_can_catch_the_error_of_a_request() -> None:
    def careful() -> Flow[str]:
        try:
            yield Retrieve("broken")
        except RetrievalError:
            return "caught"
        return "missed"

    assert run(careful(), resources()) == "caught"


def test_together_can_return_errors_as_values() -> None:
    def careful() -> Flow[list[object]]:
        found = yield Together((Retrieve("broken"), Retrieve("q")), return_errors=True)
        return list(found)

    broken, found = run(careful(), resources())
    assert isinstance(broken, RetrievalError)
    assert found[0].id == "a"  # type: ignore[index]


def test_an_empty_together_asks_for_nothing() -> None:
    def idle() -> Flow[int]:
        found = yield Together(())
        return len(found)

    assert run(idle(), Resources()) == 0


def test_a_missing_model_is_named() -> None:
    with pytest.raises(CapabilityError, match="none"):
        run(flow("q"), Resources({}, Shelf()))


def test_a_backend_that_loses_results_is_an_error() -> None:
    class Lossy(ScriptedLM):
        def generate(self, requests):  # type: ignore[no-untyped-def]
            return []

    answers = run_many([flow("q")], Resources({"default": Lossy()}, Shelf()))
    assert "0 results for 2 requests" in str(answers[0])


def test_a_retriever_that_fails_at_a_batch_is_asked_one_by_one_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Batching(Shelf):
        def retrieve_many(self, queries: Sequence[str], k: int = 5) -> list[Sequence[Passage]]:
            return [self.retrieve(query, k) for query in queries]

    found = run_many([flow("q"), flow("broken"), flow("q")], Resources(resources().models, Batching()))
    assert found[0] == found[2] == EXPECTED
    assert isinstance(found[1], RetrievalError)
    assert "Batching.retrieve_many failed for 3 queries" in caplog.text
    assert "disk on fire" in caplog.text


async def test_a_flow_is_closed_when_its_stream_is_left() -> None:
    closed = []

    def watched() -> Flow[None]:
        try:
            yield Retrieve("q")
            yield Report(Decided(Decision("a", "b")))
            yield Retrieve("q")
        finally:
            closed.append(True)

    steps = stream(watched(), resources())
    next(steps)
    steps.close()
    assert closed == [True]
    asteps = astream(watched(), resources())
    await anext(asteps)
    await asteps.aclose()
    assert closed == [True, True]


async def test_async_batches_of_different_kinds_run_at_the_same_time() -> None:
    order: list[str] = []

    class Slow(ScriptedLM):
        async def agenerate(self, requests):  # type: ignore[no-untyped-def]
            order.append("generate starts")
            await asyncio.sleep(0.01)
            order.append("generate ends")
            return self.generate(requests)

    class AsyncShelf(Shelf):
        async def aretrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
            order.append("retrieve")
            return self.retrieve(query, k)

    def both() -> Flow[None]:
        yield Together((Generate(Prompt.untrusted("x")), Retrieve("q")))

    await arun(both(), Resources({"default": Slow(lambda r: "y")}, AsyncShelf()))
    assert order == ["generate starts", "retrieve", "generate ends"]


class OnlyAsync(BaseLanguageModel):
    """Gives whatever it was made with."""

    def __init__(self, results: Any) -> None:
        self.results = results

    async def agenerate(self, requests: Sequence[Generate]) -> Any:
        await asyncio.sleep(0)
        return self.results


async def test_a_backend_may_be_async_only() -> None:
    lm = OnlyAsync([Generation((Sample("Yes."),))])
    request = Generate(Prompt.trusted("Well?"))
    for _ in range(2):  # on one loop, which stays
        assert Resources({"default": lm}).execute([request]) == lm.results
    assert await Resources({"default": lm}).aexecute([request]) == lm.results


@pytest.mark.parametrize(
    "results",
    [
        None,
        "Yes.",
        ["Yes."],
        [None],
        [Generation(())],
        [Generation((Sample("Yes."),))],
        [Generation((Sample(None),) * 2)],
    ],  # type: ignore[arg-type]
    ids=repr,
)
async def test_results_that_are_none_are_a_bug_of_the_backend(results: Any) -> None:
    asked = [Generate(Prompt.trusted("Well?"), SamplingParams(n=2))]
    parts = Resources({"default": OnlyAsync(results)})
    for (error,) in (parts.execute(asked), await parts.aexecute(asked)):
        assert isinstance(error, LanguageModelError)
        assert error.hint == "This is a bug of the backend."
