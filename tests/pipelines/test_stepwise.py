"""Questions of several steps are answered from the documents alone, one step after the other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shared_core import Answer, SelfReflectEngine, SelfReflectSettings
from shared_core.errors import DeadlineError
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.decision.question_run import Abilities, QuestionRun
from shared_core.pipelines.extractive import extractive
from shared_core.pipelines.stepwise import join, passages_naming
from shared_core.reading.extractive import ExtractiveReader
from shared_core.retrieval import BM25Retriever
from shared_core.runtime.flow import Request, Resources, Retrieve, intercept, run
from shared_core.types import Passage

MINUTES = Passage(
    "minutes",
    "The society was founded by Harriet Dunmore in 1931. The water pump was repaired by Kessler & Sons for 240 pounds. "
    "The key to the shed is kept by Paul Okoro. The spring fair will be held at Larkfield Hall on 4 May.",
    "Minutes of the society",
)
PEOPLE = Passage(
    "people",
    "Harriet Dunmore was born in Leeds in 1889. She taught botany at the girls' school and died in 1962.",
    "Members",
)
HALL = Passage(
    "hall", "Larkfield Hall was built in 1904 by the architect Samuel Orde. It has room for 180 people.", "Halls"
)
ORDE = Passage("orde", "Samuel Orde was born in Bath in 1866 and trained in Glasgow.", "Architects")
KESSLER = Passage("kessler", "Kessler & Sons; Phone: 555 0177; Address: 2 Forge Yard", "Contacts")
ALL = (MINUTES, PEOPLE, HALL, ORDE, KESSLER)


def ask(question: str, passages: Sequence[Passage] = ALL, **settings: object) -> Answer:
    return SelfReflectEngine(BM25Retriever(passages), settings=SelfReflectSettings(**settings)).answer(question)


@pytest.mark.parametrize(
    ("question", "held", "quoted"),
    [
        ("Where was the founder of the society born?", "Leeds", ["people", "minutes"]),
        ("When did the founder of the society die?", "1962", ["people", "minutes"]),
        ("Who built the hall where the spring fair will be held?", "Samuel Orde", ["hall", "minutes"]),
        ("What is the phone number of the company that repaired the water pump?", "555 0177", ["kessler", "minutes"]),
        (
            "In which city was the architect of the hall where the spring fair will be held born?",
            "Bath",
            ["orde", "hall", "minutes"],
        ),
    ],
)
def test_the_answer_comes_first_and_the_quotes_it_rests_on_behind_it(
    question: str, held: str, quoted: list[str]
) -> None:
    answer = ask(question)
    assert not answer.abstained
    assert held in answer.claims[0].text
    kept = answer.kept_claims
    assert [s.passage_id for c in kept for s in c.citations[0].spans] == quoted
    by_id = {p.id: p for p in ALL}
    for span in answer.numbered_spans():
        assert by_id[span.passage_id].text[span.start : span.end] == span.text
    assert {p.id for p in answer.passages} >= set(quoted)


def test_the_steps_are_told_in_metadata_and_trace() -> None:
    answer = ask("When did the founder of the society die?")
    assert answer.metadata["steps"] == [
        {"question": "Who is the founder of the society?", "answer": "Harriet Dunmore"},
        {"question": "When did Harriet Dunmore die?", "answer": "1962"},
    ]
    (decided,) = (d for d in answer.trace if d.kind == "steps")
    assert decided.values["probability"] == pytest.approx(answer.confidence, abs=1e-5)
    assert len({c.support for c in answer.kept_claims}) == 1  # they stand or fall together


@pytest.mark.parametrize(
    "question",
    [
        "What is the phone number of the company that repaired the roof?",
        "Where was the founder of the bank born?",
        "How tall is the founder of the society?",
        "Who is the wife of the founder of the society?",
    ],
)
def test_a_chain_with_a_step_that_is_not_answered_is_not_shown(question: str) -> None:
    assert ask(question).abstained


def test_a_quote_that_gives_only_the_first_answer_is_no_answer() -> None:
    question = "What is the address of the person who keeps the key to the shed?"
    answer = ask(question, (MINUTES, PEOPLE, HALL))  # nothing else tells of him
    assert answer.abstained
    assert not any("Okoro" in c.text and (c.support or 0) > 0.1 for c in answer.claims)


def test_a_question_that_its_own_quote_answers_stays_one_step() -> None:
    answer = ask("How much did the company that repaired the water pump charge?")
    assert "240 pounds" in answer.text
    assert "steps" not in answer.metadata


def test_fewer_claims_than_steps_allow_no_chain() -> None:
    answer = ask("When did the founder of the society die?", max_claims=1)
    assert "steps" not in answer.metadata
    assert len(answer.kept_claims) <= 1


def test_a_retriever_that_fails_for_the_steps_leaves_what_was_found_before() -> None:
    class Once:
        def __init__(self) -> None:
            self.queries: list[str] = []

        def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
            self.queries.append(query)
            if len(self.queries) > 1:
                raise ValueError("busy")
            return ALL

    retriever = Once()
    answer = SelfReflectEngine(retriever).answer("When did the founder of the society die?")
    assert "1962" in answer.text
    assert len(retriever.queries) == 3
    assert any("busy" in d.reason for d in answer.trace)


def test_a_limit_during_the_steps_leaves_them_what_was_found_before() -> None:
    question = "When did the founder of the society die?"
    made: list[Retrieve] = []

    def before(request: Request) -> Request:
        if isinstance(request, Retrieve):
            made.append(request)
            if len(made) > 1:
                raise DeadlineError("The deadline is over.", hint="Allow more time.")
        return request

    resources = Resources(retriever=BM25Retriever(ALL), reader=ExtractiveReader())
    run_of_question = QuestionRun(abilities=Abilities.of(resources))
    answer = run(intercept(extractive(question, run_of_question), before), resources)
    assert "1962" in answer.text
    assert len(made) == 2  # nothing is retrieved after it


@pytest.mark.parametrize("pipeline", ["composed", "seakr"])
def test_a_model_that_declines_leaves_the_steps_to_the_default(pipeline: str) -> None:
    model = ScriptedLM(lambda request: "I don't know.", name="shy")
    settings = SelfReflectSettings(pipeline=pipeline)
    answer = SelfReflectEngine(BM25Retriever(ALL), model, settings).answer("When did the founder of the society die?")
    assert "1962" in answer.text
    assert answer.metadata["answered_by"] == "embedded default"
    assert answer.metadata["pipeline"] == pipeline


def test_which_of_two_is_first_is_answered_by_both_dates() -> None:
    for question in (
        "Who was born first, Harriet Dunmore or Samuel Orde?",
        "Who is older, Samuel Orde or Harriet Dunmore?",
    ):
        answer = ask(question)
        assert [s.passage_id for c in answer.kept_claims for s in c.citations[0].spans] == ["orde", "people"]
        assert answer.claims[0].short_answer == "Samuel Orde"
        assert answer.metadata["chosen"] == "Samuel Orde"


@pytest.mark.parametrize(
    "question", ["Who was born first, Harriet Dunmore or Paul Okoro?", "Did Harriet Dunmore or Samuel Orde die first?"]
)
def test_which_of_two_is_first_is_not_answered_by_one_date(question: str) -> None:
    answer = ask(question)
    assert "chosen" not in answer.metadata
    assert answer.abstained


def test_a_relative_of_the_same_name_is_not_compared() -> None:
    twins = Passage("twins", "Bo Dunmore was born in 1850. Harriet Dunmore won a prize.", "Bo and Harriet Dunmore")
    answer = ask("Who was born first, Samuel Orde or Harriet Dunmore?", (ORDE, twins))
    assert "chosen" not in answer.metadata


def test_a_chain_is_more_probable_the_surer_its_steps() -> None:
    both, rest, neither = (join(*steps, titled=False) or 0.0 for steps in ((0.9, 0.9), (0.5, 0.9), (0.5, 0.5)))
    assert 1 > both > rest > neither > 0
    assert join(None, 0.9, titled=False) is None
    assert join(0.9, None, titled=True) is None
    certain, impossible = join(1.0, 1.0, titled=True) or 0.0, join(0.0, 0.0, titled=False) or 0.0
    assert 1 > certain > impossible > 0  # no more certain than the reader's own log-odds allow


def test_passages_that_name_the_answer_come_titled_ones_first() -> None:
    told = Passage("told", "Dr Ada Lind was born in 1841.", "Notes")
    titled = Passage("titled", "She was born in 1841.", "Ada Lind")
    other = Passage("other", "Ada Holm was born in 1850.", "Notes")
    assert passages_naming("Dr. Ada Lind", [told, other, titled]) == (titled, told)


def test_a_quote_of_a_step_does_not_win_over_a_model_that_declines() -> None:
    model = ScriptedLM(lambda request: "I don't know.", name="shy")
    engine = SelfReflectEngine(BM25Retriever((MINUTES, PEOPLE, HALL)), model)
    answer = engine.answer("What is the address of the person who keeps the key to the shed?")
    assert answer.abstained


def test_a_sentence_about_another_person_of_the_passage_does_not_answer() -> None:
    rules = Passage("rules", "Parking permits are issued by Greta Moll. Claims are approved by Priya Nair.", "Rules")
    people = Passage("people", "Priya Nair: priya.nair@example.com\n\nGreta Moll: reception, first floor.", "Directory")
    answer = ask("What is the email address of the person who issues parking permits?", (rules, people))
    assert not any("priya" in claim.text for claim in answer.kept_claims)
