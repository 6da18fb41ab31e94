"""Retrievers of passages, and the encoder behind them.

Names are loaded when first used, so that importing this package stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared_core.support.moved import lazy_names

if TYPE_CHECKING:
    from shared_core.retrieval.base import Embedder, Retriever, Where
    from shared_core.retrieval.bm25 import BM25Retriever
    from shared_core.retrieval.chroma import ChromaRetriever
    from shared_core.retrieval.dense import DenseRetriever
    from shared_core.retrieval.embedding import MiniLMEmbedder
    from shared_core.retrieval.filters import compile_filter
    from shared_core.retrieval.hybrid import HybridRetriever
    from shared_core.retrieval.tokenizer import Tokenizer

_HOME = {
    "BM25Retriever": "bm25", "ChromaRetriever": "chroma", "DenseRetriever": "dense", "Embedder": "base",
    "HybridRetriever": "hybrid", "MiniLMEmbedder": "embedding", "Retriever": "base",
    "Tokenizer": "tokenizer", "Where": "base", "compile_filter": "filters",
}  # fmt: skip

__all__ = [
    "BM25Retriever", "ChromaRetriever", "DenseRetriever", "Embedder", "HybridRetriever", "MiniLMEmbedder",
    "Retriever", "Tokenizer", "Where", "compile_filter",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__, __all__, _HOME)
