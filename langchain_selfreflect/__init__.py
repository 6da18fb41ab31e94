"""LangChain plugin: translation only, no policy.

``SelfReflectChain`` answers, ``SelfReflectChecker`` checks what another chain answered, ``SelfReflectRetriever``
retrieves where needed, ``SelfReflectCompressor`` re-ranks, ``SelfReflectLoader`` reads files, and ``LangChainLM`` lets
the core speak to a LangChain chat model. ``SelfReflectMiddleware`` checks the answers of an agent; it needs the package
``langchain`` and is loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from shared_core.support.moved import lazy_names

if TYPE_CHECKING:
    from langchain_selfreflect.loader import SelfReflectLoader as SelfReflectLoader
    from langchain_selfreflect.middleware import SelfReflectMiddleware as SelfReflectMiddleware

__all__ = [
    "CompressionRetriever", "LangChainLM", "MiniLMEmbeddings", "SelfReflectChain", "SelfReflectChecker",
    "SelfReflectCompressor", "SelfReflectLoader", "SelfReflectRetriever", "SourcedAnswer", "SourcedChain",
]  # fmt: skip

_LAZY = {"SelfReflectLoader": "loader", "SelfReflectMiddleware": "middleware"}
__getattr__ = lazy_names(__name__, __all__, _LAZY)[0]
