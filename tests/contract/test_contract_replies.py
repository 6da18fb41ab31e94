"""What comes back, on every side: the answer alone, with its tokens, end and cost; or an error that says why."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from shared_core.citation import CitationIndex
from shared_core.errors import LanguageModelError, ResponseError
from shared_core.lm import Generate, Generation, Prompt, SamplingParams
from shared_core.lm.base import Sample
from shared_core.pipelines.reclaim.free import parse_reply
from shared_core.pipelines.reclaim.prompts import numbered_prompt
from shared_core.types import Passage
from tests.contract.sides import HANG, Answer, Side

ASK = Prompt.trusted("Answer briefly. ", "user") + Prompt.untrusted("When was the lamp lit?", "user")
PASSAGES = (Passage("lamp", "The lamp was lit in 1871. It burned whale oil."),)
INDEX = CitationIndex(PASSAGES)
NUMBERED = numbered_prompt("When was the lamp lit?", INDEX.sentences, PASSAGES)
GOOD = "<reference>S1</reference><claim>It was lit in 1871.</claim>"


def result(
    side: Side, said: Any, prompt: Prompt = ASK, *, completes: bool = False, kept: bool = True, **params: Any
) -> Any:
    lm = side.lm(said if callable(said) else lambda _: said, completes=completes, kept=kept, logprobs=True)
    return lm.generate([Generate(prompt, SamplingParams(**params))])[0]


def one(side: Side, said: Any, prompt: Prompt = ASK, *, completes: bool = False, **params: Any) -> Sample:
    found = result(side, said, prompt, completes=completes, **params)
    assert isinstance(found, Generation), found
    return found.samples[0]


def refused(side: Side, said: Any, **params: Any) -> LanguageModelError:
    found = result(side, said, kept=False, **params)  # its client learns that this model thinks
    assert isinstance(found, LanguageModelError), found
    return found


async def test_sync_and_async_give_the_same(side: Side) -> None:
    lm = side.lm(lambda prompt: f"<think>hm</think>{len(prompt)}")
    requests = [Generate(ASK + Prompt.untrusted("?" * i, "user"), SamplingParams(n=2)) for i in range(3)]
    found = lm.generate(requests)
    assert [r.text for r in found] == [str(len("Answer briefly. When was the lamp lit?") + i) for i in range(3)]
    assert [r.text for r in await lm.agenerate(requests)] == [r.text for r in found]


# --- thoughts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("thoughts", [
    "<think>Draft: 1899?</think>", "<think>\nDraft: 1899?\n</think>\n\n", "Draft: 1899?\n</think>\n",
    "<thinking>Draft: <think> is a tag. 1899?</thinking>", "<THINK >Draft: 1899?</THINK>",
    "<think>Draft</think><think>1899?</think>\n", "[THINK]Draft: 1899?[/THINK]", "◁think▷Draft: 1899?◁/think▷",
    "<seed:think>Draft: 1899?</seed:think>", "<|START_THINKING|>Draft: 1899?<|END_THINKING|>",
    "<|channel|>analysis<|message|>Draft: 1899?<|end|><|start|>assistant<|channel|>final<|message|>",
    "analysisDraft: 1899?assistantfinal",
])  # fmt: skip
@pytest.mark.parametrize("completes", [False, True])
def test_thoughts_are_no_part_of_the_answer(side: Side, thoughts: str, completes: bool) -> None:
    assert one(side, f"{thoughts}It was 1871.", completes=completes).text == "It was 1871."


def test_thoughts_after_the_answer_are_none_either(side: Side) -> None:
    assert one(side, "It was 1871. <think>or 1899?</think>").text.strip() == "It was 1871."
    assert one(side, "It was 1871. <think>or 1899").text.strip() == "It was 1871."


def test_a_rejected_draft_is_no_claim_and_a_number_in_thoughts_no_verdict(side: Side) -> None:
    draft = GOOD.replace("1871", "1899").replace("S1", "S2")
    text = one(side, f"<think>Perhaps {draft}. No, that is wrong: 12.</think>{GOOD}", NUMBERED).text
    assert [p.claim for p in parse_reply(text, INDEX, PASSAGES)] == ["It was lit in 1871."]


def test_thoughts_beside_the_text_are_left_there(side: Side) -> None:
    assert one(side, Answer("1871", thoughts="Draft: 1899?")).text == "1871"


def test_a_model_that_thinks_past_its_limit_is_asked_again_with_room(side: Side) -> None:
    def thinks(prompt: str) -> Answer:
        limit = side.model.seen[-1].options["max_tokens"]
        return Answer("<think>Let me see …", "length") if limit < 50 else Answer("<think>Let me see.</think>1871")

    lm = side.lm(thinks, thinking_tokens=100)
    params = SamplingParams(max_tokens=9, stop=("\n\n",))
    first = lm.generate([Generate(ASK, params)])[0]
    assert isinstance(first, Generation), first
    assert (first.text, first.usage.calls) == ("1871", 2)
    assert [s.options["max_tokens"] for s in side.model.seen] == [9, 109]
    assert not side.model.seen[1].options.get("stop")  # it would stop in the thoughts
    assert lm.generate([Generate(ASK, params)])[0].text == "1871"
    assert len(side.model.seen) == 3  # from then on there is room at once


@pytest.mark.parametrize("said", [Answer("<think>Let me see", "length"), Answer("", "length"), Answer(None, "length")])
def test_a_model_that_only_thinks_is_an_error_that_says_so(side: Side, said: Answer) -> None:
    error = refused(side, replace(said, prompt_tokens=30, generated_tokens=20))
    assert isinstance(error, ResponseError)
    assert "before it began to answer" in error.message
    assert "thinking_tokens" in error.hint
    # It was asked twice, the second time with more room, and both replies are paid for.
    assert (error.usage.calls, error.usage.prompt_tokens, error.usage.generated_tokens) == (2, 60, 40)


# --- echoes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "between", ["{}", " {}", "\nAssistant: {}", "\n\nAI: {}", "<|im_end|>\n<|im_start|>assistant\n{}"]
)
@pytest.mark.parametrize("before", ["", "Human: ", "<|im_start|>user\n", "<s> [INST] "])
def test_a_prompt_that_is_given_back_is_no_answer(side: Side, before: str, between: str) -> None:
    text = one(side, lambda prompt: before + prompt + between.format(GOOD), NUMBERED).text
    assert text.strip() == GOOD


@pytest.mark.parametrize("change", [str, lambda p: p.replace("\n", " "), lambda p: p[: len(p) // 2], str.rstrip])
@pytest.mark.parametrize("completes", [False, True])
def test_nothing_but_the_prompt_is_no_answer(side: Side, change: Any, completes: bool) -> None:
    text = one(side, lambda prompt: change(prompt), NUMBERED, completes=completes).text
    assert parse_reply(text, INDEX, PASSAGES) == []
    assert text.strip() == ""


def test_a_base_models_echo_is_taken_off(side: Side) -> None:
    sample = one(side, lambda prompt: f"{prompt} {GOOD}\nUser: And then?", NUMBERED, completes=True, stop=("\nUser:",))
    assert (sample.text.strip(), sample.stop) == (GOOD, "\nUser:")


def test_our_own_example_is_never_an_answer(side: Side) -> None:
    shown = next(line for line in "".join(p.text for p in NUMBERED.parts).splitlines() if "<claim>" in line)
    assert [p.claim for p in parse_reply(f"{shown}\n{GOOD}", INDEX, PASSAGES)] == ["It was lit in 1871."]
    text = one(side, f"{shown}\n{GOOD}", NUMBERED).text
    assert [p.claim for p in parse_reply(text, INDEX, PASSAGES)] == ["It was lit in 1871."]


@pytest.mark.parametrize("text", ["When was the lamp lit? In 1871.", "The lamp was lit in 1871.", "Answer: 1871"])
def test_an_answer_that_takes_up_the_question_stays(side: Side, text: str) -> None:
    assert one(side, text).text == text


# --- what is around the whole --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    "```\n{}\n```", "```xml\n{}\n```\n", "~~~\n{}\n~~~", "<think>x</think>\n```text\n{}\n```", "<answer>{}</answer>",
    "<answer>\n```\n{}\n```\n</answer>", "```\n{}\n", "  ```xml\n{}",
])  # fmt: skip
def test_a_fence_around_the_whole_is_taken_off(side: Side, text: str) -> None:
    assert one(side, text.format(GOOD), NUMBERED).text.strip() == GOOD


@pytest.mark.parametrize("text", ["See ```code```.", "```\na\n```\nand\n```\nb\n```", "```a```: 1871", "1 < 2 `x`"])
def test_other_fences_stay(side: Side, text: str) -> None:
    assert one(side, text).text == text


# --- ends ----------------------------------------------------------------------------------------------------------


def test_stop_strings_cut_at_the_first_and_the_longest_of_those_at_one_place(side: Side) -> None:
    sample = one(side, "one. two\n\nthree", stop=("\n", "\n\n", "two", ". "))
    assert (sample.text, sample.finish_reason, sample.stop) == ("one", "stop", ". ")
    sample = one(side, "one\n\nthree", stop=("\n", "\n\n"))
    assert (sample.text, sample.stop) == ("one", "\n\n")
    assert one(side, "one. two", stop=(".",), include_stop=True).text == "one."


def test_a_stop_string_in_the_thoughts_is_none(side: Side) -> None:
    sample = one(side, "<think>a\n\nb</think>\n\n1871\n\nMore", stop=("\n\n",))
    assert (sample.text, sample.stop) == ("1871", "\n\n")


@pytest.mark.parametrize(
    ("said", "finish"),
    [("length", "length"), ("max_tokens", "length"), ("MAX_TOKENS", "length"), ("stop", "eos"), ("", "eos")],
)
def test_the_end_is_told_in_our_words(side: Side, said: str, finish: str) -> None:
    assert one(side, Answer("1871", said)).finish_reason == finish


# --- replies without an answer -------------------------------------------------------------------------------------


@pytest.mark.parametrize("completes", [False, True])
def test_an_empty_reply_is_empty(side: Side, completes: bool) -> None:
    assert one(side, "", completes=completes).text == ""


@pytest.mark.parametrize("text", [None, ""])
def test_a_call_of_a_tool_is_an_error(side: Side, text: str | None) -> None:
    error = refused(side, Answer(text, "tool_calls", tool=True))
    assert isinstance(error, ResponseError)
    assert "tool" in error.message


@pytest.mark.parametrize("finish", ["content_filter", "SAFETY"])
@pytest.mark.parametrize("text", [None, "", "The lamp"])
def test_an_answer_that_is_withheld_is_an_error(side: Side, text: str | None, finish: str) -> None:
    error = refused(side, Answer(text, finish))
    assert isinstance(error, ResponseError)
    assert "withheld" in error.message


@pytest.mark.parametrize("finish", ["error", "abort", "insufficient_system_resource"])
def test_an_answer_that_broke_off_is_not_taken_for_whole(side: Side, finish: str) -> None:
    assert finish in refused(side, Answer("The lamp was lit in 18", finish)).message


# --- tokens and usage ----------------------------------------------------------------------------------------------


def tokens(*pieces: str) -> tuple[tuple[str, float], ...]:
    return tuple((p, -(i + 1) / 10) for i, p in enumerate(pieces))


def test_log_probabilities_are_those_of_the_answer(side: Side) -> None:
    pieces = ("<think>", "hm", "</think>", "\n\n", "It", " was", " 1871", ".", "\n\n", "More")
    sample = one(side, Answer("".join(pieces), tokens=tokens(*pieces)), logprobs=True, stop=("\n\n",))
    assert sample.text == "It was 1871."
    assert sample.tokens == ("It", " was", " 1871", ".")
    assert sample.logprobs == (-0.5, -0.6, -0.7, -0.8)
    assert side.model.seen[-1].options["logprobs"] is True


def test_tokens_that_are_parts_of_a_character_keep_their_log_probabilities(framework: Side) -> None:
    parts = tuple((bytes([byte]), -0.5) for byte in "né🙂".encode())
    sample = one(framework, Answer("né🙂", tokens=parts), logprobs=True)
    assert "".join(sample.tokens or ()) == "né🙂"
    assert sample.logprobs == (-0.5,) * len(parts)


def test_log_probabilities_behind_an_echo_are_those_of_the_answer(side: Side) -> None:
    def echo(prompt: str) -> Answer:
        pieces = (prompt, " 18", "71")
        return Answer("".join(pieces), tokens=tokens(*pieces))

    sample = one(side, echo, NUMBERED, logprobs=True)
    assert sample.text.strip() == "1871"
    assert sample.logprobs == (-0.2, -0.3)


@pytest.mark.parametrize("odd", [math.nan, -math.inf, math.inf, 0.5, -(10**400), 10**400, None, "low", True, [-1]])
def test_what_is_no_log_probability_is_unknown(side: Side, odd: Any) -> None:
    sample = one(side, Answer("yes!", tokens=(("yes", odd), ("!", -0.5))), logprobs=True)
    assert sample.logprobs is not None
    assert math.isnan(sample.logprobs[0])
    assert sample.logprobs[1] == -0.5


def test_usage_is_the_providers(side: Side) -> None:
    found = result(side, Answer("a", prompt_tokens=7, generated_tokens=2), n=2, temperature=1.0)
    assert (found.usage.calls, found.usage.prompt_tokens, found.usage.generated_tokens) == (2, 14, 4)


# --- time ----------------------------------------------------------------------------------------------------------


async def test_a_model_that_hangs_fails_alone(side: Side) -> None:
    def script(prompt: str) -> Any:
        return HANG if "bad" in prompt else "fine"

    bad, good = Generate(Prompt.trusted("bad one")), Generate(Prompt.trusted("good one"))
    lm = side.lm(script, timeout=1.0)
    for found in (lm.generate([bad, good, good]), await lm.agenerate([bad, good, good])):
        assert [isinstance(r, Generation) for r in found] == [False, True, True]
        assert "did not answer within 1 s" in found[0].message
        assert "timeout=" in found[0].hint
