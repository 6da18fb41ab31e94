"""Whether a model states a claim because of its quote: log-probabilities with, without, and with it alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from shared_core.errors import CapabilityError, ContextOverflowError
from shared_core.facades.checker import SelfReflectChecker
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.base import Capabilities, Score
from shared_core.lm.scripted import ScriptedLM
from shared_core.types import Answer, Necessity, Passage
from tests.fakes import Shelf, WordCritic

PASSAGES = [
    Passage("lamp", "The lamp was lit in 1871. It burned whale oil."),
    Passage("copy", "So it is told. The lamp was lit in 1871."),
    Passage("ship", "The Marrow carried salt."),
]
WHITE = Capabilities(score=True, token_logprobs=True)


def reading(request: Score) -> Any:
    """Finds a claim likely where a sentence with its number is shown; "oil" it knows by itself."""
    (claim,) = (c.text for c in request.continuations)
    knows = "oil" in claim or ("1871" in claim and "1871" in request.prompt.text)
    return [[-0.25, -0.25] if knows else [-2.0, -3.0]]


def checker(score: Any = reading, **more: Any) -> SelfReflectChecker:
    lm = ScriptedLM(lambda request: "90", capabilities=WHITE, score=score)
    return SelfReflectChecker(None, lm, critic=WordCritic(), necessary=True, **more)


def test_a_claim_that_rests_on_its_quote_is_told_from_one_that_does_not() -> None:
    answer = checker().check("The lamp was lit in 1871. It burned whale oil.", "What of the lamp?", PASSAGES)
    lit, oil = (c.necessity for c in answer.claims)
    assert lit == Necessity(-0.5, -5.0, -0.5)  # the copy in another passage is cut out as well
    assert oil == Necessity(-0.5, -0.5, -0.5)
    assert (lit.necessary, lit.sufficient, oil.necessary) == (True, True, False)
    (note,) = (d for d in answer.trace if d.kind == "necessity")
    assert note.outcome == "1 of 2 claims need their quote"
    assert Answer.from_dict(answer.to_dict()).claims[0].necessity == lit


def test_it_is_asked_only_where_it_is_asked_for_and_changes_no_verdict() -> None:
    lm = ScriptedLM(lambda request: "90", capabilities=WHITE, score=reading)
    engine = SelfReflectEngine(Shelf(), lm, critic=WordCritic())
    plain = engine.check("The lamp was lit in 1871.", passages=PASSAGES)
    assert plain.claims[0].necessity is None
    assert lm.requests == []
    asked = engine.check("The lamp was lit in 1871.", passages=PASSAGES, necessary=True)
    assert asked.claims[0].necessity is not None
    assert (asked.confidence, asked.claims[0].verdict) == (plain.confidence, plain.claims[0].verdict)
    assert asked.usage.calls == 3


@pytest.mark.parametrize("lm", [None, ScriptedLM(["x"])])
def test_without_a_model_that_scores_it_is_refused_and_the_way_out_is_named(lm: Any) -> None:
    with pytest.raises(CapabilityError) as caught:
        SelfReflectChecker(None, lm, critic=WordCritic(), necessary=True)
    assert "transformers" in caught.value.hint
    engine = SelfReflectEngine(Shelf(), lm, critic=WordCritic())
    with pytest.raises(CapabilityError):
        engine.check("The lamp was lit in 1871.", passages=PASSAGES, necessary=True)


def test_what_does_not_fit_is_left_out_but_for_what_is_cited() -> None:
    seen: list[str] = []

    class Short(ScriptedLM):
        """Takes no more than one passage."""

        def score(self, requests: Sequence[Score]) -> list[Any]:
            fits = [r.prompt.text.count("\n[") <= 1 for r in requests]
            seen.extend(r.prompt.text for r, fit in zip(requests, fits) if fit)
            read = super().score(requests)
            return [s if fit else ContextOverflowError(needed=9, available=5) for s, fit in zip(read, fits)]

    lm = Short(lambda request: "90", capabilities=WHITE, score=reading)
    made = SelfReflectChecker(None, lm, critic=WordCritic(), necessary=True)
    (claim,) = made.check("The lamp was lit in 1871.", passages=[PASSAGES[0], PASSAGES[2]]).claims
    assert claim.necessity.necessary
    assert any("lit in 1871. It burned whale oil" in text for text in seen)


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_what_is_no_number_is_unknown(value: float) -> None:
    answer = checker(lambda request: [[value]]).check("The lamp was lit in 1871.", passages=PASSAGES)
    assert answer.claims[0].necessity is None


def test_a_budget_that_does_not_suffice_leaves_it_unknown() -> None:
    from shared_core.settings import SelfReflectSettings

    answer = checker(settings=SelfReflectSettings(max_calls=2)).check("The lamp was lit in 1871.", passages=PASSAGES)
    assert answer.claims[0].necessity is None
    assert answer.claims[0].verdict == "supported"
    assert "left undone: 3 Score" in next(d.reason for d in answer.trace if d.kind == "limit")


def test_a_white_box_model_can(tiny_lm: Any) -> None:
    made = SelfReflectChecker(None, tiny_lm, critic=WordCritic(), necessary=True)
    (claim,) = made.check("The lamp was lit in 1871.", "When?", PASSAGES).claims
    assert max(claim.necessity.with_all, claim.necessity.without_quote, claim.necessity.quote_alone) < 0
    assert claim.necessity.with_all != claim.necessity.without_quote


def test_both_plug_ins_show_it() -> None:
    langchain = pytest.importorskip("langchain_selfreflect")
    llamaindex = pytest.importorskip("llamaindex_selfreflect")
    lm = ScriptedLM(lambda request: "90", capabilities=WHITE, score=reading)
    said = "The lamp was lit in 1871. It burned whale oil."
    evaluation = llamaindex.SelfReflectChecker(llm=lm, critic=WordCritic(), necessary=True).evaluate(
        "What?", said, [p.text for p in PASSAGES]
    )
    assert evaluation.answer.claims[0].necessity.necessary
    assert "as likely without its quote" in evaluation.feedback
    shown = langchain.SelfReflectChecker(llm=lm, critic=WordCritic(), necessary=True).invoke(
        {"answer": said, "context": [p.text for p in PASSAGES]}
    )
    assert shown["selfreflect"]["claims"][0]["necessity"]["with_all"] == -0.5
