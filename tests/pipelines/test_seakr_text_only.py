"""SeaKR with a model that gives nothing but text, as most APIs do: what is searched for, and what answers cite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shared_core.lm.base import Generate
from shared_core.lm.scripted import ScriptedLM
from shared_core.types import Answer
from tests.pipelines.scripts import HEAD, entries
from tests.pipelines.seakr_scripts import BORN, BUILT, QUESTION, SAID, Library, after_answer, engine


def text_only(reply: Callable[[str], str], **more: Any) -> tuple[Answer, Library]:
    """Ask a model without probabilities or states."""

    def answer(request: Generate) -> str | list[str]:
        text, n = request.prompt.text, request.params.n
        if not text.startswith(HEAD):
            return "90"  # a judge is asked
        said = reply(text[len(HEAD) :])
        return said if said or n == 1 else [f"Perhaps {i} built it. " for i in range(n)]

    lm, library = ScriptedLM(answer), Library()
    return engine(lm, library, threshold=None, rerank_passages=3, **more).answer(QUESTION), library


def hops(text: str) -> str:
    steps = after_answer(text)
    if "born in Orm" in steps:
        return SAID
    if "built by Mira Dorn" in steps:
        return BORN if "Mira Dorn was born" in text.split("Answer in the same")[0] else ""
    return BUILT if "built by Mira" in text else ""


def test_each_step_searches_with_what_the_last_one_found() -> None:
    answer, library = text_only(hops)
    assert library.queries == [QUESTION, f"{QUESTION} {BUILT.strip()}"]
    assert [s.text for s in answer.numbered_spans()] == ["Mira Dorn was born in Orm."]


def test_a_step_that_concludes_searches_for_nothing() -> None:
    answer, _ = text_only(hops)
    assert [d.outcome for d in entries(answer, "gate")] == ["retrieve", "retrieve", "know"]


@pytest.mark.parametrize(
    ("said", "quote"),
    [
        ("Orm, as everyone knows there", "Mira Dorn was born in Orm."),  # no sentence has these words
        ("The Velmora bridge was built by her", "The Velmora bridge was built by Mira Dorn."),
    ],
)
def test_an_answer_in_words_of_its_own_is_cited_by_the_sentence_that_supports_it(said: str, quote: str) -> None:
    def reply(text: str) -> str:
        return f"So the answer is {said}." if after_answer(text) else hops(text)

    def supports(claim: str, held: str) -> float:
        return 0.9 if held == quote else 0.1

    answer, _ = text_only(reply, critic=supports)
    assert quote in [s.text for c in answer.claims for citation in c.citations for s in citation.spans]
