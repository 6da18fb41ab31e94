"""SeaKR's loop, decision by decision, with a scripted model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from shared_core import SelfReflectEngine
from shared_core.lm.base import Capabilities, Generate, Sample
from shared_core.lm.scripted import ScriptedLM
from shared_core.types import Passage
from shared_core.uncertainty import gram_uncertainty
from tests.fakes import Critic, FirstSentenceReader
from tests.pipelines.scripts import SURE, UNSURE, body, entries, made, scripted, states
from tests.pipelines.seakr_scripts import (
    BORN,
    BUILT,
    PASSAGES,
    QUESTION,
    SAID,
    Library,
    after_answer,
    engine,
    kinds,
    two_hops,
)


def test_the_whole_loop() -> None:
    lm, library = scripted(two_hops), Library()
    answer = engine(lm, library).answer(QUESTION)
    assert answer.text.startswith("Orm")
    assert [p.id for p in answer.passages] == ["bridge", "dorn"]
    assert kinds(answer)[:8] == ["estimator", "gate", "query", "rerank", "gate", "query", "rerank", "gate"]
    assert [d.outcome for d in entries(answer, "gate")] == ["retrieve", "retrieve", "know"]
    assert [d.outcome for d in entries(answer, "rerank")] == ["bridge", "dorn"]
    assert answer.claims[0].short_answer == "Orm"
    assert [s.text for s in answer.numbered_spans()] == ["Mira Dorn was born in Orm."]
    assert library.asked == [3, 4]  # N, and N beside those kept already
    assert answer.metadata["pipeline"] == "seakr"


def test_all_passages_of_a_re_ranking_are_one_batch() -> None:
    lm = scripted(two_hops)
    engine(lm, rerank_passages=3).answer(QUESTION)
    # draft, 3 passages, draft, 3 passages, draft, knowledge: one greedy and one sampling request each.
    assert lm.batches[:6] == [2, 6, 2, 6, 2, 2]


def test_a_sure_model_never_retrieves() -> None:
    def knows(body: str) -> tuple[str, float]:
        return (SAID if after_answer(body) else BUILT), SURE

    library = Library()
    answer = engine(scripted(knows), library).answer(QUESTION)
    assert library.queries == []
    assert [d.outcome for d in entries(answer, "gate")] == ["know", "know"]
    assert answer.passages == ()


@pytest.mark.parametrize("level", [math.nan, math.inf])
def test_an_unknown_uncertainty_retrieves(level: float) -> None:
    library = Library()
    answer = engine(scripted(lambda body: (SAID, level)), library).answer(QUESTION)
    assert library.queries
    gate = entries(answer, "gate")[0]
    assert (gate.outcome, gate.values["uncertainty"]) == ("retrieve", None)


@pytest.mark.parametrize("text", ["", "\n", " It is unknown. "])
def test_nothing_written_or_not_known_retrieves(text: str) -> None:
    def reply(body: str) -> tuple[str, float]:
        return (SAID if "Context" in body else text), SURE

    library = Library()
    answer = engine(scripted(reply), library).answer(QUESTION)
    assert library.queries[0] == QUESTION
    assert entries(answer, "gate")[0].outcome == "retrieve"


@pytest.mark.parametrize("text", [" unknown.", " I don't know."])
@pytest.mark.parametrize("form", ["paper", "published_code"])
def test_a_draft_that_knows_nothing_is_no_query_but_in_the_published_code(text: str, form: str) -> None:
    def reply(body: str) -> tuple[str, float]:
        steps = after_answer(body)
        if "Context" in body:
            return (SAID if "built by Mira Dorn" in steps else BUILT), SURE
        return text, SURE

    library = Library()
    engine(scripted(reply), library, form=form).answer(QUESTION)
    asked = [QUESTION, f"{QUESTION} {BUILT.strip()}"]  # the step before tells who is meant
    assert (library.queries[:2] == asked) == (form == "paper")


class Wandering(Library):
    """Has the answer where the question itself is searched for."""

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        super().retrieve(query, k)
        return self.passages[:1] if query == QUESTION else self.passages[1:]


@pytest.mark.parametrize("probability", [0.05, 0.95])
def test_the_defaults_quotes_compete_in_what_the_question_finds_and_the_trace_tells_it(probability: float) -> None:
    def reply(body: str) -> tuple[str, float]:
        return ("unknown." if "Answer in" in body or "So the answer" in body else BUILT), SURE

    reader = FirstSentenceReader(probability, 0.0, answerable=probability)
    made_for = SelfReflectEngine(Wandering(), scripted(reply), made(target=0.3), reader=reader, critic=Critic(0.9))
    answer = made_for.answer(QUESTION)
    (compared,) = entries(answer, "compare")
    assert compared.values["reader"] == probability
    assert answer.metadata["answerable"] == probability
    assert answer.abstained == (probability < 0.5)
    if not answer.abstained:
        assert [s.passage_id for s in answer.numbered_spans()] == ["bridge"]


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ({}, "Velmora bridge built"),
        ({"query_token_probability": 0.2}, "Velmora bridge built Mira Dorn"),
        ({"max_query_tokens": 2}, "Velmora bridge"),
    ],
)
def test_the_query_holds_the_certain_words_only_and_at_most_so_many(options: dict[str, Any], query: str) -> None:
    library = Library()
    engine(scripted(two_hops, {"Mira": 0.3, "Dorn": 0.89}), library, max_steps=1, **options).answer(QUESTION)
    assert library.queries == [query]


def test_the_query_is_the_question_where_probabilities_are_unknown() -> None:
    abilities = Capabilities(hidden_states=True)
    lm = ScriptedLM(
        lambda r: BUILT if r.params.n == 1 else [Sample(BUILT, hidden_state=s) for s in states(4, UNSURE)],
        capabilities=abilities,
    )
    library = Library()
    engine(lm, library, max_steps=1).answer(QUESTION)
    assert library.queries == [QUESTION]


def test_the_smallest_uncertainty_wins_wherever_it_stands() -> None:
    def reply(body: str) -> tuple[str, float]:
        level = {"bridge": 2.0, "ferry": math.nan, "born": 1.5}
        return SAID, next((v for w, v in level.items() if f" {w} " in body.split("Answer in")[0]), UNSURE)

    answer = engine(scripted(reply)).answer(QUESTION)
    rerank = entries(answer, "rerank")[0]
    assert (rerank.outcome, rerank.values["place"]) == ("dorn", 3)
    assert rerank.values["uncertainty"] == pytest.approx(gram_uncertainty(states(4, 1.5)), abs=1e-5)
    assert rerank.values["uncertainty"] > 0.0  # above the threshold: it is not asked again


@pytest.mark.parametrize(("form", "kept"), [("paper", "dorn"), ("published_code", "ferry")])
def test_a_text_that_declines_loses_in_re_ranking_but_in_the_published_code(form: str, kept: str) -> None:
    def reply(body: str) -> tuple[str, float]:
        if "[1] " in body and "Otto Hain" in body:
            return "It is unknown. ", SURE  # sure of not knowing
        return (BORN, 1.0) if "born in Orm" in body else (BUILT, UNSURE)

    answer = engine(scripted(reply), max_steps=1, form=form).answer(QUESTION)
    assert entries(answer, "rerank")[0].outcome == kept


def test_in_the_published_code_an_empty_text_is_as_unsure_as_can_be() -> None:
    def reply(body: str) -> tuple[str, float]:
        return ("", SURE) if "[1] " in body and "Otto Hain" in body else (BUILT, UNSURE)

    answer = engine(scripted(reply), max_steps=1, form="published_code").answer(QUESTION)
    assert entries(answer, "rerank")[0].outcome == "bridge"


def test_where_all_uncertainties_are_unknown_the_retriever_s_first_is_kept() -> None:
    answer = engine(scripted(lambda body: (SAID, math.nan))).answer(QUESTION)
    assert entries(answer, "rerank")[0].outcome == "bridge"
    assert "unknown" in entries(answer, "rerank")[0].reason


# --- gates without a threshold ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("multi_hop", [True, False])
def test_an_uncalibrated_gate_retrieves_and_samples_nothing_to_find_out(multi_hop: bool) -> None:
    """A model as sure as can be of what it makes up: without a threshold of its own that says nothing."""
    lm, library = scripted(lambda body: (SAID, 1e-6)), Library()
    answer = engine(lm, library, threshold=None, samples=20, multi_hop=multi_hop).answer(QUESTION)
    assert library.queries
    gate = entries(answer, "gate")[0]
    assert (gate.outcome, "no threshold is known" in gate.reason) == ("retrieve", True)
    before = [r for r in lm.requests if isinstance(r, Generate) and "Context:" not in r.prompt.text][: 1 + multi_hop]
    assert all(r.params.n == 1 for r in before)  # at most a draft to search with


def test_a_model_without_token_probabilities_drafts_nothing_in_vain() -> None:
    lm = ScriptedLM(
        lambda r: SAID if r.params.n == 1 else [Sample(SAID, hidden_state=s) for s in states(4, SURE)],
        capabilities=Capabilities(hidden_states=True),
    )
    engine(lm, threshold=None).answer(QUESTION)
    first = lm.requests[0]
    assert isinstance(first, Generate)
    assert "Context:" in body(first)  # the question is the query: the first request already holds what was found


def test_an_answer_from_memory_that_is_not_certain_says_that_nothing_was_searched() -> None:
    lm = scripted(lambda body: (SAID, SURE), capabilities=Capabilities(hidden_states=True, score=True))
    library = Library()
    answer = engine(lm, library).answer(QUESTION)
    assert library.queries == []
    assert answer.abstained
    assert answer.reason == "own answer not certain enough"
    assert "No passage" not in answer.text


# --- the paper's form and the published code's -----------------------------------------------------------------------


@pytest.mark.parametrize(("form", "shown"), [("paper", [0, 1, 0, 1, 0]), ("published_code", [0, 1, 1, 2, 2])])
def test_passages_in_the_prompts_of_gate_and_re_ranking(form: str, shown: list[int]) -> None:
    lm = scripted(two_hops)
    engine(lm, form=form).answer(QUESTION)
    counts = [sum(f"[{i}] " in r.prompt.text for i in range(1, 9)) for r in lm.requests if isinstance(r, Generate)]
    steps = [after_answer(body(r)) for r in lm.requests if isinstance(r, Generate) and r.model != "judge"]
    seen = [(s, n) for s, n in zip(steps, counts) if "answer is" not in s][:18]
    assert list(dict.fromkeys(seen)) == [(s, n) for s, n in zip(["", "", *[f" {BUILT.strip()}"] * 2], shown)] + [
        (f" {BUILT.strip()} Mira Dorn was born in Orm.", shown[4])
    ]


def test_so_the_answer_is_is_nothing_to_search_for() -> None:
    library = Library()
    engine(scripted(lambda body: ("So the answer is Paris. ", UNSURE), {"Paris": 0.2}), library).answer(QUESTION)
    assert library.queries[0] == QUESTION  # not "answer"
    library = Library()
    engine(scripted(lambda body: ("So the answer is Paris. ", UNSURE)), library).answer(QUESTION)
    assert library.queries[0] == "Paris"
    library = Library()
    lm = scripted(lambda body: ("So the answer is Paris. ", UNSURE))
    engine(lm, library, form="published_code").answer(QUESTION)
    assert library.queries[0] == "Paris"  # left out by name


# --- steps are whole sentences ---------------------------------------------------------------------------------------


def spoken(text: str) -> Any:
    """A model that writes this text, however often it is stopped on the way; each sample's state is its own."""

    def answer(request: Generate) -> Any:
        if request.model == "judge":
            return Sample("yes", logprobs=(-0.1,))
        asked = request.prompt.text.split("\nAnswer:")[-1]
        said = text[len(asked) :] if text.startswith(asked) else " Done.\n"
        if request.params.n == 1:
            return said if request.params.capture is None else Sample(said, hidden_state=states(4, SURE)[0])
        return [Sample(said, hidden_state=s) for s in states(request.params.n, SURE)]

    return ScriptedLM(answer, capabilities=Capabilities(hidden_states=True))


@pytest.mark.parametrize(
    "name", ["John F. Kennedy", "J. R. R. Tolkien", "Dr. M. L. King Jr. of Atlanta", "the U.S. Senate", "St. Mary's"]
)
def test_answers_are_not_cut_at_an_initial_or_an_abbreviation(name: str) -> None:
    answer = engine(spoken(f" So the answer is {name}. And more.\n"), Library([])).answer(QUESTION)
    assert [c.text for c in answer.claims] == [name]


def test_a_sentence_that_ends_in_a_single_letter_is_not_written_on() -> None:
    lm = spoken(" Scurvy is a lack of vitamin C. The cure is fruit. So the answer is fruit.\n")
    engine(lm, Library([])).answer(QUESTION)
    steps = {after_answer(body(r)) for r in lm.requests if isinstance(r, Generate) and r.model != "judge"}
    assert " Scurvy is a lack of vitamin C." in steps
    assert " Scurvy is a lack of vitamin C. The cure is fruit." in steps


# --- limits ----------------------------------------------------------------------------------------------------------


def endless(body: str) -> tuple[str, float]:
    if after_answer(body).endswith("So the answer is"):
        return " Orm.\n", 1.0
    return f"Step {body.count('Step')} of Velmora. ", UNSURE


def test_the_limit_of_steps() -> None:
    answer = engine(scripted(endless), max_steps=3).answer(QUESTION)
    assert len(entries(answer, "gate")) == 3
    assert entries(answer, "stop")[0].outcome == "step limit"
    assert entries(answer, "reason")[0].values["rationales"] == "Orm"  # said after the lead


@pytest.mark.parametrize("form", ["paper", "published_code"])
def test_the_limit_of_passages(form: str) -> None:
    library = Library()
    answer = engine(scripted(endless), library, max_steps=4, max_passages=2, form=form).answer(QUESTION)
    assert len(answer.passages) == 2
    assert len(library.queries) == 2
    assert [d.outcome for d in entries(answer, "stop")] == ["retrieval limit"]  # it ends the loop
    assert len(entries(answer, "gate")) == 2


@pytest.mark.parametrize("form", ["paper", "published_code"])
def test_a_repeated_query_is_not_asked_again_and_ends_the_steps(form: str) -> None:
    def reply(body: str) -> tuple[str, float]:  # every word uncertain: the question is the query
        return f"Step{body.count('Step')}. ", UNSURE

    library = Library()
    lm = scripted(reply, low={f"Step{i}": 0.1 for i in range(9)})
    answer = engine(lm, library, max_steps=3, form=form).answer(QUESTION)
    assert library.queries == [QUESTION]
    assert [d.outcome for d in entries(answer, "query")][1:] == ["none"]
    assert "asked before" in entries(answer, "query")[1].reason
    assert [d.outcome for d in entries(answer, "stop")] == ["nothing new to read"]


def test_a_step_said_before_ends_the_steps() -> None:
    answer = engine(scripted(lambda body: (BUILT, SURE)), max_steps=8).answer(QUESTION)
    assert entries(answer, "stop")[0].outcome == "a step repeats itself"
    assert len(entries(answer, "gate")) == 2


@pytest.mark.parametrize("form", ["paper", "published_code"])
def test_where_nothing_new_is_found_the_steps_end_without_the_draft(form: str) -> None:
    lm = scripted(endless)
    answer = engine(lm, Library(PASSAGES[:1]), max_steps=3, form=form).answer(QUESTION)
    assert [p.id for p in answer.passages] == ["bridge"]
    assert [d.reason for d in entries(answer, "query")] == ["", "nothing new was found"]
    assert [d.outcome for d in entries(answer, "stop")] == ["nothing new to read"]
    asked = [after_answer(body(r)) for r in lm.requests if isinstance(r, Generate) and r.model != "judge"]
    assert {s.count("Step") for s in asked} == {0, 1}  # no prompt goes on from the second draft


@pytest.mark.parametrize("form", ["paper", "published_code"])
def test_a_draft_that_says_the_answer_stays_though_nothing_new_is_found(form: str) -> None:
    def reply(body: str) -> tuple[str, float]:
        if after_answer(body).endswith("So the answer is"):
            return " Orm.\n", 1.0
        return (SAID, UNSURE) if "Mira" in after_answer(body) else (BUILT, UNSURE)

    answer = engine(scripted(reply), Library(PASSAGES[:1]), form=form).answer(QUESTION)
    assert [d.outcome for d in entries(answer, "gate")] == ["retrieve", "retrieve"]
    assert entries(answer, "stop") == []
    assert entries(answer, "reason")[0].values["rationales"] == "Orm"


@pytest.mark.parametrize(("form", "steps"), [("paper", 3), ("published_code", 2)])
def test_without_a_threshold_no_draft_has_failed(form: str, steps: int) -> None:
    answer = engine(scripted(endless), Library(PASSAGES[:1]), threshold=None, max_steps=3, form=form).answer(QUESTION)
    assert len(entries(answer, "gate")) == steps
    assert entries(answer, "stop")[0].outcome == ("step limit" if form == "paper" else "nothing new to read")


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_passages_than_n(count: int) -> None:
    lm = scripted(two_hops)
    answer = engine(lm, Library(PASSAGES[:count]), rerank_passages=5, max_steps=1).answer(QUESTION)
    assert len(answer.passages) == min(count, 1)
    if count == 0:
        assert answer.passages == ()
    else:
        assert lm.batches[1] == 2 * count


def test_the_same_passage_is_not_kept_twice() -> None:
    answer = engine(scripted(endless), Library(), max_steps=8, max_passages=8).answer(QUESTION)
    ids = [p.id for p in answer.passages]
    assert len(ids) == len(set(ids)) == 4


# --- reasoning -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "chosen", "text"), [("paper", "rationales", "Orm"), ("published_code", "knowledge", "Ulm")]
)
def test_the_paper_averages_over_the_rationales_and_the_published_code_measures_their_answer(
    form: str, chosen: str, text: str
) -> None:
    """The mean of the steps lies below what is known, though the last step alone is above it, and their answer is."""
    first, second, own, known = 0.1, 1.0, 99.0, 0.5

    def answer(request: Generate) -> Any:
        steps = after_answer(request.prompt.text.split("Answer in the same")[1])
        if request.params.max_tokens == 400:
            said, level = " A thought. So the answer is Ulm.\n", known
        elif steps.endswith("So the answer is"):
            said, level = " Orm.\n", own
        else:
            said, level = ("So the answer is Orm. ", second) if steps else ("First. ", first)
        return said if request.params.n == 1 else [Sample(said, hidden_state=s) for s in states(4, level)]

    lm = ScriptedLM(answer, capabilities=Capabilities(hidden_states=True))
    answered = engine(lm, threshold=50.0, reasoning_uncertainty=form).answer(QUESTION)
    reason = entries(answered, "reason")[0]
    gram = [gram_uncertainty(states(4, level)) for level in (first, second, own, known)]
    expected = (gram[0] + gram[1]) / 2 if form == "paper" else gram[2]
    assert reason.values["rationales_uncertainty"] == pytest.approx(expected, abs=1e-5)
    assert reason.values["knowledge_uncertainty"] == pytest.approx(gram[3], abs=1e-5)
    assert reason.outcome == f"answer from {chosen}"
    assert answered.claims[0].text == text


@pytest.mark.parametrize(("rationales", "knowledge", "expected"), [
    ("Orm", "unknown", "Orm"), ("unknown", "Ulm", "Ulm"), ("Orm", "", "Orm"), ("", "Ulm", "Ulm"), ("unknown", "", None),
    ("no", "The context does not say", "no"), ("that the passages do not say", "Yes, in both", "Yes"),
    ("No, they lie in two countries", "unknown", "No"), ("unknown", "It cannot be determined", None),
])  # fmt: skip
def test_an_answer_that_declines_or_is_empty_loses(rationales: str, knowledge: str, expected: str | None) -> None:
    def reply(request: Generate) -> Any:
        whole = request.params.max_tokens == 400
        said = knowledge if whole else rationales
        lead = request.prompt.text.endswith("So the answer is")
        text = f"So the answer is {said}.\n" if said else "\n" if lead else "No answer.\n"
        text = f" {said}.\n" if said and lead else text
        level = 1.0 if said.startswith(("Orm", "Ulm", "no", "No,", "Yes")) else SURE  # sure of not knowing
        return text if request.params.n == 1 else [Sample(text, hidden_state=s) for s in states(4, level)]

    lm = ScriptedLM(reply, capabilities=Capabilities(hidden_states=True))
    answer = engine(lm, Library([]), max_steps=1).answer(QUESTION)
    assert [c.text for c in answer.claims] == ([expected] if expected else [])
    if expected is None:
        assert answer.abstained
