"""A model that gives the reader's answer in words of its own agrees; one that cites the same sentence may not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shared_core import SelfReflectEngine
from shared_core.citation import CitationIndex
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.agreement import same_answer
from shared_core.pipelines.competing import named
from shared_core.pipelines.evidence import around_quotes, evidence_for
from shared_core.reading import CriticSupportScorer, ExtractiveReader
from shared_core.types import Answer, Citation, Claim, Passage
from tests.fakes import Critic, FirstSentenceReader, Fixed, Shelf

LOANS = "Books may be borrowed for four weeks, DVDs for one week."
RECEIPTS = "Receipts must be submitted within 14 days after the trip."
FIX = "Remove the filter and clean the impeller."
DEPOSIT = "The landlord returns the deposit within 30 days after the end of the tenancy."
KEY = "A lost key must be reported to the landlord within 24 hours."
PUMP = "The AquaLift 300 was developed by Benno Krall in 2011."
GAMES = "The games took place from 9 to 25 February 2018 in Alsund."


def agrees(text: str, question: str, short: str, claim: str, elsewhere: str = "") -> bool:
    """Whether a claim agrees with the quote ``text``; it cites that, or a sentence of another passage."""
    passages = [Passage("a", text), *([Passage("b", elsewhere)] if elsewhere else [])]
    cited = passages[-1]
    own = Claim(text, 0.6, (Citation((passages[0].span(0, len(text)),)),), short_answer=short or None)
    made = Claim(claim, None, (Citation((cited.span(0, len(cited.text)),)),))
    return same_answer(made, own, question)


DVD = "How long can I keep a DVD?"
TO_DO = "What do I have to do with my receipts?"
BACK = "When do I get my deposit back?"
LOST = "What must I do if I lose a key?"
WHO = "Who developed the AquaLift 300?"
GAMES_WHEN = "When did the games take place?"
ERROR = "How do I fix error E3?"


@pytest.mark.parametrize(
    ("text", "question", "short", "claim"),
    [
        (LOANS, DVD, "one week", "You can keep a DVD for 1 week."),
        (LOANS, DVD, "one week", "You can keep a DVD for one week."),
        (RECEIPTS, TO_DO, "submitted", "You have to submit receipts within 14 days after the trip."),
        (FIX, ERROR, "Remove the filter and clean the impeller", "Remove the filter, then clean the impeller."),
        (
            DEPOSIT,
            BACK,
            "within 30 days after the end of the tenancy",
            "You get your deposit back 30 days after the tenancy ends at the latest.",
        ),
        (KEY, LOST, "A lost key must be reported to the landlord", "You must report a lost key within 24 hours."),
        (PUMP, WHO, "Benno Krall", "Benno Krall developed the AquaLift 300 in 2011."),
        (
            "Overdue items cost 20 cents a day.",
            "What is the fine for late books?",
            "Overdue items cost 20 cents a day",
            "The fine for late books is 20 cents per day.",
        ),
        (GAMES, GAMES_WHEN, "from 9 to 25 February 2018", "They took place between 9 and 25 February 2018."),
    ],
)
def test_a_right_answer_in_other_words_agrees(text: str, question: str, short: str, claim: str) -> None:
    assert agrees(text, question, short, claim)


@pytest.mark.parametrize(
    ("text", "question", "short", "claim"),
    [
        (LOANS, DVD, "one week", "You can keep a DVD for four weeks."),
        (LOANS, DVD, "one week", "You can keep a DVD for 2 weeks."),
        (LOANS, DVD, "one week", "You can keep a DVD."),
        (LOANS, DVD, "one week", "Books may be borrowed for four weeks."),
        (RECEIPTS, TO_DO, "submitted", "You have to keep receipts for 14 days after the trip."),
        (RECEIPTS, TO_DO, "submitted", "You do not have to submit receipts."),
        (FIX, ERROR, "Remove the filter and clean the impeller", "Remove the impeller and clean the filter."),
        (FIX, ERROR, "Remove the filter and clean the impeller", "Clean the filter."),
        (FIX, ERROR, "Remove the filter and clean the impeller", "Do not remove the filter; clean the impeller."),
        (DEPOSIT, BACK, "within 30 days after the end of the tenancy", "The landlord returns the deposit."),
        (
            DEPOSIT,
            BACK,
            "within 30 days after the end of the tenancy",
            "You get your deposit back 60 days after the tenancy ends.",
        ),
        (KEY, LOST, "A lost key must be reported to the landlord", "You must pay the landlord within 24 hours."),
        (KEY, LOST, "A lost key must be reported to the landlord", "You must report a lost key within 48 hours."),
        (KEY, LOST, "A lost key must be reported to the landlord", "You need not report a lost key to the landlord."),
        (PUMP, WHO, "Benno Krall", "The AquaLift 300 was developed in 2011."),
        (PUMP, WHO, "Benno Krall", "Tom Krall developed the AquaLift 300."),
        (GAMES, GAMES_WHEN, "from 9 to 25 February 2018", "They took place in Alsund in February."),
        (GAMES, GAMES_WHEN, "from 9 to 25 February 2018", "They took place from 9 to 20 February 2018."),
    ],
)
def test_a_claim_that_cites_the_right_sentence_but_answers_otherwise_does_not_agree(
    text: str, question: str, short: str, claim: str
) -> None:
    assert not agrees(text, question, short, claim)


def test_other_words_agree_only_where_the_same_is_quoted() -> None:
    claim = "You can keep a DVD for 1 week."
    assert agrees(LOANS, DVD, "one week", claim, elsewhere=LOANS)  # a copy of the sentence
    assert not agrees(LOANS, DVD, "one week", claim, elsewhere="A DVD player is lent for one week.")


@pytest.mark.parametrize(
    ("cited", "claim", "same"),
    [
        (1, "In winter you should store the pump in a frost-free place.", True),
        (0, "In winter you should clean the filter.", False),
        (1, "The pump has a winter.", False),
    ],
)
def test_of_two_sentences_quoted_the_one_that_is_asked_about_counts(cited: int, claim: str, same: bool) -> None:
    passage = Passage("a", "Clean the filter every three months. Store the pump frost-free in winter.")
    own = Claim(passage.text, 0.6, (Citation((passage.span(0, len(passage.text)),)),))
    made = Claim(claim, None, (Citation((CitationIndex([passage]).sentences[cited],)),))
    assert same_answer(made, own, "What should I do with the pump in winter?") is same


@pytest.mark.parametrize(
    ("claim", "same"),
    [
        ("Yes, but only on flights longer than 8 hours.", True),
        ("Employees may fly business class on flights longer than eight hours.", True),
        ("Employees may fly business class on flights.", False),
        ("Employees may not fly business class on flights longer than eight hours.", False),
        ("Employees may fly business class on flights longer than six hours.", False),
    ],
)
def test_where_the_reader_names_only_words_of_the_question_its_sentence_counts(claim: str, same: bool) -> None:
    text = "Employees may fly business class only on flights longer than eight hours."
    assert agrees(text, "May employees fly business class?", "may fly business class", claim) is same


# --- what a claim is judged by -------------------------------------------------------------------------------------

PUMPS = Passage(
    "p", "The AquaLift 300 is a pump. It was developed by Benno Krall in 2011.", "Pumps", {"section": "History"}
)


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("It was developed by Benno Krall.", "It was developed by Benno Krall in 2011."),
        ("Krall developed the AquaLift 300.", "The AquaLift 300 is a pump.\nIt was developed by Benno Krall in 2011."),
        ("In the history of pumps, Krall counts.", "Pumps\nHistory\nThe AquaLift 300 is a pump.\n{}"),
    ],
)
def test_evidence_has_title_section_and_the_sentence_before_a_pronoun_where_the_claim_takes_words_of_them(
    claim: str, evidence: str
) -> None:
    sentence = CitationIndex([PUMPS]).sentences[1]
    found = evidence_for(Claim(claim, None, (Citation((sentence,)),)), {"p": PUMPS})
    assert found == evidence.format(sentence.text)


def test_the_sentence_before_is_no_evidence_for_a_quote_that_needs_none() -> None:
    passage = Passage("p", "The AquaLift 300 is a pump. Benno Krall built boilers.")
    claim = Claim("Krall built the AquaLift 300.", None, (Citation((CitationIndex([passage]).sentences[1],)),))
    assert evidence_for(claim, {"p": passage}) == "Benno Krall built boilers."


def test_the_question_is_evidence_only_for_a_claim_that_gives_the_readers_answer() -> None:
    """Beside "Are dogs allowed?" the critic took "Dogs are allowed." to follow from any sentence on dogs."""
    seen: list[str] = []

    def judge(evidence: str, claim: str) -> float:
        seen.append(evidence)
        return 0.9

    for claim in ("The lamp of Vell was lit in 1871.", "The lamp of Vell is red."):
        lm = ScriptedLM([f"<reference>S1</reference><claim>{claim}</claim>"] * 5)  # more than are asked for
        shelf = Shelf([Passage("a", "It was lit in 1871.")])
        reader = FirstSentenceReader(0.9, answerable=0.9)
        SelfReflectEngine(shelf, lm, reader=reader, critic=Critic(judge)).answer("When was the lamp of Vell lit?")
    assert any(e == "When was the lamp of Vell lit?\nIt was lit in 1871." for e in seen)
    assert "It was lit in 1871." in seen


# --- with the shipped reader and critic ----------------------------------------------------------------------------

READER, CRITIC = ExtractiveReader(), CriticSupportScorer()


def ask(text: str, question: str, claim: str, number: int = 1, title: str = "") -> tuple[Answer, float]:
    """The answer with a model that claims this of a sentence, and the confidence without a model."""
    shelf = Fixed(Passage("a", text, title))
    lm = ScriptedLM(lambda request: f"<reference>S{number}</reference><claim>{claim}</claim>")
    alone = SelfReflectEngine(shelf, reader=READER, critic=CRITIC).answer(question)
    return SelfReflectEngine(shelf, lm, reader=READER, critic=CRITIC).answer(question), alone.confidence or 0.0


def compared(answer: Answer) -> Sequence[str]:
    return [d.outcome for d in answer.trace if d.kind == "compare"]


@pytest.mark.parametrize(
    ("text", "question", "number", "claim"),
    [
        (LOANS, DVD, 1, "You can keep a DVD for 1 week."),
        (RECEIPTS, TO_DO, 1, "You have to submit receipts within 14 days after the trip."),
        (f"E3 means that the impeller is blocked. {FIX}", ERROR, 2, "Remove the filter, then clean the impeller."),
        (DEPOSIT, BACK, 1, "You get your deposit back 30 days after the tenancy ends at the latest."),
        (f"{KEY} The tenant pays for the lock.", LOST, 1, "You must report a lost key within 24 hours."),
    ],
)
def test_a_right_paraphrase_costs_one_call_and_makes_the_answer_surer(
    text: str, question: str, number: int, claim: str
) -> None:
    answer, alone = ask(text, question, claim, number)
    assert compared(answer) == ["the model agrees"]
    assert not answer.abstained
    assert (answer.confidence or 0.0) > alone
    assert answer.usage.calls == 1


def test_a_claim_that_says_what_a_pronoun_means_keeps_its_words() -> None:
    text = "The AquaLift 300 is a pump. It was developed by Benno Krall in 2011."
    answer, _ = ask(text, WHO, "Benno Krall developed the AquaLift 300 in 2011.", number=2)
    assert answer.text.startswith("Benno Krall developed the AquaLift 300 in 2011.")
    assert answer.usage.calls == 1
    wrong, _ = ask(text, WHO, "Tom Beck developed the AquaLift 300 in 2011.", number=2)
    assert "Beck" not in wrong.text


def test_a_claim_that_takes_words_of_the_title_keeps_them() -> None:
    answer, _ = ask(
        "The fee was £12.", "What was the entrance fee in 2023?", "The entrance fee in 2023 was £12.", title="Fair 2023"
    )
    assert answer.text.startswith("The entrance fee in 2023 was £12.")
    assert answer.usage.calls == 1


def test_twice_a_number_of_the_quote_is_no_sum_of_it_and_of_its_passage() -> None:
    passage = Passage("a", KEY)
    claim = Claim("A lost key must be reported within 48 hours.", None, (Citation((passage.span(0, len(KEY)),)),))
    assert around_quotes(claim, [passage]) == ""
    wrong, _ = ask(KEY, LOST, claim.text)
    assert "48" not in wrong.text
    assert all((c.support or 0.0) <= 0.05 for c in wrong.claims if "48" in c.text)


def test_i_is_no_name_and_a_plural_holds_the_name() -> None:
    passage = Passage("a", LOANS)
    claim = Claim(LOANS, None, (Citation((passage.span(0, len(LOANS)),)),))
    assert named("How long can I keep DVD films?", claim, [passage]) == 1.0
    assert named("How long can I keep CD films?", claim, [passage]) == 0.0
    assert named("How long can I keep films?", claim, [passage]) is None


def test_a_claim_with_a_number_of_its_own_is_compared() -> None:
    clause = "5.5 Walls may be painted in a neutral colour if the tenant restores the old one."
    question = "May we paint the walls?"
    assert agrees("5.5 Walls may be painted in a neutral colour.", question, "in a neutral colour", clause)
    assert not agrees(clause, question, "in a neutral colour", "1. Switch the pump off. 2. Clean the filter.")
