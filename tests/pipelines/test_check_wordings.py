"""Checking answers as models word them: openings that name the source, refusals, thoughts, code and links."""

from __future__ import annotations

import pytest

from shared_core import SelfReflectSettings
from shared_core.facades.checker import SelfReflectChecker
from shared_core.pipelines.decision.wording import POLICIES, treat_unsupported
from shared_core.types import Answer, Passage
from tests.fakes import PASSAGES, WordCritic

LIT = "The lamp was lit in 1871."
WRONG = "The lamp was lit in 1950."
ELSEWHERE = "Captain Venn flew to the moon."


def checker() -> SelfReflectChecker:
    return SelfReflectChecker(critic=WordCritic(), calibrations={})


def verdicts(answer: Answer) -> list[str | None]:
    return [c.verdict for c in answer.claims]


@pytest.mark.parametrize("opening", ["Based on the provided context,", "The website says:", "From the documents,"])
def test_an_opening_that_names_the_source_lowers_no_support(opening: str) -> None:
    claim = f"{opening} the lamp was lit in 1871."
    (found,) = checker().check(claim, passages=PASSAGES).claims
    assert (found.text, found.verdict, found.support) == (claim, "supported", 0.9)
    (wrong,) = checker().check(f"{opening} the lamp was lit in 1950.", passages=PASSAGES).claims
    assert wrong.verdict == "contradicted"
    (smith,) = checker().check("According to Smith, the lamp was lit in 1871.", passages=PASSAGES).claims
    assert smith.verdict == "unsupported"


@pytest.mark.parametrize("text", ["I don't know.", "Sorry, the provided context does not contain it.\n\n```\nx\n```"])
def test_an_answer_that_only_declines_passes_and_says_so(text: str) -> None:
    answer = checker().check(text, passages=PASSAGES)
    assert (answer.text, answer.claims, answer.abstained, answer.reason) == (text, (), True, "declines to answer")
    assert answer.metadata["passing"]
    for policy in POLICIES:
        assert treat_unsupported(answer, policy, SelfReflectSettings()).text == text


def test_a_claim_beside_a_refusal_is_checked() -> None:
    answer = checker().check(f"I don't know who lit it. {WRONG}", passages=PASSAGES)
    assert verdicts(answer) == ["contradicted"]
    assert not answer.metadata["passing"]
    assert verdicts(checker().check("I'm sorry, the lamp was lit in 1950.", passages=PASSAGES)) == ["unsupported"]


def test_thoughts_are_neither_checked_nor_shown() -> None:
    answer = checker().check(f"<think>{WRONG} Or not?</think>\n\n{LIT} {ELSEWHERE}", passages=PASSAGES)
    assert answer.text == f"{LIT} {ELSEWHERE}"
    assert verdicts(answer) == ["supported", "unsupported"]
    assert [answer.text[c.start : c.end] for c in answer.claims] == [LIT, ELSEWHERE]
    assert any(d.outcome == "thoughts left out" for d in answer.trace)
    flagged = treat_unsupported(answer, "flag", SelfReflectSettings())
    assert flagged.text == f"{LIT} {ELSEWHERE} (unsupported)"


def test_a_tag_that_is_spoken_of_begins_no_thought() -> None:
    text = f"The tag `</think>` ends thoughts. {LIT}"
    assert checker().check(text, passages=PASSAGES).text == text


def test_our_own_abstention_behind_thoughts_is_one() -> None:
    own = "I can't answer that from these documents with the certainty asked for."
    assert checker().check(f"<think>Hm.</think>{own}", passages=PASSAGES).reason == "abstention"


# --- code and links ------------------------------------------------------------------------------------------------


EVIL = "http://evil.example"


def test_changed_code_is_not_supported() -> None:
    passages = ["The field `weight_grams` is required. Run `parcel sync --all` to update."]
    for claim in ("The field `weight_kg` is required.", "Run `parcel update --all` to update."):
        (found,) = checker().check(claim, passages=passages).claims
        assert (found.text, found.verdict) == (claim, "unsupported")
    answer = checker().check("The field `weight_grams` is required.", passages=passages)
    assert verdicts(answer) == ["supported"]


@pytest.mark.parametrize("link", [f"[{LIT}]({EVIL})", f"{LIT[:-1]} ([more]({EVIL})).", f"{LIT[:-1]} ({EVIL})."])
def test_a_link_that_no_passage_has_is_not_supported(link: str) -> None:
    assert verdicts(checker().check(link, passages=PASSAGES)) == ["unsupported"]


def test_a_link_to_the_source_of_a_passage_is_known() -> None:
    url = "https://orm.example/lamps"
    passages = [Passage("lamp", LIT, metadata={"source": url}), Passage("other", "See https://orm.example/oil.")]
    for known in (url, "https://orm.example/oil", "https://asked.example"):
        answer = checker().check(f"[{LIT}]({known})", "And https://asked.example?", passages=passages)
        assert verdicts(answer) == ["supported"]
        cited = checker().check(f"{LIT[:-1]} ({known}).", "And https://asked.example?", passages=passages)
        assert verdicts(cited) == ["supported"]
