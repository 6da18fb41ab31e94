"""Re-ranking somebody else's passages by uncertainty, or by reading."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.errors import CapabilityError, ContextOverflowError, InputError, QuestionError, SettingsError
from shared_core.facades.reranker import SelfReflectReranker
from shared_core.lm.base import Capabilities, Generate
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.rerank import least_uncertain
from shared_core.types import Passage
from shared_core.uncertainty import gram_uncertainty
from tests.fakes import PASSAGES, FirstSentenceReader
from tests.pipelines.scripts import SURE, made, scripted, states

QUESTION = "When was the lamp lit?"
LEVELS = {"alpha": 3.0, "beta": SURE, "gamma": 1.0}
GREEK = [Passage(name, f"This is {name}.") for name in LEVELS]


def by_passage(body: str) -> Any:
    shown = body.split("Answer in the same")[0]
    return " In 1871.\n", next((v for n, v in LEVELS.items() if n in shown), 2.0)


def reranker(lm: ScriptedLM, **more: Any) -> SelfReflectReranker:
    return SelfReflectReranker(lm, made(**more), method="uncertainty")


def test_the_surest_passage_comes_first() -> None:
    lm = scripted(by_passage)
    ranked = reranker(lm).rerank(QUESTION, GREEK)
    assert [r.passage.id for r in ranked] == ["beta", "gamma", "alpha"]
    assert [r.score for r in ranked] == [-gram_uncertainty(states(4, LEVELS[r.passage.id])) for r in ranked]
    assert "lower than" in ranked[0].reason
    assert "not lower than" in ranked[2].reason
    assert "(gram)" in ranked[0].reason
    assert {r.probability for r in ranked} == {None}
    assert all(r.passage in GREEK for r in ranked)


def test_everything_is_one_batch() -> None:
    lm = scripted(by_passage)
    reranker(lm).rerank(QUESTION, GREEK)
    assert lm.batches == [8]  # three passages and none, greedy and sampled
    assert sum(r.params.n for r in lm.requests if isinstance(r, Generate)) == 4 * (4 + 1)


def test_top_n_zero_and_one() -> None:
    assert [r.passage.id for r in reranker(scripted(by_passage)).rerank(QUESTION, GREEK, top_n=1)] == ["beta"]
    assert len(reranker(scripted(by_passage)).rerank(QUESTION, GREEK, top_n=10)) == 3
    assert reranker(scripted(by_passage)).rerank(QUESTION, []) == []


UNANSWERED = [
    *(({"alpha": (" x.\n", p), "gamma": (" x.\n", p)}, "beta alpha gamma", "unknown") for p in (math.nan, math.inf)),
    # A model declines where a passage is beside the point, and is surest of that.
    *(({"alpha": (said, SURE), "beta": (said, SURE)}, "gamma alpha beta", "says that it does not know")
      for said in (" unknown.\n", " It is unknown.\n")),
    ({"beta": ("\n", SURE)}, "gamma alpha beta", "nothing was written"),
    ({"beta": ContextOverflowError(9, 8)}, "gamma alpha beta", "longer than the model's context"),
]  # fmt: skip


@pytest.mark.parametrize(("replies", "order", "reason"), UNANSWERED)
def test_passages_that_bring_no_answer_come_last_in_their_order_with_finite_scores(
    replies: dict[str, Any], order: str, reason: str
) -> None:
    def reply(body: str) -> Any:
        shown = body.split("Answer in the same")[0]
        return next((said for name, said in replies.items() if name in shown), by_passage(body))

    ranked = reranker(scripted(reply)).rerank(QUESTION, GREEK)
    assert [r.passage.id for r in ranked] == order.split()
    assert reason in ranked[-1].reason
    scores = [r.score for r in ranked]
    assert all(map(math.isfinite, scores))
    assert scores == sorted(set(scores), reverse=True)


def test_what_is_unknown_without_a_passage_is_compared_with_nothing() -> None:
    lm = scripted(lambda body: by_passage(body) if "This is" in body else (" x.\n", math.nan))
    assert "unknown without a passage" in reranker(lm).rerank(QUESTION, GREEK)[0].reason


def test_a_passage_or_a_question_longer_than_the_context_may_be_an_error() -> None:
    def reply(body: str) -> Any:
        return ContextOverflowError(9, 8) if "beta" in body else by_passage(body)

    with pytest.raises(ContextOverflowError):
        reranker(scripted(reply), on_overflow="raise").rerank(QUESTION, GREEK)
    with pytest.raises(ContextOverflowError):
        reranker(scripted(lambda body: ContextOverflowError(9, 8))).rerank(QUESTION, GREEK)


def test_a_stand_in_estimator_is_named() -> None:
    lm = scripted(by_passage, capabilities=Capabilities(token_logprobs=True))
    ranked = reranker(lm).rerank(QUESTION, GREEK)
    assert [r.passage.id for r in ranked] == ["beta", "gamma", "alpha"]
    assert "length_normalized_entropy instead" in ranked[0].reason
    with pytest.raises(CapabilityError):
        reranker(lm, allow_fallback=False).rerank(QUESTION, GREEK)


def test_wrong_use_is_refused_early() -> None:
    with pytest.raises(SettingsError, match="needs a language model"):
        SelfReflectReranker(method="uncertainty")
    with pytest.raises(SettingsError, match="no re-ranking method"):
        SelfReflectReranker(method="dice")  # type: ignore[arg-type]
    with pytest.raises(QuestionError):
        reranker(scripted(by_passage)).rerank(" ", GREEK)
    with pytest.raises(InputError, match="top_n"):
        reranker(scripted(by_passage)).rerank(QUESTION, GREEK, top_n=0)


def test_async_gives_the_same() -> None:
    expected = reranker(scripted(by_passage)).rerank(QUESTION, GREEK)
    assert asyncio.run(reranker(scripted(by_passage)).arerank(QUESTION, GREEK)) == expected


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=12))
@settings(deadline=None, derandomize=True)
def test_order_is_a_permutation_with_the_unknown_last(values: list[float]) -> None:
    order = least_uncertain(values)
    assert sorted(order) == list(range(len(values)))
    known = [values[i] for i in order if math.isfinite(values[i])]
    assert known == sorted(known)
    last = order[len(known) :]
    assert last == sorted(last)
    assert all(not math.isfinite(values[i]) for i in last)


@pytest.mark.parametrize("said", [
    " The passage does not mention any lamp.", " It cannot be determined.",
    " So the answer is that the text does not say.", " The passage is about ships. So the answer is unknown.",
])  # fmt: skip
def test_a_sentence_that_declines_comes_after_all_that_answer(said: str) -> None:
    """A model is surer that a passage is silent than of any answer."""
    assert least_uncertain([-9.0, 2.0, -1.0, math.nan], [said, " In 1871.", " No, in 1911.", ""]) == [2, 1, 0, 3]


def test_by_reading() -> None:
    ranked = SelfReflectReranker(reader=FirstSentenceReader(0.2, 0.9)).rerank(QUESTION, PASSAGES)
    assert [r.passage.id for r in ranked] == ["lamp", "ship"]
    assert ranked[0].quote is not None


def test_with_a_real_model(tiny_lm: Any) -> None:
    passages = [
        Passage("a", "The bridge over the Thale was built by the engineer Mira Dorn."),
        Passage("b", "The town was founded in 1204, and it has two museums."),
        Passage("long", "The museum keeps letters, maps and paintings. " * 300),
    ]
    values = made(samples=3, max_step_tokens=6)
    ranked = SelfReflectReranker(tiny_lm, values, method="uncertainty").rerank(QUESTION, passages)
    assert {r.passage.id for r in ranked[:2]} == {"a", "b"}
    assert ranked[2].passage.id == "long"
    again = SelfReflectReranker(tiny_lm, values, method="uncertainty").rerank(QUESTION, passages)
    assert [r.score for r in again] == pytest.approx([r.score for r in ranked], abs=1e-4)
