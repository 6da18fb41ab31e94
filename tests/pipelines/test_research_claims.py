"""Claims of candidates: splitters that do as told, refuse, ramble, invent; and how likely a claim is by the model."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.abstention import claim_key
from shared_core.errors import GenerationError
from shared_core.lm.base import Capabilities, Generation, Sample
from shared_core.pipelines.research.claims import Splits, read_claims, split
from shared_core.settings import SelfReflectSettings
from tests.pipelines.research_scripts import Model, believes, claim, closed, sentence

SENTENCE = "It was lit in 1871 and burned whale oil."
ANSWER = f"The lamp stands on the pier. {SENTENCE}"


def read(reply: str | Exception, sentence: str = SENTENCE, finish: Any = "eos") -> tuple[tuple[str, ...], int]:
    made = reply if isinstance(reply, Exception) else Generation((Sample(reply, finish_reason=finish),))
    return read_claims(made, sentence, f"When was the lamp lit?\n{ANSWER}")


@pytest.mark.parametrize(
    "reply",
    [
        "- The lamp was lit in 1871.\n- The lamp burned whale oil.",
        "1. The lamp was lit in 1871.\n2) The lamp burned whale oil.",
        "Here are the claims:\n\n* The lamp was lit in 1871.\n* The lamp burned whale oil.\n\nI hope this helps!",
        "The lamp was lit in 1871.\nThe lamp burned whale oil.",
        "The lamp was lit in 1871. The lamp burned whale oil.",
        "Claim 1: The lamp was lit in 1871.\nClaim 2: The lamp burned whale oil.\nClaim 3: the lamp was lit in 1871",
    ],
)
def test_a_list_of_claims_in_any_dress(reply: str) -> None:
    assert read(reply) == (("The lamp was lit in 1871.", "The lamp burned whale oil."), 0)


def test_marks_around_a_claim_go_and_those_within_it_stay() -> None:
    said = '- "The lamp was lit in 1871."\n- "Whale oil" burned in the lamp.\n- The lamp was called “the pier lamp”.'
    assert read(said)[0] == (
        "The lamp was lit in 1871.", '"Whale oil" burned in the lamp.', "The lamp was called “the pier lamp”."
    )  # fmt: skip


@pytest.mark.parametrize("reply", [
    "", "   \n ", "I'm sorry, I cannot do that.", "- I don't know.", GenerationError("broken"), "Claims:", "-\n- !",
    "\n".join(f"- The lamp was lit, says {w}." for w in "abcdefghi"),
])  # fmt: skip
def test_a_splitter_that_refuses_or_rambles_gives_nothing(reply: Any) -> None:
    assert read(reply) == ((), 0)


def test_statements_of_the_splitters_own_are_left_out() -> None:
    claims, left_out = read("- The lamp was lit in 1871.\n- Napoleon invaded Russia.\n- The lamp was lit in 1812.")
    assert claims == ("The lamp was lit in 1871.",)
    assert left_out == 2


def test_half_a_claim_is_none() -> None:
    claims, _ = read("- The lamp was lit in 1871.\n- The lamp burned wha", finish="length")
    assert claims == ("The lamp was lit in 1871.",)
    assert read("The lamp was", finish="length") == ((), 0)


@given(st.text(max_size=200))
def test_any_reply_gives_claims_without_repetitions_or_nothing(reply: str) -> None:
    claims, left_out = read(reply)
    assert len({claim_key(c) for c in claims}) == len(claims)
    assert all(any(ch.isalnum() for ch in c) for c in claims)
    assert left_out >= 0


def test_claims_that_stand_alone_keep_their_sentences_place() -> None:
    def split(request: Any) -> str:
        said = sentence(request)
        return "- The lamp was lit in 1871.\n- The lamp burned whale oil." if said == SENTENCE else f"- {said}"

    answer = closed(Model([[ANSWER]], split=split))
    assert answer.text == ANSWER
    assert [c.text for c in answer.claims] == [
        "The lamp stands on the pier.", "The lamp was lit in 1871.", "The lamp burned whale oil.",
    ]  # fmt: skip
    assert [answer.text[c.start : c.end] for c in answer.claims] == [ANSWER[:28], SENTENCE, SENTENCE]


def test_a_splitter_that_cannot_be_used_leaves_the_sentence_and_is_counted() -> None:
    answer = closed(Model([["The lamp was lit in 1871."]], split=lambda request: "I'm sorry, I can't."))
    assert [c.text for c in answer.claims] == ["The lamp was lit in 1871."]
    assert answer.metadata["search"]["split_fallbacks"] == 1


def test_sentences_need_no_splitter() -> None:
    model = Model([[ANSWER]])
    answer = closed(model, splitter="sentences")
    assert model.counts["split"] == 0
    assert all(answer.text[c.start : c.end] == c.text for c in answer.claims)


def test_what_begins_with_he_is_another_sentence_after_another_one() -> None:
    asked: list[str] = []

    def split(request: Any) -> str:
        asked.append(sentence(request))
        return f"- {sentence(request)}"

    closed(Model([["Ada built it. She died.", "Ida built it. She died."]], split=split), rounds=1)
    assert asked.count("She died.") == 2


def drive(flow: Any, reply: Callable[[Any], Any]) -> Any:
    """Run a flow on its own: ``reply`` answers each request."""
    told = None
    while True:
        try:
            told = reply(flow.send(told))
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize(
    ("reply", "requests"), [("I cannot do that.", 1), ("{i}. Lamp {n} was lit by Ada, who left.", 3)]
)
@pytest.mark.parametrize("here", [False, True])
def test_a_model_elsewhere_that_cannot_split_is_asked_about_the_first_sentences_only(
    reply: str, requests: int, here: bool
) -> None:
    texts = [" ".join(f"Lamp {n} was lit by Ada, who left." for n in range(i, i + 10)) for i in (0, 10, 20)]
    asked, size = 0, 2 if here else 10

    def model(together: Any) -> list[Generation]:
        nonlocal asked
        lines = []
        for _ in together.requests:
            lines.append("\n".join(reply.format(i=i + 1, n=size * asked + i) for i in range(size)))
            asked += 1
        return [Generation((Sample(some, finish_reason="eos"),)) for some in lines]

    known = Capabilities(token_prompts=here)
    run: Any = SimpleNamespace(settings=SelfReflectSettings(), abilities=SimpleNamespace(model=lambda role: known))
    candidates = drive(split("Who lit the lamps?", texts, 1, Splits(), run), model)
    assert asked == (15 if here else requests)  # in this process all sentences are one batch, two a request
    assert [c.text for c in candidates] == texts
    assert all(c.claims for c in candidates)


# --- self-evaluation -----------------------------------------------------------------------------------------------


OTHER = ["The lamp was lit.", "It is kept in Orm."]
"""Two candidates, each judged beside the other: without any other, a claim is judged once."""


def of_the_first(*replies: Any) -> Any:
    """Says these things of the lamp's being lit, one after the other, and 0 of anything else."""
    said = iter(replies)
    return lambda request: next(said) if "lit" in claim(request) else "0"


def test_what_is_said_of_a_claim_is_averaged_over_subsets() -> None:
    model = Model([OTHER], think=of_the_first("80", "about 60%", "100/100", "0"))
    answer = closed(model, rounds=1, samples=2)
    assert answer.claims[0].support == pytest.approx(0.6)


def test_subsets_have_the_size_asked_for_and_differ() -> None:
    model = Model([[" ".join(f"The lamp number {i} was lit." for i in some) for some in (range(9), range(9, 18))]])
    closed(model, rounds=1, samples=2, self_consistency_samples=5, subset_sentences=3)
    seen = [tuple(r.prompt.text.split("\n\n")[0].splitlines()) for r in model.asked("evaluate")]
    assert {len(s) for s in seen} == {3}
    assert len(set(seen)) > 5


def sources(request: Any) -> list[str]:
    """The sentences that a claim is judged beside."""
    head = request.prompt.text.split("\nThe question was")[0]
    return [line for line in head.splitlines() if line]


def test_a_claim_is_judged_beside_other_candidates_only() -> None:
    """Of this round and of those before; what others say as well stays, as often as they say it."""
    red, blue, old, tall = "The lamp is red.", "The lamp is blue.", "The lamp is old.", "The lamp is tall."
    model = Model([[f"{red} {blue}", f"{blue} {old}"], [f"{old} {tall}", red]])
    closed(model, rounds=2, samples=2, patience=None, subset_sentences=50)
    assert {claim(r): sources(r) for r in model.asked("evaluate")} == {
        red: [blue, old],
        blue: [blue, old],
        old: [red, blue],
        tall: [red, blue, blue, old, red],
    }


def test_a_sentence_is_no_source_for_any_of_its_claims() -> None:
    both, other = "The lamp is red and old.", "The lamp is tall."
    split = {both: "- The lamp is red.\n- The lamp is old.", other: f"- {other}"}
    model = Model([[both, other]], split=lambda request: split[sentence(request)])
    closed(model, rounds=1, samples=2, subset_sentences=50)
    assert {claim(r): sources(r) for r in model.asked("evaluate")} == {
        "The lamp is red.": [other],
        "The lamp is old.": [other],
        other: [both],
    }


def test_a_lone_candidate_s_claims_are_judged_once_and_by_themselves() -> None:
    model = Model([["The lamp is red. The lamp is tall."]])
    closed(model, rounds=1, samples=1, self_consistency_samples=4)
    assert [sources(r) for r in model.asked("evaluate")] == [[], []]


@pytest.mark.parametrize("said", ["0.8", "very likely", "", "between 60 and 80", "120", "I cannot say."])
def test_what_states_no_probability_is_missing_and_told_of(said: str) -> None:
    answer = closed(Model([OTHER], think=lambda request: said))
    assert answer.abstained
    assert answer.claims[0].support is None
    assert answer.confidence is None
    assert answer.reason == "certainty unknown"
    assert "states no probability" in answer.text
    assert answer.metadata["search"]["missing_probabilities"] == 8
    note = next(d for d in answer.trace if d.kind == "evaluate")
    assert note.values["missing"] == 8


def test_a_missing_reply_is_left_out_of_the_mean() -> None:
    model = Model([OTHER], think=of_the_first("80", "who knows", "60", GenerationError("broken")))
    answer = closed(model, rounds=1, samples=2)
    assert answer.claims[0].support == pytest.approx(0.7)
    assert answer.metadata["search"]["missing_probabilities"] == 2


def test_an_unknown_claim_costs_as_a_false_one() -> None:
    model = Model([["The lamp was lit. The lamp sank.", "The lamp was lit."]], think=believes(lit="90", sank="?"))
    answer = closed(model, rounds=1)
    assert answer.text == "The lamp was lit."


def test_log_probabilities_of_yes_by_scores() -> None:
    def score(request: Any) -> list[list[float]]:
        return [[math.log(0.2)]] * 4 + [[math.log(0.05)]] * 4

    model = Model([["The lamp was lit."]], capabilities=Capabilities(score=True), score=score)
    assert closed(model, evaluation="logits").claims[0].support == pytest.approx(0.8)


def test_log_probabilities_of_yes_by_the_first_token() -> None:
    yes, no = Sample("Yes", logprobs=(math.log(0.9),)), Sample("no", logprobs=(math.log(0.7),))
    think = of_the_first(yes, no, "Nothing", "Not")
    model = Model([OTHER], think=think, capabilities=Capabilities(token_logprobs=True))
    answer = closed(model, evaluation="logits", rounds=1, samples=2)
    assert answer.claims[0].support == pytest.approx((0.9 + 0.3) / 2)
    assert answer.metadata["search"]["missing_probabilities"] == 2 + 4
