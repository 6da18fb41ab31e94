"""Rank and judge sentences of languages that the network was not trained on, by the words of the question in them.

The network reads English. In other languages its scores still tell right sentences from others, but less well; words
that a sentence shares with the question, weighted by how few of the sentences have them, tell more. Both rank the
sentences, and a logistic model of a few figures gives the probability of the first. Fitted by
``python -m benchmarks.reader.by_words``.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared_core.errors import CalibrationError
from shared_core.reading.base import OTHER_QUESTION, Read, Reading, ReadResult
from shared_core.reading.candidates import Candidate
from shared_core.reading.confidence import Logistic, shift
from shared_core.reading.language import is_english
from shared_core.reading.places import above
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

BY_WORDS = Path(__file__).parent / "weights" / "by_words.json"
"""The model that ships."""
RANKED = ("shared", "shared_around", "rank", "score")
JUDGED = (
    "shared",  # weight of the question's words that the sentence has, of all of them
    "shared_around",  # and of those that its passage and headings have
    "margin",  # to the next best sentence, in what ranks them
    "score",  # the network's
    "score_margin",  # to the network's best other sentence
    "rarest_missing",  # weight of the rarest word that the passage lacks
    "missing_numbers",  # numbers of the question that the passage lacks
    "words",  # log of the question's distinct words
    "rank",  # -log of the passage's place
    "elsewhere",  # what another passage has of the question's words beyond this one
)
_FAMILY = 5  # first letters, by which forms of a word are taken for one
_WORD = lazy_regex(r"[^\W_]+")
_UNSPACED = lazy_regex("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
"""Letters of scripts without blanks between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""
_ALONE = 5.0
"""The margin of the only sentence."""


def parts_of(text: str) -> list[str]:
    """Split a text of any language into what is compared: beginnings of words, numbers, pairs of unspaced characters.

    >>> parts_of("Die Brücken von 1931")
    ['die', 'bruck', 'von', '1931']
    >>> parts_of("博物馆")
    ['博物', '物馆']
    """
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    plain = "".join(c for c in decomposed if not unicodedata.category(c).startswith("M")).casefold()
    out: list[str] = []
    for word in _WORD.findall(plain):
        if _UNSPACED.search(word):
            out += [word[i : i + 2] for i in range(len(word) - 1)] or [word]
        else:
            out.append(word if word.isdigit() else word[:_FAMILY])
    return out


def describe(question: str, passages: Sequence[Passage], candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """Compute (candidates, 8) figures: those of ``RANKED``, then ``JUDGED``'s last but for margins, in their order.

    Args:
        passages: that the candidates number.
    """
    asked = list(dict.fromkeys(parts_of(question)))
    said = [set(parts_of(passages[c.passage].text[c.start : c.end])) for c in candidates]
    held = {n: set(parts_of(f"{above(p)} {p.text}")) for n, p in enumerate(passages)}
    among = Counter(part for parts in said for part in parts)
    # (parts of the question,): rarer among the sentences weighs more
    weights = np.array([np.log((len(said) + 1) / (among[part] + 0.5)) for part in asked])
    total = float(weights.sum()) or 1.0
    numbers = [part for part in asked if part.isdigit()]
    anywhere = np.array([any(part in parts for parts in held.values()) for part in asked])
    rows = []
    for c, parts in zip(candidates, said, strict=True):
        here = np.array([part in parts for part in asked])
        near = np.array([part in held[c.passage] for part in asked])
        rows.append(
            (
                weights[here].sum() / total,
                weights[near].sum() / total,
                -np.log(c.passage + 1),
                c.score,
                weights[~near].max(initial=0.0),
                sum(number not in held[c.passage] for number in numbers),
                np.log(max(len(asked), 1)),
                weights[anywhere & ~near].sum() / total,
            )
        )
    return np.array(rows, dtype=np.float64).reshape(-1, 8)


def first_of(figures: NDArray[np.float64], rank: NDArray[np.float64]) -> tuple[list[int], NDArray[np.float64]]:
    """Return the order of the candidates, best first, and the figures (10,) of the first, as in ``JUDGED``.

    Args:
        figures: (candidates, 8), at least one, as of ``describe``.
        rank: (4,) weights of ``RANKED``.
    """
    total = figures[:, : len(RANKED)] @ rank
    order = sorted(range(len(figures)), key=lambda i: -total[i])
    best = order[0]
    shared, around, place, score, rarest, numbers, words, elsewhere = figures[best]
    margin = total[best] - total[order[1]] if len(order) > 1 else _ALONE
    others = np.delete(figures[:, 3], best)
    ahead = score - others.max() if len(others) else _ALONE
    row = (shared, around, margin, score, ahead, rarest, numbers, words, place, elsewhere)
    return order, np.array(row, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class ByWords:
    """Ranks sentences by shared words, and says how probable it is that the first is a right answer.

    Attributes:
        rank: (4,) weights of ``RANKED``.
        right: P(the first one holds a right answer), of ``JUDGED``.
        expected: share of questions with an answer that ``right`` was fitted on.
    """

    rank: NDArray[np.float64]
    right: Logistic
    expected: float

    def judge(
        self, question: str, passages: Sequence[Passage], candidates: Sequence[Candidate], expected: float
    ) -> tuple[NDArray[np.float64], float | None]:
        """Return (candidates,) scores, higher is better, and the probability that the best one is right.

        Args:
            candidates: at least one.
            expected: share of questions with an answer, in (0, 1).
        """
        figures = describe(question, passages, candidates)
        _, row = first_of(figures, self.rank)
        (chance,) = self.right.probability(row[None, :], JUDGED)
        return figures[:, : len(RANKED)] @ self.rank, None if chance is None else shift(chance, self.expected, expected)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        rank = dict(zip(RANKED, map(float, self.rank), strict=True))
        return {"rank": rank, "right": self.right.to_dict(), "expected": self.expected}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ByWords:
        """Create the model from what ``to_dict`` returned; CalibrationError for anything else."""
        try:
            rank = np.array([data["rank"][name] for name in RANKED], dtype=np.float64)
            out = cls(rank, Logistic.from_dict(data["right"]), float(data["expected"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CalibrationError(f"The model of other languages is damaged: {error}", hint="Reinstall.") from error
        if not (np.isfinite(rank).all() and 0 < out.expected < 1):
            raise CalibrationError("The model of other languages has numbers that cannot be used.", hint="Reinstall.")
        return out


@lru_cache(maxsize=1)
def load_by_words() -> ByWords:
    """Load the model that ships; CalibrationError if its file is missing or damaged."""
    try:
        return ByWords.from_dict(json.loads(BY_WORDS.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise CalibrationError(f"The model of other languages cannot be read: {error}", hint="Reinstall.") from error


def read_by_words(
    request: Read, candidates: Sequence[Candidate], judged: Sequence[int | None], passage_scores: Sequence[float]
) -> ReadResult | None:
    """Read for a question that is not English in passages that are not; ``None`` if the best sentence is English.

    The first reading has a probability if the request asks for it, the others have none.

    Args:
        candidates: sentences that were read closely, at least one, best first.
        judged: for each of the request's spans the number of the candidate it means.
        passage_scores: the network's, of each passage.
    """
    others = {n for n, p in enumerate(request.passages) if not is_english(p.text)}
    if candidates[0].passage not in others:
        return None
    model = load_by_words()
    expected = model.expected if request.expected is None else request.expected
    own = [c for c in candidates if c.passage in others]
    totals, chance = model.judge(request.question, request.passages, own, expected)
    order = sorted(range(len(own)), key=lambda i: -totals[i])
    chance = chance if request.by_words else None

    def reading(i: int) -> Reading:
        span = request.passages[own[i].passage].span(own[i].start, own[i].end)
        return Reading(span, chance if i == order[0] else None, float(totals[i]))

    numbers = {(c.passage, c.start, c.end): i for i, c in enumerate(own)}
    places = [None if i is None else (candidates[i].passage, candidates[i].start, candidates[i].end) for i in judged]
    return ReadResult(
        tuple(reading(i) for i in order[: request.limit]),
        chance,
        _score_passages(own, totals, passage_scores),
        expected,
        tuple(reading(numbers[place]) if place in numbers else None for place in places),
        "" if chance is not None else OTHER_QUESTION,
        by_words=chance is not None,
    )


def _score_passages(
    candidates: Sequence[Candidate], totals: NDArray[np.float64], known: Sequence[float]
) -> tuple[float, ...]:
    """For each passage its best candidate's score; below these, in their order, those without one."""
    best: dict[int, float] = {}
    for c, total in zip(candidates, map(float, totals), strict=True):
        best[c.passage] = max(total, best.get(c.passage, total))
    floor = min(best.values())
    rest = sorted((i for i in range(len(known)) if i not in best), key=lambda i: -known[i])
    return tuple(best[i] if i in best else floor - 1.0 - rest.index(i) for i in range(len(known)))
