"""Ask an engine questions, judge its answers, and compute the table of metrics."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from shared_core.calibration.binding import question_digest
from shared_core.errors import InputError, SettingsError
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.judging import Record, judge
from shared_core.evaluation.metrics import confidence as ranking
from shared_core.support.files import replace_file
from shared_core.support.run_log import Progress
from shared_core.types import Answer

TARGETS = (0.5, 0.7, 0.8, 0.9)
"""Target accuracies ρ* at which accuracy and coverage are given by default."""


class AnswersMany(Protocol):
    """System to evaluate: a ``SelfReflectEngine``, or anything else that answers a batch."""

    def answer_many(self, questions: Sequence[str], /) -> Sequence[Answer | Exception]:
        """Return an ``Answer``, or an error in its place, for each question in order."""
        ...


@dataclass(frozen=True)
class Evaluation:
    """Records and metrics of a run.

    >>> Evaluation({"accuracy": 0.5}, ()).to_dict()["metrics"]
    {'accuracy': 0.5}

    Attributes:
        metrics: metrics by name; NaN if undefined for these questions (no gold answers, one class, …).
        fitted_on: by purpose, how many of the questions an applied calibration was fitted on.
    """

    metrics: Mapping[str, float]
    records: tuple[Record, ...] = field(repr=False)
    fitted_on: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values that JSON can hold; NaN becomes ``None``."""
        metrics = {k: (v if math.isfinite(v) else None) for k, v in self.metrics.items()}
        return {"metrics": metrics, "fitted_on": dict(self.fitted_on), "records": [asdict(r) for r in self.records]}

    def write(self, path: str | Path) -> Path:
        """Write metrics and records as JSON, atomically; InputError if the file cannot be written."""
        return write_result(path, json.dumps(self.to_dict(), ensure_ascii=False, indent=2, allow_nan=False) + "\n")

    def plot(self, folder: str | Path) -> list[Path]:
        """Draw risk–coverage, reliability and target-accuracy plots into a folder; none if nothing can be judged."""
        from shared_core.evaluation import plots

        sure, right = judgements(self.records)
        if not right:
            return []
        folder = Path(folder)
        return [
            plots.risk_coverage({"": (sure, right)}, folder / "risk_coverage.png"),
            plots.reliability({"": (sure, right)}, folder / "reliability.png"),
            plots.target_accuracy(sure, right, folder / "target_accuracy.png"),
        ]


def judgements(records: Iterable[Record]) -> tuple[list[float], list[float]]:
    """Return (confidences, correctness) of the questions without error that can be judged; NaN for unknown."""
    known = [r for r in records if r.correct is not None and not r.error]
    return [known_or_nan(r.confidence) for r in known], [float(bool(r.correct)) for r in known]


def errors_of(records: Iterable[Record]) -> dict[str, tuple[str, ...]]:
    """Return the errors of failed questions, each with the ids of its questions."""
    found: dict[str, tuple[str, ...]] = {}
    for record in records:
        if record.error:
            found[record.error] = (*found.get(record.error, ()), record.id)
    return found


def write_result(path: str | Path, text: str) -> Path:
    """Write a file whole or not at all, and return its path; InputError if it cannot be written.

    Lone surrogates, which UTF-8 cannot hold, are replaced.
    """
    path = Path(path)
    try:
        with replace_file(path) as file:
            file.write(text.encode("utf-8", "replace").decode())
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from error
    return path


def evaluate(
    engine: AnswersMany,
    questions: Sequence[Question],
    *,
    batch_size: int = 16,
    targets: Sequence[float] = TARGETS,
    progress: Progress | None = None,
) -> Evaluation:
    """Ask all questions in batches, judge the answers, and compute the table of metrics.

    Questions that one of the engine's calibrations was fitted on draw a warning.

    Args:
        engine: system to ask; an error in place of an answer counts against that question only.
        targets: target accuracies ρ* at which accuracy and coverage are given.
        progress: called as ``progress(done, total)`` after every batch.

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
    seen = warn_fitted_on(engine, questions)
    records: list[Record] = []
    for start in range(0, len(questions), batch_size):
        batch = questions[start : start + batch_size]
        answers, seconds = ask_batch("The engine", engine, batch)
        records += [judge(q, a, seconds) for q, a in zip(batch, answers)]
        if progress is not None:
            progress(len(records), len(questions))
    warn_no_recall(records)
    return Evaluation(metrics(records, targets), tuple(records), seen)


def ask_batch(name: str, system: AnswersMany, batch: Sequence[Question]) -> tuple[Sequence[Answer | Exception], float]:
    """Ask a batch and return the answers and the seconds of each; InputError if there is not one for each question."""
    began = time.perf_counter()
    answers = system.answer_many([q.question for q in batch])
    seconds = (time.perf_counter() - began) / len(batch)
    if len(answers) != len(batch):
        raise InputError(f"{name} gave {len(answers)} answers to {len(batch)} questions.")
    return answers, seconds


def metrics(records: Sequence[Record], targets: Sequence[float] = TARGETS) -> dict[str, float]:
    """Compute the table of metrics; undefined ones are NaN.

    ``exact_match``, ``f1``: over all judgeable questions, abstentions as empty answers. ``first_quote``: share of
    the answerable questions whose first quote holds a gold answer, whatever the target accuracy. ``coverage``: share
    of all questions that were answered; ``accuracy``: of these, the share right. ``coverage_R``: share of all questions
    that were answered with confidence > R; ``kept_accuracy_R``: of these, the share right; both undefined for an R
    below the target accuracy of the run, which withheld what they would count. So abstentions and errors are unanswered
    in all four. ``auroc_correct``, ``auroc_answerable``, ``ece``, ``brier``, ``aurc``, ``prr``: of the confidence.
    ``abstention_precision``, ``abstention_recall``: abstentions against questions known not to be answerable.
    The figures of the confidence take the nearest claim of an abstention with its confidence for an answer. ``errors``
    counts questions that failed: they are unanswered and wrong, and have no part in the figures on confidence and
    abstention.
    """
    return {name: figure.value for name, figure in figures_of(records, targets).items()}


class Figure(NamedTuple):
    """A figure (NaN if it is undefined), and the number of questions that it is over."""

    value: float
    over: int


def figures_of(records: Sequence[Record], targets: Sequence[float]) -> dict[str, Figure]:
    """Compute ``metrics``, and how many questions each is over."""
    done = [r for r in records if not r.error]
    judged = [r for r in records if r.correct is not None]
    given = [r for r in done if r.correct is not None and not r.abstained]
    answerable = [r for r in judged if r.answerable]
    return {
        "questions": Figure(float(len(records)), len(records)),
        "errors": Figure(float(len(records) - len(done)), len(records)),
        "exact_match": average([r.em for r in judged]),
        "f1": average([r.f1 for r in judged]),
        "exact_match_answerable": average([r.em for r in answerable]),
        "f1_answerable": average([r.f1 for r in answerable]),
        "first_quote": average([r.quote_correct for r in answerable]),
        "coverage": average([not r.abstained and not r.error for r in records]),
        "accuracy": average([r.correct for r in given]),
        "claims_per_answer": average([r.claims for r in records]),
        "recall": average([r.recall for r in records]),
        "offsets_exact": average([r.offsets_exact for r in records]),
        **_confidence_figures(records),
        **{name: figure for rho in targets for name, figure in _kept(records, rho).items()},
        **_answerable_figures([r for r in done if r.answerable is not None]),
        "seconds_per_question": average([r.seconds for r in records]),
    }


def _kept(records: Sequence[Record], rho: float) -> dict[str, Figure]:
    """Return accuracy and share of the answers that were given with a confidence above ρ."""
    kept = [not r.error and not r.abstained and r.confidence is not None and r.confidence > rho for r in records]
    right, share = average([r.correct for r, k in zip(records, kept, strict=True) if k]), average(kept)
    withheld = any(r.target_accuracy is not None and r.target_accuracy > rho for r in records)
    if withheld or all(r.confidence is None for r in records):
        right, share = Figure(math.nan, right.over), Figure(math.nan, share.over)
    return {f"kept_accuracy_{rho:g}": right, f"coverage_{rho:g}": share}


def _confidence_figures(records: Sequence[Record]) -> dict[str, Figure]:
    sure, right = judgements(records)
    if all(map(math.isnan, sure)):  # undefined without any confidence
        values = dict.fromkeys(("auroc_correct", "ece", "brier", "aurc", "prr"), math.nan)
    else:
        values = {
            "auroc_correct": ranking.auroc(sure, right),
            "ece": ranking.expected_calibration_error(sure, right),
            "brier": ranking.brier_score(sure, right),
            "aurc": ranking.aurc(sure, right, ties="mean"),
            "prr": ranking.prediction_rejection_ratio(sure, right, ties="mean"),
        }
    return {name: Figure(value, len(sure)) for name, value in values.items()}


def _answerable_figures(records: Sequence[Record]) -> dict[str, Figure]:
    sure = [known_or_nan(r.confidence) for r in records]
    undefined = all(map(math.isnan, sure))
    area = math.nan if undefined else ranking.auroc(sure, [float(bool(r.answerable)) for r in records])
    return {
        "auroc_answerable": Figure(area, len(records)),
        "abstention_precision": average([not r.answerable for r in records if r.abstained]),
        "abstention_recall": average([r.abstained for r in records if not r.answerable]),
    }


def known_or_nan(value: float | None) -> float:
    """Return the value, or NaN for ``None``."""
    return math.nan if value is None else value


def average(values: Iterable[float | bool | None]) -> Figure:
    """Return the mean of the known values, and their number; NaN if there is none."""
    numbers = [float(v) for v in values if v is not None]
    return Figure(math.fsum(numbers) / len(numbers) if numbers else math.nan, len(numbers))


def mean_of(values: Iterable[float | bool | None]) -> float:
    """Return the mean of the known values; NaN if there is none."""
    return average(values).value


_LOG = logging.getLogger(__name__)
_FEW = 3  # questions of which so many have no passage in common with what was read, by accident


def digests_of(questions: Iterable[Question]) -> tuple[str, ...]:
    """Return the distinct digests by which calibrations remember their questions."""
    return tuple(dict.fromkeys(question_digest(q.question) for q in questions))


def fitted_on(system: object, questions: Iterable[Question]) -> dict[str, int]:
    """Count, for each calibration of an engine, the questions it was fitted on; purposes with none are left out.

    Files of early versions hold no digests, and systems other than our engines no calibrations: both count as none.
    """
    calibrations = getattr(getattr(system, "context", None), "every_calibration", None)
    asked = set(digests_of(questions))
    found = {name: len(asked & set(c.questions)) for name, c in (calibrations or {}).items()}
    return {name: count for name, count in found.items() if count}


def warn_fitted_on(system: object, questions: Iterable[Question], name: str = "") -> dict[str, int]:
    """Return ``fitted_on`` and log a warning if there is an overlap; ``name`` tells several systems apart."""
    asked = list(questions)
    found = fitted_on(system, asked)
    if found:
        _LOG.warning(
            "%sCalibrations were fitted on questions asked here (%s of %d): figures of accuracy and confidence are "
            "better than they would be on new questions.",
            f"{name}: " if name else "",
            ", ".join(f"{purpose}: {count}" for purpose, count in found.items()),
            len(asked),
        )
    return found


def warn_no_recall(records: Iterable[Record]) -> None:
    """Log a warning if no passage that any question names was read: its ids are then hardly those of the index."""
    recalls = [r.recall for r in records if r.recall is not None]
    if len(recalls) >= _FEW and not any(recalls):
        _LOG.warning(
            "recall is 0: none of the passages that %d questions name (passage_id, passage_ids) was read. Are these "
            "the ids of the index's passages? A document's own id is not: `selfreflect ask --json` shows passage ids.",
            len(recalls),
        )
