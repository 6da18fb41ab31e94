"""Supervised fine-tuning on TRL's SFTTrainer: full, LoRA or QLoRA, on an accelerator or, for small models, on a CPU.

Rows are encoded by the ``Encoder`` that inference uses and handed to the trainer as token ids with labels; the loss
counts completions only. The output folder holds a model that ``TransformersLM`` loads, its tokenizer, and
``training.json``, which says what it was made from.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from shared_core.errors import InputError
from shared_core.lm.checkpoints import context_length
from shared_core.lm.encoding import Encoder
from shared_core.training.base import Prepare
from shared_core.training.folder import CARD
from shared_core.training.options import TrainingSettings
from shared_core.training.rows import Grouped, Trainable
from shared_core.training.trainer import Outcome, Progress, Setup, make_config, prepare, run, steady

__all__ = [
    "CARD",
    "RECIPES",
    "Progress",
    "TrainingResult",
    "TrainingSettings",
    "digest",
    "encode_rows",
    "hold_out",
    "recipe",
    "result_of",
    "train",
]

G = TypeVar("G", bound=Grouped)

_UNKNOWN_CONTEXT = 2048
"""Tokens of a row at most, where neither the settings nor the model say."""

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
        output: folder of model and tokenizer; an adapter by itself is in ``adapter`` within.
        rows: trained on; ``dropped`` left out for their length.
        steps: of the optimiser.
        losses: mean loss per completion token (nats) of each step.
        seconds: of the training itself.
        card: what ``training.json`` holds.
        evaluations: (step, loss on the rows kept apart).
        best: step whose checkpoint was taken; ``None`` without rows to evaluate on.
    """

    output: Path
    rows: int
    dropped: int
    steps: int
    losses: tuple[float, ...]
    seconds: float
    card: dict[str, Any] = field(repr=False)
    evaluations: tuple[tuple[int, float], ...] = ()
    best: int | None = None


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


def hold_out(rows: Sequence[G], share: float, seed: int = 0) -> tuple[list[G], list[G]]:
    """Rows to train on and rows to evaluate on; rows that teach about one thing are on one side.

    Args:
        rows: in any order; their ``group`` tells what belongs together.
        share: of the groups that are kept apart, at least one of them.
        seed: of the choice, which depends on nothing else.

    Raises:
        InputError: there are not two of them.
    """
    if not share:
        return list(rows), []
    keys = [row.group for row in rows]
    order = sorted(set(keys), key=lambda key: hashlib.sha256(f"{seed}\n{key}".encode()).digest())
    if len(order) < 2:
        raise InputError("All rows teach about one thing; none can be kept apart.", hint="Leave eval_share at 0.")
    apart = set(order[: max(1, round(share * len(order)))])
    kept = [row for row, key in zip(rows, keys) if key not in apart]
    return kept, [row for row, key in zip(rows, keys) if key in apart]


def train(
    rows: Sequence[Trainable],
    model: Any,
    output: str | Path,
    settings: TrainingSettings | None = None,
    *,
    tokenizer: Any = None,
    sources: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    evaluate_on: Sequence[Trainable] = (),
    prepare_base: Prepare | None = None,
) -> TrainingResult:
    """Fine-tune a causal language model of transformers on rows.

    Ended at any moment, the same call goes on from its last checkpoint.

    Args:
        rows: of one role, or of several that one model shall play.
        model: hub name, path, or a model object (which is changed).
        output: a folder that does not exist, is empty, or holds this training, interrupted.
        settings: ``recipe(role)``, or your own.
        tokenizer: object, name or path; the model's own if ``None``.
        sources: where the rows come from, for the card (``{"file": …, "sha256": …}``).
        progress: told at each step, in the first process of a launch.
        evaluate_on: rows kept apart by the caller, instead of ``settings.eval_share`` of the rows.
        prepare_base: adds tokens to the base.

    Returns:
        The result; the folder holds model, tokenizer and card.

    Raises:
        MissingDependencyError: trl, peft (for LoRA), bitsandbytes (for QLoRA) or datasets is not installed.
        ModelLoadError: there is no such model.
        InputError: no rows, rows too long, a batch size that does not divide, an output folder that is in use or holds
            a training that was begun with something else.
        GenerationError: the training diverged; no model is saved.
        KeyboardInterrupt: it was interrupted; a checkpoint is kept.
    """
    settings = settings or TrainingSettings()
    setup = prepare(model, output, settings, tokenizer=tokenizer, prepare_base=prepare_base)
    config = setup.base.model.config.get_text_config()
    limit = settings.max_length or context_length(config) or _UNKNOWN_CONTEXT
    encoder = Encoder(setup.base.tokenizer)
    taught, apart = (
        (list(rows), list(evaluate_on)) if evaluate_on else hold_out(rows, settings.eval_share, settings.seed)
    )
    data, dropped = encode_rows(taught, encoder, limit, settings.too_long)
    held, _ = encode_rows(apart, encoder, limit, settings.too_long) if apart else ([], [])
    trainer = _make_trainer(setup, data, held, limit, progress)
    lengths = [len(d["input_ids"]) for d in data]
    card = {
        "rows": {"given": len(rows), "trained_on": len(data), "too_long": len(dropped), "evaluated_on": len(held)},
        "roles": dict(sorted(Counter(r.role for r in rows).items())),
        "tokens": {"longest": max(lengths), "all": sum(lengths), "limit": limit},
        "sources": dict(sources or {}),
        "base_model": setup.base.name or "object",
    }
    outcome, whole = run(setup, trainer, {"rows": digest(data), "evaluated_on": digest(held)}, card)
    return result_of(setup, len(data), len(dropped), outcome, whole)


def result_of(setup: Setup, rows: int, dropped: int, outcome: Outcome, card: dict[str, Any]) -> TrainingResult:
    """What a run came to, for whoever asked for the training."""
    return TrainingResult(
        setup.folder.path,
        rows,
        dropped,
        outcome.steps,
        outcome.losses,
        outcome.seconds,
        card,
        outcome.evaluations,
        outcome.best,
    )


def digest(data: Sequence[Mapping[str, list[int]]]) -> str:
    """Tells these encoded rows from others."""
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()


def _make_trainer(
    setup: Setup,
    data: list[dict[str, list[int]]],
    held: list[dict[str, list[int]]],
    limit: int,
    progress: Progress | None,
) -> Any:
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    packs = setup.settings.batches == "packed"
    arguments = {
        **setup.arguments(evaluates=bool(held)),
        "max_length": limit if packs else None,  # rows that are too long are already left out; none is cut
        "packing": packs,
        "eval_packing": False,
    }
    return steady(SFTTrainer)(
        model=setup.model,
        args=make_config(SFTConfig, arguments),
        train_dataset=Dataset.from_list(data),
        eval_dataset=Dataset.from_list(held) if held else None,
        processing_class=setup.base.tokenizer,
        callbacks=setup.callbacks(progress, vocabulary=setup.base.vocabulary),
    )
