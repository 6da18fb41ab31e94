"""Remove the hooks that transformers puts on a model's modules to collect hidden states and attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.nn import Module

_THEIRS = "transformers.utils.output_capturing"
_INSTALLED = "_output_capturing_hooks_installed"


def remove_capturing_hooks(model: Module) -> None:
    """Remove them, because closures cannot be pickled; transformers adds them again when needed."""
    for module in model.modules():
        hooks = module._forward_hooks
        for key in [key for key, hook in hooks.items() if getattr(hook, "__module__", "") == _THEIRS]:
            del hooks[key]
        if getattr(module, _INSTALLED, False):
            setattr(module, _INSTALLED, False)
