"""Train a LoRA adapter over SmolLM2-135M-Instruct on trees of tokens, by the clock.

    python3 on_gpu --data FOLDER --out FOLDER --seconds 500 [--total 560] [--smoke] [--compile]

FOLDER holds base.json, base_a.bin, base_b.bin, reflection.npz, start.safetensors, trees.xz and held.xz. The merged
weights W + s·BA are computed once a step, rounded as they are when the adapter is loaded, so that a step is an
ordinary one of a model whose weights all have a gradient, and its adapter gets that gradient's projection.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
from pathlib import Path

import torch
from files import load_base, read_safetensors
from model import Small
from training import WITHOUT_END, Log, Training
from trees import Trees, make_pool, stream


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=500, help="of training, after everything is loaded")
    parser.add_argument("--total", type=float, default=1e9, help="seconds after which this process is over, at most")
    parser.add_argument("--steps", type=int, default=WITHOUT_END)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--tokens", type=int, default=16384, help="of a step, padding included")
    parser.add_argument("--rank", type=int, default=40)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--warmup", type=float, default=0.03)
    parser.add_argument("--beta2", type=float, default=0.98)
    parser.add_argument("--decay", type=float, default=0.0)
    parser.add_argument("--ema", type=float, default=0.995, help="of the weights, in the last fifth of the time")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="without start.safetensors")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="a few steps, to measure; nothing is written")
    parser.add_argument("--memory", type=float, default=40, help="GB of the device's memory at most")
    return parser.parse_args()


def _set_up_cuda(gigabytes: float) -> None:
    whole = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, gigabytes * 1e9 / whole))
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(True)
    torch.backends.cuda.enable_math_sdp(True)  # where the other does not take these shapes


def main() -> None:
    given = _arguments()
    if not given.smoke:
        given.out.mkdir(parents=True, exist_ok=True)
    say = Log(None if given.smoke else given.out / "small_log.txt")
    stop: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _: stop.append(got))
    trees, held = Trees(given.data / "trees.xz"), Trees(given.data / "held.xz")
    pool = make_pool(trees, given.workers)
    some = random.Random(1).sample(range(len(trees)), min(500, len(trees)))
    per_token = sum(float(trees.tree(n)["weights"].sum()) for n in some) / int(trees.sizes[some].sum())
    millions = int(trees.sizes.sum()) / 1e6
    say(f"{len(trees)} trees, {millions:.1f} M tokens; weight of a token {per_token:.4f}; torch {torch.__version__}")
    if given.device.startswith("cuda"):
        _set_up_cuda(given.memory)
    model = Small(load_base(given.data), given.rank, 2.0, given.device, getattr(torch, given.dtype))
    if not given.fresh:
        say(f"begun with {model.start(read_safetensors(given.data / 'start.safetensors'))} modules of an adapter")
    batches = stream(trees, given.tokens, given.seed, pool, say)
    training = Training(given, model, batches, held, per_token, say)
    training.begin()
    training.smoke() if given.smoke else training.run(stop)
    if pool is not None:
        pool.terminate()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # without waiting for anything
