"""Rules of the pipelines at their edges: what is unknown, what lies exactly at a limit, the second best."""

from __future__ import annotations

import math

import pytest

from shared_core.pipelines.decision.question_run import Abilities, QuestionRun
from shared_core.pipelines.gating.alternatives import _class_of
from shared_core.pipelines.gating.choose import choose_comparer
from shared_core.pipelines.research.claims import Candidate, Part, lay_out
from shared_core.pipelines.seakr.answer import choose_citations
from shared_core.pipelines.self_rag.loop import nearest_by_words
from shared_core.pipelines.self_rag.segments import judge_rows
from shared_core.reading.base import Verdict
from shared_core.reflection import UTILITY_TOKENS
from shared_core.runtime import flow as flows
from shared_core.runtime.flow import Resources
from shared_core.settings import SelfRagSettings, SelfReflectSettings
from shared_core.types import Claim, Passage, Span
from tests.fakes import Critic


@pytest.mark.parametrize(("there", "chosen"), [
    ({"scorer": "nli", "critic": "critic", "has_embedder": True}, "judge"),
    ({"critic": "critic", "has_embedder": True}, "embedder"), ({"critic": "critic"}, "critic"), ({}, None),
])  # fmt: skip
def test_meanings_are_compared_by_the_first_who_is_there(there: dict[str, object], chosen: str | None) -> None:
    parts = {"scorer": None, "critic": None, "has_embedder": False, **there}
    assert choose_comparer(SelfReflectSettings(), Abilities({}, {}, **parts)) == chosen  # type: ignore[arg-type]


def test_an_unknown_verdict_is_no_class_and_a_tie_is_the_careful_one() -> None:
    assert math.isnan(_class_of(None))
    entails, neutral, contradicts = (_class_of(Verdict(*p)) for p in ((0.6, 0.1), (0.2, 0.2), (0.1, 0.6)))
    assert len({entails, neutral, contradicts}) == 3
    assert _class_of(Verdict(0.5, 0.25)) == entails
    assert _class_of(Verdict(0.0, 0.5)) == contradicts


def test_the_second_sentence_is_the_one_that_adds_most() -> None:
    texts = ["The lamp of Ostby was lit.", "The lamp was blue.", "Tora Lind built the tower in granite."]
    spans = [Span("p", 100 * i, 100 * i + len(t), t) for i, t in enumerate(texts)]
    found = nearest_by_words("The lamp of Ostby was lit in the granite tower that Tora Lind built.", spans)
    assert [s.text for s in found] == [texts[0], texts[2]]


def test_the_share_of_useful_ratings_is_that_of_four_and_five() -> None:
    row = dict(zip(UTILITY_TOKENS, map(math.log, (0.1, 0.1, 0.2, 0.25, 0.35))))
    assert judge_rows(row, SelfRagSettings()).useful == pytest.approx(0.6)


def test_a_claim_has_a_place_only_where_its_sentence_is_shown() -> None:
    text = "The lamp was lit. It burned oil. Perhaps."
    candidate = Candidate(text, (Part(0, 17, ("The lamp was lit.",)), Part(18, 32, ("The lamp burned oil.",))))
    claims = [Claim("The lamp was lit."), Claim("The lamp burned oil.", status="dropped")]
    shown, placed = lay_out(candidate, claims, marks=False)
    assert shown == "The lamp was lit."
    assert [(c.status, c.start, c.end) for c in placed] == [("kept", 0, 17), ("dropped", None, None)]
    both = Candidate(text, (Part(0, 17, ("The lamp was lit.", "The lamp burned oil.")),))
    assert [(c.status, c.start) for c in lay_out(both, claims)[1]] == [("kept", None), ("dropped", None)]
    whole, _ = lay_out(candidate, [claims[0], Claim("The lamp burned oil.")], marks=False)
    assert whole == text


def count_cited(sentence: str, p: float) -> int:
    """How many sentences are cited for "red", of which a judge gives this one the probability ``p``."""
    resources = Resources(models={}, judge=Critic(p))
    run = QuestionRun(SelfReflectSettings(), Abilities.of(resources))
    asked = choose_citations("red", "The lamp was red.", [Passage("p", sentence)], run)
    return len(flows.run(asked, resources))


@pytest.mark.parametrize(("sentence", "least"), [("The lamp was red.", 0.2), ("The lamp was never red.", 0.5)])
def test_a_sentence_is_cited_from_its_limit_on(sentence: str, least: float) -> None:
    assert (count_cited(sentence, least - 0.01), count_cited(sentence, least)) == (0, 1)


def test_a_sentence_that_is_hardly_more_than_the_answer_is_cited_unless_it_denies_it() -> None:
    assert (count_cited("Always red.", 0.0), count_cited("Never red.", 0.0)) == (1, 0)
