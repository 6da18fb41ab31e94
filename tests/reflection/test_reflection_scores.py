"""Critique scores: the recorded published values, what the published code gets wrong, and what always holds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core import reflection as r
from shared_core.errors import InputError

CASES = json.loads((Path(__file__).parents[1] / "parity" / "selfrag_scores.json").read_text())["cases"]
LOGP = st.floats(-60, 0)


def relaxed(**kwargs: Any) -> Any:
    return settings(deadline=None, derandomize=True, max_examples=60, **kwargs)


@pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
def test_published_values(case: dict[str, Any]) -> None:
    given_, expected = case["input"], case["expected"]
    logprobs = given_["logprobs"]
    relevance = r.relevance_score(logprobs)
    support = r.support_score(logprobs if given_["ground_emitted"] else {})
    usefulness = r.usefulness_score(logprobs if given_["utility_emitted"] else {})
    assert relevance == pytest.approx(expected["relevance"], abs=1e-6)
    assert support == pytest.approx(expected["ground"], abs=1e-6)
    assert usefulness == pytest.approx(expected["utility"], abs=1e-6)
    weights = [given_["weights"][w] for w in ("w_rel", "w_sup", "w_use")]
    critique = r.critique_score(relevance, support, usefulness, weights)
    assert critique == pytest.approx(expected["final_without_seqscore"], abs=1e-6)
    with_sequence = r.segment_score(critique, given_["cumulative_logprob"], given_["num_tokens"])
    assert with_sequence == pytest.approx(expected["final_with_seqscore"], abs=1e-6)
    term = r.sequence_score(given_["cumulative_logprob"], given_["num_tokens"])
    assert term == pytest.approx(expected["seqscore_term"], abs=1e-6)


@pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
def test_retrieval_is_decided_in_probability_space(case: dict[str, Any]) -> None:
    logprobs, expected = case["input"]["logprobs"], case["expected"]
    ours = r.retrieval_probability(logprobs.get("[Retrieval]", -math.inf), logprobs.get("[No Retrieval]", -math.inf))
    if "retrieval_paper" not in expected:  # a token is missing: the published code raises, ours counts it as impossible
        assert ours == float("[Retrieval]" in logprobs)
        return
    assert ours == pytest.approx(expected["retrieval_paper"], abs=1e-6)
    assert r.should_retrieve(ours, case["input"]["threshold"]) == expected["do_retrieve_paper"]


def test_worked_case() -> None:
    logs = {k: math.log(v) for k, v in {
        "[Relevant]": 0.9, "[Irrelevant]": 0.1, "[Fully supported]": 0.8, "[Partially supported]": 0.15,
        "[No support / Contradictory]": 0.05, "[Utility:1]": 0.01, "[Utility:2]": 0.01, "[Utility:3]": 0.03,
        "[Utility:4]": 0.05, "[Utility:5]": 0.9,
    }.items()}  # fmt: skip
    parts = r.relevance_score(logs), r.support_score(logs), r.usefulness_score(logs)
    assert parts == pytest.approx((0.9, 0.875, 0.91))
    assert r.critique_score(*parts, (1, 1, 0.5)) == pytest.approx(2.23)
    assert r.segment_score(2.23, -1.0, 4) == pytest.approx(2.23 + 0.7788, abs=1e-4)
    assert r.segment_score(2.23, -1.0, 4, form="paper") == pytest.approx(1.23)
    assert r.plain_support_score(logs) == pytest.approx(0.8)
    assert r.plain_usefulness_score(logs) == pytest.approx(0.9)


def test_published_defect_log_probabilities_invert_the_decision() -> None:
    sure, unsure = r.retrieval_probability(math.log(0.95), math.log(0.05)), r.retrieval_probability(-3.0, -0.05)
    assert r.should_retrieve(sure, 0.2)
    assert not r.should_retrieve(unsure, 0.2)


def test_published_defect_utility_always_zero() -> None:
    assert r.usefulness_score({"[Utility:5]": -0.1, "[Utility:1]": -3.0}) > 0.8
    assert r.usefulness_score({"[Utility:1]": -0.1}) == -1


def test_published_defect_weights_ignored() -> None:
    assert r.critique_score(0.5, 0.25, 1.0, (2, 4, 8)) == pytest.approx(10)
    assert r.critique_score(0.5, 0.25, 1.0, {"usefulness": 0}) == pytest.approx(0.75)


def test_published_defect_missing_token_is_not_minus_hundred() -> None:
    assert r.relevance_score({"[Irrelevant]": -0.2}) == 0
    # Nor is it exp(-100), which would outweigh real probabilities below it.
    assert r.relevance_score({"[Irrelevant]": -300.0}) == 0
    assert 0 <= r.support_score({"[Partially supported]": -400.0}) <= 1


@pytest.mark.parametrize("score", [r.relevance_score, r.support_score, r.usefulness_score])
def test_unknown_is_never_confident(score: Any) -> None:
    assert score({}) == 0
    for token in r.REFLECTION_TOKENS:
        for bad in (math.nan, math.inf):
            full = dict.fromkeys(r.REFLECTION_TOKENS, -20.0) | {"[Relevant]": -0.01, "[Fully supported]": -0.01}
            assert score(full | {token: bad}) in (0.0, score(full))
    assert r.relevance_score({"[Relevant]": math.nan}) == r.support_score({"[Fully supported]": math.inf}) == 0
    assert score({"other": -0.1}) <= 0.5


def test_unknown_retrieval_means_look_it_up() -> None:
    for pair in ((math.nan, -1.0), (-1.0, math.nan), (-math.inf, -math.inf), (math.inf, -1.0)):
        assert r.retrieval_probability(*pair) == 1
    assert r.should_retrieve(math.nan)
    assert r.should_retrieve(0.0, 0.0)  # citations required
    with pytest.raises(InputError):
        r.should_retrieve(0.5, 1.5)


@given(st.lists(LOGP, min_size=15, max_size=15), st.floats(-5, 5))
@relaxed()
def test_ranges_and_shift(values: list[float], shift: float) -> None:
    logs = dict(zip(r.REFLECTION_TOKENS, values))
    moved = {k: v + shift for k, v in logs.items()}
    assert 0 <= r.relevance_score(logs) <= 1
    assert 0 <= r.plain_support_score(logs) <= r.support_score(logs) <= 1
    assert -1 <= r.usefulness_score(logs) <= 1
    for score in (r.relevance_score, r.support_score, r.usefulness_score):
        assert score(moved) == pytest.approx(score(logs), abs=1e-9)


@given(LOGP, LOGP, st.floats(0.01, 20))
@relaxed()
def test_retrieval_probability_rises_with_its_token(a: float, b: float, more: float) -> None:
    low, high = r.retrieval_probability(a, b), r.retrieval_probability(a + more, b)
    assert 0 <= low <= high <= 1
    assert low + r.retrieval_probability(b, a) == pytest.approx(1)


def test_critique_score_ignores_what_was_not_judged() -> None:
    assert r.critique_score(None, 0.5, None) == 0.5
    assert r.critique_score(math.nan, 0.5, math.inf) == 0.5
    for bad in ((1, 2), (1, 2, 3, 4), (1, math.nan, 1), "abc", {"w_rel": 1}):
        with pytest.raises(InputError):
            r.critique_score(1, 1, 1, bad)  # type: ignore[arg-type]


def test_sequence_score_of_nothing_is_the_least() -> None:
    assert r.sequence_score(-1.0, 0) == r.sequence_score(math.nan, 3) == r.sequence_score(5.0, 3) == 0
    assert r.sequence_score(math.nan, 3, "paper") == -math.inf
    assert r.sequence_score(0.0, 3) == 1


def test_closed_sets_add_up_paths() -> None:
    texts = ["[Relevant]A[Utility:5]", "B", "A[Continue to Use Evidence]</s>", "[Relevant]"]
    best, other = r.aggregate_answers(texts, [0.6, 0.9, 0.5, 5.0])
    assert (best.answer, best.paths) == ("A", (0, 2))
    assert best.score == pytest.approx(1.1)
    assert other.answer == "B"
    assert [t.answer for t in r.aggregate_answers(["A", "B"], [math.nan, -1.0])] == ["A", "B"]
    assert r.aggregate_answers([], []) == ()
    with pytest.raises(InputError):
        r.aggregate_answers(["A"], [])
