"""LangChain plugin: translation only, no policy.

``SelfReflectChain`` answers, ``SelfReflectChecker`` checks what another chain answered, ``SelfReflectRetriever``
retrieves where needed, ``SelfReflectCompressor`` re-ranks, and ``LangChainLM`` lets the core speak to a LangChain chat
model.
"""

from __future__ import annotations

try:
    import langchain_core as _  # noqa: F401
except ImportError as error:
    from shared_core.errors import MissingDependencyError

    raise MissingDependencyError("langchain-core", extra="langchain", purpose="langchain_selfreflect") from error

from langchain_selfreflect.chain import SelfReflectChain
from langchain_selfreflect.checker import SelfReflectChecker
from langchain_selfreflect.compressor import CompressionRetriever, SelfReflectCompressor
from langchain_selfreflect.embeddings import MiniLMEmbeddings
from langchain_selfreflect.lm import LangChainLM
from langchain_selfreflect.retriever import SelfReflectRetriever
from langchain_selfreflect.sourced import SourcedAnswer, SourcedChain

__all__ = [
    "CompressionRetriever",
    "LangChainLM",
    "MiniLMEmbeddings",
    "SelfReflectChain",
    "SelfReflectChecker",
    "SelfReflectCompressor",
    "SelfReflectRetriever",
    "SourcedAnswer",
    "SourcedChain",
]
