"""Fit calibrations on labelled questions: ``fit("claims", engine, questions)``."""

from shared_core.evaluation.fitting.asking import FitOptions
from shared_core.evaluation.fitting.budget import Budget, Prices
from shared_core.evaluation.fitting.fit import Fitted, estimate, fit, measure_replies
from shared_core.evaluation.fitting.purposes import PURPOSES
from shared_core.evaluation.fitting.replies import built_in_questions
from shared_core.evaluation.judging import ClaimLabels, read_labelled_claims

__all__ = [
    "PURPOSES", "Budget", "ClaimLabels", "FitOptions", "Fitted", "Prices", "built_in_questions", "estimate", "fit",
    "measure_replies", "read_labelled_claims",
]  # fmt: skip
