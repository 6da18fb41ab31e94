"""Evaluate a network during training, on the tune parts: reading of the gold paragraph, and the critic."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.reader.batches import Examples, Piece, Recipe, stack
from benchmarks.reader.claims import labelled_by_people
from benchmarks.reader.data import Corpus, QuestionRow, read_lines, read_passages, rows_of
from benchmarks.reader.network import Outputs, forward, read_apart
from shared_core.evaluation.metrics.confidence import auroc
from shared_core.evaluation.metrics.qa import f1
from shared_core.reading.candidates import best_span
from shared_core.reading.network import SUPPORTED
from shared_core.types import Passage

if TYPE_CHECKING:
    from torch import Tensor

_TOGETHER = 24


def look(data: Path, corpus: Corpus, words: Tensor, limit: int = 500) -> Callable[[dict[str, Tensor], int], str]:
    """Return a function of parameters and step that summarises F1 on gold paragraphs and AUROCs in a line."""
    held = read_passages(data / "rag/corpus.jsonl.gz")
    rows = rows_of(read_lines(data / "rag/squad2_tune.jsonl.gz"), held)
    rows = random.Random(0).sample(rows, min(limit, len(rows)))
    mine = Corpus(corpus.tokenizer, corpus.rarity, held)
    # No random changes of questions, so that all looks at a run measure the same.
    still = Examples(mine, {r.question: [] for r in rows}, Recipe(loose=0, keywords=0, whether=0, without_gold=0))
    asked = [(r, e.pieces[0]) for r in rows if (e := still.question(r, random.Random(0)))]
    pairs = labelled_by_people(read_lines(data / "support/tune.jsonl.gz"), ("begin_v1",))
    claims = [(c.label, e.pieces[0]) for c in pairs[:limit] if (e := still.claim(c, random.Random(0)))]

    def say(parameters: Mapping[str, Tensor], step: int) -> str:
        halves = {name: value.bfloat16().cpu() for name, value in parameters.items()}
        out = run(halves, words.bfloat16(), [p for _, p in asked], False)
        found = [_read(row, piece, o, held) for (row, piece), o in zip(asked, out)]
        answerable = [bool(r.spans) for r, _ in asked]
        plain = np.mean([s for s, a in zip([f for f, _ in found], answerable) if a])
        known = auroc([v for _, v in found], answerable)
        # The best threshold for "no answer", chosen like in SQuAD 2.0's evaluation script.
        best = max(
            np.mean([s if v > t and a else float(not a and v <= t) for (s, v), a in zip(found, answerable)])
            for t in sorted(v for _, v in found)
        )
        judged = run(halves, words.bfloat16(), [p for _, p in claims], True)
        support = [float(o.support.softmax(-1)[SUPPORTED]) for o in judged]
        supported = auroc(support, [label == SUPPORTED for label, _ in claims])
        return f"F1 answerable {plain:.3f}, all {best:.3f}; AUROC answerable {known:.3f}, BEGIN {supported:.3f}"

    return say


def run(p: Mapping[str, Tensor], words: Tensor, pieces: Sequence[Piece], claims: bool) -> list[Outputs]:
    """Compute the network's outputs for each piece, unpadded."""
    import torch

    out: list[Outputs] = []
    with torch.inference_mode():
        for i in range(0, len(pieces), _TOGETHER):
            some = pieces[i : i + _TOGETHER]
            part = stack(some, [claims] * len(some))
            window = read_apart(p, words, part.window_ids, part.inputs.window_mask)
            question = read_apart(p, words, part.question_ids, part.inputs.question_mask)
            logits = forward(p, part.inputs._replace(window=window, question=question))
            for j, piece in enumerate(some):
                body = piece.window.body  # the text's tokens, without title and padding
                start, end, sentence = (v[j, body] for v in logits[:3])
                out.append(Outputs(start, end, sentence, logits.window[j], logits.support[j]))
    return out


def _read(row: QuestionRow, piece: Piece, out: Outputs, passages: Mapping[str, Passage]) -> tuple[float, float]:
    """Return F1 of the best span, and its logit against "no answer"."""
    first, last, logit, _ = best_span(out.start.double().numpy(), out.end.double().numpy())
    text = passages[row.passage].text[int(piece.window.starts[first]) : int(piece.window.ends[last])]
    return (f1(text, row.answers) if row.answers else 0.0), logit
