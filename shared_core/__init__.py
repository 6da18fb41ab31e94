"""selfreflect: RAG answers you can stand behind.

The framework-free core. Names are loaded when first used, so that importing this package stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared_core.support.moved import lazy_names, refuse_moved_modules

if TYPE_CHECKING:
    from shared_core.errors import SelfReflectError
    from shared_core.facades.checker import SelfReflectChecker
    from shared_core.facades.engine import SelfReflectEngine
    from shared_core.facades.gated_retriever import GatedRetriever
    from shared_core.facades.reranker import SelfReflectReranker
    from shared_core.settings import (
        ReclaimSettings,
        ResearchSettings,
        SeakrSettings,
        SelfRagSettings,
        SelfReflectSettings,
    )
    from shared_core.types import Answer, Citation, Claim, Critique, Decision, Event, Passage, Span, Usage

__version__ = "0.1.0"

refuse_moved_modules()

__all__ = [
    "Answer", "Citation", "Claim", "Critique", "Decision", "Event", "GatedRetriever", "Passage", "ReclaimSettings",
    "ResearchSettings", "SeakrSettings", "SelfRagSettings", "SelfReflectChecker", "SelfReflectEngine",
    "SelfReflectError", "SelfReflectReranker", "SelfReflectSettings", "Span", "Usage", "__version__",
]  # fmt: skip

_HOME = {
    **dict.fromkeys(__all__, "types"),
    **dict.fromkeys([n for n in __all__ if n.endswith("Settings")], "settings"),
    "GatedRetriever": "facades.gated_retriever",
    "SelfReflectChecker": "facades.checker",
    "SelfReflectEngine": "facades.engine",
    "SelfReflectError": "errors",
    "SelfReflectReranker": "facades.reranker",
}

__getattr__, __dir__ = lazy_names(__name__, __all__, _HOME)
