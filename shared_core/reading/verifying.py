"""Reads the best candidates again: their answers as claims, and all with a second network, trained on near misses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from shared_core.citation.sentences import split_sentences
from shared_core.reading.candidates import Candidate, Verdict, log_sum
from shared_core.reading.network import Apart, Logits, log_odds
from shared_core.reading.prepared import Asked, Placed, Prepared
from shared_core.reading.weights import Weights
from shared_core.retrieval.graphs import each
from shared_core.types import Passage


class Verifier:
    """Verifies candidates for one question.

    Args:
        weights: the reader's.
        verifier: those of the network that reads them again.
        question: the question, as the reader reads it.
    """

    def __init__(self, weights: Weights, verifier: Weights, question: str) -> None:
        self._weights, self._verifier = weights, verifier
        self._asked = Asked.of(verifier, question)

    def verify(
        self, candidates: list[Candidate], chosen: Iterable[int], passages: Sequence[Passage], close: Sequence[Placed]
    ) -> list[Candidate]:
        """Return the candidates, with a verdict on those ``chosen`` by number; ``close`` are the windows read."""
        numbers = sorted(set(chosen))
        places = sorted({candidates[i].place for i in numbers})
        windows = dict(zip(places, each(lambda place: self._read(close[place]), places)))

        def verdict(i: int) -> Verdict:
            place = candidates[i].place
            return self._verdict(candidates[i], passages[candidates[i].passage], close[place], *windows[place])

        verdicts: Mapping[int, Verdict] = dict(zip(numbers, each(verdict, numbers)))
        return [replace(c, verdict=verdicts.get(i)) for i, c in enumerate(candidates)]

    def _read(self, placed: Placed) -> tuple[Apart, Logits]:
        """Return a window after the verifier's own lower layers, and what it makes of the question beside it."""
        network, asked = self._verifier.network, self._asked
        held = network.apart(placed.window.apart.pieces)
        return held, network.together(asked.apart, held, asked.beside(placed.prepared, placed.window))

    def _verdict(self, c: Candidate, passage: Passage, placed: Placed, held: Apart, read: Logits) -> Verdict:
        text = f"{self._asked.text} {passage.text[slice(*c.answer)]}"
        own, claim = Asked.of(self._weights, text), Asked.of(self._verifier, text)
        window = placed.window
        seen = claim.beside(placed.prepared, window)
        supported = self._weights.network.together(own.apart, window.apart, seen, claim=True).support
        supports = self._verifier.network.together(claim.apart, held, seen, claim=True).support
        starts = window.apart.pieces.starts
        here = (starts >= c.start) & (starts < c.end)
        # by itself: what the window says beside it cannot make up for what the sentence lacks
        sentence = passage.text[c.start : c.end]
        alone = Prepared.of(self._verifier, sentence, passage.title, split_sentences(sentence))
        return Verdict(
            log_odds(supported),
            log_odds(supports),
            log_sum(read.sentence),
            log_sum(read.sentence[here]) if here.any() else _LEAST,
            max((log_sum(out.sentence) for out in self._beside(self._asked, alone, claim=False)), default=_LEAST),
            max((log_odds(out.support) for out in self._beside(claim, alone, claim=True)), default=_LEAST),
        )

    def _beside(self, asked: Asked, prepared: Prepared, *, claim: bool) -> list[Logits]:
        network = self._verifier.network
        return [
            network.together(asked.apart, w.apart, asked.beside(prepared, w), claim=claim) for w in prepared.windows
        ]


_LEAST = -9.0  # log-odds of a text without words
