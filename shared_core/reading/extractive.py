"""The extractive reader: finds the sentences that answer a question, without any language model."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shared_core.citation.sentences import SentenceSplitter, split_sentences
from shared_core.errors import InputError, QuestionError, SelfReflectError
from shared_core.portable import Remade
from shared_core.reading.base import Read, Reading, ReadResult
from shared_core.reading.candidates import FIGURES, Candidate, best_span, distinct, figures, log_sum
from shared_core.reading.encoder import Encoded, TokenEncoder, model_folder
from shared_core.reading.features import (
    Tokens,
    Words,
    asked_kind,
    is_of_kind,
    missing_words,
    speaks_english,
    surface,
    words_of,
)
from shared_core.reading.weights import WEIGHTS, Weights
from shared_core.retrieval.base import Embedder
from shared_core.retrieval.threads import one_thread
from shared_core.types import Passage

_HEADING = re.compile(r"#{1,6}[ \t][^\n]*")


@dataclass(frozen=True, slots=True)
class _Window:
    encoded: Encoded
    tokens: Tokens


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What of a passage does not depend on the question."""

    sentences: list[tuple[int, int]]
    words: Words
    title: NDArray[np.int64]
    windows: list[_Window]


@dataclass(frozen=True, slots=True)
class _Question:
    text: str
    encoded: Encoded
    words: Words
    tokens: Tokens
    kind: str | None


class ExtractiveReader(Remade):
    """Finds sentences that answer, a short answer in each, and how sure it is; a ``Reader``.

    Question and passage are read together in the upper layers of all-MiniLM-L6-v2, which low-rank matrices correct
    (``joint``; 0.7 M parameters, if the weights hold any), and scored by a small network (``network``, 0.4 M), both
    trained on SQuAD; the scores and surface figures give calibrated probabilities. Passages' vectors are kept for
    further questions. The same question and passages give the same result, whatever else is read with them. English
    only: for questions and sentences in other languages the ranking is a guess and every probability is ``None``.

    Args:
        embedder: a ``MiniLMEmbedder`` whose model folder to use; ``None`` looks in the usual places.
        weights: file of weights with its JSON beside it, as ``python -m shared_core.training.reader`` writes them.
        splitter: cuts passages into sentences.
        cache_passages: how many passages' vectors to keep (about 0.3 MB each).

    Raises:
        InputError: ``embedder`` is of another model, or ``cache_passages`` is negative.
        ModelLoadError, MissingDependencyError, CalibrationError: at first use, if model or weights are not usable.
    """

    def __init__(
        self,
        embedder: Embedder | None = None,
        *,
        weights: Path | None = None,
        splitter: SentenceSplitter = split_sentences,
        cache_passages: int = 256,
    ) -> None:
        if cache_passages < 0:
            raise InputError(f"cache_passages must be 0 or more, not {cache_passages!r}.", hint="0 keeps nothing.")
        self._embedder = embedder
        self._path = weights or WEIGHTS
        self._splitter = splitter
        self._room = cache_passages
        self._cache: OrderedDict[tuple[str, str], _Prepared] = OrderedDict()
        self._lock = threading.Lock()
        self._parts: tuple[TokenEncoder, Weights] | None = None
        self._folder = model_folder(embedder)

    @property
    def name(self) -> str:
        """Name and version; calibrations are bound to it."""
        return f"extractive-reader@{self._loaded()[1].version}"

    def read(self, requests: Sequence[Read]) -> list[ReadResult | SelfReflectError]:
        """Read for each request; a failing one gives its error as the result.

        A request with an empty question gives QuestionError; one without passages no readings and ``answerable`` 0.
        Readings are of distinct sentences, best first, at most ``limit``.
        """
        results: list[ReadResult | SelfReflectError] = []
        for request in requests:
            try:
                results.append(self._read(request))
            except SelfReflectError as error:
                results.append(error)
        return results

    def _loaded(self) -> tuple[TokenEncoder, Weights]:
        with self._lock:
            if self._parts is None:
                encoder = TokenEncoder(self._folder())
                self._parts = encoder, Weights.load(self._path).over(encoder.upper_layers())
            return self._parts

    def _read(self, request: Read) -> ReadResult:
        if not isinstance(request.question, str) or not request.question.strip():
            raise QuestionError("The question is empty.", hint="Ask something.")
        if request.limit < 1:
            raise InputError(f"limit must be at least 1, not {request.limit!r}.", hint="Usual: 1 to 5.")
        if not request.passages:
            return ReadResult((), 0.0)
        question = self._question(request.question)
        if not len(question.encoded.ids):  # nothing but marks the model does not know: no way to tell
            return ReadResult((), None)
        found = self.candidates(question.text, request.passages)
        if not found:
            return ReadResult((), 0.0)
        rows = figures(found, len(question.words))
        weights = self._loaded()[1]
        known = _readable(question)
        probabilities = weights.correct.probability(rows, FIGURES)
        readings = []
        for candidate, probability in zip(found[: request.limit], probabilities):
            passage = request.passages[candidate.passage]
            quote = passage.span(candidate.start, candidate.end)
            short = passage.span(*candidate.answer) if candidate.answer[1] > candidate.answer[0] else None
            sure = known and _latin(quote.text)
            readings.append(Reading(quote, probability if sure else None, candidate.score, short))
        answerable = (
            weights.answerable.probability(rows[:1], FIGURES)[0] if readings[0].probability is not None else None
        )
        return ReadResult(tuple(readings), answerable)

    def candidates(self, question: str, passages: Sequence[Passage]) -> list[Candidate]:
        """All distinct sentences of ``passages`` with their figures, best first."""
        asked = self._question(question)
        out: list[Candidate] = []
        if not len(asked.encoded.ids):
            return out
        with one_thread():
            for number, passage in enumerate(passages):
                prepared = self._prepared(passage)
                for window in prepared.windows:
                    out += self._window(asked, number, prepared, window)
        texts = [passages[c.passage].text[c.start : c.end] for c in out]
        said = [i for i, text in enumerate(texts) if not _HEADING.fullmatch(text)]  # a heading states nothing
        return distinct([out[i] for i in said], [texts[i] for i in said])

    def count_words(self, text: str) -> int:
        """Number of words, one of the figures probabilities are computed from."""
        return len(words_of(text, self._loaded()[1].rarity))

    def _question(self, text: str) -> _Question:
        encoder, weights = self._loaded()
        with one_thread():
            encoded = encoder.question(text)
        words = words_of(text, weights.rarity)
        tokens = Tokens.of(words, encoded.ids, encoded.starts, [])
        return _Question(text, encoded, words, tokens, asked_kind(text))

    def _prepared(self, passage: Passage) -> _Prepared:
        key = passage.title, passage.text
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        encoder, weights = self._loaded()
        sentences = list(self._splitter(passage.text))
        words = words_of(passage.text, weights.rarity)
        windows = [
            _Window(e, Tokens.of(words, e.ids, e.starts, sentences))
            for e in encoder.passage(passage.text, passage.title, sentences)
        ]
        prepared = _Prepared(sentences, words, words_of(passage.title, weights.rarity).content, windows)
        with self._lock:
            self._cache[key] = prepared
            while len(self._cache) > self._room:
                self._cache.popitem(last=False)
        return prepared

    def _window(self, asked: _Question, number: int, prepared: _Prepared, window: _Window) -> list[Candidate]:
        weights = self._loaded()[1]
        seen = surface(asked.words, asked.tokens, prepared.words, window.tokens, prepared.title)
        logits = weights.run(window.encoded, asked.encoded, seen)
        missing = missing_words(seen)
        out = []
        for sentence in np.unique(window.tokens.sentence):
            if not prepared.sentences:
                break
            at = np.flatnonzero(window.tokens.sentence == sentence)
            first, last, span, share = best_span(logits.start[at], logits.end[at])
            begin, end = prepared.sentences[sentence]
            answer = _whole_words(window, prepared.words, at[first], at[last], begin, end)
            out.append(
                Candidate(
                    passage=number,
                    start=begin,
                    end=end,
                    score=weights.score(log_sum(logits.sentence[at]), span, number + 1),
                    answer=answer,
                    span=span,
                    span_share=share,
                    window=logits.window,
                    coverage=seen.coverage[int(sentence)],
                    window_coverage=float(seen.tokens[0, -1]),
                    missing=missing,
                    similarity=_cosine(window.encoded, at, asked.encoded),
                    typed=is_of_kind(asked.kind, prepared.words, *answer),
                )
            )
        return out


def _whole_words(window: _Window, words: Words, first: int, last: int, begin: int, end: int) -> tuple[int, int]:
    """Code points of tokens ``first`` to ``last``, widened to whole words, within the sentence [begin, end)."""
    a, b = int(window.encoded.starts[first]), int(window.encoded.ends[last])
    left, right = int(window.tokens.word[first]), int(window.tokens.word[last])
    if left >= 0:
        a = int(words.starts[left])
    if right >= 0:
        b = max(b, int(words.ends[right]))
    return max(a, begin), min(b, end)


def _cosine(window: Encoded, at: NDArray[np.int64], question: Encoded) -> float:
    vector = window.states[at, -len(question.pooled) :].astype(np.float64).mean(axis=0)
    norm = float(np.linalg.norm(vector))
    return float(vector @ question.pooled) / norm if norm > 0 else 0.0


def _readable(question: _Question) -> bool:
    """Whether probabilities hold for this question: it has words, in Latin letters, and looks English."""
    return len(question.words) > 0 and _latin(question.text) and speaks_english(question.words) is not False


def _latin(text: str) -> bool:
    """At least half of the letters are Latin; true for a text without letters."""
    letters = [c for c in text if c.isalpha()]
    return sum(ord(c) < 0x250 or 0x1E00 <= ord(c) < 0x1F00 for c in letters) * 2 >= len(letters)
