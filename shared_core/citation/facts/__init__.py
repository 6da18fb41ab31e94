"""Compare the facts of a claim with its evidence: numbers, dates, units, names, negations, roles, added clauses.

By words and numbers alone: no model, no training, any language written with spaces (others: numbers and dates only).
"""

from shared_core.citation.facts.compare import compare_claim
from shared_core.citation.facts.mismatches import (
    IMPLIED_AT_LEAST,
    MISSING_AT_MOST,
    REFUTED_AT_MOST,
    Comparison,
    Mismatch,
)

__all__ = ["IMPLIED_AT_LEAST", "MISSING_AT_MOST", "REFUTED_AT_MOST", "Comparison", "Mismatch", "compare_claim"]
