"""Compare sampling by tree decoding with vLLM's CPU build, on a random Llama built here or on a released model.

    make bench-vllm
    .venv-vllm/bin/python benchmarks/lm_vllm.py [--quick] [--json FILE] [--clock cpu|wall] [--threads N] [--rounds N]
    .venv-vllm/bin/python benchmarks/lm_vllm.py --model smollm2 --dtype bfloat16 --new-tokens 30

It needs the environment that ``make test-vllm`` builds. Both draw the same number of samples of the same prompts with
the same settings and dtype, alternating, with empty caches; of a released model 20 samples of 8 prompts of 920 tokens.
The figures are the medians and their ratio (above 1: tree decoding is faster). vLLM is measured with a seed, as the
settings have one, and without.

By default the clock is CPU time: of one thread here, and of one thread of vLLM and all its processes, so that other
processes do not count; ``--clock wall --threads N`` measures wall-clock time on an idle machine.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import command_line, show_figures, write_figures
from benchmarks.lm import DRAW, checked, make_model, make_tokenizer, sentences
from shared_core.lm.base import BaseLanguageModel, Generate, Prompt, SamplingParams

ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "4", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}


def make_checkpoint(folder: str, quick: bool) -> tuple[float, int]:
    """Write a model and its tokenizer. Returns millions of parameters and the size of the vocabulary."""
    tokenizer = make_tokenizer(sentences(400, random.Random(0)))
    model = make_model(len(tokenizer), *((256, 6) if quick else (512, 10)))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return sum(p.numel() for p in model.parameters()) / 1e6, len(tokenizer)


def checkpoint_of(model: str, dtype: str) -> tuple[str, float, int]:
    """Return the folder of a GGUF file's dequantised copy, its millions of parameters and its vocabulary's size."""
    import torch
    from transformers import AutoModelForCausalLM

    from shared_core.lm._hf.gguf import dequantised, find_gguf

    file = find_gguf(model)
    if file is not None:
        model = dequantised(file, getattr(torch, dtype), with_tokenizer=True)
    loaded = AutoModelForCausalLM.from_pretrained(model, local_files_only=True)
    return model, sum(p.numel() for p in loaded.parameters()) / 1e6, loaded.config.vocab_size


def make_requests(prompts: int, length: int, n: int, vocabulary: int, seed: int | None, new: int) -> list[Generate]:
    """Make prompts without a common prefix, each to be sampled ``n`` times."""
    rng = random.Random(1)
    # Every sample has the same length: none may end early.
    params = SamplingParams(n=n, max_tokens=new, min_tokens=new, seed=seed, **DRAW)
    return [
        Generate(Prompt.tokens([rng.randrange(3, vocabulary) for _ in range(length)]), params) for _ in range(prompts)
    ]


def processor_seconds(*, children: bool) -> float:
    """Return the CPU time of this process so far, with or without its child processes (vLLM's)."""
    import psutil

    me = psutil.Process()
    processes = [me, *(me.children(recursive=True) if children else ())]
    return sum(t.user + t.system for t in (p.cpu_times() for p in processes))


def draw(lm: BaseLanguageModel, requests: Sequence[Generate], clock: Callable[[], float]) -> float:
    """Draw the samples. Returns the seconds it took."""
    start = clock()
    results = lm.generate(requests)
    taken = clock() - start
    for result, request in zip(checked(results), requests, strict=True):
        lengths = [len(s.token_ids) for s in result.samples]
        assert lengths == [request.params.max_tokens] * request.params.n, lengths
    return taken


def measure(folder: str, options: argparse.Namespace, vocabulary: int) -> dict[str, float]:
    """Return the median seconds of each method; methods alternate."""
    from shared_core.lm.transformers import TransformersLM
    from shared_core.lm.vllm import VLLM

    size = (8, 300, 5) if options.quick else (8, 920, 20) if options.model else (32, 900, 20)
    seeded, free = (make_requests(*size, vocabulary, seed, options.new_tokens) for seed in (1, None))
    length = -(-(size[1] + options.new_tokens) // 32) * 32
    with VLLM(folder, dtype=options.dtype, max_model_len=length, hidden_states=False) as engine:
        trees = TransformersLM(folder, device="cpu", dtype=options.dtype, prefix_cache_bytes=0)

        def clock(children: bool) -> float:
            return processor_seconds(children=children) if options.clock == "cpu" else time.perf_counter()

        def of_vllm(requests: list[Generate]) -> float:
            engine._engine._llm.reset_prefix_cache()
            return draw(engine, requests, lambda: clock(True))

        ways: dict[str, Callable[[], float]] = {
            "trees_seconds": lambda: draw(trees, seeded, lambda: clock(False)),
            "vllm_seconds": lambda: of_vllm(free),
            "vllm_seeded_seconds": lambda: of_vllm(seeded),
        }
        for way in ways.values():
            way()  # warm up: both compile or allocate at first
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, way in ways.items():
                taken[name].append(way())
    return {name: statistics.median(times) for name, times in taken.items()}


def main() -> None:
    parser = command_line(__doc__, quick="8 prompts of 300 tokens, n = 5, a smaller model", data=False)
    parser.add_argument("--model", help="smollm2, a GGUF file or a checkpoint's folder, in place of a random model")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--new-tokens", type=int, default=10, help="length of each sample")
    parser.add_argument("--clock", choices=("cpu", "wall"), default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ["VLLM_CPU_OMP_THREADS_BIND"] = f"0-{options.threads - 1}" if options.threads > 1 else "0"
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import torch

    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as temporary:
        folder = temporary
        if options.model:
            folder, millions, vocabulary = checkpoint_of(options.model, options.dtype)
        else:
            millions, vocabulary = make_checkpoint(folder, options.quick)
        figures: dict[str, Any] = {"model_parameters": millions * 1e6, **measure(folder, options, vocabulary)}
    figures["vllm_ratio"] = figures["vllm_seconds"] / figures["trees_seconds"]
    figures["vllm_seeded_ratio"] = figures["vllm_seeded_seconds"] / figures["trees_seconds"]
    show_figures(figures, f"Our trees and vLLM's CPU build, {millions:.1f} M")
    write_figures(figures, options.json)


if __name__ == "__main__":
    main()
