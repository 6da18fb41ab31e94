"""Command line, one file per command; ``shared_core.cli.commands`` assembles them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shared_core.cli.commands import app, main

__all__ = ["app", "main"]


def __getattr__(name: str) -> Any:
    """Import the commands on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.commands"), name)
