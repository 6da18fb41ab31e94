"""Split text of any script into words for lexical search.

Text is compatibility-normalised (NFKC) and case-folded; runs of letters, digits and combining marks are words. Stop
words of the chosen language are removed and the rest is stemmed (Snowball, through PyStemmer). Scripts without spaces
between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese; Korean for its particles) yield single characters and
overlapping pairs, which needs no dictionary and loses no word (as Lucene's CJKBigramFilter). Options of commands are
words besides, with their dashes and in their case: ``-s``, whose letter is a stop word, is not ``-S``.
"""

from __future__ import annotations

import re
import runpy
import sys
import threading
import tomllib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from shared_core.errors import InputError
from shared_core.support.options import find_options
from shared_core.support.pickling import Portable
from shared_core.support.regex import lazy_regex

_UNSPACED = (
    "\u0e00-\u0edf\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u1100-\u11ff\u3040-\u30ff\u31f0-\u31ff\uac00-\ud7af"  # Hangul, kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"  # Han
)
_ASCII_WORD = lazy_regex(r"[a-z\d]+")
_UNSPACED_RUN = lazy_regex(f"([{_UNSPACED}]+)")
_THOUSANDS = lazy_regex(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_INITIALISM = lazy_regex(r"(?<![\w.])(?:[^\W\d_]\.){2,}")
DIVIDED = "[\u00ad\ufffe]\n?"
"""A soft hyphen, or PDFium's mark of a word that is divided at the end of a line, which other readers of PDFs keep."""
_DIVIDED = lazy_regex(DIVIDED)
_APOSTROPHES = lazy_regex(r"[’‘ʼ＇]")
_POSSESSIVE = lazy_regex(r"'s?\b|'s?$")
_STOP_LISTS = {
    "english": "STOPWORDS_EN_PLUS", "german": "STOPWORDS_GERMAN", "dutch": "STOPWORDS_DUTCH",
    "french": "STOPWORDS_FRENCH", "spanish": "STOPWORDS_SPANISH", "portuguese": "STOPWORDS_PORTUGUESE",
    "italian": "STOPWORDS_ITALIAN", "russian": "STOPWORDS_RUSSIAN", "swedish": "STOPWORDS_SWEDISH",
    "norwegian": "STOPWORDS_NORWEGIAN", "turkish": "STOPWORDS_TURKISH", "danish": "STOPWORDS_DANISH",
}  # fmt: skip


@lru_cache(maxsize=1)
def _word_pattern() -> re.Pattern[str]:
    """Match letters and digits with their marks; ``\\w`` alone would cut Hindi words at their vowel signs."""
    marks: list[str] = []
    start: int | None = None
    for code in range(0x300, 0x20000):
        if unicodedata.category(chr(code)) in {"Mn", "Mc"}:
            start = code if start is None else start
        elif start is not None:
            marks.append(f"{chr(start)}-{chr(code - 1)}")
            start = None
    return re.compile(rf"[^\W_](?:[^\W_]|[{''.join(marks)}\u200c\u200d])*")


def _fold(word: str) -> str:
    """Remove accents (é → e), so that a query typed without them finds the word."""
    if word.isascii():
        return word
    parts = unicodedata.normalize("NFKD", word)
    return unicodedata.normalize("NFC", "".join(c for c in parts if not "\u0300" <= c <= "\u036f"))


class Tokenizer(Portable):
    """A function from text to the words that lexical search compares.

    >>> Tokenizer()("The ferries sailed at 9 o'clock.")
    ['ferri', 'sail', '9', 'clock']
    >>> Tokenizer()("tar -C or --no-recursion")
    ['tar', 'c', 'recurs', '-C', '--no-recursion']

    Args:
        language: a Snowball language (``english``, ``german``, …; see ``Tokenizer.languages()``), or ``none`` for no
            stemming and no stop words.

    Raises:
        InputError: unknown language.
    """

    def __init__(self, language: str = "english") -> None:
        if language != "none" and language not in self.languages():
            raise InputError(
                f"There is no stemmer for {language!r}.", hint=f"Known: none, {', '.join(self.languages())}."
            )
        self.language = language
        self._stop_words = _stop_words(language)
        # PyStemmer's objects are not thread-safe.
        self._local = threading.local()

    @staticmethod
    def languages() -> tuple[str, ...]:
        """List the languages that have a stemmer."""
        import Stemmer

        return tuple(Stemmer.algorithms())

    def __call__(self, text: str) -> list[str]:
        """Split text into words, in order, with repetitions; options of commands come last."""
        text = unicodedata.normalize("NFKC", _APOSTROPHES.sub("'", _DIVIDED.sub("", text)))
        options = find_options(text)
        text = text.casefold()
        text = _THOUSANDS.sub(lambda m: m[0].replace(",", ""), text)
        text = _INITIALISM.sub(lambda m: m[0].replace(".", "") + " ", text)
        if self.language == "english":
            text = _POSSESSIVE.sub(" ", text)
        out: list[str] = []
        pending: list[str] = []
        stem = self._stemmer()
        words = _ASCII_WORD if text.isascii() else _word_pattern()  # which takes 50 ms to make
        for word in words.findall(text):
            for i, part in enumerate([word] if word.isascii() else _UNSPACED_RUN.split(word)):
                if i % 2:  # a run without spaces
                    out.extend(stem(pending))
                    pending = []
                    out.extend([*part, *map("".join, pairwise(part))])
                else:
                    pending.append(part)
        out.extend(stem(pending))
        out.extend(map(sys.intern, options))
        return out

    def _stemmer(self) -> Callable[[list[str]], list[str]]:
        stemmer: Any = getattr(self._local, "stemmer", None)
        if stemmer is None and self.language != "none":
            import Stemmer

            stemmer = self._local.stemmer = Stemmer.Stemmer(self.language)
        # English has accents in loanwords only, and its stemmer does not expect them; other stemmers need them.
        fold_first = self.language == "english"

        def run(words: list[str]) -> list[str]:
            if fold_first:
                words = [_fold(w) for w in words]
            words = [w for w in words if w not in self._stop_words and _fold(w) not in self._stop_words]
            if stemmer is not None:
                words = stemmer.stemWords(words)
            return [sys.intern(_fold(w)) for w in words if w]

        return run


_MONTH_STEMS = (
    "januari", "februari", "march", "april", "may", "june", "juli", "august", "septemb", "octob", "novemb", "decemb",
)  # fmt: skip
_MONTHS = {
    form: (number, other)
    for number, stem in enumerate(_MONTH_STEMS, 1)
    for form, other in ((stem[:3], stem), (stem, stem[:3]))
}
_WEEKDAYS = {f"{day}day": day[:3] for day in ("mon", "tues", "wednes", "thurs", "fri", "satur", "sun")}


def other_forms(words: Sequence[str]) -> list[str]:
    """Return other forms in which tables write the days of a query, given as ``Tokenizer`` returns it for English.

    >>> other_forms(Tokenizer()("Who plays on 9 February?")), other_forms(Tokenizer()("open on Saturdays"))
    (['feb', '02', '09'], ['sat'])
    >>> other_forms(Tokenizer()("Who may march?"))
    []
    """
    found: list[str] = []
    for i, word in enumerate(words):
        if word in _WEEKDAYS:
            found.append(_WEEKDAYS[word])
        if word not in _MONTHS:
            continue
        number, other = _MONTHS[word]
        beside = [w for w in (*words[max(0, i - 1) : i], *words[i + 1 : i + 2]) if w.isdecimal()]
        if beside or len(word) > 5:  # "may", "march" without a day are verbs
            days = [f"{int(day):02}" for day in beside if len(day) < 3]
            found += [other, f"{number:02}", *days] if days else [other]
    return [word for word in dict.fromkeys(found) if word not in words]


@lru_cache(maxsize=4)
def _stop_words(language: str) -> frozenset[str]:
    name = _STOP_LISTS.get(language)
    if name is None:
        return frozenset()
    # A list in a file of its own; to import the package would load scipy, which takes longer than to answer a question.
    spec = find_spec("bm25s")
    words = runpy.run_path(str(Path(spec.origin or "").with_name("stopwords.py")))[name] if spec else ()
    return frozenset(_fold(w.casefold()) for w in (*(w.replace("'", "") for w in words), *words))


_LISTS = tomllib.loads(resources.files("shared_core.retrieval").joinpath("other_names.toml").read_text("utf-8"))


def _names_of(lines: str) -> dict[str, tuple[str, ...]]:
    """Map each name of a list to the others of its lines."""
    found: dict[str, tuple[str, ...]] = {}
    for line in lines.strip().splitlines():
        asked, _, held = line.partition(" > ")
        names = tuple(asked.split(", "))
        for name in names:
            others = held.split(", ") if held else names
            found[name] = tuple(dict.fromkeys((*found.get(name, ()), *(other for other in others if other != name))))
    return found


ALIKE: Mapping[str, tuple[str, ...]] = _names_of(_LISTS["alike"])
"""For each name in small letters other names of the same thing, by which it may be read; "*" is up to three words."""
_NEAR = _names_of(_LISTS["near"])


def _pattern_of(name: str) -> re.Pattern[str]:
    """Match a name with each of its words in a regular form."""
    words = [r"(?:[\w'-]+ ){0,3}" if word == "*" else rf"{re.escape(word)}{_ENDING} " for word in name.split()]
    return lazy_regex(rf"{''.join(words).removesuffix(' ')}(?![\w-])")


_ENDING = "(?:e?s|e?d|ing)?"
_WORD = lazy_regex(r"(?<![\w'-])[\w'&-]+")
_SOUGHT = _names_of(f"{_LISTS['alike'].strip()}\n{_LISTS['near'].strip()}")
_BEGUN: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
"""For each first word of names all that begin so, the longest first."""
for _name in sorted(_SOUGHT, key=len, reverse=True):
    _BEGUN.setdefault(_name.split()[0], []).append((_name, _pattern_of(_name)))


def other_names(query: str) -> list[str]:
    """Return other names of what a query in English names, which the documents may have.

    >>> other_names("Is a flat tyre covered?"), other_names("Can I give the backpack back?")
    (['flat tire', 'puncture'], ['return', 'returned', 'rucksack'])
    """
    text = query.casefold().replace("’", "'")
    found: dict[str, None] = {}
    end = 0
    for word in _WORD.finditer(text):
        begun = (one for first in _forms(word[0]) for one in _BEGUN.get(first, ()))
        matched = ((name, pattern.match(text, word.start())) for name, pattern in begun)
        name, match = next(((name, match) for name, match in matched if match), ("", None))
        if match is None or word.start() < end:
            continue
        found |= dict.fromkeys(other.replace(" *", "") for other in _SOUGHT[name])
        if "*" not in name:
            end = match.end()  # of "flat tyre" nothing else is named
    return list(found)


def _forms(word: str) -> list[str]:
    """Return a word, and what it may be a regular form of: "fixed", "fix" and "fixe"."""
    return [word, *(word.removesuffix(ending) for ending in ("s", "es", "d", "ed", "ing") if word.endswith(ending))]
