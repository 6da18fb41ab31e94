"""LoRA layers over bfloat16 weights: the sum, the gradients and the switches of peft's own."""

from __future__ import annotations

from typing import Any

import pytest

from shared_core.training.base_model import fuse_lora

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")

pytestmark = pytest.mark.usefixtures("one_thread")


def adapted(dtype: Any, bias: bool = True, **options: Any) -> Any:
    torch.manual_seed(0)
    base = torch.nn.Sequential(torch.nn.Linear(24, 40, bias=bias), torch.nn.Linear(40, 16, bias=bias)).to(dtype)
    options = {"r": 4, "lora_alpha": 8, "target_modules": ["0", "1"]} | options
    model = peft.get_peft_model(base, peft.LoraConfig(**options))
    for name, weight in model.named_parameters():
        if "lora" in name:  # B begins as zeros, over which A has no gradient
            weight.data = torch.randn(weight.shape, generator=torch.Generator().manual_seed(len(name))) / 4
    return model


def gradients(model: Any, x: Any) -> tuple[Any, list[Any]]:
    y = model(x)
    (y.float() ** 2).mean().backward()
    return y, [weight.grad for name, weight in model.named_parameters() if "lora" in name]


@pytest.mark.parametrize("bias", [True, False])
def test_outputs_and_gradients_are_those_of_peft_within_rounding(bias: bool) -> None:

    x = torch.randn(3, 7, 24, generator=torch.Generator().manual_seed(1)).bfloat16()
    exact, expected = gradients(adapted(torch.float32, bias), x.float())
    model = adapted(torch.bfloat16, bias)
    assert fuse_lora(model) == 2
    y, found = gradients(model, x)
    assert (y.dtype, tuple(y.shape)) == (torch.bfloat16, (3, 7, 16))
    assert (y.float() - exact).norm() < 0.02 * exact.norm()
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        assert (one - other).norm() < 0.03 * other.norm()


def test_the_gradient_reaches_the_layers_before() -> None:

    inputs = [torch.randn(5, 24, generator=torch.Generator().manual_seed(2)).bfloat16() for _ in range(2)]
    inputs = [x.detach().clone().requires_grad_() for x in (inputs[0], inputs[0])]
    models = [adapted(torch.bfloat16), adapted(torch.bfloat16)]
    fuse_lora(models[0])
    for model, x in zip(models, inputs, strict=True):
        model(x).float().sum().backward()
    ours, theirs = (x.grad.float() for x in inputs)
    assert (ours - theirs).norm() < 0.03 * theirs.norm()


def test_disabled_and_merged_adapters_are_left_to_peft() -> None:

    x = torch.randn(2, 24, generator=torch.Generator().manual_seed(3)).bfloat16()
    model = adapted(torch.bfloat16)
    fuse_lora(model)
    with model.disable_adapter():
        bare = model(x)
    assert not torch.equal(bare, model(x))
    assert torch.equal(bare, adapted(torch.bfloat16).unload()(x))
    fused = model(x)
    merged = model.merge_and_unload()(x)
    assert (merged.float() - fused.float()).norm() < 0.05 * fused.float().norm()


def test_other_layers_keep_their_own() -> None:

    assert fuse_lora(adapted(torch.float32)) == 0
    assert fuse_lora(adapted(torch.bfloat16, lora_dropout=0.1)) == 0
    assert fuse_lora(adapted(torch.bfloat16, use_dora=True)) == 0
