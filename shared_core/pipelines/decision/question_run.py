"""One question's run through a pipeline: its settings, the abilities at hand and the trace of its decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shared_core.calibration import FittedGuarantee
from shared_core.errors import CapabilityError, ContextOverflowError, LanguageModelError, LimitError
from shared_core.pipelines.decision.abilities import Abilities
from shared_core.pipelines.decision.reasons import limit_reason
from shared_core.runtime.flow import Flow, LeafRequest, Report, Together
from shared_core.settings import SelfReflectSettings
from shared_core.types import Decided, Decision, MetadataValue, Passage


class Trace:
    """The decisions of one question, in order; ``yield trace.add(…)`` also reports each as an event.

    Attributes:
        decisions: so far, in order.
        limit: the limit that ended the work before it was done, where one did.
    """

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.limit: LimitError | None = None

    def add(self, kind: str, outcome: str, reason: str = "", **values: MetadataValue) -> Report:
        """Record a decision, its figures rounded to six places, and return the request that reports it."""
        rounded = {k: round(v, 6) if isinstance(v, float) else v for k, v in values.items()}
        decision = Decision(kind, outcome, reason, rounded)
        self.decisions.append(decision)
        return Report(Decided(decision))


@dataclass(frozen=True, slots=True)
class QuestionRun:
    """One question's run through a pipeline: its settings, the abilities at hand and its trace.

    Example:
        >>> run = QuestionRun(SelfReflectSettings(target_accuracy=0.7))
        >>> report = run.note("gate", "retrieve", "the model is not sure", uncertainty=1.25)
        >>> run.bar, run.trace.decisions[0].outcome
        (0.7, 'retrieve')
    """

    settings: SelfReflectSettings = field(default_factory=SelfReflectSettings)
    abilities: Abilities = field(default_factory=Abilities)
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
        """Record a decision: ``yield run.note(…)`` adds it to the trace and reports it as an event."""
        return self.trace.add(kind, outcome, reason, **values)

    def stop(self, error: LimitError) -> Report:
        """Record that a limit ended the work; an abstention then gives the limit as its reason."""
        self.trace.limit = error
        return self.note("limit", limit_reason(error), error.message)


def raise_faults(results: Sequence[object]) -> None:
    """Raise the first error among results that is more than one failed reply.

    A failed reply (``LanguageModelError``) leaves what was asked for unknown, and the rest stands. A missing
    capability, a limit of the settings or a programming error would fail for every other request too.
    """
    for result in results:
        failed = isinstance(result, Exception) and not isinstance(result, LanguageModelError)
        if failed or isinstance(result, CapabilityError):
            assert isinstance(result, Exception)
            raise result


def together(requests: Sequence[LeafRequest]) -> Flow[list[Any]]:
    """Carry out requests as one batch; failed replies are values, any other fault is raised (``raise_faults``)."""
    results: list[Any] = yield Together(tuple(requests), return_errors=True)
    raise_faults(results)
    return results


def leave_out(passages: Sequence[Passage], error: ContextOverflowError, run: QuestionRun) -> Flow[list[Passage]]:
    """Leave out the lowest-ranked passages of a prompt that was too long; at least one stays.

    Passages make up nearly all of a prompt: the share by which it was too long is left out at once, since each try
    encodes the whole prompt.

    Raises:
        ContextOverflowError: the same, if the settings ask for it or one passage is left.
    """
    if run.settings.on_overflow == "raise" or len(passages) <= 1:
        raise error
    dropped = max(1, int(error.excess * len(passages)))
    yield run.note("context", f"{dropped} lowest-ranked passages left out", error.message)
    return list(passages[:-dropped])
