"""ReClaim (Xia et al. 2024): every claim after a quote that decoding forces to be verbatim."""

from shared_core.pipelines.reclaim.loop import reclaim

__all__ = ["reclaim"]
