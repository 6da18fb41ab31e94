"""The checker as an evaluator of LlamaIndex."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core.base.response.schema import Response
from llama_index.core.evaluation import BaseEvaluator, BatchEvalRunner, EvaluationResult

from llamaindex_selfreflect import SelfReflectChecker
from shared_core.errors import InputError, SettingsError
from tests.fakes import WordCritic
from tests.llamaindex.li_fakes import NodeShelf, nodes

LIT, WRONG, FLEW = "The lamp was lit in 1871.", "The lamp was lit in 1950.", "Captain Venn flew to the moon."
CONTEXTS = [n.text for n in nodes()]


def checker(retriever: Any = None, **arguments: Any) -> SelfReflectChecker:
    return SelfReflectChecker(retriever, critic=WordCritic(), **arguments)


def test_it_is_an_evaluator_with_passing_score_and_feedback() -> None:
    result = checker().evaluate("When was it lit?", f"{LIT} {WRONG} {FLEW}", CONTEXTS)
    assert isinstance(checker(), BaseEvaluator)
    assert isinstance(result, EvaluationResult)
    assert (result.passing, result.query, result.contexts) == (False, "When was it lit?", CONTEXTS)
    assert result.score == pytest.approx(0.05)
    first, contradicted, unsupported = (result.feedback or "").splitlines()
    assert first == "2 of 3 claims are not supported by the contexts."
    assert contradicted.startswith(f"- contradicted (0.05): “{WRONG}”; contradicted by “{LIT}”")
    assert unsupported.startswith("- unsupported")
    assert checker().evaluate(response=LIT, contexts=CONTEXTS).passing


def test_the_score_may_be_the_share_that_is_supported() -> None:
    assert checker(score="share").evaluate(response=f"{LIT} {WRONG}", contexts=CONTEXTS).score == 0.5


@pytest.mark.parametrize("score", ["weakest", "share"])
def test_a_response_that_only_declines_passes_without_a_score(score: Any) -> None:
    result = checker(score=score).evaluate(response="I'm sorry, but I don't know.", contexts=CONTEXTS)
    assert (result.passing, result.score) == (True, None)
    assert result.feedback == "The response declines to answer: it makes no claim."


def test_of_a_response_the_nodes_are_cited() -> None:
    result = checker().evaluate_response("When?", Response(LIT, source_nodes=nodes()))
    answer: Any = result.answer  # type: ignore[attr-defined]
    assert answer.numbered_spans()[0].passage_id == "lamp"
    assert result.passing


def test_without_contexts_the_retriever_is_asked_for_each_claim() -> None:
    shelf = NodeShelf()
    result = checker(shelf).evaluate("What of the lamp?", f"{LIT} {FLEW}")
    assert [bundle.query_str for _, bundle in shelf.asked] == ["What of the lamp?", LIT, FLEW]
    assert result.passing is False
    with pytest.raises(InputError, match="nothing to check the answer against"):
        checker().evaluate("q", LIT)


async def test_async_gives_the_same() -> None:
    made = checker(NodeShelf())
    sync = made.evaluate("When?", f"{LIT} {WRONG}")
    found = await made.aevaluate("When?", f"{LIT} {WRONG}")
    assert found.model_dump(exclude={"answer"}) == sync.model_dump(exclude={"answer"})
    assert found.answer == sync.answer
    assert (await made.aevaluate_response("q", Response(LIT, source_nodes=nodes()))).passing


@pytest.mark.parametrize("response", [None, "", " \n"])
def test_a_response_without_text_is_an_invalid_result(response: str | None) -> None:
    result = checker().evaluate("q", response, CONTEXTS)
    assert (result.invalid_result, result.passing, result.score) == (True, None, None)
    assert result.invalid_reason


def test_no_contexts_is_not_passing_and_has_no_score() -> None:
    result = checker().evaluate("q", LIT, [])
    assert (result.passing, result.score, result.invalid_result) == (False, None, False)
    assert "unknown" in (result.feedback or "")


def test_it_runs_beside_other_evaluators() -> None:
    runner = BatchEvalRunner({"check": checker()}, workers=2)
    found = asyncio.run(
        runner.aevaluate_responses(
            ["q", "q"], [Response(t, source_nodes=nodes()) for t in (LIT, WRONG)], reference=["x", "y"]
        )
    )
    assert [r.passing for r in found["check"]] == [True, False]


def test_wrong_arguments_are_refused() -> None:
    for arguments in ({"score": "mean"}, {"settings": "fast"}, {"llm": 5}, {"retriever": 5}):
        with pytest.raises(InputError):
            SelfReflectChecker(**arguments)
    with pytest.raises(SettingsError):
        SelfReflectChecker(target_accuracy=2)
    with pytest.raises(InputError, match="list of texts"):
        checker().evaluate("q", LIT, "one text")
