"""Measure interleaved ReClaim end to end, in reference–claim pairs per second, with prompt caches kept and dropped.

Part of ``benchmarks/citation.py``. A random Llama writes pairs over about 1,000 tokens of passages through
``TransformersLM`` and the pipeline's own flow, once unchanged and once with its prefix cache emptied at each switch
between reference and claim (as published code does). The two alternate. A random model never ends a claim, so in both
runs the generated text is afterwards replaced by a fixed sentence of the same length.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Sequence
from typing import Any

from shared_core.lm.base import BaseLanguageModel, Generate, GenerateResult, Generation
from shared_core.pipelines.decision.question_run import Abilities, QuestionRun
from shared_core.pipelines.reclaim.loop import write
from shared_core.runtime import flow as flows
from shared_core.runtime.flow import Resources
from shared_core.settings import SelfReflectSettings
from shared_core.types import Passage

CLAIM = "The sentence quoted above says so of the matter asked about, and of nothing else."
PAIRS = 5


class Writer(BaseLanguageModel):
    """``TransformersLM`` whose claims end; ``drop`` empties its cache before every request."""

    def __init__(self, lm: Any, drop: bool) -> None:
        self.lm, self.drop = lm, drop
        self.name, self.capabilities = lm.name, lm.capabilities
        self.prompt_tokens = self.cached_tokens = 0

    def generate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Generate, count the requests, and replace each claim's text by a complete sentence."""
        if self.drop:
            self.lm.clear_cache()
        results: list[GenerateResult] = self.lm.generate(requests)
        return [self._ended(q, r) if isinstance(r, Generation) else r for q, r in zip(requests, results)]

    def _ended(self, request: Generate, made: Generation) -> Generation:
        self.prompt_tokens += made.usage.prompt_tokens
        self.cached_tokens += made.usage.cached_tokens
        if request.model != "claim":
            return made
        sample = dataclasses.replace(made.samples[0], text=CLAIM, finish_reason="stop")
        return dataclasses.replace(made, samples=(sample,))


def random_llama(tokenizer: Any, quick: bool) -> tuple[Any, Any]:
    """Build a random Llama (9 or 20 million parameters) and its transformers tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<eos>")
    width, layers = (256, 6) if quick else (384, 8)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(wrapped), hidden_size=width, intermediate_size=width * 11 // 4, num_hidden_layers=layers,
        num_attention_heads=width // 64, num_key_value_heads=width // 64, max_position_embeddings=4096,
        bos_token_id=None, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval(), wrapped


def pairs_per_second(tokenizer: Any, passages: Sequence[Passage], quick: bool) -> dict[str, float]:
    """Return the figures, timed in CPU seconds of one thread so that other processes do not count."""
    import torch

    from shared_core.lm.transformers import TransformersLM

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model, wrapped = random_llama(tokenizer, quick)
    lm = TransformersLM(model, wrapped)
    settings = SelfReflectSettings(
        reclaim={"published": {"min_pairs": PAIRS}, "max_pairs": PAIRS, "max_sentences": 1, "max_claim_tokens": 24}
    )
    size = sum(len(wrapped(p.text)["input_ids"]) for p in passages)
    taken: dict[bool, list[float]] = {False: [], True: []}
    cached: dict[bool, float] = {}
    for turn in range(3 if quick else 7):
        for drop in (False, True):
            lm.clear_cache()
            writer = Writer(lm, drop)
            resources = Resources(models={"default": writer})
            start = time.process_time()
            claims = flows.run(
                write("What does it say?", passages, QuestionRun(settings, Abilities.of(resources))), resources
            )
            seconds = time.process_time() - start
            if len(claims) != PAIRS:
                raise SystemExit(f"{len(claims)} pairs were written, not {PAIRS}.")
            if turn:  # the first compiles grammars' tokenizer view and warms up
                taken[drop].append(seconds / PAIRS)
            cached[drop] = writer.cached_tokens / max(1, writer.prompt_tokens)
    torch.set_num_threads(threads)
    kept, dropped = (statistics.median(taken[d]) for d in (False, True))
    weights = sum(p.numel() for p in model.parameters()) / 1e6
    print(
        f"\ninterleaved ReClaim, {weights:.0f} M random Llama, {size} tokens of passages, {PAIRS} pairs an answer:\n"
        f"  caches kept    {1 / kept:.2f} pairs per CPU second ({cached[False]:.0%} of prompt tokens from the cache)\n"
        f"  caches dropped {1 / dropped:.2f} pairs per CPU second ({cached[True]:.0%})\n"
        f"  ratio          {dropped / kept:.2f}"
    )
    return {
        "pairs_per_second_kept": 1 / kept,
        "pairs_per_second_dropped": 1 / dropped,
        "pairs_speedup_kept_caches": dropped / kept,
    }
