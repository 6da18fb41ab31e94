"""Read results off finished jobs, and attention weights with one extra forward pass over their samples.

The fast attention kernels that decoding uses never form the weights, so they are computed afterwards by eager
attention, for the sequences they are asked for. Of the last layer all are kept, of the others what each token gives to
the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shared_core.errors import CapabilityError, GenerationError, InputError, LanguageModelError
from shared_core.lm._detokenize import Detokenizer
from shared_core.lm._hf.attention import implemented_by
from shared_core.lm._hf.decode import Branch, Job
from shared_core.lm._hf.model import Runner
from shared_core.lm.base import Alternative, Attention, Sample, Scores, States, StatesResult, as_result
from shared_core.types import Usage

_NAMES = ("self_attn", "attn", "attention", "self_attention", "self_attention_block")


def gives_attention(runner: Runner) -> bool:
    """Return whether the last layer's attention module is found and may return its weights."""
    if not hasattr(runner.model, "set_attn_implementation"):
        return False
    try:
        return _attention_of(runner._layer_list()[-1]) is not None
    except CapabilityError:
        return False


def _attention_of(layer: Any) -> Any | None:
    return next((m for n in _NAMES if isinstance(m := getattr(layer, n, None), torch.nn.Module)), None)


def _watched(runner: Runner, ids: Sequence[int]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Run a sequence of S tokens and return its attention weights; GenerationError if the last layer gives none.

    Returns:
        (heads, S, S) of the last layer; (heads, S - 1) of each layer that has such weights: what each token from the
        second on gives to the one before it.
    """
    last: list[torch.Tensor] = []
    previous: dict[int, torch.Tensor] = {}
    layers = runner._layer_list()

    def watch(layer: int) -> Callable[[Any, Any, Any], None]:
        def see(module: Any, inputs: Any, output: Any) -> None:
            found = [o for o in output if isinstance(o, torch.Tensor) and o.dim() == 4]
            if not found:
                return
            weights = found[-1][0]
            if weights.shape[1] == weights.shape[2]:
                previous[layer] = weights.diagonal(-1, dim1=1, dim2=2)  # below the main one: on the token before
            if layer == len(layers) - 1:
                last.append(weights)

        return see

    attentions = [(i, module) for i, x in enumerate(layers) if (module := _attention_of(x)) is not None]
    handles = [module.register_forward_hook(watch(i)) for i, module in attentions]
    try:
        runner.forward(torch.tensor([[*ids]], device=runner.device), None, None, None, [])
    finally:
        for handle in handles:
            handle.remove()
    if not last:
        raise GenerationError("The last layer's attention gave no weights.", hint="Use another estimator or gate.")
    return last[-1], [previous[i] for i in sorted(previous)]


def _stacked(previous: Sequence[torch.Tensor], start: int) -> NDArray[np.float32] | None:
    """Return (layers, heads, T) for the T tokens from ``start`` on; ``None`` if there are none or heads differ."""
    # Entry t of a row is the weight of token t + 1 on token t: shifted by one against the tokens.
    rows = [w[:, start - 1 :] for w in previous]  # (heads, T) of each layer
    if not rows or len({r.shape for r in rows}) > 1:
        return None
    return torch.stack(rows).float().cpu().numpy()


def read_attention(
    runner: Runner, detokenizer: Detokenizer, prompt: Sequence[int], generated: Sequence[Sequence[int]]
) -> list[Attention]:
    """Compute the weights of each continuation of a prompt, where ``gives_attention`` says that there are any.

    Call it in inference mode, from one thread at a time.

    Raises:
        GenerationError: the model gives no weights after all, or fails.
    """
    tokens = tuple(detokenizer.text([t]) for t in prompt)
    text, start = detokenizer.text(prompt), len(prompt)

    def read(ids: Sequence[int]) -> Attention:
        runner.settle()  # or dynamic frequencies would depend on the sequence before
        last, previous = _watched(runner, [*prompt, *ids])
        # (heads, S, S) -> queries of the continuation only: (heads, T, S), float32 on the CPU.
        weights = last[:, start:].float().cpu().numpy()
        context = weights[:, :, :start].mean(0)  # (T, C)
        return Attention(weights[:, :, start:], context, tokens, text, _stacked(previous, start))

    try:
        # Eager attention is the only implementation that forms (heads, S, S) weights.
        with implemented_by(runner.model, "eager"):
            return [read(ids) for ids in generated]
    except GenerationError:
        raise
    except Exception as error:  # a model may refuse another implementation of attention in any way it likes
        raise GenerationError(f"The model gave no attention weights: {type(error).__name__}: {error}") from error


def read_sample(job: Job, branch: Branch, detokenizer: Detokenizer) -> Sample:
    """Convert a finished branch to a sample."""
    params = job.params
    if branch.scanner is not None and branch.stop is not None:
        text = branch.scanner.cut(branch.stop, params.include_stop)
    else:
        silent = branch.finish == "eos" or (branch.stop_token_id is not None and not params.include_stop)
        text = detokenizer.text(branch.ids[:-1] if silent else branch.ids)
    likely = (tuple(Alternative(detokenizer.text([i]), p) for i, p in row) for row in branch.alternatives)
    return Sample(
        text=text,
        token_ids=tuple(branch.ids),
        finish_reason=branch.finish or "length",
        stop=branch.stop,
        stop_token_id=branch.stop_token_id,
        logprobs=tuple(branch.logprobs) if params.logprobs else None,
        tokens=tuple(detokenizer.text([t]) for t in branch.ids),
        verdict_logprobs=np.stack(branch.verdicts) if job.verdicts else None,
        next_verdict_logprobs=branch.next_verdicts,
        entropy=tuple(branch.entropy) if params.token_statistics else None,
        logsumexp=tuple(branch.logsumexp) if params.token_statistics else None,
        hidden_state=branch.hidden,
        alternatives=tuple(likely) if params.alternatives else None,
    )


def read_scores(job: Job) -> Scores:
    """Read the log-probabilities of the given continuations."""
    return Scores(tuple(tuple(b.logprobs) for b in job.branches), read_usage(job))


def read_state(job: Job) -> States:
    """Read the state (1, d) at the end of a sequence."""
    hidden = job.branches[0].hidden
    assert hidden is not None
    return States(hidden[None], read_usage(job))


def read_usage(job: Job) -> Usage:
    """Count what a job has cost."""
    return Usage(
        calls=1,
        prompt_tokens=job.prompt_tokens,
        generated_tokens=0 if job.given else sum(len(b.ids) for b in job.branches),
        forwards=job.forwards,
        forwards_saved=sum(b.saved for b in job.branches),
        cached_tokens=job.cached_tokens,
    )


def stack_states(parts: Sequence[StatesResult]) -> StatesResult:
    """Join the states of single sequences to (sequences, d); the first error if there is one."""
    failed = next((part for part in parts if isinstance(part, LanguageModelError)), None)
    found = [part for part in parts if isinstance(part, States)]
    if failed is not None or not found:
        return failed or as_result(InputError("HiddenStates.sequences is empty."))
    return States(np.concatenate([s.states for s in found]), sum((s.usage for s in found), Usage()))
