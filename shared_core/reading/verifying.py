"""Reads the best candidates again with a second network, which was trained on near misses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from shared_core.citation.sentences import split_sentences
from shared_core.reading.candidates import Candidate, Verdict, log_sum
from shared_core.reading.network import Logits, log_odds
from shared_core.reading.prepared import Asked, Placed, Prepared
from shared_core.reading.weights import Weights
from shared_core.retrieval.graphs import each
from shared_core.types import Passage


class Verifier:
    """Verifies candidates for one question.

    Args:
        weights: those of the network that reads them again.
        question: the question, as the reader reads it.
    """

    def __init__(self, weights: Weights, question: str) -> None:
        self._weights = weights
        self._asked = Asked.of(weights, question)

    def verify(
        self, candidates: list[Candidate], chosen: Iterable[int], passages: Sequence[Passage], close: Sequence[Placed]
    ) -> list[Candidate]:
        """Return the candidates, with a verdict on those ``chosen`` by number; ``close`` are the windows read."""
        numbers = sorted(set(chosen))
        places = sorted({candidates[i].place for i in numbers})
        windows = dict(zip(places, each(lambda place: self._read(close[place]), places)))

        def verdict(i: int) -> Verdict:
            c = candidates[i]
            return self._verdict(c, passages[c.passage], close[c.place], windows[c.place])

        verdicts: Mapping[int, Verdict] = dict(zip(numbers, each(verdict, numbers)))
        return [replace(c, verdict=verdicts.get(i)) for i, c in enumerate(candidates)]

    def _read(self, placed: Placed) -> Logits:
        """Read the question beside a window, from this network's own lower layers on."""
        network, asked = self._weights.network, self._asked
        held = network.apart(placed.window.apart.pieces)
        return network.together(asked.apart, held, asked.beside(placed.prepared, placed.window))

    def _verdict(self, c: Candidate, passage: Passage, placed: Placed, window: Logits) -> Verdict:
        weights, asked = self._weights, self._asked
        claim = Asked.of(weights, f"{asked.text} {passage.text[slice(*c.answer)]}")
        starts = placed.window.apart.pieces.starts
        here = (starts >= c.start) & (starts < c.end)
        # by itself: what the window says beside it cannot make up for what the sentence lacks
        sentence = passage.text[c.start : c.end]
        alone = Prepared.of(weights, sentence, passage.title, split_sentences(sentence))
        return Verdict(
            log_sum(window.sentence),
            log_sum(window.sentence[here]) if here.any() else _LEAST,
            max((log_sum(out.sentence) for out in asked.read(weights, alone)), default=_LEAST),
            max((log_odds(out.support) for out in claim.read(weights, alone, claim=True)), default=_LEAST),
        )


_LEAST = -9.0  # log-odds of a text without words
