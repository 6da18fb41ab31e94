"""Where a model hangs, is out of its budget or gives no answer, the documents' own sentences answer in its stead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.errors import BackendUnavailableError, EmptyReplyError, InputError
from shared_core.lm.base import Generate, GenerateResult, Generation, Sample
from shared_core.lm.scripted import ScriptedLM
from shared_core.runtime.requests import Deadline
from shared_core.settings import PipelineName
from shared_core.types import Answer, Usage
from tests.engine.test_confidence_everywhere import Reader
from tests.fakes import Critic, FirstSentenceReader, HangingLM, Shelf, WordCritic

PIPELINES = get_args(PipelineName)
QUESTION = "When was the lamp lit?"
SOON = 4.0  # of which the reader has 1.2 seconds, which is enough on a busy machine
QUOTED = "The lamp was lit in 1871. [1]"


class CalledPerSample(ScriptedLM):
    """Counts a call for each sample, as adapters of frameworks' models make them."""

    samples_are_calls = True
    calls = 0

    def generate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        self.calls += sum(r.params.n for r in requests)
        return [
            Generation((Sample("The lamp was lit in 1871."),) * r.params.n, Usage(calls=r.params.n)) for r in requests
        ]


@pytest.fixture
def hanging() -> Iterator[HangingLM]:
    made = HangingLM("The lamp was lit in 1871.")
    yield made
    made.let_go.set()


def engine(lm: ScriptedLM, reader: Any = None, critic: Any = None, **settings: Any) -> SelfReflectEngine:
    reader = reader or Reader(0.9, answerable=0.9)
    return SelfReflectEngine(Shelf(), lm, SelfReflectSettings(**settings), reader=reader, critic=critic or Critic())


def assert_stands_in(answer: Answer, pipeline: str) -> None:
    assert answer.text == QUOTED
    assert answer.metadata["answered_by"] == "embedded default"
    assert answer.metadata["pipeline"] == pipeline


def test_a_model_that_hangs_leaves_many_answers_to_the_documents(hanging: HangingLM) -> None:
    """One answer, on every pipeline: ``test_cost``."""
    for found in engine(hanging, deadline=SOON).answer_many([QUESTION, QUESTION]):
        assert isinstance(found, Answer)
        assert_stands_in(found, "composed")


def test_an_unsure_reader_does_not(hanging: HangingLM) -> None:
    answer = engine(hanging, FirstSentenceReader(0.2), pipeline="reclaim", deadline=SOON).answer(QUESTION)
    assert (answer.abstained, answer.reason) == (True, "out of time")


@pytest.mark.parametrize("limit", [{"max_calls": 1}, {"max_tokens": 1}])
@pytest.mark.parametrize("pipeline", ["seakr", "self_rag"])
def test_so_does_a_budget_that_is_too_small(pipeline: Any, limit: dict[str, int]) -> None:
    lm = ScriptedLM(lambda request: "yes" if request.model == "judge" else " ".join(["The lamp was lit."] * 3))
    answer = engine(lm, pipeline=pipeline, **limit).answer(QUESTION)
    assert_stands_in(answer, pipeline)
    assert any(d.kind == "limit" and d.outcome == "out of budget" for d in answer.trace)


def test_calls_for_samples_count_before_they_are_made() -> None:
    lm = CalledPerSample()
    answer = engine(lm, pipeline="seakr", max_calls=10, seakr={"samples": 20}).answer(QUESTION)
    assert lm.calls <= 10
    assert answer.usage.calls == lm.calls
    assert_stands_in(answer, "seakr")


@pytest.mark.parametrize(
    "reply",
    [
        lambda request: "<think>\nThe user asks when. Let me look at the passages. First",
        lambda request: "<think>It was 1911. No,",
        lambda request: EmptyReplyError("The model withheld its answer (content_filter)."),
    ],
    ids=["thoughts without an end", "half a thought", "withheld"],
)
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_reply_without_an_answer_is_like_an_empty_one(pipeline: Any, reply: Callable[[Generate], Any]) -> None:
    asked = engine(ScriptedLM(reply), pipeline=pipeline, research={"samples": 2}, seakr={"samples": 2})
    assert_stands_in(asked.answer(QUESTION), pipeline)


@pytest.mark.parametrize(
    "reply",
    [
        lambda request: "The lamp and its keeper were known to all. " * 1200,
        lambda request: "a",
        lambda request: request.prompt.text,
        lambda request: "The lamp was lit in 1871 (Smith et al., 1990; see also [3, 7]).",
        lambda request: "Die Lampe wurde im Jahr 1990 von Friedrich entzündet.",
        lambda request: "I'm sorry, but I can't assist with that.",
    ],
    ids=["10,000 tokens", "one token", "our prompt", "another citation style", "another language", "a refusal"],
)
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_whatever_is_replied_the_documents_answer_is_not_lost(pipeline: Any, reply: Callable[[Generate], str]) -> None:
    small = {"research": {"samples": 2}, "seakr": {"samples": 2, "max_steps": 2}}
    answer = engine(ScriptedLM(reply), critic=WordCritic(), pipeline=pipeline, **small).answer(QUESTION)
    assert not answer.abstained
    assert "1871" in answer.text
    assert "1990" not in "".join(c.text for c in answer.kept_claims).replace("et al., 1990", "")


def test_the_trace_says_why_nothing_was_replied() -> None:
    lm = ScriptedLM(lambda request: EmptyReplyError("The model called a tool."))
    found = engine(lm, pipeline="reclaim").answer(QUESTION)
    assert ("reply", "empty", "The model called a tool.") in [(d.kind, d.outcome, d.reason) for d in found.trace]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_server_that_is_down_is_an_error_still(pipeline: Any) -> None:
    lm = ScriptedLM(lambda request: BackendUnavailableError("There is no connection."))
    with pytest.raises(BackendUnavailableError):
        engine(lm, pipeline=pipeline).answer(QUESTION)


def test_finished_thoughts_are_taken_off_with_their_tokens() -> None:
    tokens = ("<think>", "1911?", "</think>", "The", " lamp", " was lit in 1871.")
    said = Sample("".join(tokens), logprobs=(-9.0, -8.0, -7.0, -0.1, -0.2, -0.3), tokens=tokens)
    answer = engine(ScriptedLM(lambda request: [said] * request.params.n), pipeline="reclaim").answer(QUESTION)
    assert [c.text for c in answer.kept_claims] == ["The lamp was lit in 1871."]
    assert "answered_by" not in answer.metadata


@pytest.mark.parametrize(("seconds", "reserve"), [(0, 0), (-1.0, 0), (2.0, 2.0), (2.0, -0.1), (float("nan"), 0)])
def test_deadlines_that_leave_no_time_are_refused(seconds: float, reserve: float) -> None:
    with pytest.raises(InputError):
        Deadline(seconds, reserve)
