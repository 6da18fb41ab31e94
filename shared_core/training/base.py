"""What a training starts from and what it leaves: the base model with its type kept, adapters over it, the result.

A base keeps the type of its weights: adapters are trained over it as it is, and what is saved has that type, also where
all weights were trained in float32.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared_core.errors import InputError, MissingDependencyError
from shared_core.lm.checkpoints import default_device, load_checkpoint, load_tokenizer
from shared_core.training.options import TrainingSettings

__all__ = [
    "ADAPTER",
    "Base",
    "Prepare",
    "check_packages",
    "load_base",
    "merge_onto_base",
    "save_model",
    "with_adapters",
]

ADAPTER = "adapter"
"""Folder of the adapter by itself, in the output folder; the output folder holds the merged model."""

Prepare = Callable[[Any, Any], Sequence[int]]
"""Changes a fresh base and its tokenizer in place (tokens are added) and says which ids are new to the model."""


@dataclass(frozen=True)
class Base:
    """A model to train.

    Attributes:
        model: of transformers, perhaps with adapters.
        tokenizer: its tokenizer.
        dtype: of the weights as they were saved, and are to be.
        name: hub name or path; empty for an object.
        added: ids that are new to the model, whose rows of the embeddings have to be learnt.
        prepare: what added them.
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
        """How many weights it has."""
        return int(self.model.num_parameters())

    @property
    def vocabulary(self) -> int:
        """Tokens that it chooses among."""
        return int(self.model.get_input_embeddings().weight.shape[0])


def check_packages(settings: TrainingSettings, trackers: bool = True) -> None:
    """Refuse, before anything is loaded, what is not installed or cannot be done here.

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
    if trackers and settings.report_to:
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
    """A model by name, path or as an object (which is changed), as the settings want it in memory.

    Raises:
        ModelLoadError: there is none.
        InputError, MissingDependencyError: as ``check_packages``.
    """
    import torch

    check_packages(settings)
    named = isinstance(model, (str, Path))
    if named:
        own = str(tokenizer) if isinstance(tokenizer, Path) else tokenizer
        options: dict[str, Any] = {"device": "cpu", "dtype": "auto"}
        if settings.method == "qlora":
            options = {"device": _device(), "dtype": "auto", "quantization": _four_bits()}
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


def _device() -> str:
    """Each process of a launch has a device of its own."""
    return f"{default_device()}:{os.environ.get('LOCAL_RANK', '0')}"


def _four_bits() -> Any:
    """Dettmers et al. 2023: NormalFloat with double quantisation, computed in bfloat16."""
    import torch
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )


def with_adapters(base: Base, settings: TrainingSettings) -> Any:
    """The base under LoRA adapters, seeded; the rows of tokens that are new to it are trained beside them."""
    from peft import LoraConfig, get_peft_model
    from transformers import set_seed

    modules = settings.lora_modules
    set_seed(settings.seed)  # adapters begin at random
    rows = {name: list(base.added) for name in _embeddings(base.model)} if base.added else None
    model = get_peft_model(
        base.model,
        LoraConfig(
            task_type="CAUSAL_LM",
            r=settings.lora_rank,
            lora_alpha=settings.lora_alpha,
            lora_dropout=settings.lora_dropout,
            target_modules=modules if isinstance(modules, str) else list(modules),
            trainable_token_indices=rows,
        ),
    )
    if rows:
        _show_bias(model)
    for weight in model.parameters():
        if weight.requires_grad and not base.quantised:  # small steps of a bfloat16 row would be rounded away
            weight.data = weight.data.float()
    return model


def _embeddings(model: Any) -> list[str]:
    """Names of the modules that hold a row for each token; one where input and output share it."""
    given, head = model.get_input_embeddings(), model.get_output_embeddings()
    tied = head is None or head.weight is given.weight
    wanted = [given] if tied else [given, head]
    return [name.rsplit(".", 1)[-1] for name, module in model.named_modules() if any(module is w for w in wanted)]


def _show_bias(model: Any) -> None:
    """TRL reads ``lm_head.bias`` beside its weight, which peft's wrapper of trained rows does not hand on."""
    head = model.get_output_embeddings()
    if head is not None and "bias" not in head._parameters and not hasattr(head, "bias"):
        head.register_parameter("bias", None)


def save_model(base: Base, trained: Any, folder: Path) -> None:
    """Write the trained model, whole and in the base's type, with its tokenizer; the adapter by itself beside it."""
    if not base.quantised and not hasattr(trained, "merge_and_unload"):
        whole = trained.to(base.dtype)
    elif base.quantised:
        trained.save_pretrained(folder / ADAPTER)
        whole = merge_onto_base(base, folder / ADAPTER)
    else:
        trained.save_pretrained(folder / ADAPTER)
        whole = trained.merge_and_unload().to(base.dtype)
    whole.save_pretrained(folder)
    base.tokenizer.save_pretrained(folder)


def merge_onto_base(base: Base, adapter: Path) -> Any:
    """A fresh copy of the base on the CPU in its own type, with an adapter merged into it.

    For a base whose weights in memory are not those to be saved: in 4 bits, or spread over processes.
    """
    from peft import PeftModel

    whole, tokenizer = load_checkpoint(base.name, device="cpu", dtype="auto")
    if base.prepare is not None:
        base.prepare(whole, tokenizer)
    return PeftModel.from_pretrained(whole, adapter).merge_and_unload()
