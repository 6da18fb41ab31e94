"""Surface features: words, matches with the question, capitals, numbers, rarity, words that are lacking.

The embedding model is uncased and blurs names and numbers; these features give back what it loses. All are per token
of the embedding model (word pieces inherit from their word).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared_core.citation.facts.tokens import english_stem
from shared_core.reading.language import word_list
from shared_core.retrieval.minilm import LIGATURES
from shared_core.retrieval.tokenizer import DIVIDED
from shared_core.support.regex import lazy_regex

TOKEN_FEATURES = 21
QUESTION_FEATURES = 11
RARITY_BUCKETS = 1 << 16

_WORD = lazy_regex(rf"[^\W_]+(?:{DIVIDED}[^\W_]+)*(?:['’][^\W_]{{1,2}}\b)?")


STOP_WORDS = word_list("stop")
"""Words that name nothing: they are no content words."""
_WH, _NUMBER_WORDS, _DATE_WORDS = map(word_list, ("questions", "numbers", "dates"))

_LINK = lazy_regex(
    r"\b(?:of|who|whom|whose|which|that|where|and|or|than|same|both|also|either|between)\b|['’]s\b", re.IGNORECASE
)
_MOST_LINKS = 6
_NAME = 40  # characters of a name at most
_ASKS_DATE = lazy_regex(r"\b(when|(what|which|in what|in which) (year|date|day|month|decade|century|season))\b")
_ASKS_NUMBER = lazy_regex(
    r"\b(how (many|much|long|old|far|tall|high|large|big|fast|deep|wide|heavy|often)"
    r"|(what|which) (percent\w*|number|amount|age)"
    r"|what (is|was|are|were) the (number|percent\w*|population|amount|total))\b"
)
_ASKS_HOW = lazy_regex(r"\s*how(['’]s| (is|was|are|were|about|good|nice|did|does|do))\b", re.IGNORECASE)
# A number that belongs to a name ("ubuntu-24.04", "HX-60"); years ("mid-2024") and days ("Jan-24") tell when.
_NAMED_NUMBER = lazy_regex(
    r"(?<![\w-])(?!(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*-)[a-z]{2,}-(?![12]\d{3}\b)"
    r"\d+(?:\.\d+)*(?![\w-])",
    re.IGNORECASE,
)
_ASKS_NAME = lazy_regex(r"\b(who|whom|whose|where|(what|which) (city|country|state|person|company|place|team|river))\b")


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text, in order, as arrays: a passage's are made once and serve every question.

    Attributes:
        starts, ends: (w,) code points.
        exact, stem, prefix: (w,) codes of the lower-case word, its stem and its first five letters (0: shorter).
        static: (w, 10) what does not depend on the question: columns STOP … LENGTH.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    exact: NDArray[np.int64]
    stem: NDArray[np.int64]
    prefix: NDArray[np.int64]
    static: NDArray[np.float32]

    def __len__(self) -> int:
        """Number of words."""
        return len(self.starts)

    @property
    def stop(self) -> NDArray[np.bool_]:
        """(w,) whether a function word."""
        return self.static[:, STOP] > 0

    def within(self, start: int, end: int) -> NDArray[np.bool_]:
        """(w,) whether each begins within code points [start, end)."""
        return np.asarray((self.starts >= start) & (self.starts < end), dtype=np.bool_)

    def part(self, first: int, last: int) -> Words:
        """Return words ``first`` to ``last`` (not included)."""
        return Words(*(getattr(self, name)[first:last] for name in self.__slots__))

    @property
    def content(self) -> NDArray[np.int64]:
        """Codes of the stems of content words, sorted, without repetition."""
        return np.unique(self.stem[~self.stop])


STOP, CAPITAL, CAPITALS, NUMBER, YEAR, RARITY, NUMBER_WORD, DATE_WORD, WH, LENGTH = range(10)

_LIGATURES = str.maketrans(LIGATURES)
stem = english_stem
"""Of a lower-case word, as it is: unlike ``citation.facts.tokens.stem`` with its accents."""


def code(word: str) -> int:
    """A number for a word, the same in every process; never 0."""
    return zlib.crc32(word.encode("utf-8", "surrogatepass")) + 1


@lru_cache(maxsize=1 << 16)
def _known(word: str) -> tuple[int, int, int, tuple[float, ...]]:
    word = re.sub(DIVIDED, "", word)
    lower = re.sub(r"['’]s?$", "", word.translate(_LIGATURES).lower())
    static = (
        lower in STOP_WORDS,
        word[0].isupper(),
        len(word) > 1 and word.isupper(),
        any(c.isdigit() for c in word),
        len(lower) == 4 and lower.isdigit() and "1000" <= lower <= "2100",
        0.0,
        lower in _NUMBER_WORDS,
        lower in _DATE_WORDS,
        lower in _WH,
        min(len(lower), 20) / 10,
    )
    return code(lower), code(stem(lower)), code(lower[:5]) if len(lower) >= 5 else 0, tuple(map(float, static))


def words_of(text: str, rarities: NDArray[np.float32]) -> Words:
    """Split ``text`` into words; ``rarities`` (RARITY_BUCKETS,): inverse document frequency by bucket, over 10."""
    found = [(m.start(), m.end(), _known(m.group())) for m in _WORD.finditer(text)]
    if not found:
        none = np.zeros(0, dtype=np.int64)
        return Words(none, none, none, none, none, np.zeros((0, 10), np.float32))
    starts, ends, known = zip(*found)
    exact, stems, prefix, static = zip(*known)
    codes = np.array(stems, dtype=np.int64)
    table = np.array(static, dtype=np.float32)
    table[:, RARITY] = rarities[codes % RARITY_BUCKETS]
    return Words(
        np.array(starts, dtype=np.int64),
        np.array(ends, dtype=np.int64),
        np.array(exact, dtype=np.int64),
        codes,
        np.array(prefix, dtype=np.int64),
        table,
    )


def word_of_token(words: Words, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n,) index of the word each token lies in, -1 for tokens in none (punctuation)."""
    if not len(words):
        return np.full(len(starts), -1, dtype=np.int64)
    index = np.searchsorted(words.starts, starts, side="right") - 1
    inside = (index >= 0) & (starts < words.ends[np.maximum(index, 0)])
    return np.where(inside, index, -1)


def sentences_of_tokens(starts: NDArray[np.int64], sentences: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """(n,) number of the sentence each token starts in (the last one begun, for tokens between two)."""
    begins = np.array([s for s, _ in sentences] or [0], dtype=np.int64)
    return np.maximum(np.searchsorted(begins, starts, side="right") - 1, 0)


def content_of(words: Words) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """(u,) codes of the stems of content words without repetition, and (u,) their rarities."""
    keep = ~words.stop
    stems, first = np.unique(words.stem[keep], return_index=True)
    return stems, words.static[keep, RARITY][first]


def is_among(codes: NDArray[np.int64], pool: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(len(codes),) whether each is in ``pool``; faster than ``np.isin`` for the few there usually are."""
    if len(codes) * len(pool) > 100_000:
        return np.isin(codes, pool)
    return np.asarray((codes[:, None] == pool[None, :]).any(axis=1), dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class Tokens:
    """A window's (or a question's) tokens beside its words.

    Attributes:
        ids: (n,) word piece ids.
        word: (n,) index of each token's word, -1 for none.
        sentence: (n,) number of each token's sentence.
        first: (n,) the token begins its word.
    """

    ids: NDArray[np.int64]
    word: NDArray[np.int64]
    sentence: NDArray[np.int64]
    first: NDArray[np.bool_]

    @classmethod
    def of(
        cls, words: Words, ids: NDArray[np.int64], starts: NDArray[np.int64], sentences: Sequence[tuple[int, int]]
    ) -> Tokens:
        """Line tokens up with words and sentences."""
        word = word_of_token(words, starts)
        first = word >= 0
        first[first] = starts[first] == words.starts[word[first]]
        return cls(ids, word, sentences_of_tokens(starts, sentences), first)


@dataclass(frozen=True, slots=True)
class Surface:
    """The features of one question beside one window.

    Attributes:
        tokens: (n, TOKEN_FEATURES) of the window's tokens.
        question: (m, QUESTION_FEATURES) of the question's tokens.
        coverage: by sentence number, the share of the question's content words (weighed by rarity) found in it.
    """

    tokens: NDArray[np.float32]
    question: NDArray[np.float32]
    coverage: dict[int, float]


def surface(
    question: Words, question_tokens: Tokens, words: Words, tokens: Tokens, title: NDArray[np.int64]
) -> Surface:
    """Features of ``question`` beside one window of a passage.

    Args:
        question, question_tokens: the question.
        words: of the whole passage.
        tokens: of the window.
        title: codes of the title's content stems.
    """
    keep = ~question.stop
    stems, rarity = content_of(question)
    weights = rarity + 1e-6
    total = float(weights.sum())
    inside = tokens.word >= 0
    first = int(tokens.word[inside].min(initial=len(words)))
    at = tokens.word - first  # only the window's words are looked at: a passage may have many windows
    words = words.part(first, int(tokens.word.max(initial=-1)) + 1)
    content = ~words.stop
    hits = (words.stem[:, None] == stems[None, :]) & content[:, None]  # (w, u)
    matched = hits.any(axis=1)

    table = np.zeros((len(words), 15), dtype=np.float32)
    table[:, 0] = content & is_among(words.exact, question.exact[keep])
    table[:, 1] = matched
    table[:, 2] = ~content & is_among(words.exact, question.exact[~keep])
    table[:, 3] = words.static[:, RARITY]
    table[:, 4] = words.static[:, RARITY] * matched
    table[:, 5:15] = words.static
    table[:, 14] = content & is_among(words.stem, title)
    prefixes = question.prefix[keep & (question.prefix > 0)]
    table[:, 10] = content & is_among(words.prefix, prefixes)  # in place of rarity, which stands in column 3

    out = np.zeros((len(tokens.ids), TOKEN_FEATURES), dtype=np.float32)
    out[inside, :15] = table[at[inside]]
    out[:, 15] = tokens.first
    out[:, 16] = ~inside
    out[:, 17] = 1.0
    coverage: dict[int, float] = {}
    found = np.zeros(len(stems), dtype=bool)
    for number in np.unique(tokens.sentence):
        mask = tokens.sentence == number
        here = hits[at[mask & inside]].any(axis=0)
        found |= here
        coverage[int(number)] = float(weights[here].sum()) / total if total else 1.0
        out[mask, 18] = coverage[int(number)]
    in_title = is_among(stems, title)
    out[:, 19] = float(weights[found].sum()) / total if total else 1.0
    out[:, 20] = float(weights[found | in_title].sum()) / total if total else 1.0
    return Surface(out, _question_features(question, question_tokens, stems[found], title), coverage)


def _question_features(
    question: Words, tokens: Tokens, found: NDArray[np.int64], title: NDArray[np.int64]
) -> NDArray[np.float32]:
    keep = ~question.stop
    here = keep & is_among(question.stem, found)
    missing = keep & ~here
    named = (question.static[:, CAPITAL] > 0) & (np.arange(len(question)) > 0)
    number = question.static[:, NUMBER] > 0
    table = np.stack(
        [
            question.static[:, RARITY],
            ~keep,
            named,
            number,
            question.static[:, WH],
            here,
            keep & is_among(question.stem, title),
            missing * question.static[:, RARITY],
            missing & number,
            missing & named,
        ],
        axis=1,
    ).astype(np.float32)
    out = np.zeros((len(tokens.ids), QUESTION_FEATURES), dtype=np.float32)
    out[:, 0] = 1.0
    inside = tokens.word >= 0
    out[inside, 1:] = table[tokens.word[inside]]
    return out


def asked_kind(question: str) -> str | None:
    """Guess the kind of answer from the question's words: ``date``, ``number``, ``name``, or ``None``."""
    text = question.lower()
    if _ASKS_DATE.search(text):
        return "date"
    if _ASKS_NUMBER.search(text):
        return "number"
    return "name" if _ASKS_NAME.search(text) else None


def is_of_kind(kind: str | None, words: Words, text: str, start: int, end: int) -> float:
    """1 if the words within code points [start, end) hold one of that kind, 0 if not, 0.5 if no kind is asked for.

    Args:
        kind: as of ``asked_kind``.
        words: of ``text``.
    """
    if kind is None:
        return 0.5
    within = words.within(start, end)
    if kind == "date":
        for named in _NAMED_NUMBER.finditer(text, max(0, start - _NAME), end + _NAME):
            within &= ~words.within(*named.span())
    inside = words.static[within]
    columns = {"date": [NUMBER, DATE_WORD], "number": [NUMBER, NUMBER_WORD], "name": [CAPITAL]}[kind]
    return float(bool((inside[:, columns] > 0).any()))


def missing_words(seen: Surface) -> tuple[float, float, float]:
    """Question words that neither window nor title holds: how many numbers, how many names, the rarest one's rarity."""
    rows = seen.question[seen.question[:, 6] + seen.question[:, 7] == 0]
    if not len(rows):
        return 0.0, 0.0, 0.0
    return float(rows[:, 9].sum()), float(rows[:, 10].sum()), float(rows[:, 8].max())


class Shape(NamedTuple):
    """A question's form.

    Attributes:
        links: words that relate one thing to another ("the mother of the director of", "who", "'s", "or"), at most 6:
            questions that take several steps have more.
        asks_how: it asks how something is or is done.
    """

    words: int
    links: int
    asks_how: bool = False


def shape_of(question: str, words: Words) -> Shape:
    """The form of a question with these words."""
    return Shape(len(words), min(len(_LINK.findall(question)), _MOST_LINKS), bool(_ASKS_HOW.match(question)))


class Lacking(NamedTuple):
    """The rarest content word of a question that a passage and its title lack, as its rarity (0 to 1.2; 0 for none).

    Attributes:
        elsewhere: of the words that another passage read with it holds: it may be about something else.
        nowhere: of the words that none of them holds: said in other words, or not treated at all.
    """

    elsewhere: float
    nowhere: float


def lacking(question: Words, passages: Sequence[NDArray[np.int64]]) -> list[Lacking]:
    """Compute what each passage lacks; ``passages`` holds the stem codes of each, with its title's."""
    stems, rarity = content_of(question)
    held = np.array([is_among(stems, codes) for codes in passages])
    held = held.reshape(len(passages), len(stems))
    anywhere = held.any(axis=0)
    return [
        Lacking(float(rarity[~mine & anywhere].max(initial=0.0)), float(rarity[~anywhere].max(initial=0.0)))
        for mine in held
    ]
