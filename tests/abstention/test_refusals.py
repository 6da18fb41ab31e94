"""A sentence that only declines states nothing; one that goes on to state something does."""

from __future__ import annotations

import pytest

from shared_core.abstention.refusals import is_refusal, only_refuses
from shared_core.abstention.statements import cut_statements


@pytest.mark.parametrize("text", [
    "I don't know.", "I don’t know the answer to that.", "The documents do not say.", "No information found.",
    "No relevant documents were found.", "No information is available about the lamp.",
    "Sorry, I could not find an answer.",
    "I'm sorry, but the provided context does not contain information about the CEO's salary.",
    "Unfortunately, the provided documents don't appear to contain any details on parking.",
    "Based on the provided context, I cannot answer this question.",
    "I cannot find any information about salary, bonuses, or benefits in the provided documents.",
    "The context does not mention it, so I can't answer.",
    "Unfortunately, I don't know, but I can help with other questions.",
    "The CEO's salary is not mentioned in the provided documents.", "There is no mention of parking in the handbook.",
    "I am sorry for the confusion, but I do not have enough information to answer that.",
    "It is not possible to determine this from the context because it does not mention the fee.",
    "As an AI language model, I cannot answer that.",
    "The text does not specify the exact date on which the office was founded.",
    "There is no answer in the documents; please contact the office.", "I'm not sure.",
    "The leaflet does not mention electricity.", "The user manual doesn't say how long it takes.", "Not specified.",
    "This is not stated in the brochure.", "The club's handbook says nothing about guests.",
])  # fmt: skip
def test_sentences_that_only_decline(text: str) -> None:
    assert only_refuses(text)
    assert cut_statements(text).found == ()
    assert cut_statements(text).declines


@pytest.mark.parametrize("text", [
    "I'm sorry, the office is closed on Monday.", "I don't know, but the office is closed.",
    "I don't know that the lamp was lit in 1900.", "We cannot provide refunds after 30 days.", "We don't have a pool.",
    "There is no information desk at the station.", "No documents are required.",
    "No information is provided to third parties.", "The passages do not say when, only that it was built in 1911.",
    "I can't tell which, the dam broke in 1911.", "Unfortunately, the dam broke.", "I cannot recommend the fish.",
    "The dam was not mentioned.", "The policy does not cover theft.", "Not available on Sundays.",
    "Not mentioned twice.",
    "The leaflet does not mention the fee, but the office is closed on Monday.",
    "The contract does not say that dogs are allowed.", "The contract does not include breakfast.",
    "The documents do not mention the fee and the office is closed on Monday.",
])  # fmt: skip
def test_sentences_that_state_something(text: str) -> None:
    assert not only_refuses(text)
    assert [s.text for s in cut_statements(text).found] == [text]
    assert not cut_statements(text).declines


def test_a_refusal_beside_a_claim_leaves_the_claim() -> None:
    text = "I don't know who lit it. The lamp was lit in 1871."
    cut = cut_statements(text)
    assert [s.text for s in cut.found] == ["The lamp was lit in 1871."]
    assert [text[a:b].strip() for a, b in cut.left_out] == ["I don't know who lit it."]


@pytest.mark.parametrize("text", ["No information found.", "The fee is not mentioned in the provided context."])
def test_models_are_understood_to_decline(text: str) -> None:
    assert is_refusal(text)
