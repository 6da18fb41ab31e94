"""Retrievers, embedding and document loading.

Names are loaded when first used, so that importing this package stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shared_core.retrieval.base import Embedder, Index, Retriever, Where
    from shared_core.retrieval.bm25 import BM25Retriever
    from shared_core.retrieval.chroma import ChromaRetriever
    from shared_core.retrieval.chunking import chunk_document
    from shared_core.retrieval.dense import DenseRetriever
    from shared_core.retrieval.documents import Document, load_document
    from shared_core.retrieval.embedding import MiniLMEmbedder
    from shared_core.retrieval.filters import compile_filter
    from shared_core.retrieval.hybrid import HybridRetriever
    from shared_core.retrieval.scan import iter_documents
    from shared_core.retrieval.store import DocumentIndex, IndexSettings
    from shared_core.retrieval.tokenizer import Tokenizer

_HOME = {
    "BM25Retriever": "bm25",
    "ChromaRetriever": "chroma",
    "DenseRetriever": "dense",
    "Document": "documents",
    "DocumentIndex": "store",
    "Embedder": "base",
    "HybridRetriever": "hybrid",
    "Index": "base",
    "IndexSettings": "store",
    "MiniLMEmbedder": "embedding",
    "Retriever": "base",
    "Tokenizer": "tokenizer",
    "Where": "base",
    "chunk_document": "chunking",
    "compile_filter": "filters",
    "iter_documents": "scan",
    "load_document": "documents",
}

__all__ = [
    "BM25Retriever",
    "ChromaRetriever",
    "DenseRetriever",
    "Document",
    "DocumentIndex",
    "Embedder",
    "HybridRetriever",
    "Index",
    "IndexSettings",
    "MiniLMEmbedder",
    "Retriever",
    "Tokenizer",
    "Where",
    "chunk_document",
    "compile_filter",
    "iter_documents",
    "load_document",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
