from __future__ import annotations

from typing import Any

import pytest

from shared_core.errors import ContextOverflowError, GenerationError, SettingsError
from shared_core.evaluation.baselines import Plain, declines
from shared_core.evaluation.compare.run_folder import describe
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.base import Generate
from shared_core.lm.scripted import ScriptedLM
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Passage
from tests.fakes import FirstSentenceReader, Shelf

PASSAGES = [Passage(f"p{i}", f"Lamp {i} burns whale oil.", "Lamps") for i in range(5)]


def plain(reply: Any, *, retrieve: bool = True, **settings: Any) -> tuple[Plain, ScriptedLM, Shelf]:
    lm, shelf = ScriptedLM(reply), Shelf(PASSAGES)
    engine = SelfReflectEngine(shelf, lm, SelfReflectSettings(**settings), reader=FirstSentenceReader())
    return Plain(engine, retrieve=retrieve), lm, shelf


def ask(system: Plain, question: str = "What does the lamp burn?") -> Answer:
    (answer,) = system.answer_many([question])
    assert isinstance(answer, Answer), answer
    return answer


def test_one_retrieval_one_prompt_no_checks() -> None:
    system, lm, shelf = plain(lambda request: " Coal.", top_k=3)
    answer = ask(system)
    assert (answer.text, answer.abstained, answer.claims, answer.confidence) == ("Coal.", False, (), None)
    assert [p.id for p in answer.passages] == ["p0", "p1", "p2"]
    assert shelf.queries == ["What does the lamp burn?"]
    (request,) = lm.requests
    assert isinstance(request, Generate)
    assert all(p.text in request.prompt.text for p in answer.passages)
    assert request.params.n == 1
    assert request.params.temperature == 0
    assert answer.usage.calls == 1


def test_closed_book_never_retrieves() -> None:
    system, lm, shelf = plain(lambda request: "Oil.", retrieve=False)
    assert ask(system).passages == ()
    assert shelf.queries == []
    assert "whale" not in lm.requests[0].prompt.text


@pytest.mark.parametrize(
    "reply", ["", "  \n", "I do not know.", "I don't know, the passages say nothing.", "“I cannot answer"]
)
def test_a_model_that_declines_abstains(reply: str) -> None:
    answer = ask(plain(lambda request: reply)[0])
    assert answer.abstained
    assert answer.reason == "model does not know"


def test_an_unknown_soldier_is_an_answer() -> None:
    assert not declines("The unknown soldier. I do not know more.")


def test_what_does_not_fit_is_left_out_from_the_end() -> None:
    def reply(request: Generate) -> Any:
        return ContextOverflowError("Too long.") if request.prompt.text.count("whale") > 2 else "Oil."

    assert [p.id for p in ask(plain(reply)[0]).passages] == ["p0", "p1"]
    (error,) = plain(reply, on_overflow="raise")[0].answer_many(["What does the lamp burn?"])
    assert isinstance(error, ContextOverflowError)


def test_a_failure_is_that_questions_alone() -> None:
    def reply(request: Generate) -> Any:
        return GenerationError("Not now.") if "ship" in request.prompt.text else "Oil."

    first, second = plain(reply)[0].answer_many(["What does the lamp burn?", "What of the ship?"])
    assert isinstance(first, Answer)
    assert isinstance(second, GenerationError)


def test_without_a_model_there_is_nothing_to_ask() -> None:
    with pytest.raises(SettingsError, match="language model"):
        Plain(SelfReflectEngine(Shelf()))


def test_only_what_matters_to_it_describes_it() -> None:
    def described(**settings: Any) -> dict[str, Any]:
        return describe(plain(lambda request: "x", **settings)[0])

    assert described(target_accuracy=0.9) == described()
    assert described(top_k=3) != described()
