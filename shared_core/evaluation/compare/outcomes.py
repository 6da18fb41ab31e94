"""One question asked of one configuration, and the figures of many such rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from shared_core.abstention import penalty
from shared_core.errors import AbstainedError
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.judging import Record, judge
from shared_core.evaluation.runner import Figure, average, figures_of
from shared_core.types import Answer, Usage

Measure = Callable[[Question, Answer], float | None]
"""Custom figure of one answer; ``None`` if undefined. Reports give its mean."""


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One question asked of one configuration.

    Attributes:
        position: position of the question in its file, from 0.
        retrieved: whether passages were read; ``None`` if the question failed.
        usage: calls and tokens; ``None`` if the question failed.
        measures: custom figures.
    """

    configuration: str
    position: int
    record: Record
    text: str = ""
    retrieved: bool | None = None
    usage: Usage | None = None
    measures: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """Configuration and question id."""
        return self.configuration, self.record.id

    def is_of(self, question: Question | Record) -> bool:
        """Return whether this question, with these answers, was the one asked."""
        asked = (self.record.question, self.record.answers, self.record.answerable)
        return asked == (question.question, question.answers, question.answerable)

    def utility(self, target_accuracy: float) -> float | None:
        """Return 1 if right, -λ = -ρ*/(1-ρ*) if wrong, 0 if nothing was shown; ``None`` if it cannot be judged.

        Source: Piché et al., equation 1, with the answer as one claim.
        """
        if self.record.correct is None:
            return None
        if self.record.abstained or self.record.error:
            return 0.0
        return 1.0 if self.record.correct else -_penalty(target_accuracy)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values that JSON can hold."""
        measures = {k: v if v is None or math.isfinite(v) else None for k, v in self.measures.items()}
        return {**asdict(self), "measures": measures}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ComparisonRow:
        """Build a row from ``to_dict``'s output; KeyError, TypeError or ValueError for anything else."""
        known = {f.name for f in dataclasses.fields(Record)}
        record = {k: v for k, v in data["record"].items() if k in known}
        usage = data.get("usage")
        return cls(
            data["configuration"],
            int(data["position"]),
            Record(**{**record, "answers": tuple(record["answers"])}),
            data.get("text", ""),
            data.get("retrieved"),
            None if usage is None else Usage(**usage),
            dict(data.get("measures") or {}),
        )


_penalty = cache(penalty)  # exact arithmetic is slow, and a bootstrap calls it a million times


def row_of(
    configuration: str,
    position: int,
    question: Question,
    answer: Answer | Exception,
    seconds: float,
    measures: Mapping[str, Measure],
) -> ComparisonRow:
    """Judge one answer (``judge``), or record the error in its place."""
    record = judge(question, answer, seconds)
    if isinstance(answer, AbstainedError):
        answer = answer.answer
    if not isinstance(answer, Answer):
        return ComparisonRow(configuration, position, record)
    found = {name: measure(question, answer) for name, measure in measures.items()}
    return ComparisonRow(configuration, position, record, answer.text, bool(answer.passages), answer.usage, found)


def figures(rows: Sequence[ComparisonRow], targets: Sequence[float]) -> dict[str, Figure]:
    """Compute all figures of one configuration's rows: those of ``metrics``, and what answers were worth and cost.

    ``utility_R`` is the mean of ``ComparisonRow.utility`` at ρ* = R, ``retrieved`` the share of questions for which
    passages were read. ``calls``, ``prompt_tokens`` and ``generated_tokens`` are those of language models, per question
    that did not fail. The means of the measures follow.
    """
    paid = [row.usage for row in rows if row.usage is not None]
    measures = {name for row in rows for name in row.measures}
    return {
        **figures_of([row.record for row in rows], targets),
        **{f"utility_{rho:g}": average([row.utility(rho) for row in rows]) for rho in targets},
        "retrieved": average([row.retrieved for row in rows]),
        "calls": average([usage.calls for usage in paid]),
        "prompt_tokens": average([usage.prompt_tokens for usage in paid]),
        "generated_tokens": average([usage.generated_tokens for usage in paid]),
        **{name: average([row.measures.get(name) for row in rows]) for name in sorted(measures)},
    }
