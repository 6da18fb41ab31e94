"""The shipped reader and embedder, one of each for everything in this plugin; loaded at first use."""

from __future__ import annotations

from functools import cache

from shared_core.defaults import LazyEmbedder, LazyReader


@cache
def shared_reader() -> LazyReader:
    """The shipped reader; safe for several threads."""
    return LazyReader()


@cache
def shared_embedder() -> LazyEmbedder:
    """The shipped embedder; safe for several threads."""
    return LazyEmbedder()
