"""One question asked of one configuration: what is kept of it, and the figures of many."""

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
from shared_core.evaluation.runner import TARGETS, Record, judge, metrics
from shared_core.types import Answer, Usage

Measure = Callable[[Question, Answer], float | None]
"""A figure of one's own, of one answer; ``None`` where it has none. Its mean is given."""


@dataclass(frozen=True, slots=True)
class Row:
    """How one question went with one configuration.

    Attributes:
        configuration: its name.
        position: of the question in its file, from 0.
        record: how it was judged.
        text: of the answer; of an abstention, what was said instead.
        retrieved: whether passages were read; ``None`` if the question failed.
        usage: what it cost; ``None`` if the question failed.
        measures: figures of one's own.
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
        """(configuration, id of the question)."""
        return self.configuration, self.record.id

    def is_of(self, question: Question) -> bool:
        """Whether that is the question that was asked, with the answers it was judged by."""
        asked = (self.record.question, self.record.answers, self.record.answerable)
        return asked == (question.question, question.answers, question.answerable)

    def utility(self, target_accuracy: float) -> float | None:
        """What it was worth: 1 if right, -λ = -ρ*/(1-ρ*) if wrong, 0 if nothing was shown; ``None`` if not judgeable.

        Source: Piché et al., equation 1, with the answer as one claim.
        """
        if self.record.correct is None:
            return None
        if self.record.abstained or self.record.error:
            return 0.0
        return 1.0 if self.record.correct else -_penalty(target_accuracy)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        measures = {k: v if v is None or math.isfinite(v) else None for k, v in self.measures.items()}
        return {**asdict(self), "measures": measures}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Row:
        """The reverse of ``to_dict``. Raises KeyError, TypeError or ValueError for something else."""
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


_penalty = cache(penalty)  # exact arithmetic is slow, and a bootstrap asks a million times


def row_of(
    configuration: str,
    position: int,
    question: Question,
    answer: Answer | Exception,
    seconds: float,
    measures: Mapping[str, Measure],
) -> Row:
    """Judge one answer (``judge``), or note the error that there is in its place."""
    record = judge(question, answer, seconds)
    if isinstance(answer, AbstainedError):
        answer = answer.answer
    if not isinstance(answer, Answer):
        return Row(configuration, position, record)
    found = {name: measure(question, answer) for name, measure in measures.items()}
    return Row(configuration, position, record, answer.text, bool(answer.passages), answer.usage, found)


def figures(rows: Sequence[Row], targets: Sequence[float] = TARGETS) -> dict[str, float]:
    """All figures of some rows of one configuration: those of ``metrics``, and what an answer was worth and cost.

    ``utility_R``: mean of ``Row.utility`` at ρ* = R. ``retrieved``: share of the questions for which passages were
    read. ``calls``, ``prompt_tokens``, ``generated_tokens``: of language models, per question that did not fail. Then
    the means of the measures. NaN where a figure is not defined.
    """
    paid = [row.usage for row in rows if row.usage is not None]
    measures = {name for row in rows for name in row.measures}
    return {
        **metrics([row.record for row in rows], targets),
        **{f"utility_{rho:g}": _mean([row.utility(rho) for row in rows]) for rho in targets},
        "retrieved": _mean([row.retrieved for row in rows]),
        "calls": _mean([usage.calls for usage in paid]),
        "prompt_tokens": _mean([usage.prompt_tokens for usage in paid]),
        "generated_tokens": _mean([usage.generated_tokens for usage in paid]),
        **{name: _mean([row.measures.get(name) for row in rows]) for name in sorted(measures)},
    }


def over(rows: Sequence[Row], figure: str) -> int | None:
    """How many questions a figure is over; ``None`` for a figure that is not known here."""
    kind, _, bar = figure.rpartition("_")
    if kind == "kept_accuracy":
        return _count(rows, lambda row: _ranked(row) and not row.record.abstained and _above(row, float(bar)))
    if kind == "utility":
        return _count(rows, _judged)
    if kind == "coverage":
        return len(rows)
    if figure in _OVER:
        return _count(rows, _OVER[figure])
    measured = [row for row in rows if figure in row.measures]
    return _count(measured, lambda row: row.measures[figure] is not None) if measured else None


def _mean(values: Sequence[float | bool | None]) -> float:
    numbers = [float(v) for v in values if v is not None]
    return math.fsum(numbers) / len(numbers) if numbers else math.nan


def _count(rows: Sequence[Row], wanted: Callable[[Row], bool]) -> int:
    return sum(map(wanted, rows))


def _judged(row: Row) -> bool:
    return row.record.correct is not None


def _above(row: Row, bar: float) -> bool:
    return row.record.confidence is not None and row.record.confidence > bar


def _all(row: Row) -> bool:
    return True


def _answerable(row: Row) -> bool:
    return _judged(row) and bool(row.record.answerable)


def _ranked(row: Row) -> bool:
    return _judged(row) and not row.record.error


def _sorted_out(row: Row) -> bool:
    return row.record.answerable is not None and not row.record.error


def _paid(row: Row) -> bool:
    return row.usage is not None


_OVER: dict[str, Callable[[Row], bool]] = {
    "questions": _all, "errors": _all, "coverage": _all, "claims_per_answer": _all, "seconds_per_question": _all,
    "exact_match": _judged, "f1": _judged,
    "exact_match_answerable": _answerable, "f1_answerable": _answerable, "first_quote": _answerable,
    "accuracy": lambda row: _ranked(row) and not row.record.abstained,
    "recall": lambda row: row.record.recall is not None,
    "offsets_exact": lambda row: row.record.offsets_exact is not None,
    "auroc_correct": _ranked, "ece": _ranked, "brier": _ranked, "aurc": _ranked, "prr": _ranked,
    "auroc_answerable": _sorted_out,
    "abstention_precision": lambda row: _sorted_out(row) and row.record.abstained,
    "abstention_recall": lambda row: _sorted_out(row) and not row.record.answerable,
    "retrieved": lambda row: row.retrieved is not None,
    "calls": _paid, "prompt_tokens": _paid, "generated_tokens": _paid,
}  # fmt: skip
"""Which questions each figure is over, as ``metrics`` and ``figures`` say."""
