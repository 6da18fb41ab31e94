"""The critic: scores whether evidence supports a claim, without a language model.

The network was trained on evidence of a sentence or two. On a page, with most of a claim's words standing somewhere,
what it says alone is less than what it says together with which words are there; so both count. What comparing facts
finds counts beside them, and does not decide alone: in a paraphrase a name or number that seems missing often is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shared_core.citation.facts import Comparison, compare_claim
from shared_core.citation.sentences import split_sentences
from shared_core.reading.base import Rate, Verdict, check_pairs
from shared_core.reading.candidates import log_sum
from shared_core.reading.confidence import sigmoid
from shared_core.reading.equals import as_evidence_writes, number_places
from shared_core.reading.features import NUMBER, NUMBER_WORD, RARITY, Words, is_among
from shared_core.reading.language import is_english, is_english_beside_names
from shared_core.reading.network import REFUTED, log_odds
from shared_core.reading.prepared import Beside
from shared_core.reading.weights import WEIGHTS, Weights, load_weights, version_of
from shared_core.retrieval.graphs import each
from shared_core.support.pickling import Remade
from shared_core.types import Passage


class CriticSupportScorer(Remade):
    """P(evidence supports claim) by the shipped critic; a ``SupportScorer`` and a ``PassageRater``.

    >>> critic = CriticSupportScorer()
    >>> evidence = "The lamp of Vessen was lit in 1871."
    >>> right, wrong = critic.score([(evidence, "The lamp was lit in 1871."), (evidence, "The lamp was lit in 1907.")])
    >>> right > 0.8 > wrong
    True

    Combines the reader's network, with a head trained on claims labelled by people and on statements made from
    questions with known answers, with the share of the claim's words that the evidence contains and with what comparing
    its facts finds (``citation.facts``). Of evidence longer than a window, the window that supports the claim best
    counts. In other languages than English only facts are compared: claims that the evidence contradicts, or whose
    numbers it lacks, are not supported; all others are unknown (``None``), as empty ones are. Results do not depend on
    other pairs of the batch. Loaded at first use; thread-safe.

    Args:
        weights: file of weights with its JSON beside it.

    Raises:
        ModelLoadError, MissingDependencyError, CalibrationError: at first use, if model or weights are not usable.
    """

    def __init__(self, *, weights: Path | None = None) -> None:
        self._path = weights or WEIGHTS

    @property
    def name(self) -> str:
        """Name and version; calibrations are bound to it."""
        return f"critic@{version_of(self._path)}"

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """P(evidence supports claim) in [0, 1] for each (evidence, claim); ``None`` where unknown.

        InputError if something is no pair of strings.
        """
        return [verdict.supported if verdict else None for verdict in self.judge(pairs)]

    def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict | None]:
        """Return support (calibrated) and refutation (not), at most 1 together; arguments and errors as ``score``."""
        check_pairs(pairs)
        return each(self._judge, list(pairs))

    def rate(self, requests: Sequence[Rate]) -> list[list[float | None]]:
        """P(the passage, by itself, answers the question) for each; ``None`` for other languages and no words."""
        pairs = [(r.question, passage) for r in requests for passage in r.passages]
        rated = iter(each(self._rate, pairs))
        return [[next(rated) for _ in r.passages] for r in requests]

    def _loaded(self) -> Weights:
        return load_weights(self._path)

    def _reads(self, text: str) -> bool:
        return is_english_beside_names(text, self._loaded().network.tokenizer.number)

    def figures(self, pairs: Sequence[tuple[str, str]]) -> list[NDArray[np.float64] | None]:
        """Return the figures behind the verdict on each pair (``EVIDENCE_FIGURES``), for fitting.

        ``None`` if unknown: other languages than English, and texts without words.
        """
        return each(self._figures, list(pairs))

    def _figures(self, pair: tuple[str, str]) -> NDArray[np.float64] | None:
        evidence, claim = pair
        if not (evidence.strip() and claim.strip() and self._reads(evidence) and is_english(claim, beside=evidence)):
            return None
        return evidence_figures(self._loaded(), claim, evidence)

    def _judge(self, pair: tuple[str, str]) -> Verdict | None:
        found = self._figures(pair)
        if found is None:
            return _by_facts(*pair)
        supported = self._loaded().support.probability(found[None], EVIDENCE_FIGURES)[0]
        if supported is None:
            return None
        refuted, nearest, contradicted = (
            float(found[EVIDENCE_FIGURES.index(name)]) for name in ("refuted", "nearest", "contradicted")
        )
        if contradicted:
            return Verdict(supported, 1 - supported)
        # the network alone takes silence for contradiction; what no sentence speaks of, none contradicts
        return Verdict(supported, min(refuted, nearest, 1 - supported))

    def _rate(self, pair: tuple[str, Passage]) -> float | None:
        question, passage = pair
        if not (question.strip() and passage.text.strip() and is_english(question) and self._reads(passage.text)):
            return None
        weights = self._loaded()
        slope, intercept = weights.relevance
        read = Beside(weights, question).read(passage.text, passage.title)
        odds = [log_sum(logits.sentence) for logits in read]
        return sigmoid(slope * max(odds) + intercept) if odds else None


def _by_facts(evidence: str, claim: str) -> Verdict | None:
    """Judge by facts alone: names are left out, since capitals tell no names in some languages."""
    facts = compare_claim(claim, evidence)
    supported = facts.cap(1.0, names=False)
    if supported == 1:
        return None  # nothing speaks against it, which supports nothing
    return Verdict(supported, 1 - supported if facts.refuted else None)


EVIDENCE_FIGURES = (
    "whole",  # log-odds of "supported" by the window of the evidence that supports best, -15 to 15
    "sentence",  # the same of the one sentence that holds most of the claim's words
    "around",  # the same of that sentence with its neighbours
    "words",  # share of the claim's words in the evidence
    "rare_words",  # the same of content words' stems, weighed by their rarity
    "nearest",  # the same within one sentence
    "numbers",  # -ln(1 + numbers of the claim that the evidence lacks, and that do not follow from its own)
    "refuted",  # P("refuted") by the window that supports best, as the network says
    "contradicted",  # -1 if a fact of the claim is contradicted (``citation.facts``), else 0
    "missing",  # -1 if the evidence lacks one of the claim's facts, else 0
)


def evidence_figures(weights: Weights, claim: str, evidence: str) -> NDArray[np.float64] | None:
    """(len(EVIDENCE_FIGURES),) of one claim; ``None`` where either text has no words."""
    text = as_evidence_writes(claim, evidence)
    beside = Beside(weights, text, claim=True)
    said, held = beside.words, beside.words_of(evidence)
    whole = [logits.support for logits in beside.read(evidence)]
    if not whole or not len(said) or not len(held):
        return None
    sentences = split_sentences(evidence)
    shares = [_rare_share(said, beside.words_of(evidence[a:b])) for a, b in sentences]
    best = max(whole, key=log_odds)
    alone, around = _close_by(beside, evidence, sentences, shares) or (log_odds(best), log_odds(best))
    facts = compare_claim(claim, evidence)
    return np.array(
        [
            log_odds(best),
            alone,
            around,
            float(is_among(said.exact, np.unique(held.exact)).mean()),
            _rare_share(said, held),
            max(shares, default=0.0),
            -np.log1p(_numbers_lacking(text, said, held, facts)),
            float(np.exp(best[REFUTED])),
            -float(facts.refuted),
            -float(not all(m.refuted for m in facts.mismatches)),
        ]
    )


def _numbers_lacking(text: str, said: Words, held: Words, facts: Comparison) -> int:
    """Count the numbers of a claim that the evidence lacks; a sum or difference of its own is none of them."""
    lacking = said.static[:, [NUMBER, NUMBER_WORD]].any(axis=1) & ~is_among(said.stem, np.unique(held.stem))
    if not any(m.kind in ("number", "unit", "date") for m in facts.mismatches):
        for start, end in number_places(text):
            lacking &= ~said.within(start, end)
    return int(lacking.sum())


def _close_by(
    claim: Beside, evidence: str, sentences: Sequence[tuple[int, int]], shares: Sequence[float]
) -> tuple[float, float] | None:
    """Log-odds by the sentence that holds most of the claim, and by it with its neighbours; ``None`` for one alone."""
    if len(sentences) < 2:
        return None
    at = int(np.argmax(shares))
    first, last = max(0, at - 1), min(len(sentences) - 1, at + 1)
    texts = [evidence[slice(*sentences[at])], evidence[sentences[first][0] : sentences[last][1]]]
    found = [[log_odds(logits.support) for logits in claim.read(text)] for text in texts]
    return (max(found[0]), max(found[1])) if all(found) else None


def _rare_share(said: Words, held: Words) -> float:
    """The share of a claim's content stems in a text, weighed by rarity; of all words where all are function words."""
    content = ~said.stop
    stems, first = np.unique(said.stem[content], return_index=True)
    if not len(stems):
        return float(is_among(said.stem, np.unique(held.stem)).mean())
    weights = said.static[content, RARITY][first] + 1e-6
    return float(weights[is_among(stems, np.unique(held.stem))].sum() / weights.sum())
