"""Claims beside each other: repeated ones are one, and one that leans on a dropped claim is dropped with it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.decision.decide import leans, merge_duplicates, standing
from shared_core.pipelines.decision.wording import rename_markers
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Citation, Claim, Passage, Signals
from tests.fakes import Critic, Shelf, published

MIRA = Passage("mira", "Mira Dorn built the lamp in 1871. She died at sea in 1899.", "Lamps")
QUESTION = "Who built the lamp?"


def test_markers_of_a_sentence_with_two_claims_are_renamed_once() -> None:
    cited = (Citation((MIRA.span(0, 32),)),)
    claims = tuple(Claim(text, 0.9, cited, start=0, end=32) for text in ("Mira Dorn built it.", "It is of 1871."))
    answer = Answer(QUESTION, f"{MIRA.text[:32]} [1] [2]", claims)
    assert rename_markers(answer, lambda span: span.passage_id).text == f"{MIRA.text[:32]} [mira] [2]"


def claim(text: str, support: float | None, quote: str = "") -> Claim:
    passage = Passage(quote or "p", quote or "x")
    return Claim(text, support, (Citation((passage.span(0, len(passage.text)),)),) if quote else ())


BUILT, DIED = "Mira built it.", "She died in 1899."


@pytest.mark.parametrize(("said", "eligible", "scores"), [
    ([claim(BUILT, 0.2), claim(DIED, 0.9)], None, [0.2, 0.2]),
    ([claim(BUILT, 0.9), claim(DIED, 0.2)], None, [0.9, 0.2]),
    ([claim(BUILT, None), claim(DIED, 0.9)], None, [None, None]),
    ([claim(BUILT, 0.3), claim("She sailed.", 0.8), claim("Then they left.", 0.9)], None, [0.3, 0.3, 0.3]),
    ([claim(BUILT, 0.2), claim("Mira died in 1899.", 0.9)], None, [0.2, 0.9]),  # names its subject
    ([claim(BUILT, 0.2), claim(DIED, 0.9, quote="She  died in 1899.")], None, [0.2, 0.9]),  # a document's own words
    ([claim(DIED, 0.9)], None, [0.9]),
    ([claim(BUILT, 0.9), claim(DIED, 0.8), claim("Mira sailed.", 0.7)], {1, 2}, [None, None, 0.7]),
])  # fmt: skip
def test_a_claim_that_leans_on_another_scores_no_more_than_that(
    said: list[Claim], eligible: set[int] | None, scores: list[float | None]
) -> None:
    assert standing(said, eligible) == scores


@given(st.lists(st.tuples(st.sampled_from(["Mira built it.", "She died."]), st.none() | st.floats(0, 1)), max_size=6))
def test_whatever_the_bar_what_is_above_it_leans_on_what_is_above_it(said: list[tuple[str, float | None]]) -> None:
    scores = standing([claim(text, p) for text, p in said])
    for i, ((text, support), score) in enumerate(zip(said, scores)):
        assert score is None or (support is not None and score <= support)
        if i and leans(text) and score is not None:
            before = scores[i - 1]
            assert before is not None
            assert before >= score


@pytest.mark.parametrize(("text", "expected"), [
    ("She died.", True), ("But they left.", True), ("The latter burned.", True), ("Its keel broke.", True),
    ("However, this was denied.", True), ("Itself a ruin, the mill stands.", False), ("Mira saw her.", False),
    ("But Mira left.", False), ("The lamp burned.", False),
])  # fmt: skip
def test_words_that_lean(text: str, expected: bool) -> None:
    assert leans(text) is expected


def by_claim(claims: Sequence[str], supports: Sequence[float]) -> Critic:
    """A judge with a probability for each claim."""
    return Critic(lambda quote, claim: dict(zip(claims, supports))[claim])


def answered(first: float, second: float, pronoun: str = "She") -> Answer:
    claims = ("Ila Venn built the lamp.", f"{pronoun} died at sea.")
    reply = "".join(f"<reference>S{i}</reference><claim>{c}</claim>\n" for i, c in enumerate(claims, 1))
    judge = by_claim(claims, (first, second))
    settings = published(pipeline="reclaim", target_accuracy=0.5)
    return SelfReflectEngine(Shelf((MIRA,)), ScriptedLM([reply]), settings, judge=judge).answer(QUESTION)


def test_an_answer_never_shows_a_pronoun_without_the_claim_that_says_who_it_is() -> None:
    answer = answered(0.1, 0.9)
    assert answer.abstained
    assert [c.status for c in answer.claims] == ["dropped", "dropped"]
    assert answer.metadata["claim_scores"] == [0.1, 0.1]
    shown = answered(0.1, 0.9, pronoun="Ila Venn")
    assert shown.text == "Ila Venn died at sea. [1]"
    assert answered(0.8, 0.9).text == "Ila Venn built the lamp. [1] She died at sea. [2]"


def test_a_supported_claim_that_is_dropped_for_the_one_before_it_is_not_called_unsupported() -> None:
    claims = ("Ila Venn built the lamp.", "She died at sea.", "Mira Dorn built it.")
    reply = "".join(f"<reference>S1</reference><claim>{c}</claim>\n" for c in claims)
    judge = by_claim(claims, (0.1, 0.9, 0.9))
    settings = SelfReflectSettings(pipeline="reclaim", signals="support_only", unsupported_claims="flag")
    answer = SelfReflectEngine(Shelf((MIRA,)), ScriptedLM([reply]), settings, judge=judge).answer(QUESTION)
    assert {c.text: c.status for c in answer.claims} == dict(zip(claims, ("flagged", "dropped", "kept")))
    assert "She died" not in answer.text


def test_a_claim_said_twice_is_one_with_both_quotes_and_the_better_support() -> None:
    first = claim("Mira built it.", 0.3, quote="Mira built the lamp.")
    again = Claim(
        "mira  built it", 0.8, claim("x", None, quote="It was hers.").citations, signals=Signals(entailed=0.8)
    )
    (merged,) = merge_duplicates([first, again])
    assert merged.text == "Mira built it."
    assert [c.quote for c in merged.citations] == ["Mira built the lamp.", "It was hers."]
    assert (merged.support, merged.signals.entailed) == (0.8, 0.8)
    assert len(merge_duplicates([again, first, first])[0].citations) == 2
    assert merge_duplicates([claim("A.", None), claim("A.", 0.1)])[0].support == 0.1


@pytest.mark.parametrize("other", [0.095, 0.5, None])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_quote_that_does_not_support_a_claim_is_not_shown_with_the_support_of_another(
    other: float | None, reverse: bool
) -> None:
    pair = [claim("A.", 0.99, quote="It is A."), claim("A.", other, quote="It is B.")]
    (merged,) = merge_duplicates(pair[::-1] if reverse else pair, 0.5)
    assert [c.quote for c in merged.citations] == ["It is A."]
    assert merged.support == 0.99


def test_claims_that_nobody_has_weighed_yet_are_merged_with_all_quotes() -> None:
    pair = [claim("A.", None, quote="It is A."), claim("A.", None, quote="A, again.")]
    assert len(merge_duplicates(pair, 0.5)[0].citations) == 2
