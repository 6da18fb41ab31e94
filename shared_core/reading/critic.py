"""The critic: how far does evidence support a claim, without any language model?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from shared_core.citation.sentences import split_sentences
from shared_core.errors import InputError
from shared_core.portable import Remade
from shared_core.reading.base import Rate, Verdict
from shared_core.reading.candidates import log_sum
from shared_core.reading.confidence import sigmoid
from shared_core.reading.features import Tokens, surface, words_of
from shared_core.reading.language import is_english
from shared_core.reading.loading import load_network
from shared_core.reading.model import Logits, ReadingModel, each, log_odds, model_folder
from shared_core.reading.network import REFUTED
from shared_core.reading.weights import WEIGHTS, Weights, version_of
from shared_core.retrieval.base import Embedder
from shared_core.types import Passage


class CriticSupportScorer(Remade):
    """P(evidence supports claim) by the shipped critic; a ``SupportScorer`` and a ``PassageRater``.

    The reader's network with a head of its own, trained on claims that people labelled and on statements made of
    questions with known answers. Evidence longer than a window counts by the window that supports best. English
    only: texts in other languages, and empty ones, are unknown (``None``). The same pair gives the same result,
    whatever else is scored with it. Loaded at first use; may be used from several threads.

    Args:
        embedder: a ``MiniLMEmbedder`` whose model folder to use; ``None`` looks in the usual places.
        weights: file of weights with its JSON beside it.

    Raises:
        InputError: ``embedder`` is of another model.
        ModelLoadError, MissingDependencyError, CalibrationError: at first use, if model or weights are not usable.
    """

    def __init__(self, embedder: Embedder | None = None, *, weights: Path | None = None) -> None:
        self._path = weights or WEIGHTS
        self._folder = model_folder(embedder)

    @property
    def name(self) -> str:
        """Name and version; calibrations are bound to it."""
        return f"critic@{version_of(self._path)}"

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """P(evidence supports claim) in [0, 1] for each (evidence, claim); ``None`` where unknown.

        Raises:
            InputError: something is no pair of strings.
        """
        return [verdict.supported if verdict else None for verdict in self.judge(pairs)]

    def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict | None]:
        """Support (calibrated) and refutation (not calibrated) of each pair; arguments and errors as for ``score``."""
        for pair in pairs:
            if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
                raise InputError(f"score takes (premise, hypothesis) pairs of strings, not {pair!r}.")
        return each(self._judge, list(pairs))

    def rate(self, requests: Sequence[Rate]) -> list[list[float | None]]:
        """P(the passage, by itself, answers the question) for each; ``None`` for other languages and no words."""
        pairs = [(r.question, passage) for r in requests for passage in r.passages]
        rated = iter(each(self._rate, pairs))
        return [[next(rated) for _ in r.passages] for r in requests]

    def _loaded(self) -> tuple[ReadingModel, Weights]:
        return load_network(self._path, self._folder)

    def _judge(self, pair: tuple[str, str]) -> Verdict | None:
        evidence, claim = pair
        if not (evidence.strip() and claim.strip() and is_english(claim) and is_english(evidence)):
            return None
        model, weights = self._loaded()
        slope, intercept = weights.support
        best: Verdict | None = None
        for logits in _beside(model, weights, claim, evidence, "", claim=True):
            supported = sigmoid(slope * log_odds(logits.support) + intercept)
            refuted = min(float(np.exp(logits.support[REFUTED])), 1 - supported)
            if best is None or supported > best.supported:
                best = Verdict(supported, refuted)
        return best

    def _rate(self, pair: tuple[str, Passage]) -> float | None:
        question, passage = pair
        if not (question.strip() and passage.text.strip() and is_english(question) and is_english(passage.text)):
            return None
        model, weights = self._loaded()
        slope, intercept = weights.relevance
        odds = [log_sum(logits.sentence) for logits in _beside(model, weights, question, passage.text, passage.title)]
        return sigmoid(slope * max(odds) + intercept) if odds else None


def _beside(
    model: ReadingModel, weights: Weights, asked: str, text: str, title: str, *, claim: bool = False
) -> Iterator[Logits]:
    """What the network says of a question or claim beside each window of a text; nothing where one has no words."""
    pieces = model.tokenizer.asked(asked)
    if not len(pieces.starts):
        return
    words, told = words_of(asked, weights.rarity), words_of(text, weights.rarity)
    tokens = Tokens.of(words, pieces.body_ids, pieces.starts, [])
    of_title = words_of(title, weights.rarity).content
    apart, sentences = model.apart(pieces), split_sentences(text)
    for window in model.tokenizer.windows(text, title, sentences):
        here = Tokens.of(told, window.body_ids, window.starts, sentences)
        seen = surface(words, tokens, told, here, of_title)
        yield model.together(apart, model.apart(window), seen, claim=claim)
