"""Checking an answer made elsewhere: each claim at its place, supported, contradicted, neither or unknown."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.calibration.calibration import Calibration
from shared_core.errors import BudgetError, DeadlineError, InputError, PassageError, RetrievalError
from shared_core.facades.checker import SelfReflectChecker
from shared_core.lm.base import Capabilities, Generate
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.check import BATCH, check
from shared_core.pipelines.decision.question_run import Abilities, QuestionRun
from shared_core.pipelines.evidence import WINDOW, Evidence
from shared_core.pipelines.support import MODEL_ALONE, MODEL_ALONE_AT_MOST, support
from shared_core.reading.base import Verdict
from shared_core.reading.critic import CriticSupportScorer
from shared_core.runtime import flow
from shared_core.runtime.flow import Resources
from shared_core.types import Answer, Claim, ClaimSealed, Finished, Passage
from tests.fakes import PASSAGES, Critic, FirstSentenceReader, Shelf, WordCritic

LIT = "The lamp was lit in 1871."
WRONG = "The lamp was lit in 1950."
ELSEWHERE = "Captain Venn flew to the moon."
FOREIGN = "Das ist die Lampe."


def checker(
    *, retriever: Any = None, lm: Any = None, judge: Any = None, critic: Any = None, reader: Any = None, **settings: Any
) -> Any:
    critic, made = critic or WordCritic(), SelfReflectSettings(**settings)
    return SelfReflectChecker(retriever, lm, made, judge=judge, critic=critic, reader=reader, calibrations={})


def text_model(reply: Callable[[Generate], str]) -> ScriptedLM:
    """A model that gives texts and no more."""
    return ScriptedLM(reply, capabilities=Capabilities())


def verdicts(answer: Answer) -> list[str | None]:
    return [c.verdict for c in answer.claims]


def quotes(claim: Claim) -> list[str]:
    return [s.text for c in claim.citations for s in c.spans]


# --- what is said of a claim -------------------------------------------------------------------------------------


def test_half_an_emoji_in_a_passage_or_an_answer_is_no_reason_to_fail() -> None:
    passages = [Passage("lamp", f"{LIT} \ud83d It burned whale oil.", "Lamps \ud83d")]
    answer = checker().check(f"{LIT} \ud83d", passages=passages)
    assert verdicts(answer)[0] == "supported"
    assert quotes(answer.claims[0]) == [LIT]


def test_supported_contradicted_unsupported_and_unknown_are_told_apart() -> None:
    text = f"{LIT} [1] {WRONG}\n\n- {ELSEWHERE}\n- {FOREIGN}\n"
    answer = checker().check(text, passages=PASSAGES)
    assert answer.text == text
    assert verdicts(answer) == ["supported", "contradicted", "unsupported", "unknown"]
    assert [c.status for c in answer.claims] == ["kept", "flagged", "flagged", "flagged"]
    assert [text[c.start : c.end] for c in answer.claims] == [LIT, WRONG, ELSEWHERE, FOREIGN]
    assert answer.claims[3].support is None
    assert answer.metadata["shares"] == dict.fromkeys(("supported", "contradicted", "unsupported", "unknown"), 0.25)
    assert not answer.metadata["passing"]


def test_the_citation_is_what_supports_or_contradicts_or_the_nearest_there_is() -> None:
    answer = checker().check(f"{LIT} {WRONG} {ELSEWHERE}", passages=PASSAGES)
    first, second, third = answer.claims
    assert quotes(first) == ["The lamp was lit in 1871."]
    assert quotes(second) == ["The lamp was lit in 1871."]
    assert (second.signals.refuted or 0.0) >= 0.9
    assert quotes(third) == ["The Marrow sailed under Captain Ila Venn."]


def test_two_sentences_are_cited_where_it_takes_two() -> None:
    answer = checker().check("The lamp burned oil in 1871.", passages=PASSAGES)
    assert quotes(answer.claims[0]) == ["The lamp was lit in 1871.", "It burned whale oil."]


@pytest.mark.parametrize(
    ("text", "confidence"),
    [(LIT, 0.9), (f"{LIT} {WRONG}", 0.05), (f"{LIT} {FOREIGN}", None), (f"{WRONG} {FOREIGN}", 0.05)],
)
def test_the_confidence_is_that_of_the_weakest_claim_and_unknown_if_one_is_and_none_fails(
    text: str, confidence: float | None
) -> None:
    found = checker().check(text, passages=PASSAGES).confidence
    assert found == (confidence if confidence is None else pytest.approx(confidence))


def test_the_target_accuracy_decides() -> None:
    assert checker(target_accuracy=0.85).check(LIT, passages=PASSAGES).metadata["passing"]
    strict = checker(target_accuracy=0.95).check(LIT, passages=PASSAGES)
    assert (strict.abstained, strict.reason, verdicts(strict)) == (True, "support below target", ["unsupported"])


def test_a_passage_that_contradicts_lowers_the_support() -> None:
    against = Passage("other", "The lamp was lit in 1950.")
    assert checker().check(LIT, passages=PASSAGES).claims[0].support == 0.9
    doubted = checker().check(LIT, passages=[*PASSAGES, against]).claims[0]
    assert doubted.support <= 0.1
    assert doubted.verdict == "contradicted"


def test_a_passage_that_leaves_a_fact_out_contradicts_nothing_beside_one_that_holds_it() -> None:
    """A critic's doubt about another passage made a claim contradicted that its own quote bears out."""

    class OfYears(WordCritic):
        def _judge(self, evidence: str, claim: str) -> Verdict | None:
            return Verdict(0.2, 0.7) if "1871" not in evidence else Verdict(0.9, 0.05)

    silent = Passage("silent", "The lamp was lit by Ila Venn, who had paid for it.")
    claim = checker(critic=OfYears()).check(LIT, passages=[*PASSAGES, silent]).claims[0]
    assert (claim.verdict, claim.support) == ("supported", 0.9)


def test_irrelevant_passages_change_nothing_and_the_gold_one_taken_away_lowers_it() -> None:
    more = [Passage(f"p{i}", f"Number {i} of the harbour has a blue door.") for i in range(40)]
    assert checker().check(LIT, passages=[*more, *PASSAGES]).claims[0].support == 0.9
    assert checker().check(LIT, passages=[*more, PASSAGES[1]]).claims[0].support < 0.5


def test_evidence_deep_in_a_long_passage_is_found() -> None:
    filler = " ".join(f"Ship number {i} came into the harbour in spring." for i in range(400))
    passage = Passage("long", f"{filler} The beacon was lit by Mira Dorn. {filler}")
    answer = checker().check("The beacon was lit by Mira Dorn.", passages=[passage])
    assert quotes(answer.claims[0]) == ["The beacon was lit by Mira Dorn."]
    assert answer.claims[0].support == 0.9


def test_a_fragment_is_judged_with_its_question_or_the_line_that_it_completes() -> None:
    asked: list[str] = []

    class Listening(WordCritic):
        def judge(self, pairs: Any) -> list[Verdict | None]:
            asked.extend(claim for _, claim in pairs)
            return super().judge(pairs)

    checker(critic=Listening()).check("1871.", "When was the lamp lit?", PASSAGES)
    checker(critic=Listening()).check("She carried:\n- salt", "What of her?", PASSAGES)
    assert set(asked) == {"When was the lamp lit? 1871.", "She carried: salt"}


# --- what to check against ---------------------------------------------------------------------------------------


class Doubtful(WordCritic):
    """A critic that makes little of anything."""

    def _judge(self, evidence: str, claim: str) -> Verdict | None:
        return Verdict(0.3)


@pytest.mark.parametrize(
    ("answer", "supported"),
    [("1871.", 0.9), ("In 1871", 0.9), ("1950.", 0.3), ("1871 or 1950", 0.3), ("The lamp", 0.3), (LIT, 0.3)],
)
def test_a_short_answer_that_the_reader_finds_too_is_supported(answer: str, supported: float) -> None:
    made = checker(critic=Doubtful(), reader=FirstSentenceReader(0.9))
    (claim,) = made.check(answer, "When was the lamp lit?", PASSAGES).claims
    assert claim.support == pytest.approx(supported)
    assert quotes(claim)
    (alone,) = made.check(answer, passages=PASSAGES).claims
    assert alone.support == pytest.approx(0.3), "without a question there is nothing to answer"


def test_a_reader_does_not_overrule_the_engines_own_judge() -> None:
    made = checker(judge=Critic(0.2), reader=FirstSentenceReader(0.9))
    (claim,) = made.check("1871.", "When was the lamp lit?", PASSAGES).claims
    assert claim.support == pytest.approx(0.2)


def test_passages_are_retrieved_for_each_claim_and_for_the_question() -> None:
    shelf = Shelf()
    answer = checker(retriever=shelf).check(f"{LIT} {ELSEWHERE}", "What of the lamp?")
    assert shelf.queries == ["What of the lamp?", LIT, ELSEWHERE]
    assert [p.id for p in answer.passages] == ["lamp", "ship"]
    assert verdicts(answer) == ["supported", "unsupported"]


def test_the_engine_checks_with_its_own_parts() -> None:
    engine = SelfReflectEngine(Shelf(), reader=FirstSentenceReader(), critic=WordCritic())
    expected = engine.check(LIT, "When?")
    assert expected.metadata["passing"]
    assert asyncio.run(engine.acheck(LIT, "When?")) == expected
    assert engine.check_many([LIT], ["When?"]) == [expected]
    assert asyncio.run(engine.acheck_many([LIT], ["When?"])) == [expected]
    assert engine.check(LIT, passages=["The lamp was lit in 1871."]).passages[0].id == "passage 1"


def test_without_passages_nothing_is_known() -> None:
    for passages in ([], [Passage("blank", " \n")]):
        answer = checker().check(LIT, passages=passages)
        assert (answer.claims[0].support, answer.confidence, answer.reason) == (None, None, "nothing retrieved")


@pytest.mark.parametrize(("answer", "passages", "error", "says"), [
    (LIT, None, InputError, "nothing to check the answer against"),
    *((blank, PASSAGES, InputError, "non-empty text") for blank in ("", "  \n", None, 5)),
    (LIT, "The lamp was lit in 1871.", InputError, "must be a list"),
    (LIT, [Passage("a", "x"), Passage("a", "y")], PassageError, "different texts"),
])  # fmt: skip
def test_bad_input_is_refused(answer: Any, passages: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        checker().check(answer, passages=passages)


def test_what_states_nothing_passes_nothing() -> None:
    answer = checker().check("```\nx = 1\n```", passages=PASSAGES)
    assert (answer.claims, answer.abstained, answer.reason) == ((), True, "nothing to check")
    assert answer.confidence is None
    assert not answer.metadata["passing"]
    assert answer.metadata["unchecked"] == [[4, 9]]


def test_of_many_a_failing_one_fails_alone() -> None:
    found = checker().check_many([LIT, "", WRONG], passages=[PASSAGES, PASSAGES, PASSAGES])
    assert isinstance(found[1], InputError)
    assert [a.metadata["passing"] for a in (found[0], found[2]) if isinstance(a, Answer)] == [True, False]
    with pytest.raises(InputError, match="1 answers to check and 2 questions"):
        checker().check_many([LIT], ["a", "b"])


def test_a_retriever_that_fails_is_no_verdict() -> None:
    class Broken:
        def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
            raise OSError("gone")

    with pytest.raises(RetrievalError, match="gone"):
        checker(retriever=Broken()).check(LIT)


# --- many claims, and limits -------------------------------------------------------------------------------------


def test_hundreds_of_claims_go_out_in_batches_and_are_told_as_they_are_judged() -> None:
    critic, told = WordCritic(), []
    text = " ".join(f"Ship number {i} carried salt." for i in range(400))
    passage = Passage("all", "Ship number 7 carried salt.")
    (answer,) = checker(critic=critic).check_many(
        [text], passages=[[passage]], on_event=lambda i, e: told.append(e) if isinstance(e, ClaimSealed) else None
    )
    assert isinstance(answer, Answer)
    assert len(answer.claims) == len(told) == 400
    assert answer.metadata["verdicts"]["supported"] == 1
    assert max(critic.batches) <= BATCH
    assert len(answer.trace) < 10


def test_what_is_said_twice_is_judged_once() -> None:
    critic = WordCritic()
    answer = checker(critic=critic).check(" ".join([LIT] * 50), passages=[Passage("a", LIT)])
    assert len(answer.claims) == 50
    assert sum(critic.batches) == 1


def test_when_the_time_is_over_the_rest_is_unknown() -> None:
    class Late(WordCritic):
        def judge(self, pairs: Any) -> list[Verdict | None]:
            if self.batches:
                raise DeadlineError("The time is over.")
            return super().judge(pairs)

    text = " ".join(f"Ship number {i} carried salt." for i in range(100))
    answer = checker(critic=Late()).check(text, passages=[Passage("a", "Ship number 7 carried salt.")])
    assert verdicts(answer)[7] == "supported"
    assert verdicts(answer)[40:] == ["unknown"] * 60
    assert answer.confidence is None or answer.confidence < 0.5
    assert "limit" in [d.kind for d in answer.trace]


@pytest.mark.parametrize(
    "wrong", ["The lamp was lit in 1950.", "The lamp was not lit in 1871.", "The lamp was lit in eighteen seventy-two."]
)
def test_no_judge_can_support_what_the_facts_contradict(wrong: str) -> None:
    answer = checker(judge=Critic(0.99)).check(wrong, passages=PASSAGES)
    assert verdicts(answer) == ["contradicted"]
    assert (answer.confidence or 1.0) < 0.1


def test_changed_facts_are_caught_in_any_language() -> None:
    passage = Passage("turm", "Der Leuchtturm wurde 1911 von Lavinia Hathe gebaut und ist 83 Meter hoch.")
    for wrong in ("Der Leuchtturm wurde 1912 von Lavinia Hathe gebaut.", "Der Leuchtturm ist 38 Meter hoch."):
        assert verdicts(checker().check(wrong, passages=[passage])) == ["contradicted"]


def test_what_another_passage_lacks_does_not_decide_on_a_claim_in_another_language() -> None:
    texts = ("Der Eintritt kostet 5 Euro.", "A parking space costs 60 euros.", "Der Zug nach Orm fährt um 8 Uhr.")
    passages = [Passage(text, text) for text in texts]
    right, wrong = "Der Eintritt kostet 5 Euro.", "Der Eintritt kostet 6 Euro."
    critic = CriticSupportScorer()
    alone = checker(critic=critic).check(right, passages=passages)
    assert (verdicts(alone), quotes(alone.claims[0])) == (["unknown"], [right])
    lm = text_model(lambda request: "90")
    assert verdicts(checker(critic=critic, lm=lm).check(right, passages=passages)) == ["supported"]
    assert verdicts(checker(critic=critic).check(wrong, passages=passages)) == ["contradicted"]


def test_another_subjects_figure_does_not_contradict_a_supported_claim() -> None:
    claim = "Lake Ivenmere has a depth of 83 metres."
    for other, verdict in (("Lake Orm", "supported"), ("Lake Ivenmere", "contradicted")):
        passages = [Passage("a", claim), Passage("b", f"{other} has a depth of 99 metres.")]
        assert verdicts(checker().check(claim, passages=passages)) == [verdict]


# --- who judges --------------------------------------------------------------------------------------------------


def test_the_engines_judge_comes_first_and_the_critic_says_what_contradicts() -> None:
    kindled = "The lamp was kindled in 1871."  # the critic does not know the word
    assert verdicts(checker(judge=Critic(0.8)).check(kindled, passages=PASSAGES)) == ["supported"]
    answer = checker(judge=Critic(0.1)).check(f"{WRONG} {ELSEWHERE}", passages=PASSAGES)
    assert verdicts(answer) == ["contradicted", "unsupported"]
    assert answer.metadata["judged_by"] == "judge"


@pytest.mark.parametrize("p", [math.nan, None])
def test_a_judge_that_knows_nothing_supports_nothing(p: float | None) -> None:
    answer = checker(judge=Critic(p)).check(LIT, passages=PASSAGES)
    assert (verdicts(answer), answer.confidence) == (["unknown"], None)


def test_the_model_is_asked_what_nobody_else_can_judge_once_for_each_claim() -> None:
    asked: list[str] = []

    def reply(request: Generate) -> str:
        asked.append(request.prompt.text)
        return "90"

    lm = text_model(reply)
    answer = checker(lm=lm).check(f"{LIT} {FOREIGN}", passages=PASSAGES)
    assert verdicts(answer) == ["supported", "supported"]
    assert answer.claims[1].support == MODEL_ALONE_AT_MOST  # it said 90
    assert any(MODEL_ALONE in d.reason for d in answer.trace)
    assert len(asked) == 1
    assert FOREIGN in asked[0]
    assert answer.usage.calls == 1


def test_with_a_model_alone_it_is_asked_about_each_claim() -> None:
    lm = text_model(lambda request: "20" if "moon" in request.prompt.text else "95%")
    answer = checker(lm=lm, signals="support_only").check(f"{LIT} {ELSEWHERE}", passages=PASSAGES)
    assert [c.support for c in answer.claims] == [0.95, 0.2]
    assert answer.metadata["judged_by"] == "verbalised"
    assert quotes(answer.claims[0]) == ["The lamp was lit in 1871."]


@pytest.mark.parametrize("reply", ["", "lorem ipsum", "nan", "101"])
def test_replies_that_are_no_verdict_are_unknown(reply: str) -> None:
    lm = text_model(lambda request: reply)
    answer = checker(lm=lm, signals="support_only").check("The keeper slept.", passages=PASSAGES)
    assert answer.claims[0].verdict == "unknown"


def test_nobody_who_could_judge_is_said() -> None:
    answer = checker(signals="support_only").check(LIT, passages=PASSAGES)
    assert (verdicts(answer), answer.reason, answer.metadata["judged_by"]) == (["unknown"], "cannot be judged", None)


def test_calls_over_the_budget_leave_claims_unknown() -> None:
    lm = text_model(lambda request: "95")
    text = f"{LIT} {ELSEWHERE} Ships carried salt."
    answer = checker(lm=lm, signals="support_only", max_calls=1).check(text, passages=PASSAGES)
    assert verdicts(answer) == ["supported", "unknown", "unknown"]
    assert answer.confidence is None


def test_a_calibration_of_support_is_applied_and_said() -> None:
    bound = {"support_method": "critic", "model": "words"}
    halved = Calibration("isotonic", True, bound, points=((0.0, 0.0), (1.0, 0.5)))
    made = SelfReflectChecker(critic=WordCritic(), calibrations={"support": halved})
    answer = made.check(LIT, passages=PASSAGES)
    assert answer.claims[0].support == pytest.approx(0.45)
    assert answer.calibrated
    assert not checker().check(LIT, passages=PASSAGES).calibrated


# --- always ------------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    ["The lamp", " was lit", " in 1871",
     ". ", "\n", "\n\n- ", "[1]", "```\n", "She carried salt", "1. ", "ist", "日本。",
     "?", "**", "🙂", " under Captain Ila Venn", "| a |", ": "]
)  # fmt: skip
TEXTS = st.lists(WORDS, min_size=1, max_size=15).map("".join).filter(str.strip)


@settings(max_examples=50)
@given(TEXTS, st.lists(TEXTS, max_size=4))
def test_every_range_and_every_citation_is_exact(text: str, documents: list[str]) -> None:
    passages = [Passage(str(i), d, "A title") for i, d in enumerate(documents)]
    answer = checker().check(text, "When?", passages)
    assert answer.text == text
    for claim in answer.claims:
        assert text[claim.start : claim.end] == claim.text
        assert (claim.verdict == "unknown") == (claim.support is None)
        assert (claim.status == "kept") == (claim.support is not None and claim.support > 0.5)
        assert bool(claim.citations) == any(p.text.strip() for p in passages)
        for span in (s for c in claim.citations for s in c.spans):
            assert answer.passage(span.passage_id).text[span.start : span.end] == span.text
    assert Answer.from_dict(answer.to_dict()) == answer


@settings(max_examples=50)
@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_windows_hold_every_sentence_and_are_short(documents: list[str]) -> None:
    passages = [Passage(str(i), d * 20) for i, d in enumerate(documents)]
    windows = Evidence(passages).windows
    for passage in passages:
        held = {i for w in windows if w.passage is passage for s in w.sentences for i in range(s.start, s.end)}
        assert all(i in held for i, c in enumerate(passage.text) if not c.isspace())
    assert all(len(w.text) <= WINDOW or len(w.sentences) == 1 for w in windows)


def test_events_end_with_the_answer() -> None:
    told: list[Any] = []
    (answer,) = checker().check_many([LIT], passages=[PASSAGES], on_event=lambda i, e: told.append(e))
    assert told[-1] == Finished(answer)


def test_after_a_limit_the_model_is_not_asked_about_what_nobody_else_can_judge() -> None:
    lm = ScriptedLM(lambda request: "95")
    made = QuestionRun(abilities=Abilities.of(Resources({"default": lm})))
    asked = flow.run(check("The lamp was lit in 1871.", "", PASSAGES, made), Resources({"default": lm}))
    assert [c.verdict for c in asked.claims] == ["supported"]
    before, spent = len(lm.requests), QuestionRun(abilities=made.abilities)
    spent.trace.limit = BudgetError("spent")
    left = flow.run(check("The lamp was lit in 1871.", "", PASSAGES, spent), Resources({"default": lm}))
    assert len(lm.requests) == before
    assert [c.verdict for c in left.claims] == ["unknown"]
    assert left.reason == "out of budget"


def test_in_an_answer_too_the_models_word_alone_is_capped() -> None:
    resources = Resources({"default": text_model(lambda request: "95")}, critic=WordCritic())
    run = QuestionRun(abilities=Abilities.of(resources))
    read, foreign = flow.run(support([(PASSAGES[0].text, LIT), (PASSAGES[0].text, FOREIGN)], run), resources)
    assert read == 0.9  # by the critic
    assert foreign == MODEL_ALONE_AT_MOST
    assert MODEL_ALONE in run.trace.decisions[-1].reason
