"""The engine: one question through every door gives one answer; it abstains with a reason and by the policy."""

from __future__ import annotations

import asyncio
import dataclasses
import pickle
from collections.abc import Sequence
from typing import Any, get_args

import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.documents import DocumentIndex
from shared_core.errors import (
    AbstainedError,
    EmptyReplyError,
    InputError,
    PassageError,
    QuestionError,
    RetrievalError,
    SettingsError,
)
from shared_core.lm.scripted import ScriptedLM
from shared_core.reading.base import Read, ReadResult
from shared_core.settings import PipelineName
from shared_core.types import Answer, Finished, Passage, TextDelta
from tests.fakes import PASSAGES, FirstSentenceReader, Fixed, Shelf, published

QUESTION = "When was the lamp lit?"


def engine(*probabilities: float | None, answerable: float | None = None, lm: Any = None, **settings: Any) -> Any:
    reader = FirstSentenceReader(*probabilities, answerable=answerable)
    return SelfReflectEngine(Shelf(), lm, published(**settings), reader=reader)


def test_an_answer_quotes_its_passage_at_offsets_that_hold() -> None:
    answer = engine(0.9).answer(QUESTION)
    assert not answer.abstained
    assert answer.text == "The lamp was lit in 1871. [1]"
    (claim,) = answer.kept_claims
    assert answer.text[claim.start : claim.end] == claim.text
    assert claim.short_answer == "1871"
    (span,) = answer.numbered_spans()
    assert answer.passage(span.passage_id).text[span.start : span.end] == span.text
    assert answer.confidence == 0.9
    assert answer.utility == pytest.approx((0.9 - 0.5) / 0.5)


def test_every_door_gives_the_same_answer() -> None:
    expected = engine(0.9).answer(QUESTION)
    assert asyncio.run(engine(0.9).aanswer(QUESTION)) == expected
    assert engine(0.9).answer_many([QUESTION]) == [expected]
    assert asyncio.run(engine(0.9).aanswer_many([QUESTION])) == [expected]
    assert list(engine(0.9).stream(QUESTION))[-1] == Finished(expected)


async def test_streams_are_equal_and_their_text_joins_up() -> None:
    events = list(engine(0.9).stream(QUESTION))
    assert [e async for e in engine(0.9).astream(QUESTION)] == events
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == finished.answer.text
    assert [e.kind for e in events][:2] == ["Decided", "Retrieved"]


def test_the_trace_names_every_decision() -> None:
    kinds = [d.kind for d in engine(0.9).answer(QUESTION).trace]
    assert kinds == ["retrieve", "read", "keep", "answer"]


@pytest.mark.parametrize(("question", "probability", "answerable", "reason"), [
    ("Who painted zebras?", 0.9, None, "nothing retrieved"), (QUESTION, 0.3, 0.9, "support below target"),
    (QUESTION, 0.3, 0.2, "passages do not answer"), (QUESTION, None, None, "support unknown"),
])  # fmt: skip
def test_it_abstains_and_says_why(
    question: str, probability: float | None, answerable: float | None, reason: str
) -> None:
    answer = engine(probability, answerable=answerable).answer(question)
    assert answer.abstained
    assert answer.reason == reason
    assert answer.utility == 0
    assert answer.kept_claims == ()
    assert answer.trace[-1].kind == "abstain"


def test_abstention_keeps_what_was_considered_and_how_near_it_was() -> None:
    answer = engine(0.3).answer(QUESTION)
    assert [c.status for c in answer.claims] == ["dropped"]
    assert answer.confidence == 0.3


def test_support_equal_to_the_target_is_not_enough() -> None:
    assert engine(0.7, target_accuracy=0.7).answer(QUESTION).abstained
    assert not engine(0.71, target_accuracy=0.7).answer(QUESTION).abstained


@pytest.mark.parametrize(("second", "settings", "status", "said"), [
    (0.8, {}, "kept", " The Marrow sailed under Captain Ila Venn. [2]"), (None, {}, "dropped", ""),
    (0.2, {"unsupported_claims": "flag"}, "flagged", " The Marrow sailed under Captain Ila Venn. [2] (unsupported)"),
])  # fmt: skip
def test_a_second_claim_is_numbered_dropped_or_flagged(
    second: float | None, settings: dict[str, Any], status: str, said: str
) -> None:
    answer = engine(0.9, second, **settings).answer("the lamp and the captain")
    assert [c.status for c in answer.claims] == ["kept", status]
    assert answer.text == f"The lamp was lit in 1871. [1]{said}"
    assert all(answer.text[c.start : c.end] == c.text for c in answer.kept_claims)


async def test_passages_without_text_take_nothing_from_an_answer() -> None:
    blank = [Passage(f"blank-{i}", text) for i, text in enumerate(("", " ", "\n", "\t\n"))]
    alone = SelfReflectEngine(Fixed(PASSAGES[0])).answer(QUESTION)
    assert not alone.abstained
    between = SelfReflectEngine(Fixed(*blank, PASSAGES[0]))
    assert between.answer(QUESTION).claims == alone.claims
    assert (await between.aanswer(QUESTION)).passages == alone.passages
    (many,) = between.answer_many([QUESTION])
    assert isinstance(many, Answer)
    assert many.confidence == alone.confidence
    assert "No passage" in SelfReflectEngine(Fixed(*blank)).answer(QUESTION).text


def test_the_same_sentence_in_two_passages_is_one_claim_with_two_places() -> None:
    twice = (PASSAGES[0], type(PASSAGES[0])("copy", PASSAGES[0].text))
    answer = SelfReflectEngine(Shelf(twice), reader=FirstSentenceReader(0.9)).answer(QUESTION)
    (claim,) = answer.claims
    assert claim.citations[0].ambiguous
    assert [s.passage_id for s in claim.citations[0].spans] == ["lamp", "copy"]


def test_policy_show_quotes_the_nearest_passages() -> None:
    assert "“The lamp was lit in 1871.” (lamps.md)" in engine(0.3, on_abstain="show").answer(QUESTION).text


def test_policy_raise_raises_with_the_answer() -> None:
    with pytest.raises(AbstainedError) as caught:
        engine(0.3, on_abstain="raise").answer(QUESTION)
    assert isinstance(caught.value.answer, Answer)
    assert caught.value.answer.abstained


def test_policy_fallback_marks_the_models_own_knowledge() -> None:
    answer = engine(0.3, on_abstain="fallback", lm=ScriptedLM(["NO ANSWER", "1871, I think."])).answer(QUESTION)
    assert answer.abstained
    assert "not from the documents, unverified: 1871, I think." in answer.text
    assert answer.usage.calls == 2


def test_policy_fallback_with_an_empty_reply_keeps_the_abstention() -> None:
    refused = EmptyReplyError("The model refused.")
    answer = engine(0.3, on_abstain="fallback", lm=ScriptedLM(["NO ANSWER", refused])).answer(QUESTION)
    assert answer.abstained
    assert "unverified" not in answer.text
    assert (answer.trace[-1].kind, answer.trace[-1].reason) == ("fallback", "The model refused.")


def test_one_bad_question_fails_alone() -> None:
    class Fragile(Shelf):
        def retrieve(self, query: str, k: int = 5) -> Any:
            if "burst" in query:
                raise OSError("pipe burst")
            return super().retrieve(query, k)

    reader = FirstSentenceReader(0.9)
    answers = SelfReflectEngine(Fragile(), reader=reader).answer_many([QUESTION, "burst", " ", QUESTION])
    assert isinstance(answers[1], RetrievalError)
    assert isinstance(answers[2], QuestionError)
    assert answers[0] == answers[3]
    assert reader.batches == [2]


@pytest.mark.parametrize("question", ["", "  \n", None, 3])
def test_an_empty_question_is_refused(question: Any) -> None:
    with pytest.raises(QuestionError):
        engine(0.9).answer(question)


def test_a_retriever_that_cannot_be_told_a_number_is_refused_when_the_engine_is_made() -> None:
    class OfLlamaIndex:
        def retrieve(self, str_or_query_bundle: Any) -> list[Any]:
            return []

    class Open:
        def retrieve(self, query: str, **options: Any) -> list[Passage]:
            return [PASSAGES[0]][: options["k"]]

    with pytest.raises(InputError, match="OfLlamaIndex is not a retriever") as caught:
        SelfReflectEngine(OfLlamaIndex())  # type: ignore[arg-type]
    assert "plugin of your framework" in caught.value.hint
    told: Any = Open()
    assert not SelfReflectEngine(told, reader=FirstSentenceReader(0.9)).answer(QUESTION).abstained


def test_an_index_in_place_of_its_retriever_is_refused_with_the_method_to_call() -> None:
    with pytest.raises(InputError, match="DocumentIndex is not a retriever") as caught:
        SelfReflectEngine(DocumentIndex(None))  # type: ignore[arg-type]
    assert "retriever()" in caught.value.hint


def test_wrong_parts_are_refused_when_the_engine_is_made() -> None:
    with pytest.raises(InputError, match="not a retriever"):
        SelfReflectEngine(object())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="language model backend"):
        SelfReflectEngine(Shelf(), "gpt")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="ScriptedLM"):
        SelfReflectEngine(Shelf(), ScriptedLM)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="settings"):
        SelfReflectEngine(Shelf(), settings="fast")  # type: ignore[arg-type]


@pytest.mark.parametrize("setting", [{"pipeline": "seakr"}, {"on_abstain": "fallback"}, {"rerank": "uncertainty"}])
def test_what_needs_a_model_is_refused_without_one_when_the_engine_is_made(setting: dict[str, Any]) -> None:
    (said,) = [f"{name}={value!r} needs a language model" for name, value in setting.items()]
    with pytest.raises(SettingsError, match=said):
        SelfReflectEngine(Shelf(), settings=SelfReflectSettings(**setting))


@pytest.mark.parametrize("name", ["reader", "judge", "critic", "embedder", "models", "calibrations"])
def test_a_part_that_is_none_is_named(name: str) -> None:
    wrong: dict[str, Any] = {name: 5}
    with pytest.raises(InputError, match=f"{name} cannot be of type int"):
        SelfReflectEngine(Shelf(), **wrong)


def test_a_filter_reaches_the_retriever() -> None:
    class Filtering(Shelf):
        def retrieve(self, query: str, k: int = 5, where: Any = None) -> Any:
            assert where == {"lang": "en"}
            return super().retrieve(query, k)

    made = SelfReflectEngine(
        Filtering(), settings=SelfReflectSettings(where={"lang": "en"}), reader=FirstSentenceReader(0.9)
    )
    assert not made.answer(QUESTION).abstained


def lettered(n: int) -> list[Passage]:
    return [Passage(f"p{i}", f"The lamp of {chr(97 + i)} was lit.") for i in range(n)]


class LastFirst(FirstSentenceReader):
    """The later the passage, the better."""

    def _one(self, request: Read) -> ReadResult:
        readings = super()._one(dataclasses.replace(request, limit=100)).readings
        turned = sorted((dataclasses.replace(r, score=-r.score) for r in readings), key=lambda r: -r.score)
        return ReadResult(tuple(turned[: request.limit]))


def test_without_a_model_twice_as_many_passages_are_read_and_the_best_are_kept() -> None:
    asker = SelfReflectEngine(Shelf(lettered(8)), None, SelfReflectSettings(top_k=3), reader=LastFirst(0.9))
    answer = asker.answer(QUESTION)
    assert [p.id for p in answer.passages] == ["p5", "p4", "p3"]
    assert {s.passage_id for c in answer.claims for cited in c.citations for s in cited.spans} <= {
        p.id for p in answer.passages
    }
    (decision,) = [d for d in answer.trace if d.kind == "rerank"]
    assert decision.outcome == "3 of 6 passages"


@pytest.mark.parametrize(("rerank", "kept"), [("none", ["p0", "p1"]), ("auto", ["p3", "p2"])])
def test_the_readers_scores_rank_passages_unless_that_is_turned_off(rerank: Any, kept: list[str]) -> None:
    class Scoring(FirstSentenceReader):
        def _one(self, request: Read) -> ReadResult:
            scores = tuple(map(float, range(len(request.passages))))
            return dataclasses.replace(super()._one(request), passage_scores=scores)

    settings = SelfReflectSettings(top_k=2, rerank=rerank)
    answer = SelfReflectEngine(Shelf(lettered(4)), settings=settings, reader=Scoring(0.9)).answer(QUESTION)
    assert [p.id for p in answer.passages] == kept
    assert ("rerank" in [d.kind for d in answer.trace]) is (rerank == "auto")


def test_quotes_come_from_the_passages_that_are_kept() -> None:
    settings = SelfReflectSettings(top_k=2, max_claims=5)
    asker = SelfReflectEngine(Shelf(lettered(8)), None, settings, reader=FirstSentenceReader())
    answer = asker.answer(QUESTION)
    assert [p.id for p in answer.passages] == ["p0", "p1"]
    assert [s.passage_id for c in answer.claims for cited in c.citations for s in cited.spans] == ["p0", "p1"]


def test_how_many_passages_are_read_can_be_chosen() -> None:
    settings = SelfReflectSettings(top_k=2, candidates=3)
    asker = SelfReflectEngine(Shelf(lettered(8)), None, settings, reader=LastFirst(0.9))
    assert [p.id for p in asker.answer(QUESTION).passages] == ["p2", "p1"]


# --- what a retriever does wrong ------------------------------------------------------------------------------------


class StoreDownError(ConnectionError):
    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"{host}:{port} is down")


class Failing:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        raise self.error


@pytest.mark.parametrize("error", [ConnectionError("reset"), TimeoutError("slow"), StoreDownError("store", 80)])
async def test_a_retrievers_error_is_ours_and_stays_of_its_own_class(error: Exception) -> None:
    engine = SelfReflectEngine(Failing(error))
    for caught in (RetrievalError, type(error)):
        with pytest.raises(caught, match="Retrieving passages for 'Who' failed") as found:
            engine.answer("Who")
    assert found.value.__cause__ is error
    if isinstance(error, (ConnectionError, TimeoutError)):
        assert "check" in found.value.hint
    with pytest.raises(type(error)):
        await engine.aanswer("Who")
    assert isinstance(pickle.loads(pickle.dumps(found.value)), RetrievalError)
    assert isinstance(engine.answer_many(["Who"])[0], type(error))


async def test_a_retriever_that_returns_none_is_reported_in_words() -> None:
    class Forgetful(Fixed):
        def retrieve(self, query: str, k: int = 5) -> Any:
            super().retrieve(query, k)

    engine = SelfReflectEngine(Forgetful())
    assert all("returned None" in str(error) for error in engine.answer_many(["Who", "When"]))
    with pytest.raises(RetrievalError, match="returned None") as found:
        await engine.aanswer("Who")
    assert "missing return" in found.value.hint


PIER = Passage("a.txt", "The pier is long. It was built of oak.")
LAMP = Passage("a.txt", "The lamp was lit in 1871.")


@pytest.mark.parametrize("pipeline", get_args(PipelineName))
async def test_two_texts_of_one_id_are_refused_by_every_pipeline(pipeline: Any) -> None:
    lm = ScriptedLM(lambda request: "I do not know.")
    small = SelfReflectSettings(pipeline=pipeline, seakr={"samples": 2}, research={"samples": 2})
    engine = SelfReflectEngine(Fixed(PIER, LAMP), lm, small, reader=FirstSentenceReader())
    # An offset would point into either of them.
    with pytest.raises(PassageError, match=r"Two passages have the id 'a\.txt'"):
        engine.answer("When was the lamp lit?")
    with pytest.raises(PassageError):
        await engine.aanswer("When was the lamp lit?")


def test_a_passage_that_comes_twice_is_read_once() -> None:
    answer = SelfReflectEngine(Fixed(LAMP, LAMP), reader=FirstSentenceReader()).answer("When was the lamp lit?")
    assert answer.passages == (LAMP,)
    assert answer.text == "The lamp was lit in 1871. [1]"
