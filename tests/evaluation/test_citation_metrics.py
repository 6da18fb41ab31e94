from __future__ import annotations

import json
import math
import re
import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from shared_core.errors import InputError
from shared_core.evaluation import (
    Pair,
    alce_citation_scores,
    attribution_ratio,
    citation_length,
    cited_numbers,
    claim_recall,
    consistency_ratio,
    reclaim_citation_scores,
    remove_citations,
)
from shared_core.types import Answer, Citation, Claim, Passage

PARITY = Path(__file__).parents[1] / "parity"
ALCE = json.loads((PARITY / "alce_metrics.json").read_text())["cases"]
RECLAIM = json.loads((PARITY / "reclaim_metrics.json").read_text())["cases"]

# Where the published code is plainly wrong: (recall, precision) that are right, and why.
ALCE_MENDED = {
    "comma_list": (1.0, 0.5),  # [1, 2] cites both; the second is not needed (published: the first only)
    "comma_list_second_needed": (1.0, 0.5),  # the second supports it (published: not seen)
    "zero_citation_wraps_to_last": (0.0, 0.0),  # [0] cites no document (published: the last one)
}
RECLAIM_MENDED = {
    "empty_item_skipped": (0.5, 0.5),  # an answer without pairs scores 0 (published: left out)
    "all_items_empty_nan": (0.0, 0.0),
    "length_mismatch_skipped": (0.5, 0.5),  # and so does a malformed one
    "precision_above_100": (1.0, 1.0),  # an empty reference has no needed sentence (published: 200%)
}
CONSISTENCY_MENDED = {  # 3 of 4 sentences stand in a passage (published: whole references, 2 of 3)
    "citation_proportion_2": 0.75,
    "citation_proportion_5": 0.75,
}


def by_function(cases: list[dict[str, Any]], *names: str | None) -> list[Any]:
    found = [pytest.param(c, id=c["name"]) for c in cases if c["input"].get("function") in names]
    assert found
    return found


def stub(premise: str, hypothesis: str) -> bool:
    """The parity files' NLI: every word of more than three letters stands in the premise."""
    table = str.maketrans("", "", string.punctuation)
    words = set(premise.lower().translate(table).split())
    return all(w in words for w in remove_citations(hypothesis).lower().translate(table).split() if len(w) > 3)


def recorded(case: dict[str, Any]) -> Callable[[str, str], bool]:
    """Answers only the very questions that the published code asked."""
    known = {(row["premise"], row["hypothesis"]): bool(row["entails"]) for row in case["input"]["nli_table"]}
    return lambda premise, hypothesis: known[premise, hypothesis]


@pytest.mark.parametrize("case", by_function(ALCE, "remove_citations"))
def test_parity_remove_citations(case: dict[str, Any]) -> None:
    mended = {"remove_citations_2": "Odd list."}  # published: "Odd, 2 list."
    assert remove_citations(case["input"]["text"]) == mended.get(case["name"], case["expected"]["value"])


@pytest.mark.parametrize("case", by_function(ALCE, "compute_autoais"))
def test_parity_alce(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    mended = ALCE_MENDED.get(case["name"])
    nli = stub if mended else recorded(case)
    scores = alce_citation_scores(
        given["data"], nli, at_most_citations=given["at_most_citations"], qampari=given["qampari"]
    )
    published = tuple(float(expected[k]) / 100 for k in ("citation_rec", "citation_prec"))
    assert scores[:2] == pytest.approx(mended or published, abs=1e-6, nan_ok=True)
    assert mended is None or mended != pytest.approx(published)


@pytest.mark.parametrize("case", by_function(ALCE, "compute_claims"))
def test_parity_claim_recall(case: dict[str, Any]) -> None:
    if "raises" in case["expected"]:  # an item without claims: division by zero there, left out here
        scored = [item for item in case["input"]["data"] if item["claims"]]
        assert len(scored) < len(case["input"]["data"])
        assert claim_recall(case["input"]["data"], stub) == claim_recall(scored, stub) > 0
    else:
        recall = 100 * claim_recall(case["input"]["data"], recorded(case))
        assert recall == pytest.approx(case["expected"]["claims_nli"], abs=1e-6)


@pytest.mark.parametrize("case", by_function(RECLAIM, None))
def test_parity_reclaim(case: dict[str, Any]) -> None:
    mended = RECLAIM_MENDED.get(case["name"])
    answers = case["input"].get("items", case["input"].get("raw_items"))
    scores = reclaim_citation_scores(answers, recorded(case))
    published = tuple(float(case["expected"][k]) / 100 for k in ("citation_rec", "citation_prec"))
    assert (scores.cas, scores.crs) == pytest.approx(mended or published, abs=1e-6)
    for ours, theirs in zip(scores.per_answer, case["expected"].get("per_item", ())):
        if theirs["nli_score"] is not None:
            assert ours == pytest.approx((theirs["nli_score"], min(1, theirs["nli_pre"])), abs=1e-6)


@pytest.mark.parametrize("case", by_function(RECLAIM, "citation_proportion"))
def test_parity_consistency(case: dict[str, Any]) -> None:
    (item,) = case["input"]["data"]
    expected = CONSISTENCY_MENDED.get(case["name"], case["expected"]["verbatim_citation"])
    assert consistency_ratio(item["used_references"], item["references"]) == pytest.approx(expected, abs=1e-6)


# --- beyond the published cases --------------------------------------------------------------------------------


PASSAGE = Passage("p", "The bridge was built by Mira Dorn. It opened in 1841.", title="Thale")


def citing(*quotes: str) -> tuple[Citation, ...]:
    starts = [PASSAGE.text.index(q) for q in quotes]
    return (Citation(tuple(PASSAGE.span(s, s + len(q)) for s, q in zip(starts, quotes))),) if quotes else ()


def answer(*claims: Claim) -> Answer:
    return Answer("q", " ".join(c.text for c in claims), claims=claims, passages=(PASSAGE,))


ANSWER = answer(
    Claim("Mira Dorn built it.", 0.9, citing("The bridge was built by Mira Dorn.")),
    Claim("It opened in 1841. It is red.", 0.6, citing("It opened in 1841.")),
    Claim("It is long.", 0.2),
    Claim("It fell.", 0.1, citing("It opened in 1841."), status="dropped"),
)


def test_an_answer_of_the_engine_can_be_scored() -> None:
    scores = reclaim_citation_scores(ANSWER, lambda p, h: "Mira" in p)
    assert scores.cas == pytest.approx(1 / 3)
    assert scores.crs == pytest.approx(1 / 2)
    assert scores == reclaim_citation_scores([ANSWER], lambda p, h: "Mira" in p)
    assert consistency_ratio(ANSWER) == 1.0
    assert consistency_ratio(ANSWER, ["It opened in 1841."]) == 0.5
    assert attribution_ratio(ANSWER) == pytest.approx(3 / 4)
    assert citation_length(ANSWER) == 11


def test_answers_that_cite_nothing_score_nothing() -> None:
    silent = Answer("q", "Not in these documents.", abstained=True, reason="nothing retrieved")
    assert reclaim_citation_scores([silent], stub)[:2] == (0.0, 0.0)
    assert consistency_ratio(silent) == attribution_ratio(silent) == citation_length(silent) == 0
    assert all(math.isnan(x) for x in reclaim_citation_scores([], stub)[:2])
    assert attribution_ratio([("  ", "A claim.")]) == 0.0
    assert attribution_ratio([Pair("A claim.", ("",))]) == 0.0


def test_a_fuzzy_quote_is_not_consistent() -> None:
    citation = Citation(citing("It opened in 1841.")[0].spans, match="fuzzy", quote="It was opened in 1841.")
    assert consistency_ratio(answer(Claim("Opened 1841.", citations=(citation,)))) == 0.0


def test_the_same_pair_twice_counts_twice() -> None:
    pair = Pair("Dorn built", ("Dorn", "built"))
    once = reclaim_citation_scores([[pair]], lambda p, h: all(w in p for w in h.split()))
    twice = reclaim_citation_scores([[pair, pair]], lambda p, h: all(w in p for w in h.split()))
    assert once[:2] == twice[:2] == (1.0, 1.0)


class BatchScorer:
    name = "batch"

    def __init__(self) -> None:
        self.calls: list[int] = []

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        self.calls.append(len(pairs))
        return [0.9 if stub(p, h) else None for p, h in pairs]


def test_a_support_scorer_is_asked_in_batches_once_for_each_pair() -> None:
    case = next(c for c in ALCE if c["name"] == "random_0")["input"]
    scorer = BatchScorer()
    assert alce_citation_scores(case["data"], scorer) == alce_citation_scores(case["data"], stub)
    assert len(scorer.calls) <= 3


@pytest.mark.parametrize("verdict", [None, math.nan, 0.49, False])
def test_the_unknown_does_not_entail(verdict: Any) -> None:
    assert reclaim_citation_scores([[("a.", "b")]], lambda p, h: verdict).cas == 0.0


@pytest.mark.parametrize(("answers", "nli"), [
    ([[("a", "b")]], None), ([[("a", "b")]], lambda p, h: "yes"), ([[("a", "b")]], lambda p, h: 2.0),
    (["an answer"], stub), ([[("a", "b", "c")]], stub), ([[{"claim": "b"}]], stub), ([{"used_references": []}], stub),
])  # fmt: skip
def test_bad_input_is_refused(answers: Any, nli: Any) -> None:
    with pytest.raises(InputError):
        reclaim_citation_scores(answers, nli)


@pytest.mark.parametrize("item", [{}, {"output": "x"}, {"output": "x [1]", "docs": [3]}])
def test_alce_items_that_lack_something(item: Any) -> None:
    with pytest.raises(InputError):
        alce_citation_scores([item], stub)
    with pytest.raises(InputError):
        consistency_ratio(["x"], None)


def test_alce_with_our_passages_and_sentences() -> None:
    item = {"output": "Dr. Dorn built it [1]. It opened in 1841 [1][2].", "docs": [PASSAGE, Passage("q", "Other.")]}
    scores = alce_citation_scores(item, lambda p, h: "Mira Dorn" in p)
    assert tuple(scores) == pytest.approx((1.0, 2 / 3, 1))
    assert alce_citation_scores([], stub).answers == 0


def test_cited_numbers() -> None:
    assert cited_numbers("a [1][12], b [2, 3] c [x] [4,5") == [1, 12, 2, 3, 4]
    assert re.sub(r"\s+", " ", remove_citations("a [1][12], b [2, 3].")) == "a, b."


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_blank_sentences_cite_nothing(blank: str) -> None:
    def entails(premise: str, claim: str) -> bool:
        return claim in premise

    for pair in ((["It rains.", blank], "It rains."), Pair("It rains.", ("It rains.", blank))):
        assert reclaim_citation_scores([[pair]], entails)[:2] == (1.0, 1.0)
    assert reclaim_citation_scores([[([blank], "It rains.")]], lambda p, c: True)[:2] == (1.0, 0.0)  # none is needed
    mapping = {"claim": "It rains.", "reference_sentences": ["It rains.", blank, "It pours."]}
    assert reclaim_citation_scores([[mapping]], entails)[:2] == (1.0, 0.5)


def test_references_are_cut_by_the_splitter_given() -> None:
    def lines(text: str) -> list[tuple[int, int]]:
        cut = text.find("|")
        return [(0, cut), (cut + 1, len(text))]

    passages = ["The lamp was lit. It burned oil."]
    assert consistency_ratio(["The lamp|was green"], passages, splitter=lines) == 0.5
    assert consistency_ratio(["The lamp|was green"], passages) == 0.0
