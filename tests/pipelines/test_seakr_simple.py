"""SeaKR on questions of one step."""

from __future__ import annotations

from typing import Any

import pytest

from shared_core.lm.base import Capabilities, Generate, Sample
from shared_core.lm.scripted import ScriptedLM
from tests.pipelines.scripts import SURE, UNSURE, body, entries, scripted, states
from tests.pipelines.seakr_scripts import QUESTION, Library, engine


@pytest.mark.parametrize("form", ["paper", "published_code"])
@pytest.mark.parametrize("knows", [False, True])
def test_simple_questions_retrieve_at_most_once(knows: bool, form: str) -> None:
    """The paper reasons before it answers; the published code asks for the answer at once."""
    thinks = form == "paper"

    def reply(body: str) -> tuple[str, float]:
        assert body.endswith("\nAnswer:" if thinks else "So the answer is")
        lead = " He was from there. So the answer is" if thinks else ""
        if "Mira Dorn was born" in body:
            return f"{lead} Orm.\nQuestion: and more", SURE
        return f"{lead} Ulm.\n", SURE if knows else UNSURE

    lm, library = scripted(reply), Library()
    answer = engine(lm, library, multi_hop=False, form=form).answer(QUESTION)
    assert answer.claims[0].text == ("Ulm" if knows else "Orm")
    assert library.queries == ([] if knows else [QUESTION])
    assert lm.batches[:2] == ([2] if knows else [2, 6])  # then the judge
    assert [p.id for p in answer.passages] == ([] if knows else ["dorn"])


def test_a_chain_of_thought_that_does_not_say_the_answer_is_asked_for_it() -> None:
    def reply(body: str) -> tuple[str, float]:
        return (" Ulm.\n" if body.endswith("So the answer is") else " He was born in Ulm, on the river.\n"), SURE

    lm = scripted(reply)
    answer = engine(lm, Library([]), multi_hop=False).answer(QUESTION)
    assert answer.claims[0].text == "Ulm"
    asked = [r for r in lm.requests if isinstance(r, Generate) and r.prompt.text.endswith("So the answer is")]
    assert [body(r).split("Answer:")[1] for r in asked] == [" He was born in Ulm, on the river. So the answer is"]


def test_a_knowledge_chain_that_does_not_say_the_answer_is_does_not_lose_for_it() -> None:
    def answer(request: Generate) -> Any:
        whole = request.params.max_tokens == 400
        asked = request.prompt.text.endswith("So the answer is")
        text = "Dorn was born in Ulm, they say.\n" if whole else " Ulm.\n" if asked else "So the answer is Orm. "
        level = SURE if whole else UNSURE
        return text if request.params.n == 1 else [Sample(text, hidden_state=s) for s in states(4, level)]

    lm = ScriptedLM(answer, capabilities=Capabilities(hidden_states=True))
    reason = entries(engine(lm, threshold=50.0).answer(QUESTION), "reason")[0]
    assert (reason.outcome, reason.values["knowledge"]) == ("answer from knowledge", "Ulm")


def test_simple_questions_without_passages_keep_the_draft() -> None:
    answer = engine(scripted(lambda body: (" Ulm.\n", UNSURE)), Library([]), multi_hop=False).answer(QUESTION)
    assert answer.claims[0].text == "Ulm"


def test_simple_questions_whose_answer_is_unknown_are_not_answered() -> None:
    """SeaKR's own answer: the default's quotes are left out."""
    made = engine(scripted(lambda body: (" unknown.\n", SURE)), multi_hop=False)
    answer = made.over(Library(), made.settings.replace(compete=False)).answer(QUESTION)
    assert answer.abstained
    assert answer.claims == ()


@pytest.mark.parametrize("said", ["Ulm.", "[1] Ulm.", "Ulm [2]."])
def test_an_answer_from_memory_is_shown_only_where_that_is_allowed(said: str) -> None:
    def asked(**options: Any) -> Any:
        lm = scripted(lambda body: (f" So the answer is {said}\n", SURE), capabilities=Capabilities(hidden_states=True))
        made = engine(lm, Library([]), multi_hop=False)
        calibrated = made.over(Library([]), made.settings.replace(target_accuracy=0.05, **options))
        return calibrated.answer(QUESTION)

    default = asked()
    assert default.abstained
    assert "Ulm" not in default.text
    assert entries(default, "quote")[0].outcome == "none"
    allowed = asked(allow_answers_without_citation=True)
    assert [c.text for c in allowed.claims] == ["Ulm"]
    assert not entries(allowed, "quote")
    assert "[" not in allowed.text
