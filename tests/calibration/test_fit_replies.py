"""Measuring how far a model's replies can be trusted: fitted, written, read, applied, bound to the model."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_selfreflect import SelfReflectChain
from llamaindex_selfreflect import SelfReflectQueryEngine
from shared_core.calibration import FittedReplies
from shared_core.calibration import io as calibration_io
from shared_core.calibration.replies import REPLIES
from shared_core.errors import CalibrationError, CalibrationInputError, InputError, ResponseError
from shared_core.evaluation.dataset import Question, read_questions
from shared_core.evaluation.fitting import built_in_questions, fit, measure_replies
from shared_core.evaluation.fitting.replies import BUILT_IN_QUESTIONS, Reaction, fit_rates, fit_shift
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.decision.trust import ModelTrust
from shared_core.settings import SelfReflectSettings
from shared_core.types import Passage
from tests.command import selfreflect
from tests.fakes import Critic, FirstSentenceReader
from tests.lamps import QUESTIONS, LampCritic, Lamps

RATES = {"right": dict.fromkeys(REPLIES, 0.25), "wrong": dict.fromkeys(REPLIES, 0.25)}


def competent(request: Any) -> str:
    """Quotes when a lamp was lit, and declines what no passage says."""
    text = request.prompt.text
    if "sold" in text:
        return "NO ANSWER"
    return "<reference>S1</reference><claim>It was in " + text.split(" lit in ")[-1][:4] + ".</claim>"


def lying(request: Any) -> str:
    """Always claims what no lamp's passage says, in words that no rule refutes."""
    return "<reference>S1</reference><claim>It was in the reign of Ormund.</claim>"


def engine(reply: Any, critic: Any = None, name: str = "demo", **options: Any) -> SelfReflectEngine:
    settings = SelfReflectSettings(**options)
    lm = ScriptedLM(reply, name=name)
    return SelfReflectEngine(Lamps(), lm, settings, reader=FirstSentenceReader(0.6), critic=critic or LampCritic())


def test_a_model_that_is_right_is_believed_the_more_and_one_that_lies_the_less(tmp_path: Any) -> None:
    good, bad = (fit("replies", engine(reply), QUESTIONS).calibration for reply in (competent, lying))
    assert isinstance(good, FittedReplies)
    assert isinstance(bad, FittedReplies)
    assert (good.n, good.positives, good.claims, good.claims_right) == (60, 40, 40, 40)
    assert bad.claims == 60
    assert bad.claims_right == 0
    assert good.shift > 1 > -1 > bad.shift
    assert good.rates["right"]["agrees"] > 0.8
    assert good.rates["wrong"]["declines"] > 0.8


def test_it_is_written_read_and_shows_what_the_critic_alone_held_back(tmp_path: Any) -> None:
    file = tmp_path / "replies.json"
    calibration_io.save(file, {"replies": fit("replies", engine(competent), QUESTIONS).calibration})
    doubtful = Critic(0.35)  # a true paraphrase that the critic does not recognise
    before = engine(competent, doubtful).answer(QUESTIONS[1].question)
    after = engine(competent, doubtful, calibration=str(file)).answer(QUESTIONS[1].question)
    [low], [high] = ([c.support or 0.0 for c in a.claims if "It was in" in c.text] for a in (before, after))
    assert low <= 0.35 < 0.5 < high
    assert not after.calibrated  # fitted on other documents
    rules = [d.outcome for d in after.trace if d.kind == "confidence"]
    assert rules == ["models in general, corrected for this one"]


def test_it_holds_for_the_model_and_pipeline_it_was_measured_with(tmp_path: Any) -> None:
    file = tmp_path / "replies.json"
    calibration_io.save(file, {"replies": fit("replies", engine(competent), QUESTIONS).calibration})
    for other in ({"name": "another"}, {"pipeline": "reclaim"}):
        with pytest.raises(CalibrationError, match="The measurement of replies was fitted for"):
            engine(competent, calibration=str(file), **other)
    without = SelfReflectEngine(Lamps(), settings=SelfReflectSettings(calibration=str(file)))
    assert without.context.replies is None  # nothing to be trusted


def test_where_it_now_contradicts_its_quotes_it_is_believed_no_longer() -> None:
    trust = ModelTrust({"right": {**RATES["right"]}, "wrong": {**RATES["wrong"]}}, shift=2.0)
    assert trust.correct(0.3) > 0.6
    rates = {"agrees": 0.85, "differs": 0.05, "declines": 0.05, "contradicts": 0.05}
    trust = ModelTrust({"right": rates, "wrong": {**rates, "agrees": 0.05, "declines": 0.85}}, shift=2.0)
    assert trust.correct(0.3) > 0.6
    for i in range(40):
        trust.observe(0.9 if i % 2 else 0.1, "contradicts", str(i))
    assert trust.correct(0.3) < 0.4


@given(st.lists(st.tuples(st.floats(0.01, 0.99), st.booleans()), min_size=1, max_size=40), st.floats(0, 1))
def test_a_correction_is_a_probability_and_grows_with_what_was_right(rows: list[tuple[float, bool]], p: float) -> None:
    reactions = [Reaction(0.5, "agrees", True, right, own) for own, right in rows]
    better = [Reaction(0.5, "agrees", True, True, own) for own, _ in rows]
    shift, most = fit_shift(reactions), fit_shift(better)
    assert -4 <= shift <= most + 1e-9 <= 4
    assert 0 <= ModelTrust(RATES, shift).correct(p) <= 1


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from(REPLIES), st.booleans()), max_size=40))
def test_rates_are_distributions_whatever_was_replied(rows: list[Any]) -> None:
    rates = fit_rates([Reaction(*row) for row in rows])
    for given_ in ("right", "wrong"):
        assert sum(rates[given_].values()) == pytest.approx(1)
        assert all(0 < p < 1 for p in rates[given_].values())
    assert FittedReplies(rates).rates == rates


def test_a_model_that_always_fails_is_named_as_the_cause() -> None:
    def broken(request: Any) -> str:
        raise ResponseError("The reply cannot be read.", hint="Ask another model.")

    with pytest.raises(CalibrationError, match=r"Every question failed.*cannot be read"):
        fit("replies", engine(broken), QUESTIONS)


def test_too_few_quotes_of_one_kind_are_refused() -> None:
    answered = [q for q in QUESTIONS if q.answers]
    with pytest.raises(CalibrationInputError, match="too few of one kind"):
        fit("replies", engine(competent), answered)


@pytest.mark.parametrize(
    ("options", "match"), [({"compete": False}, "not compared"), ({"signals": "support_only"}, "not compared")]
)
def test_settings_under_which_nothing_is_compared_are_refused(options: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        fit("replies", engine(competent, **options), QUESTIONS)
    with pytest.raises(InputError, match="needs a language model"):
        fit("replies", SelfReflectEngine(Lamps(), reader=FirstSentenceReader()), QUESTIONS)


@pytest.mark.parametrize("change", [{"shift": float("nan")}, {"n": -1}, {"version": 2}, {"rates": {}}, {"unknown": 1}])
def test_a_damaged_file_is_refused(change: Any, tmp_path: Any) -> None:
    file = tmp_path / "replies.json"
    calibration_io.save(file, {"replies": FittedReplies(RATES)})
    content = json.loads(file.read_text())
    content["calibrations"]["replies"] |= change
    file.write_text(json.dumps(content))
    with pytest.raises(CalibrationError):
        calibration_io.load(file)


def test_the_built_in_questions_are_about_the_built_in_documents() -> None:
    with built_in_questions() as (retriever, questions):
        texts = "\n".join(
            p.text for q in questions if q.answers for p in retriever.retrieve(q.question, k=8)
        ).casefold()
    answerable = [q for q in questions if q.answers]
    assert (len(questions), len(answerable)) == (96, 65)
    assert len({q.question for q in questions}) == 96
    held = [any(gold.casefold() in texts for gold in q.answers or ()) for q in answerable]
    assert sum(held) >= 62  # a sum or a spelling may be in no passage as it is written


def test_frameworks_objects_are_measured_as_they_are(tmp_path: Any) -> None:
    shelf = [Passage("lamp", "The lamp was lit in 1871.")]

    class Retriever:
        def retrieve(self, query: str, k: int = 5) -> list[Passage]:
            return shelf

    lm = ScriptedLM(lambda request: "NO ANSWER")
    file = tmp_path / "c.json"
    kept = {"reader": AnswerReader()}
    plain = SelfReflectSettings(rerank="none")  # the critic would rate all passages of all questions
    chain = SelfReflectChain(retriever=Retriever(), llm=lm, settings=plain, **kept)
    asked = measure_replies(chain, file)
    assert asked.calibration == calibration_io.load(file)["replies"]
    assert asked.usage.calls >= 96
    settings = SelfReflectSettings(rerank="none", calibration=str(file))
    query_engine = SelfReflectQueryEngine(Retriever(), llm=lm, settings=settings, **kept)
    assert query_engine.engine.context.replies == asked.calibration


class AnswerReader(FirstSentenceReader):
    """Sure of what holds an accepted answer; of the built-in questions it gets half."""

    def __init__(self) -> None:
        super().__init__(0.7)
        self.questions = {q.question: q for q in read_questions(BUILT_IN_QUESTIONS)}

    def _one(self, request: Any) -> Any:
        from shared_core.reading.base import Reading, ReadResult

        asked = self.questions.get(request.question, Question("", request.question))
        for passage in request.passages:
            for gold in asked.answers or ():
                if (at := passage.text.find(gold)) >= 0:
                    return ReadResult((Reading(passage.span(at, at + len(gold)), 0.7, 0.0, None),), 0.7)
        passage = request.passages[0]
        return ReadResult((Reading(passage.span(0, min(30, len(passage.text))), 0.4, 0.0, None),), 0.4)


def test_the_command_needs_a_model_and_no_documents(tmp_path: Any) -> None:
    missing = selfreflect("calibrate", "replies", "-o", tmp_path / "c.json")
    assert missing.exit_code == 2
    assert "needs a language model" in missing.output
    which = selfreflect("calibrate", "replies", "--model", "lab", "--docs", "examples/demo_docs")
    assert which.exit_code == 2
    assert "Which questions" in which.output
