"""Two-hop questions for SeaKR's tests: passages, a library of them, and a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shared_core import SelfReflectEngine
from shared_core.types import Answer, Passage
from tests.fakes import Critic, FirstSentenceReader, Fixed
from tests.pipelines.scripts import SURE, UNSURE, made

QUESTION = "Where was the builder of the Velmora bridge born?"
PASSAGES = [
    Passage("bridge", "The Velmora bridge was built by Mira Dorn."),
    Passage("ferry", "The Velmora ferry was run by Otto Hain."),
    Passage("dorn", "Mira Dorn was born in Orm. Ormond is elsewhere."),
    Passage("town", "Velmora is a town."),
]
BUILT, BORN = "The Velmora bridge was built by Mira Dorn. ", "Mira Dorn was born in Orm. "
SAID = "So the answer is Orm. "


class Library(Fixed):
    """Gives the same passages for every query."""

    def __init__(self, passages: Sequence[Passage] = PASSAGES) -> None:
        super().__init__(*passages)


Script = Callable[[str], Any]


def engine(lm: Any, library: Library | None = None, **more: Any) -> SelfReflectEngine:
    calibrations, critic = more.pop("calibrations", None), more.pop("critic", 0.9)
    reader = FirstSentenceReader(0.9)
    parts: dict[str, Any] = {"calibrations": calibrations, "reader": reader, "critic": Critic(critic)}
    settings = made(**more).replace(compete=False)  # the default's quotes would be searched for beside SeaKR's queries
    return SelfReflectEngine(library or Library(), lm, settings, **parts)


def kinds(answer: Answer) -> list[str]:
    return [d.kind for d in answer.trace]


def after_answer(body: str) -> str:
    return body.split("\nAnswer:")[1]


def two_hops(body: str) -> tuple[str, float]:
    """Knows nothing by itself; each hop is surest with the passage that tells of it."""
    steps = after_answer(body)
    if steps.endswith("So the answer is"):
        return " Orm.\n", 1.0
    if not steps and "Context" in body and "Mira Dorn was born" in body and "built by" in body:
        return " The Velmora bridge was built by Mira Dorn. Mira Dorn was born in Orm. So the answer is Orm.\n", 0.5
    if "Mira Dorn was born" in steps:
        return SAID, SURE
    if "built by Mira Dorn" in steps:
        return BORN, SURE if "Mira Dorn was born" in body.split("Answer in the same")[0] else UNSURE
    return BUILT, SURE if "built by Mira" in body else UNSURE
