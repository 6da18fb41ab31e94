"""Load the base model (keeping its dtype), add adapters, save the result.

Adapters are trained over the base's weights as they were saved, and the saved model has the base's dtype, also where
all weights were trained in float32.

peft converts each layer's input to the adapter's float32, multiplies there, and scales, adds and converts back in
passes of their own, which cost up to a third of a training step on a CPU. ``fuse_lora`` computes the adapter's two
products in the base's dtype and adds them in place; its weights, gradients and the optimiser's state stay float32.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared_core.errors import InputError, MissingDependencyError
from shared_core.lm.checkpoints import default_device, find_adapter, load_checkpoint, load_tokenizer
from shared_core.training.settings import TrainingSettings

if TYPE_CHECKING:
    from torch import Tensor

ADAPTER = "adapter"
"""Folder of the adapter alone, in the output folder, which holds the merged model."""

_ALIKE = ("r", "lora_alpha", "target_modules", "layers_to_transform")
"""What an adapter to go on from and the settings must have in common."""

Prepare = Callable[[Any, Any], Sequence[int]]
"""Changes a fresh base and its tokenizer in place (adds tokens), and returns the ids that are new to the model."""


@dataclass(frozen=True)
class Base:
    """A model to train.

    Attributes:
        model: of transformers, perhaps with adapters.
        dtype: of the weights as they were saved, and as the result is saved.
        name: hub name or path; empty for an object.
        added: ids that are new to the model, whose embedding rows have to be learnt.
        prepare: the function that added them.
        quantised: the weights are held in 4 bits.
    """

    model: Any
    tokenizer: Any
    dtype: Any
    name: str = ""
    added: tuple[int, ...] = ()
    prepare: Prepare | None = None
    quantised: bool = False

    @property
    def weights(self) -> int:
        """Number of weights."""
        return int(self.model.num_parameters())

    @property
    def vocabulary(self) -> int:
        """Number of tokens that it chooses among."""
        return int(self.model.get_input_embeddings().weight.shape[0])


def check_packages(settings: TrainingSettings) -> None:
    """Check, before anything is loaded, that the packages and the device for these settings are there.

    Raises:
        MissingDependencyError: a package is missing.
        InputError: QLoRA without a CUDA device.
    """
    needed = ["torch", "transformers", "trl", "datasets", "accelerate", *(["peft"] if settings.adapts else [])]
    for package in needed:
        if importlib.util.find_spec(package) is None:
            raise MissingDependencyError(package, extra="train", purpose="Fine-tuning")
    if settings.method == "qlora" or settings.optimizer == "paged_adamw_8bit":
        what = "method='qlora'" if settings.method == "qlora" else "optimizer='paged_adamw_8bit'"
        if settings.use_cpu or not default_device().startswith("cuda"):
            raise InputError(
                f"{what} needs a CUDA device, and there is none here.",
                hint="Use method='lora' (--method lora), or run it where a GPU is.",
            )
        if importlib.util.find_spec("bitsandbytes") is None:
            raise MissingDependencyError("bitsandbytes", extra="qlora", purpose=what)
    if settings.report_to:
        _check_trackers(settings.report_to)


def _check_trackers(names: Sequence[str]) -> None:
    from transformers.integrations import get_available_reporting_integrations

    there = get_available_reporting_integrations()
    for name in names:
        if name not in (*there, "all", "none"):
            raise InputError(
                f"The tracker {name!r} is not installed, or TRL knows none of that name.",
                hint=f"pip install {name}; installed: {', '.join(there) or 'none'}.",
            )


def load_base(model: Any, tokenizer: Any, settings: TrainingSettings, prepare: Prepare | None = None) -> Base:
    """Load a model by name or path, or take an object (which is changed), in the dtype that the settings ask for.

    Raises:
        ModelLoadError: there is no such model.
        InputError, MissingDependencyError: as ``check_packages``.
    """
    import torch

    check_packages(settings)
    named = isinstance(model, (str, Path))
    if named:
        own = str(tokenizer) if isinstance(tokenizer, Path) else tokenizer
        options: dict[str, Any] = {"device": "cpu", "dtype": "auto"}
        if settings.method == "qlora":
            own_device = f"{default_device()}:{os.environ.get('LOCAL_RANK', '0')}"  # each process of a launch has one
            options = {"device": own_device, "dtype": "auto", "quantization": _four_bits()}
        loaded, tokenizer = load_checkpoint(str(model), own, **options)
    elif settings.method == "qlora":
        raise InputError("method='qlora' loads its base itself.", hint="Give the model's name or path, not an object.")
    else:
        loaded, tokenizer = model, load_tokenizer(tokenizer, type(model).__name__)
    dtype = loaded.dtype
    if settings.weights == "float32" or (settings.weights == "auto" and not settings.adapts):
        loaded = loaded.to(torch.float32)
    added = tuple(prepare(loaded, tokenizer)) if prepare is not None else ()
    name = str(model) if named else (getattr(loaded, "name_or_path", "") or "")
    return Base(loaded, tokenizer, dtype, name, added, prepare, settings.method == "qlora")


def _four_bits() -> Any:
    """Make the configuration of QLoRA (Dettmers et al. 2023): NormalFloat, double quantisation, bfloat16 compute."""
    import torch
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )


def with_adapters(base: Base, settings: TrainingSettings) -> Any:
    """Put seeded LoRA adapters over the base; the embedding rows of new tokens are trained with them."""
    from peft import LoraConfig, get_peft_model
    from transformers import set_seed

    modules, layers = _adapted(base.model, settings)
    set_seed(settings.seed)  # adapters are initialised at random
    # Without trained rows, the embeddings of new tokens would stay as they were initialised.
    rows = {name: list(base.added) for name in _embeddings(base.model)} if base.added else None
    model = get_peft_model(
        base.model,
        LoraConfig(
            task_type="CAUSAL_LM",
            r=settings.lora_rank,
            lora_alpha=settings.lora_alpha,
            lora_dropout=settings.lora_dropout,
            target_modules=modules,
            layers_to_transform=layers,
            trainable_token_indices=rows,
        ),
    )
    if rows:
        _show_bias(model)
    if settings.start_adapter:
        _start_from(model, Path(settings.start_adapter))
    for weight in model.parameters():
        if weight.requires_grad and not base.quantised:  # small steps of a bfloat16 row would be rounded away
            weight.data = weight.data.float()
    fuse_lora(model)
    return model


def _start_from(model: Any, source: Path) -> None:
    """Load an earlier adapter's weights, in place of the random ones: of a folder of peft, or a file that was packed.

    Raises:
        InputError: there is no adapter there, or it has another rank, scale, modules or layers.
        ModelLoadError: the file is no adapter of ours.
    """
    from peft import PeftConfig, load_peft_weights, set_peft_model_state_dict

    now = model.peft_config["default"]
    if source.is_file() and (packed := find_adapter(str(source))) is not None:
        earlier, weights = packed.unpack()
        if now.layers_to_transform is None:  # all of them, which a packed file lists one by one
            earlier["layers_to_transform"] = None
    elif (source / "adapter_config.json").exists():
        config = PeftConfig.from_pretrained(source)
        earlier = {name: getattr(config, name, None) for name in _ALIKE}
        weights = load_peft_weights(str(source), device="cpu")
    else:
        raise InputError(
            f"{source} holds no adapter.", hint=f"Name the folder {ADAPTER} of a training's output, or a packed file."
        )
    for name in _ALIKE:
        one, other = earlier[name], getattr(now, name, None)
        if one != other:
            raise InputError(f"The adapter in {source} was trained with {name} {one!r}, not {other!r}.")
    try:
        outcome = set_peft_model_state_dict(model, weights)
    except KeyError as error:  # rows of added tokens
        raise InputError(f"The adapter in {source} is of another model: it has no {error.args[0]}.") from error
    if outcome.unexpected_keys:
        raise InputError(f"The adapter in {source} is of another model: it has {outcome.unexpected_keys[0]}.")


def _adapted(model: Any, settings: TrainingSettings) -> tuple[str | list[str], list[int] | None]:
    """Name the modules that get adapters, and number their layers (``None``: all)."""
    given = settings.lora_modules
    if settings.lora_layers is None:
        return (given if isinstance(given, str) else list(given)), None
    count = int(model.config.get_text_config().num_hidden_layers)
    if settings.lora_layers > count:
        raise InputError(f"lora_layers={settings.lora_layers}, and the model has {count} layers.")
    if given == "all-linear":  # peft chooses layers for modules that are named only
        import torch

        head = model.get_output_embeddings()
        found = {n.rsplit(".", 1)[-1] for n, m in model.named_modules() if isinstance(m, torch.nn.Linear) and m != head}
        modules = sorted(found)
    else:
        modules = [given] if isinstance(given, str) else list(given)
    return modules, list(range(count - settings.lora_layers, count))


def _embeddings(model: Any) -> list[str]:
    """Name the modules that hold a row [width] per token: input and output, or one where they are tied."""
    given, head = model.get_input_embeddings(), model.get_output_embeddings()
    tied = head is None or head.weight is given.weight
    wanted = [given] if tied else [given, head]
    return [name.rsplit(".", 1)[-1] for name, module in model.named_modules() if any(module is w for w in wanted)]


def _show_bias(model: Any) -> None:
    """Register ``lm_head.bias``, which TRL reads and peft's wrapper of trained rows hides."""
    head = model.get_output_embeddings()
    if head is not None and "bias" not in head._parameters and not hasattr(head, "bias"):
        head.register_parameter("bias", None)


def save_trained(base: Base, trainer: Any, folder: Path, *, adapts: bool, first: bool) -> None:
    """Write the merged model in the base's dtype, its tokenizer, and the adapter alone (if ``adapts``).

    Only the ``first`` process writes; the others give their part of a model that is sharded.
    """
    adapter = folder / ADAPTER
    sharded = trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled  # every process holds a part
    if sharded:
        trainer.save_model(str(adapter if adapts else folder))
    if not first:
        return
    if not sharded:
        trained = trainer.accelerator.unwrap_model(trainer.model)
        adapts = hasattr(trained, "merge_and_unload")
        if adapts:
            trained.save_pretrained(adapter)
        if not base.quantised:
            whole = trained.merge_and_unload() if adapts else trained
            whole.to(base.dtype).save_pretrained(folder)
    if adapts and (sharded or base.quantised):
        merge_onto_base(base, adapter).save_pretrained(folder)
    base.tokenizer.save_pretrained(folder)
    shutil.rmtree(adapter / "ref", ignore_errors=True)  # the adapter that DPO and RLOO started from


def merge_onto_base(base: Base, adapter: Path) -> Any:
    """Merge an adapter into a fresh copy of the base, on the CPU and in its own dtype.

    For a base whose weights in memory are not the ones to save: held in 4 bits, or sharded over processes.
    """
    from peft import PeftModel

    whole, tokenizer = load_checkpoint(base.name, device="cpu", dtype="auto")
    if base.prepare is not None:
        base.prepare(whole, tokenizer)
    return PeftModel.from_pretrained(whole, adapter).merge_and_unload()


def fuse_lora(model: Any) -> int:
    """Replace the forward pass of plain LoRA layers over bfloat16 linear layers, in place; return the number of them.

    Layers with dropout, with several active adapters, merged or disabled ones, and other variants keep peft's own.
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
