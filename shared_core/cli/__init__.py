"""Command line, one file per command; ``shared_core.cli.__main__`` assembles them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared_core.support.moved import lazy_names

if TYPE_CHECKING:
    from shared_core.cli.__main__ import app, main

__all__ = ["app", "main"]

__getattr__, __dir__ = lazy_names(__name__, __all__, dict.fromkeys(__all__, "__main__"))
