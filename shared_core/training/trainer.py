"""Run any of TRL's trainers by ``TrainingSettings``: arguments, checkpoints, resuming, divergence, saving.

``prepare`` makes a ``Setup``, ``make_trainer`` a trainer for it, and ``run`` trains and writes the output folder.
Under ``accelerate launch`` or ``torchrun`` every process runs all of it; only the first writes and reports.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared_core.errors import InputError
from shared_core.evaluation.compare.run_folder import installed
from shared_core.lm.checkpoints import context_length, default_device, packaged_file
from shared_core.lm.encoding import Encoder
from shared_core.lm.identity import identity_of_files, local_folder
from shared_core.support.run_log import RUN
from shared_core.training.base_model import Base, Prepare, load_base, save_trained, with_adapters
from shared_core.training.folder import TrainingFolder, tells_full_disk
from shared_core.training.settings import LARGE, RESUMABLE_CHANGES, TrainingSettings
from shared_core.training.watch import (
    LossWatch,
    Progress,
    Stop,
    first_and_last,
    interruptible,
    rate_at,
    trainer_callback,
)

_PACKAGES = ("selfreflect-rag", "torch", "transformers", "trl", "peft", "datasets", "bitsandbytes")
_UNKNOWN_CONTEXT = 2048  # tokens of a row at most, where neither the settings nor the model give a limit


def processes() -> int:
    """Number of processes of this launch, which ``accelerate launch`` and ``torchrun`` put into the environment."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first_process() -> bool:
    """Whether this process writes and reports."""
    return int(os.environ.get("RANK", "0")) == 0


@dataclass(frozen=True)
class Setup:
    """A training about to run.

    Attributes:
        model: for TRL's trainer: the base, or the base under adapters.
        identity: settings and base weights; an interrupted training resumes only with the same ones.
        cpu: whether no accelerator is used.
        micro: rows in a process's memory at a time.
        stop: set by a signal.
    """

    base: Base
    model: Any
    folder: TrainingFolder
    settings: TrainingSettings
    identity: Mapping[str, Any]
    cpu: bool
    micro: int
    stop: Stop = field(default_factory=Stop, repr=False)

    @property
    def encoder(self) -> Encoder:
        """Encoder of rows, the one that inference uses."""
        return Encoder(self.base.tokenizer)

    @property
    def limit(self) -> int:
        """Tokens of a row at most."""
        config = self.base.model.config.get_text_config()
        return self.settings.max_length or context_length(config) or _UNKNOWN_CONTEXT

    def describe(
        self,
        roles: Mapping[str, int],
        lengths: Sequence[int],
        *,
        too_long: int,
        evaluated_on: int = 0,
        sources: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Make the part of ``training.json`` that is known before training.

        Args:
            roles: number of rows given for each role.
            lengths: tokens of each row that is trained on.
            too_long: number of rows left out for their length, those to evaluate on among them.
            evaluated_on: number of rows held out.
            sources: where the rows come from.
        """
        given, taught = sum(roles.values()), len(lengths)
        return {
            "rows": {"given": given, "trained_on": taught, "too_long": too_long, "evaluated_on": evaluated_on},
            "roles": dict(sorted(roles.items())),
            "tokens": {"longest": max(lengths), "all": sum(lengths), "limit": self.limit},
            "sources": dict(sources or {}),
            "base_model": self.base.name or "object",
        }

    def arguments(self, *, evaluates: bool = False) -> dict[str, Any]:
        """Make the arguments that all of TRL's configurations share.

        If it ``evaluates``, the checkpoint with the least loss on the rows held out is the result.
        """
        s, large = self.settings, self.base.weights >= LARGE
        checkpointing = s.gradient_checkpointing
        found: dict[str, Any] = {
            "output_dir": str(self.folder.checkpoints),
            "learning_rate": s.learning_rate,
            "num_train_epochs": s.epochs,
            "max_steps": s.max_steps or -1,
            "per_device_train_batch_size": self.micro,
            "per_device_eval_batch_size": self.micro,
            "gradient_accumulation_steps": s.batch_size // (self.micro * processes()),
            "lr_scheduler_type": s.schedule,
            "weight_decay": s.weight_decay,
            "max_grad_norm": s.max_grad_norm,
            "optim": s.optimizer,
            "gradient_checkpointing": (large and not self.cpu) if checkpointing is None else checkpointing,
            "seed": s.seed,
            "data_seed": s.seed,
            "use_cpu": self.cpu,
            "bf16": self._bf16(),
            "dataloader_pin_memory": not self.cpu,
            "logging_steps": 1,
            "logging_first_step": True,
            "logging_nan_inf_filter": False,  # it would hide the values that ``LossWatch`` looks for
            "report_to": list(s.report_to) or "none",
            "run_name": s.run_name,
            "train_sampling_strategy": "group_by_length" if s.batches == "length" else "random",
            "save_strategy": "steps" if s.save_every else "no",
            "disable_tqdm": True,
        }
        if s.save_every:
            found |= {"save_steps": _steps(s.save_every), "save_total_limit": 2}  # the last may be torn by a kill
        if evaluates:
            found |= {"eval_strategy": "steps", "eval_steps": _steps(s.save_every), "load_best_model_at_end": True}
            found |= {"metric_for_best_model": "eval_loss", "greater_is_better": False}
        return found

    def _bf16(self) -> bool:
        import torch

        if self.settings.bf16 is not None:
            return self.settings.bf16
        return not self.cpu and torch.cuda.is_available() and torch.cuda.is_bf16_supported()


def _steps(every: float) -> float:
    return int(every) if every >= 1 else every


def prepare(
    model: Any,
    output: str | Path,
    settings: TrainingSettings,
    *,
    tokenizer: Any = None,
    prepare_base: Prepare | None = None,
) -> Setup:
    """Load the model to train; nothing is written yet.

    Arguments as for ``recipes.train``.

    Raises:
        MissingDependencyError, ModelLoadError: as ``load_base``.
        InputError: a folder in use, or of a training with other settings or weights; batches that cannot be divided; a
            method that needs another device.
    """
    folder = TrainingFolder(output)
    unchanged = {k: v for k, v in settings.model_dump(mode="json").items() if k not in RESUMABLE_CHANGES}
    identity: dict[str, Any] = {"settings": unchanged}
    if isinstance(model, (str, Path)):
        # A path can hold other weights by now. Reading pieces of the files shows that before anything is loaded. An
        # object is not identified: an interrupted training has changed its weights.
        place = packaged_file(str(model)) or local_folder(str(model))
        identity["base_weights"] = identity_of_files(place, "base")
    if settings.start_adapter and (there := Path(settings.start_adapter)).exists():
        identity["start_adapter"] = identity_of_files(there, "adapter")
        _require_same_base(there, identity.get("base_weights"))
    folder.log.check({RUN: identity})
    base = load_base(model, tokenizer, settings, prepare_base)
    identity["base_model"] = base.name or "object"
    begun = TrainingFolder.description(folder.path)
    if begun.get("base_weights"):  # compared above: the same weights at another path are the same base
        identity["base_model"] = begun["base_model"]
    micro = settings.micro(base.weights, processes())
    cpu = settings.use_cpu if settings.use_cpu is not None else default_device() == "cpu"
    trained = with_adapters(base, settings) if settings.adapts else base.model
    return Setup(base, trained, folder, settings, identity, cpu, micro)


def _require_same_base(adapter: Path, base_weights: str | None) -> None:
    """Refuse an adapter whose training recorded other base weights; InputError. One without a record is taken."""
    earlier = TrainingFolder.description(adapter.parent).get("base_weights") if adapter.is_dir() else None
    if earlier and base_weights and earlier != base_weights:
        raise InputError(
            f"The adapter in {adapter} was trained on another base ({earlier}, not {base_weights}).",
            hint="Give the base that it was trained on, not the merged model beside it.",
        )


def make_trainer(
    setup: Setup,
    kind: type[Any],
    config: type[Any],
    arguments: Mapping[str, Any],
    data: Any,
    held: Any = None,
    *,
    progress: Progress | None,
    vocabulary: int | None = None,
    **more: Any,
) -> Any:
    """Make a trainer of TRL or transformers; it watches the loss, marks whole checkpoints and stops on a signal.

    Args:
        kind, config: class of the trainer, and of its arguments.
        arguments: beside those of ``Setup.arguments``.
        data, held: data sets to train on, and to evaluate on if there is one.
        progress: called at each step, in the first process.
        vocabulary: number of tokens that the model chooses among where the loss is -log p per token, else ``None``.
        more: further arguments of the trainer.
    """
    with warnings.catch_warnings():  # about names that TRL itself still uses
        warnings.simplefilter("ignore", FutureWarning)
        made = config(**{**setup.arguments(evaluates=held is not None), **arguments})
    saves, told = bool(setup.settings.save_every), progress if is_first_process() else None
    return _steady(kind, setup.settings)(
        model=setup.model,
        args=made,
        train_dataset=data,
        eval_dataset=held,
        processing_class=setup.base.tokenizer,
        callbacks=[trainer_callback(LossWatch(vocabulary), setup.stop, setup.folder.mark, saves, told)],
        **more,
    )


def _steady(trainer: type[Any], settings: TrainingSettings) -> type[Any]:
    """Derive a trainer whose first step already learns, and whose checkpoints come without a model card.

    (The schedulers of transformers begin at a learning rate of 0: their first batch teaches nothing.)
    """
    from torch.optim.lr_scheduler import LambdaLR

    class Steady(trainer):  # type: ignore[misc]  # TRL is not typed
        lr_scheduler: Any

        def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
            if self.lr_scheduler is None:
                self.lr_scheduler = LambdaLR(
                    optimizer if optimizer is not None else self.optimizer,
                    lambda step: rate_at(step, num_training_steps, settings.warmup, settings.schedule),
                )
                self._created_lr_scheduler = True
            return self.lr_scheduler

        def create_model_card(self, *args: Any, **kwargs: Any) -> None:
            """Write none."""

    Steady.__name__ = trainer.__name__
    return Steady


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training.

    Attributes:
        output: folder of model and tokenizer; an adapter alone is in ``adapter`` within.
        rows: number trained on; ``dropped`` were left out for their length.
        steps: of the optimiser, those before an interruption included.
        losses: of each step; for supervised training the mean per completion token, in nats.
        evaluations: (step, loss on the rows held out).
        best: step whose checkpoint was taken; ``None`` without rows held out.
        seconds: of this run.
        card: contents of ``training.json``.
    """

    output: Path
    rows: int
    dropped: int
    steps: int
    losses: tuple[float, ...]
    evaluations: tuple[tuple[int, float], ...]
    best: int | None
    seconds: float
    card: dict[str, Any] = field(repr=False)


def run(
    setup: Setup,
    trainer: Any,
    rows: Mapping[str, Any],
    card: Mapping[str, Any],
    measured: Mapping[str, Mapping[str, str]] | None = None,
) -> TrainingResult:
    """Train, from the last whole checkpoint if there is one, and write model, tokenizer and card.

    Args:
        rows: identify the rows (a hash) and anything else that the training depends on.
        card: the contents of ``training.json`` that are known before (``Setup.describe``).
        measured: further figures for the card: part → name → name in TRL's log. Each is averaged over the first and
            over the last steps.

    Raises:
        InputError: the folder's training was begun with something else, or another process is training there.
        GenerationError: the training diverged; no model is saved.
        OSError: the disk is full; the same call resumes it from the last whole checkpoint.
        KeyboardInterrupt: it was interrupted; the same call resumes it.
    """
    from transformers import PrinterCallback

    trainer.remove_callback(PrinterCallback)  # it prints every log entry; ``progress`` is there for that
    first = is_first_process()
    with ExitStack() as stack:
        with trainer.args.main_process_first(local=False, desc="the output folder"):
            if first:
                stack.enter_context(setup.folder.log.locked())
                setup.folder.log.bind({RUN: {**setup.identity, **rows}})
            last = setup.folder.last() if first or setup.folder.checkpoints.exists() else None
        start = time.perf_counter()
        with interruptible(setup.stop, processes()), tells_full_disk(setup.folder.path):
            trainer.train(resume_from_checkpoint=None if last is None else str(last))
        if setup.stop.asked:
            raise KeyboardInterrupt
        whole = {
            **card,
            **_outcome(trainer, last, measured or {}),
            "seconds": round(time.perf_counter() - start, 3),
            "settings": setup.settings.model_dump(mode="json"),
            "device": "cpu" if setup.cpu else "accelerator",
            "processes": processes(),
            "versions": installed(_PACKAGES),
        }
        with tells_full_disk(setup.folder.path):
            save_trained(setup.base, trainer, setup.folder.path, adapts=setup.settings.adapts, first=first)
        if first:
            setup.folder.finish(whole)
        trainer.accelerator.wait_for_everyone()
    counts, log = card["rows"], trainer.state.log_history
    return TrainingResult(
        setup.folder.path,
        counts["trained_on"],
        counts["too_long"],
        whole["steps"],
        tuple(float(e["loss"]) for e in log if "loss" in e),
        tuple((e["step"], e["loss"]) for e in whole["evaluations"]),
        whole["best_step"],
        whole["seconds"],
        whole,
    )


def _outcome(trainer: Any, last: Path | None, measured: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Make the part of the card that training decides."""
    state, log = trainer.state, trainer.state.log_history

    def ends(key: str) -> dict[str, float | None]:
        return first_and_last([float(entry[key]) for entry in log if key in entry])

    return {
        "steps": state.global_step,
        "resumed_at": int(last.name.rsplit("-", 1)[-1]) if last is not None else 0,
        "loss": ends("loss"),
        "evaluations": [{"step": int(e["step"]), "loss": float(e["eval_loss"])} for e in log if "eval_loss" in e],
        "best_step": state.best_global_step if state.best_metric is not None else None,
        **{part: {name: ends(key) for name, key in names.items()} for part, names in measured.items()},
    }
