"""Choose the uncertainty estimator, gate and threshold of a pipeline, as they were calibrated."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from shared_core.calibration.binding import BindingValue
from shared_core.calibration.calibration import Calibration
from shared_core.errors import CapabilityError
from shared_core.lm.requests import middle_layer
from shared_core.pipelines.decision.question_run import Abilities, QuestionRun
from shared_core.runtime.flow import Report
from shared_core.settings import SeakrSettings, SelfReflectSettings
from shared_core.uncertainty import Cost, Estimator, best_available, get_estimator

_LOG = logging.getLogger(__name__)

Gate = Literal["uncertainty", "flare", "dragin", "always"]
Form = Literal["answer", "step", "thought"]
"""What is measured: a short answer, one step (sentence) of a chain of thought, or a whole short chain."""

Comparer = Literal["judge", "critic", "embedder"]
"""Who compares what two texts mean."""

_POSITIONS = {"eos": "eos", "last": "last of the text"}
"""As calibrations are bound to them: what was fitted while "last" read a sample's EOS token is refused."""
_COMPARED = frozenset({"similarity", "entailment", "agreement", "answer_similarity", "answer_agreement"})
"""Needs for which the meanings of texts are compared."""

_WAYS_OUT = {
    "similarity": "Give an embedder or a judge of entailment, or install selfreflect-rag[offline].",
    "inference": "Give a judge of entailment (judge=…), or install selfreflect-rag[offline] for the critic.",
}
"""For needs that no language model serves."""

_GATE_NEEDS: dict[Gate, tuple[str, ...]] = {
    "dragin": ("attention", "token_statistics", "token_logprobs"),
    "flare": ("token_logprobs",),
    "uncertainty": (),
}
"""Gates in the order in which one stands in for the one before it."""


def form_of(settings: SelfReflectSettings) -> Form:
    """Name what the settings' pipeline measures; SeaKR answers simple questions with a chain of thought (paper)."""
    if settings.pipeline != "seakr":
        return "answer"
    if settings.seakr.multi_hop:
        return "step"
    return "answer" if settings.seakr.published.follows_code else "thought"


@dataclass(frozen=True, slots=True)
class ChosenEstimator:
    """An estimator as chosen for a model, with how to sample for it.

    Attributes:
        estimator: the one to go by; ``also``: further ones, fed by the same samples.
        reason: why this one, for the trace.
        comparer: who compares meanings; ``None`` if nobody can.
        judge: whether there is a judge of entailment; where not, the critic is asked whether one word entails another.
        measured: a cache of measurements with the same models, keyed by all that decides their outcome (``measure``).
        layers: number of the model's decoder layers, where known.
    """

    estimator: Estimator
    reason: str
    options: SeakrSettings
    abilities: frozenset[str]
    judge: bool = False
    comparer: Comparer | None = "embedder"
    seed: int | None = 0
    also: tuple[Estimator, ...] = ()
    form: Form = "answer"
    measured: dict[Hashable, object] | None = field(default=None, compare=False, repr=False)
    layers: int | None = None

    @property
    def binding(self) -> dict[str, str | int | float | None]:
        """Bind its calibration, beside the model, to prompts, samples and statistics."""
        # None where a setting has no influence on this estimator: then a calibration holds whatever it is.
        sampled = self.estimator.cost >= Cost.SAMPLES
        hidden = "hidden_states" in self.estimator.needs
        compared = bool(self.estimator.needs & _COMPARED)
        inferred = "inference" in self.estimator.needs
        options = self.options
        return {
            "estimator": self.estimator.name,
            "form": self.form,
            "demonstrations": self._demonstrations,
            "k": options.samples if sampled else None,
            "temperature": options.published.temperature if sampled else None,
            "top_p": options.published.top_p if sampled else None,
            "sample_top_k": options.published.top_k_sampling if sampled else None,
            "meanings": self.comparer if compared else self.inferring if inferred else None,
            "layer": self._layer if hidden else None,
            "hidden": options.published.hidden if hidden else None,
            "position": _POSITIONS[options.published.position] if hidden else None,
            "alpha": options.published.alpha if hidden else None,
            "max_step_tokens": options.max_step_tokens,
        }

    @property
    def _layer(self) -> int | str:
        """The layer by its number: which one a backend takes by default may change, and its states with it."""
        if self.options.published.layer is not None:
            return self.options.published.layer
        return "middle" if self.layers is None else middle_layer(self.layers)

    @property
    def inferring(self) -> Literal["judge", "critic"]:
        """Name the judge of whether one word entails another."""
        return "judge" if self.judge else "critic"

    @property
    def _demonstrations(self) -> str:
        own = self.options.demonstrations
        if own:
            # A digest, so that files of calibrations hold none of the app's examples.
            return "own " + hashlib.sha256("\n".join(d.render() for d in own).encode()).hexdigest()[:12]
        return self.options.published.task if self.form == "step" else "simple"


def choose_estimator(
    settings: SelfReflectSettings,
    context: Abilities,
    *,
    also: Sequence[str] = (),
    form: Form = "answer",
) -> ChosenEstimator:
    """The estimator of the settings if the model can serve it, else the next best if the settings allow that.

    Raises:
        CapabilityError: there is no model, or it lacks what the estimator needs and ``allow_fallback`` is off.
        InputError: there is no estimator of that name.
    """
    options = settings.seakr
    model = context.model("default")
    if model is None:
        raise CapabilityError("text", "none", hint="Uncertainty needs a language model: SelfReflectEngine(…, lm=…).")
    comparer = choose_comparer(settings, context)
    # The user's own judge counts, unless the settings name somebody else.
    judged = context.scorer is not None and options.meanings in ("auto", "judge")
    # Comparing meanings is an ability too, though another model has it than the one that writes.
    names = list(model.names())
    if comparer is not None:
        names.append("similarity")
    # Not by an embedder: cosines have no direction, and "1871" lies near "1872".
    if judged or (context.critic is not None and options.meanings in ("auto", "critic")):
        names.append("entailment")
    within = names
    if options.meanings == "auto" and not judged and get_estimator(options.estimator).missing(names):
        # What stands in is not to cost more than what was asked for: the critic compares pairs one by one.
        within = [*model.names(), *(["similarity"] if context.has_embedder else [])]
    estimator, reason = best_available(within, options.estimator)
    if estimator.name != options.estimator and not options.allow_fallback:
        missing = get_estimator(options.estimator).missing(names)
        way_out = _WAYS_OUT.get("similarity" if missing[0] in _COMPARED else missing[0], "Use another model.")
        raise CapabilityError(
            missing[0],
            context.model_name("default"),
            hint=f"{way_out.removesuffix('.')}, or set seakr.allow_fallback=True.",
        )
    # Further estimators are for comparisons: one that the model cannot serve is no error.
    extra = tuple(get_estimator(n) for n in also if get_estimator(n).available(names))
    abilities, known = frozenset(model.names()), context.measured
    chosen = ChosenEstimator(
        estimator, reason, options, abilities, judged, comparer, settings.seed, extra, form, known, model.layers
    )
    # The binding knows whether this estimator compares meanings at all.
    if chosen.binding["meanings"] == "critic":
        reason += f"; {context.critic} judges what texts mean, as no model of entailment is at hand"
        chosen = dataclasses.replace(chosen, reason=reason)
    return chosen


def choose_comparer(settings: SelfReflectSettings, context: Abilities) -> Comparer | None:
    """Choose who compares meanings: the one named (``None`` if it is not there), else judge, embedder or critic."""
    # In the order of preference, which `auto` follows.
    there: dict[Comparer, bool] = {
        "judge": context.scorer is not None,
        "embedder": context.has_embedder,
        "critic": context.critic is not None,
    }
    wanted = settings.seakr.meanings
    if wanted != "auto":
        return wanted if there[wanted] else None
    return next((comparer for comparer, has in there.items() if has), None)


def choose_gate(settings: SelfReflectSettings, context: Abilities) -> tuple[Gate, str]:
    """The gate of the settings if the model can serve it, else the next best (DRAGIN, FLARE, uncertainty), and why.

    CapabilityError if the model lacks what the gate needs and ``allow_fallback`` is off.
    """
    wanted = settings.seakr.gate
    if wanted == "always":
        return wanted, "the gate is always open"
    model = context.model("default")
    # Without a model the last gate is chosen, which needs nothing; `choose_estimator` then refuses.
    abilities = set(model.names()) if model is not None else set()
    missing = [n for n in _GATE_NEEDS[wanted] if n not in abilities]
    if not missing:
        return wanted, f"gate {wanted} as asked for"
    if not settings.seakr.allow_fallback:
        raise CapabilityError(
            missing[0], context.model_name("default"), hint="Use another model, or set seakr.allow_fallback=True."
        )
    # From the most to the least demanding; the last needs nothing of the model, so one is always found.
    order = list(_GATE_NEEDS)
    rest = order[order.index(wanted) + 1 :]
    found = next(g for g in rest if abilities.issuperset(_GATE_NEEDS[g]))
    return found, f"gate {wanted} needs {missing[0].replace('_', ' ')}, which cannot be had here; {found} instead"


@dataclass(frozen=True, slots=True)
class Threshold:
    """From which uncertainty on to retrieve; ``value`` is ``None`` where none is known (then always).

    A calibrated one also asks that the model is probably right: a threshold that separates known from unknown as well
    as can be may still let answers through that are more often wrong than right.
    """

    value: float | None
    source: str
    calibration: Calibration | None = None
    target: float = 0.0

    def decide(self, uncertainty: float) -> tuple[bool, str]:
        """Whether to retrieve, and why. Unknown uncertainty, or no threshold: yes."""
        if self.value is None:
            return True, self.source
        # +inf is unknown, not very uncertain; both retrieve, but the trace tells them apart.
        if not math.isfinite(uncertainty):
            return True, "the uncertainty is unknown"
        # U > δ as in the paper: at the threshold itself the gate stays shut.
        if uncertainty > self.value:
            return True, f"uncertainty {uncertainty:.3f} > {self.value:.3f}"
        right = self.calibration.probability(uncertainty) if self.calibration is not None else None
        if right is not None and right <= self.target:
            return True, f"at uncertainty {uncertainty:.3f} the model is right with p = {right:.2f} ≤ {self.target:g}"
        return False, f"uncertainty {uncertainty:.3f} ≤ {self.value:.3f}"

    @property
    def decides(self) -> bool:
        """Whether any uncertainty would keep the gate shut: only then is it worth measuring."""
        return self.value is not None


def choose_threshold(chosen: ChosenEstimator, settings: SelfReflectSettings, context: Abilities) -> Threshold:
    """The settings' threshold, else the calibrated one, else none.

    The settings' threshold counts for the settings' estimator only, not for one that replaces it. The paper's
    (-6, for Llama 2 7B) is nobody's default: scores depend on model, layer and way of sampling, and below a threshold
    of another model a model that knows nothing would never look anything up.

    Raises:
        CalibrationError: the calibration is of another model or way of sampling.
    """
    options = settings.seakr
    if options.gate in ("flare", "dragin"):
        # `decide_retrieval` compares tokens or words with it by itself; here it only says that the gate decides.
        value = options.published.flare_threshold if options.gate == "flare" else options.published.dragin_threshold
        return Threshold(value, f"{options.gate}'s, from the settings")
    if options.gate == "always":
        return Threshold(None, "the gate is always open")
    name = chosen.estimator.name
    # Thresholds of two estimators are not on one scale.
    if options.threshold is not None and name == options.estimator:
        return Threshold(options.threshold, "settings")
    calibration = context.calibrations.get("gate")
    if calibration is not None:
        calibration.require(model=context.model_identity("default"), **chosen.binding)
        # No threshold reached the target accuracy: answering from memory is never accurate enough.
        if calibration.threshold is None:
            return Threshold(None, "by the calibration the model knows enough at no uncertainty: retrieving always")
        source = f"calibrated on {calibration.n} questions"
        return Threshold(calibration.threshold, source, calibration, settings.target_accuracy)
    return Threshold(
        None,
        f"no threshold is known for {name} with this model: retrieving without measuring; "
        "run `selfreflect calibrate gate`",
    )


def estimator_report(chosen: ChosenEstimator, threshold: Threshold, run: QuestionRun, gate: str = "") -> Report:
    """The trace entry that names the estimator and the threshold, where they are from, and (``gate``) which gate."""
    source = f"threshold: {threshold.source}" if threshold.decides else threshold.source
    reason = "; ".join(part for part in (chosen.reason, gate, source) if part)
    return run.note("estimator", chosen.estimator.name, reason, threshold=threshold.value)


def with_served_gate(run: QuestionRun) -> tuple[QuestionRun, str]:
    """The run with the gate that its model can serve, which all that follows reads off the settings; and why."""
    gate, why = choose_gate(run.settings, run.abilities)
    options = run.settings.seakr
    if gate == options.gate:
        return run, why
    return dataclasses.replace(run, settings=run.settings.replace(seakr=options.replace(gate=gate))), why


def answer_binding(
    chosen: ChosenEstimator, settings: SelfReflectSettings, context: Abilities
) -> dict[str, BindingValue]:
    """Bind a calibration of answers to the model, the estimator and the way answers are made."""
    options = settings.seakr
    reasoning = "published_code" if options.published.measures_answer else "paper"
    return {
        "model": context.model_identity("default"),
        "pipeline": settings.pipeline,
        **chosen.binding,
        "gate": options.gate,
        "rerank_passages": options.rerank_passages,
        # Only answers of several steps are averaged over these (section 3.3).
        "reasoning": reasoning if chosen.form == "step" else None,
        "published": options.published.form,
    }


def most_replies(settings: SelfReflectSettings) -> int:
    """The replies that a question may take where uncertainty is measured by samples.

    Each step measures its draft and one continuation for each passage compared: a greedy reply and ``samples`` others.
    Two more measurements choose between both ways to reason at the end of several steps.
    """
    options = settings.seakr
    steps = options.max_steps if options.multi_hop else 1
    measured = steps * (1 + options.rerank_passages) + (2 if options.multi_hop else 0)
    return measured * (1 + options.samples)


def warn_of_cost(chosen: ChosenEstimator, settings: SelfReflectSettings, model: str) -> None:
    """Say what a question may take, where samples have to be written out because the model gives only text."""
    if chosen.estimator.cost >= Cost.SAMPLES and "token_logprobs" not in chosen.abilities:
        _warn(model, chosen.options.samples, most_replies(settings))


@cache  # once in a process for each model and cost, not for each question
def _warn(model: str, samples: int, most: int) -> None:
    _LOG.warning(
        "%s gives nothing but text: SeaKR measures its uncertainty by %d samples of everything it writes, up to %d "
        "replies a question. Lower seakr.samples or seakr.max_steps, set max_calls or max_tokens, calibrate a gate, "
        "or use pipeline=composed.",
        model,
        samples,
        most,
    )
