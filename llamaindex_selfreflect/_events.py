"""Events for LlamaIndex's instrumentation: every decision as it is made, and every answer."""

from __future__ import annotations

from typing import Any

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events import BaseEvent

from shared_core.types import Answer, Decision

dispatcher = get_dispatcher("llamaindex_selfreflect")


class SelfReflectDecisionEvent(BaseEvent):
    """A decision on the way to an answer, as in ``Answer.trace``.

    >>> from shared_core import Decision
    >>> SelfReflectDecisionEvent.of(Decision("keep", "1 of 2 claims")).outcome
    '1 of 2 claims'
    """

    kind: str
    outcome: str
    reason: str
    values: dict[str, Any]

    @classmethod
    def class_name(cls) -> str:
        """The event's name."""
        return "SelfReflectDecisionEvent"

    @classmethod
    def of(cls, decision: Decision) -> SelfReflectDecisionEvent:
        """The event that tells of ``decision``."""
        return cls(kind=decision.kind, outcome=decision.outcome, reason=decision.reason, values=dict(decision.values))


class SelfReflectAnswerEvent(BaseEvent):
    """An answer or an abstention.

    >>> from shared_core import Answer
    >>> SelfReflectAnswerEvent.of(Answer("When?", "In 1871.", confidence=0.9)).confidence
    0.9
    """

    question: str
    abstained: bool
    reason: str
    confidence: float | None
    utility: float

    @classmethod
    def class_name(cls) -> str:
        """The event's name."""
        return "SelfReflectAnswerEvent"

    @classmethod
    def of(cls, answer: Answer) -> SelfReflectAnswerEvent:
        """The event that tells of ``answer``."""
        return cls(
            question=answer.question,
            abstained=answer.abstained,
            reason=answer.reason,
            confidence=answer.confidence,
            utility=answer.utility,
        )
