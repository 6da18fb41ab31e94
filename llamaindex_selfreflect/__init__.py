"""LlamaIndex plugin: translation only, no policy.

Names are loaded when first used, so that importing this package does not import LlamaIndex.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shared_core.support.moved import lazy_names

if TYPE_CHECKING:
    from llamaindex_selfreflect._events import SelfReflectAnswerEvent, SelfReflectDecisionEvent
    from llamaindex_selfreflect._response import (
        SelfReflectAsyncStreamingResponse,
        SelfReflectResponse,
        SelfReflectStreamingResponse,
    )
    from llamaindex_selfreflect._sources import PassageRetriever
    from llamaindex_selfreflect.chat_engine import (
        SelfReflectChatEngine,
        SelfReflectChatResponse,
        SelfReflectStreamingChatResponse,
    )
    from llamaindex_selfreflect.checker import SelfReflectChecker, SelfReflectEvaluation
    from llamaindex_selfreflect.citation import SelfReflectCitationQueryEngine
    from llamaindex_selfreflect.embedding import MiniLMEmbedding
    from llamaindex_selfreflect.guard import SelfReflectGuard
    from llamaindex_selfreflect.llm import LlamaIndexLM
    from llamaindex_selfreflect.postprocessor import SelfReflectRerank
    from llamaindex_selfreflect.query_engine import SelfReflectQueryEngine
    from llamaindex_selfreflect.reader import SelfReflectReader
    from llamaindex_selfreflect.retriever import SelfReflectRetriever
    from llamaindex_selfreflect.tool import SelfReflectTool

__all__ = [
    "LlamaIndexLM", "MiniLMEmbedding", "PassageRetriever", "SelfReflectAnswerEvent",
    "SelfReflectAsyncStreamingResponse", "SelfReflectChatEngine", "SelfReflectChatResponse", "SelfReflectChecker",
    "SelfReflectCitationQueryEngine", "SelfReflectDecisionEvent", "SelfReflectEvaluation", "SelfReflectGuard",
    "SelfReflectQueryEngine", "SelfReflectReader", "SelfReflectRerank", "SelfReflectResponse", "SelfReflectRetriever",
    "SelfReflectStreamingChatResponse", "SelfReflectStreamingResponse", "SelfReflectTool",
]  # fmt: skip

_HOME = {
    "LlamaIndexLM": "llm", "MiniLMEmbedding": "embedding", "PassageRetriever": "_sources",
    "SelfReflectAnswerEvent": "_events", "SelfReflectAsyncStreamingResponse": "_response",
    "SelfReflectChatEngine": "chat_engine", "SelfReflectChatResponse": "chat_engine", "SelfReflectChecker": "checker",
    "SelfReflectCitationQueryEngine": "citation", "SelfReflectDecisionEvent": "_events",
    "SelfReflectEvaluation": "checker", "SelfReflectGuard": "guard", "SelfReflectQueryEngine": "query_engine",
    "SelfReflectReader": "reader", "SelfReflectRerank": "postprocessor", "SelfReflectResponse": "_response",
    "SelfReflectRetriever": "retriever",
    "SelfReflectStreamingChatResponse": "chat_engine", "SelfReflectStreamingResponse": "_response",
    "SelfReflectTool": "tool",
}  # fmt: skip


_load, __dir__ = lazy_names(__name__, __all__, _HOME)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "llama_index":
            raise
        from shared_core.errors import MissingDependencyError

        raise MissingDependencyError("llama-index-core", extra="llamaindex", purpose="The LlamaIndex plugin") from error
