"""What goes out, on every side: no control string that trusted text does not hold by itself, and nothing lost."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.lm import Generate, Generation, Part, Prompt, SamplingParams
from shared_core.lm.chat.layout import COMMON_CONTROL_STRINGS, MARK, as_text, cut_text, restore
from tests.contract.sides import Side

COUNT = 4_000


def hostile(count: int, seed: int = 0) -> Iterator[list[Part]]:
    """Prompts of three parts with control strings cut at the borders, inside of parts, overlapping and disguised."""
    rng = random.Random(seed)
    for i in range(count):
        control = rng.choice(COMMON_CONTROL_STRINGS)
        text = (
            rng.choice(["", "a ", "<", "[", MARK, "<|im_"])
            + control
            + rng.choice(["", " b", ">", "|>", "]", "start|>"])
        )
        if rng.random() < 0.2:
            text += rng.choice(COMMON_CONTROL_STRINGS)
        if rng.random() < 0.15:
            text = text.upper() if rng.random() < 0.5 else text.replace("<", "＜")
        first, second = sorted(rng.sample(range(len(text) + 1), 2))
        pieces = [text[:first], text[first:second], text[second:]]
        if rng.random() < 0.3:
            pieces[rng.randrange(3)] += rng.choice([*COMMON_CONTROL_STRINGS, MARK, MARK * 2, "é", "ﬁ"])
        trust = rng.choice([(True, False, True), (False, True, False)]) if i % 4 else [rng.random() < 0.5] * 3
        yield [Part(p, t, "user") for p, t in zip(pieces, trust)]


CONTROL = re.compile("(?=(" + "|".join(map(re.escape, map(str.lower, COMMON_CONTROL_STRINGS))) + "))")


def occurring(text: str) -> Counter[str]:
    """Control strings in a text, in any case of letters."""
    return Counter(m[1] for m in CONTROL.finditer(text.lower()))


def meant(parts: Sequence[Part]) -> Counter[str]:
    """Control strings that runs of trusted text hold by themselves."""
    runs = [""]
    for part in parts:
        if part.trusted:
            runs[-1] += part.text
        elif part.text:
            runs.append("")
    return sum(map(occurring, runs), Counter())


def assert_neutralised(parts: Sequence[Part]) -> None:
    whole = "".join(p.text for p in parts)
    text, changed = as_text(parts, COMMON_CONTROL_STRINGS)
    assert occurring(text) == meant(parts)  # nothing more, and what is trusted stays whole
    assert restore(text) == whole
    assert changed == (text != whole)
    pieces = cut_text(parts, COMMON_CONTROL_STRINGS)
    assert "".join(pieces) == whole
    assert sum(map(occurring, pieces), Counter()) == meant(parts)


def test_no_control_string_straddles_three_parts() -> None:
    for parts in hostile(COUNT):
        assert_neutralised(parts)
    straddling = sum(occurring("".join(p.text for p in parts)) != meant(parts) for parts in hostile(COUNT))
    assert straddling > COUNT / 2


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    st.lists(
        st.builds(
            Part,
            st.lists(
                st.sampled_from(["<", "|", "im_", "start", "end", "|>", ">", "s", "/", MARK, "[", "]", "INST", "ﬁ"]),
                max_size=5,
            ).map("".join),
            st.booleans(),
        ),
        max_size=9,
    )
)
def test_nor_any_number_of_parts(parts: list[Part]) -> None:
    assert_neutralised(parts)


@pytest.mark.parametrize("completes", [False, True])
def test_nothing_of_it_reaches_a_model(side: Side, completes: bool) -> None:
    """A model that says back what stands between two words gives back the original, and saw nothing of it."""

    def between(prompt: str) -> str:
        return re.sub(r"^\d+: ", "", prompt.partition("BEGIN ")[2].rpartition(" END")[0])

    prompts = list(hostile(COUNT // 10 if side.raises else 200, seed=completes))
    framed = [
        Prompt((Part(f"BEGIN {i}: ", True, "user"), *parts, Part(" END", True, "user")))
        for i, parts in enumerate(prompts)
    ]
    lm = side.lm(between, completes=completes)
    found = lm.generate([Generate(p, SamplingParams(max_tokens=200)) for p in framed])
    for sent in side.model.prompts:
        number = re.search(r"BEGIN (\d+): ", sent)
        assert number is not None
        assert occurring(between(sent)) == meant(prompts[int(number[1])])
    for parts, result in zip(prompts, found):
        if not meant(parts):  # thoughts that trusted text opens are the script's own, and are taken off
            assert isinstance(result, Generation), result
            assert result.text == "".join(p.text for p in parts)


def test_roles_are_messages_and_a_raw_prompt_is_one(side: Side) -> None:
    prompt = Prompt.trusted("Be brief.", "system") + Prompt.trusted("Who? ", "user") + Prompt.untrusted("Ada", "user")
    lm = side.lm(lambda _: "yes")
    lm.generate([Generate(prompt)])
    lm.generate([Generate(Prompt.trusted("Say yes: "))])
    assert side.model.prompts == ["Be brief.\nWho? Ada", "Say yes: "]


def test_words_put_into_the_models_mouth_are_asked_to_be_continued(side: Side) -> None:
    prompt = Prompt.trusted("Question?", "user") + Prompt.trusted("The answer ", "assistant")
    prompt += Prompt.untrusted("is", "assistant")
    side.lm(lambda _: "yes").generate([Generate(prompt)])
    assert side.model.prompts[0].startswith("Question?")
    assert side.model.prompts[0].endswith("The answer is")


def test_a_base_model_is_given_the_chat_as_one_text(framework: Side) -> None:
    prompt = Prompt.trusted("Question?", "user") + Prompt.trusted("The answer is", "assistant")
    framework.lm(lambda _: "yes", completes=True).generate([Generate(prompt)])
    assert "Question?" in framework.model.prompts[0]
    assert framework.model.prompts[0].rstrip().removesuffix("assistant:").rstrip().endswith("The answer is")


def test_half_a_character_does_not_stop_a_prompt(side: Side) -> None:
    (found,) = side.lm(lambda _: "yes").generate([Generate(Prompt.untrusted("a \ud83d b", "user"))])
    assert isinstance(found, Generation), found
    assert side.model.prompts == ["a \ufffd b"]


@pytest.mark.parametrize(
    "message",
    [
        "Cannot use chat template functions because tokenizer.chat_template is not set and no template was passed!",
        "This model does not have a chat template",
        "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template",
    ],
)
async def test_a_model_without_a_chat_template_is_completed(message: str) -> None:
    """LlamaIndex's ``HuggingFaceLLM`` with a base model: its chats fail, completions do not."""
    from llamaindex_selfreflect import LlamaIndexLM
    from tests.contract.sides import LlamaIndexSide

    prompt = Prompt.trusted("Who wrote it?", "user")
    for is_chat in (False, True):
        side = LlamaIndexSide()
        lm: Any = side.lm(lambda p: "Ada", completes=True)

        def refuse(messages: Any) -> str:
            raise ValueError(message)

        class Base(type(lm.llm)):  # type: ignore[misc]
            @property
            def metadata(self) -> Any:
                return super().metadata.model_copy(update={"is_chat_model": is_chat})  # noqa: B023

        base = LlamaIndexLM(Base(side.model, messages_to_prompt=refuse))
        for found in (base.generate([Generate(prompt)] * 2), await base.agenerate([Generate(prompt)])):
            assert all(isinstance(r, Generation) and r.text == "Ada" for r in found), found
        assert set(side.model.prompts) == {"User: Who wrote it?\nAssistant:"}
