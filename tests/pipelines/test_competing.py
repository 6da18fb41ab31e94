"""The embedded default's own quotes are candidates beside the model's claims."""

from __future__ import annotations

import pickle
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import Answer, SelfReflectEngine, SelfReflectSettings
from shared_core.calibration.replies import Reply
from shared_core.errors import CalibrationError
from shared_core.lm.base import Capabilities
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.confidence import combine
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.decision.trust import TYPES, UNINFORMATIVE, ModelTrust
from shared_core.types import Passage, Signals
from tests.fakes import Critic, FirstSentenceReader, Fixed, Shelf

QUESTION = "When was the lamp lit?"
RIGHT = "The lamp was lit in 1871."


def engine_of(lm: ScriptedLM, reader: float, shelf: Any = None, critic: Any = None, **settings: Any) -> Any:
    """An engine whose reader is so sure of the first sentence of each passage."""
    sure = FirstSentenceReader(reader, answerable=reader)
    options = SelfReflectSettings(**settings)
    return SelfReflectEngine(shelf or Shelf(), lm, options, reader=sure, critic=critic or Critic())


def ask(reply: str, *, reader: float, times: int = 1, **settings: Any) -> Answer:
    lm = ScriptedLM(lambda request: "97" if "0 to 100" in request.prompt.text else reply)
    engine = engine_of(lm, reader, **settings)
    for i in range(times - 1):
        engine.answer(f"{QUESTION} ({i})")
    answer: Answer = engine.answer(QUESTION)
    assert engine.answer(QUESTION).confidence == answer.confidence  # the same question, the same answer
    return answer


def test_a_refusal_is_a_signal_and_no_verdict() -> None:
    assert ask("I don't know.", reader=0.7).abstained  # an unknown model's refusal counts much
    answer = ask("I don't know.", reader=0.7, times=12)  # the twelfth in a row does not
    assert answer.text.startswith(RIGHT)
    assert answer.metadata["answered_by"] == "embedded default"
    assert not answer.calibrated
    assert (answer.confidence or 1.0) <= 0.7


@pytest.mark.parametrize(
    ("short", "reply"), [("1950", "contradicts"), ("the lamp", "contradicts"), ("unknown", "declines")]
)
def test_an_answer_that_no_passage_holds_is_no_refusal(short: str, reply: str) -> None:
    """A base model that made up a number took the reader's right answer from .73 to .41, as if it had declined."""
    lm = ScriptedLM(
        lambda request: f"So the answer is {short}." if "So the answer is" in request.prompt.text else "",
        capabilities=Capabilities(grammar=True, token_logprobs=True),
    )
    answer = engine_of(lm, 0.7).answer(QUESTION)
    assert [d.outcome for d in answer.trace if d.kind == "compare"] == [f"the model {reply}"]
    assert answer.abstained is (reply == "declines")


def test_without_it_a_refusal_is_believed() -> None:
    assert ask("I don't know.", reader=0.95, times=12, compete=False).abstained


def test_a_claim_that_contradicts_its_quote_gives_way_to_the_quote() -> None:
    answer = ask("<reference>S1</reference><claim>The lamp was lit in 1950.</claim>", reader=0.9)
    assert answer.text.startswith(RIGHT)
    assert "1950" not in answer.text


@pytest.mark.parametrize("pipeline", ["composed", "reclaim", "self_rag", "seakr", "research"])
def test_what_the_model_quotes_gives_way_to_a_surer_quote_of_the_readers(pipeline: str) -> None:
    reply = "The answer is: The lamp burned whale oil." if pipeline == "seakr" else "The lamp burned whale oil."
    lm = ScriptedLM(lambda request: "80%" if "0 to 100" in request.prompt.text else reply)
    shelf = Shelf([Passage("lamp", "The lamp was lit in 1871. The lamp burned whale oil.")])
    settings = SelfReflectSettings(pipeline=pipeline)
    reader = FirstSentenceReader(0.9, answerable=0.95)
    answer = SelfReflectEngine(shelf, lm, settings, reader=reader, critic=Critic(0.99)).answer(QUESTION)
    assert answer.text.startswith(RIGHT)
    assert answer.metadata["answered_by"] == "embedded default"
    alone = SelfReflectEngine(shelf, lm, settings.replace(compete=False), reader=reader, critic=Critic(0.99))
    assert "whale oil" in alone.answer(QUESTION).text


def test_a_right_claim_that_is_not_shown_for_others_of_its_sentence_leaves_the_quote_of_it() -> None:
    def reply(request: Any) -> str:
        if "0 to 100" in request.prompt.text:
            return "80"
        splits = "Break the sentence" in request.prompt.text
        return f"- {RIGHT}\n- The lamp sank in 1900." if splits else "The lamp was lit in 1871 and sank in 1900."

    settings = SelfReflectSettings(pipeline="research")
    reader = FirstSentenceReader(0.9, answerable=0.95)
    answer = SelfReflectEngine(Shelf(), ScriptedLM(reply), settings, reader=reader, critic=Critic()).answer(QUESTION)
    assert answer.text == f"{RIGHT} [1]"
    assert answer.metadata["answered_by"] == "embedded default"


def test_an_agreeing_claim_keeps_the_models_words() -> None:
    answer = ask(f"<reference>S1</reference><claim>{RIGHT}</claim>", reader=0.6)
    assert answer.text.startswith(RIGHT)
    assert "answered_by" not in answer.metadata
    assert (answer.confidence or 0.0) > 0.6


@pytest.mark.parametrize("compete", [False, True])
def test_a_claim_says_no_more_than_its_quote(compete: bool) -> None:
    answer = ask("<reference>S1</reference><claim>The lamp was lit in 1950.</claim>", reader=0.95, compete=compete)
    wrong = [c for c in answer.claims if "1950" in c.text]
    assert wrong
    assert all((c.support or 0.0) <= 0.05 for c in wrong)


def test_a_right_claim_with_a_wrong_quote_does_not_lend_its_support_to_that_quote() -> None:
    """ "An adult membership costs £30 a month. [1][2]" cited the price of a family, with a support of .99."""
    lm = ScriptedLM(lambda request: f"<reference>S2</reference><claim>{RIGHT}</claim>")
    answer = engine_of(lm, 0.95, critic=Critic(0.095)).answer(QUESTION)
    assert answer.text == f"{RIGHT} [1]"
    assert [c.quote for c in answer.kept_claims[0].citations] == [RIGHT]


@given(st.floats(0, 1), st.lists(st.sampled_from(get_args(Reply)), max_size=30))
def test_a_posterior_is_a_probability_and_no_type_is_ruled_out(p: float, replies: list[Reply]) -> None:
    trust = ModelTrust()
    for number, reply in enumerate(replies):
        assert 0 <= trust.posterior(p, reply) <= 1
        trust.observe(p, reply, str(number))
    assert 0 < trust.competent() < 1
    again = pickle.loads(pickle.dumps(trust))
    assert again.posterior(p, "agrees") == trust.posterior(p, "agrees")


def test_rates_and_priors_are_distributions() -> None:
    assert 0 < UNINFORMATIVE < 1
    assert all(sum(rates) == pytest.approx(1) for _, *both in TYPES.values() for rates in both)


def claimed(trusted: float, reader: float = 0.4, entailed: float = 0.95) -> float:
    signals = Signals(
        entailed=entailed, quoted=reader, sufficient=reader, seconded=reader + 0.3 * (1 - reader), trusted=trusted
    )
    support = combine(signals, QuestionRun())
    assert support is not None
    return support


def test_a_claim_is_the_surer_the_more_its_writer_is_trusted_but_no_surer_than_what_follows_from_its_quote() -> None:
    supports = [claimed(trusted) for trusted in (0.01, 0.3, 0.68, 0.99)]
    assert supports == sorted(supports)
    assert supports[0] < 0.45 < 0.55 < supports[-1]
    assert claimed(0.99, entailed=0.2) == pytest.approx(0.2)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_the_reader_never_lowers_what_it_seconds_more(one: float, other: float, trusted: float) -> None:
    low, high = sorted((one, other))
    assert claimed(trusted, low) <= claimed(trusted, high) + 1e-12


def test_of_a_name_that_the_passage_lacks_two_who_agree_are_no_surer_than_one() -> None:
    shelf = Fixed(Passage("a", "The lamp of Vell was lit in 1871.", "Lamps"))
    lm = ScriptedLM(lambda request: "<reference>S1</reference><claim>It was lit in 1871.</claim>")
    supports = []
    for question in ("When was the lamp of Vell lit?", "When was the lamp of Orm lit?"):
        answer = engine_of(lm, 0.45, shelf).answer(question)
        supports.append(answer.claims[0].support or 0.0)
    assert supports[0] > supports[1]
    assert supports[1] <= 0.45


MEASURED = {
    "right": {"agrees": 0.4, "differs": 0.49, "declines": 0.1, "contradicts": 0.01},
    "wrong": {"agrees": 0.2, "differs": 0.49, "declines": 0.3, "contradicts": 0.01},
    "own": {"differs": 0.06, "contradicts": 0.06},
}


def measured(reply: str, reader: float, rates: Any = MEASURED) -> tuple[Answer, int]:
    """Ask a model whose replies were measured; how often it was asked is returned too."""
    lm = ScriptedLM(lambda request: reply)
    lm.reply_rates = rates  # type: ignore[attr-defined]
    answer = engine_of(lm, reader).answer(QUESTION)
    return answer, answer.usage.calls


def test_what_was_measured_of_a_model_counts_at_once_and_gives_way_to_what_it_does() -> None:
    known, unknown = ModelTrust(MEASURED), ModelTrust()
    assert known.posterior(0.45, "agrees") < 0.5 < unknown.posterior(0.45, "agrees")  # it is misled as the reader is
    assert known.posterior(0.6, "declines") < 0.4
    assert known.own_right("differs") < 0.2 < unknown.own_right("differs")
    for i in range(60):
        known.observe(0.95, "declines", str(i))  # on these documents it declines whatever is asked
    assert known.posterior(0.6, "declines") > 0.5
    assert known.own_right("differs") > 0.9  # what was measured elsewhere no longer counts
    assert pickle.loads(pickle.dumps(known)).posterior(0.6, "agrees") == known.posterior(0.6, "agrees")


def test_rates_of_four_digits_may_add_up_to_a_little_more() -> None:
    right = {"agrees": 0.3204, "differs": 0.5162, "declines": 0.0656, "contradicts": 0.0979}
    assert ModelTrust({**MEASURED, "right": right}).posterior(0.6, "declines") < 0.6
    with pytest.raises(CalibrationError, match="no rates"):
        ModelTrust({**MEASURED, "right": {**right, "agrees": 0.35}})


@pytest.mark.parametrize(
    "rates",
    [
        {"right": MEASURED["right"]},
        {**MEASURED, "wrong": {**MEASURED["right"], "agrees": 0.9}},
        {**MEASURED, "wrong": {"agrees": 1.0}},
        {**MEASURED, "own": {"differs": 6.0}},
    ],
)
def test_what_is_no_rate_is_refused(rates: Any) -> None:
    with pytest.raises(CalibrationError):
        ModelTrust(rates)


def test_a_model_is_not_asked_where_no_reply_of_it_could_lead_to_an_answer() -> None:
    agreeing = f"<reference>S1</reference><claim>{RIGHT}</claim>"
    answer, calls = measured(agreeing, 0.2)
    assert answer.abstained
    assert calls == 0
    assert answer.claims[0].support == pytest.approx(0.2)
    answer, calls = measured(agreeing, 0.6)  # here it could: a refusal would leave the quote out
    assert calls > 0
    assert answer.text.startswith(RIGHT)
    assert measured(agreeing, 0.2, rates=None)[1] > 0  # of a model that nobody measured nothing is foreseen
    assert measured(agreeing, 0.2, rates={**MEASURED, "own": {}})[1] > 0  # what it says itself may be right


def test_where_a_model_that_is_seldom_right_agrees_the_quote_is_shown_and_not_its_words() -> None:
    """Of "9 to 25 February 2018" it said "2018", of "more than 50 countries" "50 countries"."""
    clipped = "<reference>S1</reference><claim>In 1871.</claim>"
    assert measured(clipped, 0.7)[0].text.startswith(RIGHT)
    assert measured(clipped, 0.7, rates=None)[0].text.startswith("In 1871.")


def test_where_a_model_is_not_asked_the_answer_lists_as_many_passages() -> None:
    lm = ScriptedLM(lambda request: "I don't know.")
    lm.reply_rates = MEASURED  # type: ignore[attr-defined]
    shelf = Shelf([Passage(str(i), f"Lamp {i} was lit in {1870 + i}.") for i in range(8)])
    answer = engine_of(lm, 0.2, shelf, top_k=2).answer(QUESTION)
    assert answer.usage.calls == 0
    assert len(answer.passages) == 2


def test_a_measured_model_is_not_asked_again_where_the_quote_is_probable_enough() -> None:
    other = "<reference>S2</reference><claim>Its keeper was Ada Quill.</claim>"
    answer, once = measured(other, 0.7)
    assert answer.text.startswith(RIGHT)
    assert ("read again", "left out") in {(d.kind, d.outcome) for d in answer.trace}
    assert measured(other, 0.49)[1] > once  # here it may yet agree


def test_what_a_model_says_itself_is_as_probable_as_it_was_measured() -> None:
    answer, _ = measured("<reference>S2</reference><claim>Its keeper was Ada Quill.</claim>", 0.45)
    assert answer.abstained
    assert all((c.support or 0.0) < 0.5 for c in answer.claims)


def test_trust_tells_kinds_of_model_apart() -> None:
    competent, declining, contradicting = ModelTrust(), ModelTrust(), ModelTrust()
    for i in range(20):
        competent.observe(0.9, "agrees", f"a{i}")
        competent.observe(0.1, "declines", f"b{i}")
        declining.observe(0.9, "declines", f"a{i}")
        contradicting.observe(0.9, "contradicts", f"a{i}")
    assert competent.competent() > 0.9
    assert max(declining.competent(), contradicting.competent()) < 0.05


@pytest.mark.parametrize("p", [0.95, 0.8, 0.6])
def test_a_model_that_always_agrees_with_a_sure_reader_is_trusted_no_less(p: float) -> None:
    """After 25 right answers its words were no longer shown, and its right calculations were abstained from."""
    trust = ModelTrust()
    before, agreed = trust.competent(), trust.posterior(0.6, "agrees")
    for i in range(200):
        trust.observe(p, "agrees", str(i))
        assert trust.competent() > before
    assert trust.helps() > 0.65
    assert trust.posterior(0.6, "agrees") > agreed


def test_a_model_that_says_now_and_then_otherwise_is_trusted_where_all_has_an_answer() -> None:
    trust = ModelTrust()
    before = trust.competent()
    for i in range(100):
        trust.observe((0.95, 0.9, 0.85, 0.7)[i % 4], "differs" if i % 10 == 9 else "agrees", str(i))
    assert trust.competent() > before


def test_a_model_that_declines_where_nothing_answers_is_trusted_no_less() -> None:
    trust = ModelTrust()
    before = trust.competent()
    for i in range(40):
        trust.observe(0.05, "declines", str(i))
        assert trust.competent() > before


@pytest.mark.parametrize(("reply", "surprising"), [("agrees", 0.1), ("declines", 0.9)])
def test_a_model_that_says_the_same_also_where_it_should_not_loses_trust(reply: Reply, surprising: float) -> None:
    trust = ModelTrust()
    for i in range(40):
        trust.observe(surprising if i % 5 == 4 else 1.05 - surprising, reply, str(i))
    assert trust.competent() < 0.01
    assert trust.helps() < 0.05
    assert trust.posterior(0.7, "declines") == pytest.approx(0.7, abs=0.02)


def test_an_engine_goes_on_showing_the_words_of_a_model_that_is_always_right() -> None:
    lm = ScriptedLM(lambda request: "<reference>S1</reference><claim>1871 it was.</claim>")
    engine = engine_of(lm, 0.8)
    first = engine.answer(QUESTION)
    for i in range(30):
        engine.answer(f"{QUESTION} ({i})")
    answer = engine.answer(QUESTION)
    assert answer.text.startswith("1871 it was.")
    assert (answer.confidence or 0.0) >= (first.confidence or 1.0)


def test_a_model_that_agrees_as_often_where_the_reader_is_wrong_changes_nothing() -> None:
    """SmolLM2 and a small adapter were taken for better than that, and made composed worse than no model."""
    weak, small = ModelTrust(), ModelTrust()
    for i in range(60):
        p = 0.9 if i % 2 else 0.1
        weak.observe(p, "agrees" if i % 5 == 0 else "differs", str(i))
        small.observe(p, ("declines", "differs", "differs", "agrees", "declines")[i % 5], str(i))
    for trust in (weak, small):
        assert trust.helps() < 0.05
        assert trust.posterior(0.45, "agrees") == pytest.approx(0.45, abs=0.02)


def test_a_model_that_contradicts_its_own_quotes_takes_nothing_from_the_quote() -> None:
    trust = ModelTrust()
    assert trust.posterior(0.8, "contradicts") == pytest.approx(0.8, abs=0.05)


def test_where_both_say_the_same_but_only_the_quote_is_sure_enough_the_quote_is_shown() -> None:
    lm = ScriptedLM(lambda request: "<reference>S1</reference><claim>In 1871 it began to shine.</claim>")
    answer = engine_of(lm, 0.95, critic=Critic(0.3)).answer(QUESTION)
    assert answer.text.startswith(RIGHT)
    assert answer.metadata["answered_by"] == "embedded default"


@pytest.mark.parametrize(("before", "shown"), [(0, "1871 it was."), (12, RIGHT)])
def test_of_a_model_that_is_mostly_wrong_the_quote_is_shown_and_not_its_words(before: int, shown: str) -> None:
    told = ["declines"]

    def reply(request: Any) -> str:
        return "NO ANSWER" if told else "<reference>S1</reference><claim>1871 it was.</claim>"

    engine = engine_of(ScriptedLM(reply), 0.95)
    for i in range(before):
        engine.answer(f"{QUESTION} ({i})")
    told.clear()
    assert engine.answer(QUESTION).text.startswith(shown)


PASSAGES = tuple(Passage(f"p{i}", f"Lamp {i} was lit in 187{i}.", "Lamps") for i in range(6))


class Seen(FirstSentenceReader):
    """Remembers which passages it was given."""

    def __init__(self) -> None:
        super().__init__(0.9, 0.1, answerable=0.9)
        self.read_ids: list[set[str]] = []

    def _one(self, request: Any) -> Any:
        self.read_ids.append({p.id for p in request.passages})
        return super()._one(request)


def test_a_model_that_declines_leaves_the_quotes_of_all_passages_retrieved() -> None:
    lm = ScriptedLM(lambda request: "I don't know.")
    reader, alone = Seen(), Seen()
    settings = SelfReflectSettings(top_k=2, candidates=6)
    with_model = SelfReflectEngine(Shelf(PASSAGES), lm, settings, reader=reader, critic=Critic()).answer("Which lamp?")
    SelfReflectEngine(Shelf(PASSAGES), settings=settings, reader=alone).answer("Which lamp?")
    assert reader.read_ids[-1] == alone.read_ids[-1] == {p.id for p in PASSAGES}
    shown = {p.id for p in with_model.passages}
    assert all(s.passage_id in shown for c in with_model.claims for q in c.citations for s in q.spans)


GOOD = {
    "right": {"agrees": 0.85, "differs": 0.06, "declines": 0.07, "contradicts": 0.02},
    "wrong": {"agrees": 0.03, "differs": 0.2, "declines": 0.75, "contradicts": 0.02},
    "own": {"differs": 0.8, "contradicts": 0.8},
}


def test_a_good_model_that_was_measured_is_not_believed_less_for_answering_where_the_reader_fails() -> None:
    """Five right answers in a row that the reader had missed cost a strong model its trust."""
    trust = ModelTrust(GOOD, shift=1.5)
    before = trust.correct(0.4)
    for i in range(12):
        trust.observe(0.9, "differs", f"the reader is sure of something else {i}")
        trust.observe(0.1, "agrees", f"the reader is unsure {i}")
    assert trust.correct(0.4) == before > 0.6
    for i in range(12):
        trust.observe(0.9, "contradicts", f"it lies {i}")
    assert trust.correct(0.4) < 0.5
    unmeasured = ModelTrust()
    at_first = unmeasured.competent()
    for i in range(12):
        unmeasured.observe(0.9, "differs", str(i))
    assert unmeasured.competent() < at_first  # of an unknown model nobody knows which of the two is wrong


def test_who_reads_another_answer_from_the_readers_quote_says_that_the_quote_answers() -> None:
    """Of "Noise: DW450 47 dB, DW600 42 dB" the reader took one figure and the model the other, rightly."""
    shelf = Fixed(Passage("a", "Lit: north tower 1871, south tower 1902. Its keeper was Ada Quill.", "Lamps"))
    question = "When was the south tower lit?"
    same = "<reference>S1</reference><claim>In 1902.</claim>"
    answer = engine_of(ScriptedLM(lambda request: same), 0.7, shelf).answer(question)
    [compared] = [d for d in answer.trace if d.kind == "compare"]
    assert (compared.outcome, compared.values["same_quote"]) == ("the model differs", True)
    assert float(str(compared.values["given_reply"])) > 0.7
    assert "1902" in answer.text
    other = "<reference>S2</reference><claim>Its keeper was Ada Quill.</claim>"
    answer = engine_of(ScriptedLM(lambda request: other), 0.7, shelf).answer(question)
    [compared] = [d for d in answer.trace if d.kind == "compare"]
    assert compared.values["same_quote"] is False
    assert float(str(compared.values["given_reply"])) < 0.7


def test_a_claim_that_takes_a_fact_from_elsewhere_does_not_say_that_the_quote_alone_answers() -> None:
    """ "In version 3.5.2", of a heading, behind the line below it, which the reader would have shown alone."""
    shelf = Fixed(Passage("a", "Uploads failed after an hour. Fixed with 1871 others in release 3.5.2.", "Changes"))
    claim = "<reference>S1</reference><claim>It was fixed in release 3.5.2.</claim>"
    answer = engine_of(ScriptedLM(lambda request: claim), 0.7, shelf).answer("When were the uploads mended?")
    [compared] = [d for d in answer.trace if d.kind == "compare"]
    assert compared.values["same_quote"] is False
