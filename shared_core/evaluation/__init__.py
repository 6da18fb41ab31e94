"""Metrics, reading question files, running an engine over them, plots and reports.

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
from shared_core.evaluation.metrics.answers import (
    alce_string_match,
    best_no_answer_threshold,
    contains_answer,
    exact_match,
    f1,
    hotpot_f1,
    list_answer_scores,
    normalize_answer,
    str_em,
    supporting_facts,
)
from shared_core.evaluation.metrics.confidence import (
    ReliabilityBins,
    RiskCoverage,
    accuracy_at,
    aurc,
    auroc,
    brier_score,
    expected_calibration_error,
    prediction_rejection_ratio,
    recall_at_k,
    reliability_bins,
    risk_coverage_curve,
)
from shared_core.evaluation.metrics.generation import mauve, rouge_lsum
from shared_core.evaluation.metrics.reclaim import (
    Pair,
    ReclaimScores,
    attribution_ratio,
    citation_length,
    consistency_ratio,
    reclaim_citation_scores,
)
from shared_core.evaluation.metrics.self_restraint import SelfRestraint, over_targets, self_restraint, self_restraint_by
from shared_core.evaluation.runner import Evaluation, evaluate

__all__ = [
    "CitationScores",
    "Comparison",
    "Estimate",
    "Evaluation",
    "Pair",
    "Plain",
    "Question",
    "ReclaimScores",
    "Record",
    "ReliabilityBins",
    "RiskCoverage",
    "SelfRestraint",
    "accuracy_at",
    "alce_citation_scores",
    "alce_string_match",
    "attribution_ratio",
    "aurc",
    "auroc",
    "best_no_answer_threshold",
    "brier_score",
    "citation_length",
    "cited_numbers",
    "claim_recall",
    "compare",
    "consistency_ratio",
    "contains_answer",
    "evaluate",
    "exact_match",
    "expected_calibration_error",
    "f1",
    "hotpot_f1",
    "list_answer_scores",
    "mauve",
    "merge",
    "normalize_answer",
    "over_targets",
    "prediction_rejection_ratio",
    "read_questions",
    "recall_at_k",
    "reclaim_citation_scores",
    "reliability_bins",
    "remove_citations",
    "risk_coverage_curve",
    "rouge_lsum",
    "self_restraint",
    "self_restraint_by",
    "str_em",
    "supporting_facts",
]
