"""One fit: its options, checks before any work, and asking its questions.

Results are logged, so that no purpose and no later run asks a question again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from shared_core.calibration.calibration import LEAST_EACH, LEAST_ROWS, FitMethod, ThresholdRule
from shared_core.calibration.stack import LEAST_CLAIMS, AnyCalibration
from shared_core.errors import (
    AbstainedError,
    BackendUnavailableError,
    CalibrationError,
    CalibrationInputError,
    CapabilityError,
    InputError,
    MissingDependencyError,
    SelfReflectError,
    SettingsError,
    StoreError,
)
from shared_core.evaluation.compare.run_folder import describe_retriever
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.fitting.budget import Budget, Preview
from shared_core.evaluation.judging import Label, can_be_judged
from shared_core.runtime import flow as flows
from shared_core.runtime.budget import Meter
from shared_core.runtime.flow import Flow
from shared_core.settings import GuaranteeName, SelfReflectSettings
from shared_core.support.run_log import Batches, Progress, RunLog, digest_of_values
from shared_core.types import Answer

if TYPE_CHECKING:
    from shared_core.facades.engine import SelfReflectEngine


T = TypeVar("T")
BATCH = 16
"""Questions asked at once."""
LEAST_QUESTIONS = LEAST_CLAIMS // 2
"""Fewest questions for ``claims``: an answer makes several claims."""
WITH_GATE = ("composed", "seakr")
"""Pipelines that apply a calibrated gate, and calibrated answers from memory."""
GIVE = 'Give rows with "answers", or with "answerable": false.'
Labels = Literal["auto", "gold", "self"]
"""Source of the labels of ``gate`` and ``answer``: ``gold`` (known answers), ``self`` (agreement of the model's answer
from memory with its answer from passages), or ``auto`` (gold where answers are known, self elsewhere)."""


def digest_of(engine: SelfReflectEngine, more: Mapping[str, Any] | None = None) -> str:
    """Hash everything that an engine's answers depend on: models, parts, settings, calibrations; and ``more``."""
    values = {
        "binding": engine.claims_binding,
        "settings": engine.settings.model_dump(mode="json", exclude={"calibration"}),
        "calibrations": {n: c.to_dict() for n, c in engine.context.every_calibration.items()},
        "more": more,
    }
    return digest_of_values(values)[:16]


@dataclass(frozen=True)
class FitOptions:
    """Options of ``fit``; each purpose reads those that concern it.

    >>> FitOptions(method="platt").labels
    'auto'

    Attributes:
        method: ``isotonic``, ``platt`` or ``auto`` (by the number of rows).
        labels: of ``gate`` and ``answer``: source of the labels.
        rule, target: of ``gate``: see ``choose_threshold``.
        gate: of ``answer``: gate that the pipeline ``seakr`` answers with.
        label: of ``self_evaluation`` and ``guarantee``: judge of a claim; by default the questions' own labels, else
            whether the claim contains an accepted answer.
        claims: of ``support``: labelled (quote, claim, label) rows.
        budget: the most that asking may cost, and how precise a result needs no more questions.
    """

    method: FitMethod = "auto"
    labels: Labels = "auto"
    rule: ThresholdRule = "balanced_accuracy"
    target: float | None = None
    gate: AnyCalibration | None = None
    label: Label | None = None
    claims: Sequence[tuple[str, str, bool]] = ()
    guarantee: GuaranteeName = "conformal_factuality"
    budget: Budget | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """One row of a fit.

    Attributes:
        id: question that it belongs to; rows of one id are held out together.
        score: raw score; NaN if unknown.
        held: whether the event held; ``None`` if it cannot be judged.
        text: answer or claim.
        signals: of ``claims``: values in the order of a stack's names; of ``replies``: see ``observe_replies``.
    """

    id: str
    score: float
    held: bool | None
    text: str = ""
    signals: tuple[float | None, ...] = ()

    @property
    def known_score(self) -> float | None:
        """The score; ``None`` if it is unknown."""
        return self.score if math.isfinite(self.score) else None


@dataclass(frozen=True)
class Observed:
    """Rows of a fit.

    Attributes:
        questions: digests of the questions that were asked.
        answered: keys of the answered questions, each with its drift signals.
        reused: of ``guarantee``: questions that the engine's other calibrations were fitted on.
    """

    rows: tuple[Observation, ...]
    questions: tuple[str, ...] = ()
    failed: int = 0
    notes: tuple[str, ...] = ()
    answered: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    reused: int = 0

    @property
    def judged(self) -> list[Observation]:
        """Rows that could be judged."""
        return [row for row in self.rows if row.held is not None]


@dataclass(frozen=True)
class FitJob:
    """One fit: the engine, its questions, the options, the log of rows, and the meter of what it costs.

    ``started``: questions were asked before, so batches need not begin small. ``documents``: description of those that
    the engine reads, made here if not given; rows of other documents are not taken from the log.
    """

    engine: SelfReflectEngine
    questions: Sequence[Question]
    options: FitOptions
    kept: RunLog
    progress: Progress | None = None
    meter: Meter | Preview = field(default_factory=lambda: Meter(SelfReflectSettings()))
    started: bool = False
    documents: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Describe the documents once; copies of a job keep the description."""
        if self.documents is None:
            object.__setattr__(self, "documents", describe_retriever(self.engine.resources.retriever))

    def run_many(self, waiting: Sequence[Flow[T]], deadline: float | None = None) -> list[T | Exception]:
        """Run flows together and count what they use."""
        watched = [self.meter.watch(flow) for flow in waiting]
        return flows.run_many(watched, self.engine.resources, deadline=deadline)

    def answers(self, batch: Sequence[Question], engine: SelfReflectEngine | None = None) -> list[Answer | Exception]:
        """Return the answers; an abstention that the engine raises as an error is unwrapped."""
        found = (engine or self.engine).answer_many(
            [q.question for q in batch], wrap=lambda _, flow: self.meter.watch(flow)
        )
        return [r.answer if isinstance(r, AbstainedError) else r for r in found]

    def ask(
        self,
        part: str,
        questions: Sequence[Question],
        ask: Callable[[Sequence[Question]], Sequence[T | Exception]],
        *,
        dump: Callable[[T], Any],
        load: Callable[[Any], T],
        engine: SelfReflectEngine | None = None,
        together: int = BATCH,
    ) -> list[T | Exception]:
        """Ask every question that the log does not hold yet, in batches, and return what came of each.

        Args:
            part: names what is asked; with the engine's configuration and documents, so that no other row is taken
                for it.
            ask: gives a result or an error for each question of a batch. Errors are not logged; those that every
                question would end in are raised.
            dump, load: to plain values and back.
            engine: whose configuration counts; the job's own by default.
            together: questions of a batch; the first batches are smaller, so that progress shows early.

        Raises:
            InputError: the log cannot be written, or another process is writing to it.
        """
        part = f"{part} {digest_of(engine or self.engine, self.documents)}"
        keys = [digest_of_values([part, q.question, q.answers, q.answerable is False])[:24] for q in questions]
        by_key = dict(zip(keys, questions))
        made: dict[str, T | Exception] = {}

        def work(batches: Batches) -> Generator[tuple[dict[str, Any], dict[str, Exception]], None, None]:
            for batch in batches:
                found = dict(zip(batch, ask([by_key[key] for key in batch]), strict=True))
                failed = {key: result for key, result in found.items() if isinstance(result, Exception)}
                for error in failed.values():
                    _raise_if_fatal(error)
                made.update(found)
                yield {key: dump(r) for key, r in found.items() if not isinstance(r, Exception)}, failed

        self.kept.fill(keys, work, batch_size=together, progress=self.progress, grow=not self.started)
        return [made[key] if key in made else load(self.kept.rows.get(key)) for key in keys]


def _raise_if_fatal(error: Exception) -> None:
    """Raise errors that every question would end in, and defects; others count against their question only."""
    fatal = (BackendUnavailableError, CapabilityError, MissingDependencyError, SettingsError, StoreError, InputError)
    if isinstance(error, fatal) or not isinstance(error, SelfReflectError):
        raise error


def require_some(found: Sequence[object]) -> int:
    """Return the number of failed questions; CalibrationError if every question failed, or none was asked."""
    errors = [f for f in found if isinstance(f, Exception)]
    if len(errors) < len(found):
        return len(errors)
    raise CalibrationError(
        f"Every question failed; the last one: {errors[-1]}" if errors else "No question can be judged.",
        hint='Give rows with "answers", "answerable": false, or labelled "claims".',
    )


# --- checks before any work -------------------------------------------------------------------------------------------


def check_questions(purpose: str, questions: Sequence[Question], options: FitOptions) -> int:
    """Refuse unknown options and too few questions; return the number of those not to be asked: nobody can judge them.

    Raises:
        InputError: unknown method or labels.
        CalibrationInputError: too few questions; none can be judged (the unknown fields are named); all are
            unanswerable, so that no answer could be right.
    """
    check_choice("method", options.method, ("auto", "isotonic", "platt"))
    check_choice("labels", options.labels, ("auto", "gold", "self"))
    if purpose == "support":
        _check_claims(options.claims)
        return 0
    if purpose in ("self_evaluation", "guarantee"):  # how many they need, only the fit can tell
        return sum(not can_be_judged(q) for q in questions)
    of_model = purpose in ("gate", "answer")
    labels = options.labels if of_model else "gold"
    known = [q for q in questions if (q.judgeable if of_model else can_be_judged(q))]
    usable = known if labels == "gold" else list(questions)
    least = LEAST_QUESTIONS if purpose == "claims" else LEAST_ROWS
    if not usable:
        raise CalibrationInputError(
            f"None of {len(questions)} questions can be judged.{_unused_fields(questions)}", hint=GIVE
        )
    if len(usable) < least:
        left = f" of {len(questions)} can be judged, and these" if len(usable) < len(questions) else " questions"
        raise CalibrationInputError(
            f"Only {len(usable)}{left} are not enough to calibrate {purpose}: it takes {least}.", hint=GIVE
        )
    if labels != "self" and all(q.answerable is False for q in usable):
        raise CalibrationInputError(
            f"All {len(usable)} questions are unanswerable, so no answer to them can be right.",
            hint="Add questions that the documents answer, with their answers.",
        )
    return len(questions) - len(usable)


def check_choice(option: str, value: str, known: Sequence[str]) -> None:
    """Refuse an unknown value of an option; InputError names the known ones."""
    if value not in known:
        raise InputError(f"Unknown {option} {value!r}.", hint=f"Choose from: {', '.join(known)}.")


def _check_claims(rows: Sequence[tuple[str, str, bool]]) -> None:
    true = sum(label for _, _, label in rows)
    if len(rows) < LEAST_ROWS or min(true, len(rows) - true) < LEAST_EACH:
        raise CalibrationInputError(
            f"{len(rows)} labelled claims, {true} of them supported, are not enough to calibrate support.",
            hint=f"Give at least {LEAST_ROWS}: {LEAST_EACH} or more supported, and as many not.",
        )


def _unused_fields(questions: Sequence[Question]) -> str:
    seen = sorted({str(name) for q in questions for name in q.metadata})[:12]
    return f" Unknown fields: {', '.join(map(repr, seen))}." if seen else ""


def check_engine(purpose: str, engine: SelfReflectEngine) -> None:
    """Refuse (InputError) an engine that applies such a calibration already, or that would not apply it."""
    settings = engine.settings
    check_configuration(purpose, settings, has_model=bool(engine.resources.models))
    if purpose == "confidence" and settings.calibration is not None:
        raise InputError("This engine is calibrated already.", hint="Calibrate with settings without a calibration.")
    if purpose == "claims" and engine.context.stack is not None:
        raise InputError("This engine's claims are calibrated already.", hint="Calibrate with settings without it.")
    if purpose == "guarantee" and settings.guarantee is not None:
        raise InputError("This engine applies a guarantee already.", hint="Calibrate with guarantee=None.")


def check_configuration(purpose: str, settings: SelfReflectSettings, *, has_model: bool) -> None:
    """Refuse (InputError) a purpose that has no effect in a configuration; needs no engine yet."""
    if purpose == "claims" and not has_model:
        raise InputError("Calibrating claims needs a language model.", hint="Name one, or calibrate confidence.")
    if purpose == "replies":
        _check_replies(settings, has_model=has_model)
    if purpose == "self_evaluation" and not (settings.pipeline == "research" and settings.research.closed_book):
        raise InputError(
            "Only closed-book ReSearch judges claims by self-evaluation.",
            hint="--pipeline research --set research.closed_book=true",
        )
    if purpose in ("gate", "answer") and settings.pipeline not in WITH_GATE:
        raise InputError(
            f"The pipeline {settings.pipeline} has no gate: a calibration of {purpose} would have no effect.",
            hint=f"Calibrate claims, or one of the pipelines {', '.join(WITH_GATE)}.",
        )


def _check_replies(settings: SelfReflectSettings, *, has_model: bool) -> None:
    """Refuse a configuration in which nothing is compared with the reader's quotes."""
    if not has_model:
        raise InputError("Measuring replies needs a language model.", hint="Name one: --model or --base-url.")
    if not settings.compete or settings.guarantee is not None or settings.signals == "support_only":
        raise InputError(
            "With these settings the model's replies are not compared with the reader's quotes.",
            hint="Leave compete, guarantee and signals at their defaults.",
        )
