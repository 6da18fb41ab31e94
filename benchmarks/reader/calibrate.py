"""Fit the probabilities of the reader and the critic on many kinds of documents and questions.

    python -m benchmarks.reader.calibrate --data DIR [--weights FILE] [--each 400] [--cache FILE] [--keep-scores]

Writes the JSON file beside the weights. The halves for fitting share nothing with those that ``benchmarks/rag.py`` and
``benchmarks/critic.py`` report. About a quarter of an hour on two cores; all cores are used.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from benchmarks.cached_embedder import CachedEmbedder
from benchmarks.reader import files
from benchmarks.reader.confidence import MeasuredCase, fit, identity, measure
from benchmarks.reader.critic import fit_critic
from benchmarks.reader.export import describe
from benchmarks.reader.mixture import FITTED, SETS, World
from benchmarks.reader.sets import Case
from shared_core.evaluation.metrics.qa import contains_answer
from shared_core.reading.conflicts import OPPOSITE, VALUE, can_conflict
from shared_core.reading.critic import CriticSupportScorer
from shared_core.reading.extractive import ExtractiveReader
from shared_core.reading.weights import WEIGHTS

T = TypeVar("T")
U = TypeVar("U")

UNANSWERABLE: Mapping[str, float] = {"removed": 0.2, "stranger": 0.15, "near miss": 0.4, "adversarial": 0.25}
"""Kinds of unanswerable questions and their shares: near misses are what is answered wrongly most often."""
ANSWERABLE = 0.6
"""Share of answerable questions in the mixture; ``expected_answerable`` moves the probabilities from it."""
RANK_PRIORS = (0.0, 0.15, 0.3, 0.5, 0.8)
"""Small weights only: our retriever's order may deserve more, but another retriever's may not."""
SPAN_SHARES = (0.0, 0.15, 0.3, 0.5)
CONFLICT_SCORES = (0.0, -1.0, -2.0, -4.0)
"""What a sentence's score may lose if it gives another value than the question names, or the opposite."""


_ALIKE = 0.002
"""Differences in the share of right first quotes that tell nothing."""


def gather(world: World, each: int, seed: int = 0) -> tuple[dict[str, list[Case]], dict[str, list[Case]]]:
    """Draw at most ``each`` cases of every set to fit on, and return what else asks for something exact beside them."""
    out, exact = {}, {}
    for name in FITTED:
        cases = SETS[name](world)
        chosen = set(random.Random(seed).sample(range(len(cases)), min(each, len(cases))))
        out[name] = [cases[i] for i in chosen]
        exact[name] = [c for i, c in enumerate(cases) if i not in chosen and can_conflict(c.question)]
    return out, exact


def weights_of(cases: Mapping[str, Sequence[Case]]) -> dict[str, list[float]]:
    """Weight the cases: answerable ones alike in every set, unanswerable ones by ``UNANSWERABLE``."""
    kinds: dict[str, int] = {}
    for some in cases.values():
        for case in some:
            kinds[case.kind] = kinds.get(case.kind, 0) + 1
    with_answers = {name: n for name, some in cases.items() if (n := sum(bool(c.answers) for c in some))}
    total = sum(len(some) for some in cases.values())
    covered = sum(share for kind, share in UNANSWERABLE.items() if kind in kinds)

    def weight(name: str, case: Case) -> float:
        if case.answers:
            return ANSWERABLE * total / (len(with_answers) * with_answers[name])
        return (1 - ANSWERABLE) * total * UNANSWERABLE[case.kind] / (covered * kinds[case.kind])

    return {name: [weight(name, case) for case in some] for name, some in cases.items()}


_READERS: dict[Path, ExtractiveReader] = {}


def _with_reader(weights: Path, task: Callable[[ExtractiveReader, T], U], item: T) -> U:
    """Run ``task`` with this process's reader."""
    if weights not in _READERS:
        _READERS[weights] = ExtractiveReader(weights=weights, cache_passages=8192)
    return task(_READERS[weights], item)


def _each(weights: Path, task: Callable[[ExtractiveReader, T], U], items: Sequence[T], name: str) -> list[U]:
    """Run ``task`` on every item with a reader of these weights, on all cores."""
    # New processes at each call: the weights' JSON file changes between calls.
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        run = pool.map(partial(_with_reader, weights, task), items, chunksize=8)
        return list(track(run, name, total=len(items)))


def choose_scores(weights: Path, cases: Sequence[Case]) -> tuple[dict[str, float], float]:
    """Choose the weights of rank and best span, and of conflicts, that make the most first quotes right.

    Args:
        weights: of a reader that has 0 for both, so that a candidate's score is its sentence's logit.
        cases: cases to choose on; those without answers are left out.
    """
    held = [c for c in cases if c.answers]
    tables = _each(weights, _scored, held, "choosing how scores are made")
    found = {
        (prior, share, lost): float(np.mean([_first_is_right(t, prior, share, lost) for t in tables]))
        for prior in RANK_PRIORS
        for share in SPAN_SHARES
        for lost in CONFLICT_SCORES
    }
    most = max(found.values())
    # Few questions have a conflict, so they do not decide alone: of the best, the one that loses most by conflicts.
    prior, share, lost = best = min((f for f in found if found[f] >= most - _ALIKE), key=lambda f: (f[2], -found[f]))
    print(
        f"first quote right {found[best]:.3f} of {len(held)}: prior {prior}, span {share}, conflict {lost}", flush=True
    )
    return {"rank_prior": prior, "span_share": share}, lost


def _scored(reader: ExtractiveReader, case: Case) -> NDArray[np.float64]:
    """Return (candidates, 5): sentence logit, span logit, log rank, whether in conflict, whether right."""
    rows = [
        (
            c.score,
            c.span,
            np.log(c.passage + 1),
            bool({VALUE, OPPOSITE} & c.conflicts),
            contains_answer(case.passages[c.passage].text[c.start : c.end], case.answers),
        )
        for c in reader.candidates(case.question, case.passages)
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 5)


def _first_is_right(table: NDArray[np.float64], prior: float, share: float, lost: float) -> bool:
    scores = (1 - share) * table[:, 0] + share * table[:, 1] - prior * table[:, 2] + lost * table[:, 3]
    return bool(len(table) and table[int(scores.argmax()), 4])


def fit_reader(
    weights: Path, cases: Mapping[str, Sequence[Case]], exact: Mapping[str, Sequence[Case]]
) -> dict[str, Any]:
    """Fit the reader's probability models, on ``files`` too; what conflicts take off is fitted on ``exact`` besides."""
    weight_of = weights_of(cases)
    measured: list[MeasuredCase] = []
    more: list[MeasuredCase] = []
    for name, some in cases.items():
        as_heavy = {bool(case.answers): w for case, w in zip(some, weight_of[name])}
        every = [*some, *exact[name]]
        heavy = [*weight_of[name], *(as_heavy[bool(c.answers)] for c in exact[name])]
        for i, (found, weight) in enumerate(zip(_each(weights, measure, every, name), heavy)):
            if found is not None:
                (measured if i < len(some) else more).append(replace(found, weight=weight))
    return fit([*measured, *files.measured(measured)], more)


def calibrate_critic(data: Path, weights: Path) -> None:
    """Fit the critic's probabilities only, and keep the reader's."""
    about = json.loads(weights.with_suffix(".json").read_text("utf-8"))
    describe(weights, about | identity("support", "relevance"))
    describe(weights, about | fit_critic(CriticSupportScorer(weights=weights), data))


def calibrate(data: Path, weights: Path, each: int, cache: Path | None, *, keep_scores: bool = False) -> None:
    """Fit everything, or with ``keep_scores`` the probabilities only, and write the JSON file beside ``weights``."""
    about = json.loads(weights.with_suffix(".json").read_text("utf-8"))
    keep = {name: about[name] for name in ("together", "trained") if name in about}
    embedder = CachedEmbedder(cache)
    cases, exact = gather(World(data, embedder, "fit"), each)
    if cache:
        embedder.save()
    if keep_scores:
        chosen, lost = {name: about[name] for name in ("rank_prior", "span_share")}, about["conflicts"]["score"]
    else:
        describe(weights, keep | {"rank_prior": 0.0, "span_share": 0.0})  # the raw network, before anything is fitted
        chosen, lost = choose_scores(weights, [case for some in cases.values() for case in some])
    describe(weights, keep | chosen | {"conflicts": {"score": lost}})
    fitted = fit_reader(weights, cases, exact)
    fitted["conflicts"] |= {"score": lost}
    describe(weights, keep | chosen | fitted)
    calibrate_critic(data, weights)


def main() -> None:
    """Run the command line."""
    summary = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reader.calibrate", description=summary)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--each", type=int, default=400, help="cases of each set")
    parser.add_argument("--cache", type=Path, help="file that keeps vectors of passages between runs")
    parser.add_argument(
        "--keep-scores", action="store_true", help="keep how scores are made of rank, span and conflicts"
    )
    parser.add_argument("--critic", action="store_true", help="fit the critic's probabilities only (minutes)")
    options = parser.parse_args()
    if options.critic:
        calibrate_critic(options.data, options.weights)
        return
    calibrate(options.data, options.weights, options.each, options.cache, keep_scores=options.keep_scores)


if __name__ == "__main__":
    main()
