"""Running an engine over questions and judging what it says."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from shared_core.errors import AbstainedError, InputError, SettingsError
from shared_core.evaluation import confidence as ranking
from shared_core.evaluation.answers import contains_answer, exact_match, f1
from shared_core.evaluation.dataset import Question
from shared_core.files import replace_file
from shared_core.types import Answer, Claim

TARGETS = (0.5, 0.7, 0.8, 0.9)
Progress = Callable[[int, int], None]
"""``progress(done, total)`` after every batch."""


class AnswersMany(Protocol):
    """What is evaluated: a ``SelfReflectEngine``, or anything that answers a batch in its way."""

    def answer_many(self, questions: Sequence[str], /) -> Sequence[Answer | Exception]:
        """An ``Answer``, or the error, for each question, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Record:
    """How one question went.

    Attributes:
        id, question, answers, answerable: from the file.
        prediction: the short answer (the claim's words where no shorter is known), of the kept claims; ``""`` for an
            abstention.
        quote: the first quote of the best claim, kept or dropped: what would have been said without a target.
        abstained, reason: as the engine decided.
        confidence: of the answer, else the support of its best claim; ``None`` if unknown.
        em, f1: of ``prediction`` ("" is right exactly where there is no answer); ``None`` if not judgeable.
        correct: ``quote`` holds a gold answer (never for a question without one); ``None`` if not judgeable.
        recall: share of the gold passages (``passage_id`` or ``passage_ids`` of the row) that were read.
        offsets_exact: every cited span is what stands at its place in its passage; ``None`` without citations.
        claims: kept claims.
        error: what went wrong instead; empty otherwise.
        seconds: its share of the time its batch took.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    answerable: bool | None
    prediction: str = ""
    quote: str = ""
    abstained: bool = False
    reason: str = ""
    confidence: float | None = None
    em: float | None = None
    f1: float | None = None
    correct: bool | None = None
    recall: float | None = None
    offsets_exact: bool | None = None
    claims: int = 0
    error: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Evaluation:
    """Records and metrics of a run.

    Attributes:
        metrics: figure → number; NaN where it is not defined for these questions (no gold answers, one class, …).
        records: one for each question, in order.
    """

    metrics: Mapping[str, float]
    records: tuple[Record, ...] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; NaN becomes ``None``."""
        metrics = {k: (v if math.isfinite(v) else None) for k, v in self.metrics.items()}
        return {"metrics": metrics, "records": [asdict(r) for r in self.records]}

    def write(self, path: str | Path) -> Path:
        """Write metrics and records as JSON, whole or not at all. InputError if the file cannot be written."""
        path = Path(path)
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=2, allow_nan=False)
        try:
            with replace_file(path) as file:
                file.write(text + "\n")
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror or error}.") from error
        return path

    def judgements(self) -> tuple[list[float], list[float]]:
        """(confidences, correctness) of the questions that were answered without error and can be judged."""
        rows = [r for r in self.records if r.correct is not None and not r.error]
        return [_known(r.confidence) for r in rows], [float(bool(r.correct)) for r in rows]

    def plot(self, folder: str | Path) -> list[Path]:
        """Draw risk-coverage, reliability and accuracy/coverage plots into a folder; none if nothing can be judged."""
        from shared_core.evaluation import plots

        sure, right = self.judgements()
        if not right:
            return []
        folder = Path(folder)
        return [
            plots.risk_coverage(sure, right, folder / "risk_coverage.png"),
            plots.reliability(sure, right, folder / "reliability.png"),
            plots.target_accuracy(sure, right, folder / "target_accuracy.png"),
        ]


def evaluate(
    engine: AnswersMany,
    questions: Sequence[Question],
    *,
    batch_size: int = 16,
    targets: Sequence[float] = TARGETS,
    progress: Progress | None = None,
) -> Evaluation:
    """Ask all questions in batches, judge the answers, and compute the table of metrics.

    Args:
        engine: answers batches; an error in place of an answer counts against that question only.
        questions: see ``read_questions``.
        batch_size: questions asked at once.
        targets: target accuracies ρ* at which accuracy and coverage of the answers with confidence > ρ* are given.
        progress: told after every batch.

    Raises:
        InputError: no questions, or the engine does not answer each one.
        SettingsError: a batch size below 1 or a ρ* outside (0, 1).
    """
    if not questions:
        raise InputError("There are no questions to ask.")
    if batch_size < 1:
        raise SettingsError(f"batch_size must be at least 1, not {batch_size!r}.")
    for rho in targets:
        if not 0.0 < rho < 1.0:
            raise SettingsError(f"A target accuracy must be above 0 and below 1, not {rho!r}.")
    records: list[Record] = []
    for start in range(0, len(questions), batch_size):
        batch = questions[start : start + batch_size]
        began = time.perf_counter()
        answers = engine.answer_many([q.question for q in batch])
        seconds = (time.perf_counter() - began) / len(batch)
        if len(answers) != len(batch):
            raise InputError(f"The engine gave {len(answers)} answers to {len(batch)} questions.")
        records += [judge(q, a, seconds) for q, a in zip(batch, answers)]
        if progress is not None:
            progress(len(records), len(questions))
    return Evaluation(metrics(records, targets), tuple(records))


def judge(question: Question, answer: Answer | Exception, seconds: float = 0.0) -> Record:
    """What one answer is worth. An ``AbstainedError`` is the abstention it carries."""
    base: dict[str, Any] = {
        "id": question.id,
        "question": question.question,
        "answers": question.answers,
        "answerable": question.answerable,
        "seconds": seconds,
    }
    if isinstance(answer, AbstainedError):
        answer = answer.answer
    if isinstance(answer, Exception):
        wrong: dict[str, Any] = {"em": 0.0, "f1": 0.0, "correct": False} if question.judgeable else {}
        return Record(**base, **wrong, error=f"{type(answer).__name__}: {answer}")
    best, prediction = _best_claim(answer), _prediction(answer)
    quote = _quote(best)
    judged: dict[str, Any] = {}
    if question.judgeable:
        judged = {
            "em": exact_match(prediction, question.answers),
            "f1": f1(prediction, question.answers),
            "correct": bool(question.answers) and contains_answer(quote or _unquoted(answer, best), question.answers),
        }
    return Record(
        **base,
        **judged,
        prediction=prediction,
        quote=quote,
        abstained=answer.abstained,
        reason=answer.reason,
        confidence=answer.confidence if answer.confidence is not None or best is None else best.support,
        recall=_recall(question, answer),
        offsets_exact=_offsets_exact(answer),
        claims=len(answer.kept_claims) if not answer.abstained else 0,
    )


def _best_claim(answer: Answer) -> Claim | None:
    """The first kept claim; the surest dropped one if none was kept."""
    if answer.kept_claims:
        return answer.kept_claims[0]
    return max(answer.claims, key=lambda c: -1.0 if c.support is None else c.support, default=None)


def _prediction(answer: Answer) -> str:
    if answer.abstained:
        return ""
    claim = next((c for c in answer.kept_claims if c.short_answer), None) or next(iter(answer.kept_claims), None)
    return answer.text if claim is None else (claim.short_answer or claim.text)


def _quote(claim: Claim | None) -> str:
    return claim.citations[0].quote if claim is not None and claim.citations else ""


def _unquoted(answer: Answer, claim: Claim | None) -> str:
    """What stands in for a quote in answers without any."""
    return claim.text if claim is not None else ("" if answer.abstained else answer.text)


def _recall(question: Question, answer: Answer) -> float | None:
    gold = question.metadata.get("passage_ids", question.metadata.get("passage_id"))
    gold = [gold] if isinstance(gold, str) else gold
    if not isinstance(gold, (list, tuple)) or not gold or question.answerable is False:
        return None
    return ranking.recall_at_k([p.id for p in answer.passages], gold, max(1, len(answer.passages)))


def _offsets_exact(answer: Answer) -> bool | None:
    spans = [s for claim in answer.claims for citation in claim.citations for s in citation.spans]
    texts = {p.id: p.text for p in answer.passages}
    return all(texts.get(s.passage_id, "")[s.start : s.end] == s.text for s in spans) if spans else None


def metrics(records: Sequence[Record], targets: Sequence[float] = TARGETS) -> dict[str, float]:
    """The table of metrics; NaN where one is not defined for these records.

    ``exact_match``, ``f1``: over all judgeable questions, with the engine's own abstentions. ``first_quote``: share of
    the answerable questions whose first quote holds a gold answer, the target accuracy left aside. ``coverage``: share
    answered; ``accuracy``: of these, the share right. ``kept_accuracy_R``, ``coverage_R``: of the answers with
    confidence > R. ``auroc_correct``, ``auroc_answerable``, ``ece``, ``brier``, ``aurc``, ``prr``: of the confidence.
    ``abstention_precision``, ``abstention_recall``: abstentions against questions known not to be answerable.
    ``errors`` counts questions that failed: they are unanswered and wrong, and have no part in the figures on
    confidence and abstention.
    """
    done = [r for r in records if not r.error]
    judged = [r for r in records if r.correct is not None]
    given = [r for r in done if r.correct is not None and not r.abstained]
    answerable = [r for r in judged if r.answerable]
    offsets = [r.offsets_exact for r in records if r.offsets_exact is not None]
    return {
        "questions": float(len(records)),
        "errors": float(len(records) - len(done)),
        "exact_match": _mean([r.em for r in judged]),
        "f1": _mean([r.f1 for r in judged]),
        "exact_match_answerable": _mean([r.em for r in answerable]),
        "f1_answerable": _mean([r.f1 for r in answerable]),
        "first_quote": _mean([r.correct for r in answerable]),
        "coverage": _mean([not r.abstained and not r.error for r in records]),
        "accuracy": _mean([r.correct for r in given]),
        "claims_per_answer": _mean([r.claims for r in records]),
        "recall": _mean([r.recall for r in records if r.recall is not None]),
        "offsets_exact": _mean(offsets),
        **_confidence_metrics([r for r in done if r.correct is not None], targets),
        **_answerable_metrics([r for r in done if r.answerable is not None]),
        "seconds_per_question": _mean([r.seconds for r in records]),
    }


def _confidence_metrics(records: Sequence[Record], targets: Sequence[float]) -> dict[str, float]:
    sure = [_known(r.confidence) for r in records]
    right = [float(bool(r.correct)) for r in records]
    known = any(not math.isnan(c) for c in sure)  # without any confidence there is nothing to measure
    kept = {
        rho: ranking.accuracy_at(sure, right, rho) if known else ranking.Kept(math.nan, math.nan) for rho in targets
    }
    return {
        "auroc_correct": ranking.auroc(sure, right) if known else math.nan,
        "ece": ranking.expected_calibration_error(sure, right) if known else math.nan,
        "brier": ranking.brier_score(sure, right) if known else math.nan,
        "aurc": ranking.aurc(sure, right, ties="mean") if known else math.nan,
        "prr": ranking.prediction_rejection_ratio(sure, right, ties="mean") if known else math.nan,
        **{f"kept_accuracy_{rho:g}": k.accuracy for rho, k in kept.items()},
        **{f"coverage_{rho:g}": k.coverage for rho, k in kept.items()},
    }


def _answerable_metrics(records: Sequence[Record]) -> dict[str, float]:
    sure = [_known(r.confidence) for r in records]
    known = any(not math.isnan(c) for c in sure)
    abstained, hopeless = [r for r in records if r.abstained], [r for r in records if not r.answerable]
    return {
        "auroc_answerable": ranking.auroc(sure, [float(bool(r.answerable)) for r in records]) if known else math.nan,
        "abstention_precision": _mean([not r.answerable for r in abstained]),
        "abstention_recall": _mean([r.abstained for r in hopeless]),
    }


def _known(value: float | None) -> float:
    return math.nan if value is None else value


def _mean(values: Sequence[float | bool | None]) -> float:
    numbers = [float(v) for v in values if v is not None]
    return math.fsum(numbers) / len(numbers) if numbers else math.nan
