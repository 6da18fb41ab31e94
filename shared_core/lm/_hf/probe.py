"""Test which decoding methods reproduce a model's logits, by comparing them with plain forward passes.

Whatever a configuration claims, a few tokens are decoded in every way that will be used, at the lengths at which the
configuration names a change, as far as that costs little. What cannot be tried is used only where its effect is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from shared_core.errors import GenerationError, LanguageModelError, ModelLoadError
from shared_core.lm._hf import attention
from shared_core.lm._hf.cache import PrefixCache
from shared_core.lm._hf.forest import Forest
from shared_core.lm._hf.model import Runner
from shared_core.lm._hf.plan import Ids
from shared_core.lm._hf.repeated import Repeated
from shared_core.lm._hf.traits import Limit, Traits, read_traits

Way = Literal["padded", "even", "whole"]
"""How a plain batch may be decoded, the fastest first: prompts of any lengths together; only of one length; of one
length and without a cache, the whole sequences at every step."""

WAYS: tuple[Way, ...] = ("padded", "even", "whole")
_TRUNK, _TAIL, _PAD = 8, 3, 5  # tokens of a prompt, behind it, and by which another is shorter, in the shortest trial
_LONGEST = 1024  # tokens of a trial
_MOST_ROUNDING = 0.9
"""Difference of logits, in their spread, above which it is a fault whatever rounding does. With a token hidden or one
position off, Gemma 3 270M's change by 5.2 and more, SmolLM2-135M's by 2.6; in bfloat16 Gemma's differ by .67."""
_PASSES = 10  # over sequences of a trial's length, about
_OPERATIONS = {"cpu": 1e12}  # of one trial at most: some seconds
_OPERATIONS_ACCELERATED = 1e14
_PADS_BEYOND = {"sliding_window", "keep_window_size"}  # padding is known to be harmless beyond these


@dataclass(slots=True)
class Suits:
    """The decoding methods that are exact for a model.

    Attributes:
        obstacle: why no tree is decoded; empty if trees are.
        traits: what its configuration declares, with the limits that trials have found.
        allowed: difference of logits that is taken for rounding, in units of their spread.
    """

    runner: Runner
    obstacle: str
    traits: Traits
    allowed: float
    _short: Way | None = None
    _long: Way | None = None

    def way(self, length: int) -> Way:
        """Return how to decode a plain batch of sequences of that length; the first call tests it.

        LanguageModelError if it cannot be decoded in any way.
        """
        if self._short is None:
            self._short = _plain_way(self.runner, _TRUNK, self.allowed)
        limit = min((x.length for x in self._limits()), default=None)
        if limit is None or length <= limit:
            return self._short
        if self._long is None:
            try:
                self._long = self._long_way()
            except LanguageModelError as error:
                raise GenerationError(
                    f"Sequences of more than {limit} tokens cannot be decoded. {error.message}", hint=error.hint
                ) from error
        return self._long

    def _limits(self) -> list[Limit]:
        return [x for x in (*self.traits.windows, *self.traits.suspects) if x.length > _TRUNK + _TAIL]

    def _long_way(self) -> Way:
        ways: list[Way] = [self.way(0)]
        switch = self.traits.switch
        for limit in self._limits():
            steady = switch is None or limit.length + _TRUNK + _TAIL <= switch.length
            if steady and _affordable(self.runner, limit.length):
                # Once while the limit is passed, by one sequence before the other, and once beyond it.
                ways += [_plain_way(self.runner, limit.length + over, self.allowed) for over in (-1, _TRUNK)]
            elif limit.name not in _PADS_BEYOND:
                ways.append("even")
        return max(ways, key=WAYS.index)


def examine(runner: Runner, layout: str) -> Suits:
    """Determine which decoding methods are exact for a model.

    ModelLoadError if it cannot be run, or is not causal: a token's logits change with the tokens behind it.
    """
    traits = read_traits(runner.config)
    runner.grows = traits.switch is not None and traits.switch.kind == "dynamic"
    obstacle = _obstacle(runner, traits)
    if layout == "fallback":
        obstacle = "layout='fallback' was asked for"
    allowed = max(_tolerance(runner), min(_MOST_ROUNDING, _rounding(runner)))
    suits = Suits(runner, obstacle, traits, allowed)
    if not obstacle:
        suits.obstacle, suits.traits = _try_tree(runner, traits, allowed)
    try:
        if suits.obstacle:
            _refuse_noncausal(runner)
            suits.way(0)
    except GenerationError as error:
        raise ModelLoadError(
            f"{type(runner.model).__name__} cannot be run as a causal language model. {error.message}",
            hint="It must continue token ids by themselves (no encoder, no images), and give finite logits.",
        ) from error
    return suits


def _is_recurrent(runner: Runner) -> bool:
    return bool(getattr(runner.model, "_is_stateful", False)) or runner.cache_name != "past_key_values"


def _obstacle(runner: Runner, traits: Traits) -> str:
    if _is_recurrent(runner):
        return "it keeps a recurrent state"
    if not runner.takes_positions:
        return "it takes no position ids"
    implementation = getattr(runner.config, "_attn_implementation", "eager")
    if not traits.obstacle and implementation not in {"eager", "sdpa", None}:
        return f"its attention implementation {implementation!r} takes no arbitrary mask"
    return traits.obstacle


# --- trees ---------------------------------------------------------------------------------------------------------


def _try_tree(runner: Runner, traits: Traits, allowed: float) -> tuple[str, Traits]:
    """Test tree decoding; return why it is not exact (or an empty string) and the traits with the windows found."""
    if attention.available(runner.model):
        with attention.installed(runner.model):
            runner.stems = True
            fault, found = _try_lengths(runner, traits, allowed)
        if not fault:
            return fault, found
        runner.stems = False
    return _try_lengths(runner, traits, allowed)


def _rounding(runner: Runner) -> float:
    """Measure what rounding alone does to logits: two attention functions of transformers on a trial's sequences.

    In bfloat16 they differ by .1 to .7 of the logits' spread, as each does from float32. A tree and a batch add up the
    same numbers in yet another order, and were refused for less. The worst of as many sequences as a tree is compared
    on: the difference of one was below a tree's worst by a tenth.
    """
    if runner.dtype == torch.float32 or runner.config._attn_implementation != "sdpa":
        return 0.0
    prompt, tails = _texts(runner, _TRUNK, 2)
    trials = [tail[: i + 1] for tail in tails for i in range(_TAIL)]
    usual = [_plain(runner, prompt, tail) for tail in trials]
    try:
        with attention.implemented_by(runner.model, "eager"):
            return max(_difference(one, _plain(runner, prompt, tail)) for one, tail in zip(usual, trials, strict=True))
    except Exception:  # a model may refuse another implementation in any way it likes: nothing is known of rounding
        return 0.0


def _try_lengths(runner: Runner, traits: Traits, allowed: float) -> tuple[str, Traits]:
    fault = _tree_fault(runner, _TRUNK, 2, allowed)
    if fault:
        return fault, traits
    windows = list(traits.windows)
    for suspect in traits.suspects:
        size = suspect.length
        if size <= _TRUNK + _TAIL:  # the trial above went beyond it
            continue
        if not _affordable(runner, size):
            return f"what its {suspect.name} of {size} means is not known, and it is too long to be tried", traits
        crowd = size // _TAIL + 2  # short sequences, whose tree holds more slots than that
        if fault := _tree_fault(runner, _TRUNK, crowd, allowed):
            return f"{fault} once it holds more tokens than its {suspect.name} of {size}", traits
        if _tree_fault(runner, size + _TRUNK, 2, allowed):
            windows.append(suspect)
    suspects = tuple(s for s in traits.suspects if s not in windows)
    return "", Traits("", tuple(windows), suspects, traits.switch)


def _tree_fault(runner: Runner, trunk: int, branches: int, allowed: float) -> str:
    """Decode a tree of some branches behind one prompt and compare the first and the last with plain passes."""
    prompt, tails = _texts(runner, trunk, branches)
    seen = sorted({0, branches - 1})
    try:
        session = Forest(runner, PrefixCache(0))
        session.open([prompt[:-1]], [[0]])
        session.feed([(0, [int(prompt[-1])])], [False])
        session.fork([branches], [1], _TAIL)  # all branches in one lane: each must not see the others
        worst = 0.0
        for i in range(_TAIL):
            logits = session.feed([(b, [int(t[i])]) for b, t in enumerate(tails)], [False] * branches)
            for b in seen:  # the first and the last: most of the others' slots stand before the last one's
                worst = max(worst, _difference(_plain(runner, prompt, tails[b][: i + 1]), logits[b]))
    except Exception as failure:  # a model may refuse a mask in any way it likes
        return f"it refused a masked forward pass ({type(failure).__name__}: {failure})"
    return "" if worst <= allowed else f"its logits in a tree are off by {worst:.2g}"


# --- plain batches -------------------------------------------------------------------------------------------------


def _plain_way(runner: Runner, trunk: int, allowed: float) -> Way:
    """Find the fastest way of decoding a plain batch that agrees with plain passes over each sequence."""
    prompt, tails = _texts(runner, trunk, 2)
    fault = ""
    for way in WAYS[1:] if _is_recurrent(runner) else WAYS:  # padding would become part of a recurrent state
        prompts = [prompt, prompt[_PAD:] if way == "padded" else prompt]
        try:
            worst = _plain_error(Repeated(runner, cached=way != "whole"), prompts, tails)
        except GenerationError as failure:
            fault = failure.message
            continue
        except Exception as failure:  # its cache may refuse to be repeated in any way it likes
            fault = f"its cache cannot be used ({type(failure).__name__}: {failure})"
            continue
        if worst <= allowed:
            return way
        fault = f"logits in a batch are off by {worst:.2g}"
    raise ModelLoadError(
        f"{type(runner.model).__name__} cannot be decoded: {fault}",
        hint="Its logits in a batch are not those of each sequence by itself.",
    )


def _plain_error(session: Repeated, prompts: Sequence[Ids], tails: Sequence[Ids]) -> float:
    """Decode a plain batch, two continuations of the first prompt and one of the other, and compare all logits."""
    session.open([p[:-1] for p in prompts], [])
    logits = session.feed([(b, [int(p[-1])]) for b, p in enumerate(prompts)], [False] * len(prompts))
    worst = max(_difference(_plain(session.runner, p), found) for p, found in zip(prompts, logits))
    session.fork([2, 1], [1, 1], _TAIL)  # a row repeated and one that is not: the cache is reordered
    texts = [(prompts[0], tails[0]), (prompts[0], tails[1]), (prompts[1], tails[0])]
    for i in range(_TAIL):
        logits = session.feed([(b, [int(tail[i])]) for b, (_, tail) in enumerate(texts)], [False] * len(texts))
        for (prompt, tail), found in zip(texts, logits):
            worst = max(worst, _difference(_plain(session.runner, prompt, tail[: i + 1]), found))
    return worst


def _refuse_noncausal(runner: Runner) -> None:
    prompt, tails = _texts(runner, _TRUNK, 1)
    early, late = _plain(runner, prompt), _plain(runner, prompt, tails[0], place=_TRUNK - 1)
    if not bool(early.isfinite().any()):
        raise GenerationError("The model's logits are not numbers.")
    changed = _difference(early, late)
    if not changed <= _tolerance(runner):
        raise ModelLoadError(
            f"{type(runner.model).__name__} is not a causal language model: a token's logits change by {changed:.2g} "
            "with the tokens after it.",
            hint="Load a model made to continue text. (Some of these have a configuration switch: is_decoder=True.)",
        )


# --- common --------------------------------------------------------------------------------------------------------


def _affordable(runner: Runner, length: int) -> bool:
    most = _OPERATIONS.get(runner.device.type, _OPERATIONS_ACCELERATED)
    return length <= _LONGEST and _PASSES * length * runner.cost.token <= most


def _texts(runner: Runner, trunk: int, branches: int) -> tuple[Ids, list[Ids]]:
    """Draw a random prompt and random continuations."""
    known = int(getattr(runner.config, "vocab_size", 1000))
    size = min(known, int(runner.model.get_input_embeddings().num_embeddings))
    random = np.random.default_rng(0)
    return random.integers(0, size, trunk), [random.integers(0, size, _TAIL) for _ in range(branches)]


def _plain(runner: Runner, *pieces: Ids, place: int = -1) -> torch.Tensor:
    """Compute the reference: logits (vocabulary,) at the last place of a forward pass over one sequence alone."""
    ids = torch.from_numpy(np.concatenate(pieces))[None].to(runner.device)
    return runner.run(input_ids=ids, use_cache=False)[0, place]


def _difference(expected: torch.Tensor, found: torch.Tensor) -> float:
    """Return the largest difference of two rows of logits in units of the reference's spread; infinite for NaN."""
    expected, found = expected.float(), found.float().to(expected.device)
    difference = float((expected - found).abs().max() / expected.std().clamp(min=1e-6))
    return difference if np.isfinite(difference) else float("inf")


def _tolerance(runner: Runner) -> float:
    """Return the difference that rounding alone explains: larger in coarse dtypes."""
    return 1e-3 if runner.dtype == torch.float32 else 0.1
