"""ReSearch with retrieval: claims judged by what passages say, quotes, what is left out, why there is no answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.abstention import claim_key
from shared_core.errors import SelfReflectError
from shared_core.pipelines.research.claims import Candidate, Part, lay_out, shown_scores
from shared_core.types import Answer, Claim
from tests.fakes import Critic, FirstSentenceReader, Shelf
from tests.pipelines.research_scripts import Model, ask, by_words, closed, same, sentence

LIT, OIL, SANK, MOON = (
    "The lamp was lit in 1871.", "It burned whale oil.", "The lamp sank in 1900.", "Zebras graze beyond Jupiter.",
)  # fmt: skip


def exact(answer: Answer) -> None:
    """What every answer of documents promises: quotes stand where they are said to, marks are those of the quotes."""
    texts = {p.id: p.text for p in answer.passages}
    for claim in answer.kept_claims:
        assert claim.citations
        assert claim.start is not None
    for i, span in enumerate(answer.numbered_spans(), 1):
        assert texts[span.passage_id][span.start : span.end] == span.text
        assert f"[{i}]" in answer.text


def test_a_candidate_whose_claims_all_are_supported_is_shown_as_it_was_written() -> None:
    answer = ask(Model([[f"{LIT} {OIL}"]]))
    assert answer.text == f"{LIT} [1] {OIL} [2]"
    assert answer.metadata["written"] == f"{LIT} {OIL}"
    assert [answer.text[c.start : c.end] for c in answer.claims] == [LIT, OIL]
    assert answer.metadata["verdicts"] == ["supported", "supported"]
    assert answer.confidence == 0.9
    exact(answer)


def test_what_the_passages_do_not_support_is_left_out() -> None:
    answer = ask(Model([[f"{LIT} {SANK}"]]))
    assert answer.text == f"{LIT} [1]"
    assert [(c.text, c.status) for c in answer.claims] == [(LIT, "kept"), (SANK, "dropped")]
    exact(answer)


def test_or_marked() -> None:
    answer = ask(Model([[f"{LIT} {OIL} {SANK}"]]), unsupported_claims="flag")
    assert answer.text == f"{LIT} [1] {OIL} [2] {SANK} [1] (unsupported)"
    assert [c.status for c in answer.claims] == ["kept", "kept", "flagged"]


def test_a_sentence_that_is_partly_supported_is_left_out_whole_or_marked_so() -> None:
    both = "The lamp was lit in 1871 and sank in 1900."

    def split(request: Any) -> str:
        return f"- {LIT}\n- {SANK}" if sentence(request) == both else same(request)

    written = f"{both} The lamp burned whale oil."
    assert ask(Model([[written]], split=split)).text == "The lamp burned whale oil. [1]"
    marked = ask(Model([[written]], split=split), unsupported_claims="flag")
    assert marked.text == f"{both} [1] (partly unsupported) The lamp burned whale oil. [2]"


@pytest.mark.parametrize("left_out", ["and sank in 1900", "and was paid for by the king", "but it never gave light"])
def test_a_sentence_of_which_the_splitter_leaves_out_a_part_is_judged_as_a_whole(left_out: str) -> None:
    written = f"The lamp was lit in 1871, {left_out}."
    answer = ask(Model([[written]], split=lambda request: f"- {LIT}"), judge=by_words({left_out: 0.1, "1871": 0.95}))
    assert answer.abstained
    assert [(c.text, c.support) for c in answer.claims] == [(written, 0.1)]
    agreed = ask(Model([["The lamp was lit in 1871, it is said."]], split=lambda request: f"- {LIT}"))
    assert [c.text for c in agreed.kept_claims] == [LIT]


def test_a_sentence_that_leans_on_one_left_out_goes_with_it() -> None:
    answer = ask(
        Model([[f"{SANK} {OIL} The lamp was lit in 1871, of all years."]]), judge=by_words({"1871": 0.95, "oil": 0.9})
    )
    assert answer.text == "The lamp was lit in 1871, of all years. [1]"


def test_a_claim_of_which_no_passage_speaks_has_no_quote_and_is_not_shown() -> None:
    answer = ask(Model([[f"{LIT} {MOON}"]]), judge=by_words({"1871": 0.99, "Zebras": 0.99}))
    assert answer.text == f"{LIT} [1]"
    assert answer.claims[1].support is None
    assert answer.metadata["verdicts"] == ["supported", "unsupported here"]


def test_unsupported_here_is_not_false() -> None:
    for said, verdict in (("95", "unsupported here"), ("3", "false"), ("no idea", "unsupported here")):
        answer = ask(Model([[f"{LIT} {MOON}"]], think=lambda request, said=said: said), own_word=True)
        assert answer.metadata["verdicts"] == ["supported", verdict]
        assert answer.text == f"{LIT} [1]"  # it changes no decision


def test_the_quote_is_the_sentence_that_supports_most() -> None:
    precise = Critic(lambda premise, claim: 0.9 if "whale" in premise else 0.2)
    answer = ask(Model([["The lamp was lit by oil."]]), judge=precise)
    assert answer.claims[0].citations[0].quote == "It burned whale oil."


def test_why_there_is_no_answer() -> None:
    assert ask(Model([[MOON]])).reason == "unsupported here"
    assert ask(Model([["I do not know."]])).reason == "passages do not answer"
    assert ask(Model([[SANK]])).reason == "support below target"
    assert closed(Model([[SANK]], think=lambda r: "5")).reason == "model does not know"
    assert ask(Model([["The lamp was lit, and it sank."]]), max_calls=1, rounds=1).reason == "out of budget"


def test_where_nothing_was_written_the_metadata_say_so() -> None:
    answer = ask(Model([[""]]))
    assert answer.metadata["written"] == ""
    assert answer.metadata["closed_book"] is False


def test_a_question_is_closed_book_without_looking() -> None:
    shelf = Shelf()
    model = Model([[LIT]])
    settings = SelfReflectSettings(pipeline="research", research={"closed_book": True, "samples": 2})
    answer = SelfReflectEngine(shelf, model.lm, settings, reader=FirstSentenceReader(0.9)).answer("When was it lit?")
    assert shelf.queries == []
    assert answer.passages == ()
    assert not answer.abstained
    assert answer.claims[0].citations == ()


def test_likely_claims_go_to_the_next_round_with_their_quotes() -> None:
    model = Model([[f"The lamp was lit in the year 1871. {SANK}"]])
    ask(model)
    (rewrite,) = model.asked("rewrite")
    assert "- The lamp was lit in the year 1871. (“The lamp was lit in 1871.”)" in rewrite.prompt.text


def test_what_is_worth_most_as_it_would_be_shown_is_chosen() -> None:
    """Of the first nothing can be shown, though as a whole it is worth more than the second."""
    mixed = "The lamp was lit in 1871 with oil and it sank."

    def split(request: Any) -> str:
        if mixed in request.prompt.text.split("Sentence: ")[1]:
            return "- The lamp was lit in 1871.\n- The lamp was lit with oil.\n- The lamp sank."
        return f"- {LIT}"

    answer = ask(Model([[mixed, LIT]], split=split), judge=by_words({"1871": 0.9, "oil": 0.95, "sank": 0.4}))
    assert answer.text == f"{LIT} [1]"


def test_of_two_that_show_the_same_the_one_as_it_was_written() -> None:
    answer = ask(Model([[f"{LIT} {SANK}", LIT]]))
    assert answer.metadata["written"] == LIT


def test_a_judge_that_fails_leaves_claims_unknown() -> None:
    answer = ask(Model([[LIT]]), judge=by_words({"": None}))
    assert answer.abstained
    assert answer.reason == "support unknown"


def test_through_every_witness() -> None:
    """With reader and critic: the shipped witnesses judge, too."""
    model = Model([[LIT]], think=lambda r: "90")
    settings = SelfReflectSettings(pipeline="research", research={"samples": 2, "rounds": 1})
    judge = by_words({"1871": 0.9})
    engine = SelfReflectEngine(Shelf(), model.lm, settings, reader=FirstSentenceReader(0.9), judge=judge)
    answer = engine.answer("When was the lamp lit?")
    assert answer.claims[0].signals.entailed == 0.9
    assert any(d.kind == "confidence" for d in answer.trace)


# --- laying out ----------------------------------------------------------------------------------------------------

words = st.sampled_from(["Ada", "It", "built", "bridges", "in 1901", "there"])
sentences = st.lists(words, min_size=1, max_size=4).map(lambda w: " ".join(w) + ".")


@st.composite
def candidates(draw: Any) -> Candidate:
    """Sentences with any gaps, each making up to three claims, some of them again."""
    text, parts = draw(st.sampled_from(["", "- ", "Well. "])), []
    for said in draw(st.lists(sentences, min_size=1, max_size=5)):
        start = len(text)
        text += said
        claims = draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3))
        parts.append(Part(start, len(text), tuple(claims)))
        text += draw(st.sampled_from([" ", "\n\n", " I am not sure. "]))
    return Candidate(text.strip(), tuple(p for p in parts if p.end <= len(text.strip())))


@given(candidates(), st.data(), st.sampled_from([0.2, 0.5, 0.8]))
def test_every_kept_claim_has_its_sentence_and_no_dropped_one_is_in_the_text(
    candidate: Candidate, data: Any, bar: float
) -> None:
    own = {c: data.draw(st.sampled_from([None, 0.1, 0.5, 0.9])) for c in "abcdef"}
    scores = shown_scores(candidate, {claim_key(c): p for c, p in own.items()})
    claims = [
        Claim(c, own[c], status="kept" if s is not None and s > bar else "dropped")
        for c, s in zip(candidate.claims, scores)
    ]
    text, placed = lay_out(candidate, claims)
    assert sorted(c.text for c in placed) == sorted(candidate.claims)
    for claim in placed:
        first = next(p for c, p in candidate.places() if c == claim.text)
        if claim.status == "kept":
            assert claim.start is not None
            assert text[claim.start : claim.end] == candidate.text[first.start : first.end]
        else:
            assert claim.start is None
    kept = {c.text for c in placed if c.status == "kept"}
    assert all(own[c] is not None and own[c] > bar for c in kept)
    assert (text == "") == (not kept)


@given(candidates())
def test_a_whole_candidate_without_marks_is_as_it_was_written(candidate: Candidate) -> None:
    text, placed = lay_out(candidate, [Claim(c, 0.9) for c in candidate.claims], marks=False)
    assert text == candidate.text
    assert all(c.start is not None for c in placed)


def test_an_error_of_ours_is_never_an_answer() -> None:
    def fails(quote: str, claim: str) -> float:
        raise RuntimeError("a fault")

    with pytest.raises((RuntimeError, SelfReflectError)):
        ask(Model([[LIT]]), judge=Critic(fails))


@pytest.mark.parametrize(
    "written",
    [
        "The passages do not say who lit the lamp. They only say that the lamp was lit in 1871.",
        "The context does not mention an engineer. The passages describe a lamp that burned whale oil.",
    ],
)
def test_what_comments_on_the_passages_behind_a_refusal_is_no_answer(written: str) -> None:
    answer = ask(Model([[written]]))
    assert answer.abstained
    assert not answer.claims


def test_a_sentence_that_declines_behind_an_answer_leaves_the_answer() -> None:
    answer = ask(Model([[f"{LIT} The passages do not say by whom."]]))
    assert answer.text == f"{LIT} [1]"
