"""What a question may cost, on every pipeline and with every kind of model; and what defaults cost."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.lm.scripted import ScriptedLM
from shared_core.settings import PipelineName
from shared_core.types import Answer
from tests.engine.test_confidence_everywhere import MODELS, SAID, SMALL, Reader, model, yes
from tests.engine.test_limits import through
from tests.fakes import Critic, HangingLM, SameEmbedder, Shelf

PIPELINES = get_args(PipelineName)
QUESTION = "When was the lamp lit?"
DOORS = ("answer", "aanswer", "stream")


def engine(pipeline: Any, lm: Any, *, measured: bool = True, critic: Any = None, **more: Any) -> SelfReflectEngine:
    """With an estimator that text suffices for, and a threshold: gates have to ask."""
    options = {**SMALL, "seakr": {**SMALL["seakr"], "estimator": "lexical_similarity", "threshold": -1.0}}
    settings = SelfReflectSettings(pipeline=pipeline, **{**(options if measured else SMALL), **more})
    reader = Reader(0.8, answerable=0.8)
    return SelfReflectEngine(Shelf(), lm, settings, reader=reader, critic=critic or Critic(), embedder=SameEmbedder())


def calls_of(lm: ScriptedLM) -> int:
    return sum(max(1, getattr(getattr(r, "params", None), "n", 1)) for r in lm.requests)


def says_what_was_reached(answer: Answer, reason: str, limit: str) -> None:
    told = [d for d in answer.trace if limit in d.reason]
    assert told, [d.reason for d in answer.trace]
    assert answer.reason in (reason, "") or any(d.kind == "limit" for d in answer.trace)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_calls_hold_and_are_counted(pipeline: Any, kind: str, door: str) -> None:
    free = model(kind)
    spent = through(door, engine(pipeline, free)).usage.calls
    assert spent >= len(free.requests) > 0
    for most in range(1, len(free.requests)):
        lm = model(kind)
        answer = through(door, engine(pipeline, lm, max_calls=most))
        assert len(lm.requests) <= answer.usage.calls or answer.usage.calls <= most
        assert len(lm.requests) <= most
        says_what_was_reached(answer, "out of budget", f"max_calls={most}")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_nothing_is_asked_once_the_tokens_are_spent(pipeline: Any, kind: str, door: str) -> None:
    free = model(kind)
    whole = through(door, engine(pipeline, free))
    assert whole.usage.prompt_tokens > 0
    lm = model(kind)
    answer = through(door, engine(pipeline, lm, max_tokens=1))
    assert len(lm.requests) <= len(free.requests)
    if len(lm.requests) < len(free.requests):
        says_what_was_reached(answer, "out of budget", "max_tokens=1")
        assert answer.usage.calls < whole.usage.calls


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_deadline_holds(pipeline: Any, kind: str, door: str) -> None:
    lm = HangingLM("", capabilities=MODELS[kind], name=kind, score=yes)
    try:
        answer = through(door, engine(pipeline, lm, deadline=0.3))
    finally:
        lm.let_go.set()
    assert any(d.kind == "limit" and d.outcome == "out of time" for d in answer.trace)
    assert (answer.text, answer.metadata["answered_by"]) == (f"{SAID} [1]", "embedded default")  # what reading tells
    assert answer.metadata["pipeline"] == pipeline
    assert answer.usage.seconds > 0


def test_closed_book_a_deadline_asks_no_documents_either() -> None:
    lm = HangingLM("")
    book = {**SMALL["research"], "closed_book": True}
    try:
        answer = engine("research", lm, measured=False, deadline=0.3, research=book).answer(QUESTION)
    finally:
        lm.let_go.set()
    assert (answer.abstained, answer.reason, answer.passages) == (True, "out of time", ())


# --- what defaults cost -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["", "lorem ipsum dolor", "I don't know.", None])
@pytest.mark.parametrize("kind", MODELS)
def test_a_question_costs_the_composed_pipeline_three_calls_at_most(kind: str, said: str | None) -> None:
    lm = model(kind) if said is None else ScriptedLM(lambda r: said, capabilities=MODELS[kind])
    answer = engine("composed", lm, measured=False).answer(QUESTION)
    assert answer.usage.calls == calls_of(lm) <= 3
    if said is None:
        assert answer.usage.calls == 1  # it writes; others rank and judge


@pytest.mark.parametrize("kind", MODELS)
def test_ranking_by_the_critic_costs_no_call(kind: str) -> None:
    class Rating(Critic):
        def rate(self, requests: Any) -> list[list[float | None]]:
            return [[0.1 * i for i, _ in enumerate(r.passages)] for r in requests]

    answer = engine("composed", model(kind), measured=False, critic=Rating()).answer(QUESTION)
    assert next(d.values["method"] for d in answer.trace if d.kind == "rerank") == "critic"
    assert answer.usage.calls == 1


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("pipeline", ["composed", "seakr"])
def test_a_gate_that_cannot_decide_asks_nothing_to_find_out(pipeline: Any, kind: str) -> None:
    lm = model(kind)
    answer = engine(pipeline, lm, measured=False).answer(QUESTION)
    assert next(d.outcome for d in answer.trace if d.kind == "gate") == "retrieve"
    alone = [r for r in lm.requests if "lamp was lit" not in r.prompt.text.split("Question: When was the lamp lit")[0]]
    assert not [r for r in alone if "1871" not in r.prompt.text]  # every prompt holds what was found
