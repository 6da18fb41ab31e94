"""SeaKR (Yao et al. 2024): adaptive retrieval, re-ranking and reasoning by a model's uncertainty."""

from shared_core.pipelines.seakr.loop import seakr

__all__ = ["seakr"]
