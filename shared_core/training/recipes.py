"""Supervised fine-tuning on TRL's SFTTrainer: full, LoRA or QLoRA, on an accelerator or, for small models, on a CPU.

Rows are encoded by the ``Encoder`` that inference uses and passed to the trainer as token ids with labels; the loss
counts completions only. The output folder holds a model that ``TransformersLM`` loads, its tokenizer, and
``training.json``, which records how it was made.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from shared_core.errors import InputError
from shared_core.lm.encoding import Encoder
from shared_core.training.base_model import Prepare
from shared_core.training.rows import Grouped, Trainable
from shared_core.training.settings import TrainingSettings
from shared_core.training.trainer import Setup, TrainingResult, make_trainer, prepare, run
from shared_core.training.tree_attention import tree_attention
from shared_core.training.trees import collate_tree, plant_trees, tree_loss
from shared_core.training.watch import Progress

G = TypeVar("G", bound=Grouped)
T = TypeVar("T")

RECIPES: Mapping[str, Mapping[str, Any]] = {
    "reference": {"method": "full", "learning_rate": 2e-5, "epochs": 3},
    "claim": {"method": "lora", "learning_rate": 5e-5, "epochs": 5},
    "unified": {"method": "full", "learning_rate": 2e-5, "epochs": 3},
    "research": {"method": "full", "learning_rate": 5e-6, "max_steps": 2000, "batch_size": 16},
}
"""Settings by role. Xia et al. 2024 for the reference and the claim model; the unified model gets the reference
model's values. Batch size, warm-up and LoRA's shape are ours. ``research``: supervised fine-tuning of Piché et al.,
Table 17."""


def recipe(role: str, **changes: Any) -> TrainingSettings:
    """Make the settings for a role of ReClaim, or for ReSearch, with changes.

    Raises:
        InputError: no such role.
        SettingsError: a change is out of range or unknown.

    >>> recipe("claim", epochs=1).learning_rate
    5e-05
    """
    if role not in RECIPES:
        raise InputError(f"There is no recipe for {role!r}.", hint=f"There are: {', '.join(RECIPES)}.")
    return TrainingSettings(**{**RECIPES[role], **changes})


def encode_rows(
    rows: Sequence[Trainable],
    encoder: Encoder,
    max_length: int,
    too_long: Literal["drop", "raise"] = "drop",
    what: str = "row",
) -> tuple[list[dict[str, list[int]]], int]:
    """Encode rows as token ids with labels, and count those left out; errors as of ``leave_out_long``."""
    encoded = [dict(zip(("input_ids", "labels"), row.encode(encoder))) for row in rows]
    return leave_out_long(rows, encoded, [len(one["input_ids"]) for one in encoded], max_length, too_long, what)


def leave_out_long(
    rows: Sequence[Grouped], encoded: Sequence[T], lengths: Sequence[int], limit: int, too_long: str, what: str = "row"
) -> tuple[list[T], int]:
    """Return the encoded rows of at most ``limit`` tokens, and how many were longer.

    Raises:
        InputError: one is longer and ``too_long`` is ``raise``, or none is left; ``what`` they are called in it.
    """
    longer = [i for i, length in enumerate(lengths) if length > limit]
    if longer and too_long == "raise":
        raise InputError(
            f"{what.capitalize()} {longer[0]} (source {rows[longer[0]].source!r}) has {lengths[longer[0]]} tokens, "
            f"more than {limit}.",
            hint="Use too_long='drop', a larger max_length, or fewer passages for each row.",
        )
    if len(longer) == len(rows):
        raise InputError(
            f"All {len(rows)} {what}s are longer than {limit} tokens."
            if rows
            else f"There are no {what}s to train on.",
            hint="Give a larger max_length, or a model of longer context." if rows else "See selfreflect train.",
        )
    return [one for one, length in zip(encoded, lengths) if length <= limit], len(longer)


def hold_out(rows: Sequence[G], share: float, seed: int = 0) -> tuple[list[G], list[G]]:
    """Split rows into those to train on and those to evaluate on; a group is never on both sides.

    A ``share`` of the groups is held out, at least one; the choice depends on nothing else but the ``seed``. InputError
    if there are not two groups.
    """
    if not share:
        return list(rows), []
    keys = [row.group for row in rows]
    order = sorted(set(keys), key=lambda key: hashlib.sha256(f"{seed}\n{key}".encode()).digest())
    if len(order) < 2:
        raise InputError("All rows are of one group; none can be held out.", hint="Leave eval_share at 0.")
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

    If it is interrupted at any moment, the same call resumes from the last checkpoint.

    Args:
        rows: of one role, or of several for one model.
        model: hub name, path, or a model object (which is changed).
        output: a folder that does not exist, is empty, or holds this training, interrupted.
        settings: ``recipe(role)``, or your own.
        tokenizer: object, name or path; the model's own if ``None``.
        sources: where the rows come from, for the card (``{"file": …, "sha256": …}``).
        progress: called at each step, in the first process of a launch.
        evaluate_on: rows held out by the caller, instead of ``settings.eval_share`` of the rows.
        prepare_base: adds tokens to the base.

    Returns:
        The result; the folder holds model, tokenizer and card.

    Raises:
        MissingDependencyError: trl, peft (for LoRA), bitsandbytes (for QLoRA) or datasets is not installed.
        ModelLoadError: there is no such model.
        InputError: no rows, rows too long, a batch size that cannot be divided, an output folder that is in use or
            holds a training with other settings, weights or rows.
        GenerationError: the training diverged; no model is saved.
        KeyboardInterrupt: it was interrupted; a checkpoint is kept.
    """
    settings = settings or TrainingSettings()
    taught, apart = split(rows, evaluate_on, settings)
    setup = prepare(model, output, settings, tokenizer=tokenizer, prepare_base=prepare_base)
    data, dropped = encode_rows(taught, setup.encoder, setup.limit, settings.too_long)
    held, lost = (
        encode_rows(apart, setup.encoder, setup.limit, settings.too_long, "evaluation row") if apart else ([], 0)
    )
    trainer = _make_trainer(setup, data, held, progress)
    card = setup.describe(
        Counter(r.role for r in rows),
        [len(d["input_ids"]) for d in data],
        too_long=dropped + lost,
        evaluated_on=len(held),
        sources=sources,
    )
    return run(setup, trainer, {"rows": digest(data), "evaluated_on": digest(held)}, card)


def split(rows: Sequence[G], evaluate_on: Sequence[G], settings: TrainingSettings) -> tuple[list[G], list[G]]:
    """Choose the rows to train on and those to evaluate on: the caller's, or a share.

    InputError as of ``hold_out``; or if there are rows to evaluate on, and no checkpoints to choose the best of.
    """
    if evaluate_on:
        if not settings.save_every:
            raise InputError(
                "Rows to evaluate on need checkpoints to choose the best of, and save_every is 0.",
                hint="Give another save_every, or no rows to evaluate on.",
            )
        return list(rows), list(evaluate_on)
    return hold_out(rows, settings.eval_share, settings.seed)


def digest(data: Sequence[Mapping[str, list[int]]]) -> str:
    """Hash encoded rows."""
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()


def _make_trainer(
    setup: Setup, data: list[dict[str, list[int]]], held: list[dict[str, list[int]]], progress: Progress | None
) -> Any:
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    if setup.settings.batches == "trees":
        return _make_tree_trainer(setup, data, held, progress)
    packs = setup.settings.batches == "packed"
    arguments = {
        "max_length": setup.limit if packs else None,  # longer rows are already left out; none is cut
        "packing": packs,
        "eval_packing": False,
    }
    sets = (Dataset.from_list(rows) if rows else None for rows in (data, held))
    vocabulary = setup.base.vocabulary
    return make_trainer(setup, SFTTrainer, SFTConfig, arguments, *sets, progress=progress, vocabulary=vocabulary)


def _make_tree_trainer(
    setup: Setup, data: list[dict[str, list[int]]], held: list[dict[str, list[int]]], progress: Progress | None
) -> Any:
    """Make a trainer of transformers on trees: TRL's computes all logits, and masks of its own."""
    from transformers import Trainer, TrainingArguments

    trees = plant_trees(data, setup.limit)
    weighted = setup.settings.token_weights == "decisions"
    per_tree = sum(float(tree.weights().sum()) for tree in trees) / len(trees)

    class TreeTrainer(Trainer):  # type: ignore[misc]  # transformers is not typed
        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            if weighted:  # over the weight of an average tree, so that a tree of short answers is not blown up
                accumulated = 1 if num_items_in_batch is None else self.args.gradient_accumulation_steps
                loss = tree_loss(model, inputs, per_tree * accumulated, weighted=True)
            else:
                loss = tree_loss(model, inputs, num_items_in_batch)
                if num_items_in_batch is not None and self.args.average_tokens_across_devices:
                    loss = loss * self.accelerator.num_processes  # the gradients of processes are averaged
            return (loss, {}) if return_outputs else loss

        def train(self, *given: Any, **options: Any) -> Any:
            with tree_attention(self.model):
                return super().train(*given, **options)

    return make_trainer(
        setup,
        TreeTrainer,
        TrainingArguments,
        {"remove_unused_columns": False, "prediction_loss_only": True, "label_names": ["labels"]},
        trees,
        plant_trees(held, setup.limit) if held else None,
        data_collator=collate_tree,
        progress=progress,
        vocabulary=setup.base.vocabulary,
    )
