"""One question's run through a pipeline: its settings, the abilities at hand and the trace of its decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from shared_core.calibration import FittedGuarantee
from shared_core.errors import CapabilityError, LanguageModelError, LimitError
from shared_core.pipelines.decision.abilities import Abilities
from shared_core.pipelines.decision.reasons import limit_reason
from shared_core.runtime.flow import Report
from shared_core.settings import SelfReflectSettings
from shared_core.types import Decided, Decision, MetadataValue


class Trace:
    """Collects decisions; ``yield trace.add(…)`` also tells whoever listens.

    Attributes:
        decisions: so far, in order.
        limit: the limit that ended the work before it was done, where one did.
    """

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.limit: LimitError | None = None

    def add(self, kind: str, outcome: str, reason: str = "", **values: MetadataValue) -> Report:
        """Note a decision; figures are rounded to six places, for people."""
        rounded = {k: round(v, 6) if isinstance(v, float) else v for k, v in values.items()}
        decision = Decision(kind, outcome, reason, rounded)
        self.decisions.append(decision)
        return Report(Decided(decision))


@dataclass(frozen=True, slots=True)
class QuestionRun:
    """One question on its way through a pipeline: what holds for all of it, and where its decisions are noted."""

    settings: SelfReflectSettings = field(default_factory=SelfReflectSettings)
    abilities: Abilities = field(default_factory=Abilities)
    trace: Trace = field(default_factory=Trace)

    @property
    def guarantee(self) -> FittedGuarantee | None:
        """The guarantee that holds for this run, where the settings ask for one."""
        return self.abilities.guarantee if self.settings.guarantee is not None else None

    @property
    def bar(self) -> float:
        """What a claim's support must be above to be shown: the target accuracy, or the guarantee's threshold."""
        return self.settings.target_accuracy if self.guarantee is None else self.guarantee.bar

    def note(self, kind: str, outcome: str, reason: str = "", **values: MetadataValue) -> Report:
        """``yield run.note(…)`` puts a decision into the trace and tells whoever listens."""
        return self.trace.add(kind, outcome, reason, **values)

    def stop(self, error: LimitError) -> Report:
        """Note that a limit ended the work; an abstention after it gives it as its reason."""
        self.trace.limit = error
        return self.note("limit", limit_reason(error), error.message)


def raise_faults(results: Sequence[object]) -> None:
    """Raise the first error among the results that is no failure of a model to say something.

    Such a failure makes what was asked for unknown. A capability that the model lacks, a limit of the settings and
    anything that is no error of a model's at all would fail again, or are a fault of ours.
    """
    for result in results:
        failed = isinstance(result, Exception) and not isinstance(result, LanguageModelError)
        if failed or isinstance(result, CapabilityError):
            assert isinstance(result, Exception)
            raise result
