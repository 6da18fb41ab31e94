"""Write everything there is to train on as compressed trees: ``python -m benchmarks.small shards``.

A tree's rows lie sorted by their tokens, so that each is what it shares with the one before and what follows. A file is
an lzma stream of one ``npz`` whose arrays say of every tree its skill and number of rows; of every row the tokens that
it shares with the row before, those that are new, its last token (only a target), and the ranges that are learnt; and
the new tokens of all rows, one after another.
"""

from __future__ import annotations

import io
import json
import lzma
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from benchmarks.small import rows as make
from benchmarks.small.sources import Group, Sources
from benchmarks.small.train import BASE, add_tokens
from shared_core.lm._hf.adapter import find_adapter
from shared_core.lm._hf.gguf import find_gguf
from shared_core.lm.base import Part, Prompt
from shared_core.lm.checkpoints import load_checkpoint
from shared_core.lm.encoding import Encoder
from shared_core.lm.small import SMALL
from shared_core.training.rows import IGNORED, Trainable

MOST = 1400  # tokens of a tree
LONGEST = 1800  # characters of a paragraph that is asked about
SKILLS = ("short", "quote", "self_rag", "read", "numbered", "claim", "judge", "condense", "hops", "tasks")
PASSES = {"short": 1.7, "quote": 1.4, "self_rag": 0.6, "read": 0.2, "numbered": 0.06, "claim": 0.2}
"""How often a skill passes over the paragraphs of SQuAD 1.1; over the other sources ``TIMES`` as often."""
TIMES = {"pairs": 1.5, "squad2": 2.0, "files": 1.0, "natural": 0.5}
TASKS, JUDGED, CONDENSED = 3000, 6000, 2500  # instructions without passages, groups that are judged, follow-ups
HELD = 40  # groups to report the loss on
_CUT = "\nQuestion:"  # rows of a group are alike up to here
_ROLES = {"short": make.short_rows, "quote": make.quote_rows, "read": make.read_rows}
_ROLES |= {"numbered": make.numbered_rows, "claim": make.claim_rows}
_DICTIONARY = 384 << 20


class FastEncoder(Encoder):
    """Encodes as ``Encoder`` does, and remembers what the rows of a group share."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer)
        self._firsts = {string[0] for string in self._added}
        self._layouts: dict[tuple[str, ...], tuple[Part, ...]] = {}
        backend = tokenizer.backend_tokenizer
        self._encode = lru_cache(64)(lambda text: backend.encode(text, add_special_tokens=False).ids)
        self._continue = lru_cache(256)(super().encode_continuation)

    def encode(self, prompt: Prompt) -> list[int]:
        """Encode a whole prompt."""
        parts = self._render(prompt)[0] if prompt.is_chat else prompt.parts
        if self.prefix_ids or any(c in p.text for p in parts if not p.trusted for c in self._firsts):
            return super().encode(prompt)
        text = "".join(p.text for p in parts)
        at = text.rfind(_CUT) + len(_CUT)
        if at < len(_CUT) or text[at : at + 1] != " " or text[at + 1 : at + 2].isspace():
            return list(self._encode(text))
        return [*self._encode(text[:at]), *self._encode(text[at:])]

    def encode_continuation(self, prompt: Prompt) -> list[int]:
        """Encode text that follows a prompt."""
        return list(self._continue(prompt))

    def _render_template(self, messages: list[tuple[Any, list[Part]]]) -> tuple[Part, ...]:
        texts = ["".join(p.text for p in parts) for _, parts in messages]
        if any(not text or text != text.strip() for text in texts):  # which a template may change
            return super()._render_template(messages)
        roles = tuple(role for role, _ in messages)
        if roles not in self._layouts:
            bare = [(role, [Part("text", trusted=False)]) for role, _ in messages]
            self._layouts[roles] = super()._render_template(bare)
        filled = iter(parts for _, parts in messages)
        return tuple(p for part in self._layouts[roles] for p in ([part] if part.trusted else next(filled)))


@dataclass
class Shard:
    """Trees as arrays grow."""

    skills: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    shared: list[int] = field(default_factory=list)
    new: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    ranges: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    ids: list[Any] = field(default_factory=list)

    def add(self, skill: str, rows: Sequence[tuple[list[int], list[int]]]) -> int:
        """Add rows as trees as ``plant_trees`` divides them, without those that are too long; return the tokens."""
        size, before, tokens = MOST, None, 0
        for ids, labels in sorted(rows):
            inner = np.asarray(ids[:-1], dtype=np.uint16)
            if len(ids) > MOST:
                continue
            shared = 0
            if before is not None:
                most = min(len(before), len(inner))
                apart = np.flatnonzero(before[:most] != inner[:most])
                shared = int(apart[0]) if len(apart) else most
            growth = len(inner) - shared
            if size + growth > MOST or (2 * growth > len(ids) and 3 * size > MOST):
                self.skills.append(SKILLS.index(skill))
                self.rows.append(0)
                size, shared, growth = 0, 0, len(inner)
            self.rows[-1] += 1
            self._add_row(ids, labels, shared, inner)
            size, before, tokens = size + growth, inner, tokens + growth
        return tokens

    def _add_row(self, ids: list[int], labels: list[int], shared: int, inner: Any) -> None:
        learnt = np.flatnonzero(np.asarray(labels[1:]) != IGNORED) + 1
        runs = np.split(learnt, np.flatnonzero(np.diff(learnt) > 1) + 1)
        self.shared.append(shared)
        self.new.append(len(inner) - shared)
        self.last.append(ids[-1])
        self.ranges.append(len(runs))
        self.starts += [int(run[0]) for run in runs]
        self.lengths += [len(run) for run in runs]
        self.ids.append(inner[shared:])

    def write(self, file: Path) -> None:
        """Write the arrays to one compressed file."""
        out = io.BytesIO()
        np.savez(
            out,
            skills=np.asarray(self.skills, np.uint8), rows=np.asarray(self.rows, np.uint16),
            shared=np.asarray(self.shared, np.uint16), new=np.asarray(self.new, np.uint16),
            last=np.asarray(self.last, np.uint16), ranges=np.asarray(self.ranges, np.uint8),
            starts=np.asarray(self.starts, np.uint16), lengths=np.asarray(self.lengths, np.uint16),
            ids=np.concatenate(self.ids),
        )  # fmt: skip
        data = out.getvalue()
        size = min(_DICTIONARY, max(1 << 20, len(data)))
        how = {"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": size, "lc": 3, "lp": 1, "pb": 1}
        file.write_bytes(lzma.compress(data, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC32, filters=[how]))


def drawn(sources: Sources, made: Path, passes: float) -> list[Group]:
    """Draw groups from all sources for a number of passes, which need not be whole."""
    rng = sources.rng

    def often(draw: Any, times: float) -> Iterator[Group]:
        for n in range(int(times) + 1):
            some = draw()
            yield from some if n < int(times) else rng.sample(some, round((times - int(times)) * len(some)))

    count = len(sources.asked2)
    draws: dict[str, Any] = {
        "squad1": lambda: sources.whole_groups1(make.EACH),
        "squad2": lambda: sources.groups2(count, make.EACH),
        "pairs": lambda: sources.made_groups("pairs", 1 << 20, make.EACH),
        "files": lambda: sources.made_groups("files", 1 << 20, make.EACH),
        "natural": lambda: sources.lone_groups(made / "natural"),
    }
    return [g for name, draw in draws.items() for g in often(draw, passes * TIMES.get(name, 1.0))]


def make_units(sources: Sources, made: Path, share: float) -> Iterator[tuple[str, list[Trainable]]]:
    """Yield rows that may share a tree, with their skill.

    Args:
        share: of the passes; 1 for all.
    """
    rng = sources.rng
    judged: list[Group] = []
    units: list[tuple[str, str, list[Trainable]]] = []  # what is on one paragraph lies together: it compresses better
    for skill, passes in PASSES.items():
        rng.seed(f"{skill} {share}")
        for group in drawn(sources, made, passes * share):
            rows: Iterable[Trainable] = make.self_rag_rows(group, rng) if skill == "self_rag" else _ROLES[skill](group)
            units.append((group.id, skill, list(rows)))
            judged += [group] if skill == "short" else []
    units.sort(key=lambda unit: unit[0])
    yield from ((skill, rows) for _, skill, rows in units)
    rng.shuffle(judged)
    groups = judged[: round(share * JUDGED)]
    small: dict[str, Iterable[Trainable]] = {
        "judge": make.judge_rows(sources, groups, len(groups) * 4),
        "condense": make.condense_rows(sources, round(share * CONDENSED)),
        "hops": make.hop_rows(sources),
        "tasks": (make.without_passages(rng) for _ in range(round(share * TASKS))),
    }
    for skill, some in small.items():
        listed = list(some)
        rng.shuffle(listed)
        yield from ((skill, listed[i : i + 8]) for i in range(0, len(listed), 8))


def write_shards(data: Path, made: Path, out: Path, tokenizer: Any, share: float = 1.0) -> dict[str, int]:
    """Write ``trees.xz``, and ``held.xz`` of questions that are never trained on; return the tokens of each skill.

    Args:
        data, made: as ``Sources`` takes them.
        out: folder to write to.
        tokenizer: of the base, with the reflection tokens.
        share: of the passes; 1 for all.
    """
    sources = Sources(data, 0, made, longest=LONGEST, fewest=1)
    encoder, tokens = FastEncoder(tokenizer), Counter[str]()
    out.mkdir(parents=True, exist_ok=True)
    shard, units = Shard(), list(make_units(sources, made, share))
    for skill, rows in track(units, "trees"):
        tokens[skill] += shard.add(skill, [row.encode(encoder) for row in rows])
    shard.write(out / "trees.xz")
    held = Shard()
    for group in sources.held_groups("rag/squad2_tune", HELD, make.EACH):
        for skill in ("short", "quote"):
            tokens["held"] += held.add(skill, [row.encode(encoder) for row in _ROLES[skill](group)])
    held.write(out / "held.xz")
    (out / "tokens.json").write_text(json.dumps(tokens), encoding="utf-8")
    return dict(tokens)


def write_base(out: Path, model: Any, tokenizer: Any) -> None:
    """Write what ``on_gpu`` needs of the base: quantised weights as they are, and the reflection tokens' rows."""
    import gguf
    import torch

    source = find_gguf(BASE)
    assert source is not None
    tensors = gguf.GGUFReader(source).tensors
    first = min(int(t.data_offset) for t in tensors)
    body = np.fromfile(source, np.uint8)[first : max(int(t.data_offset) + int(t.n_bytes) for t in tensors)]
    body[: len(body) // 2].tofile(out / "base_a.bin")
    body[len(body) // 2 :].tofile(out / "base_b.bin")
    table = {
        t.name: [t.tensor_type.name, [int(n) for n in t.shape[::-1]], int(t.data_offset) - first, int(t.n_bytes)]
        for t in tensors
    }
    (out / "base.json").write_text(json.dumps(table), encoding="utf-8")
    rows = model.get_input_embeddings().weight.detach()[tokenizer.vocab_size :]
    np.savez(out / "reflection.npz", rows=rows.contiguous().view(torch.int16).numpy().view(np.uint16))


def export(data: Path, made: Path, out: Path) -> dict[str, int]:
    """Write all that ``on_gpu`` reads: base, trees, and the adapter that ships to begin with."""
    model, tokenizer = load_checkpoint(BASE, device="cpu", dtype="auto")
    add_tokens(model, tokenizer)
    tokens = write_shards(data, made, out, tokenizer)
    write_base(out, model, tokenizer)
    start = find_adapter(SMALL)
    assert start is not None
    shutil.copy(start.file, out / "start.safetensors")
    return tokens
