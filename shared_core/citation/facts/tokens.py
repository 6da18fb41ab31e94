"""Words of a text with what comparing facts needs of them: their stem, their case, their place in the sentence."""

from __future__ import annotations

import re
import threading
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import groupby

from shared_core.citation.headings import mark_end
from shared_core.citation.sentences import split_sentences
from shared_core.support.files import read_lists
from shared_core.support.regex import lazy_regex

_WORD = lazy_regex(
    r"(?:[^\W\d_]\.){2,}"  # initials: U.S., J.R.R.
    r"|\d{1,3}(?: \d{3})+(?!\d)|\d+(?:[.,'’\u00a0\u202f]\d+)*"  # numbers with their separators
    r"|[^\W\d_](?:[^\W_]|[\u0300-\u036f]|['’](?=[^\W\d_]))*"  # words, with letters behind an apostrophe
)
_ELIDED = lazy_regex(r"^(?:l|d|dell|nell|dall|all|qu|j|s|n|m|t|c)['’](?=[^\W\d_]{2})", re.IGNORECASE)
_POSSESSIVE = lazy_regex(r"['’]s?$")
_FUNCTION, _NEGATIONS, _COUNTS = (
    frozenset(words.split()) for words in read_lists("shared_core.citation.facts", "tokens.txt").values()
)


BE = ("is", "are", "was", "were", "be", "been", "being")


Found = tuple[str, str] | None
"""Words of the claim that a rule finds, and those that the evidence has instead (empty: none); ``None`` if it fits."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word or number of a sentence.

    Attributes:
        text: as written, without a possessive ending.
        key: folded (case, accents) and stemmed, to compare.
        start, end: place in the sentence, in code points.
        first: begins the sentence (or what follows a colon or an opening quotation mark).
    """

    text: str
    key: str
    start: int
    end: int
    first: bool

    @property
    def is_number(self) -> bool:
        """Begins with a digit."""
        return self.text[:1].isdigit()

    @property
    def is_function_word(self) -> bool:
        """Carries no content by itself (articles, prepositions, auxiliaries, pronouns)."""
        return _kind_of(self.text)[1]

    @property
    def is_content(self) -> bool:
        """A word with content: no number, no function word, no negation, more than one letter."""
        return _kind_of(self.text)[0]

    @property
    def is_negation(self) -> bool:
        """Negates: "not", "n't", "never", and their like in other languages."""
        return _kind_of(self.text)[2]

    @property
    def is_capitalised(self) -> bool:
        """Begins with a capital letter, or mixes letters with digits or capitals (``iPhone``, ``B52``)."""
        return self.text[:1].isupper() or (self.text[:1].isalpha() and any(c.isupper() for c in self.text))

    @property
    def can_name(self) -> bool:
        """A capitalised word with content."""
        return self.is_capitalised and self.is_content

    @property
    def is_telling(self) -> bool:
        """A word with content or a number."""
        return self.is_content or self.is_number


@lru_cache(maxsize=65536)
def _kind_of(text: str) -> tuple[bool, bool, bool]:
    """Whether a word has content, is a function word, negates: asked of each pair of words, so remembered."""
    folded = fold(text)
    function = folded in _FUNCTION and not (len(text) > 1 and text.isupper())
    plain = folded.replace("’", "'")
    negation = plain in _NEGATIONS or plain.endswith("n't")
    counts = text[:1].isdigit() or folded in _COUNTS
    return not (counts or len(text) <= 1 or function or negation), function, negation


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and its tokens.

    Attributes:
        start: code points before it in the text that it was cut from.
    """

    text: str
    tokens: tuple[Token, ...]
    start: int = field(default=0, compare=False)

    @property
    def keys(self) -> frozenset[str]:
        """Keys of all tokens."""
        return frozenset(t.key for t in self.tokens)

    @property
    def is_negated(self) -> bool:
        """Whether any of its words negates."""
        return any(t.is_negation for t in self.tokens)

    def beside(self, token: Token, step: int = 1) -> Token | None:
        """The token so many steps behind one of its own, or before it; ``None`` past either end."""
        at = self.tokens.index(token) + step
        return self.tokens[at] if 0 <= at < len(self.tokens) else None

    def content_behind(self, at: int) -> Token | None:
        """Return the first word with content from a place on."""
        return next((t for t in self.tokens if t.start >= at and t.is_content), None)


def content_keys(tokens: Iterable[Token]) -> set[str]:
    """Keys of the words with content."""
    return {t.key for t in tokens if t.is_content}


def telling_keys(tokens: Iterable[Token]) -> set[str]:
    """Keys of the words with content and of the numbers."""
    return {t.key for t in tokens if t.is_telling}


@lru_cache(maxsize=8192)
def telling_keys_of(text: str) -> frozenset[str]:
    """Keys of the words with content and of the numbers of one sentence or cell."""
    return frozenset(telling_keys(tokens_of(text)))


def with_word_before(tokens: Sequence[Token]) -> Iterable[tuple[str, Token]]:
    """Each token behind the folded word before it; an empty one before the first."""
    return zip(("", *(fold(t.text) for t in tokens)), tokens, strict=False)


@lru_cache(maxsize=8192)
def fold(word: str) -> str:
    """Case-folded, without accents, in compatibility form."""
    if word.isascii():
        return word.lower()
    parts = unicodedata.normalize("NFKD", word.casefold())
    return "".join(c for c in parts if not "\u0300" <= c <= "\u036f")


def as_matched(word: str) -> str:
    """A word as a pattern without regard to case has it: to ``re`` the "ſ" of old prints is "s", and "ı" is "i".

    >>> as_matched("Thurſday")
    'thursday'
    """
    return fold(word).replace("ı", "i")


_local = threading.local()


def english_stem(word: str) -> str:
    """The English stem (Snowball) of a lower-case word; words of other languages mostly stay as they are."""
    stemmer = getattr(_local, "stemmer", None)
    if stemmer is None:  # a stemmer keeps state, and may not be shared between threads
        import Stemmer

        stemmer = _local.stemmer = Stemmer.Stemmer("english")
    return str(stemmer.stemWord(word))


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Folded, without a possessive ending or dots, and stemmed."""
    folded = fold(word).replace("’", "'").replace(".", "")
    return english_stem(_POSSESSIVE.sub("", folded))


def tokens_of(sentence: str) -> tuple[Token, ...]:
    """Tokens of one sentence, in order."""
    found: list[Token] = []
    end_before = 0
    for match in _WORD.finditer(sentence):
        text, start = match.group(), match.start()
        if elided := _ELIDED.match(text):
            text, start = text[elided.end() :], start + elided.end()
        text = _POSSESSIVE.sub("", text) if len(text) > 2 else text
        between = sentence[end_before : match.start()]
        first = not found or any(c in between for c in ':"“«„')
        found.append(Token(text, stem(text), start, match.end(), first))
        end_before = match.end()
    return tuple(found)


@lru_cache(maxsize=256)
def sentences_of(text: str) -> tuple[Sentence, ...]:
    """Sentences of a text with their tokens; those without any token are left out.

    The numbers of headings and list items are blanks in them: "8. Rule changes" counts nothing.
    """
    cut = ((_without_mark(text[a:b]), a) for a, b in split_sentences(text))
    return tuple(Sentence(s, tokens, a) for s, a in cut if (tokens := tokens_of(s)))


def keys_of(text: str) -> frozenset[str]:
    """Keys of all words and numbers of a text."""
    return frozenset(t.key for t in all_tokens(sentences_of(text)))


def _without_mark(sentence: str) -> str:
    end = mark_end(sentence)
    return " " * end + sentence[end:] if end and not _DATE.match(sentence) else sentence


_DATE = lazy_regex(r"\d{1,2}\. [^\W\d_]+\.? \d{4}|\d{1,2}\.\d{1,2}\.\d{2}")  # "3. Mai 1887" is no item


def statements_of(text: str) -> tuple[Sentence, ...]:
    """Sentences of a text, two statements cut at the semicolon between them; fields of a table stay together."""
    found: list[Sentence] = []
    for sentence in sentences_of(text):
        parts = (
            [] if re.search(r": |\(", sentence.text) else [Sentence(p, tokens_of(p)) for p in sentence.text.split("; ")]
        )
        # "Some have a heater; this one has none": what there is none of stands in the other part
        whole = len(parts) > 1 and all(len(p.tokens) >= _STATEMENT and not p.tokens[-1].is_negation for p in parts)
        found += parts if whole else [sentence]
    return tuple(found)


_STATEMENT = 4  # words


def all_tokens(sentences: Sequence[Sentence]) -> list[Token]:
    """Tokens of all sentences, in order."""
    return [t for s in sentences for t in s.tokens]


def capitalises_nouns(sentences: Sequence[Sentence]) -> bool:
    """Whether the text capitalises common nouns, as German does: then a capital letter tells no name.

    Judged by nouns behind determiners, lower-case or first: "der Turm", "eine Brücke" against "the tower", "la torre".
    """
    behind = [
        (a, b)
        for s in sentences
        for a, b in zip(s.tokens, s.tokens[1:], strict=False)
        if (fold(a.text) if a.first else a.text) in _DETERMINERS and b.is_content
    ]
    others = any(t.text in _NOT_GERMAN for s in sentences for t in s.tokens)
    return bool(behind) and not others and sum(b.is_capitalised for _, b in behind) > 0.6 * len(behind)


_NOT_GERMAN = frozenset("the of and was is by les des et est el los una y het een van".split())
_DETERMINERS = frozenset("der die das den dem des ein eine einen einem einer eines".split())


def fields_of(text: str) -> list[tuple[str, str]]:
    """Labels and values of a row of a table, as texts have them.

    >>> fields_of("Region: South; Sales: 95")
    [('Region', 'South'), ('Sales', '95')]
    """
    return _FIELD.findall(text)


_FIELD = lazy_regex(r"(?:^|[;|\n])[ \t]*([^;:|\n]{1,40}): ([^;|\n]*)")


def align(one: Sequence[str], other: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    """Align two sequences of words: (tag, start and end in ``one``, in ``other``), as ``difflib`` has them.

    Nothing is aligned, so nothing found to differ, where the work (a product of the lengths) would be out of bounds.
    """
    if len(one) * len(other) > _ALIGNED_AT_MOST:
        return []
    return SequenceMatcher(None, one, other, autojunk=False).get_opcodes()


_ALIGNED_AT_MOST = 1_000_000


def cut_tokens(sentence: Sentence, at: re.Pattern[str]) -> list[tuple[Token, ...]]:
    """Tokens of a sentence, cut where a pattern begins."""
    cuts = [m.start() for m in at.finditer(sentence.text)]
    return [tuple(part) for _, part in groupby(sentence.tokens, key=lambda t: bisect_right(cuts, t.start))]


def clauses_of(sentence: Sentence) -> list[tuple[Token, ...]]:
    """Tokens of a sentence, cut at commas, semicolons and the conjunctions that join clauses."""
    return cut_tokens(sentence, _CLAUSE)


_CLAUSE = lazy_regex(r"[,;:](?!\d)|\b(?:and|but|while|whereas|although|though)\b")
