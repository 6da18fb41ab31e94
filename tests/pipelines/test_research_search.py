"""The search of ReSearch: rounds, cache, utility, early end, limits; and the choice of a whole candidate."""

from __future__ import annotations

from typing import Any

import pytest

from shared_core import SelfReflectEngine
from shared_core.abstention import expected_utility
from shared_core.errors import CapabilityError, GenerationError, SettingsError
from shared_core.lm.base import Sample
from shared_core.settings import ResearchSettings, SelfReflectSettings
from shared_core.types import Answer
from tests.fakes import FirstSentenceReader, Shelf
from tests.pipelines.research_scripts import Model, ask, believes, by_words, closed, kind, sentence, settings

LIT, OIL, SANK = "The lamp was lit in 1871.", "It burned whale oil.", "The lamp sank in 1900."


def test_the_candidate_of_the_highest_utility_is_shown_as_it_was_written() -> None:
    model = Model(
        [[f"{LIT} {SANK}", f"{LIT}  The lamp burned whale oil."]], think=believes(lit="90", oil="80", sank="55")
    )
    answer = closed(model)
    assert answer.text == f"{LIT}  The lamp burned whale oil."
    assert answer.utility == pytest.approx(expected_utility([0.9, 0.8], 0.5))
    assert [answer.text[c.start : c.end] for c in answer.claims] == [LIT, "The lamp burned whale oil."]
    assert answer.confidence == 0.8
    assert not answer.calibrated


def test_a_candidate_is_chosen_as_a_whole_with_what_is_unlikely_in_it() -> None:
    model = Model([[f"{LIT} {SANK}"]], think=believes(lit="90", sank="40"))
    answer = closed(model)
    assert answer.text == f"{LIT} {SANK}"
    assert [c.status for c in answer.claims] == ["kept", "flagged"]
    assert answer.utility == pytest.approx(expected_utility([0.9, 0.4], 0.5))
    assert answer.confidence == 0.4
    assert answer.metadata["verdicts"] == ["likely", "unlikely"]


def test_the_target_accuracy_is_the_knob() -> None:
    """The higher ρ*, the less is said; from some height on nothing."""

    def model() -> Model:
        return Model([[f"{LIT} {SANK}", LIT]], think=believes(lit="90", sank="60"))

    texts = [closed(model(), target=t).text for t in (0.5, 0.7, 0.95)]
    assert texts[0] == f"{LIT} {SANK}"
    assert texts[1] == LIT
    assert "from what I know" in texts[2]


def test_a_tie_with_abstaining_is_an_abstention() -> None:
    answer = closed(Model([[LIT]], think=believes(lit="50")), target=0.5)
    assert answer.abstained
    assert answer.reason == "model does not know"
    assert answer.utility == 0
    assert answer.confidence == 0.5


def test_later_rounds_are_written_from_the_likely_claims() -> None:
    model = Model(
        [[f"{LIT} {SANK}"], [f"{LIT} The lamp burned whale oil."]], think=believes(lit="90", oil="80", sank="20")
    )
    answer = closed(model)
    (rewrite,) = model.asked("rewrite")
    assert LIT in rewrite.prompt.text
    assert SANK not in rewrite.prompt.text
    assert answer.text == f"{LIT} The lamp burned whale oil."
    assert answer.metadata["search"]["utility_by_round"] == pytest.approx([0.2, 1.4])


def test_the_likeliest_facts_come_first_and_are_limited() -> None:
    model = Model([[f"{LIT} The lamp burned whale oil."]], think=believes(lit="70", oil="80"))
    closed(model, max_facts=1)
    (rewrite,) = model.asked("rewrite")
    assert "whale oil" in rewrite.prompt.text
    assert LIT not in rewrite.prompt.text


def test_where_nothing_is_likely_the_next_round_draws_others_from_the_same_prompt() -> None:
    model = Model([[SANK]], think=believes(sank="10"))
    closed(model, patience=None)
    first, second = model.asked("write")
    assert first.prompt == second.prompt
    assert first.params.seed != second.params.seed


def test_a_claim_is_judged_once_however_often_it_is_made() -> None:
    model = Model([[LIT, f"{LIT} {OIL}"], [f"{LIT.upper()}"]], think=believes(lit="90", LIT="90", oil="80"))
    answer = closed(model, self_consistency_samples=3, patience=None, rounds=3)
    assert model.counts["evaluate"] == 2 * 3
    figures = answer.metadata["search"]
    assert (figures["claims"], figures["cache_misses"]) == (2, 2)
    assert figures["cache_hits"] > 0


@pytest.mark.parametrize("written", [[LIT, LIT], [f"{LIT} {LIT}"]])
def test_a_sentence_is_split_and_counted_once_however_often_it_is_written(written: list[str]) -> None:
    model = Model([written], think=believes(lit="90"))
    answer = closed(model)
    assert model.counts["split"] == 1
    assert len(answer.claims) == 1
    assert answer.utility == pytest.approx(0.8)


def test_the_search_ends_when_utility_stops_growing() -> None:
    model = Model([[LIT]])
    answer = closed(model, rounds=5, patience=1)
    assert model.counts["write"] + model.counts["rewrite"] == 2
    assert any(d.kind == "search" and d.outcome == "ended" for d in answer.trace)
    model = Model([[LIT]])
    closed(model, rounds=5, patience=None)
    assert model.counts["write"] + model.counts["rewrite"] == 5


def test_a_small_gain_does_not_count_as_growing() -> None:
    rounds = [[LIT], [f"{LIT} {OIL}"], [f"{LIT} {OIL} {SANK}"]]
    think = believes(lit="90", oil="55", sank="90")
    assert closed(Model(rounds, think=think), rounds=3, min_gain=0.5).metadata["search"]["rounds"] == 2
    assert closed(Model(rounds, think=think), rounds=3, min_gain=0.0).metadata["search"]["rounds"] == 3


def test_no_round_begins_once_the_tokens_are_spent() -> None:
    answer = closed(Model([[LIT]]), rounds=5, patience=None, token_budget=10)
    assert answer.metadata["search"]["rounds"] == 1
    assert not answer.abstained
    assert any("token_budget=10" in d.reason for d in answer.trace)


def test_everything_of_a_kind_goes_out_as_one_batch() -> None:
    model = Model([[f"{LIT} {SANK}", "The lamp burned whale oil."]])
    closed(model, rounds=1, samples=2, self_consistency_samples=4)
    assert model.lm.batches == [1, 3, 12]  # candidates (one request), sentences, claims times subsets


def test_a_limit_ends_the_search_with_what_there_is() -> None:
    model = Model([[LIT]])
    spent = closed(model, rounds=3, patience=None, self_consistency_samples=1, max_calls=3)
    assert spent.text == LIT
    assert sum(model.counts.values()) == 3
    stopped = closed(Model([[LIT]]), max_calls=1)
    assert stopped.abstained
    assert stopped.reason == "out of budget"
    assert "from what I know" in stopped.text  # not of any documents


def test_claims_that_a_limit_leaves_unjudged_are_unknown() -> None:
    model = Model([[f"{LIT} The lamp burned whale oil."]])
    answer = closed(model, rounds=1, samples=2, self_consistency_samples=2, max_calls=6)
    assert model.counts["evaluate"] == 2  # of one claim whole, not of two halves
    assert answer.abstained  # 0.9 and an unknown, at 0.5: no gain
    assert [c.support for c in answer.claims] == [0.9, None]


def test_a_failing_model_ends_the_search_only_after_the_first_round() -> None:
    failing = GenerationError("It broke.")
    assert closed(Model([[LIT], failing])).text == LIT  # type: ignore[list-item]
    with pytest.raises(GenerationError):
        closed(Model([failing]))  # type: ignore[list-item]


@pytest.mark.parametrize("said", ["I do not know.", "I'm sorry, I cannot say.", "", "…"])
def test_candidates_that_say_nothing_make_an_abstention(said: str) -> None:
    answer = closed(Model([[said]]))
    assert answer.abstained
    assert answer.reason == "model does not know"
    assert answer.claims == ()


def test_doubt_with_an_answer_is_an_answer_to_be_judged() -> None:
    model = Model([["I am not sure, but the lamp was lit in 1871."]], think=believes(lit="90"))
    assert closed(model).text == "I am not sure, but the lamp was lit in 1871."
    assert model.counts["evaluate"] > 0


def test_a_candidate_that_was_cut_off_loses_its_last_sentence() -> None:
    cut = Sample(f"{LIT} The lamp sank in", finish_reason="length")
    assert closed(Model([[cut]]), rounds=1).text == LIT
    assert closed(Model([[Sample("The lamp sank in", finish_reason="length")]]), rounds=1).abstained


def test_the_papers_prompts_name_the_person() -> None:
    model = Model([["Ada Venn wrote it.", "Ada Venn sang."]], think=believes(wrote="90"))
    closed(model, "Ada Venn", samples=2, prompts="biography", safe_prompt=True)
    (write,) = model.asked("write")
    assert write.prompt.text == (
        "Write a biography of Ada Venn of up to 4 sentences. If you do not know who that is, do not answer."
    )
    assert model.asked("split")[0].prompt.text.endswith("Entity: Ada Venn Sentence: Ada Venn wrote it. Claims:")
    assert model.asked("evaluate")[0].prompt.text == (
        "Ada Venn sang. Based on these sources, what is the probability of the following "
        "claim concerning Ada Venn being true? Claim: Ada Venn wrote it. Probability:"
    )
    assert model.asked("rewrite")[0].prompt.text.endswith("facts. Facts: Ada Venn wrote it.")


def test_a_lone_biography_is_judged_by_no_sources() -> None:
    model = Model([["Ada Venn wrote it."]])
    closed(model, "Ada Venn", prompts="biography", rounds=1, samples=1)
    (asked,) = model.asked("evaluate")
    assert asked.prompt.text.startswith(
        "What is the probability of the following claim concerning Ada Venn being true?"
    )


def test_what_others_wrote_is_never_trusted() -> None:
    model = Model([[LIT]])
    ask(model)
    for request in model.lm.requests:
        for text in ("When was the lamp lit?", "whale oil"):
            assert not any(p.trusted and text in p.text for p in request.prompt.parts), kind(request)


@pytest.mark.parametrize("target", [0.0, 1.0, -0.1, float("nan")])
def test_a_target_of_nothing_or_certainty_is_refused(target: float) -> None:
    with pytest.raises(SettingsError):
        settings(target=target)


@pytest.mark.parametrize("wrong", [
    {"rounds": 0}, {"samples": 0}, {"published": {"subset_sentences": 0}}, {"patience": 0}, {"splitter": "magic"},
    {"x": 1},
])  # fmt: skip
def test_settings_that_cannot_work_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        ResearchSettings(**wrong)


def test_it_needs_a_model() -> None:
    with pytest.raises(SettingsError, match="needs a language model"):
        SelfReflectEngine(Shelf(), settings=SelfReflectSettings(pipeline="research"), reader=FirstSentenceReader(0.9))


def test_log_probabilities_that_are_not_there_are_an_error_that_names_the_way_out() -> None:
    with pytest.raises(CapabilityError, match="verbalised"):
        closed(Model([[LIT]]), evaluation="logits")


def test_answers_of_many_questions_are_those_of_one() -> None:
    def engine() -> SelfReflectEngine:
        model = Model([[f"{LIT} {OIL}"]])
        return SelfReflectEngine(
            Shelf(), model.lm, settings(), judge=by_words({"1871": 0.95, "oil": 0.9}), reader=FirstSentenceReader(0.9)
        )

    one = engine().answer("When was the lamp lit?")
    assert engine().answer_many(["When was the lamp lit?", "Who lit the lamp?"])[0] == one


@pytest.mark.parametrize("evaluation", ["verbalised", "logits"])
@pytest.mark.parametrize("closed_book", [True, False])
def test_a_real_model_that_makes_no_sense_leads_to_an_abstention_or_quotes(
    tiny_lm: Any, closed_book: bool, evaluation: str
) -> None:
    research: dict[str, Any] = {"closed_book": closed_book, "samples": 2, "rounds": 2, "max_tokens": 12}
    research["published"] = {"evaluation": evaluation}
    values = SelfReflectSettings(pipeline="research", target_accuracy=0.9, research=research)
    engine = SelfReflectEngine(Shelf(), tiny_lm, values, reader=FirstSentenceReader(0.9), judge=by_words({}))
    for answer in engine.answer_many(["When was the lamp lit?", "Who was the captain?"]):
        assert isinstance(answer, Answer)
        assert answer.abstained or closed_book
        assert answer.metadata["search"]["rounds"] >= 1
        assert answer.usage.generated_tokens > 0


def test_thoughts_are_no_answer_no_claim_and_no_probability() -> None:
    model = Model(
        [["<think>It sank in 1900, or did it?</think>The lamp was lit in 1871.", "<think>I will say that it"]],
        split=lambda request: f"<think>- It sank.</think>- {sentence(request)}",
        think=lambda request: "<think>10? 20?</think>90",
    )
    answer = closed(model, rounds=1)
    assert answer.text == "The lamp was lit in 1871."
    assert [(c.text, c.support) for c in answer.claims] == [("The lamp was lit in 1871.", 0.9)]
