"""Self-RAG on a model with reflection tokens: every branch of its search."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from shared_core.errors import CapabilityError, SettingsError
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.base import Capabilities, Sample
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.self_rag.choose import has_reflection_tokens
from shared_core.reflection import RELEASED_IDS, VERDICT_TOKENS
from shared_core.runtime import flow
from shared_core.types import Answer, ClaimSealed, Finished, Passage, Retrieved
from tests.pipelines.scripts import entries
from tests.pipelines.self_rag_scripts import (
    BAD,
    GOOD,
    LAMP,
    QUESTION,
    SHIP,
    TRAINED,
    Fixed,
    by_passage,
    engine,
    made,
    said,
    shown,
    trained,
)


def test_the_supported_segment_wins_and_cites_its_passage_word_for_word() -> None:
    lm = trained(by_passage)
    answer: Answer = engine(lm).answer(QUESTION)
    assert answer.text == "The lamp was lit in 1871. [1]"
    (claim,) = answer.kept_claims
    (span,) = claim.citations[0].spans
    assert (span.passage_id, LAMP.text[span.start : span.end]) == ("lamp", "The lamp was lit in 1871.")
    assert claim.critique is not None
    assert claim.critique.relevance == pytest.approx(0.9)
    assert claim.critique.support == pytest.approx(0.9 + 0.5 * 0.05)
    assert claim.critique.usefulness == pytest.approx(0.9 - 0.1 / 4)
    assert answer.metadata["pipeline"] == "self_rag"
    # One token to decide, then both passages in one batch.
    assert lm.batches == [1, 2]
    assert entries(answer, "critic")[0].outcome == "reflection tokens"


def test_half_of_a_partial_support_is_no_probability() -> None:
    row = {"[Fully supported]": 0.2, "[Partially supported]": 0.75, "[No support / Contradictory]": 0.05}
    first = {"[Relevant]": 0.9, "[Irrelevant]": 0.1}
    lm = trained(lambda r: said("[Retrieval]") if not r else said(GOOD, first, row))
    answer = engine(lm).answer(QUESTION)
    claim = answer.claims[0]
    assert claim.critique is not None
    assert claim.critique.support == pytest.approx(0.2 + 0.375)
    assert claim.support == pytest.approx(0.2)
    assert answer.abstained


@pytest.mark.parametrize(
    ("p", "mode", "asked"),
    [(0.3, "adaptive", True), (0.1, "adaptive", False), (0.1, "always", True), (0.9, "never", False)],
)
def test_retrieval_follows_the_mode_and_the_threshold(p: float, mode: str, asked: bool) -> None:
    def reply(response: str) -> Sample:
        if not response:
            return said("[Retrieval]", {"[Retrieval]": p, "[No Retrieval]": 1 - p})
        return said(GOOD if "<paragraph>" in response else "The lamp was lit in 1871.[Utility:5]")

    retriever = Fixed(LAMP)
    lm = trained(reply)
    answer = SelfReflectEngine(retriever, lm, made(mode=mode)).answer(QUESTION)
    assert bool(retriever.queries) == asked
    assert len(lm.requests) == (2 if mode == "adaptive" else 1)
    if not asked:
        assert shown(lm.requests[-1].prompt).endswith("### Response:\n[No Retrieval]")
        assert answer.claims[0].citations == ()


def test_a_claim_without_a_passage_is_unknown_unless_the_model_stands_by_it() -> None:
    def reply(response: str) -> Sample:
        return said("The lamp was lit in 1871.[Utility:5]")

    unknown = engine(trained(reply), mode="never").answer(QUESTION)
    assert unknown.abstained
    assert unknown.claims[0].support is None
    lm = ScriptedLM(
        lambda r: reply(""),
        capabilities=Capabilities(
            verdict_logprobs=True, stop_tokens=True, token_prompts=True, score=True, token_logprobs=True
        ),
        token_ids=RELEASED_IDS,
        score=lambda r: [(math.log(0.9),), (math.log(0.1),)],
    )
    stood_by = engine(lm, mode="never").answer(QUESTION)
    assert stood_by.confidence == pytest.approx(0.9)
    assert entries(stood_by, "support")[0].outcome == "the model's own P(True)"


@pytest.mark.parametrize(
    ("text", "score", "reason"),
    [
        ("The lamp was lit in 1871.[Utility:5]", True, "own answer not certain enough"),
        ("The lamp was lit in 1871.[Utility:5]", False, "certainty unknown"),
        ("[Utility:1]", True, "replies unusable"),
    ],
)
def test_where_nothing_was_looked_up_no_passage_is_blamed(text: str, score: bool, reason: str) -> None:
    lm = ScriptedLM(
        lambda r: said(text),
        capabilities=dataclasses.replace(TRAINED, score=score),
        token_ids=RELEASED_IDS,
        score=lambda r: [(math.log(0.1),), (math.log(0.9),)],
    )
    answer = engine(lm, mode="never").answer(QUESTION)
    assert answer.abstained
    assert answer.reason == reason
    assert "No passage" not in answer.text


def test_later_segments_retrieve_with_the_segment_before_and_keep_the_evidence_in_the_prompt() -> None:
    first = "[Relevant]The lamp was lit in 1871.[Fully supported][Retrieval]"
    second = "[Relevant]The Marrow carried salt.[Fully supported][Utility:5]"

    def reply(response: str) -> Sample:
        if not response:
            return said("[Retrieval]")
        if response.count("<paragraph>") == 1:
            return said(first if "Lamps" in response else BAD)
        return said(second if response.endswith("She carried salt.</paragraph>") else BAD)

    retriever, lm = Fixed(LAMP, SHIP), trained(reply)
    answer = SelfReflectEngine(retriever, lm, made(beam_width=2)).answer(QUESTION)
    assert [c.text for c in answer.kept_claims] == ["The lamp was lit in 1871.", "The Marrow carried salt."]
    assert [c.citations[0].spans[0].passage_id for c in answer.kept_claims] == ["lamp", "ship"]
    assert retriever.queries == [QUESTION, f"{QUESTION} The lamp was lit in 1871."]
    last = shown(lm.requests[-1].prompt).partition("### Response:\n")[2]
    assert last == (
        "[Retrieval]<paragraph>Lamps\nThe lamp was lit in 1871. It burned whale oil.</paragraph>"
        "[Relevant]The lamp was lit in 1871.[Fully supported]"
        "[Retrieval]<paragraph>Ships\nThe Marrow sailed under Ila Venn. She carried salt.</paragraph>"
    )
    # The decision what comes next was read where the segment ended: no call of its own.
    assert lm.batches == [1, 2, 2]


def test_without_retrieving_again_the_first_passages_serve() -> None:
    def reply(response: str) -> Sample:
        if response.count("<paragraph>") < 2:
            return said("[Relevant]The lamp was lit in 1871.[Fully supported][Retrieval]")
        return said("[Relevant]It burned whale oil.[Fully supported][Utility:5]")

    retriever = Fixed(LAMP)
    SelfReflectEngine(retriever, trained(reply), made(mode="always", retrieve_again=False)).answer(QUESTION)
    assert retriever.queries == [QUESTION]


def test_continuing_with_the_evidence_adds_no_passage() -> None:
    def reply(response: str) -> Sample:
        if response.endswith("[Continue to Use Evidence]"):
            return said("It burned whale oil.[Fully supported][Utility:4]")
        return said("[Relevant]The lamp was lit in 1871.[Fully supported][Continue to Use Evidence]")

    lm = trained(reply)
    answer = SelfReflectEngine(Fixed(LAMP), lm, made(mode="always")).answer(QUESTION)
    assert [c.citations[0].quote for c in answer.kept_claims] == ["The lamp was lit in 1871.", "It burned whale oil."]
    assert shown(lm.requests[-1].prompt).count("<paragraph>") == 1
    assert "[Continue to Use Evidence]" not in answer.text
    critique = answer.kept_claims[1].critique
    assert critique is not None
    assert critique.relevance is None


def test_what_follows_a_verdict_without_a_decision_is_a_segment_of_its_own() -> None:
    def reply(response: str) -> Sample:
        if response.count("[Fully supported]"):
            return said("It burned whale oil.[Fully supported][Utility:4]")
        return said("[Relevant]The lamp was lit in 1871.[Fully supported]It was red.[No support / Contradictory]")

    answer = SelfReflectEngine(Fixed(LAMP), trained(reply), made(mode="always")).answer(QUESTION)
    assert "red" not in answer.text
    assert answer.kept_claims[0].text == "The lamp was lit in 1871."


def test_hard_constraint_prunes_while_searching_and_can_be_left_off() -> None:
    worse = "[Relevant]The lamp was lit in 1990.[No support / Contradictory][Retrieval]"

    def reply(response: str) -> Sample:
        return said(worse) if "Lamps" in response else said("[Relevant]She carried salt.[Fully supported][Utility:1]")

    hard = engine(trained(reply), mode="always", weight_usefulness=50.0).answer(QUESTION)
    assert [c.text for c in hard.claims] == ["She carried salt."]
    assert entries(hard, "segment")[0].values["pruned"] == 1
    soft = engine(trained(reply), mode="always", hard_constraint=False, max_depth=1, weight_usefulness=50.0)
    answer = soft.answer(QUESTION)
    assert answer.claims[0].text == "The lamp was lit in 1990."  # its use is not judged
    assert answer.abstained


def test_weights_are_the_soft_constraints() -> None:
    relevant = {"[Relevant]": 0.99, "[Irrelevant]": 0.01}
    barely = {"[Relevant]": 0.4, "[Irrelevant]": 0.6}
    half = {"[Fully supported]": 0.4, "[Partially supported]": 0.4, "[No support / Contradictory]": 0.2}

    def reply(response: str) -> Sample:
        if "Lamps" in response:
            return said("[Relevant]It burned whale oil.[Fully supported][Utility:3]", relevant, half)
        return said("[Relevant]She carried salt.[Fully supported][Utility:3]", barely)

    def best(**weights: float) -> str:
        answer = engine(trained(reply), mode="always", form="short", **weights).answer(QUESTION)
        text: str = answer.claims[0].text
        return text

    assert best(weight_relevance=5.0) == "It burned whale oil."
    assert best(weight_support=5.0) == "She carried salt."


# --- short form ----------------------------------------------------------------------------------------------------


def closed(response: str) -> Sample:
    for title, text in (("One", "TRUE"), ("Two", "true."), ("Three", "FALSE")):
        if title in response:
            use = "[Utility:5]" if text == "FALSE" else "[Utility:4]"
            return said(f"[Relevant]{text}[Fully supported]{use}")
    raise AssertionError(response)


def test_closed_sets_add_up_and_open_ones_take_the_best_path() -> None:
    shelf = [Passage(t, f"It is said in {t}.", t) for t in ("One", "Two", "Three")]
    together = engine(trained(closed), *shelf, mode="always", form="short", closed_set=True).answer("True or false?")
    assert together.claims[0].text == "TRUE"
    assert together.claims[0].signals.agreement == pytest.approx(2 / 3)
    alone = engine(trained(closed), *shelf, mode="always", form="short").answer("True or false?")
    assert alone.claims[0].text == "FALSE"


def test_unsupported_answers_count_by_their_scores_in_the_short_form() -> None:
    """The published short form has no hard constraint: an answer that is pruned would add nothing to its equals."""
    verdicts = {"One": ("TRUE", "[Fully supported][Utility:3]"), "Two": ("FALSE", "[Fully supported][Utility:1]")}
    verdicts["Three"] = ("FALSE", "[No support / Contradictory][Utility:5]")

    def reply(response: str) -> Sample:
        text, rest = next(found for title, found in verdicts.items() if title in response)
        return said(f"[Relevant]{text}{rest}")

    shelf = [Passage(t, f"It is said in {t}.", t) for t in verdicts]
    for options, expected in (({"closed_set": True}, "FALSE"), ({}, "TRUE")):
        answer = engine(trained(reply), *shelf, mode="always", form="short", **options).answer("True or false?")
        assert answer.claims[0].text == expected
        assert entries(answer, "segment")[0].values["pruned"] == 0


def test_short_form_is_one_batch_of_all_passages() -> None:
    shelf = [Passage(str(i), f"Text {i}.", "Lamps") for i in range(5)]
    lm = trained(by_passage)
    engine(lm, *shelf, form="short").answer(QUESTION)
    assert lm.batches == [1, 5]


def test_a_closed_set_belongs_to_the_short_form() -> None:
    with pytest.raises(SettingsError, match="form='short'"):
        made(closed_set=True)


# --- limits, streaming, drivers ------------------------------------------------------------------------------------


def test_the_budget_ends_the_search_with_what_it_has() -> None:
    def reply(response: str) -> Sample:
        n = response.count("<paragraph>")
        return said(f"[Relevant]Sentence {n} about the lamp.[Fully supported][Retrieval]")

    lm = trained(reply)
    settings = made(mode="always").replace(max_calls=3)
    answer = SelfReflectEngine(Fixed(LAMP, SHIP), lm, settings).answer(QUESTION)
    assert answer.usage.calls == len(lm.requests) == 3
    assert next(c.text for c in answer.kept_claims) == "Sentence 1 about the lamp."
    assert entries(answer, "limit")[0].outcome == "out of budget"


def test_a_budget_too_small_for_all_passages_reads_the_first() -> None:
    lm = trained(by_passage)
    answer = engine(lm, settings=made(mode="always").replace(max_calls=1)).answer(QUESTION)
    assert answer.text == "The lamp was lit in 1871. [1]"
    assert len(lm.requests) == 1


def test_streams_seal_segments_as_soon_as_no_later_step_can_take_them_back() -> None:
    def reply(response: str) -> Sample:
        if not response:
            return said("[Retrieval]")
        n = response.count("<paragraph>")
        end = "[Utility:5]" if n == 3 else "[Retrieval]"
        return said(f"[Relevant]Sentence {n} about the lamp.[Fully supported]{end}")

    lm = trained(reply)
    made_ = SelfReflectEngine(Fixed(LAMP), lm, made(beam_width=1))
    seen: list[tuple[str, int]] = []
    events = []
    for event in made_.stream(QUESTION):
        events.append(event)
        if isinstance(event, ClaimSealed):
            seen.append((event.claim.text, len(lm.requests)))
    assert [text for text, _ in seen] == [f"Sentence {n} about the lamp." for n in (1, 2, 3)]
    # Each is told when it is written, not at the end.
    assert [event for event in events if isinstance(event, Retrieved)]
    sealed = [type(e) for e in events]
    assert sealed.index(ClaimSealed) < len(sealed) - sealed[::-1].index(Retrieved) - 1
    assert isinstance(events[-1], Finished)
    assert events[-1].answer.text == made_.answer(QUESTION).text


async def test_four_drivers_give_one_answer() -> None:
    def fresh() -> Any:
        return engine(trained(by_passage))

    one = fresh().answer(QUESTION)
    assert (await fresh().aanswer(QUESTION)) == one
    *_, last = fresh().stream(QUESTION)
    assert last.answer == one
    many = fresh().answer_many([QUESTION, QUESTION])
    assert [a.text for a in many] == [one.text] * 2
    both = trained(by_passage)
    engine(both).answer_many([QUESTION, QUESTION])
    assert both.batches == [2, 4]
    assert flow.describe(()) == ""


# --- who judges ----------------------------------------------------------------------------------------------------


def test_a_model_without_the_tokens_is_refused_where_they_are_asked_for() -> None:
    plain = ScriptedLM(lambda r: "x", capabilities=TRAINED, token_ids={"[Relevant]": 3})
    assert not has_reflection_tokens(plain)
    assert has_reflection_tokens(trained(by_passage))
    assert not has_reflection_tokens(ScriptedLM((), token_ids=RELEASED_IDS))
    with pytest.raises(CapabilityError, match="reflection tokens"):
        engine(plain, critic="tokens").answer(QUESTION)


def test_verdicts_come_in_the_order_they_were_asked_for() -> None:
    lm = trained(by_passage)
    engine(lm).answer(QUESTION)
    names = {i: t for t, i in RELEASED_IDS.items()}
    params = lm.requests[-1].params
    assert tuple(names[i] for i in params.verdicts) == VERDICT_TOKENS
    assert RELEASED_IDS["[Retrieval]"] in params.stop_token_ids
    assert params.stop == ()
