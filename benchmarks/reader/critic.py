"""Fit the critic's probabilities from the network's output and word overlap to people's labels."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from benchmarks.changed_claims import KINDS, changed_claims
from benchmarks.check import wikipedia_paragraphs
from benchmarks.reader.claims import from_questions
from benchmarks.reader.confidence import fit_platt
from benchmarks.reader.data import read_lines, read_passages, rows_of
from benchmarks.reader.sets import sentences_to_rate
from shared_core.errors import CalibrationError
from shared_core.evaluation.metrics.confidence import auroc, expected_calibration_error
from shared_core.reading.confidence import Logistic
from shared_core.reading.critic import EVIDENCE_FIGURES, CriticSupportScorer

EACH = 300
"""(evidence, claim) pairs of each source to fit weights on."""
WEIGHED = {"begin_v1": "tune", "scitail": "tune", "climate_fever": "train", "rte": "tune", "snli": "tune"}
"""Sources of these pairs, and the part of each; claims made from SQuAD 2.0's tune questions are added, and sentences of
Wikipedia, half of them changed in one fact."""
PRECISE = ("begin_v1", "scitail")
"""Sources that the level of confidence is fitted on: people's labels that the network was not trained on."""
PENALTY = 1.0
"""L2 penalty on the weights of standardised figures, so strong that correlated figures share their weight. A smaller
one relies on the network alone, which is best for pairs like its training data and worse for all others."""
FACTS_PENALTY = 0.3
"""The same for what comparing facts finds: few pairs differ in it, and a strong penalty would silence it."""
SUPPORTED_BY = ("whole", "sentence", "around", "words", "rare_words", "nearest", "numbers", "contradicted", "missing")
QUESTIONS = 100
"""Questions, each with relevant and irrelevant sentences, to fit relevance on."""


_Pair = tuple[str, str, bool]
"""Evidence, claim, and whether the evidence supports the claim."""


class Labelled(NamedTuple):
    """Pairs of one source: figures (n, len(EVIDENCE_FIGURES)), and (n,) whether the evidence supports the claim."""

    figures: NDArray[np.float64]
    supported: list[bool]


def fit_critic(critic: CriticSupportScorer, data: Path) -> dict[str, Any]:
    """Fit the models of support and relevance, as written beside the weights."""
    rng = random.Random(0)
    parts = {part: read_lines(data / f"support/{part}.jsonl.gz") for part in ("tune", "train")}

    def pairs(source: str, part: str) -> list[_Pair]:
        rows = [r for r in parts[part] if r["source"] == source and r["label"] != "partial"]
        return [
            (r["premise"], r["hypothesis"], r["label"] == "supported") for r in rng.sample(rows, min(EACH, len(rows)))
        ]

    weighed = {s: _labelled(critic, pairs(s, part), s) for s, part in WEIGHED.items()}
    weighed["squad2"] = _labelled(critic, _from_questions(data, rng), "squad2")
    weighed["changed"] = _labelled(critic, _changed(data), "changed")
    return {"support": _support(weighed).to_dict(), "relevance": list(_relevance(critic, data))}


def _labelled(critic: CriticSupportScorer, pairs: Sequence[_Pair], name: str) -> Labelled:
    figures = critic.figures([(evidence, claim) for evidence, claim, _ in track(pairs, name)])
    known = [(f, supported) for f, (_, _, supported) in zip(figures, pairs) if f is not None]
    return Labelled(np.stack([f for f, _ in known]), [supported for _, supported in known])


def _from_questions(data: Path, rng: random.Random) -> list[_Pair]:
    """Make claims of questions with right and with wrong answers, each with its paragraph."""
    passages = read_passages(data / "rag/corpus.jsonl.gz")
    rows = rows_of(read_lines(data / "rag/squad2_tune.jsonl.gz"), passages)
    rows = rng.sample(rows, min(2 * EACH, len(rows)))
    held, changed = [r for r in rows if r.spans], [r for r in rows if not r.spans]
    claims = from_questions(held, changed, passages, {r.question: [] for r in rows}, rng)
    return [(c.evidence or passages[c.passage].text, c.claim, c.label == 0) for c in claims]


def _changed(data: Path) -> list[_Pair]:
    """Make pairs of Wikipedia sentences, true and changed, and their paragraphs; ``benchmarks/check.py`` has others."""
    paragraphs = wikipedia_paragraphs(data, slice(40, 44))
    rows = changed_claims(paragraphs, EACH // (2 * len(KINDS)), seed=9)
    return [(r.evidence, text, text == r.true) for r in rows for text in (r.true, r.claim)]


def _support(sources: Mapping[str, Labelled]) -> Logistic:
    """Fit P(supported): weights on all sources alike, slope and intercept on the ``PRECISE`` ones."""
    columns = [EVIDENCE_FIGURES.index(n) for n in SUPPORTED_BY]
    x = np.concatenate([some.figures[:, columns] for some in sources.values()])
    y = np.concatenate([some.supported for some in sources.values()])
    share = np.concatenate([np.full(len(some.supported), 1 / len(some.supported)) for some in sources.values()])
    low, high = x.min(axis=0), x.max(axis=0)
    mean, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-3)
    weights = _agreeing((x - mean) / scale, y, share / share.sum())
    scores = {s: (some.figures[:, columns] - mean) / scale @ weights for s, some in sources.items()}
    slope, intercept = fit_platt(
        [float(v) for s in PRECISE for v in scores[s]],
        [supported for s in PRECISE for supported in sources[s].supported],
    )
    for source, values in scores.items():
        truth = sources[source].supported
        if any(truth) and not all(truth):
            error = expected_calibration_error(list(1 / (1 + np.exp(-(slope * values + intercept)))), truth)
            summary = f"{len(truth)} pairs, AUROC {auroc(list(values), truth):.3f}, error {error:.3f}"
            print(f"supported, {source}: {summary}")
    n = len(SUPPORTED_BY)
    return Logistic(SUPPORTED_BY, mean, scale, low, high, slope * weights, intercept, np.zeros((n, n)))


def _agreeing(x: NDArray[np.float64], y: NDArray[np.bool_], share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fit (n,) logistic weights ≥ 0 with an L2 penalty: no figure may count against the class.

    Args:
        x: (m, n) standardised figures.
        y: (m,) labels.
        share: (m,) weights of the pairs, which add up to 1.
    """
    from scipy.optimize import minimize

    penalty = np.array([FACTS_PENALTY if name in ("contradicted", "missing") else PENALTY for name in SUPPORTED_BY])

    def cost(p: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        z = x @ p[:-1] + p[-1]
        slope = share * (1 / (1 + np.exp(-z)) - y)
        value = float(share @ (np.logaddexp(0, z) - y * z) + penalty @ p[:-1] ** 2)
        return value, np.append(x.T @ slope + 2 * penalty * p[:-1], slope.sum())

    n = x.shape[1]
    bounds = [(0.0, None)] * n + [(None, None)]
    found: NDArray[np.float64] = minimize(cost, np.full(n + 1, 0.1), jac=True, method="L-BFGS-B", bounds=bounds).x
    if not found[:-1].any():
        raise CalibrationError("The critic's figures do not separate the claims.", hint="Train it further.")
    return found[:-1]


def _relevance(critic: CriticSupportScorer, data: Path) -> tuple[float, float]:
    """Fit (slope, intercept) for a passage's log-odds of answering."""
    requests, labels = sentences_to_rate(data / "relevance/wikiqa_tune.jsonl.gz", QUESTIONS)
    rated = [p for some in critic.rate(requests) for p in some]
    known = [(float(np.log(p) - np.log1p(-p)), y) for p, y in zip(rated, labels) if p is not None and 0 < p < 1]
    slope, intercept = fit_platt([a for a, _ in known], [b for _, b in known])
    print(
        f"relevant: {len(known)} sentences, AUROC {auroc([a for a, _ in known], [b for _, b in known]):.3f}", flush=True
    )
    return slope, intercept
