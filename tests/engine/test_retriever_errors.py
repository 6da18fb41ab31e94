"""A retriever's error is ours and stays of its own class, for those who retry on it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest

from shared_core import Passage, SelfReflectEngine
from shared_core.errors import RetrievalError


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
