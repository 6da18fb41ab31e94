"""Load checkpoints of transformers for training or inspection (``TransformersLM`` is for asking them).

``TransformersLM`` is what asks them. torch and transformers are imported when a function needs them.
"""

from __future__ import annotations

from typing import Any

from shared_core.lm._hf import load as _load
from shared_core.lm._hf import traits as _traits

__all__ = ["context_length", "default_device", "load_checkpoint", "load_tokenizer"]


def load_checkpoint(
    name: str,
    tokenizer: str | None = None,
    *,
    device: str | None = None,
    dtype: Any = None,
    quantization: Any = None,
) -> tuple[Any, Any]:
    """Load the model and tokenizer of a causal language model.

    Args:
        name: on the hub, a path, a GGUF file, or ``smollm2``.
        tokenizer: name or path of another tokenizer than the checkpoint's own.
        device: where to put the model; the accelerator if there is one.
        dtype: of the weights (``torch.float32`` …, ``"auto"``: as they were saved); by default float32 on a CPU, else
            as they were saved.
        quantization: how to quantise them on the way (a ``BitsAndBytesConfig`` …).

    Raises:
        ModelLoadError: there is none, or the path is no checkpoint.
    """
    return _load.load(name, tokenizer, device, dtype, trust_remote_code=False, quantization=quantization)


def load_tokenizer(tokenizer: Any, model_name: str) -> Any:
    """Return a tokenizer from an object, a name or a path.

    Raises:
        ModelLoadError: ``tokenizer`` is ``None``, which a model given as an object cannot do without, or not found.
    """
    return _load.given_tokenizer(tokenizer, model_name)


def default_device() -> str:
    """Return ``cuda`` or ``mps`` where there is one, else ``cpu``."""
    return _load.default_device()


def context_length(config: Any) -> int | None:
    """Return the positions that a model of this configuration can take; ``None`` if it does not say."""
    return _traits.context_length(config)
