"""Claims, utility, conformal thresholds: what to say, and when to say nothing."""

from shared_core.abstention.claims import (
    ClaimCache,
    ClaimSpan,
    SelfConsistency,
    claim_key,
    parse_probability,
    random_subsets,
    self_consistency,
    split_claims,
    unique_claims,
)
from shared_core.abstention.conformal import (
    CalibratedThreshold,
    Guarantee,
    conformal_factuality_threshold,
    factuality_scores,
    learn_then_test_threshold,
    risk_control_threshold,
)
from shared_core.abstention.drift import DriftWatch, two_sample_p
from shared_core.abstention.guarantees import GUARANTEES, FittedGuarantee, fit_guarantee
from shared_core.abstention.utility import (
    Selection,
    claim_gain,
    expected_utility,
    keep_claims,
    penalty,
    realised_utility,
    select_answer,
)

__all__ = [
    "GUARANTEES",
    "CalibratedThreshold",
    "ClaimCache",
    "ClaimSpan",
    "DriftWatch",
    "FittedGuarantee",
    "Guarantee",
    "Selection",
    "SelfConsistency",
    "claim_gain",
    "claim_key",
    "conformal_factuality_threshold",
    "expected_utility",
    "factuality_scores",
    "fit_guarantee",
    "keep_claims",
    "learn_then_test_threshold",
    "parse_probability",
    "penalty",
    "random_subsets",
    "realised_utility",
    "risk_control_threshold",
    "select_answer",
    "self_consistency",
    "split_claims",
    "two_sample_p",
    "unique_claims",
]
