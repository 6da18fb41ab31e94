"""One question's run through a pipeline: its settings, the abilities at hand and the trace of its decisions."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared_core.calibration import DriftWatch, FittedGuarantee
from shared_core.calibration.calibration import Calibration
from shared_core.calibration.replies import FittedReplies
from shared_core.calibration.stack import AnyCalibration, Stack
from shared_core.errors import (
    BudgetError,
    CapabilityError,
    ContextOverflowError,
    LanguageModelError,
    LimitError,
    SelfReflectError,
)
from shared_core.lm.base import Capabilities, LanguageModel
from shared_core.lm.identity import identity_of
from shared_core.lm.size import size_of
from shared_core.pipelines.decision.reasons import limit_reason
from shared_core.pipelines.decision.trust import ModelTrust
from shared_core.reading.base import Read, ReadResult
from shared_core.reading.confidence import ExpectedShare
from shared_core.runtime.flow import Compute, Flow, LeafRequest, Report, Resources, Retrieve, Together
from shared_core.settings import SelfReflectSettings
from shared_core.types import Decided, Decision, MetadataValue, Passage, Retrieved, Span


class _Capabilities(Mapping[str, Capabilities]):
    """Capabilities of models by role, each read when it is first wanted: some models make a call to learn them."""

    def __init__(self, models: Mapping[str, LanguageModel]) -> None:
        self._models = models
        self._read = {
            role: model.capabilities
            for role, model in models.items()
            if isinstance(inspect.getattr_static(model, "capabilities", None), Capabilities)
        }

    def __getitem__(self, role: str) -> Capabilities:
        if role not in self._read:
            self._read[role] = self._models[role].capabilities
        return self._read[role]

    def __contains__(self, role: object) -> bool:
        return role in self._models

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)

    def are_known(self) -> bool:
        """Return whether none has to be asked any more."""
        return len(self._read) == len(self._models)

    def read(self) -> None:
        """Read all of them."""
        for role in self._models:
            self[role]


@dataclass(frozen=True)
class Abilities:
    """The abilities of an engine's parts, their names and the calibrations fitted for them.

    A pipeline decides by these which requests it can make; it never sees the parts themselves.

    Attributes:
        capabilities: of each model by role; empty without a language model.
        names: of each model by role, for traces.
        models: by role; calibrations are bound to their identities (``lm.identity``).
        calibrations: by purpose (``confidence``, ``gate``, …), as loaded from ``settings.calibration``.
        scorer: name of the engine's own judge (an NLI model, …); ``None`` without one.
        critic: name of the shipped critic; ``None`` if its packages are not installed.
        has_reader: whether the reader is asked about a model's claims.
        expected: the running estimate of the share of questions that the documents answer.
        trust: how much the model's replies have meant so far, beside the reader's.
        stack: combines the signals of a claim into its support, where one was fitted.
        measured: a cache of uncertainties; calibrations measure the same prompt more than once.
        replies: what the model's replies were measured to be worth, if they were.
        guarantee: fitted for answers, applied where the settings ask for it.
        drift: watches whether questions still look like those of the guarantee, else of the stack, else of the
            calibration of confidences.

    >>> from shared_core.lm import ScriptedLM
    >>> abilities = Abilities.of(Resources({"default": ScriptedLM(["Paris"], name="demo")}))
    >>> abilities.model_name("judge"), abilities.model("judge").grammar, abilities.has_reader
    ('demo', False, False)
    """

    capabilities: Mapping[str, Capabilities] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)
    scorer: str | None = None
    has_embedder: bool = False
    critic: str | None = None
    has_reader: bool = False
    # compare=False: what is learnt in use or computed from the models is no part of the configuration.
    expected: ExpectedShare = field(default_factory=ExpectedShare, compare=False)
    trust: ModelTrust = field(default_factory=ModelTrust, compare=False)
    stack: Stack | None = None
    guarantee: FittedGuarantee | None = None
    replies: FittedReplies | None = None
    drift: DriftWatch | None = field(default=None, compare=False)
    models: Mapping[str, LanguageModel] = field(default_factory=dict, compare=False, repr=False)
    measured: dict[Hashable, object] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        resources: Resources,
        calibrations: Mapping[str, Calibration] | None = None,
        expected: ExpectedShare | None = None,
        stack: Stack | None = None,
        guarantee: FittedGuarantee | None = None,
        replies: FittedReplies | None = None,
    ) -> Abilities:
        """Read the abilities off resources; without calibrations scores stay raw."""
        return cls(
            capabilities=_Capabilities(resources.models),
            names={role: model.name for role, model in resources.models.items()},
            models=resources.models,
            calibrations=calibrations or {},
            scorer=resources.judge.name if resources.judge is not None else None,
            critic=resources.critic.name if resources.critic is not None else None,
            has_embedder=resources.embedder is not None,
            has_reader=resources.reader is not None,
            expected=expected if expected is not None else ExpectedShare(),
            trust=_trust_of(resources.models.get("default"), replies),
            stack=stack,
            guarantee=guarantee,
            replies=replies,
            # One watch for the engine's life: drift shows over many questions.
            drift=next(
                (
                    DriftWatch(fitted.signals)
                    for fitted in (guarantee, stack, (calibrations or {}).get("confidence"))
                    if fitted is not None and fitted.signals  # without signals there is nothing to compare with
                ),
                None,
            ),
        )

    @property
    def every_calibration(self) -> Mapping[str, AnyCalibration]:
        """All calibrations by purpose, with stack (``claims``), guarantee and rates of replies."""
        found: dict[str, AnyCalibration] = dict(self.calibrations)
        if self.stack is not None:
            found["claims"] = self.stack
        if self.guarantee is not None:
            found["guarantee"] = self.guarantee
        if self.replies is not None:
            found["replies"] = self.replies
        return found

    def has_model(self, role: str) -> bool:
        """Return whether there is a model with that role, or a default one; asks none of them anything."""
        return role in self.capabilities or "default" in self.capabilities

    def model(self, role: str) -> Capabilities | None:
        """Return the capabilities of the model with that role, else of the default model; ``None`` without any."""
        return self.capabilities.get(role) or self.capabilities.get("default")

    def learn(self) -> Flow[None]:
        """Read the capabilities that are not known yet, outside of the event loop: some models are asked for them."""
        if isinstance(self.capabilities, _Capabilities) and not self.capabilities.are_known():
            yield Compute(self.capabilities.read)

    def model_name(self, role: str) -> str:
        """Return the name of the model with that role, else of the default model; "none" without any."""
        return self.names.get(role) or self.names.get("default", "none")

    def model_identity(self, role: str) -> str:
        """Return the identity that calibrations of the model with that role are bound to."""
        # An identity reads all of a model's weights, so it is computed only when asked for.
        model = self.models.get(role) or self.models.get("default")
        return identity_of(model) if model is not None else self.model_name(role)


def _trust_of(lm: LanguageModel | None, replies: FittedReplies | None) -> ModelTrust:
    """Return a trust that begins with what was measured, by the user or who made the model, or its size lets expect."""
    if replies is not None:
        return ModelTrust(replies.rates, replies.shift)
    rates = getattr(lm, "reply_rates", None)
    size = size_of(lm) if lm is not None and rates is None else None
    return ModelTrust(rates) if size is None else ModelTrust.of_size(size)


@dataclass(eq=False, slots=True)
class Trace:
    """The decisions of one question.

    Attributes:
        limit: the limit that ended the work before it was done, where one did.
    """

    decisions: list[Decision] = field(default_factory=list)
    limit: LimitError | None = None


@dataclass(frozen=True, slots=True)
class QuestionRun:
    """One question's run through a pipeline: its settings, the abilities at hand and its trace.

    >>> run = QuestionRun(SelfReflectSettings(target_accuracy=0.7))
    >>> report = run.note("gate", "retrieve", "the model is not sure", uncertainty=1.25)
    >>> run.bar, run.trace.decisions[0].outcome
    (0.7, 'retrieve')
    """

    settings: SelfReflectSettings = field(default_factory=SelfReflectSettings)
    abilities: Abilities = field(default_factory=Abilities)
    # Mutable, and shared by copies of the run that have other settings (`dataclasses.replace`).
    trace: Trace = field(default_factory=Trace)

    @property
    def guarantee(self) -> FittedGuarantee | None:
        """The guarantee in force, if the settings ask for one."""
        return self.abilities.guarantee if self.settings.guarantee is not None else None

    @property
    def bar(self) -> float:
        """The bar that a claim's support must exceed to be shown: ρ*, or the guarantee's threshold."""
        return self.settings.target_accuracy if self.guarantee is None else self.guarantee.bar

    def note(self, kind: str, outcome: str, reason: str = "", **values: MetadataValue) -> Report:
        """Record a decision, its figures rounded to six places; ``yield run.note(…)`` also reports it as an event."""
        rounded = {k: round(v, 6) if isinstance(v, float) else v for k, v in values.items()}
        decision = Decision(kind, outcome, reason, rounded)
        self.trace.decisions.append(decision)  # at once: it is in the trace even if nobody yields the report
        return Report(Decided(decision))

    def stop(self, error: LimitError) -> Report:
        """Record that a limit ended the work; an abstention then gives the limit as its reason."""
        self.trace.limit = error
        return self.note("limit", limit_reason(error), error.message)


def retrieve(query: str, k: int, run: QuestionRun) -> Flow[tuple[Passage, ...]]:
    """Retrieve with the filter of the settings, and report what was found."""
    found: tuple[Passage, ...] = yield Retrieve(query, k, run.settings.where)
    yield Report(Retrieved(query, found))
    return found


def try_reader(
    question: str, passages: Sequence[Passage], limit: int, run: QuestionRun, spans: tuple[Span, ...] = ()
) -> Flow[ReadResult]:
    """Ask the reader for ``limit`` quotes and about ``spans``; nothing is known where it fails or the time is over."""
    asked = Read(question, tuple(passages), limit, run.abilities.expected.value, spans)
    result: ReadResult | None = yield from attempt(asked, run, "read")
    return ReadResult(()) if result is None else result


def attempt(request: LeafRequest, run: QuestionRun, kind: str, outcome: str = "unknown") -> Flow[Any]:
    """Carry out a request for a signal; ``None`` where it fails or a limit is reached, as the trace tells."""
    try:
        return (yield request)
    except LimitError as error:
        yield run.stop(error)
    except SelfReflectError as error:  # a signal that fails is unknown; the others still count
        yield run.note(kind, outcome, error.message)
    return None


def _raise_faults(results: Sequence[object]) -> None:
    """Raise the first error among results that is more than one failed reply.

    A failed reply (``LanguageModelError``) leaves what was asked for unknown, and the rest stands. A missing
    capability, a limit of the settings or a programming error would fail for every other request too.
    """
    for result in results:
        reply = isinstance(result, LanguageModelError) and not isinstance(result, CapabilityError)
        if isinstance(result, Exception) and not reply:
            raise result


def together(requests: Sequence[LeafRequest]) -> Flow[list[Any]]:
    """Carry out requests as one batch; failed replies are values, any other fault is raised."""
    results: list[Any] = yield Together(tuple(requests), return_errors=True)
    _raise_faults(results)
    return results


def within_limits(requests: Sequence[LeafRequest], group: int = 1) -> Flow[tuple[list[Any], LimitError | None]]:
    """Carry out requests as one batch, or the first of them where a limit does not allow all; return that limit, too.

    Args:
        group: so many requests belong together; none is carried out without the others of its group.
    """
    limit: LimitError | None = None
    results: Sequence[Any] = []
    try:
        results = yield Together(tuple(requests), return_errors=True)
    except LimitError as error:
        limit = error
        # A batch is refused whole: the calls left pay for its first requests; after a deadline none go out.
        fitting = error.calls_left // group * group if isinstance(error, BudgetError) else 0
        if fitting:
            results = yield Together(tuple(requests[:fitting]), return_errors=True)
    # A deadline may also pass within the batch, whose late results are errors then.
    late = next((i for i, result in enumerate(results) if isinstance(result, LimitError)), None)
    if late is not None:
        limit, results = results[late], results[: late // group * group]
    _raise_faults(results)
    return list(results), limit


def leave_out(passages: Sequence[Passage], error: ContextOverflowError, run: QuestionRun) -> Flow[list[Passage]]:
    """Leave out the lowest-ranked passages of a prompt that was too long; at least one stays.

    Passages make up nearly all of a prompt: the share by which it was too long is left out at once, since each try
    encodes the whole prompt.

    Raises:
        ContextOverflowError: the same, if the settings ask for it or one passage is left.
    """
    if run.settings.on_overflow == "raise" or len(passages) <= 1:
        raise error
    dropped = max(1, int(error.excess * len(passages)))  # excess is 0 where unknown: then one at a time
    yield run.note("context", f"{dropped} lowest-ranked passages left out", error.message)
    return list(passages[:-dropped])  # best first, so the lowest-ranked go
