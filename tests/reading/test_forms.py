"""Questions as statements, yes/no questions and key words; claims made of them."""

from __future__ import annotations

import random

import pytest

from benchmarks.reader import forms
from benchmarks.reader.claims import NOT_SUPPORTED, from_questions, labelled_by_people
from benchmarks.reader.data import QuestionRow
from shared_core.reading.network import SUPPORTED, UNSUPPORTED
from shared_core.types import Passage


@pytest.mark.parametrize(
    ("question", "answer", "before", "statement"),
    [
        ("Who founded the museum?", "Anna Veldt", "", "Anna Veldt founded the museum."),
        ("What is the capital of Corrow?", "Arn", "", "Arn is the capital of Corrow."),
        ("When was the tower built?", "1874", "in ", "The tower was built in 1874."),
        ("In what year did Tom Hale retire?", "1911", "in ", "Tom Hale retire in 1911."),
        ("The ferry stops at which harbour?", "Ellisk", "at ", "The ferry stops at Ellisk."),
        ("What language was spoken in Corrow?", "Old Arnish", "", "Old Arnish was spoken in Corrow."),
        ("What is the region known for?", "its apples", "", "The region is known for its apples."),
    ],
)
def test_statements(question: str, answer: str, before: str, statement: str) -> None:
    assert forms.state(question, answer, before) == statement


def test_yes_no_questions() -> None:
    assert forms.ask_whether("When was the tower built?", "1874", "in ") == "Was the tower built in 1874?"
    assert forms.ask_whether("Who is the harbour master?", "Tom Hale") == "Is Tom Hale the harbour master?"
    assert forms.ask_whether("Who founded the museum?", "Anna Veldt") == "Was it Anna Veldt who founded the museum?"
    assert forms.ask_whether("Name the founder.", "Anna Veldt") is None


def test_key_words_and_carelessness() -> None:
    rng = random.Random(0)
    assert (forms.key_words("What is the tallest tower in Lisbon?", rng) or "").lower() == "tallest tower lisbon"
    assert forms.key_words("Who is it?", rng) is None
    for _ in range(20):
        loose = forms.loosely("Who built the Tower?", rng)
        assert loose.rstrip("?").lower() == "who built the tower"
        assert loose != "Who built the Tower?"


def test_the_preposition_before_an_answer() -> None:
    text = "It was built in 1874 by Anna."
    assert forms.preposition_before(text, text.index("1874")) == "in "
    assert forms.preposition_before(text, text.index("built")) == ""


TEXT = "The tower was built in 1874 by Anna Veldt. It stands in Corrow. Tom Hale keeps it."
PASSAGES = {"p": Passage("p", TEXT, "Tower"), "q": Passage("q", "Nothing of the kind is said here.", "Other")}


def row(question: str, answer: str) -> QuestionRow:
    return QuestionRow(question, "p", (answer,), ((TEXT.index(answer), TEXT.index(answer) + len(answer)),))


def test_claims_made_of_questions_say_what_is_so_or_what_is_not() -> None:
    rows = [row("When was the tower built?", "1874"), row("Who keeps the tower?", "Tom Hale")] * 60
    near = {r.question: ["p", "q"] for r in rows}
    found = from_questions(rows, [], PASSAGES, near, random.Random(0))
    right = {"1874": "When was the tower built?", "Tom Hale": "Who keeps the tower?"}
    for claim in found:
        true_here = any(a in claim.claim or a.lower() in claim.claim for a in right)
        if claim.label == SUPPORTED:
            assert true_here
            assert claim.passage == "p" or claim.evidence in TEXT
        if claim.label == UNSUPPORTED:
            assert claim.passage == "q"
        if claim.label == NOT_SUPPORTED:  # the other question's answer
            asked = "keep" if "1874" in claim.claim else "built"
            assert asked in claim.claim
    labels = [c.label for c in found]
    assert 0.4 < labels.count(SUPPORTED) / len(labels) < 0.7


def test_people_s_claims() -> None:
    rows = [
        {"premise": "a", "hypothesis": "b", "label": "refuted", "source": "x"},
        {"premise": "a", "hypothesis": "b", "label": "partial", "source": "x"},
        {"premise": "a", "hypothesis": "b", "label": "supported", "source": "y"},
    ]
    (claim,) = labelled_by_people(rows, ("x",))
    assert (claim.claim, claim.evidence, claim.label) == ("b", "a", 2)
