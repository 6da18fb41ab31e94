"""Fine-tuning on TRL's SFTTrainer: full or LoRA, on an accelerator or, for small models, on a CPU.

Rows are encoded by the ``Encoder`` that inference uses and handed to the trainer as token ids with labels; the loss
counts completions only. The output folder holds a model that ``TransformersLM`` loads, its tokenizer, and
``training.json``, which says what it was made from.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from shared_core.errors import GenerationError, InputError, MissingDependencyError
from shared_core.files import replace_file
from shared_core.lm.checkpoints import context_length, default_device, load_checkpoint, load_tokenizer
from shared_core.lm.encoding import Encoder
from shared_core.settings import Settings
from shared_core.training.rows import Trainable

__all__ = ["CARD", "RECIPES", "TrainingResult", "TrainingSettings", "encode_rows", "recipe", "train"]

CARD = "training.json"
"""Name of the file that describes a training, in its output folder."""
ADAPTER = "adapter"
"""Folder of the LoRA adapter by itself, in the output folder; the output folder holds the merged model."""

_UNKNOWN_CONTEXT = 2048
"""Tokens of a row at most, where neither the settings nor the model say."""

Progress = Callable[[int, int, float | None], None]
"""Told (steps done, steps in all, last loss or ``None``)."""


class TrainingSettings(Settings):
    """How to train. ``recipe`` gives the paper's values for a role."""

    method: Literal["full", "lora"] = "full"
    learning_rate: float = Field(2e-5, gt=0)
    epochs: float = Field(3, gt=0)
    max_steps: int | None = Field(None, ge=1, description="Instead of epochs.")
    batch_size: int = Field(16, ge=1, description="Rows per step.")
    micro_batch_size: int | None = Field(
        None, ge=1, description="Rows in memory at a time, a divisor of batch_size; None takes all of them."
    )
    warmup: float = Field(0.03, ge=0, lt=1, description="Share of the steps.")
    schedule: Literal["linear", "cosine", "constant_with_warmup"] = "linear"
    weight_decay: float = Field(0.0, ge=0)
    max_length: int | None = Field(None, ge=2, description="Tokens of a row; None takes the model's context.")
    too_long: Literal["drop", "raise"] = Field(
        "drop", description="Longer rows: left out and counted, or refused. They are never cut."
    )
    lora_rank: int = Field(16, ge=1)
    lora_alpha: float = Field(32, gt=0)
    lora_dropout: float = Field(0.05, ge=0, lt=1)
    lora_modules: str | tuple[str, ...] = Field("all-linear", description="Names of modules, or all linear ones.")
    gradient_checkpointing: bool = Field(False, description="Less memory, a third more time.")
    use_cpu: bool | None = Field(None, description="None uses an accelerator if there is one.")
    bf16: bool | None = Field(None, description="None uses bfloat16 where the accelerator has it, never on a CPU.")
    seed: int = 0


RECIPES: Mapping[str, Mapping[str, Any]] = {
    "reference": {"method": "full", "learning_rate": 2e-5, "epochs": 3},
    "claim": {"method": "lora", "learning_rate": 5e-5, "epochs": 5},
    "unified": {"method": "full", "learning_rate": 2e-5, "epochs": 3},
    "research": {"method": "full", "learning_rate": 5e-6, "max_steps": 2000, "batch_size": 16},
}
"""Xia et al. 2024 for the reference and the claim model; the unified model gets the reference model's values. Batch
size, warmup and LoRA's shape are ours. ``research``: supervised fine-tuning of Piché et al., Table 17."""


def recipe(role: str, **changes: Any) -> TrainingSettings:
    """The settings for a role of ReClaim or for ReSearch, with changes.

    Raises:
        InputError: no such role.
        SettingsError: a change is out of range or unknown.
    """
    if role not in RECIPES:
        raise InputError(f"There is no recipe for {role!r}.", hint=f"There are: {', '.join(RECIPES)}.")
    return TrainingSettings(**{**RECIPES[role], **changes})


@dataclass(frozen=True)
class TrainingResult:
    """What came of it.

    Attributes:
        output: folder of model and tokenizer; LoRA's adapter by itself is in ``adapter`` within.
        rows: trained on; ``dropped`` left out for their length.
        steps: of the optimiser.
        losses: mean loss per completion token (nats) of each step.
        seconds: of the training itself.
        card: what ``training.json`` holds.
    """

    output: Path
    rows: int
    dropped: int
    steps: int
    losses: tuple[float, ...]
    seconds: float
    card: dict[str, Any] = field(repr=False)


def encode_rows(
    rows: Sequence[Trainable], encoder: Encoder, max_length: int, too_long: Literal["drop", "raise"] = "drop"
) -> tuple[list[dict[str, list[int]]], list[int]]:
    """Rows as token ids with labels, and the numbers of those that were left out because they are too long.

    Raises:
        InputError: a row is too long and that is to raise, or none is left.
    """
    kept: list[dict[str, list[int]]] = []
    dropped: list[int] = []
    for i, row in enumerate(rows):
        ids, labels = row.encode(encoder)
        if len(ids) <= max_length:
            kept.append({"input_ids": ids, "labels": labels})
        elif too_long == "raise":
            raise InputError(
                f"Row {i} (source {row.source!r}) has {len(ids)} tokens, more than {max_length}.",
                hint="Use too_long='drop', a larger max_length, or fewer passages for each row.",
            )
        else:
            dropped.append(i)
    if not kept:
        raise InputError(
            f"All {len(rows)} rows are longer than {max_length} tokens." if rows else "There are no rows to train on.",
            hint="Give a larger max_length, or a model of longer context." if rows else "See selfreflect train.",
        )
    return kept, dropped


def train(
    rows: Sequence[Trainable],
    model: Any,
    output: str | Path,
    settings: TrainingSettings | None = None,
    *,
    tokenizer: Any = None,
    sources: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> TrainingResult:
    """Fine-tune a causal language model of transformers on rows.

    Args:
        rows: of one role, or of several that one model shall play.
        model: hub name, path, or a model object (which is changed).
        output: a folder that does not exist or is empty.
        settings: ``recipe(role)``, or your own.
        tokenizer: object, name or path; the model's own if ``None``.
        sources: where the rows come from, for the card (``{"file": …, "sha256": …}``).
        progress: told at each step; without one the trainer's own bar is shown.

    Returns:
        The result; the folder holds model, tokenizer and card.

    Raises:
        MissingDependencyError: trl, peft (for LoRA) or datasets is not installed.
        ModelLoadError: there is no such model.
        InputError: no rows, rows too long, a batch size that does not divide, or an output folder that is in use.
        GenerationError: the loss is not a number any more; nothing is saved.
    """
    settings = settings or TrainingSettings()
    folder = _free_folder(output)
    _require(settings)
    if settings.batch_size % (settings.micro_batch_size or settings.batch_size):
        raise InputError(
            f"micro_batch_size {settings.micro_batch_size} does not divide batch_size {settings.batch_size}."
        )
    loaded, tokenizer = _load(model, tokenizer)
    setup = _Setup(loaded, tokenizer, folder, settings)
    limit = settings.max_length or context_length(loaded.config.get_text_config()) or _UNKNOWN_CONTEXT
    data, dropped = encode_rows(rows, Encoder(tokenizer), limit, settings.too_long)
    trainer = _make_trainer(setup, data, progress)
    start = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - start
    losses = tuple(float(e["loss"]) for e in trainer.state.log_history if "loss" in e)
    if not all(map(math.isfinite, losses)):
        raise GenerationError("The training diverged: its loss is not a number.", hint="Lower learning_rate.")
    lengths = [len(d["input_ids"]) for d in data]
    card = {
        "rows": {"given": len(rows), "trained_on": len(data), "too_long": len(dropped)},
        "roles": dict(sorted(Counter(r.role for r in rows).items())),
        "tokens": {"longest": max(lengths), "all": sum(lengths), "limit": limit},
        "sources": dict(sources or {}),
        "base_model": str(model) if isinstance(model, (str, Path)) else getattr(loaded, "name_or_path", "") or "object",
        "settings": settings.model_dump(),
        "device": "cpu" if setup.cpu else "accelerator",
        "steps": trainer.state.global_step,
        "loss": {"first": losses[0] if losses else None, "last": losses[-1] if losses else None},
        "seconds": round(seconds, 3),
        "versions": _versions(),
    }
    _save(setup, trainer, card)
    return TrainingResult(folder, len(data), len(dropped), trainer.state.global_step, losses, seconds, card)


# --- parts ---------------------------------------------------------------------------------------------------------


def _require(settings: TrainingSettings) -> None:
    needed = ["torch", "transformers", "trl", "datasets", *(["peft"] if settings.method == "lora" else [])]
    for package in needed:
        if importlib.util.find_spec(package) is None:
            raise MissingDependencyError(package, extra="train", purpose="Fine-tuning")


def _free_folder(output: str | Path) -> Path:
    folder = Path(output)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is in use.", hint="Give an output folder that does not exist or is empty.")
    return folder


@dataclass(frozen=True)
class _Setup:
    """What is trained, how, and where it goes."""

    model: Any
    tokenizer: Any
    folder: Path
    settings: TrainingSettings

    @property
    def cpu(self) -> bool:
        return self.settings.use_cpu if self.settings.use_cpu is not None else default_device() == "cpu"

    @property
    def micro(self) -> int:
        return self.settings.micro_batch_size or self.settings.batch_size


def _load(model: Any, tokenizer: Any) -> tuple[Any, Any]:
    """Weights are float32 for training; autocast makes the passes bfloat16 where that is wanted."""
    import torch

    if isinstance(model, (str, Path)):
        name = str(tokenizer) if isinstance(tokenizer, Path) else tokenizer
        return load_checkpoint(str(model), name, device="cpu", dtype=torch.float32)
    return model, load_tokenizer(tokenizer, type(model).__name__)


def _make_trainer(setup: _Setup, data: list[dict[str, list[int]]], progress: Progress | None) -> Any:
    import torch
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    settings, cpu = setup.settings, setup.cpu
    bf16 = settings.bf16 if settings.bf16 is not None else (not cpu and torch.cuda.is_bf16_supported())
    args = SFTConfig(
        output_dir=str(setup.folder),
        learning_rate=settings.learning_rate,
        num_train_epochs=settings.epochs,
        max_steps=settings.max_steps or -1,
        per_device_train_batch_size=setup.micro,
        gradient_accumulation_steps=settings.batch_size // setup.micro,
        warmup_steps=settings.warmup,  # a share, being below 1
        lr_scheduler_type=settings.schedule,
        weight_decay=settings.weight_decay,
        gradient_checkpointing=settings.gradient_checkpointing,
        max_length=None,  # rows that are too long are already left out; none is cut
        seed=settings.seed,
        data_seed=settings.seed,
        use_cpu=cpu,
        bf16=bf16,
        dataloader_pin_memory=not cpu,
        logging_steps=1,
        logging_first_step=True,
        save_strategy="no",
        report_to="none",
        disable_tqdm=progress is not None,
    )
    lora = None
    if settings.method == "lora":
        from peft import LoraConfig

        modules = settings.lora_modules
        lora = LoraConfig(
            task_type="CAUSAL_LM",
            r=settings.lora_rank,
            lora_alpha=settings.lora_alpha,
            lora_dropout=settings.lora_dropout,
            target_modules=modules if isinstance(modules, str) else list(modules),
        )
    callbacks = [_callback(progress)] if progress is not None else []
    trainer = SFTTrainer(
        model=setup.model,
        args=args,
        train_dataset=Dataset.from_list(data),
        processing_class=setup.tokenizer,
        peft_config=lora,
        callbacks=callbacks,
    )
    if progress is not None:
        from transformers import PrinterCallback

        trainer.remove_callback(PrinterCallback)  # it prints every log where there is no bar
    return trainer


def _callback(progress: Progress) -> Any:
    from transformers import TrainerCallback

    class Tell(TrainerCallback):  # type: ignore[misc]  # transformers is not typed
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            progress(state.global_step, state.max_steps, (logs or {}).get("loss"))

    return Tell()


def _save(setup: _Setup, trainer: Any, card: dict[str, Any]) -> None:
    model = trainer.accelerator.unwrap_model(trainer.model)
    if setup.settings.method == "lora":
        model.save_pretrained(setup.folder / ADAPTER)
        model = model.merge_and_unload()
    model.save_pretrained(setup.folder)
    setup.tokenizer.save_pretrained(setup.folder)
    with replace_file(setup.folder / CARD) as file:
        file.write(json.dumps(card, indent=2, ensure_ascii=False) + "\n")


def _versions() -> dict[str, str]:
    found = {}
    for package in ("selfreflect-rag", "torch", "transformers", "trl", "peft", "datasets"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
