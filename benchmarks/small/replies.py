"""Measure how the model's replies go with the reader's being right, and write the rates into the adapter's card."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

from rich.progress import Progress

from benchmarks.cached_embedder import CachedEmbedder
from benchmarks.models import TOP_K, Case, Retrieved
from benchmarks.reader.calibrate import gather
from benchmarks.reader.mixture import World
from shared_core.calibration import FittedReplies
from shared_core.calibration.replies import ReplyRates
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.fitting import fit
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.small import load_small_model
from shared_core.reading import ExtractiveReader
from shared_core.settings import SelfReflectSettings


def measure_replies(data: Path, adapter: Path, each: int) -> FittedReplies:
    """Ask the questions that the reader's probabilities were fitted on, at most ``each`` of every set."""
    sets, _ = gather(World(data, CachedEmbedder(None), "fit"), each)
    cases = [Case(c.question, c.answers, c.passages) for some in sets.values() for c in some]
    random.Random(1).shuffle(cases)
    settings = SelfReflectSettings(top_k=5, candidates=TOP_K, deadline=None)
    reader = ExtractiveReader(cache_passages=64)
    engine = SelfReflectEngine(Retrieved(cases), load_small_model(adapter), settings, reader=reader)
    questions = [
        Question(str(i), c.question, answers=tuple(c.answers), answerable=bool(c.answers)) for i, c in enumerate(cases)
    ]
    with Progress() as bar:
        task = bar.add_task("questions", total=len(questions))
        fitted = fit("replies", engine, questions, progress=lambda done, _: bar.update(task, completed=done))
    assert isinstance(fitted.calibration, FittedReplies)
    return fitted.calibration


def write_rates(data: Path, adapter: Path, each: int) -> ReplyRates:
    """Measure, and write the rates into the card beside the adapter."""
    rates = measure_replies(data, adapter, each).rates
    file = adapter.with_suffix(".json")
    card = json.loads(file.read_text(encoding="utf-8"))
    assert card["sha256"] == hashlib.sha256(adapter.read_bytes()).hexdigest(), "the card is of another adapter"
    card["reply_rates"] = {given: dict(row) for given, row in rates.items()}
    file.write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    return rates
