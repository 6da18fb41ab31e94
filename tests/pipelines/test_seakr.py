"""SeaKR's loop, decision by decision, with a scripted model."""

from __future__ import annotations

import math
from typing import Any

import pytest

from shared_core.lm.base import Capabilities, Generate, Sample
from shared_core.lm.scripted import ScriptedLM
from shared_core.types import Answer
from shared_core.uncertainty import gram_uncertainty
from tests.pipelines.scripts import SURE, UNSURE, scripted, states
from tests.pipelines.seakr_scripts import (
    BUILT,
    PASSAGES,
    QUESTION,
    SAID,
    Library,
    after_answer,
    engine,
    entries,
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
    assert library.queries == [QUESTION if not text.strip() else library.queries[0]]
    assert entries(answer, "gate")[0].outcome == "retrieve"


def test_the_query_holds_the_certain_words_only() -> None:
    low = {"Mira": 0.3, "Dorn": 0.89}
    library = Library()
    engine(scripted(two_hops, low), library, max_steps=1).answer(QUESTION)
    assert library.queries == ["Velmora bridge built"]
    library = Library()
    engine(scripted(two_hops, low), library, max_steps=1, query_token_probability=0.2).answer(QUESTION)
    assert library.queries == ["Velmora bridge built Mira Dorn"]


def test_the_query_is_the_question_where_probabilities_are_unknown() -> None:
    abilities = Capabilities(hidden_states=True)
    lm = ScriptedLM(
        lambda r: BUILT if r.params.n == 1 else [Sample(BUILT, hidden_state=s) for s in states(4, UNSURE)],
        capabilities=abilities,
    )
    library = Library()
    engine(lm, library, max_steps=1).answer(QUESTION)
    assert library.queries == [QUESTION]


def test_the_query_is_at_most_so_many_tokens() -> None:
    library = Library()
    engine(scripted(two_hops), library, max_steps=1, max_query_tokens=2).answer(QUESTION)
    assert library.queries == ["Velmora bridge"]


def test_the_smallest_uncertainty_wins_wherever_it_stands() -> None:
    def reply(body: str) -> tuple[str, float]:
        level = {"bridge": 2.0, "ferry": math.nan, "born": 1.5}
        return SAID, next((v for w, v in level.items() if f" {w} " in body.split("Answer in")[0]), UNSURE)

    answer = engine(scripted(reply)).answer(QUESTION)
    rerank = entries(answer, "rerank")[0]
    assert (rerank.outcome, rerank.values["place"]) == ("dorn", 3)
    assert rerank.values["uncertainty"] == pytest.approx(gram_uncertainty(states(4, 1.5)), abs=1e-5)
    assert rerank.values["uncertainty"] > 0.0  # above the threshold: it is not asked again


def test_where_all_uncertainties_are_unknown_the_retriever_s_first_is_kept() -> None:
    answer = engine(scripted(lambda body: (SAID, math.nan))).answer(QUESTION)
    assert entries(answer, "rerank")[0].outcome == "bridge"
    assert "unknown" in entries(answer, "rerank")[0].reason


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


def test_the_limit_of_passages() -> None:
    library = Library()
    answer = engine(scripted(endless), library, max_steps=4, max_passages=2).answer(QUESTION)
    assert len(answer.passages) == 2
    assert len(library.queries) == 2
    assert "limit of passages" in entries(answer, "query")[2].reason


def test_a_repeated_query_is_not_asked_again() -> None:
    def reply(body: str) -> tuple[str, float]:  # every word uncertain: the question is the query
        return f"Step{body.count('Step')}. ", UNSURE

    library = Library()
    lm = scripted(reply, low={f"Step{i}": 0.1 for i in range(9)})
    answer = engine(lm, library, max_steps=3).answer(QUESTION)
    assert library.queries == [QUESTION]
    assert [d.outcome for d in entries(answer, "query")][1:] == ["none", "none"]
    assert "asked before" in entries(answer, "query")[1].reason


def test_a_step_said_before_ends_the_steps() -> None:
    answer = engine(scripted(lambda body: (BUILT, SURE)), max_steps=8).answer(QUESTION)
    assert entries(answer, "stop")[0].outcome == "a step repeats itself"
    assert len(entries(answer, "gate")) == 2


def test_nothing_new_found_keeps_the_draft() -> None:
    library = Library(PASSAGES[:1])
    answer = engine(scripted(endless), library, max_steps=3).answer(QUESTION)
    assert [p.id for p in answer.passages] == ["bridge"]
    assert [d.reason for d in entries(answer, "query")] == ["", "nothing new was found", "nothing new was found"]


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


def competing(form: str, levels: tuple[float, float, float, float]) -> Answer:
    """Answer with rationales of the first two levels, their answer measured as the third, from knowledge the fourth."""
    first, second, own, known = levels

    def answer(request: Generate) -> Any:
        steps = after_answer(request.prompt.text.split("Answer in the same")[1])
        whole = request.params.max_tokens == 400
        if whole:
            text, level = " A thought. So the answer is Ulm.\n", known
        elif steps.endswith("So the answer is"):
            text, level = " Orm.\n", own
        elif not steps:
            text, level = "First. ", first
        else:
            text, level = "So the answer is Orm. ", second
        if request.params.n == 1:
            return text
        return [Sample(text, hidden_state=s) for s in states(request.params.n, level)]

    lm = ScriptedLM(answer, capabilities=Capabilities(hidden_states=True))
    return engine(lm, threshold=50.0, reasoning_uncertainty=form).answer(QUESTION)


def gram(level: float) -> float:
    return gram_uncertainty(states(4, level))


def test_the_paper_averages_over_the_rationales() -> None:
    answer = competing("paper", (0.1, 1.0, 99.0, 0.5))
    reason = entries(answer, "reason")[0]
    mean = (gram(0.1) + gram(1.0)) / 2
    assert reason.values["rationales_uncertainty"] == pytest.approx(mean, abs=1e-5)
    assert reason.values["knowledge_uncertainty"] == pytest.approx(gram(0.5), abs=1e-5)
    assert reason.outcome == "answer from rationales"  # mean below, though the last step alone is above
    assert answer.claims[0].text == "Orm"


def test_the_published_code_measures_the_answer_itself() -> None:
    levels = (0.1, 1.0, 99.0, 0.5)
    answer = competing("published_code", levels)
    reason = entries(answer, "reason")[0]
    assert reason.values["rationales_uncertainty"] == pytest.approx(gram(99.0), abs=1e-5)
    assert reason.outcome == "answer from knowledge"
    assert answer.claims[0].text == "Ulm"


def test_the_paper_s_table_9() -> None:
    from shared_core.uncertainty import rationale_uncertainty

    assert rationale_uncertainty([-5.25, -5.38, -3.56]) == pytest.approx(-4.73)


@pytest.mark.parametrize(
    ("rationales", "knowledge", "expected"),
    [
        ("Orm", "unknown", "Orm"),
        ("unknown", "Ulm", "Ulm"),
        ("Orm", "", "Orm"),
        ("", "Ulm", "Ulm"),
        ("unknown", "", None),
    ],
)
def test_an_unknown_or_empty_answer_loses(rationales: str, knowledge: str, expected: str | None) -> None:
    def reply(request: Generate) -> Any:
        whole = request.params.max_tokens == 400
        said = knowledge if whole else rationales
        lead = request.prompt.text.endswith("So the answer is")
        text = f"So the answer is {said}.\n" if said else "\n" if lead else "No answer.\n"
        text = f" {said}.\n" if said and lead else text
        level = SURE if said in ("unknown", "") else 1.0  # sure of not knowing
        return text if request.params.n == 1 else [Sample(text, hidden_state=s) for s in states(4, level)]

    lm = ScriptedLM(reply, capabilities=Capabilities(hidden_states=True))
    answer = engine(lm, Library([]), max_steps=1).answer(QUESTION)
    assert [c.text for c in answer.claims] == ([expected] if expected else [])
    if expected is None:
        assert answer.abstained


# --- simple questions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("knows", [False, True])
def test_simple_questions_retrieve_at_most_once(knows: bool) -> None:
    def reply(body: str) -> tuple[str, float]:
        assert body.endswith("So the answer is")
        if "Mira Dorn was born" in body:
            return " Orm.\nQuestion: and more", SURE
        return " Ulm.\n", SURE if knows else UNSURE

    lm, library = scripted(reply), Library()
    answer = engine(lm, library, multi_hop=False).answer(QUESTION)
    assert answer.claims[0].text == ("Ulm" if knows else "Orm")
    assert library.queries == ([] if knows else [QUESTION])
    assert lm.batches[:2] == ([2] if knows else [2, 6])  # then the judge
    assert [p.id for p in answer.passages] == ([] if knows else ["dorn"])


def test_simple_questions_without_passages_keep_the_draft() -> None:
    answer = engine(scripted(lambda body: (" Ulm.\n", UNSURE)), Library([]), multi_hop=False).answer(QUESTION)
    assert answer.claims[0].text == "Ulm"


def test_simple_questions_whose_answer_is_unknown_are_not_answered() -> None:
    answer = engine(scripted(lambda body: (" unknown.\n", SURE)), multi_hop=False).answer(QUESTION)
    assert answer.abstained
    assert answer.claims == ()
