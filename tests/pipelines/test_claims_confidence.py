"""What a claim's confidence is made of: witnesses, each heard apart, and the rule that puts them together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.facades import engine
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.confidence import most_doubtful
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Passage, Signals
from tests.fakes import PASSAGES, Critic, FirstSentenceReader, Shelf

QUESTION = "When was the lamp lit, and by whom?"
PROBABILITY = st.none() | st.floats(0, 1)


def bold(claim: str, quote: str = "S1") -> ScriptedLM:
    """A model that always claims the same, and is always sure."""
    return ScriptedLM(
        lambda request: (
            f"<reference>{quote}</reference><claim>{claim}</claim>" if "\nS1: " in request.prompt.text else "97"
        )
    )


def ask(lm: Any, reader: Any, critic: Any, question: str = QUESTION, shelf: Sequence[Passage] = PASSAGES) -> Answer:
    """Without the reader's own quotes as candidates, the rule is the lowest signal (else see test_competing)."""
    settings = SelfReflectSettings(pipeline="reclaim", compete=False)
    return SelfReflectEngine(Shelf(shelf), lm, settings, reader=reader, critic=critic).answer(question)


class Judging(FirstSentenceReader):
    """Says of every sentence quoted how likely it answers."""

    def __init__(self, quoted: float | None) -> None:
        super().__init__(0.9, answerable=0.9)
        self.quoted = quoted

    def _one(self, request: Any) -> Any:
        result = super()._one(request)
        judged = tuple(
            dataclasses.replace(result.readings[0], quote=span, probability=self.quoted) for span in request.spans
        )
        return dataclasses.replace(result, judged=judged)


def test_a_faithful_restatement_of_what_does_not_answer_is_not_shown() -> None:
    """C1: that the quote entails the claim is not that it answers."""
    answer = ask(bold("The lamp was lit in 1871."), Judging(0.1), Critic(0.99))
    assert answer.abstained
    (claim,) = answer.claims
    assert claim.signals.entailed == 1.0
    assert claim.support == claim.signals.quoted == pytest.approx(0.1)


def test_a_claim_that_its_quote_does_not_support_is_not_shown() -> None:
    answer = ask(bold("The lamp was sold to Bohemia."), Judging(0.95), Critic(0.04))
    assert answer.abstained
    assert answer.claims[0].support == pytest.approx(0.04)


def test_a_right_claim_is_as_sure_as_its_most_doubtful_witness() -> None:
    answer = ask(bold("Somebody lit it in 1871."), Judging(0.8), Critic(0.9))
    assert not answer.abstained
    assert not answer.calibrated
    assert answer.confidence == pytest.approx(0.8)


@pytest.mark.parametrize("said", [None, math.nan, 1.5])
def test_a_critic_that_says_no_probability_is_not_heard(said: float | None) -> None:
    answer = ask(bold("Somebody lit it in 1871."), Judging(0.8), Critic(said))
    (claim,) = answer.claims
    assert claim.signals.entailed is None or 0 <= claim.signals.entailed <= 1
    assert claim.support is None or 0 <= claim.support <= 0.8


def test_where_the_reader_is_silent_the_critic_says_whether_it_answers() -> None:
    answer = ask(bold("Somebody lit it in 1871."), Judging(None), Critic(0.7))
    assert answer.claims[0].support == pytest.approx(0.7)


@given(entailed=PROBABILITY, answers=PROBABILITY, quoted=PROBABILITY, certain=PROBABILITY, agreement=PROBABILITY)
def test_the_rule_is_never_surer_than_any_witness_it_hears(
    entailed: float | None, answers: float | None, quoted: float | None, certain: float | None, agreement: float | None
) -> None:
    signals = Signals(entailed=entailed, answers=answers, quoted=quoted, certain=certain, agreement=agreement)
    support = most_doubtful(signals)
    if entailed is None or (answers is None and quoted is None and certain is None):
        assert support is None
    else:
        assert support is not None
        assert all(support <= p for p in (entailed, quoted, certain) if p is not None)
        assert support in (entailed, answers, quoted, certain)


def test_uncalibrated_confidences_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    engine._warn_uncalibrated.cache_clear()
    for _ in range(3):
        assert not ask(bold("Somebody lit it in 1871."), Judging(0.8), Critic(0.9)).calibrated
    assert sum("not calibrated" in r.message for r in caplog.records) == 1
    caplog.clear()
    assert SelfReflectEngine(Shelf(), reader=FirstSentenceReader(0.9)).answer(QUESTION).calibrated
    assert not caplog.records


@pytest.mark.parametrize(("question", "named"), [
    ("Was the lamp of Ila Venn lit in 1871?", 1 / 3), ("Was the lamp lit in 1871?", 1.0),
    ("Was the lamp lit in 1872?", 0.0), ("Who lit the lamp?", None), ("WHEN", None),
])  # fmt: skip
def test_names_and_numbers_that_the_passage_lacks_are_told(question: str, named: float | None) -> None:
    answer = ask(bold("The lamp was lit in 1871."), Judging(0.9), Critic(0.9), f"{question} lamp")
    lamp = next(c for c in answer.claims if c.citations[0].primary[0].passage_id == "lamp")
    assert lamp.signals.named == (None if named is None else pytest.approx(named))


def test_a_number_with_a_point_is_one_number() -> None:
    passage = Passage("lamp", "The lamp holds 6.1 litres since 1,871 ships saw it.", "Lamps")
    for number, named in (("6.1", 1.0), ("6.2", 0.0)):
        question = f"Does the lamp hold {number} litres?"
        answer = ask(bold("It holds 6.1 litres."), Judging(0.9), Critic(0.9), question, (passage,))
        assert answer.claims[0].signals.named == named


@pytest.mark.parametrize(("sure", "heard"), [(0.51, True), (0.6, True), (0.9, True), (0.5, False), (0.3, False)])
def test_the_readers_own_answer_agrees_or_not_where_the_reader_rather_believes_it(sure: float, heard: bool) -> None:
    reader = Judging(0.9)
    reader.probabilities = (sure,)  # of its own answer, 1871
    for claim, agreement in (("It was lit in 1871.", 1.0), ("It was lit in 1872.", 0.0)):
        found = ask(bold(claim), reader, Critic(0.9)).claims[0].signals.agreement
        assert found == (agreement if heard else None)
