"""With ``compete`` the embedded default's own quotes are candidates beside the model's claims."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import Answer, SelfReflectEngine, SelfReflectSettings
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.decision.trust import TYPES, ModelTrust, Reply
from tests.fakes import FirstSentenceReader, Shelf

QUESTION = "When was the lamp lit?"
RIGHT = "The lamp was lit in 1871."


class Critic:
    name = "critic@test"

    def score(self, pairs: Any) -> list[float | None]:
        return [0.9] * len(pairs)


def ask(reply: str, *, reader: float, times: int = 1, **settings: Any) -> Answer:
    lm = ScriptedLM(lambda request: "97" if "0 to 100" in request.prompt.text else reply)
    options = SelfReflectSettings(**{"compete": True, **settings})
    engine = SelfReflectEngine(
        Shelf(), lm, options, reader=FirstSentenceReader(reader, answerable=reader), critic=Critic()
    )
    for _ in range(times - 1):
        engine.answer(QUESTION)
    return engine.answer(QUESTION)


def test_a_refusal_is_a_signal_and_no_verdict() -> None:
    assert ask("I don't know.", reader=0.7).abstained  # an unknown model's refusal counts much
    answer = ask("I don't know.", reader=0.7, times=12)  # the twelfth in a row does not
    assert answer.text.startswith(RIGHT)
    assert answer.metadata["answered_by"] == "embedded default"
    assert not answer.calibrated
    assert (answer.confidence or 1.0) <= 0.7


def test_without_it_a_refusal_is_believed() -> None:
    assert ask("I don't know.", reader=0.95, times=12, compete=False).abstained


def test_a_claim_that_contradicts_its_quote_gives_way_to_the_quote() -> None:
    answer = ask("<reference>S1</reference><claim>The lamp was lit in 1950.</claim>", reader=0.9)
    assert answer.text.startswith(RIGHT)
    assert "1950" not in answer.text


def test_an_agreeing_claim_keeps_the_models_words() -> None:
    answer = ask(f"<reference>S1</reference><claim>{RIGHT}</claim>", reader=0.6)
    assert answer.text.startswith(RIGHT)
    assert "answered_by" not in answer.metadata
    assert (answer.confidence or 0.0) > 0.6


@pytest.mark.parametrize("compete", [False, True])
def test_a_claim_says_no_more_than_its_quote(compete: bool) -> None:
    answer = ask("<reference>S1</reference><claim>The lamp was lit in 1950.</claim>", reader=0.95, compete=compete)
    wrong = [c for c in answer.claims if "1950" in c.text]
    assert wrong
    assert all((c.support or 0.0) <= 0.05 for c in wrong)


@given(st.floats(0, 1), st.lists(st.sampled_from(["agrees", "differs", "declines"]), max_size=30))
def test_a_posterior_is_a_probability_and_no_type_is_ruled_out(p: float, replies: list[Reply]) -> None:
    trust = ModelTrust()
    for reply in replies:
        assert 0 <= trust.posterior(p, reply) <= 1
        trust.observe(p, reply)
    assert 0 < trust.competent < 1
    again = pickle.loads(pickle.dumps(trust))
    assert again.posterior(p, "agrees") == trust.posterior(p, "agrees")


def test_rates_and_priors_are_distributions() -> None:
    assert sum(prior for prior, _, _ in TYPES.values()) == pytest.approx(1)
    assert all(sum(rates) == pytest.approx(1) for _, *both in TYPES.values() for rates in both)


def test_a_competent_models_words_are_raised_and_a_declining_ones_are_not() -> None:
    competent, declining = ModelTrust(), ModelTrust()
    for _ in range(20):
        competent.observe(0.9, "agrees")
        competent.observe(0.1, "declines")
        declining.observe(0.9, "declines")
    assert competent.raised(0.3) > 0.8
    assert declining.raised(0.3) < 0.35
    assert (competent.raised(0.0), competent.raised(1.0)) == (0.0, 1.0)
