"""Documents: loading files, cutting them into passages, and the index on disk.

Names are loaded when first used, so that importing this package stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared_core.support.moved import lazy_names

if TYPE_CHECKING:
    from shared_core.documents.chunking import chunk_document
    from shared_core.documents.load import Document, load_document
    from shared_core.documents.scan import iter_documents, iter_passages
    from shared_core.documents.store import DocumentIndex, IndexSettings

_HOME = {
    "Document": "load",
    "DocumentIndex": "store",
    "IndexSettings": "store",
    "chunk_document": "chunking",
    "iter_documents": "scan",
    "iter_passages": "scan",
    "load_document": "load",
}

__all__ = [
    "Document", "DocumentIndex", "IndexSettings", "chunk_document", "iter_documents", "iter_passages",
    "load_document",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__, __all__, _HOME)
