"""Compare several configurations on the same questions, with intervals and paired differences."""

from shared_core.evaluation.compare.figures import Estimate
from shared_core.evaluation.compare.outcomes import ComparisonRow, Measure
from shared_core.evaluation.compare.page import Comparison
from shared_core.evaluation.compare.run import FigureOptions, Shard, compare, merge, missing_shards

__all__ = [
    "Comparison", "ComparisonRow", "Estimate", "FigureOptions", "Measure", "Shard", "compare", "merge",
    "missing_shards",
]  # fmt: skip
