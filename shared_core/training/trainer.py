"""Running any of TRL's trainers by ``TrainingSettings``: arguments, checkpoints, resuming, watching, saving.

``prepare`` makes a ``Setup``; its ``arguments`` go into TRL's configuration (``SFTConfig``, ``DPOConfig``, …) and its
``callbacks`` into the trainer, whose class is ``steady(SFTTrainer)``; ``run`` trains and writes the output folder.
Under ``accelerate launch`` or ``torchrun`` every process runs all of it, and the first alone writes and tells.
"""

from __future__ import annotations

import importlib.metadata
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared_core.lm.checkpoints import default_device
from shared_core.training.base import ADAPTER, Base, Prepare, load_base, merge_onto_base, save_model, with_adapters
from shared_core.training.folder import TrainingFolder
from shared_core.training.options import LARGE, RESUMABLE_CHANGES, TrainingSettings
from shared_core.training.watch import LossWatch, rate_at

__all__ = ["Outcome", "Progress", "Setup", "is_first_process", "make_config", "prepare", "processes", "run", "steady"]

Progress = Callable[[int, int, float | None], None]
"""Told (steps done, steps in all, last loss or ``None``)."""


def processes() -> int:
    """Processes of this launch (``accelerate launch`` and ``torchrun`` say so in the environment)."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first_process() -> bool:
    """Whether this is the process that writes and tells."""
    return int(os.environ.get("RANK", "0")) == 0


@dataclass
class _Stop:
    """Set by a signal; looked at between steps."""

    asked: bool = False


@dataclass(frozen=True)
class Setup:
    """A training about to be run.

    Attributes:
        base: what is trained, as loaded.
        model: for TRL's trainer: the base, or the base under adapters.
        folder: where it writes.
        settings: how.
        cpu: whether no accelerator is used.
        micro: rows in a process's memory at a time.
    """

    base: Base
    model: Any
    folder: TrainingFolder
    settings: TrainingSettings
    cpu: bool
    micro: int
    _stop: _Stop = field(default_factory=_Stop, repr=False)

    def arguments(self, *, evaluates: bool = False, best: str = "eval_loss") -> dict[str, Any]:
        """Arguments that all of TRL's configurations share.

        Args:
            evaluates: the trainer has rows to evaluate on; the checkpoint that is best on them is the result.
            best: the measure that tells, and the smaller the better.
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
            "logging_nan_inf_filter": False,  # it would hide what ``LossWatch`` looks for
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
            found |= {"metric_for_best_model": best, "greater_is_better": False}
        return found

    def _bf16(self) -> bool:
        import torch

        if self.settings.bf16 is not None:
            return self.settings.bf16
        return not self.cpu and torch.cuda.is_available() and torch.cuda.is_bf16_supported()

    def callbacks(self, progress: Progress | None, *, vocabulary: int | None = None) -> list[Any]:
        """For the trainer: they watch, mark checkpoints as whole, end it when asked, and tell.

        Args:
            progress: told at each step, in the first process.
            vocabulary: tokens that the model chooses among where the loss is -log p per token, else ``None``.
        """
        return [_callback(self, LossWatch(vocabulary), progress if is_first_process() else None)]


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
    """Load what is to be trained; nothing is written yet.

    Args:
        model: hub name, path, or a model object (which is changed).
        output: a folder that does not exist, is empty, or holds a training that was interrupted.
        settings: how to train.
        tokenizer: object, name or path; the model's own if ``None``.
        prepare_base: adds tokens to it.

    Raises:
        MissingDependencyError: a package is missing.
        ModelLoadError: there is no such model.
        InputError: a folder in use, batches that cannot be cut, a method that needs another device.
    """
    folder = TrainingFolder(output)
    base = load_base(model, tokenizer, settings, prepare_base)
    micro = settings.micro(base.weights, processes())
    cpu = settings.use_cpu if settings.use_cpu is not None else default_device() == "cpu"
    trained = with_adapters(base, settings) if settings.adapts else base.model
    return Setup(base, trained, folder, settings, cpu, micro)


def make_config(config: type[Any], arguments: Mapping[str, Any]) -> Any:
    """TRL's configuration, without the warnings about names that TRL itself still uses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return config(**arguments)


def steady(trainer: type[Any]) -> type[Any]:
    """A trainer of TRL whose first step already learns, and whose checkpoints come without a page about them.

    (Those of transformers begin at a learning rate of 0: their first batch teaches nothing.)
    """
    from torch.optim.lr_scheduler import LambdaLR

    class Steady(trainer):  # type: ignore[misc]  # TRL is not typed
        chosen: TrainingSettings
        lr_scheduler: Any

        def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
            if self.lr_scheduler is None:
                s = self.chosen
                self.lr_scheduler = LambdaLR(
                    optimizer if optimizer is not None else self.optimizer,
                    lambda step: rate_at(step, num_training_steps, s.warmup, s.schedule),
                )
                self._created_lr_scheduler = True
            return self.lr_scheduler

        def create_model_card(self, *args: Any, **kwargs: Any) -> None:
            """Not here."""

    Steady.__name__ = trainer.__name__
    return Steady


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    Attributes:
        steps: of the optimiser, those before an interruption included.
        losses: of each logged step.
        evaluations: (step, loss on the rows kept apart).
        best: step of the checkpoint that was taken; ``None`` without evaluation.
        resumed: step from which it went on; 0 from the beginning.
        seconds: of this run.
        log: everything that was logged.
    """

    steps: int
    losses: tuple[float, ...]
    evaluations: tuple[tuple[int, float], ...]
    best: int | None
    resumed: int
    seconds: float
    log: tuple[dict[str, Any], ...] = field(repr=False, default=())

    def card(self) -> dict[str, Any]:
        """For ``training.json``."""
        return {
            "steps": self.steps,
            "resumed_at": self.resumed,
            "loss": {
                "first": self.losses[0] if self.losses else None,
                "last": self.losses[-1] if self.losses else None,
            },
            "evaluations": [{"step": step, "loss": loss} for step, loss in self.evaluations],
            "best_step": self.best,
            "seconds": round(self.seconds, 3),
        }


def run(
    setup: Setup, trainer: Any, begun_with: Mapping[str, Any], card: Mapping[str, Any]
) -> tuple[Outcome, dict[str, Any]]:
    """Train, from the last whole checkpoint if there is one, and write model, tokenizer and card.

    Args:
        setup: of ``prepare``.
        trainer: of a class made by ``steady``, with the setup's arguments and callbacks.
        begun_with: what tells this training from another (a hash of its rows, …); settings and base are added.
        card: what ``training.json`` is to hold beside the outcome.

    Returns:
        The outcome, and the card as written.

    Raises:
        InputError: the folder's training was begun with something else, or another process is at it.
        GenerationError: the training diverged; no model is saved.
        KeyboardInterrupt: it was interrupted; the same call goes on from there.
    """
    from transformers import PrinterCallback

    trainer.chosen = setup.settings
    trainer.remove_callback(PrinterCallback)  # it prints every log; whoever wants to know gives ``progress``
    first = is_first_process()
    same = {"settings": _identity(setup.settings), "base_model": setup.base.name or "object", **begun_with}
    with ExitStack() as stack:
        with trainer.args.main_process_first(local=False, desc="the output folder"):
            if first:
                stack.enter_context(setup.folder.locked())
                setup.folder.begin(same)
            last = setup.folder.last() if first or setup.folder.checkpoints.exists() else None
        start = time.perf_counter()
        with _interruptible(setup):
            trainer.train(resume_from_checkpoint=None if last is None else str(last))
        if setup._stop.asked:
            raise KeyboardInterrupt
        outcome = _outcome(trainer, last, time.perf_counter() - start)
        whole = {**card, **outcome.card(), "settings": setup.settings.model_dump(mode="json")}
        whole |= {"device": "cpu" if setup.cpu else "accelerator", "processes": processes(), "versions": _versions()}
        _save(setup, trainer)
        if first:
            setup.folder.finish(whole)
        trainer.accelerator.wait_for_everyone()
    return outcome, whole


def _identity(settings: TrainingSettings) -> dict[str, Any]:
    return {k: v for k, v in settings.model_dump(mode="json").items() if k not in RESUMABLE_CHANGES}


def _outcome(trainer: Any, last: Path | None, seconds: float) -> Outcome:
    state = trainer.state
    return Outcome(
        steps=state.global_step,
        losses=tuple(float(e["loss"]) for e in state.log_history if "loss" in e),
        evaluations=tuple((int(e["step"]), float(e["eval_loss"])) for e in state.log_history if "eval_loss" in e),
        best=state.best_global_step if state.best_metric is not None else None,
        resumed=int(last.name.rsplit("-", 1)[-1]) if last is not None else 0,
        seconds=seconds,
        log=tuple(state.log_history),
    )


def _save(setup: Setup, trainer: Any) -> None:
    path = setup.folder.path
    if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:  # every process holds a part
        trainer.save_model(str(path / ADAPTER if setup.settings.adapts else path))
        if is_first_process():
            if setup.settings.adapts:
                merge_onto_base(setup.base, path / ADAPTER).save_pretrained(path)
            setup.base.tokenizer.save_pretrained(path)
    elif is_first_process():
        save_model(setup.base, trainer.accelerator.unwrap_model(trainer.model), path)


@contextmanager
def _interruptible(setup: Setup) -> Iterator[None]:
    """SIGINT or SIGTERM lets the step end and keeps a checkpoint; a second one ends it at once.

    Processes of a launch are left alone: they would have to agree on the step.
    """
    if processes() > 1 or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(number: int, frame: object) -> None:
        if setup._stop.asked:
            raise KeyboardInterrupt
        setup._stop.asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _callback(setup: Setup, watch: LossWatch, progress: Progress | None) -> Any:
    import torch
    from transformers import TrainerCallback

    saves = bool(setup.settings.save_every)
    whole = "FSDP_VERSION" not in os.environ and os.environ.get("ACCELERATE_USE_DEEPSPEED") != "true"

    def look(step: int, model: Any) -> None:
        if whole:  # parts of weights that others hold cannot be compared
            trained = [p.detach() for p in model.parameters() if p.requires_grad]
            watch.see_weights(step, float(torch.nn.utils.get_total_norm(trained)))

    class Watch(TrainerCallback):  # type: ignore[misc]  # transformers is not typed
        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
            look(state.global_step, model)
            if progress is not None:
                progress(state.global_step, state.max_steps, None)

        def on_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
            look(state.global_step + 1, model)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if setup._stop.asked:
                control.should_training_stop = True
                control.should_save = saves

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            logs = logs or {}
            watch.see(state.global_step, logs.get("loss"), logs.get("grad_norm"))
            if progress is not None and "loss" in logs:
                progress(state.global_step, state.max_steps, logs["loss"])

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.is_world_process_zero:
                setup.folder.mark(state.global_step)

    return Watch()


def _versions() -> dict[str, str]:
    found = {}
    for package in ("selfreflect-rag", "torch", "transformers", "trl", "peft", "datasets", "bitsandbytes"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
