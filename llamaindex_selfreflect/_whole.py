"""Pickling of LlamaIndex's components, without its silent losses."""

from __future__ import annotations

from typing import Any

from llama_index.core.bridge.pydantic import BaseModel


class Whole(BaseModel):
    """Mixin before a component that pickles all of it, or names the part that cannot be pickled.

    LlamaIndex leaves out what cannot be pickled and makes the object anew from its fields, so that a model, a reader or
    an embedder that was given would be lost on the way, and be missed at the first use.
    """

    def __getstate__(self) -> dict[Any, Any]:
        return BaseModel.__getstate__(self)

    def __setstate__(self, state: dict[Any, Any]) -> None:
        BaseModel.__setstate__(self, state)
