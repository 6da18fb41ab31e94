"""Documents: loading files, cutting them into passages, and the index on disk.

Names are loaded when first used, so that importing this package stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shared_core.documents.chunking import chunk_document
    from shared_core.documents.load import Document, load_document
    from shared_core.documents.scan import iter_documents
    from shared_core.documents.store import DocumentIndex, IndexSettings

_HOME = {
    "Document": "load",
    "DocumentIndex": "store",
    "IndexSettings": "store",
    "chunk_document": "chunking",
    "iter_documents": "scan",
    "load_document": "load",
}

__all__ = ["Document", "DocumentIndex", "IndexSettings", "chunk_document", "iter_documents", "load_document"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
