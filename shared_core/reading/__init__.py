"""Readers and support scorers: models that judge passages and claims without writing text.

``ExtractiveReader``, ``CriticSupportScorer`` and ``CrossEncoderSupportScorer`` are loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shared_core.reading.critic import CriticSupportScorer
    from shared_core.reading.extractive import ExtractiveReader
    from shared_core.reading.support import CrossEncoderSupportScorer

__all__ = ["CriticSupportScorer", "CrossEncoderSupportScorer", "ExtractiveReader"]

_LAZY = {
    "CriticSupportScorer": "shared_core.reading.critic",
    "CrossEncoderSupportScorer": "shared_core.reading.support",
    "ExtractiveReader": "shared_core.reading.extractive",
}


def __getattr__(name: str) -> Any:
    """Load exported classes at first use."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
