"""Whatever a model replies: the documents' own sentences stand in where it is of no use, and declining is respected."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.errors import BackendUnavailableError, ContextOverflowError, EmptyReplyError, LanguageModelError
from shared_core.lm.base import Capabilities, Generate, Generation, Sample
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.support import yes_of_first_token
from shared_core.settings import PipelineName
from shared_core.types import Answer, Passage
from tests.engine.test_confidence_everywhere import Reader
from tests.fakes import Critic, SameEmbedder, Shelf, WordCritic

PIPELINES = get_args(PipelineName)
QUESTION = "When was the lamp lit?"
SMALL: dict[str, Any] = {"seakr": {"samples": 2, "multi_hop": False}, "research": {"samples": 2, "rounds": 1}}
Reply = Callable[[Generate], str | Exception]


def well(request: Generate) -> str:
    """What a model that keeps to the form says."""
    text = request.prompt.text
    if "0 to 100" in text:
        return "95"
    if "\nS1: " in text:
        return "<reference>S1</reference><claim>The lamp was lit in 1871.</claim>"
    return " 1871.\n" if text.rstrip().endswith("So the answer is") else " The lamp was lit in 1871."


def engine(pipeline: Any, lm: ScriptedLM, shelf: Any = None, critic: Any = None, **more: Any) -> SelfReflectEngine:
    settings = SelfReflectSettings(pipeline=pipeline, **{**SMALL, **more})
    reader = Reader(0.8, answerable=0.8)
    critic = critic or WordCritic()
    return SelfReflectEngine(shelf or Shelf(), lm, settings, reader=reader, critic=critic, embedder=SameEmbedder())


def ask(
    pipeline: Any,
    reply: Reply,
    capabilities: Capabilities | None = None,
    critic: Any = None,
    question: str = QUESTION,
    **more: Any,
) -> tuple[Answer, ScriptedLM]:
    def scripted(request: Generate) -> Any:
        text = reply(request)
        if isinstance(text, Exception):
            return text
        with_p: dict[str, Any] = {"tokens": (text,), "logprobs": (-0.1,)} if request.params.logprobs else {}
        return [Sample(text, **with_p)] * request.params.n

    lm = ScriptedLM(scripted, capabilities=capabilities or Capabilities())
    return engine(pipeline, lm, critic=critic, **more).answer(question), lm


NOTHING: dict[str, str | Exception] = {
    "empty": "",
    "blank": "  \n",
    "a zero byte": "\x00",
    "thoughts without an end": "<think>\nThe user asks when. Let me look at the passages. First",
    "half a thought": "<think>It was 1911. No,",
    "withheld": EmptyReplyError("The model withheld its answer (content_filter)."),
}


@pytest.mark.parametrize("capabilities", [Capabilities(), Capabilities(token_logprobs=True)])
@pytest.mark.parametrize("reply", NOTHING.values(), ids=NOTHING)
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_model_that_says_nothing_leaves_the_answer_to_the_documents(
    pipeline: Any, reply: str | Exception, capabilities: Capabilities, caplog: pytest.LogCaptureFixture
) -> None:
    answer, lm = ask(pipeline, lambda request: reply, capabilities)
    assert (answer.text, answer.confidence) == ("The lamp was lit in 1871. [1]", 0.8)  # as without a model
    assert "embedded default answers instead" in caplog.text
    assert answer.metadata["answered_by"] == "embedded default"
    assert answer.metadata["pipeline"] == pipeline
    (unusable,) = (d for d in answer.trace if d.outcome == "replies unusable")
    if reply in ("", "  \n"):
        assert re.search("empty|no line", unusable.reason)
    if isinstance(reply, str):  # nobody says what a failed call cost
        assert answer.usage.calls == len(lm.requests)


@pytest.mark.parametrize("reply", ["lorem ipsum dolor", "0", "%%%", "```", "83 %", "Die Lampe wurde angezündet."])
@pytest.mark.parametrize("pipeline", [p for p in PIPELINES if p != "research"])  # it says what is not in the documents
def test_so_does_one_whose_words_stand_in_no_passage(pipeline: Any, reply: str) -> None:
    answer, _ = ask(pipeline, lambda request: reply)
    assert answer.text == "The lamp was lit in 1871. [1]"
    assert answer.metadata["answered_by"] == "embedded default"


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
def test_whatever_is_replied_the_documents_answer_is_not_lost(pipeline: Any, reply: Reply) -> None:
    answer, _ = ask(pipeline, reply, research={"samples": 2}, seakr={"samples": 2, "max_steps": 2})
    assert not answer.abstained
    assert "1871" in answer.text
    assert "1990" not in "".join(c.text for c in answer.kept_claims).replace("et al., 1990", "")


def test_the_trace_says_why_nothing_was_replied() -> None:
    answer, _ = ask("reclaim", lambda request: EmptyReplyError("The model called a tool."))
    assert ("reply", "empty", "The model called a tool.") in [(d.kind, d.outcome, d.reason) for d in answer.trace]


def test_finished_thoughts_are_taken_off_with_their_tokens() -> None:
    tokens = ("<think>", "1911?", "</think>", "The", " lamp", " was lit in 1871.")
    said = Sample("".join(tokens), logprobs=(-9.0, -8.0, -7.0, -0.1, -0.2, -0.3), tokens=tokens)
    answer = engine("reclaim", ScriptedLM(lambda request: [said] * request.params.n)).answer(QUESTION)
    assert [c.text for c in answer.kept_claims] == ["The lamp was lit in 1871."]
    assert "answered_by" not in answer.metadata


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_without_a_reader_the_reason_is_that_nothing_was_written(pipeline: Any) -> None:
    answer, _ = ask(pipeline, lambda request: "", signals="support_only")
    assert (answer.abstained, answer.reason) == (True, "replies unusable")


@pytest.mark.parametrize(
    "words", ["I don't know.", "The passages do not answer the question.", "The context provided doesn't mention it."]
)
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_decline_is_a_signal_beside_the_readers_word_and_no_verdict(pipeline: Any, words: str) -> None:
    def reply(request: Any) -> str:
        return "80" if "0 to 100" in request.prompt.text else words

    believed, _ = ask(pipeline, reply, compete=False)
    assert (believed.abstained, believed.reason) == (True, "passages do not answer")
    assert "answered_by" not in believed.metadata
    answer, _ = ask(pipeline, reply)  # the reader is sure
    assert answer.text == "The lamp was lit in 1871. [1]"
    assert answer.metadata["answered_by"] == "embedded default"
    assert not answer.calibrated


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_model_that_keeps_to_the_form_writes_the_answer_itself(pipeline: Any) -> None:
    answer, _ = ask(pipeline, well, critic=Critic())
    assert not answer.abstained
    assert "answered_by" not in answer.metadata


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_half_an_emoji_in_a_passage_is_no_reason_to_fail(pipeline: Any) -> None:
    shelf = Shelf([Passage("lamp", "The lamp was lit in 1871. \ud83d It burned whale oil.", "Lamps \ud83d")])
    answer = engine(pipeline, ScriptedLM(well), shelf).answer(QUESTION)
    assert "1871" in answer.text
    assert not answer.abstained


def test_a_provider_without_a_limit_of_tokens_does_not_cost_a_call_for_each_sentence() -> None:
    long = " ".join(f"The lamp number {i} was lit in 1871." for i in range(2000))
    answer, lm = ask("research", lambda r: long if "Write" in r.prompt.text else "95", research=SMALL["research"])
    assert len(lm.requests) < 200  # of 2,000 sentences
    assert answer.usage.calls == len(lm.requests)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_pair_that_is_written_four_times_is_shown_and_judged_once(pipeline: Any) -> None:
    critic = WordCritic()
    lm = ScriptedLM(lambda r: [Sample("\n".join([well(r)] * (4 if "\nS1: " in r.prompt.text else 1)))] * r.params.n)
    answer = engine(pipeline, lm, critic=critic).answer(QUESTION)
    pairs = [(c.text, tuple(x.quote for x in c.citations)) for c in answer.claims]
    assert len(pairs) == len(set(pairs))
    assert answer.text.count("The lamp was lit in 1871.") <= 1
    if pipeline in ("composed", "reclaim"):
        assert 4 not in critic.batches


@pytest.mark.parametrize(
    ("said", "expected"),
    [("yes", 0.9), ("Yes.", 0.9), ("no", 0.1), ("yesterday", None), ("none", None), ("yes, but", None), ("", None)],
)
def test_a_first_token_counts_only_if_it_is_a_verdict(said: str, expected: float | None) -> None:
    found = yes_of_first_token(Generation((Sample(said, logprobs=(float(np.log(0.9)),)),)))
    assert found == (pytest.approx(expected) if expected is not None else None)


@pytest.mark.parametrize("error", [ContextOverflowError(900, 200), BackendUnavailableError("There is no connection.")])
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_context_too_small_for_any_passage_and_a_server_that_is_down_are_errors_everywhere(
    pipeline: Any, error: LanguageModelError
) -> None:
    with pytest.raises(type(error), match=error.message):
        ask(pipeline, lambda request: error)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_context_too_small_for_all_passages_gets_fewer_and_the_trace_says_so(pipeline: Any) -> None:
    def reply(request: Generate) -> str | Exception:
        return ContextOverflowError(900, 200) if "Captain" in request.prompt.text else well(request)

    question = "When was the lamp of the Marrow lit?"
    answer, _ = ask(pipeline, reply, question=question)
    assert "1871" in answer.text
    assert any(d.kind == "context" for d in answer.trace), answer.trace
    with pytest.raises(ContextOverflowError):
        ask(pipeline, reply, question=question, on_overflow="raise")


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_where_nothing_is_found_that_is_the_reason_and_costs_no_call_to_write(pipeline: Any) -> None:
    answer, lm = ask(pipeline, well, question="Who painted zebras?")
    assert (answer.abstained, answer.reason) == (True, "nothing retrieved")
    assert (lm.requests == []) is (pipeline in ("composed", "reclaim", "research"))  # the others ask before they look
