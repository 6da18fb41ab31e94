"""RLOO (Ahmadian et al. 2024) on TRL: the model samples answers, and those of higher reward become more likely.

The reward is ours (``reward``): the expected utility of an answer, whose claims the pipeline's parts judge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shared_core.errors import InputError
from shared_core.lm.encoding import Encoder, plain_text
from shared_core.training.recipes import TrainingResult, digest
from shared_core.training.research.reward import Sampled
from shared_core.training.research.rows import Prompted
from shared_core.training.settings import OnlineSettings
from shared_core.training.trainer import Progress, Setup, make_config, prepare, processes, run, steady

__all__ = ["Reward", "train_online"]

Reward = Callable[[Sequence[Sampled]], list[float | None]]
"""Gives a reward for each sampled answer, ``None`` where it is unknown; ``reward.UtilityReward`` is one."""

_MEASURED = {
    "reward": "reward",
    "kl": "kl",
    "tokens": "completions/mean_length",
    "cut": "completions/clipped_ratio",
}


def train_online(
    rows: Sequence[Prompted],
    model: Any,
    output: str | Path,
    reward: Reward,
    settings: OnlineSettings | None = None,
    *,
    tokenizer: Any = None,
    sources: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    reward_card: Mapping[str, Any] | None = None,
) -> TrainingResult:
    """Train on rewards of sampled answers; other arguments, result and errors as ``recipes.train``.

    ``card["online"]`` has the reward, the KL divergence from the starting model (nats per token), the tokens of an
    answer and the share that was cut off, averaged over the first and the last steps. Where there are fewer prompts
    than are sampled for at a time, they are repeated.

    Args:
        model: name or path, which TRL loads once more as the reference; under adapters, or with β = 0, also an object.
        reward: called with all answers that were sampled at a time.
        reward_card: description of the reward for the card; a training does not resume with another one.

    Raises:
        InputError: also where every prompt is too long for an answer of ``max_new_tokens`` after it.
        SelfReflectError: raised by the reward.
    """
    settings = settings or OnlineSettings()
    if not isinstance(model, (str, Path)) and settings.beta and not settings.adapts:
        raise InputError("RLOO compares with the model as it was: give its name or path.", hint="Or train adapters.")
    setup = prepare(model, output, settings, tokenizer=tokenizer)
    prompts, dropped = _encode(rows, setup.encoder, setup.limit - settings.max_new_tokens, settings.too_long)
    trainer = _make_trainer(setup, settings, prompts, reward, progress)
    lengths = [len(ids) for _, _, ids in prompts]
    card = setup.describe({"research rloo": len(rows)}, lengths, too_long=dropped, sources=sources)
    card["reward"] = dict(reward_card or {})
    begun = {"trainer": "rloo", "reward": card["reward"], "rows": digest([{"ids": ids} for _, _, ids in prompts])}
    return run(setup, trainer, begun, card, {"online": _MEASURED})


def _encode(
    rows: Sequence[Prompted], encoder: Encoder, room: int, too_long: str
) -> tuple[list[tuple[str, str, list[int]]], int]:
    """Encode prompts as (source, text, ids), and count those that leave no room for an answer."""
    found = [(row.source, plain_text(row.prompt), encoder.encode(row.prompt)) for row in rows]
    kept = [one for one in found if len(one[2]) <= room]
    if not kept or (too_long == "raise" and len(kept) < len(found)):
        raise InputError(
            f"{len(found) - len(kept)} of {len(found)} prompts leave no room for an answer: more than {room} tokens.",
            hint="Give a smaller max_new_tokens, or a larger max_length.",
        )
    return kept, len(found) - len(kept)


def _make_trainer(
    setup: Setup,
    settings: OnlineSettings,
    prompts: Sequence[tuple[str, str, list[int]]],
    reward: Reward,
    progress: Progress | None,
) -> Any:
    from datasets import Dataset
    from trl import RLOOConfig, RLOOTrainer

    ids = {text: given for _, text, given in prompts}
    ends = _ends(setup)

    class Encoded(RLOOTrainer):  # type: ignore[misc]  # TRL is not typed
        def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
            """Use the ids of inference; TRL would encode untrusted text with its control tokens."""
            return [ids[prompt] for prompt in prompts], None, {}

    def utility(completions: list[str], completion_ids: list[list[int]], source: list[str], **_: Any) -> Any:
        cut = [not (given and given[-1] in ends) for given in completion_ids]
        return reward([Sampled(s, t, not c) for s, t, c in zip(source, completions, cut)])

    arguments = setup.arguments()
    steps = _generation_steps(settings, arguments)
    together = steps * setup.micro * processes() // settings.samples
    chosen = list(prompts) * -(-together // len(prompts))  # TRL leaves out a batch that is not full
    arguments |= {
        "beta": settings.beta,
        "num_generations": settings.samples,
        "max_completion_length": settings.max_new_tokens,
        "temperature": settings.temperature,
        "steps_per_generation": steps,
        "generation_kwargs": {"use_cache": True},
    }
    return steady(Encoded)(
        model=setup.model,
        reward_funcs=utility,
        args=make_config(RLOOConfig, arguments),
        train_dataset=Dataset.from_list([{"prompt": text, "source": source} for source, text, _ in chosen]),
        processing_class=setup.base.tokenizer,
        callbacks=setup.callbacks(progress),
    )


def _ends(setup: Setup) -> set[int]:
    """Collect the ids with which the model ends an answer."""
    own = setup.base.model.generation_config.eos_token_id
    return {setup.base.tokenizer.eos_token_id, *([own] if isinstance(own, int) else own or ())}


def _generation_steps(settings: OnlineSettings, arguments: Mapping[str, Any]) -> int:
    """Choose how many of a step's accumulated batches are sampled at a time: whole groups, within ``sample_batch``.

    All of them together are whole groups: the settings refuse other batch sizes.
    """
    micro, accumulated = arguments["per_device_train_batch_size"], arguments["gradient_accumulation_steps"]
    whole = [
        n for n in range(1, accumulated + 1) if accumulated % n == 0 and n * micro * processes() % settings.samples == 0
    ]
    return max([n for n in whole if n * micro <= settings.sample_batch], default=whole[0])
