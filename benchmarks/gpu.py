"""Measure decoding on an accelerator: SmolLM2 and random models of 1 to 8 billion parameters, beside vLLM's engine.

    python benchmarks/gpu.py [--sizes smollm2 1b 3b 8b] [--dtype bfloat16] [--device cuda] [--vllm] [--json FILE]
    python benchmarks/gpu.py --quick        # a tiny model, on whatever device there is: shows that the script runs

Of each model: 20 samples of ten tokens of eight prompts of 920 tokens, as one of SeaKR's decisions asks for them, by
our trees, by transformers' ``generate`` and, with ``--vllm``, by vLLM with CUDA graphs and without; with hidden states
where the backend gives them; the time of the prompts alone; and the most memory that was allocated. Methods alternate,
with empty caches, and wait for the device; figures are medians and their ratios (above 1: our trees are faster).
``greedy_same_…`` is the share of greedy continuations that equal ``generate``'s in the same precision.

Weights of the models of a given size are random: speed and memory do not depend on them. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import gc
import random
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks import alternate, command_line, write_figures
from benchmarks.lm import DRAW, checked, make_tokenizer, sentences
from shared_core.lm.base import Capture, Generate, Prompt, SamplingParams
from shared_core.lm.transformers import TransformersLM

# hidden size, layers, heads, heads of keys and values, size of the feed-forward layer, vocabulary
SIZES: Mapping[str, tuple[int, int, int, int, int, int]] = {
    "tiny": (128, 2, 2, 1, 256, 1500),
    "1b": (2048, 16, 32, 8, 8192, 128_256),  # as Llama 3.2 1B
    "3b": (3072, 28, 24, 8, 8192, 128_256),
    "8b": (4096, 32, 32, 8, 14_336, 128_256),  # as Llama 3.1 8B
}
PROMPTS, LENGTH, SAMPLES, NEW = 8, 920, 20, 10
QUICK = (2, 60, 4, 4)


def make_checkpoint(size: str, dtype: torch.dtype, device: str, folder: Path) -> None:
    """Write a Llama of that size with random weights, and a tokenizer of its vocabulary, made on the device."""
    from transformers import LlamaConfig, LlamaForCausalLM

    width, layers, heads, kv_heads, inner, vocabulary = SIZES[size]
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=kv_heads, max_position_embeddings=4096,
        bos_token_id=1, eos_token_id=None, pad_token_id=0, tie_word_embeddings=size != "8b",
    )  # fmt: skip
    torch.manual_seed(0)
    with torch.device(device):
        model = LlamaForCausalLM(config).to(dtype)
    model.save_pretrained(folder)
    make_tokenizer(sentences(400, random.Random(0))).save_pretrained(folder)
    del model


class Bench:
    """One model under test, its prompts, and timing that waits for the device.

    Args:
        lm: our backend of it; ``generate`` of transformers runs on the same weights.
        shape: prompts, tokens of each, samples of each, new tokens.
        repeats: measurements of each method.
    """

    def __init__(self, lm: TransformersLM, shape: tuple[int, int, int, int], repeats: int) -> None:
        self.lm, self.model, self.repeats = lm, lm._runner.model, repeats
        self.device = next(self.model.parameters()).device
        self.count, self.length, self.samples, self.new = shape
        rng, vocabulary = random.Random(1), min(1400, self.model.config.vocab_size)
        self.prompts = [[rng.randrange(3, vocabulary) for _ in range(self.length)] for _ in range(self.count)]
        lm._eos = []  # random weights end at random places, and every method must write as many tokens

    def requests(self, *, states: bool = False, **params: Any) -> list[Generate]:
        capture = Capture(position="last") if states else None
        usual = {"n": self.samples, "max_tokens": self.new, "seed": 1, "capture": capture, **DRAW}
        drawn = SamplingParams(**{**usual, **params})
        return [Generate(Prompt.tokens(p), drawn) for p in self.prompts]

    def generate(self, **options: Any) -> torch.Tensor:
        """Return what transformers writes to all prompts in one batch; shape (prompts · samples, new tokens)."""
        ids = torch.tensor(self.prompts, device=self.device)
        with torch.inference_mode():
            found = self.model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=self.new, pad_token_id=0, **options
            )
        return found[:, self.length :]

    def prefill(self) -> None:
        with torch.inference_mode():
            self.model(torch.tensor(self.prompts, device=self.device), use_cache=True, logits_to_keep=1)

    def median(self, actions: Mapping[str, Callable[[], object]]) -> dict[str, float]:
        """Return the median seconds of each action; they alternate, after one run that warms up."""

        def clock() -> float:
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            return time.perf_counter()

        alternate(actions, 1, clock, self.lm.clear_cache)
        return alternate(actions, self.repeats, clock, self.lm.clear_cache)

    def memory(self, act: Callable[[], object]) -> float:
        """Return the bytes that an action allocates at most beyond the weights; 0 where there is no accelerator."""
        if self.device.type != "cuda":
            act()
            return 0.0
        self.lm.clear_cache()
        gc.collect()
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        act()
        return float(torch.cuda.max_memory_allocated(self.device) - before)


def measure(bench: Bench, others: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return the figures of one model: seconds, ratios, memory and how many greedy continuations agree."""
    drawn, with_states = bench.requests(), bench.requests(states=True)

    def repeated() -> torch.Tensor:
        return bench.generate(do_sample=True, num_return_sequences=bench.samples, **DRAW)

    ways: dict[str, Callable[[], object]] = {
        "trees": lambda: checked(bench.lm.generate(drawn)),
        "states": lambda: checked(bench.lm.generate(with_states)),
        "generate": repeated,
        "prefill": bench.prefill,
        **others,
    }
    out = {f"seconds_{name}": seconds for name, seconds in bench.median(ways).items()}
    ours = out["seconds_trees"]
    out |= {f"ratio_{name}": out[f"seconds_{name}"] / ours for name in ("generate", *others)}
    out["ratio_to_prefill"] = ours / out["seconds_prefill"]
    out["bytes_trees"] = bench.memory(ways["trees"])
    out["bytes_generate"] = bench.memory(repeated)
    greedy = checked(bench.lm.generate(bench.requests(n=1, temperature=0.0, top_k=0, top_p=1.0, seed=None)))
    theirs = bench.generate(do_sample=False).tolist()
    same = [list(g.samples[0].token_ids) == t for g, t in zip(greedy, theirs, strict=True)]
    return out | {"greedy_same": sum(same) / len(same)}


def measure_vllm(folder: Path, bench: Bench, dtype: str) -> dict[str, float]:
    """Return the median seconds of vLLM's engine over the same requests, with CUDA graphs and without."""
    from shared_core.lm.vllm import VLLM

    out: dict[str, float] = {}
    for name, eager in (("vllm_graphs", False), ("vllm_eager", True)):
        length = -(-(bench.length + bench.new) // 32) * 32
        share = 0.4  # of the device's memory: ours stays loaded beside it
        options = {"dtype": dtype, "max_model_len": length, "enforce_eager": eager, "gpu_memory_utilization": share}
        with VLLM(str(folder), hidden_states=False, **options) as engine:

            def act(engine: VLLM = engine) -> None:
                engine._engine._llm.reset_prefix_cache()
                checked(engine.generate(bench.requests(min_tokens=bench.new, seed=None)))

            out[name] = bench.median({name: act})[name]
    return out


def run(options: argparse.Namespace) -> dict[str, float]:
    """Measure each model; figures are named FIGURE_SIZE."""
    dtype = getattr(torch, options.dtype)
    shape, repeats = (QUICK, 1) if options.quick else ((PROMPTS, LENGTH, SAMPLES, NEW), options.repeats)
    figures: dict[str, float] = {}
    table = Table(title=f"{options.device}, {options.dtype}: {shape[2]} samples of {shape[0]} × {shape[1]} tokens")
    rows: dict[str, list[str]] = {}
    for size in ["tiny"] if options.quick else options.sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if size != "smollm2":
                make_checkpoint(size, dtype, options.device, folder)
            source = "smollm2" if size == "smollm2" else name
            lm = TransformersLM(source, device=options.device, dtype=dtype, prefix_cache_bytes=0)
            bench = Bench(lm, shape, repeats)
            found = measure(bench, {})
            if options.vllm and size != "smollm2":
                for way, seconds in measure_vllm(folder, bench, options.dtype).items():
                    found |= {f"seconds_{way}": seconds, f"ratio_{way}": seconds / found["seconds_trees"]}
            figures["parameters_" + size] = float(sum(p.numel() for p in bench.model.parameters()))
            figures |= {f"{figure}_{size}": value for figure, value in found.items()}
            for figure, value in found.items():
                rows.setdefault(figure, []).append(f"{value:,.3g}" if value < 1e4 else f"{value:,.0f}")
            del lm, bench
            gc.collect()
    table.add_column("figure")
    for size in ["tiny"] if options.quick else options.sizes:
        table.add_column(size, justify="right")
    for figure, values in rows.items():
        table.add_row(figure, *values)
    Console().print(table)
    return figures


def main() -> None:
    parser = command_line(__doc__, quick="a tiny model and short prompts", data=False)
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--sizes", nargs="+", choices=["smollm2", *SIZES], default=["smollm2", "1b", "3b", "8b"])
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16")
    parser.add_argument("--device", default=default)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--vllm", action="store_true", help="vLLM too, where it is installed")
    options = parser.parse_args()
    if options.device == "cpu" and not options.quick:
        Console().print("skipped: there is no accelerator here (--quick shows that the script runs)")
        return
    figures = run(options)
    write_figures(figures, options.json)


if __name__ == "__main__":
    main()
