"""Utility and abstention of the composed engine, each paper's pipeline, and always or never retrieving."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.lab.measure.setting import Counts, Figures, Lab, answers_of, as_asked, mean, shown, worth
from shared_core.calibration.stack import AnyCalibration
from shared_core.errors import CalibrationError
from shared_core.evaluation import fitting
from shared_core.evaluation.metrics.confidence import auroc, expected_calibration_error
from shared_core.lab.questions import UNANSWERABLE, Question
from shared_core.lab.setup import PIPELINES, is_right, lab_settings, measure_answers
from shared_core.lab.world import World
from shared_core.settings import PipelineName, SelfReflectSettings
from shared_core.types import Answer

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A pipeline's settings, and the calibrations fitted for them on the tuning split."""

    settings: SelfReflectSettings
    calibrations: Mapping[str, AnyCalibration]

    def without(self, *purposes: str) -> Fitted:
        """Return the same without some of the calibrations."""
        return Fitted(self.settings, {k: v for k, v in self.calibrations.items() if k not in purposes})


def fit(lab: Lab, pipeline: PipelineName, counts: Counts) -> Fitted:
    """Fit a pipeline's calibrations on questions of the tuning split: claims, or for SeaKR gate and answer."""
    settings = lab_settings(pipeline)
    tune = as_asked(lab.mixture(counts.fit, "tune"))
    engine = lab.engine(settings)
    found: dict[str, AnyCalibration] = {}
    if pipeline in ("composed", "seakr"):
        recalled = as_asked(lab.singles(counts.fit, "tune"))
        gate = fitting.fit("gate", engine, recalled).calibration
        found["gate"] = gate
        some = tune[:: 2 if pipeline == "seakr" else 1]
        asked = some if pipeline == "seakr" else recalled
        found["answer"] = fitting.fit("answer", engine, asked, fitting.FitOptions(gate=gate)).calibration
    if pipeline != "seakr":
        with contextlib.suppress(CalibrationError):  # if nearly all its claims are alike, the uncalibrated rule stays
            found["claims"] = fitting.fit("claims", engine, tune).calibration
    return Fitted(settings, found)


def ask(lab: Lab, fitted: Fitted, questions: Sequence[Question]) -> list[Answer]:
    """Answer questions with the fitted pipeline."""
    return answers_of(lab.engine(fitted.settings, fitted.calibrations), questions)


def compare(lab: Lab, counts: Counts, say: Say = lambda line: None) -> tuple[Figures, dict[PipelineName, Fitted]]:
    """Measure utility, accuracy and coverage of every pipeline at ρ* = .5, on the same questions of the test split.

    Returns:
        Figures, and the fitted pipelines.
    """
    questions = lab.mixture(counts.compare, "test")
    figures: Figures = {}
    every: dict[PipelineName, Fitted] = {}
    for pipeline in PIPELINES:
        every[pipeline] = fit(lab, pipeline, counts)
        answers = ask(lab, every[pipeline], questions)
        figures |= outcome(pipeline, [shown(a) for a in answers], questions)
        figures[f"calls_{pipeline}"] = mean(a.usage.calls for a in answers)
        figures[f"tokens_{pipeline}"] = mean(a.usage.prompt_tokens + a.usage.generated_tokens for a in answers)
        say(f"{pipeline}: utility {figures[f'utility_{pipeline}']:.3f}")
    composed = every["composed"]
    always = ask(lab, composed.without("gate", "answer"), questions)
    figures |= outcome("always", [shown(a) for a in always], questions)
    figures |= outcome("never", [m.text for m in measure_answers(lab, questions)], questions)
    more = lab.mixture(counts.confidence, "test")
    figures |= _confidence(ask(lab, composed, more), more)
    return figures | abstention(lab, composed, counts), every


def outcome(name: str, texts: Sequence[str], questions: Sequence[Question]) -> Figures:
    """Return ``utility_NAME``, ``kept_accuracy_NAME`` (of shown answers) and ``coverage_NAME`` (share answered)."""
    answered = [(t, q) for t, q in zip(texts, questions) if t]
    return {
        f"utility_{name}": mean(worth(t, q) for t, q in zip(texts, questions)),
        f"kept_accuracy_{name}": mean(is_right(t, q) for t, q in answered),
        f"coverage_{name}": len(answered) / len(questions),
    }


def _surest(answer: Answer) -> tuple[float, str]:
    """Return support and text of the surest claim, kept or not, so that the target plays no part."""
    if answer.confidence is not None and not answer.abstained:
        return answer.confidence, shown(answer)
    best = max(answer.claims, key=lambda c: c.support if c.support is not None else -1.0, default=None)
    return (best.support or 0.0, best.short_answer or best.text) if best is not None else (0.0, "")


def _confidence(answers: Sequence[Answer], questions: Sequence[Question]) -> Figures:
    """Measure AUROC and calibration error of the composed confidence."""
    pairs = [_surest(a) for a in answers]
    sure = [p for p, _ in pairs]
    right = [float(is_right(text, q)) for (_, text), q in zip(pairs, questions)]
    both = 0 < sum(right) < len(right)
    return {"auroc_composed": auroc(sure, right) if both else math.nan, "ece": expected_calibration_error(sure, right)}


def abstention(lab: Lab, fitted: Fitted, counts: Counts) -> Figures:
    """Measure abstention on invented names and other unanswerable questions, and on answerable ones."""
    figures: Figures = {}
    invented = lab.questions(("invented",), counts.unanswerable // 2, "test", name="abstain")
    figures["abstention_invented"] = mean(a.abstained for a in ask(lab, fitted, invented))
    without = lab.questions(UNANSWERABLE, counts.unanswerable, "test", name="abstain")
    found = ask(lab, fitted, without)
    figures["abstention_unanswerable"] = mean(a.abstained for a in found)
    for kind in UNANSWERABLE:
        figures[f"abstention_{kind}"] = mean(a.abstained for a, q in zip(found, without) if q.kind == kind)
    singles = lab.questions(("single",), counts.unanswerable, "test", name="lost")
    answers = ask(lab, fitted, singles)
    figures["answerable_lost"] = mean(a.abstained for a in answers)
    return figures


def other_world(lab: Lab, fitted: Fitted, counts: Counts, seed: int) -> Figures:
    """Measure the fitted composed pipeline on a world with other names."""
    names = [e.name for e in lab.world.entities]
    other = Lab(World(seed, size=0.5, avoid=names), lab.lm, lab.seed)
    questions = other.mixture(counts.confidence, "test")
    answers = ask(other, fitted, questions)
    figures = {**outcome("other_seed", [shown(a) for a in answers], questions), **_confidence(answers, questions)}
    renamed = {"ece": "ece_other_seed", "auroc_composed": "auroc_composed_other_seed"}
    return {renamed.get(name, name): value for name, value in figures.items()}
