"""Read question files, run an engine over them, and measure, plot and report the answers.

All scores are in [0, 1]; published tables often show them times 100.
"""

from shared_core.evaluation.baselines import Plain
from shared_core.evaluation.compare import Comparison, Estimate, compare, merge
from shared_core.evaluation.dataset import Question, read_questions
from shared_core.evaluation.judging import Record
from shared_core.evaluation.metrics.alce import (
    CitationScores,
    alce_citation_scores,
    cited_numbers,
    claim_recall,
    remove_citations,
)
from shared_core.evaluation.metrics.confidence import (
    ReliabilityBins,
    RiskCoverage,
    SelfRestraint,
    accuracy_at,
    aurc,
    auroc,
    brier_score,
    expected_calibration_error,
    prediction_rejection_ratio,
    recall_at_k,
    reliability_bins,
    risk_coverage_curve,
    self_restraint,
)
from shared_core.evaluation.metrics.qa import (
    alce_string_match,
    contains_answer,
    exact_match,
    f1,
    normalize_answer,
    rouge_lsum,
    str_em,
)
from shared_core.evaluation.metrics.reclaim import (
    Pair,
    ReclaimScores,
    attribution_ratio,
    citation_length,
    consistency_ratio,
    reclaim_citation_scores,
)
from shared_core.evaluation.runner import Evaluation, evaluate

__all__ = [
    "CitationScores", "Comparison", "Estimate", "Evaluation", "Pair", "Plain", "Question", "ReclaimScores", "Record",
    "ReliabilityBins", "RiskCoverage", "SelfRestraint", "accuracy_at", "alce_citation_scores", "alce_string_match",
    "attribution_ratio", "aurc", "auroc", "brier_score", "citation_length", "cited_numbers", "claim_recall",
    "compare", "consistency_ratio", "contains_answer", "evaluate", "exact_match", "expected_calibration_error", "f1",
    "merge", "normalize_answer", "prediction_rejection_ratio", "read_questions", "recall_at_k",
    "reclaim_citation_scores", "reliability_bins", "remove_citations", "risk_coverage_curve", "rouge_lsum",
    "self_restraint", "str_em",
]  # fmt: skip
