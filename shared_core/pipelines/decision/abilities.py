"""The abilities of an engine's parts: what a pipeline may know about models, judges and calibrations."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from shared_core.calibration import DriftWatch, FittedGuarantee
from shared_core.calibration.calibration import Calibration
from shared_core.calibration.stack import AnyCalibration, Stack
from shared_core.lm.base import Capabilities
from shared_core.lm.identity import Identities
from shared_core.pipelines.decision.trust import ModelTrust
from shared_core.reading.expected import ExpectedShare
from shared_core.runtime.flow import Resources


@dataclass(frozen=True)
class Abilities:
    """The abilities of an engine's parts, their names and the calibrations fitted for them.

    A pipeline decides by these which requests it can make; it never sees the parts themselves.

    Attributes:
        capabilities: of each model by role; empty without a language model.
        names: of each model by role, for traces.
        identities: of each model by role, for calibrations (``lm.identity``).
        calibrations: by purpose (``confidence``, ``gate``, …), as loaded from ``settings.calibration``.
        scorer: name of the engine's own judge (an NLI model, …); ``None`` without one.
        critic: name of the shipped critic; ``None`` if its packages are not installed.
        has_embedder: whether ``Embed`` requests can be carried out.
        has_reader: whether the reader is asked about a model's claims.
        expected: the running estimate of the share of questions that the documents answer.
        trust: how much the model's replies have meant so far, beside the reader's.
        stack: combines the signals of a claim into its support, where one was fitted.
        measured: a cache of uncertainties; calibrations measure the same prompt more than once.
        guarantee: fitted for answers, applied where the settings ask for it.
        drift: watches whether questions still look like those of the guarantee, else of the stack, else of the
            calibration of confidences.

    Example:
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
    expected: ExpectedShare = field(default_factory=ExpectedShare, compare=False)
    trust: ModelTrust = field(default_factory=ModelTrust, compare=False)
    stack: Stack | None = None
    guarantee: FittedGuarantee | None = None
    drift: DriftWatch | None = field(default=None, compare=False)
    identities: Mapping[str, str] = field(default_factory=dict, compare=False)
    measured: dict[Hashable, object] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        resources: Resources,
        calibrations: Mapping[str, Calibration] | None = None,
        expected: ExpectedShare | None = None,
        stack: Stack | None = None,
        guarantee: FittedGuarantee | None = None,
    ) -> Abilities:
        """Read the abilities off resources; without calibrations scores stay raw."""
        return cls(
            capabilities={role: model.capabilities for role, model in resources.models.items()},
            names={role: model.name for role, model in resources.models.items()},
            identities=Identities(resources.models),
            calibrations=calibrations or {},
            scorer=resources.judge.name if resources.judge is not None else None,
            critic=resources.critic.name if resources.critic is not None else None,
            has_embedder=resources.embedder is not None,
            has_reader=resources.reader is not None,
            expected=expected if expected is not None else ExpectedShare(),
            stack=stack,
            guarantee=guarantee,
            # One watch for the engine's life: drift shows over many questions.
            drift=next(
                (
                    DriftWatch(fitted.signals)
                    for fitted in (guarantee, stack, (calibrations or {}).get("confidence"))
                    if fitted is not None and fitted.signals
                ),
                None,
            ),
        )

    @property
    def every_calibration(self) -> Mapping[str, AnyCalibration]:
        """All calibrations by purpose, with the stack as ``claims`` and the guarantee as ``guarantee``."""
        found: dict[str, AnyCalibration] = dict(self.calibrations)
        if self.stack is not None:
            found["claims"] = self.stack
        if self.guarantee is not None:
            found["guarantee"] = self.guarantee
        return found

    def model(self, role: str) -> Capabilities | None:
        """Return the capabilities of the model with that role, else of the default model; ``None`` without any."""
        return self.capabilities.get(role) or self.capabilities.get("default")

    def model_name(self, role: str) -> str:
        """Return the name of the model with that role, else of the default model; "none" without any."""
        return self.names.get(role) or self.names.get("default", "none")

    def model_identity(self, role: str) -> str:
        """Return the identity that calibrations of the model with that role are bound to."""
        # An identity reads all of a model's weights, so it is computed only when asked for.
        known = role if role in self.identities else "default"
        return self.identities[known] if known in self.identities else self.model_name(role)
