"""Many questions of one call: which inputs ask one, on whose behalf, and where each answer belongs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from langchain_selfreflect._caller import Caller, tagged
from langchain_selfreflect._question import ChainInput, find_asked
from shared_core.conversation.turns import Asked
from shared_core.errors import QuestionError
from shared_core.runtime.flow import Flow
from shared_core.types import Answer


@dataclass(slots=True)
class Batch:
    """Inputs of a batch.

    Attributes:
        results: an error in the place of each input that asks nothing, ``None`` for the others.
        places: of each question, its input's place.
        asked: what each of them asks.
        callers: of each of them, the run on whose behalf it is asked.
    """

    results: list[Answer | Exception | None]
    places: list[int] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    callers: list[Caller] = field(default_factory=list)

    @classmethod
    def of(cls, inputs: Sequence[ChainInput], callers: Sequence[Caller], input_key: str) -> Batch:
        """Read the inputs."""
        batch = cls([None] * len(inputs))
        for i, (given, caller) in enumerate(zip(inputs, callers, strict=True)):
            try:
                asked = find_asked(given, input_key)
            except QuestionError as error:
                batch.results[i] = error
                continue
            batch.places.append(i)
            batch.asked.append(asked)
            batch.callers.append(replace(caller, history=asked.history))
        return batch

    def tag(self, i: int, flow: Flow[Answer]) -> Flow[Answer]:
        """Mark every request of a question's flow with its caller."""
        return tagged(flow, self.callers[i])

    def put_in_place(self, answers: Sequence[Answer | Exception]) -> list[Answer | Exception]:
        """One result for each input, in order."""
        for i, asked, answer in zip(self.places, self.asked, answers, strict=True):
            self.results[i] = asked.tell(answer) if isinstance(answer, Answer) else answer
        return [r for r in self.results if r is not None]
