"""A model that is large by its name is believed to reply as a strong one, until its replies show otherwise."""

from __future__ import annotations

import pytest

from shared_core import SelfReflectEngine
from shared_core.lm.scripted import ScriptedLM
from shared_core.lm.size import Size
from shared_core.pipelines.decision.trust import ModelTrust
from shared_core.types import Answer, Passage
from tests.fakes import Critic, FirstSentenceReader, Fixed

SHELF = Fixed(Passage("a", "Entry is free for members. The lamp was lit in 1871 by Ada Quill.", "Lamps"))
CLAIM = "<reference>S2</reference><claim>It was lit by Ada Quill.</claim>"


def ask(name: str, reader: float = 0.3) -> Answer:
    """Ask a model of that name, whose claim has nothing to do with what the reader quotes."""
    lm = ScriptedLM(lambda request: CLAIM, name=name)
    reads = FirstSentenceReader(reader, answerable=0.5)
    return SelfReflectEngine(SHELF, lm, reader=reads, critic=Critic()).answer("Who lit the lamp?")


def test_a_large_models_claim_is_surer_and_the_trace_says_why() -> None:
    unknown, large = ask("some model"), ask("gpt-4o")
    assert (large.claims[0].support or 0) > (unknown.claims[0].support or 0)
    rules = [next(d.outcome for d in a.trace if d.kind == "confidence") for a in (unknown, large)]
    assert rules == ["models in general", "models in general, corrected for models of its size"]
    assert not large.calibrated


def test_what_the_reader_says_as_well_is_no_less_probable_than_what_it_does_not() -> None:
    """A quote without the question's names is no surer for a second voice; a large model's claim stays what it was."""
    shelf = Fixed(Passage("a", "It was lit in 1871 by Ada Quill. Entry is free for members.", "Lamps"))

    def support(name: str, claim: str) -> float:
        lm = ScriptedLM(lambda request: claim, name=name)
        reads = FirstSentenceReader(0.3, answerable=0.5)
        answer = SelfReflectEngine(shelf, lm, reader=reads, critic=Critic()).answer("Who lit the lamp of Skerry Vore?")
        return answer.claims[0].support or 0.0

    agrees = "<reference>S1</reference><claim>It was lit in 1871 by Ada Quill.</claim>"
    assert support("gpt-4o", agrees) > 0.5 > support("some model", agrees)


@pytest.mark.parametrize("size", ["large", "medium"])
def test_whoever_answers_everything_loses_what_the_name_gave(size: Size) -> None:
    """A model that quotes what is nearest, and never declines, under a large model's name."""
    trust = ModelTrust.of_size(size)
    at_first = trust.correct(0.4)
    assert at_first > 0.5
    for i in range(12):
        trust.observe(0.1, "differs", f"unanswerable {i}")
        trust.observe(0.9, "agrees", f"answerable {i}")
    assert trust.correct(0.4) < 0.5 < at_first


def test_whoever_is_refuted_by_its_own_quotes_loses_it_too() -> None:
    trust = ModelTrust.of_size("large")
    for i in range(6):
        trust.observe(0.9, "contradicts", f"question {i}")
    assert trust.correct(0.4) < 0.5


def test_who_declines_what_has_no_answer_and_agrees_elsewhere_keeps_it() -> None:
    trust = ModelTrust.of_size("medium")
    at_first = trust.correct(0.4)
    for i in range(6):
        trust.observe(0.1, "declines", f"unanswerable {i}")
        trust.observe(0.9, "agrees", f"answerable {i}")
    assert trust.correct(0.4) > at_first


def test_a_measurement_of_the_model_itself_comes_before_its_name() -> None:
    rates = {"agrees": 0.4, "differs": 0.4, "declines": 0.1, "contradicts": 0.1}
    measured = ModelTrust({"right": rates, "wrong": rates}, shift=-2.0)
    assert measured.corrected_for == "this one"
    assert measured.correct(0.6) < 0.5 < ModelTrust.of_size("large").correct(0.6)
