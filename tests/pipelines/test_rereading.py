"""Where what was quoted is refused, the model's short answer from the same passages is judged like any other claim."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from shared_core import SelfReflectEngine
from shared_core.errors import BackendUnavailableError, ContextOverflowError, GenerationError, ResponseError
from shared_core.lm.base import Capabilities, Generate, Sample
from shared_core.lm.scripted import ScriptedLM
from shared_core.types import Answer, Passage
from tests.fakes import PASSAGES, Critic, FirstSentenceReader, Shelf, published
from tests.pipelines.scripts import DEMO

QUESTION = "When was the lamp lit?"
QUOTED = "<reference>S1</reference><claim>It was painted red.</claim>"
FOUND = " 1871."


def writes(short: Any, quoted: str = QUOTED) -> Callable[[Generate], Any]:
    return lambda request: short if request.prompt.text.endswith("So the answer is") else quoted


def answered(
    lm: ScriptedLM, question: str = QUESTION, *, shelf: Sequence[Passage] = PASSAGES, **settings: Any
) -> Answer:
    doubts = Critic(lambda quote, claim: 0.05 if "red" in claim else 0.95)
    engine = SelfReflectEngine(Shelf(shelf), lm, published(**settings), judge=doubts, reader=FirstSentenceReader(0.9))
    return engine.answer(question)


def ask(
    reply: Callable[[Generate], Any], question: str = QUESTION, abilities: Capabilities | None = None, **settings: Any
) -> tuple[Answer, int]:
    """The answer, and how often the model was asked for a short one without steps."""
    lm = ScriptedLM(reply, capabilities=abilities)
    answer = answered(lm, question, **{"seakr": {"multi_hop": False}, **settings})
    asked = [r for r in lm.requests if isinstance(r, Generate) and r.prompt.text.endswith("So the answer is")]
    return answer, len(asked)


WORKS = [*PASSAGES, Passage("works", "The lamp was new. It came with the tower.")]


def in_steps(lm: ScriptedLM) -> list[Generate]:
    """The requests of a model that was asked to think."""
    return [r for r in lm.requests if isinstance(r, Generate) and "Answer in the same format" in r.prompt.text]


def test_the_short_answer_stands_where_the_quote_is_refused() -> None:
    answer, asked = ask(writes(FOUND))
    assert asked == 1
    assert answer.text == "1871 [1]"
    (span,) = answer.numbered_spans()
    assert span.text == "The lamp was lit in 1871."
    assert [c.status for c in answer.claims] == ["kept", "dropped"]


def test_nothing_is_asked_again_where_a_quote_is_sure_enough() -> None:
    answer, asked = ask(writes(FOUND, "<reference>S1</reference><claim>It was lit in 1871.</claim>"))
    assert asked == 0
    assert answer.text == "It was lit in 1871. [1]"


def test_a_model_that_says_that_nothing_answers_is_not_asked_to_think_again() -> None:
    answer, asked = ask(writes(FOUND, "NO ANSWER"))
    assert asked == 0
    assert answer.abstained


def test_it_can_be_turned_off() -> None:
    answer, asked = ask(writes(FOUND), retry_short_answer=False)
    assert asked == 0
    assert answer.abstained


@pytest.mark.parametrize(
    "short", ["", " unknown.", " I cannot answer that.", " 1492.", " yes", "\x00", " The passages do not say."]
)
def test_an_answer_that_stands_in_no_passage_is_none(short: Any) -> None:
    answer, asked = ask(writes(short))
    assert asked == 1
    assert answer.abstained
    assert all(c.citations for c in answer.claims)


@pytest.mark.parametrize(
    "failure", [BackendUnavailableError("rate limit"), ResponseError("no JSON"), GenerationError("NaN")]
)
def test_a_failure_on_the_second_call_is_raised_and_not_called_a_lack_of_the_documents(failure: Any) -> None:
    with pytest.raises(type(failure), match=failure.message):
        ask(writes(failure))


def test_a_second_prompt_that_fits_with_no_passage_is_left_out_or_raised_as_asked() -> None:
    reply = writes(ContextOverflowError(200, 100))
    with pytest.raises(ContextOverflowError):
        ask(reply, on_overflow="raise")
    answer, asked = ask(reply, on_overflow="drop")
    assert asked == 1
    assert answer.abstained
    assert any(d.kind == "read again" and d.outcome == "left out" for d in answer.trace)


@pytest.mark.parametrize(("short", "shown"), [(" The lamp", False), (" lamp", False), (" 1871", True)])
def test_saying_what_was_asked_about_is_no_answer(short: str, shown: bool) -> None:
    assert ask(writes(short))[0].abstained is not shown


def test_one_of_several_that_are_offered_is_an_answer() -> None:
    assert ask(writes(" 1871"), "Was the lamp lit in 1871 or 1872?")[0].text == "1871 [1]"


def test_a_refused_short_answer_is_not_shown() -> None:
    answer, _ = ask(writes(" red"), target_accuracy=0.96)
    assert answer.abstained


def test_it_keeps_within_the_calls_that_are_allowed() -> None:
    answer, asked = ask(writes(FOUND), max_calls=1)
    assert asked == 0
    assert answer.reason == "out of budget"


def test_passages_that_do_not_fit_are_left_out() -> None:
    def reply(request: Generate) -> Any:
        if not request.prompt.text.endswith("So the answer is"):
            return QUOTED
        long = request.prompt.text.count("\n[") > 1
        return ContextOverflowError(200, 100) if long else FOUND

    answer, _ = ask(reply, "When was the lamp of the captain lit?")
    assert not answer.abstained
    assert any(d.kind == "context" for d in answer.trace)


def test_how_probable_its_words_were_is_told_but_decides_nothing_by_rule() -> None:
    sample = Sample(FOUND, tokens=(" 18", "71", "."), logprobs=(math.log(0.5), math.log(0.5), math.nan))

    def reply(request: Generate) -> Any:
        return sample if request.prompt.text.endswith("So the answer is") else QUOTED

    answer, _ = ask(reply, abilities=Capabilities(token_logprobs=True))
    shown = answer.kept_claims[0]
    assert shown.signals.likely == pytest.approx(0.5)
    assert answer.confidence is not None
    assert answer.confidence > 0.5


@pytest.mark.parametrize(
    ("written", "calls"),
    [(" It was lit when the tower was done. So the answer is: 1871.", 1), (" The tower was done in 1871.", 2)],
)
def test_questions_of_several_steps_are_thought_over(written: str, calls: int) -> None:
    """Where the steps do not end in an answer, it is asked for."""

    def reply(request: Generate) -> str:
        text = request.prompt.text
        return FOUND if text.endswith("So the answer is") else written if text.endswith("\nAnswer:") else QUOTED

    lm = ScriptedLM(reply)
    assert answered(lm, shelf=WORKS).text == "1871 [1]"
    assert len(in_steps(lm)) == calls


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        ([" Santa Cruz-" + "Santa Cruz-" * 20], None),
        ([" The lamp came with the tower, which was", " done in 1871. So the answer is 1871."], "1871 [1]"),
    ],
)
def test_a_reply_that_goes_round_in_circles_is_not_paid_for(pieces: list[str], shown: str | None) -> None:
    """A model that keeps its prompt in memory is asked piece by piece; one that repeats itself is stopped."""

    def reply(request: Generate) -> Any:
        text = request.prompt.text
        if "Answer in the same format" not in text:
            return QUOTED
        before = text.rpartition("\nAnswer:")[2]
        written = pieces[0] if not before else pieces[1]
        return Sample(written, finish_reason="length" if written is pieces[0] else "stop")

    lm = ScriptedLM(reply, capabilities=Capabilities(token_prompts=True))
    answer = answered(lm, shelf=WORKS)
    assert [r.params.max_tokens for r in in_steps(lm)] == [100] * len(pieces)
    assert answer.abstained if shown is None else answer.text == shown


@pytest.mark.parametrize(
    ("said", "ended", "shown"),
    [("In 1871.", "eos", True), ("In 1871", "length", False), ("In 1872.", "eos", False), ("No.", "eos", False)],
)
def test_a_short_reply_that_a_passage_holds_is_the_answer_and_the_trace_tells_what_was_judged(
    said: str, ended: Any, shown: bool
) -> None:
    def reply(request: Generate) -> Any:
        if request.prompt.text.endswith("So the answer is"):
            return " unknown."
        return Sample(f" {said}", finish_reason=ended) if "Q0?" in request.prompt.text else QUOTED

    answer, asked = ask(reply, "When was the lamp of the captain lit?", seakr={"demonstrations": (DEMO,)})
    again = [d for d in answer.trace if d.kind == "read again"]
    assert (answer.text == "In 1871 [1]", asked) == ((True, 0) if shown else (False, 1))
    assert again[-1].reason == (said if shown else f"unknown (asked for after: {said})")
