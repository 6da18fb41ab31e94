"""Compare bfloat16 with float32 on a CPU: speed of sampling and of hidden states, and how far logits differ.

    OMP_NUM_THREADS=1 python benchmarks/lm_dtypes.py [--model NAME] [--new-tokens 10 30] [--quick] [--json FILE]

Eight prompts of 920 tokens without a common prefix, 20 samples each, with empty caches; both precisions draw in turn,
and the figures are medians of CPU time. `ratio_N`: float32 / bfloat16 for samples of N tokens; `ratio_hidden_N`: the
same with hidden states. `kl_ours`, `kl_plain`: mean Kullback-Leibler divergence (nats) of the next token's
distribution from float32's, with our attention in bfloat16 and with transformers' own.
"""

from __future__ import annotations

import statistics
import sys
import time
from functools import partial
from pathlib import Path

import torch
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import ROOT, alternate, command_line, show_figures, write_figures
from benchmarks.lm import DRAW, checked
from shared_core.lm._hf import attention
from shared_core.lm.base import Capture, Generate, Prompt, SamplingParams
from shared_core.lm.transformers import TransformersLM

TEXTS = 3, 600  # pieces of our own docs whose logits are compared, and their tokens


def requests_of(lm: TransformersLM, prompts: int, length: int, n: int, new: int, hidden: bool) -> list[Generate]:
    """Cut our docs into prompts without a common prefix, each to be sampled ``n`` times."""
    text = "\n".join(p.read_text("utf-8") for p in sorted((ROOT / "docs").glob("*.md")))
    ids = lm.encoder.encode(Prompt.trusted(text[: prompts * length * 8]))
    capture = Capture() if hidden else None
    params = SamplingParams(n=n, max_tokens=new, min_tokens=new, seed=1, capture=capture, **DRAW)
    return [Generate(Prompt.tokens(ids[i * length : (i + 1) * length]), params) for i in range(prompts)]


def _draw(lm: TransformersLM, requests: list[Generate]) -> None:
    checked(lm.generate(requests))


def divergences(full: TransformersLM, coarse: TransformersLM) -> tuple[float, float]:
    """Return how far the coarse model's next-token distributions are from the full one's, with ours and plainly."""
    ours, plain = [], []
    texts = requests_of(full, *TEXTS, 1, 1, False)
    with torch.inference_mode():
        for request in texts:
            ids = torch.tensor([full.encoder.encode(request.prompt)])
            expected = full.model(ids).logits[0].float().log_softmax(-1)

            def distance(expected: torch.Tensor = expected, ids: torch.Tensor = ids) -> float:
                found = coarse.model(ids).logits[0].float().log_softmax(-1)
                return float((expected.exp() * (expected - found)).sum(-1).mean())

            plain.append(distance())
            with attention.installed(coarse.model):
                ours.append(distance())
    return statistics.mean(ours), statistics.mean(plain)


def main() -> None:
    parser = command_line(__doc__, quick="2 prompts of 300 tokens, n = 5, one round", data=False)
    parser.add_argument("--model", default="smollm2", help="smollm2, a GGUF file or a checkpoint's folder")
    parser.add_argument("--new-tokens", type=int, nargs="*", default=[10, 30], help="lengths of the samples")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    lms: dict[str, TransformersLM] = {}
    for dtype in ("float32", "bfloat16"):
        lms[dtype] = TransformersLM(options.model, device="cpu", dtype=dtype, prefix_cache_bytes=0)
    size, rounds = ((2, 300, 5), 1) if options.quick else ((8, 920, 20), options.rounds)
    out = dict(zip(("kl_ours", "kl_plain"), divergences(*lms.values()), strict=True))
    for new in options.new_tokens:
        for hidden in (False, True):
            requests = requests_of(lms["float32"], *size, new, hidden)
            draw = {name: partial(_draw, lm, requests) for name, lm in lms.items()}
            alternate(draw, 1)  # warm up
            taken = alternate(draw, rounds, time.process_time)
            name = f"ratio_{'hidden_' if hidden else ''}{new}"
            out[name] = taken["float32"] / taken["bfloat16"]
            Console().print(f"{name}: {out[name]:.2f}")
    show_figures(out, "bfloat16 beside float32")
    write_figures(out, options.json)


if __name__ == "__main__":
    main()
