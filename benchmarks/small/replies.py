"""Measure how the model's replies go with the reader's being right, and write the rates into the adapter's card."""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from rich.progress import track

from benchmarks.cached_embedder import CachedEmbedder
from benchmarks.models import TOP_K, Case, Retrieved
from benchmarks.reader.calibrate import gather
from benchmarks.reader.mixture import World
from shared_core.evaluation.metrics.qa import contains_answer
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.small import load_small_model
from shared_core.pipelines.decision.trust import Reply, ReplyRates
from shared_core.reading import ExtractiveReader
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer

_REPLIES: tuple[Reply, ...] = get_args(Reply)
_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
_QUOTES_ALL = 0.001  # target at which the reader's best quote is shown, however improbable


@dataclass(frozen=True, slots=True)
class Reaction:
    """One question with the reply to it.

    Attributes:
        probability: of the reader's best quote, before the model was asked.
        reply: of the model, compared with it.
        right: the quote holds a right answer.
        own_right: what the model said does.
    """

    probability: float
    reply: Reply
    right: bool
    own_right: bool


def measure_replies(data: Path, adapter: Path, each: int) -> list[Reaction]:
    """Ask the questions that the reader's probabilities were fitted on, at most ``each`` of every set."""
    sets, _ = gather(World(data, CachedEmbedder(None), "fit"), each)
    cases = [Case(c.question, c.answers, c.passages) for some in sets.values() for c in some]
    random.Random(1).shuffle(cases)
    # Without its card: what it says counts for nothing, and it is asked whatever the reader thinks.
    lm, reader, retriever = load_small_model(adapter), ExtractiveReader(cache_passages=64), Retrieved(cases)
    lm.reply_rates = None
    settings = SelfReflectSettings(top_k=5, candidates=TOP_K, deadline=None)
    quoting = SelfReflectEngine(
        retriever, settings=settings.model_copy(update={"target_accuracy": _QUOTES_ALL}), reader=reader
    )
    out: list[Reaction] = []
    for case in track(cases, "questions"):
        # A new engine each, or what it has learnt of the model would decide what the model is asked.
        engine = SelfReflectEngine(retriever, lm, settings, reader=reader)
        found = _compare(case, engine.answer(case.question), quoting.answer(case.question))
        out += [found] if found is not None else []
    return out


def _compare(case: Case, answer: Answer, quoted: Answer) -> Reaction | None:
    compared = [d for d in answer.trace if d.kind == "compare"]
    if not compared:
        return None
    best = max(quoted.claims, key=lambda c: c.support or 0.0)
    own = [c.text for c in answer.claims if c.text != best.text]
    reply: Reply = next(name for name in _REPLIES if compared[0].outcome == f"the model {name}")
    probability = float(str(compared[0].values["reader"]))
    return Reaction(probability, reply, _answers(case, [best.text]), _answers(case, own))


def _answers(case: Case, texts: Sequence[str]) -> bool:
    return bool(case.answers) and any(contains_answer(text, case.answers) for text in texts)


def fit_rates(reactions: Sequence[Reaction]) -> ReplyRates:
    """Return the rates, their ratios raised to the power under which the replies tell most of the reader's being right.

    Replies depend on the reader's probability beyond its being right, so the ratios as counted would count twice.
    """
    counts = Counter((r.right, r.reply) for r in reactions)
    totals = {right: sum(r.right is right for r in reactions) for right in (True, False)}
    # Half a reply more of each kind, so that none is impossible.
    counted = {
        right: {name: (counts[right, name] + 0.5) / (totals[right] + 0.5 * len(_REPLIES)) for name in _REPLIES}
        for right in (True, False)
    }

    def tempered(share: float) -> dict[bool, dict[str, float]]:
        out: dict[bool, dict[str, float]] = {}
        for right, sign in ((True, 1), (False, -1)):
            row: dict[str, float] = {
                n: math.sqrt(counted[True][n] * counted[False][n])
                * (counted[True][n] / counted[False][n]) ** (sign * share / 2)
                for n in _REPLIES
            }
            out[right] = {n: value / sum(row.values()) for n, value in row.items()}
        return out

    def loss(rates: Mapping[bool, Mapping[str, float]]) -> float:
        total = 0.0
        for r in reactions:
            p = min(max(r.probability, 0.01), 0.99)
            if_right, if_wrong = p * rates[True][r.reply], (1 - p) * rates[False][r.reply]
            total -= math.log((if_right if r.right else if_wrong) / (if_right + if_wrong))
        return total

    best = tempered(min(_SHARES, key=lambda share: loss(tempered(share))))
    apart = [r for r in reactions if r.reply in ("differs", "contradicts")]
    own = (sum(r.own_right for r in apart) + 0.5) / (len(apart) + 1)
    return {"right": best[True], "wrong": best[False], "own": {"differs": own, "contradicts": own}}


def write_rates(data: Path, adapter: Path, each: int) -> ReplyRates:
    """Measure, and write the rates into the card beside the adapter."""
    rates = fit_rates(measure_replies(data, adapter, each))
    file = adapter.with_suffix(".json")
    card = json.loads(file.read_text(encoding="utf-8"))
    assert card["sha256"] == hashlib.sha256(adapter.read_bytes()).hexdigest(), "the card is of another adapter"
    card["reply_rates"] = {given: {name: round(rate, 4) for name, rate in row.items()} for given, row in rates.items()}
    file.write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    return rates
