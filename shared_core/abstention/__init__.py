"""Claims, utility, conformal thresholds: what to say, and when to say nothing."""

from __future__ import annotations

from typing import Any

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
from shared_core.abstention.utility import (
    Selection,
    expected_utility,
    keep_claims,
    penalty,
    realised_utility,
    select_answer,
)
from shared_core.support.moved import moved_name

__all__ = [
    "CalibratedThreshold", "ClaimCache", "ClaimSpan", "Guarantee", "Selection", "SelfConsistency", "claim_key",
    "conformal_factuality_threshold", "expected_utility", "factuality_scores", "keep_claims",
    "learn_then_test_threshold", "parse_probability", "penalty", "random_subsets", "realised_utility",
    "risk_control_threshold", "select_answer", "self_consistency", "split_claims", "unique_claims",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    return moved_name(__name__, name)
