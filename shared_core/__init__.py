"""selfreflect: RAG answers you can stand behind.

The framework-free core. Names are loaded when first used, so that importing this package stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from shared_core.support.moved import refuse_moved_modules

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
    "Answer",
    "Citation",
    "Claim",
    "Critique",
    "Decision",
    "Event",
    "GatedRetriever",
    "Passage",
    "ReclaimSettings",
    "ResearchSettings",
    "SeakrSettings",
    "SelfRagSettings",
    "SelfReflectChecker",
    "SelfReflectEngine",
    "SelfReflectError",
    "SelfReflectReranker",
    "SelfReflectSettings",
    "Span",
    "Usage",
    "__version__",
]

_HOME = {
    "GatedRetriever": "shared_core.facades.gated_retriever",
    "SelfReflectChecker": "shared_core.facades.checker",
    "SelfReflectEngine": "shared_core.facades.engine",
    "SelfReflectReranker": "shared_core.facades.reranker",
    "SelfReflectError": "shared_core.errors",
    **dict.fromkeys([n for n in __all__ if n.endswith("Settings")], "shared_core.settings"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME.get(name, "shared_core.types")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
