"""A question or claim, prepared once and then read together with any number of texts."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from shared_core.citation.sentences import split_sentences
from shared_core.reading.features import Tokens, Words, surface, words_of

if TYPE_CHECKING:
    from shared_core.reading.model import Apart, Logits, ReadingModel
    from shared_core.reading.weights import Weights


class Beside:
    """Runs the network on a question or claim together with texts.

    Args:
        model, weights: as loaded.
        asked: the question or claim.
        claim: whether it is a claim.
    """

    def __init__(self, model: ReadingModel, weights: Weights, asked: str, *, claim: bool = False) -> None:
        self._model, self._weights, self._claim = model, weights, claim
        self._pieces = model.tokenizer.asked(asked)
        self.words = self.words_of(asked)

    def words_of(self, text: str) -> Words:
        """Split any text into words with their rarities."""
        return words_of(text, self._weights.rarity)

    @cached_property
    def _apart(self) -> Apart:
        return self._model.apart(self._pieces)

    def read(self, text: str, title: str = "") -> list[Logits]:
        """Return the network's output for each window of a text; nothing if either has no words."""
        if not len(self._pieces.starts):
            return []
        told, of_title, sentences = self.words_of(text), self.words_of(title).content, split_sentences(text)
        tokens = Tokens.of(self.words, self._pieces.body_ids, self._pieces.starts, [])
        out = []
        for window in self._model.tokenizer.windows(text, title, sentences):
            here = Tokens.of(told, window.body_ids, window.starts, sentences)
            seen = surface(self.words, tokens, told, here, of_title)
            out.append(self._model.together(self._apart, self._model.apart(window), seen, claim=self._claim))
        return out
