"""The embedded default reads twice as many passages as it keeps, and keeps their order if the settings say so."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.types import Passage
from tests.fakes import FirstSentenceReader, Shelf

LAMPS = tuple(Passage(f"lamp{i}", f"The lamp {i} was lit in 18{i}0. It burned.") for i in range(4))


class LastIsBest(FirstSentenceReader):
    """Prefers the passage that was found last."""

    def _one(self, request: Any) -> Any:
        result = super()._one(request)
        return dataclasses.replace(result, passage_scores=tuple(map(float, range(len(request.passages)))))


@pytest.mark.parametrize(("rerank", "kept"), [("none", ["lamp0", "lamp1"]), ("auto", ["lamp3", "lamp2"])])
def test_passages_are_ranked_by_reading_unless_that_is_turned_off(rerank: str, kept: list[str]) -> None:
    settings = SelfReflectSettings(top_k=2, rerank=rerank)
    answer = SelfReflectEngine(Shelf(LAMPS), reader=LastIsBest(0.9), settings=settings).answer("When was the lamp lit?")
    assert [p.id for p in answer.passages] == kept
    assert ("rerank" in [d.kind for d in answer.trace]) is (rerank == "auto")
