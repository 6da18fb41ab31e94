"""Self-RAG (Asai et al. 2023): retrieve on demand, write segment by segment, and criticise each while writing."""

from shared_core.pipelines.self_rag.loop import self_rag

__all__ = ["self_rag"]
