"""Models that were trained on none of the forms: what they copy, deny or refuse is no answer, and costs no more than it
must."""

from __future__ import annotations

from typing import Any

import pytest

from shared_core import SelfReflectEngine
from shared_core.abstention.refusals import is_refusal
from shared_core.lm.base import Capabilities, Generate
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.self_rag.loop import nearest_by_words
from shared_core.types import Passage
from tests.fakes import Critic, Shelf, published
from tests.pipelines.research_scripts import Model, ask

QUESTION = "When was the lamp lit?"


@pytest.mark.parametrize("echo", ["…", "one sentence", "quoted sentences."])
def test_a_claim_model_that_copies_the_form_is_asked_again_without_it(echo: str) -> None:
    quotes = iter(["The lamp was lit in 1871.", "It burned whale oil."])

    def reply(request: Generate) -> Any:
        if request.model == "claim":
            return echo if "Use this form" in request.prompt.text else "It was lit then."
        quote = next(quotes, None)
        return f"According to the citation: <reference> {quote} </reference>" if quote else ""

    lm = ScriptedLM(reply, capabilities=Capabilities(grammar=True))
    engine = SelfReflectEngine(Shelf(), lm, published(pipeline="reclaim"), judge=Critic())
    answer = engine.answer(QUESTION)
    assert [c.text for c in answer.claims] == ["It was lit then."]  # of both quotes, said once
    assert len(answer.claims[0].citations) == 2
    asked = [r.prompt.text for r in lm.requests if isinstance(r, Generate) and r.model == "claim"]
    assert ["Use this form" in text for text in asked] == [True, False, False]


REFUSALS = [
    "I'm sorry, but I can't assist with that.", "I apologize, but I cannot answer that from the passages.",
    "I'm just a language model and can't help with that.", "As a large language model, I cannot give opinions.",
    "Sorry, that's beyond my current scope. Let's talk about something else.", "I am unable to answer this question.",
    "I can't provide information on that.", "I must decline to answer.", "My apologies, but I do not have that answer.",
    "As an AI language model, I don't have access to it.", "It is not possible to determine this from the text.",
    "Not enough information.", "I have no information about this.", "I do not know.", "Sorry, no.", "NO ANSWER",
    "As an AI I cannot say.", "The document doesn't say.", "None of the passages mention it.",
    "The text says nothing about it.",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSALS)
def test_refusals_in_the_wording_of_many_providers(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize("text", [
    "I'm sorry, but it was probably 1871.", "Sorry Day is on 26 May, but not in 1871.",
    "I am not sure, but it was Ada.", "Ida Voss was not known.", "Sorrow was her theme.", "The document says so.",
    "The passages do not say when, but it was in 1871.", "The text was lit.",
])  # fmt: skip
def test_an_apology_may_go_on_to_answer(text: str) -> None:
    assert not is_refusal(text)


def test_the_sentence_that_holds_the_figure_is_cited() -> None:
    passage = Passage("p", "The bridge over the Thale was opened. The Thale was bridged by Mira Dorn in 2001.")
    spans = [passage.span(0, 37), passage.span(38, len(passage.text))]
    assert nearest_by_words("The bridge was opened in 2001.", spans)[0].start == 0  # both: one has the words
    assert nearest_by_words("The bridge of 2001.", spans) == [spans[1]]


def test_sentences_of_one_claim_are_not_split_and_the_others_are_in_one_request() -> None:
    texts = [f"The lamp was lit in 187{i}. It burned whale oil, and it sank." for i in range(6)]
    model = Model([texts])
    answer = ask(model, samples=6, rounds=3)
    assert model.counts["split"] == 1
    assert answer.metadata["search"]["sentences_split"] == 6


def test_no_second_round_where_nothing_of_the_best_answer_is_in_doubt() -> None:
    model = Model([["The lamp was lit in 1871."]])
    answer = ask(model, rounds=3)
    assert answer.text == "The lamp was lit in 1871. [1]"
    assert answer.metadata["search"]["rounds"] == 1


def test_nor_where_nothing_at_all_is_likely() -> None:
    answer = ask(Model([["The lamp sank."]]), rounds=3)
    assert answer.abstained
    assert answer.metadata["search"]["rounds"] == 1
