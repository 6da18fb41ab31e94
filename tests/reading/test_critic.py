"""The critic that ships: what it makes of claims beside evidence."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared_core.reading.base import Verdict, VerdictScorer
from shared_core.reading.critic import EVIDENCE_FIGURES, CriticSupportScorer

pytest.importorskip("onnxruntime")

PAGE = (
    "The lighthouse of Vessen was built in 1871 by the harbour company. Its lamp burned whale oil at first. "
    "In 1904 the keeper Anna Dorst fitted an electric lamp with a range of 19 miles. The tower is 41 metres high and "
    "painted in red and white bands. Visitors may climb it from May to September. The foghorn was taken down after the "
    "war, when radio beacons had made it needless. A small museum beside the tower shows charts and lenses."
)


CRITIC = CriticSupportScorer()


def judge(evidence: str, claim: str) -> Verdict:
    (verdict,) = CRITIC.judge([(evidence, claim)])
    assert verdict is not None
    return verdict


def figure(name: str, claim: str) -> float:
    """A figure of a claim on the page."""
    (found,) = CRITIC.figures([(PAGE, claim)])
    assert found is not None
    return float(found[EVIDENCE_FIGURES.index(name)])


def test_it_tells_what_evidence_refutes_apart() -> None:
    assert isinstance(CRITIC, VerdictScorer)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("The lighthouse of Vessen was built in 1871.", "The lighthouse of Vessen was built in 1907."),
        ("The tower is 41 metres high.", "The tower is 75 metres high."),
        ("Anna Dorst fitted an electric lamp in 1904.", "Peter Hale fitted an electric lamp in 1904."),
        ("Visitors may climb it from May to September.", "Visitors may dive in the harbour in winter."),
    ],
)
def test_a_claim_of_the_page_is_supported_better_than_one_with_something_changed(right: str, wrong: str) -> None:
    assert judge(PAGE, right).supported > max(judge(PAGE, wrong).supported, 0.5)


def test_what_else_the_page_says_does_not_take_support_away() -> None:
    claim = "The tower is 41 metres high."
    alone = judge("The tower is 41 metres high and painted in red and white bands.", claim)
    assert judge(PAGE, claim).supported > alone.supported - 0.2


def test_words_numbers_and_the_nearest_sentence_are_seen() -> None:
    assert figure("words", "The tower is 41 metres high.") == 1.0
    assert figure("nearest", "The tower is 41 metres high.") == pytest.approx(1.0)
    scattered = "Anna Dorst painted the foghorn."
    assert figure("rare_words", scattered) == pytest.approx(1.0)
    assert figure("nearest", scattered) < 1.0
    assert figure("numbers", "It was built in 1871.") == 0.0
    assert figure("numbers", "It was built in 1907.") < 0.0


@pytest.mark.parametrize(("evidence", "claim"), [
    ("", "The tower is high."), ("The tower is high.", " "), ("The tower is high.", "§§ — !!"),
    ("The tower is high.", "\u200b"),
    ("… !!", "The tower is high."), ("Der Turm ist 41 Meter hoch und steht am Hafen.", "The tower is 41 metres high."),
    ("The tower is 41 metres high.", "Der Turm ist einundvierzig Meter hoch und steht am Hafen."),
])  # fmt: skip
def test_what_cannot_be_judged_is_unknown(evidence: str, claim: str) -> None:
    assert CRITIC.judge([(evidence, claim)]) == [None]
    assert CRITIC.score([(evidence, claim)]) == [None]


def test_in_other_languages_facts_are_compared() -> None:
    evidence = "Der Turm am Hafen von Vessen ist 41 Meter hoch. Er wurde im März 1871 gebaut."
    assert CRITIC.judge([(evidence, "Der Turm am Hafen von Vessen ist 41 Meter hoch.")]) == [None]
    changed = judge(evidence, "Der Turm am Hafen von Vessen ist 44 Meter hoch.")
    assert (changed.refuted or 0) > 0.5 > changed.supported
    assert judge(evidence, "Der Hafen hat Platz für 120 Schiffe.").supported < 0.5


@pytest.mark.parametrize(
    ("true", "changed"),
    [
        ("The lighthouse of Vessen was built in 1871 by the harbour company.",
         "The lighthouse of Vessen was built in 1877 by the harbour company."),
        ("In 1904 the keeper Anna Dorst fitted an electric lamp.",
         "In 1904 the keeper Vera Dorst fitted an electric lamp."),
        ("Visitors may climb it from May to September.", "Visitors may not climb it from May to September."),
    ],
)  # fmt: skip
def test_a_contradicted_fact_outweighs_what_the_network_says(true: str, changed: str) -> None:
    wrong = judge(PAGE, changed)
    assert judge(PAGE, true).supported > 0.5 > wrong.supported
    assert (wrong.refuted or 0) > 0.5


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=80), st.text(max_size=60))
@example("", "Ì:0:À")
def test_a_verdict_is_two_probabilities_that_leave_room_for_neither(evidence: str, claim: str) -> None:
    (verdict,) = CRITIC.judge([(PAGE + evidence, f"The tower {claim}")])
    if verdict is not None:
        assert 0 <= verdict.supported <= 1
        if verdict.refuted is None:  # compared by numbers and names alone: an added one supports nothing
            assert verdict.supported < 0.5
        else:
            assert 0 <= verdict.refuted <= 1
            assert verdict.supported + verdict.refuted <= 1 + 1e-9


def test_a_pair_alone_and_among_others_is_judged_the_same() -> None:
    pairs = [
        (PAGE, "The tower is 41 metres high."),
        ("A short text.", "The text is short."),
        (PAGE[:90], "Oil burned."),
    ]
    assert CRITIC.judge(pairs) == [judge(*pair) for pair in pairs]


@pytest.mark.parametrize("claim", ["It is 83 metres.", "It was 1911.", "Yes, it is."])
def test_short_claims_in_english_are_judged(claim: str) -> None:
    assert 0 <= judge(PAGE, claim).supported <= 1
