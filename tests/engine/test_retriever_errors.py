"""A retriever's error is ours and stays of its own class, for those who retry on it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, get_args

import pytest

from shared_core import Passage, SelfReflectEngine, SelfReflectSettings
from shared_core.errors import PassageError, RetrievalError
from shared_core.lm.scripted import ScriptedLM
from shared_core.settings import PipelineName
from tests.fakes import FirstSentenceReader


class StoreDownError(ConnectionError):
    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"{host}:{port} is down")


class Failing:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        raise self.error


@pytest.mark.parametrize("error", [ConnectionError("reset"), TimeoutError("slow"), StoreDownError("store", 80)])
async def test_it_is_of_both_classes(error: Exception) -> None:
    engine = SelfReflectEngine(Failing(error))
    for caught in (RetrievalError, type(error)):
        with pytest.raises(caught, match="Retrieving passages for 'Who' failed") as found:
            engine.answer("Who")
    assert found.value.__cause__ is error
    with pytest.raises(type(error)):
        await engine.aanswer("Who")
    assert isinstance(pickle.loads(pickle.dumps(found.value)), RetrievalError)
    assert isinstance(engine.answer_many(["Who"])[0], type(error))


class Given:
    def __init__(self, *passages: Passage) -> None:
        self.passages = passages

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        return self.passages


PIER = Passage("a.txt", "The pier is long. It was built of oak.")
LAMP = Passage("a.txt", "The lamp was lit in 1871.")


@pytest.mark.parametrize("pipeline", get_args(PipelineName))
async def test_two_texts_of_one_id_are_refused_by_every_pipeline(pipeline: Any) -> None:
    lm = ScriptedLM(lambda request: "I do not know.")
    small = SelfReflectSettings(pipeline=pipeline, seakr={"samples": 2}, research={"samples": 2})
    engine = SelfReflectEngine(Given(PIER, LAMP), lm, small, reader=FirstSentenceReader())
    # An offset would point into either of them.
    with pytest.raises(PassageError, match=r"Two passages have the id 'a\.txt'"):
        engine.answer("When was the lamp lit?")
    with pytest.raises(PassageError):
        await engine.aanswer("When was the lamp lit?")


def test_a_passage_that_comes_twice_is_read_once() -> None:
    answer = SelfReflectEngine(Given(LAMP, LAMP), reader=FirstSentenceReader()).answer("When was the lamp lit?")
    assert answer.passages == (LAMP,)
    assert answer.text == "The lamp was lit in 1871. [1]"
