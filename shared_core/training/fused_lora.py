"""Compute LoRA layers over bfloat16 weights in one pass, with the adapter's float32 weights rounded for the products.

peft converts each layer's input to the adapter's float32, multiplies there, and scales, adds and converts back in
passes of their own, which cost up to a third of a training step on a CPU. Here the adapter's two products are computed
in the base's dtype and added in place; its weights, their gradients and the optimiser's state stay float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def fuse_lora(model: Any) -> int:
    """Replace the forward pass of plain LoRA layers over bfloat16 linear layers, in place.

    Layers with dropout, with several active adapters, merged or disabled ones, and other variants keep peft's own.

    Args:
        model: of peft.

    Returns:
        Number of layers that were replaced.
    """
    import torch
    from peft.tuners.lora.layer import Linear

    found = 0
    for module in model.modules():
        if not isinstance(module, Linear) or module.lora_variant:
            continue
        base = module.get_base_layer()
        dropouts = [getattr(d, "p", 0.0) for d in module.lora_dropout.values()]
        if type(base) is torch.nn.Linear and base.weight.dtype == torch.bfloat16 and not any(dropouts):
            module.forward = _forward(module, module.forward)
            found += 1
    return found


def _forward(module: Any, peft_forward: Any) -> Any:
    function = _function()

    def forward(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        active = list(module.active_adapters)
        if module.disable_adapters or module.merged or len(active) != 1 or args or kwargs:
            whole: Tensor = peft_forward(x, *args, **kwargs)
            return whole
        a, b = module.lora_A[active[0]].weight, module.lora_B[active[0]].weight
        base = module.get_base_layer()
        scale = module.scaling[active[0]]
        y: Tensor = function.apply(x.to(base.weight.dtype), base.weight, base.bias, a, b, scale)
        return y

    return forward


def _function() -> Any:
    import torch

    class LoraLinear(torch.autograd.Function):
        """y = x Wᵀ + bias + s (x Aᵀ) Bᵀ, for x [..., inputs], A [rank, inputs], B [outputs, rank]; W is frozen."""

        @staticmethod
        def forward(ctx: Any, x: Tensor, w: Tensor, bias: Tensor | None, a: Tensor, b: Tensor, scale: float) -> Tensor:
            flat = x.reshape(-1, x.shape[-1])
            low_a, low_b = a.to(w.dtype), (b * scale).to(w.dtype)
            inner = flat @ low_a.T  # [L, rank]
            y = torch.addmm(bias, flat, w.T) if bias is not None else flat @ w.T
            y.addmm_(inner, low_b.T)
            ctx.save_for_backward(flat, w, low_a, low_b, inner)
            ctx.scale, ctx.shape = scale, x.shape
            return y.view(*x.shape[:-1], -1)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
            flat, w, low_a, low_b, inner = ctx.saved_tensors
            g = grad.reshape(-1, grad.shape[-1])
            inner_grad = g @ low_b  # [L, rank], scaled
            grad_b = (g.T @ inner).float() * ctx.scale
            grad_a = (inner_grad.T @ flat).float()
            grad_x = None
            if ctx.needs_input_grad[0]:
                grad_x = g @ w
                grad_x.addmm_(inner_grad, low_a)
                grad_x = grad_x.view(ctx.shape)
            return grad_x, None, None, grad_a, grad_b, None

    return LoraLinear
