"""“According to the handbook, …” names what a claim is compared with; it claims nothing by itself."""

from __future__ import annotations

import pytest

from shared_core.citation import compare_claim
from shared_core.citation.facts.attributions import without_attribution

LIT = "The lamp of Vessen was lit in 1871."


@pytest.mark.parametrize("opening", [
    "Based on the provided context,", "Based on the documents,", "According to the employee handbook,",
    "According to the club's page,", "As per the rules,", "Per the contract,", "From the context,",
    "In the provided passages,", "As stated in the FAQ,", "As mentioned in the minutes:", "The document states that",
    "The website says:", "The guide mentions that", "As the manual notes,", "In the handbook it says that",
    "It is stated in the policy that", "Based on the information in the provided context,",
    "According to the documents you provided,", "According to the terms and conditions,",
    "According to the website of the club,",
])  # fmt: skip
def test_an_opening_that_names_the_source_is_no_addition(opening: str) -> None:
    claim = f"{opening} the lamp of Vessen was lit in 1871."
    assert without_attribution(claim).casefold() == LIT.casefold()
    assert compare_claim(claim, LIT).agrees
    assert compare_claim(claim.replace("1871", "1878"), LIT).refuted


@pytest.mark.parametrize(("claim", "left"), [
    ("The lamp of Vessen was lit in 1871, according to the provided context.", LIT),
    ("The lamp of Vessen was lit in 1871 (as stated in the document).", LIT),
    ("Yes, based on the context, the lamp of Vessen was lit in 1871.", "Yes, the lamp of Vessen was lit in 1871."),
])  # fmt: skip
def test_it_goes_from_the_end_and_from_behind_a_yes_too(claim: str, left: str) -> None:
    assert without_attribution(claim) == left


@pytest.mark.parametrize("opening", [
    "According to Smith,", "According to the Times,", "According to a report,", "According to the police report,",
    "According to other sources,", "Based on the Harwich guide,", "The pilot says that", "In the hall,",
])  # fmt: skip
def test_people_and_other_works_stay(opening: str) -> None:
    claim = f"{opening} the lamp of Vessen was lit in 1871."
    assert without_attribution(claim) == claim


def test_a_person_to_whom_a_claim_is_put_down_must_be_in_the_evidence() -> None:
    assert not compare_claim("According to Smith, the lamp of Vessen was lit in 1871.", LIT).agrees
    assert not compare_claim("According to the Harwich guide, the lamp of Vessen was lit in 1871.", LIT).agrees


def test_the_passage_s_own_title_names_it() -> None:
    claim = "According to the Harwich guide, the lamp of Vessen was lit in 1871."
    assert compare_claim(claim, LIT, "Guide to Harwich").agrees


@pytest.mark.parametrize("claim", ["The policy says nothing about dogs.", "From the website, members can book."])
def test_what_says_something_of_a_document_stays(claim: str) -> None:
    assert without_attribution(claim) == claim
