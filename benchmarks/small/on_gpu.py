"""Train a LoRA adapter over SmolLM2-135M-Instruct on trees of tokens, by the clock.

    python3 on_gpu.py --data FOLDER --out FOLDER --seconds 500 [--total 560] [--smoke] [--compile]

FOLDER holds base.json, base_a.bin, base_b.bin, reflection.npz, start.safetensors, trees.xz and held.xz. The merged
weights W + s·BA are computed once a step, rounded as they are when the adapter is loaded, so that a step is an
ordinary one of a model whose weights all have a gradient, and its adapter gets that gradient's projection.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import multiprocessing
import os
import random
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

BEGAN = time.monotonic()
SKILLS = ("short", "quote", "self_rag", "read", "numbered", "claim", "judge", "condense", "hops", "tasks")
LAYERS, WIDTH, HEADS, KV, HEAD, INNER = 30, 576, 9, 3, 64, 1536
THETA, EPS = 100000.0, 9.999999747378752e-06
MODULES = {
    "self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (KV * HEAD, WIDTH), "self_attn.v_proj": (KV * HEAD, WIDTH),
    "self_attn.o_proj": (WIDTH, WIDTH), "mlp.gate_proj": (INNER, WIDTH), "mlp.up_proj": (INNER, WIDTH),
    "mlp.down_proj": (WIDTH, INNER),
}  # fmt: skip
GGUF = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}  # fmt: skip
GROUPS = (
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), ("self_attn.o_proj",),
    ("mlp.gate_proj", "mlp.up_proj"), ("mlp.down_proj",),
)  # fmt: skip
STEP = 64  # lengths of batches are multiples of it


# --- data ---------------------------------------------------------------------------------------------------------


class Trees:
    """Trees of rows that share their beginnings, depth first: a token sees i where i <= it < end[i]."""

    def __init__(self, file: Path) -> None:
        with np.load(io.BytesIO(unpacked(file))) as found:
            for name in found.files:
                setattr(self, name, found[name])
        new = self.new.astype(np.int64)
        self.first_row = np.concatenate([[0], np.cumsum(self.rows, dtype=np.int64)])
        self.first_id = np.concatenate([[0], np.cumsum(new)])
        self.first_range = np.concatenate([[0], np.cumsum(self.ranges, dtype=np.int64)])
        self.sizes = self.first_id[self.first_row[1:]] - self.first_id[self.first_row[:-1]]

    def __len__(self) -> int:
        return len(self.skills)

    def tree(self, n: int) -> dict:
        """ids, depth, end of each token; nodes, labels, weights of what is learnt."""
        r0, r1 = int(self.first_row[n]), int(self.first_row[n + 1])
        ids = self.ids[self.first_id[r0] : self.first_id[r1]].astype(np.int64)
        size = len(ids)
        end, depth = np.full(size, size, dtype=np.int64), np.empty(size, dtype=np.int64)
        path, at = np.empty(0, dtype=np.int64), 0
        nodes, labels, weights = [], [], []
        for r in range(r0, r1):
            shared, new = int(self.shared[r]), int(self.new[r])
            end[path[shared:]] = at
            path = np.concatenate([path[:shared], np.arange(at, at + new)])
            depth[at : at + new] = np.arange(shared, shared + new)
            at += new
            row = np.append(ids[path], self.last[r])
            ranges = range(int(self.first_range[r]), int(self.first_range[r + 1]))
            places = np.concatenate([self.starts[k] + np.arange(self.lengths[k], dtype=np.int64) for k in ranges])
            weight = np.full(len(places), len(places) ** (-1 / 3), dtype=np.float32)
            weight[0] = 1.0
            nodes.append(path[places - 1])
            labels.append(row[places])
            weights.append(weight)
        return {
            "ids": ids, "depth": depth, "end": end, "nodes": np.concatenate(nodes),
            "labels": np.concatenate(labels), "weights": np.concatenate(weights),
        }  # fmt: skip

    def batches(self, tokens: int, seed: int, some: np.ndarray | None = None) -> list[list[int]]:
        """Divide trees, shuffled, into batches of equal lengths of at most so many tokens with what pads them."""
        rng = random.Random(seed)
        order = list(range(len(self))) if some is None else [int(i) for i in some]
        rng.shuffle(order)
        batches = []
        for start in range(0, len(order), 2048):
            part = sorted(order[start : start + 2048], key=lambda n: self.sizes[n])
            found, batch = [], []
            for n in part:  # ascending: the last is the longest
                if batch and (len(batch) + 1) * padded(int(self.sizes[n])) > tokens:
                    found.append(batch)
                    batch = []
                batch.append(n)
            found.append(batch)
            rng.shuffle(found)
            batches += found
        return batches

    def collate(self, batch: list[int]) -> dict:
        """Put trees side by side; a padding token sees itself."""
        trees = [self.tree(n) for n in batch]
        length = padded(max(len(t["ids"]) for t in trees))
        shape = (len(trees), length)
        ids, depth = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
        end = np.broadcast_to(np.arange(1, length + 1, dtype=np.int32), shape).copy()
        for b, t in enumerate(trees):
            size = len(t["ids"])
            ids[b, :size], depth[b, :size], end[b, :size] = t["ids"], t["depth"], t["end"]
        counts = [len(t["nodes"]) for t in trees]
        return {
            "ids": ids, "depth": depth, "end": end, "tokens": sum(len(t["ids"]) for t in trees),
            "nodes": np.concatenate([t["nodes"] for t in trees]).astype(np.int32),
            "labels": np.concatenate([t["labels"] for t in trees]).astype(np.int32),
            "weights": np.concatenate([t["weights"] for t in trees]),
            "tree": np.repeat(np.arange(len(trees), dtype=np.int32), counts),
            "skill": np.repeat(self.skills[batch].astype(np.int32), counts),
        }  # fmt: skip


def unpacked(file: Path) -> bytes:
    try:
        import lzma
    except ImportError:  # a Python that was built without it
        return subprocess.run(["xz", "-dc", str(file)], check=True, stdout=subprocess.PIPE).stdout
    return lzma.decompress(file.read_bytes())


def padded(size: int) -> int:
    return -(-size // STEP) * STEP


DATA: Trees | None = None


def _collate(batch: list[int]) -> dict:
    return DATA.collate(batch)


def _settle() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def stream(tokens: int, seed: int, pool):
    """Yield batches without end, made by other processes; by this one where they fail."""
    while True:
        batches = DATA.batches(tokens, seed)
        for start in range(0, len(batches), 512):  # so that what waits stays small
            part = batches[start : start + 512]
            made = pool.imap(_collate, part) if pool is not None else None
            for batch in part:
                if made is not None:
                    try:
                        yield made.next(timeout=30)
                        continue
                    except Exception as error:
                        say(f"workers failed, going on without: {error!r}")
                        made = pool = None
                yield DATA.collate(batch)
        seed += 1


# --- files --------------------------------------------------------------------------------------------------------


def dequantise(raw: np.ndarray, kind: str, shape: list[int]) -> np.ndarray:
    if kind == "F32":
        return raw.view(np.float32).reshape(shape)
    if kind == "Q8_0":
        blocks = raw.reshape(-1, 34)
        scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        return (blocks[:, 2:].copy().view(np.int8).astype(np.float32) * scale).reshape(shape)
    if kind == "Q4_1":
        blocks = raw.reshape(-1, 20)
        scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        least = blocks[:, 2:4].copy().view(np.float16).astype(np.float32)
        halves = blocks[:, 4:]
        values = np.concatenate([halves & 15, halves >> 4], 1).astype(np.float32)
        return (scale * values + least).reshape(shape)
    raise ValueError(kind)


def unpermuted(weight: np.ndarray, heads: int) -> np.ndarray:
    """Undo the order of the rows of q and k that GGUF files of Llama have."""
    split = weight.reshape(heads, weight.shape[0] // heads // 2, 2, weight.shape[1])
    return split.swapaxes(1, 2).reshape(weight.shape)


def load_base(folder: Path) -> dict[str, torch.Tensor]:
    """Weights by the names of transformers, bfloat16; the rows of the reflection tokens are appended."""
    raw = np.concatenate([np.fromfile(folder / name, np.uint8) for name in ("base_a.bin", "base_b.bin")])
    out = {}
    for name, (kind, shape, offset, count) in json.loads((folder / "base.json").read_text()).items():
        weight = dequantise(raw[offset : offset + count], kind, shape)
        parts = name.split(".")
        if parts[0] == "blk":
            if parts[2] in ("attn_q", "attn_k"):
                weight = unpermuted(weight, HEADS if parts[2] == "attn_q" else KV)
            key = f"model.layers.{parts[1]}.{GGUF[parts[2]]}.weight"
        else:
            key = {"token_embd": "model.embed_tokens.weight", "output_norm": "model.norm.weight"}[parts[0]]
        out[key] = torch.from_numpy(np.ascontiguousarray(weight)).to(torch.bfloat16)
    rows = torch.from_numpy(np.load(folder / "reflection.npz")["rows"].view(np.int16)).view(torch.bfloat16)
    out["model.embed_tokens.weight"] = torch.cat([out["model.embed_tokens.weight"], rows])
    return out


def read_safetensors(file: Path) -> dict[str, torch.Tensor]:
    """Tensors of a file in bfloat16."""
    raw = file.read_bytes()
    (count,) = struct.unpack("<Q", raw[:8])
    out = {}
    for name, about in json.loads(raw[8 : 8 + count]).items():
        if name != "__metadata__":
            assert about["dtype"] == "BF16", about
            a, b = about["data_offsets"]
            values = np.frombuffer(raw, np.int16, (b - a) // 2, 8 + count + a).copy()
            out[name] = torch.from_numpy(values).view(torch.bfloat16).reshape(about["shape"])
    return out


def write_safetensors(tensors: dict[str, torch.Tensor], file: Path, about: dict[str, str]) -> None:
    head, at, raw = {"__metadata__": about}, 0, []
    for name, tensor in sorted(tensors.items()):
        data = tensor.detach().to("cpu", torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes()
        head[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
        raw.append(data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    part = file.with_name(f".{file.name}.part")
    part.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(raw))
    os.replace(part, file)


# --- model --------------------------------------------------------------------------------------------------------


class Small:
    """The base with adapters on every linear layer of every layer."""

    def __init__(self, base: dict, rank: int, scale: float, device: str, dtype: torch.dtype) -> None:
        self.scale, self.device, self.dtype = scale, device, dtype
        self.table = base["model.embed_tokens.weight"].to(device, dtype)
        self.norm = base["model.norm.weight"].to(device, dtype)
        layers = range(LAYERS)

        def stacked(name: str) -> torch.Tensor:
            return torch.stack([base[f"model.layers.{n}.{name}.weight"] for n in layers]).to(device, dtype)

        self.norms = [stacked(name).unbind(0) for name in ("input_layernorm", "post_attention_layernorm")]
        self.frozen = {name: stacked(name) for name in MODULES}
        generator = torch.Generator().manual_seed(0)
        self.a, self.b = {}, {}
        for name, (outputs, inputs) in MODULES.items():
            drawn = (torch.rand(LAYERS, rank, inputs, generator=generator) * 2 - 1) / math.sqrt(inputs)
            self.a[name] = drawn.to(device).requires_grad_()
            self.b[name] = torch.zeros(LAYERS, outputs, rank, device=device, requires_grad=True)
        # As transformers computes it.
        powers = torch.arange(0, HEAD, 2, dtype=torch.int64).float() / HEAD
        angles = torch.arange(2048).float()[:, None] * (1.0 / THETA**powers)
        angles = torch.cat([angles, angles], 1)
        self.cos, self.sin = angles.cos().to(device, dtype), angles.sin().to(device, dtype)
        self.before, self.behind = before, behind

    def start(self, tensors: dict[str, torch.Tensor]) -> int:
        """Take an adapter of at most the same rank, and of the same scale; return the number of modules."""
        found = 0
        with torch.no_grad():
            for name in MODULES:
                for n in range(LAYERS):
                    key = f"model.layers.{n}.{name}"
                    if f"{key}.a" in tensors:
                        a, b = tensors[f"{key}.a"].float(), tensors[f"{key}.b"].float()
                        self.a[name][n, : a.shape[0]] = a.to(self.device)
                        self.b[name][n, :, : b.shape[1]] = b.to(self.device)
                        found += 1
        return found

    def parameters(self) -> list[torch.Tensor]:
        return [*self.a.values(), *self.b.values()]

    def merged(self) -> list[tuple[torch.Tensor, ...]]:
        """Weights of each group of modules, by layer."""
        out = []
        for names in GROUPS:
            deltas = [torch.bmm(self.b[name], self.a[name]) for name in names]
            some = [self.frozen[n] + (self.scale * d).to(self.dtype) for n, d in zip(names, deltas)]
            out.append((some[0] if len(some) == 1 else torch.cat(some, 1)).unbind(0))
        return out

    def losses(self, batch: dict, weights: list, part: slice = slice(None)) -> tuple:
        """-log p of what is learnt, in nats, its weights, its skills, and whether it was the likeliest."""
        lo, hi, _ = part.indices(len(batch["ids"]))
        chosen = (batch["tree"] >= lo) & (batch["tree"] < hi)

        def send(x: np.ndarray, kind: torch.dtype) -> torch.Tensor:
            return torch.from_numpy(np.ascontiguousarray(x)).to(kind).to(self.device, non_blocking=True)

        ids, depth, end = (send(batch[name][lo:hi], torch.int64) for name in ("ids", "depth", "end"))
        count, length = ids.shape
        flat = batch["nodes"][chosen].astype(np.int64) + (batch["tree"][chosen].astype(np.int64) - lo) * length
        flat, labels = send(flat, torch.int64), send(batch["labels"][chosen], torch.int64)
        weight, skill = send(batch["weights"][chosen], torch.float32), send(batch["skill"][chosen], torch.int64)
        at = torch.arange(length, device=self.device)
        seen = (at[None, None, :] <= at[None, :, None]) & (at[None, :, None] < end[:, None, :])
        bias = torch.zeros(seen.shape, dtype=self.dtype, device=self.device)
        bias = bias.masked_fill_(~seen, float("-inf"))[:, None].expand(count, HEADS, length, length)
        cos, sin = self.cos[depth][:, None], self.sin[depth][:, None]
        x = F.embedding(ids, self.table)
        for n in range(LAYERS):
            q, k, v = self.before(x, self.norms[0][n], weights[0][n], cos, sin)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
            x = self.behind(x, mixed, weights[1][n], self.norms[1][n], weights[2][n], weights[3][n])
        hidden = F.rms_norm(x.reshape(-1, WIDTH)[flat], (WIDTH,), self.norm, EPS)
        logits = F.linear(hidden, self.table).float()
        return F.cross_entropy(logits, labels, reduction="none"), weight, skill, logits.detach().argmax(-1) == labels

    def tensors(self, layers: range) -> dict[str, torch.Tensor]:
        out = {}
        for name in MODULES:
            for n in layers:
                out[f"model.layers.{n}.{name}.a"] = self.a[name][n]
                out[f"model.layers.{n}.{name}.b"] = self.b[name][n]
        return out

    def save(self, out: Path, about: dict[str, str]) -> None:
        about = {**about, "scale": repr(self.scale)}
        for part, layers in (("a", range(15)), ("b", range(15, LAYERS))):
            write_safetensors(self.tensors(layers), out / f"small_{part}.safetensors", about)


def turned(x, cos, sin):
    one, two = x.chunk(2, -1)
    return x * cos + torch.cat([-two, one], -1) * sin


def before(x, norm, weight, cos, sin):
    """Queries, keys and values, a head each: [B, 9, L, 64]."""
    count, length, _ = x.shape
    mixed = F.linear(F.rms_norm(x, (WIDTH,), norm, EPS), weight).view(count, length, HEADS + 2 * KV, HEAD)
    q, k, v = mixed.transpose(1, 2).split([HEADS, KV, KV], 1)
    k = turned(k, cos, sin)
    k, v = (t[:, :, None].expand(-1, -1, HEADS // KV, -1, -1).reshape(count, HEADS, length, HEAD) for t in (k, v))
    return turned(q, cos, sin), k, v


def behind(x, mixed, out, norm, gate_up, down):
    """Compute the rest of a layer, after attention."""
    x = x + F.linear(mixed.transpose(1, 2).reshape(x.shape), out)
    gate, up = F.linear(F.rms_norm(x, (WIDTH,), norm, EPS), gate_up).chunk(2, -1)
    return x + F.linear(F.silu(gate) * up, down)


# --- training -----------------------------------------------------------------------------------------------------

LOG = None


def say(text: str) -> None:
    line = f"[{time.monotonic() - BEGAN:6.1f}] {text}"
    print(line, flush=True)
    if LOG is not None:
        LOG.write(line + "\n")
        LOG.flush()


class Moving:
    """Means by skill, kept on the device."""

    def __init__(self, device: str) -> None:
        self.sums = torch.zeros(3, len(SKILLS), device=device, dtype=torch.float64)

    def add(self, loss, weight, skill) -> None:
        one = torch.stack([loss.detach() * weight, weight]).double()
        self.sums[:2].index_add_(1, skill, one)

    def show(self) -> str:
        loss, weight, _ = self.sums.tolist()
        self.sums.mul_(0.5)
        return " ".join(f"{s} {a / b:.3f}" for s, a, b in zip(SKILLS, loss, weight) if b > 0)


def evaluate(model: Small, held: Trees, tokens: int) -> tuple[float, str]:
    """Weighted loss on what is held out; and the share of first tokens, which decide, that are right."""
    sums = np.zeros((4, len(SKILLS)))
    with torch.no_grad():
        weights = model.merged()
        for batch in held.batches(tokens, 0):
            loss, weight, skill, right = model.losses(held.collate(batch), weights)
            loss, weight, right = (t.double().cpu().numpy() for t in (loss, weight, right))
            skill, first = skill.cpu().numpy(), weight == 1.0
            for row, values in enumerate((loss * weight, weight, right * first, first)):
                np.add.at(sums[row], skill, values)
    shown = [
        f"{s} {sums[0, i] / sums[1, i]:.4f} (first right {sums[2, i] / sums[3, i]:.3f})"
        for i, s in enumerate(SKILLS)
        if sums[1, i] > 0
    ]
    return float(sums[0].sum() / sums[1].sum()), " ".join(shown)


def backward(model: Small, batch: dict, per_token: float, moving: Moving, parts: int):
    """Gradients of a batch, computed in so many parts; the loss of a token of the batch over the usual weight."""
    weights = model.merged()
    # The merged weights' gradients are summed over the parts, then projected once.
    leaves = [[w.detach().requires_grad_() for w in group] for group in weights] if parts > 1 else weights
    size = -(-len(batch["ids"]) // parts)
    for start in range(0, len(batch["ids"]), size):
        loss, weight, skill, _ = model.losses(batch, leaves, slice(start, start + size))
        ((loss * weight).sum() / (per_token * batch["tokens"])).backward()
        moving.add(loss, weight, skill)
    if parts > 1:
        flat, grads = [w for g in weights for w in g], [w.grad for g in leaves for w in g]
        torch.autograd.backward(flat, grads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=500, help="of training, after everything is loaded")
    parser.add_argument("--total", type=float, default=1e9, help="seconds after which this process is over, at most")
    parser.add_argument("--steps", type=int, default=10**9)
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
    given = parser.parse_args()
    global DATA, LOG
    if not given.smoke:
        given.out.mkdir(parents=True, exist_ok=True)
        LOG = (given.out / "small_log.txt").open("a")
    stop: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _: stop.append(got))

    DATA, held = Trees(given.data / "trees.xz"), Trees(given.data / "held.xz")
    pool = None
    if given.workers:  # before CUDA begins
        pool = multiprocessing.get_context("fork").Pool(given.workers, initializer=_settle)
    tokens = int(DATA.sizes.sum())
    some = random.Random(1).sample(range(len(DATA)), min(500, len(DATA)))
    per_token = sum(float(DATA.tree(n)["weights"].sum()) for n in some) / int(DATA.sizes[some].sum())
    say(f"{len(DATA)} trees, {tokens / 1e6:.1f} M tokens; weight of a token {per_token:.4f}; torch {torch.__version__}")

    device, cuda = given.device, given.device.startswith("cuda")
    if cuda:
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, given.memory * 1e9 / whole))
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(True)
        torch.backends.cuda.enable_math_sdp(True)  # where the other does not take these shapes
    model = Small(load_base(given.data), given.rank, 2.0, device, getattr(torch, given.dtype))
    if not given.fresh:
        say(f"begun with {model.start(read_safetensors(given.data / 'start.safetensors'))} modules of an adapter")
    parameters = model.parameters()
    optimiser = torch.optim.AdamW(
        parameters, lr=given.rate, betas=(0.9, given.beta2), eps=1e-8, weight_decay=given.decay, fused=cuda
    )
    batches, moving, parts = stream(given.tokens, given.seed, pool), Moving(device), 1

    def synchronise() -> None:
        if cuda:
            torch.cuda.synchronize()

    def step(batch: dict) -> float:
        """Gradients, clipped; the norm they had. With too little memory the batch is computed in parts from now on."""
        nonlocal parts
        while True:
            optimiser.zero_grad(set_to_none=True)
            failed = False
            try:
                backward(model, batch, per_token, moving, parts)
                return float(torch.nn.utils.clip_grad_norm_(parameters, 1.0))
            except torch.OutOfMemoryError:
                failed = True
            if failed:
                if parts >= 16:
                    raise RuntimeError("too little memory")
                parts *= 2
                torch.cuda.empty_cache()
                say(f"too little memory: {parts} parts a step from now on")

    first = next(batches)
    loss, shown = evaluate(model, held, given.tokens)
    synchronise()
    say(f"held out, before: {loss:.4f} {shown}")
    usual_norm = step(first)
    if given.compile:

        def timed() -> float:
            began = time.monotonic()
            step(first)
            synchronise()
            return time.monotonic() - began

        usual, kept = timed(), (model.before, model.behind)
        try:
            began = time.monotonic()
            model.before, model.behind = (torch.compile(f, dynamic=True) for f in kept)
            norm = step(first)
            step(next(batches))
            found = evaluate(model, held, given.tokens)[0]
            synchronise()
            took = time.monotonic() - began
            faster = timed()
            say(f"compiled in {took:.0f} s: step {faster:.3f} s instead of {usual:.3f}, held out {found:.4f}, "
                f"norm {norm:.3f} instead of {usual_norm:.3f}")  # fmt: skip
            if not (abs(found - loss) < 0.02 and abs(norm / usual_norm - 1) < 0.1 and faster < usual):
                raise RuntimeError("it is not as it should be")
        except Exception as error:
            model.before, model.behind = kept
            say(f"not compiled: {str(error)[:300]!r}")
    optimiser.zero_grad(set_to_none=True)
    moving.sums.zero_()

    start = time.monotonic()
    seconds = min(given.seconds, given.total - (start - BEGAN) - 8)
    if given.smoke:
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        done = rows = 0
        count = 5 if given.steps > 10**8 else given.steps
        for _ in range(count):
            batch = next(batches)
            step(batch)
            optimiser.step()
            done, rows = done + batch["tokens"], rows + batch["ids"].size
        synchronise()
        spent = time.monotonic() - start
        peak = torch.cuda.max_memory_allocated() / 1e9 if cuda else 0.0
        say(
            f"smoke: {done / spent:.0f} tokens/s, {spent / count:.3f} s a step, {1 - done / rows:.1%} padding, "
            f"{peak:.1f} GB"
        )
        if pool is not None:
            pool.terminate()
        return
    mean: list[torch.Tensor] | None = None
    n = done = skipped = 0
    next_show, next_held, next_save = 15.0, 100.0, 120.0
    since, done_since, norms = start, 0, []
    named = ("rank", "rate", "warmup", "beta2", "decay", "ema", "tokens", "seed", "fresh", "dtype", "compile")
    used = {**{name: getattr(given, name) for name in named}, "seconds": round(seconds)}
    about = {"format": "selfreflect-lora-part", "settings": json.dumps(used)}
    while n < given.steps and not stop:
        elapsed = time.monotonic() - start
        if elapsed >= seconds:
            break
        part = min(elapsed / seconds, 1.0) if given.steps > 10**8 else n / given.steps
        rate = given.rate * min(1.0, (part + 1e-3) / given.warmup) * min(1.0, (1 - part) / (1 - given.warmup))
        for group in optimiser.param_groups:
            group["lr"] = rate
        batch = next(batches)
        norm = step(batch)
        if math.isfinite(norm):
            optimiser.step()
            norms.append(norm)
        else:
            skipped += 1
        n, done, done_since = n + 1, done + batch["tokens"], done_since + batch["tokens"]
        if part > 0.8:
            with torch.no_grad():
                if mean is None:
                    mean = [p.detach().clone() for p in parameters]
                else:
                    torch._foreach_lerp_(mean, [p.detach() for p in parameters], 1 - given.ema)
        now = time.monotonic() - start
        if now >= next_show or n <= 3 or given.steps <= 100:
            next_show = now + 15
            per = done_since / (time.monotonic() - since)
            usual = sorted(norms[-200:])[len(norms[-200:]) // 2] if norms else math.nan
            say(f"step {n} {now:.0f} s, {per:.0f} tokens/s, {done / 1e6:.1f} M, rate {rate:.2e}, norm {usual:.2f}, "
                f"skipped {skipped}: {moving.show()}")  # fmt: skip
            since, done_since = time.monotonic(), 0
        if now >= next_held:
            next_held = now + 100
            loss, shown = evaluate(model, held, given.tokens)
            say(f"held out: {loss:.4f} {shown}")
        if now >= next_save:
            next_save = now + 120
            model.save(given.out, {**about, "steps": str(n), "tokens": str(done)})
    about |= {"steps": str(n), "tokens": str(done)}
    model.save(given.out, about)
    loss, shown = evaluate(model, held, given.tokens)
    say(f"held out, last: {loss:.4f} {shown}")
    if mean is not None:
        last = [p.detach().clone() for p in parameters]
        with torch.no_grad():
            torch._foreach_copy_(parameters, mean)
        averaged, shown = evaluate(model, held, given.tokens)
        say(f"held out, averaged: {averaged:.4f} {shown}")
        if averaged <= loss:
            loss = averaged
            model.save(given.out, {**about, "averaged": "yes"})
        else:
            with torch.no_grad():
                torch._foreach_copy_(parameters, last)
    peak = torch.cuda.max_memory_allocated() / 1e9 if cuda else 0.0
    say(f"done: {n} steps, {done / 1e6:.2f} M tokens, {skipped} skipped, held out {loss:.4f}, {peak:.1f} GB")
    if pool is not None:
        pool.terminate()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # without waiting for anything
