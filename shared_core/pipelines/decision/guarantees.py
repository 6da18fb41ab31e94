"""Drift from a calibration's questions: its signals, and the entries in trace and metadata, a guarantee's included."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from shared_core.calibration import DriftWatch, FittedGuarantee
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.runtime.flow import Flow

UNKNOWN = -1.0
"""The value of an unknown figure among the signals: more unknown figures than before are drift like any other."""


def signals_of(question: str, supports: Sequence[float | None], answerable: float | None) -> dict[str, float]:
    """Describe a question and its claims in figures whose distribution stays the same while the questions do."""
    known = [s for s in supports if s is not None]
    return {
        "best support": max(known, default=UNKNOWN),
        "mean support": sum(known) / len(known) if known else UNKNOWN,
        "claims": float(len(supports)),
        "answerable": UNKNOWN if answerable is None else answerable,
        "words of the question": float(len(question.split())),
    }


def note_drift(
    question: str, supports: Sequence[float | None], answerable: float | None, run: QuestionRun
) -> Flow[None]:
    """Add the question to the drift watch, and note in the trace if a calibration or guarantee is in doubt."""
    guarantee, watch = run.guarantee, run.abilities.drift
    # Exchangeability with the calibration's questions is the one assumption of every conformal promise (Vovk et al.
    # 2005), and it cannot be proved; drift in these signals refutes it.
    if watch is not None:
        watch.see(signals_of(question, supports, answerable))
    drifted = watch.drifted if watch is not None else {}
    if guarantee is None:
        if drifted:
            why = f"questions differ from the calibration's in {', '.join(drifted)}: calibrate again"
            yield run.note("drift", "the calibration is in doubt", why)
        return
    yield run.note(
        "guarantee",
        "in doubt" if drifted else "vacuous" if guarantee.vacuous else "holds",
        f"questions differ from the calibration's in {', '.join(drifted)}" if drifted else guarantee.kind,
        threshold=guarantee.threshold if math.isfinite(guarantee.threshold) else None,
        n=guarantee.n,
        kept_share=guarantee.kept_share,
    )


def describe_guarantee(guarantee: FittedGuarantee, watch: DriftWatch | None) -> dict[str, Any]:
    """Describe the promise, its conditions, and whether recent questions still look like the calibration's."""
    described = guarantee.describe()
    drifted = watch.drifted if watch is not None else {}
    if drifted:
        described["text"] = (
            f"In doubt: the questions last asked differ from the calibration's in {', '.join(drifted)}, so it may not "
            f"hold for them. {described['text']}"
        )
    return {**described, "holds": not drifted, "drift": drifted, "checked": watch.checked if watch is not None else 0}
