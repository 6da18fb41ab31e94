"""The extractive reader: finds sentences that answer a question, without a language model."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from shared_core.citation.sentences import SentenceSplitter, split_sentences
from shared_core.errors import InputError, QuestionError, SelfReflectError
from shared_core.reading.base import NO_WORDS, OTHER_QUESTION, OTHER_TEXT, Read, Reading, ReadResult
from shared_core.reading.by_words import read_by_words
from shared_core.reading.candidates import (
    FIGURES,
    Candidate,
    best_span,
    candidates_at,
    distinct,
    figures,
    log_sum,
    trim_answer,
)
from shared_core.reading.cells import is_named_row
from shared_core.reading.changes import from_release
from shared_core.reading.confidence import add_log_odds, shift
from shared_core.reading.days import find_hours
from shared_core.reading.definitions import LIKELY, find_definitions, find_headed, term_asked
from shared_core.reading.direct import choose_rows
from shared_core.reading.entries import DEFINES
from shared_core.reading.faq import find_faq, join_faq
from shared_core.reading.features import (
    Lacking,
    Shape,
    content_of,
    is_among,
    is_of_kind,
    lacking,
    missing_words,
    shape_of,
    words_of,
)
from shared_core.reading.language import has_english_labels, is_english, is_english_beside_names, is_named_in_english
from shared_core.reading.lists import count_parts, find_lists_asked, join_lists, place_parts, query_for_rest
from shared_core.reading.lookups import from_name, from_option
from shared_core.reading.marking import mark_candidates
from shared_core.reading.places import above, innermost, is_structured
from shared_core.reading.prepared import Asked, Placed, Prepared, Window, overlaps, whole_words
from shared_core.reading.questions import asks_what_it_does, opens_in_english, words
from shared_core.reading.quotable import is_record, join_comments, quotable
from shared_core.reading.rewording import reword
from shared_core.reading.row_values import query_for_rows
from shared_core.reading.told import UNTOLD
from shared_core.reading.verifying import Verifier
from shared_core.reading.weights import WEIGHTS, Weights, load_verifier, load_weights, version_of
from shared_core.retrieval.graphs import each
from shared_core.support.options import find_options, is_entry_of
from shared_core.support.pickling import Remade
from shared_core.types import Passage, Span

_RARE = 0.45  # rarity of words that name something: not of "much" and "number"
_ENTRIES = 3  # of options of the question, read closely in any case
_TOLD = 200  # characters of a text whose language can be told
VERIFIED = 3
"""Most candidates of each question that the second network reads again."""
CLOSE = 1.0
"""How far a candidate's score may be below the best one's for the second network to read it again."""


@dataclass(frozen=True, slots=True)
class Found:
    """Findings in all passages of a request.

    Attributes:
        candidates: all distinct sentences that were read closely, best first.
        judged: for each of the request's spans the number of the candidate it means.
    """

    candidates: list[Candidate]
    passage_scores: tuple[float, ...]
    judged: tuple[int | None, ...] = ()


class ExtractiveReader(Remade):
    """Finds sentences that answer a question, with short answers and probabilities; a ``Reader``.

    >>> from shared_core import Passage
    >>> from shared_core.reading.base import Read
    >>> lamp = Passage("lamp", "The lamp of Vessen was lit in 1871. The sea is cold.")
    >>> (result,) = ExtractiveReader().read([Read("When was the lamp of Vessen lit?", (lamp,))])
    >>> result.readings[0].quote.text, result.readings[0].short_answer.text
    ('The lamp of Vessen was lit in 1871.', '1871')

    A cheap score selects windows of the passages, which are read together with the question in the upper layers of
    all-MiniLM-L6-v2, fine-tuned for reading (``network``). The best answers are read again by a second network, which
    was trained on near misses (``verifying``). Scores and surface figures give calibrated probabilities. The lower
    layers' states of passages are cached for further questions. Results do not depend on other requests of the batch.
    The networks read English: sentences of other languages are ranked by the words that they share with the question,
    too, and their probabilities are unknown unless a request asks for them (``by_words``).

    Args:
        weights: file of weights with its JSON beside it, as ``python -m benchmarks.reader`` in a checkout writes them.
        splitter: cuts passages into sentences.
        cache_passages: number of passages whose states are cached (about 0.15 MB each).

    Raises:
        InputError: ``cache_passages`` is negative.
        ModelLoadError, MissingDependencyError, CalibrationError: at first use, if model or weights are not usable.
    """

    def __init__(
        self, *, weights: Path | None = None, splitter: SentenceSplitter = split_sentences, cache_passages: int = 256
    ) -> None:
        if cache_passages < 0:
            raise InputError(f"cache_passages must be 0 or more, not {cache_passages!r}.", hint="0 keeps nothing.")
        self._path = weights or WEIGHTS
        self._splitter = splitter
        self._room = cache_passages
        self._cache: OrderedDict[tuple[str, str, bool, str], Prepared] = OrderedDict()
        self._lock = threading.Lock()
        self._weights: Weights | None = None
        self._verifier: Weights | None = None

    @property
    def name(self) -> str:
        """Name and version; calibrations are bound to it."""
        return f"extractive-reader@{version_of(self._path)}"

    def read(self, requests: Sequence[Read]) -> list[ReadResult | SelfReflectError]:
        """Read for each request; a failing one gives its error as the result.

        A request with an empty question gives QuestionError; one without passages no readings and ``answerable`` 0.
        Readings are of distinct sentences, best first, surer definitions before them, at most ``limit``.
        """
        results: list[ReadResult | SelfReflectError] = []
        for request in requests:
            try:
                results.append(self._read(request))
            except SelfReflectError as error:
                results.append(error)
        return results

    def loaded(self) -> Weights:
        """The weights with the network, loaded at the first call."""
        if self._weights is None:
            self._weights = load_weights(self._path)
        return self._weights

    def _loaded_verifier(self) -> Weights:
        if self._verifier is None:
            self._verifier = load_verifier(self._path)
        return self._verifier

    def _read(self, request: Read) -> ReadResult:
        if not isinstance(request.question, str) or not request.question.strip():
            raise QuestionError("The question is empty.", hint="Ask something.")
        if request.limit < 1:
            raise InputError(f"limit must be at least 1, not {request.limit!r}.", hint="Usual: 1 to 5.")
        weights = self.loaded()
        expected = weights.expected if request.expected is None else request.expected
        if not 0 < expected < 1:
            raise InputError(f"expected must be in (0, 1), not {expected!r}.", hint="None is the reader's own.")
        no_spans = (None,) * len(request.spans)
        if not request.passages:
            return ReadResult((), 0.0, (), expected, no_spans)
        asked = self._asked(self._reword(request.question, request.passages))
        if not asked.has_words:  # no way to tell
            return ReadResult((), None, (0.0,) * len(request.passages), expected, no_spans, NO_WORDS)
        found = self._find(asked, request.passages, request.spans)
        if not found.candidates:
            return ReadResult((), 0.0, found.passage_scores, expected, no_spans)
        english = opens_in_english(asked.text) or is_english(asked.text)
        if not english and (read := read_by_words(request, found.candidates, found.judged, found.passage_scores)):
            return read
        answerable, chances = self.probabilities(found.candidates, asked.shape, expected)

        def reading(i: int) -> Reading:
            candidate = found.candidates[i]
            passage = request.passages[candidate.passage]
            known = len(asked.words.content) > 0 and (english or _names(passage, asked.text))
            chance = chances[i] if known else None
            if chance is not None and is_structured(passage):
                chance = weights.structured(chance)
            return _reading(request.passages, candidate, chance, weights)

        order = _order_of(asked.text, found.candidates, chances)
        order = place_parts(order, found.candidates, request.passages, chances)
        readings = tuple(reading(i) for i in order[: request.limit])
        judged = tuple(None if i is None else reading(i) for i in found.judged)
        read_as = asked.text if asked.text != request.question else ""
        if readings[0].probability is None:
            why = NO_WORDS if not len(asked.words.content) else OTHER_TEXT if english else OTHER_QUESTION
            return ReadResult(readings, None, found.passage_scores, expected, judged, why, read_as)
        best = found.candidates[order[0]]
        rest, holder = query_for_rest(request.passages, best), best.passage
        if not rest:
            rest, holder = query_for_rows(asked.text, request.passages, holder)
        parts = count_parts(order, found.candidates, request.passages)
        scores = _with_best(found.passage_scores, best.passage)
        if answerable is not None:  # rescaled, a quote may be surer than that there is an answer
            answerable = max(answerable, *(r.probability or 0.0 for r in readings))
        rest_of = request.passages[holder].id if rest else ""
        return ReadResult(
            readings, answerable, scores, expected, judged, read_as=read_as, rest=rest, parts=parts, rest_of=rest_of
        )

    def probabilities(
        self, candidates: Sequence[Candidate], question: Shape, expected: float
    ) -> tuple[float | None, list[float | None]]:
        """P(what was read holds an answer), and for each candidate, best first, P(it is a right one).

        The second is the first times P(right, if there is an answer): ``expected`` moves the first only.
        """
        weights = self.loaded()
        rows = figures(list(candidates), question)
        (any_answer,) = weights.answerable.probability(rows[:1], FIGURES)
        if any_answer is None:
            return None, [None] * len(rows)

        def moved(p: float, terms: Mapping[str, float], c: Candidate) -> float:
            added = DEFINES * c.defines + UNTOLD * c.untold
            return add_log_odds(p, weights.conflicts.total(terms, c.conflicts) + added)

        any_answer = moved(any_answer, weights.conflicts.answerable, max(candidates, key=lambda c: c.defines > 0))
        answerable = shift(any_answer, weights.expected, expected)
        right = weights.right.probability(rows, FIGURES)
        chances = [
            None if p is None else answerable * moved(p, weights.conflicts.right, c) for p, c in zip(right, candidates)
        ]
        # what was not verified is no surer than what was
        sure = [c.verdict is not None for c in candidates]
        worst = min((p for p, read in zip(chances[:VERIFIED], sure) if p is not None and read), default=0.0)
        return answerable, [p if p is None or v else min(p, worst) for p, v in zip(chances, sure)]

    def candidates(self, question: str, passages: Sequence[Passage]) -> list[Candidate]:
        """All distinct sentences of ``passages`` that were read closely, with their figures, best first."""
        asked = self._asked(self._reword(question, passages))
        return self._find(asked, passages).candidates if asked.has_words else []

    def shape_of(self, question: str) -> Shape:
        """A question's form, of which some figures are that probabilities are computed from."""
        return shape_of(question, words_of(question, self.loaded().rarity))

    def _find(self, asked: Asked, passages: Sequence[Passage], spans: Sequence[Span] = ()) -> Found:
        weights = self.loaded()

        def look(number: int) -> list[Placed]:
            prepared = self._prepared(passages[number])
            return [self._beside(asked, number, prepared, window) for window in prepared.windows]

        every = [w for windows in each(look, range(len(passages))) for w in windows]
        # as with sentences, the retriever's order counts
        order = sorted(every, key=lambda w: weights.rank_prior * np.log(w.number + 1) - w.cheap)
        numbers = {p.id: i for i, p in enumerate(passages)}
        places = [(numbers[s.passage_id], s) for s in spans if s.passage_id in numbers]
        faq = find_faq(asked.text, passages)
        chosen = choose_rows(asked.text, passages)
        sought = _find_sought(asked.text, passages) | faq.keys() | {number for number, _, _ in chosen.lines}
        prepared = {w.number: w.prepared for w in every}
        sought |= _find_missed(asked, {w.number for w in order[: weights.together]}, prepared)
        wanted = [
            w
            for w in order[weights.together :]
            if w.number in sought or any(overlaps(w, number, s) for number, s in places)
        ]
        close = sorted([*order[: weights.together], *wanted], key=lambda w: w.number)
        lacks = dict(zip(prepared, lacking(asked.words, [p.stems for p in prepared.values()])))

        def sentences(i: int) -> list[Candidate]:
            return self._sentences(asked, passages[close[i].number].text, i, close[i], lacks[close[i].number])

        out = [c for found in each(sentences, range(len(close))) for c in found]
        out, said = mark_candidates(asked, passages, out, prepared, chosen, weights.conflicts.score)
        texts = [passages[out[i].passage].text[out[i].start : out[i].end] for i in said]
        ranked = distinct([out[i] for i in said], texts)
        ranked = join_lists(asked.text, passages, join_faq(asked.text, faq, passages, ranked))
        judged = candidates_at(spans, numbers, [out[i] for i in said], ranked, passages)
        surer = [replace(c, score=c.score + DEFINES * max(c.defines, 0)) for c in (*(out[i] for i in said), *ranked)]
        scores = self._passage_scores(len(passages), surer, order)
        again = {i for i, c in enumerate(ranked[:VERIFIED]) if c.score >= ranked[0].score - CLOSE}
        again |= {i for i in judged if i is not None}
        again |= {i for i, c in enumerate(ranked) if c.defines > 0}
        verified = Verifier(self._loaded_verifier(), asked.text).verify(ranked, again, passages, close)
        begun = [from_name(asked.text, passages[c.passage], c) for c in verified]
        begun = [from_option(asked.text, passages[c.passage], c) for c in begun]
        return Found([from_release(asked.text, passages[c.passage], c) for c in begun], scores, judged)

    def _beside(self, asked: Asked, number: int, prepared: Prepared, window: Window) -> Placed:
        seen = asked.beside(prepared, window)
        cheap = self.loaded().network.score_cheaply(asked.apart, window.apart, seen)
        return Placed(number, prepared, window, seen, cheap)

    def _passage_scores(self, count: int, candidates: list[Candidate], order: list[Placed]) -> tuple[float, ...]:
        """For each passage its best quote's score; below these, in the cheap score's order, those without one."""
        best: dict[int, float] = {}
        for c in candidates:
            best[c.passage] = max(c.score, best.get(c.passage, c.score))
        floor = min(best.values(), default=0.0)
        rest = list(dict.fromkeys(w.number for w in order if w.number not in best))
        rest += [i for i in range(count) if i not in best and i not in rest]
        return tuple(best[i] if i in best else floor - 1.0 - rest.index(i) for i in range(count))

    def _reword(self, question: str, passages: Sequence[Passage]) -> str:
        return reword(question, passages, self.loaded().network.tokenizer.number)

    def _asked(self, text: str) -> Asked:
        return Asked.of(self.loaded(), text)

    def _prepared(self, passage: Passage) -> Prepared:
        whole = is_record(passage)
        key = passage.title, passage.text, whole, str(passage.metadata.get("source", ""))
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        sentences = join_comments(passage, quotable(passage.text, self._splitter(passage.text)))
        if whole:  # a line of it would not say of what it is
            sentences = [(sentences[0][0], sentences[-1][1])]
        prepared = Prepared.of(self.loaded(), passage.text, passage.title, sentences)
        with self._lock:
            self._cache[key] = prepared
            while len(self._cache) > self._room:
                self._cache.popitem(last=False)
        return prepared

    def _sentences(self, asked: Asked, text: str, place: int, beside: Placed, lacks: Lacking) -> list[Candidate]:
        """The sentences of one window of a passage with this text, read together with the question."""
        weights = self.loaded()
        window, prepared, seen = beside.window, beside.prepared, beside.seen
        logits = weights.network.together(asked.apart, window.apart, seen)
        missing = missing_words(seen)
        stems, rarity = content_of(asked.words)
        out = []
        for sentence in np.unique(window.tokens.sentence) if prepared.sentences else ():
            at = np.flatnonzero(window.tokens.sentence == sentence)
            first, last, span, share = best_span(logits.start[at], logits.end[at])
            begin, end = prepared.sentences[sentence]
            words = prepared.words
            answer = whole_words(window, words, int(at[first]), int(at[last]), begin, end)
            here = np.concatenate([words.stem[words.within(begin, end)], prepared.title])
            out.append(
                Candidate(
                    passage=beside.number,
                    start=begin,
                    end=end,
                    score=weights.score(log_sum(logits.sentence[at]), span, beside.number + 1),
                    answer=answer,
                    span=span,
                    span_share=share,
                    window=logits.window,
                    coverage=seen.coverage[int(sentence)],
                    window_coverage=float(seen.tokens[0, -1]),
                    missing=missing,
                    typed=is_of_kind(asked.kind, words, text, *answer),
                    place=place,
                    lacking=lacks,
                    sentence_rarest=float(rarity[~is_among(stems, here)].max(initial=0.0)),
                )
            )
        return out


def _find_sought(question: str, passages: Sequence[Passage]) -> set[int]:
    """Return the passages that are read closely whatever the cheap score: those with a list, term or line as asked."""
    found = find_lists_asked(question, passages) | find_hours(question, passages)
    found |= find_definitions(question, passages) | find_headed(question, passages)
    if options := find_options(question):
        found |= {*[i for i, p in enumerate(passages) if is_entry_of(innermost(p), options)][:_ENTRIES]}
    if passages and is_named_row(passages[0]):
        found.add(0)  # rows are told apart by names, which retrieval knows better than the cheap score
    return found


def _find_missed(asked: Asked, close: set[int], prepared: Mapping[int, Prepared]) -> set[int]:
    """Return the first passage with the rarest word of the question that no passage read closely has, if one has it."""
    stems, rarity = content_of(asked.words)
    held = {number: is_among(stems, p.stems) for number, p in prepared.items()}
    missed = np.ones(len(stems), dtype=bool)
    for number in close:
        missed &= ~held[number]
    missed &= np.any([*held.values()], axis=0)
    if not missed.any():
        return set()
    rarest = int(np.where(missed, rarity, 0.0).argmax())
    if rarity[rarest] < _RARE:
        return set()
    return {min(number for number, of_it in held.items() if of_it[rarest])}


def _order_of(question: str, candidates: Sequence[Candidate], chances: Sequence[float | None]) -> list[int]:
    """Order candidates: a surer definition before what the network thinks best, a likely one if it is asked for."""
    best = chances[0] or 0.0
    least = min(best, LIKELY) if term_asked(question) or asks_what_it_does(question) else best
    surer = {i for i, c in enumerate(candidates) if c.defines > 0 and (chances[i] or 0.0) > least}
    return sorted(range(len(candidates)), key=lambda i: i not in surer)


def _with_best(scores: tuple[float, ...], best: int) -> tuple[float, ...]:
    """Return the passages' scores with that of the first reading's as the highest: a definition may come first."""
    top = max(scores)
    return tuple(math.nextafter(top, math.inf) if i == best and s < top else s for i, s in enumerate(scores))


def _reading(passages: Sequence[Passage], candidate: Candidate, probability: float | None, weights: Weights) -> Reading:
    """A candidate as a reading; unknown where its language is not the reader's."""
    passage = passages[candidate.passage]
    quote = passage.span(candidate.start, candidate.end)
    has_short = candidate.answer[1] > candidate.answer[0] and not candidate.joined
    short = passage.span(*trim_answer(passage.text, *candidate.answer)) if has_short else None
    # names and numbers are of no language, but a setting has the very names that the question asks for
    around = _around(passage.text, candidate.start, candidate.end)
    is_word = weights.network.tokenizer.number
    sure = candidate.defines > 0 or has_english_labels(quote.text, is_word) or is_english_beside_names(around, is_word)
    return Reading(quote, probability if sure else None, candidate.score, short)


def _names(passage: Passage, question: str) -> bool:
    """Whether ``passage`` and its headings hold all words of ``question``: names and key words, in any language.

    Or all but one, beside function words of English: "Has Ada Moreno paid?".
    """
    text = f"{above(passage)} {passage.text}"
    return set(words(question)) <= set(words(text)) or is_named_in_english(question, text)


def _around(text: str, start: int, end: int) -> str:
    """A sentence with so much before and behind it that its language can be told."""
    spare = max(0, _TOLD - (end - start)) // 2
    return text[max(0, start - spare) : end + spare]
