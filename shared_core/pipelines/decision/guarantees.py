"""What a guarantee sees of an answer, and what the answer says of the guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shared_core.calibration import DriftWatch, FittedGuarantee

UNKNOWN = -1.0
"""Stands for an unknown figure among signals, so that more unknown ones are a change like another."""


def signals_of(question: str, supports: Sequence[float | None], answerable: float | None) -> dict[str, float]:
    """What a question and the claims found for it look like, in figures that stay alike while questions do."""
    known = [s for s in supports if s is not None]
    return {
        "best support": max(known, default=UNKNOWN),
        "mean support": sum(known) / len(known) if known else UNKNOWN,
        "claims": float(len(supports)),
        "answerable": UNKNOWN if answerable is None else answerable,
        "words of the question": float(len(question.split())),
    }


def tell(guarantee: FittedGuarantee, watch: DriftWatch | None) -> dict[str, Any]:
    """For ``Answer.metadata["guarantee"]``: which holds, its conditions, and whether the questions still look alike."""
    told = guarantee.describe()
    drifted = watch.drifted if watch is not None else {}
    if drifted:
        told["text"] = (
            f"In doubt: the questions last asked differ from the calibration's in {', '.join(drifted)}, so it may not "
            f"hold for them. {told['text']}"
        )
    return {**told, "holds": not drifted, "drift": drifted, "checked": watch.checked if watch is not None else 0}
