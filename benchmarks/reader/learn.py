"""Train the reading network: loss, schedule, running mean of the parameters, checkpoints."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.reader.ahead import on_device
from benchmarks.reader.batches import Batch, Recipe
from benchmarks.reader.network import forward, read_apart, score_cheaply
from benchmarks.reader.together import share_gradients
from shared_core.errors import InputError
from shared_core.reading.network import SUPPORTED
from shared_core.training.trainer import is_first_process

if TYPE_CHECKING:
    import torch
    from torch import Tensor

KEEP_EVERY = 100
SAY_EVERY = 50
_CHEAP = 0.3  # weight of the cheap score's loss
_NONE = -1e4


def loss(p: Mapping[str, Tensor], words: Tensor, batch: Batch, dropout: float) -> dict[str, Tensor]:
    """Compute the mean losses of one batch: ``start``, ``end``, ``sentence``, ``cheap``, ``support``.

    The first three are negative log-likelihoods of the right tokens, or of "no answer", over all windows of a question.
    ``cheap`` is that of the window that answers among the question's windows, by the cheap score.
    """
    import torch
    from torch.nn import functional as f

    device = words.device
    every: list[list[Tensor]] = [[], [], []]
    right: list[list[Tensor]] = [[], [], []]
    cheap, support, answers = [], [], []
    for part in batch.parts:
        window = read_apart(p, words, part.window_ids, part.inputs.window_mask)
        question = read_apart(p, words, part.question_ids, part.inputs.question_mask)
        x = part.inputs._replace(
            window=window,
            question=question,
            token_features=part.inputs.token_features.to(words.dtype),
            question_features=part.inputs.question_features.to(words.dtype),
        )
        out = forward(p, x, dropout=dropout)
        for i, logits in enumerate(out[:3]):
            every[i].append(logits.logsumexp(1))
            right[i].append(logits.masked_fill(~part.wanted[i], _NONE).logsumexp(1))
        cheap.append(score_cheaply(p, x))
        support.append(out.support)
        answers.append(part.wanted[0].any(1))
    groups = batch.groups
    # `groups` is padded with an index one past the last row, which `nothing` and the extra False stand at. The logit
    # of "no answer" is fixed to 0 (`null`), so that the others are log odds against it.
    nothing, null = torch.full((1,), _NONE, device=device), torch.zeros(len(groups), 1, device=device)
    held_rows = torch.cat(answers)
    held = torch.cat([held_rows, torch.zeros(1, dtype=torch.bool, device=device)])[groups]
    answered = held.any(1)
    losses: dict[str, Tensor] = {}
    for i, name in enumerate(("start", "end", "sentence")):
        everything = torch.cat([*every[i], nothing])[groups]
        found = torch.cat([*right[i], nothing])[groups].logsumexp(1)
        losses[name] = -(torch.where(answered, found, 0.0) - torch.cat([everything, null], 1).logsumexp(1)).mean()
    # The cheap score only ranks windows, so it learns from questions with an answer and several windows.
    scores = torch.cat([*cheap, nothing])[groups]
    ranked = scores.logsumexp(1) - scores.masked_fill(~held, _NONE).logsumexp(1)
    several = answered & (groups < len(held_rows)).sum(1).gt(1)
    losses["cheap"] = _CHEAP * (ranked * several).sum() / several.sum().clamp(min=1)
    logits = torch.cat(support)[batch.claims]
    if len(logits):
        known = batch.labels >= 0
        log_p = f.log_softmax(logits, 1)
        # Of a claim labelled -1 only "not SUPPORTED" is known: log(1 - P(SUPPORTED)).
        against = torch.log1p(-log_p[:, SUPPORTED].exp().clamp(max=1 - 1e-6))
        chosen = log_p.gather(1, batch.labels.clamp(min=0)[:, None])[:, 0]
        losses["support"] = -torch.where(known, chosen, against).mean()
    return losses


def fast_dtype(device: torch.device) -> torch.dtype:
    """Return what to compute in: float32 on CPUs without AMX, of which an Intel one is slower in bfloat16.

    AMD's with AVX-512 instructions for it multiply matrices three times as fast in bfloat16 (by hand).
    """
    import torch

    can = torch.cpu.get_capabilities()
    able = device.type != "cpu" or can.get("amx_bf16") or (can.get("avx512_bf16") and "AMD" in str(can.get("cpu_name")))
    return torch.bfloat16 if able else torch.float32


def rate_at(step: int, recipe: Recipe, gone: float | None = None) -> float:
    """Return the learning rate: linear warm-up, constant, then linear to 0 over the last share ``decay`` of steps.

    Args:
        step: number of the step, from 0.
        recipe: hyperparameters.
        gone: share of the time that has gone, where time is limited and not steps.
    """
    left = 1 - (step / recipe.steps if gone is None else gone)
    return recipe.rate * min(1.0, (step + 1) / recipe.warmup, max(left, 0) / recipe.decay)


def train(
    start: Mapping[str, Tensor],
    words: Tensor,
    batches: Callable[[int], Iterator[Batch]],
    recipe: Recipe,
    kept: Path,
    look: Callable[[dict[str, Tensor], int], str] = lambda parameters, step: "",
    look_every: int = 500,
    seconds: float = 0.0,
) -> dict[str, Tensor]:
    """Train, or continue from ``kept`` if that file exists, and return the running mean of the parameters.

    Args:
        start: initial parameters, not modified.
        words: (vocabulary, D) word vectors, which are not trained; all is computed where they are.
        batches: returns the batches from a step on.
        recipe: hyperparameters.
        kept: file for everything needed to continue, written every ``KEEP_EVERY`` steps.
        look: summarises the running mean; its result is printed every ``look_every`` steps.
        seconds: end, and let the rate fall, by the clock instead of by ``recipe.steps``; 0: by steps.

    Raises:
        InputError: ``kept`` is of another network, or the loss is not finite.
    """
    import torch

    device = words.device
    parameters = {name: value.detach().to(device, copy=True).requires_grad_(True) for name, value in start.items()}
    mean = {name: value.detach().clone() for name, value in parameters.items()}
    # Weight decay for matrices only, not for biases and norms.
    matrices = [v for v in parameters.values() if v.ndim > 1]
    others = [v for v in parameters.values() if v.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}], betas=(0.9, 0.98)
    )
    done = _resume(kept, parameters, mean, optimizer) if kept.exists() else 0
    began, width = time.monotonic(), fast_dtype(device)
    words = words.to(width)
    if not seconds and done >= recipe.steps:
        return mean
    sums: dict[str, float] = {}
    for step, drawn in zip(itertools.count(done), batches(done)):
        gone = (time.monotonic() - began) / seconds if seconds else None
        batch = on_device(drawn, device)
        torch.manual_seed(recipe.seed * 1_000_003 + step)  # of dropout
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, recipe, gone)
        optimizer.zero_grad()
        # Compute in bfloat16 where it is fast, but update float32 parameters: small updates would be rounded away.
        computed = {name: value.to(width) for name, value in parameters.items()}
        losses = loss(computed, words, batch, recipe.dropout)
        total = torch.stack(list(losses.values())).sum()
        torch.autograd.backward(total)
        if not torch.isfinite(total):
            raise InputError(f"The loss is {total.item()} at step {step}.", hint="Lower the learning rate.")
        share_gradients(parameters.values())
        torch.nn.utils.clip_grad_norm_(parameters.values(), 1.0)
        optimizer.step()
        decay = min(0.998, (step + 1) / (step + 20))  # short at first, so that the start is soon forgotten
        with torch.no_grad():
            torch._foreach_lerp_(list(mean.values()), list(parameters.values()), 1 - decay)
        for name, value in losses.items():
            sums[name] = sums.get(name, 0.0) + value.item()
        last = step + 1 >= recipe.steps if gone is None else gone >= 1
        if is_first_process():  # only the first one saves and prints
            if (step + 1) % SAY_EVERY == 0:
                shown = ", ".join(f"{name} {value / SAY_EVERY:.3f}" for name, value in sums.items())
                each = (time.monotonic() - began) / (step + 1 - done)
                print(f"step {step + 1}: {shown}; {each:.2f} s a step", flush=True)
                sums.clear()
            if last or (step + 1) % KEEP_EVERY == 0:
                _save(kept, parameters, mean, optimizer, step + 1)
            if last or (step + 1) % look_every == 0:
                print(f"step {step + 1}: {look(mean, step + 1)}", flush=True)
        if last:
            break
    return mean


def _save(file: Path, parameters: Mapping[str, Tensor], mean: Mapping[str, Tensor], optimizer: Any, step: int) -> None:
    import torch

    part = file.with_suffix(file.suffix + ".part")
    state = {"parameters": dict(parameters), "mean": dict(mean), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, part)
    part.replace(file)


def _resume(file: Path, parameters: Mapping[str, Tensor], mean: Mapping[str, Tensor], optimizer: Any) -> int:
    import torch

    state = torch.load(file, weights_only=True)
    shapes = {name: value.shape for name, value in state["parameters"].items()}
    if shapes != {name: value.shape for name, value in parameters.items()}:
        raise InputError(f"{file} holds another network.", hint="Give another file, or remove it.")
    with torch.no_grad():
        for name in parameters:
            parameters[name].copy_(state["parameters"][name])
            mean[name].copy_(state["mean"][name])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])
