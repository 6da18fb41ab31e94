"""DPO (Rafailov et al. 2023) on TRL: make the answer of higher utility more likely than the other to the same prompt.

Both are encoded as at inference: as untrusted text after the pipeline's prompt, each with EOS.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shared_core.lm.encoding import Encoder
from shared_core.training.recipes import digest, leave_out_long, split
from shared_core.training.research.rows import Preference
from shared_core.training.rows import IGNORED
from shared_core.training.settings import PreferenceSettings
from shared_core.training.trainer import Setup, TrainingResult, make_trainer, prepare, run
from shared_core.training.watch import Progress

_MEASURED = {"accuracy": "rewards/accuracies", "margin": "rewards/margins"}


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
    """Train on pairs of answers; arguments, result and errors as ``recipes.train``.

    The loss is that of DPO, not of tokens. ``card["preferences"]`` has the share of pairs whose chosen answer gets the
    higher reward (accuracy) and by how much (margin, in nats times β), averaged over the first and the last steps.
    """
    settings = settings or PreferenceSettings()
    taught, apart = split(rows, evaluate_on, settings)
    setup = prepare(model, output, settings, tokenizer=tokenizer)
    data, dropped = encode_preferences(taught, setup.encoder, setup.limit, settings.too_long)
    held, lost = (
        encode_preferences(apart, setup.encoder, setup.limit, settings.too_long, "evaluation pair")
        if apart
        else ([], 0)
    )
    trainer = _make_trainer(setup, settings, data, held, progress)
    lengths = [_length(pair) for pair in data]
    roles = {"research dpo": len(rows)}
    card = setup.describe(roles, lengths, too_long=dropped + lost, evaluated_on=len(held), sources=sources)
    begun = {"trainer": "dpo", "rows": digest(data), "evaluated_on": digest(held)}
    return run(setup, trainer, begun, card, {"preferences": _MEASURED})


def encode_preferences(
    rows: Sequence[Preference], encoder: Encoder, limit: int, too_long: str = "drop", what: str = "pair"
) -> tuple[list[dict[str, list[int]]], int]:
    """Encode pairs as ids of prompt and both answers, and count those left out; errors as of ``leave_out_long``."""
    encoded = []
    for row in rows:
        prompt, chosen = _parts(*row.chosen.encode(encoder))
        _, rejected = _parts(*row.rejected.encode(encoder))
        encoded.append({"prompt_ids": prompt, "chosen_ids": chosen, "rejected_ids": rejected})
    return leave_out_long(rows, encoded, [_length(one) for one in encoded], limit, too_long, what)


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
            """Keep the ids of inference; TRL would encode untrusted text with its control tokens."""
            return dataset

    arguments = {"beta": settings.beta, "max_length": None}  # longer pairs are already left out; none is cut
    sets = (Dataset.from_list(pairs) if pairs else None for pairs in (data, held))
    # TRL loads the reference model from the trained model's path; an object has none, so a copy is given
    alone = not setup.base.name and not settings.adapts
    reference = copy.deepcopy(setup.model) if alone else None
    return make_trainer(setup, Encoded, DPOConfig, arguments, *sets, progress=progress, ref_model=reference)
