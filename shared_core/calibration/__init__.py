"""Turn scores into probabilities: fitted curves and stacks, thresholds, guarantees, drift, and their files.

A calibration is bound to the configuration it was fitted for (``binding``) and refused by any other.
"""

from __future__ import annotations

from shared_core.calibration.calibration import Calibration, choose_threshold, fit_calibration
from shared_core.calibration.guarantees import GUARANTEES, DriftWatch, FittedGuarantee, fit_guarantee, two_sample_p
from shared_core.calibration.replies import FittedReplies
from shared_core.calibration.stack import Stack, fit_stack

__all__ = [
    "GUARANTEES", "Calibration", "DriftWatch", "FittedGuarantee", "FittedReplies", "Stack", "choose_threshold",
    "fit_calibration", "fit_guarantee", "fit_stack", "two_sample_p",
]  # fmt: skip
