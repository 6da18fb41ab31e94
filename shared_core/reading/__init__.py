"""Readers and support scorers: models that judge passages and claims without writing text.

``ExtractiveReader``, ``CriticSupportScorer`` and ``CrossEncoderSupportScorer`` are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared_core.support.moved import lazy_names

if TYPE_CHECKING:
    from shared_core.reading.critic import CriticSupportScorer
    from shared_core.reading.extractive import ExtractiveReader
    from shared_core.reading.support import CrossEncoderSupportScorer

__all__ = ["CriticSupportScorer", "CrossEncoderSupportScorer", "ExtractiveReader"]

_HOME = {"CriticSupportScorer": "critic", "CrossEncoderSupportScorer": "support", "ExtractiveReader": "extractive"}

__getattr__, __dir__ = lazy_names(__name__, __all__, _HOME)
