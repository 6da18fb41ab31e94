"""A question's limits: time, calls and tokens. They hold for every pipeline at every door, and the answer says so."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, get_args

import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.errors import (
    AbstainedError,
    BudgetError,
    DeadlineError,
    EmptyReplyError,
    GenerationError,
    SettingsError,
)
from shared_core.facades.gated_retriever import GatedRetriever
from shared_core.facades.reranker import SelfReflectReranker
from shared_core.lm.base import Capabilities, Generate, GenerateResult, Generation, Prompt, Sample
from shared_core.lm.scripted import ScriptedLM
from shared_core.runtime import flow as flows
from shared_core.runtime.budget import Meter
from shared_core.runtime.flow import Flow, Resources, Together
from shared_core.settings import PipelineName
from shared_core.types import Answer, Finished, Passage, Usage
from tests.engine.test_confidence_everywhere import Reader
from tests.fakes import PASSAGES, Critic, FirstSentenceReader, HangingLM, Shelf, published
from tests.pipelines.scripts import SURE, UNSURE, made, scripted

T = TypeVar("T")
QUESTION = "When was the lamp lit?"
SOON, LONG = 0.4, 20.0
REPLY = "<reference>S1</reference><claim>The lamp was lit in 1871.</claim>"


class Stuck(Shelf):
    """A retriever that never comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        self.let_go.wait(LONG)
        return super().retrieve(query, k)


@pytest.fixture
def hung() -> Iterator[Callable[[T], T]]:
    """What is passed through it is let go at the end, so that no thread outlives the test by long."""
    hanging: list[Any] = []

    def note(one: T) -> T:
        hanging.append(one)
        return one

    yield note
    for one in hanging:
        one.let_go.set()


def through(door: str, engine: SelfReflectEngine) -> Answer:
    """One question through a door of the engine."""

    async def last() -> Any:
        return [event async for event in engine.astream(QUESTION)][-1]

    if door == "answer":
        return engine.answer(QUESTION)
    if door == "aanswer":
        return asyncio.run(engine.aanswer(QUESTION))
    if door == "answer_many":
        found = engine.answer_many([QUESTION, QUESTION])
    elif door == "aanswer_many":
        found = asyncio.run(engine.aanswer_many([QUESTION, QUESTION]))
    else:
        event = list(engine.stream(QUESTION))[-1] if door == "stream" else asyncio.run(last())
        assert isinstance(event, Finished)
        return event.answer
    first, second = found
    assert isinstance(first, Answer)
    assert isinstance(second, Answer)
    assert (first.text, first.reason, first.usage) == (second.text, second.reason, second.usage)
    return first


DOORS = ["answer", "aanswer", "stream", "astream", "answer_many", "aanswer_many"]


def assert_abstained(answer: Answer, reason: str) -> None:
    assert answer.abstained
    assert answer.reason == reason
    assert "no passage" not in answer.text.lower()
    assert "do not answer" not in answer.text
    limit = next(d for d in answer.trace if d.kind == "limit")
    assert limit.outcome == reason
    assert "left undone" in limit.reason
    assert answer.trace[-1].kind == "abstain"


# --- the deadline --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("pipeline", get_args(PipelineName))
def test_a_model_that_hangs_ends_as_an_abstention_for_want_of_time(door: str, pipeline: Any, hung: Any) -> None:
    lm = hung(HangingLM(REPLY))
    answer = through(door, SelfReflectEngine(Shelf(), lm, published(pipeline=pipeline, deadline=SOON)))
    assert_abstained(answer, "out of time")
    assert answer.usage.seconds > SOON / 2  # counted from the first step on, the deadline from before it


@pytest.mark.parametrize("door", DOORS)
def test_a_retriever_that_hangs_does_too(door: str, hung: Any) -> None:
    shelf = hung(Stuck())
    answer = through(door, SelfReflectEngine(shelf, settings=SelfReflectSettings(deadline=SOON)))
    assert_abstained(answer, "out of time")
    assert answer.passages == ()


def test_what_was_found_and_written_by_then_is_in_the_answer(hung: Any) -> None:
    lm = hung(HangingLM(REPLY, lambda request: request.model == "judge"))
    settings = published(pipeline="reclaim", deadline=SOON, on_abstain="show")
    answer = SelfReflectEngine(Shelf(), lm, settings).answer(QUESTION)
    assert_abstained(answer, "out of time")
    assert [c.text for c in answer.claims] == ["The lamp was lit in 1871."]
    assert [c.support for c in answer.claims] == [None]
    assert "“The lamp was lit in 1871.” (lamps.md)" in answer.text


def test_in_time_the_answer_is_the_same_as_without_a_deadline() -> None:
    def engine(**limits: Any) -> SelfReflectEngine:
        lm = ScriptedLM(lambda request: "95" if request.model == "judge" else REPLY)
        return SelfReflectEngine(Shelf(), lm, published(pipeline="reclaim", **limits))

    assert engine(deadline=LONG, max_calls=100, max_tokens=10**6).answer(QUESTION) == engine().answer(QUESTION)


@pytest.mark.parametrize("policy", ["raise", "fallback"])
def test_policies_hold_after_the_deadline(policy: Any, hung: Any) -> None:
    lm = hung(HangingLM(REPLY))
    engine = SelfReflectEngine(Shelf(), lm, published(deadline=SOON, on_abstain=policy))
    if policy == "raise":
        with pytest.raises(AbstainedError) as caught:
            engine.answer(QUESTION)
        assert_abstained(caught.value.answer, "out of time")
        return
    answer = engine.answer(QUESTION)
    assert (answer.abstained, answer.reason) == (True, "out of time")
    assert answer.trace[-1].kind == "fallback"  # there is no time for it
    assert "unverified" not in answer.text


def test_gate_and_reranker_raise(hung: Any) -> None:
    lm = hung(HangingLM(REPLY))
    settings = made(estimator="sufficiency", threshold=0.5).replace(deadline=SOON)  # a gate that has to ask
    with pytest.raises(DeadlineError):
        GatedRetriever(Shelf(), lm, settings).ask(QUESTION)
    with pytest.raises(DeadlineError):
        asyncio.run(SelfReflectReranker(lm, settings, method="uncertainty").arerank(QUESTION, PASSAGES))


@pytest.mark.parametrize("name", ["deadline", "max_calls", "max_tokens"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_limits_that_are_none_are_refused(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=name):
        SelfReflectSettings(**{name: value})


# --- calls and tokens ----------------------------------------------------------------------------------------------


def grammar_writer() -> ScriptedLM:
    """Writes one pair after the other, each claim another, and never ends; judges by a number."""
    written = itertools.count(1)

    def reply(request: Generate) -> str:
        if request.model == "judge":
            return "95"
        return f"The lamp was lit, time {next(written)}." if request.model == "claim" else (
            "According to the citation: <reference> The lamp was lit in 1871. </reference>"
        )  # fmt: skip

    return ScriptedLM(reply, capabilities=Capabilities(grammar=True))


def reclaiming(lm: ScriptedLM, judge: Any = None, **limits: Any) -> SelfReflectEngine:
    return SelfReflectEngine(Shelf(), lm, published(pipeline="reclaim", **limits), judge=judge)


@pytest.mark.parametrize("door", DOORS)
def test_calls_never_exceed_their_budget(door: str) -> None:
    lm = grammar_writer()
    answer = through(door, reclaiming(lm, max_calls=5))
    assert_abstained(answer, "out of budget")
    questions = 2 if "many" in door else 1
    assert len(lm.requests) == 5 * questions
    assert answer.usage.calls == 5
    limits = [d.reason for d in answer.trace if d.kind == "limit"]
    assert limits == [
        "5 calls are spent of max_calls=5; left undone: 1 Generate (claim).",
        "5 calls are spent of max_calls=5; left undone: 2 Generate (judge).",
    ]


def test_claims_written_within_the_budget_are_judged_by_who_costs_nothing() -> None:
    answer = reclaiming(grammar_writer(), Critic(), max_calls=5).answer(QUESTION)
    assert not answer.abstained
    assert len(answer.kept_claims) == 2
    assert [d.outcome for d in answer.trace if d.kind == "limit"] == ["out of budget"]


def test_as_many_claims_are_judged_as_the_budget_allows() -> None:
    lm = grammar_writer()
    settings = published(pipeline="reclaim", max_calls=5, reclaim={"max_pairs": 2})
    answer = SelfReflectEngine(Shelf(), lm, settings).answer(QUESTION)  # 4 calls write, 1 judges
    assert [c.support for c in answer.claims] == [0.95, None]
    assert len(answer.kept_claims) == 1


def test_tokens_are_counted_and_nothing_is_asked_once_they_are_spent() -> None:
    lm = grammar_writer()
    answer = reclaiming(lm, max_tokens=1).answer(QUESTION)
    assert_abstained(answer, "out of budget")
    assert len(lm.requests) == 1
    assert "max_tokens=1" in next(d.reason for d in answer.trace if d.kind == "limit")


def test_calls_that_fail_count() -> None:
    def stubborn() -> Flow[str]:
        while True:
            try:
                return (yield Generate(Prompt.trusted("once more"))).text  # type: ignore[no-any-return]
            except GenerationError:
                continue

    lm = ScriptedLM(lambda request: GenerationError("no"))
    with pytest.raises(BudgetError):
        flows.run(Meter(SelfReflectSettings(max_calls=3)).watch(stubborn()), Resources({"default": lm}))
    assert len(lm.requests) == 3


def test_what_a_failed_call_was_paid_counts() -> None:
    def fails(request: Generate) -> EmptyReplyError:
        error = EmptyReplyError("only thoughts")
        error.usage = Usage(calls=2, prompt_tokens=50, generated_tokens=40)
        return error

    def asking(*, together: bool) -> Flow[None]:
        for _ in range(4):
            request = Generate(Prompt.trusted("once more"))
            try:
                yield Together((request,), return_errors=True) if together else request
            except EmptyReplyError:
                continue

    for together in (True, False):
        meter, lm = Meter(SelfReflectSettings(max_tokens=150)), ScriptedLM(fails)
        with pytest.raises(BudgetError, match="180 tokens"):
            flows.run(meter.watch(asking(together=together)), Resources({"default": lm}))
        assert (meter.usage.calls, meter.usage.generated_tokens) == (4, 80)


def test_asking_again_stops_at_the_budget_with_what_was_understood() -> None:
    lm = ScriptedLM(lambda request: "neither form nor number")
    answer = reclaiming(lm, max_calls=2).answer(QUESTION)
    assert_abstained(answer, "out of budget")
    assert len(lm.requests) == 2
    half = ScriptedLM(lambda request: f"{REPLY}\n<reference>S99</reference><claim>More.</claim>")
    answer = reclaiming(half, Critic(), max_calls=1).answer(QUESTION)
    assert [c.text for c in answer.kept_claims] == ["The lamp was lit in 1871."]  # it was not asked for again
    none = ScriptedLM(lambda request: "<reference>S99</reference><claim>More.</claim>")
    answer = reclaiming(none, Critic(), max_calls=1).answer(QUESTION)
    assert answer.abstained
    assert [c.status for c in answer.claims] == ["dropped"]
    assert "asking again left out" in [d.outcome for d in answer.trace if d.kind == "write"]


def test_a_gate_whose_budget_is_too_small_to_measure_retrieves() -> None:
    lm = scripted(lambda body: (" In 1871.\n", SURE))
    result = GatedRetriever(Shelf(), lm, made().replace(max_calls=1)).ask(QUESTION)
    assert result.retrieved
    assert "max_calls=1" in str(result.passages[0].metadata["selfreflect_reason"])
    assert lm.requests == []
    with pytest.raises(BudgetError, match="left undone: 6 Generate"):
        SelfReflectReranker(lm, made().replace(max_calls=1), method="uncertainty").rerank(QUESTION, PASSAGES)


def test_a_reranking_that_costs_too_much_is_left_out_and_the_passages_are_still_read() -> None:
    def reply(request: Generate) -> Any:
        return "95" if request.model == "judge" else REPLY

    lm = ScriptedLM(reply, capabilities=Capabilities(hidden_states=True))
    settings = published(max_calls=3)
    answer = SelfReflectEngine(Shelf(), lm, settings).answer(QUESTION)
    assert not answer.abstained
    assert next(d.outcome for d in answer.trace if d.kind == "rerank") == "left out"


def test_seakr_ends_with_the_passages_that_it_kept() -> None:
    def reply(body: str) -> Any:
        return "The lamp was lit in 1871. ", UNSURE

    lm = scripted(reply)
    engine = SelfReflectEngine(Shelf(), lm, made(max_steps=4).replace(max_calls=7, signals="support_only"))
    answer = engine.answer(QUESTION)
    assert_abstained(answer, "out of budget")
    assert len(lm.requests) <= 7
    assert answer.passages


def test_the_embedded_default_has_no_calls_to_count() -> None:
    settings = SelfReflectSettings(max_calls=1, max_tokens=1)
    answer = SelfReflectEngine(Shelf(), settings=settings, reader=FirstSentenceReader(0.9)).answer(QUESTION)
    assert not answer.abstained
    assert answer.usage.calls == 0


def test_a_meter_counts_what_backends_report() -> None:
    lm = ScriptedLM(lambda request: Sample("one two", token_ids=(1, 2, 3)))
    engine = SelfReflectEngine(Shelf(), lm, published(pipeline="reclaim", reclaim={"regenerate": 0}))
    usage = engine.answer(QUESTION).usage
    assert (usage.calls, usage.generated_tokens) == (1, 3)
    assert usage.prompt_tokens > 0
    assert usage.seconds > 0
    assert Meter(SelfReflectSettings()).usage.calls == 0


# --- the documents' own sentences answer in a model's stead ----------------------------------------------------------

ENOUGH = 4.0  # of which the reader has 1.2 seconds, which is enough on a busy machine


class CalledPerSample(ScriptedLM):
    """Counts a call for each sample, as adapters of frameworks' models make them."""

    samples_are_calls = True
    calls = 0

    def generate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        self.calls += sum(r.params.n for r in requests)
        return [
            Generation((Sample("The lamp was lit in 1871."),) * r.params.n, Usage(calls=r.params.n)) for r in requests
        ]


def read_too(lm: ScriptedLM, reader: Any = None, **options: Any) -> SelfReflectEngine:
    reader = reader or Reader(0.9, answerable=0.9)
    return SelfReflectEngine(Shelf(), lm, SelfReflectSettings(**options), reader=reader, critic=Critic())


def assert_stands_in(answer: Answer, pipeline: str) -> None:
    assert answer.text == "The lamp was lit in 1871. [1]"
    assert answer.metadata["answered_by"] == "embedded default"
    assert answer.metadata["pipeline"] == pipeline


def test_a_model_that_hangs_leaves_many_answers_to_a_reader_that_is_sure(hung: Any) -> None:
    """One answer, on every pipeline: ``test_cost``."""
    lm = hung(HangingLM("The lamp was lit in 1871."))
    for found in read_too(lm, deadline=ENOUGH).answer_many([QUESTION, QUESTION]):
        assert isinstance(found, Answer)
        assert_stands_in(found, "composed")
    unsure = read_too(lm, FirstSentenceReader(0.2), pipeline="reclaim", deadline=SOON).answer(QUESTION)
    assert (unsure.abstained, unsure.reason) == (True, "out of time")


@pytest.mark.parametrize("limit", [{"max_calls": 1}, {"max_tokens": 1}])
@pytest.mark.parametrize("pipeline", ["seakr", "self_rag"])
def test_so_does_a_budget_that_is_too_small(pipeline: Any, limit: dict[str, int]) -> None:
    lm = ScriptedLM(lambda request: "yes" if request.model == "judge" else " ".join(["The lamp was lit."] * 3))
    answer = read_too(lm, pipeline=pipeline, **limit).answer(QUESTION)
    assert_stands_in(answer, pipeline)
    assert any(d.kind == "limit" and d.outcome == "out of budget" for d in answer.trace)


def test_calls_for_samples_count_before_they_are_made() -> None:
    lm = CalledPerSample()
    answer = read_too(lm, pipeline="seakr", max_calls=10, seakr={"samples": 20}).answer(QUESTION)
    assert lm.calls <= 10
    assert answer.usage.calls == lm.calls
    assert_stands_in(answer, "seakr")


# --- what is said --------------------------------------------------------------------------------------------------


def test_the_words_of_an_abstention_are_the_users_in_any_language() -> None:
    text = "Dazu finde ich nichts: {question} ({reason}) {{…}}"
    settings = SelfReflectSettings(abstain_text=text)
    answer = SelfReflectEngine(Shelf(), settings=settings, reader=FirstSentenceReader(0.3)).answer(QUESTION)
    reason = "Something was found, but it is not certain enough."
    assert answer.text == f"Dazu finde ich nichts: {QUESTION} ({reason}) {{…}}"
    shown = SelfReflectEngine(
        Shelf(), settings=settings.replace(on_abstain="show"), reader=FirstSentenceReader(0.3)
    ).answer(QUESTION)
    assert shown.text.splitlines() == [answer.text, "- “The lamp was lit in 1871.” (lamps.md)"]


def test_a_question_with_braces_is_no_template() -> None:
    engine = SelfReflectEngine(Shelf(()), settings=SelfReflectSettings(abstain_text="No: {question}"))
    assert engine.answer("{reason} {0.__class__} {").text == "No: {reason} {0.__class__} {"


@pytest.mark.parametrize("text", ["{answer}", "{}", "{question.__class__}", "{question!r}", "{reason:>10}", "{", "}"])
def test_a_template_that_cannot_be_filled_in_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="abstain_text"):
        SelfReflectSettings(abstain_text=text)


@pytest.mark.parametrize("answerable", [None, 0.2])
def test_end_users_see_no_probabilities_and_programs_do(answerable: float | None) -> None:
    reader = FirstSentenceReader(0.37, answerable=answerable)
    answer = SelfReflectEngine(Shelf(), reader=reader).answer(QUESTION)
    said = answer.text.replace("1871", "")  # of the nearest sentence
    assert not any(character.isdigit() for character in said)
    assert answer.confidence == 0.37
    assert answer.trace[-1].values["best_support"] == 0.37
    assert answer.trace[-1].values["target_accuracy"] == 0.5
