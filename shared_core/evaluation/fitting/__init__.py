"""Fit calibrations on labelled questions: ``fit("claims", engine, questions)``."""

from shared_core.evaluation.fitting.fit import PURPOSES, FitOptions, Fitted, fit
from shared_core.evaluation.fitting.labels import ClaimLabels, read_labelled_claims

__all__ = ["PURPOSES", "ClaimLabels", "FitOptions", "Fitted", "fit", "read_labelled_claims"]
