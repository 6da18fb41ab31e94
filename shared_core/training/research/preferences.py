"""DPO (Rafailov et al. 2023) on TRL: of two answers to a prompt the one that is worth more becomes more likely.

Both are encoded as inference does, as untrusted text behind the pipeline's prompt, each with its end.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shared_core.errors import InputError
from shared_core.lm.checkpoints import context_length
from shared_core.lm.encoding import Encoder
from shared_core.training.base import ADAPTER
from shared_core.training.recipes import TrainingResult, digest, hold_out, result_of
from shared_core.training.research.recipes import PreferenceSettings
from shared_core.training.research.rows import Preference
from shared_core.training.rows import IGNORED
from shared_core.training.trainer import Progress, Setup, is_first_process, make_config, prepare, run, steady

__all__ = ["encode_preferences", "train_preferences"]

_UNKNOWN_CONTEXT = 2048


def train_preferences(
    rows: Sequence[Preference],
    model: Any,
    output: str | Path,
    settings: PreferenceSettings | None = None,
    *,
    tokenizer: Any = None,
    sources: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    evaluate_on: Sequence[Preference] = (),
) -> TrainingResult:
    """Train on preferred answers; arguments, result and errors as ``recipes.train``.

    The loss is that of DPO, not of tokens. ``card["preferences"]`` has the share of pairs that the model tells apart as
    it should (accuracy) and by how much (margin, in nats times β), at the first and the last step.
    """
    settings = settings or PreferenceSettings()
    setup = prepare(model, output, settings, tokenizer=tokenizer)
    limit = settings.max_length or context_length(setup.base.model.config.get_text_config()) or _UNKNOWN_CONTEXT
    encoder = Encoder(setup.base.tokenizer)
    taught, apart = (
        (list(rows), list(evaluate_on)) if evaluate_on else hold_out(rows, settings.eval_share, settings.seed)
    )
    data, dropped = encode_preferences(taught, encoder, limit, settings.too_long)
    held = encode_preferences(apart, encoder, limit, settings.too_long)[0] if apart else []
    trainer = _make_trainer(setup, settings, data, held, progress)
    card = {
        "rows": {"given": len(rows), "trained_on": len(data), "too_long": dropped, "evaluated_on": len(held)},
        "roles": {"research dpo": len(rows)},
        "tokens": {"longest": max(map(_length, data)), "all": sum(map(_length, data)), "limit": limit},
        "sources": dict(sources or {}),
        "base_model": setup.base.name or "object",
    }
    begun = {"trainer": "dpo", "rows": digest(data), "evaluated_on": digest(held)}
    outcome, whole = run(setup, trainer, begun, card)
    whole |= _measures(outcome.log)
    if is_first_process():
        setup.folder.finish(whole)
        # TRL keeps the adapter that it started from beside the trained one
        shutil.rmtree(setup.folder.path / ADAPTER / "ref", ignore_errors=True)
    return result_of(setup, len(data), dropped, outcome, whole)


def encode_preferences(
    rows: Sequence[Preference], encoder: Encoder, limit: int, too_long: str = "drop"
) -> tuple[list[dict[str, list[int]]], int]:
    """Pairs as ids of prompt and both answers, and how many were left out because they are too long.

    Raises:
        InputError: a pair is too long and that is to raise, or none is left.
    """
    kept: list[dict[str, list[int]]] = []
    dropped = 0
    for i, row in enumerate(rows):
        prompt, chosen = _parts(*row.chosen.encode(encoder))
        _, rejected = _parts(*row.rejected.encode(encoder))
        one = {"prompt_ids": prompt, "chosen_ids": chosen, "rejected_ids": rejected}
        if _length(one) <= limit:
            kept.append(one)
        elif too_long == "raise":
            raise InputError(
                f"Pair {i} (source {row.source!r}) has {_length(one)} tokens, more than {limit}.",
                hint="Use too_long='drop', or a larger max_length.",
            )
        else:
            dropped += 1
    if not kept:
        raise InputError(
            f"All {len(rows)} pairs are longer than {limit} tokens." if rows else "There are no pairs to train on.",
            hint="Give a larger max_length." if rows else "selfreflect research-data makes them: dpo.jsonl.",
        )
    return kept, dropped


def _parts(ids: list[int], labels: list[int]) -> tuple[list[int], list[int]]:
    start = next(i for i, label in enumerate(labels) if label != IGNORED)
    return ids[:start], ids[start:]


def _length(one: Mapping[str, list[int]]) -> int:
    return len(one["prompt_ids"]) + max(len(one["chosen_ids"]), len(one["rejected_ids"]))


def _make_trainer(
    setup: Setup,
    settings: PreferenceSettings,
    data: list[dict[str, list[int]]],
    held: list[dict[str, list[int]]],
    progress: Progress | None,
) -> Any:
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    class Encoded(DPOTrainer):  # type: ignore[misc]  # TRL is not typed
        def _prepare_dataset(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
            """The ids are those of inference already; TRL would take all of a prompt for trusted text."""
            return dataset

    arguments = {
        **setup.arguments(evaluates=bool(held)),
        "beta": settings.beta,
        "max_length": None,  # pairs that are too long are already left out; none is cut
    }
    # TRL loads the model to compare with from where the trained one came from; an object came from nowhere
    alone = not setup.base.name and not settings.adapts
    return steady(Encoded)(
        model=setup.model,
        ref_model=copy.deepcopy(setup.model) if alone else None,
        args=make_config(DPOConfig, arguments),
        train_dataset=Dataset.from_list(data),
        eval_dataset=Dataset.from_list(held) if held else None,
        processing_class=setup.base.tokenizer,
        callbacks=setup.callbacks(progress),
    )


def _measures(log: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """For the card: how well pairs are told apart, at the first and the last step."""
    steps = [e for e in log if "rewards/accuracies" in e]
    names = {"accuracy": "rewards/accuracies", "margin": "rewards/margins"}
    return {
        "preferences": {
            name: {"first": float(steps[0][key]), "last": float(steps[-1][key])} for name, key in names.items() if steps
        }
    }
