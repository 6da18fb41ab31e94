"""The composed default with a language model: what the model allows for is used, and the trace says what was not."""

from __future__ import annotations

from typing import Any

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.lm.base import Generate
from shared_core.lm.scripted import ScriptedLM
from shared_core.types import Answer
from tests.fakes import Critic, FirstSentenceReader, Shelf, published
from tests.pipelines.scripts import WHITE

QUESTION = "When was the lamp lit?"
GOOD = "<reference>S1</reference><claim>It was lit in 1871.</claim>"


def ask(lm: Any, question: str = QUESTION, **settings: Any) -> Answer:
    return SelfReflectEngine(
        Shelf(), lm, published(**settings), judge=Critic(0.95), reader=FirstSentenceReader(0.9)
    ).answer(question)


def test_a_text_only_model_writes_cited_claims() -> None:
    answer = ask(ScriptedLM([GOOD]))
    assert answer.text == "It was lit in 1871. [1]"
    assert answer.numbered_spans()[0].text == "The lamp was lit in 1871."
    assert answer.metadata["pipeline"] == "composed"
    assert [d.kind for d in answer.trace] == ["gate", "citation", "write", "support", "confidence", "keep", "answer"]


def test_passages_can_be_re_ranked_by_reading() -> None:
    answer = ask(ScriptedLM([GOOD]), "the lamp and the captain", rerank="reading", top_k=1)
    assert len(answer.passages) == 1
    assert next(d for d in answer.trace if d.kind == "rerank").outcome == "1 of 2 passages"


def test_a_white_box_model_re_ranks_by_uncertainty(tiny_lm: Any) -> None:
    answer = ask(
        tiny_lm,
        "the lamp and the captain",
        seakr={"samples": 3, "max_step_tokens": 6},
        reclaim={"max_pairs": 1, "max_claim_tokens": 8},
    )
    assert next(d for d in answer.trace if d.kind == "rerank").values["method"] == "uncertainty"
    assert any(d.kind == "estimator" and d.outcome == "gram" for d in answer.trace)


def test_re_ranking_costs_no_generations_where_a_reader_is_there() -> None:
    """Eleven prompts of twenty-one generations each are no default, whatever the model shows."""
    lm = ScriptedLM(lambda request: [GOOD] * request.params.n, capabilities=WHITE)
    reader = FirstSentenceReader(0.2, 0.9)
    engine = SelfReflectEngine(Shelf(), lm, SelfReflectSettings(top_k=1, candidates=2), reader=reader)
    answer = engine.answer("the lamp and the captain")
    ranked = next(d for d in answer.trace if d.kind == "rerank")
    assert ranked.values["method"] in ("reading", "critic")
    assert len(answer.passages) == 1
    assert all(r.params.n == 1 for r in lm.requests if isinstance(r, Generate))
