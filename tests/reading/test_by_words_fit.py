"""Fitting the model of other languages: changed questions, disguised files, and what the fit learns from figures."""

from __future__ import annotations

import random

import numpy as np
import pytest

from benchmarks.reader.by_words import FILES, Seen, changed_question, disguised, fit, report, weights_of
from shared_core import Passage
from shared_core.reading.by_words import JUDGED, first_of

NAMES = ["Weber", "Lauter", "Ellingen"]


def test_a_question_is_changed_in_a_number_or_a_name() -> None:
    rng = random.Random(0)
    number = changed_question("Wer baute 1931 die Brücke?", NAMES, rng)
    assert number.startswith("Wer baute ")
    assert "1931" not in number
    name = changed_question("Wann baute Karl Weber?", NAMES, rng)
    assert name != "Wann baute Karl Weber?"
    assert len(name.split()) == 4
    assert changed_question("warum nicht?", NAMES, rng) == ""


def test_a_disguised_passage_keeps_its_offsets_and_numbers() -> None:
    passage = Passage("a", "Closed on 4 May, Ann.", "Hours", metadata={"section": "Open", "source": "hours.md"})
    hidden = disguised(passage)
    assert len(hidden.text) == len(passage.text)
    assert "4" in hidden.text
    assert hidden.text != passage.text
    assert (hidden.id, hidden.metadata["source"]) == ("a", "hours.md")
    assert [c.isupper() for c in hidden.text] == [c.isupper() for c in passage.text]
    assert len(set(disguised(Passage("b", "abcdefghijklmnopqrstuvwxyz")).text)) == 26


def made(count: int, rng: np.random.Generator) -> list[Seen]:
    """Questions whose right sentence shares most words; those without an answer share few."""
    out = []
    for i in range(count):
        held = i % 3 > 0
        figures = np.column_stack([rng.uniform(0, 0.5, (6, 3)), rng.normal(0, 1, 6), rng.uniform(0, 2, (6, 4))])
        right = np.zeros(6, dtype=bool)
        if held:
            right[0] = True
            figures[0, :2] += 0.4
        language = ("de", FILES)[i % 2]
        kind = "answerable" if held else "unanswerable" if language == FILES else "removed"
        out.append(Seen(figures, right, kind, language))
    return out


def test_what_shares_more_words_is_ranked_first_and_is_surer() -> None:
    seen = made(240, np.random.default_rng(0))
    model = fit(seen)
    assert model.rank[0] > 0
    orders = [first_of(s.figures, model.rank) for s in seen]
    chances = model.right.probability(np.array([row for _, row in orders]), JUDGED)
    held = [p for p, s in zip(chances, seen, strict=True) if s.right.any() and p is not None]
    others = [p for p, s in zip(chances, seen, strict=True) if not s.right.any() and p is not None]
    assert np.mean(held) > np.mean(others) + 0.2
    assert "AUROC" in next(iter(report(model, seen)))


def test_each_language_has_its_share() -> None:
    seen = made(60, np.random.default_rng(1))
    weights = weights_of(seen)
    assert weights.sum() == pytest.approx(len(seen))
    files = sum(w for w, s in zip(weights, seen, strict=True) if s.language == FILES)
    assert files / weights.sum() > 0.5
