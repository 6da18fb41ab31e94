"""Read the lists of words that texts are compared with, and detect English, the only language the reader can judge."""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Callable
from functools import lru_cache
from importlib import resources
from typing import Any

from shared_core.errors import MissingDependencyError
from shared_core.support.regex import lazy_regex

_LISTS = tomllib.loads(resources.files("shared_core.reading").joinpath("word_lists.toml").read_text("utf-8"))


def word_list(name: str) -> frozenset[str]:
    """Return the words of a list.

    >>> "january" in word_list("dates")
    True
    """
    return frozenset(_LISTS[name].split())


def phrase_groups(name: str) -> tuple[tuple[str, ...], ...]:
    """Return the groups of phrases of a list, a group a line.

    >>> ("shallowest", "-depth") in phrase_groups("extremes")
    True
    """
    return tuple(tuple(line.split(", ")) for line in _LISTS[name].strip().splitlines())


_ENGLISH = frozenset({"en", "pcm", "sco", "jam"})  # and languages so similar that English is mistaken for them
_OTHER_LANGUAGE = 0.12
"""Minimum probability of another language. Key words and names get less: "default port" .04, "gzip -6" .09, but
"Onde fica Lisboa?" .17 and "Wer war Mozart?" .31."""
_LATIN = 0.3
"""The same for Latin, of which technical English has many words: a row of a data sheet gets up to .21 ("Material:
Aluminium; Finish: matt"), but "Cogito ergo sum" .37 and longer sentences over .6."""
_WORD = lazy_regex(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_ABBREVIATED = 4  # letters, at most
_LABEL = lazy_regex(r"(?:\A|;[ \t\n]|\n)([^:;\n]{1,40}):(?=[ \t])")
_NAMED = lazy_regex(r"(?:\A[-*•]?[ \t]*|(?<=[.;,|][ \t]))([^\W\d_][\w'’/ -]{0,39}):[ \t]+")
"""The label of a name that begins a line, or stands behind another one: "Landlord: Harrow Estates Ltd. Tenant: …"."""
_SHORT = 8
"""Words up to which a few function words are better evidence than the classifier, which takes "It was 1911." for
Afrikaans (.25) and "Yes, it is." for Frisian (.29)."""
_ONLY_ENGLISH = word_list("only_english")
_SHARE = 1 / 3
_COMMON_WORDS = _ONLY_ENGLISH | word_list("english")
_COMMON_SHARE = 0.18
_OTHER_WORDS = word_list("other_languages")
"""Of stretches of 220 characters 0 of 1,190 in German and in Spanish have such a share and at most one of these words,
of English ones 93 to 99 %. The classifier, which takes a third of a second to load, is not needed for those."""
_OTHER_LABELS = word_list("other_labels")
_RARE_LABELS, _PARTICLES = word_list("rare_labels"), word_list("particles")
_lock = threading.Lock()  # the classifier keeps state between calls


@lru_cache(maxsize=4096)
def is_english(text: str, beside: str = "") -> bool:
    """Decide whether ``text`` may be English; true also for names, key words, numbers and code.

    A short text is English if a third of its words are function words that only English has, or most of its words are
    in an English one; a longer one if a fifth are function words of English and at most one is of another language.
    Otherwise py3langid (Lui & Baldwin, ACL 2012) classifies its first 1,000 characters.

    Args:
        beside: an English text that it is about.

    Raises:
        MissingDependencyError: py3langid is not installed.

    >>> is_english("Wo ist der Leuchtturm?"), is_english("It was 1911.")
    (False, True)
    """
    if not any(c.isalpha() for c in text):
        return True
    if _has_english_words(text[:1000]) or (beside and _is_worded_like(text[:1000], beside)):
        return True
    with _lock:
        language, probability = _identifier().classify(text[:1000].lower())
    return language in _ENGLISH or float(probability) < (_LATIN if language == "la" else _OTHER_LANGUAGE)


def has_english_labels(text: str, is_word: Callable[[str], object]) -> bool:
    """Decide whether ``text`` is a row of labelled cells whose labels are English.

    The values, names and numbers, are of no language, and would deceive the classifier. One word of the labels may be
    unknown, or half of them where together they do not look like another language: "Conc (mM)", "Abbr", "Qty". A few
    short ones in capitals are of no language: "WSJ 23 F1", "BLEU".

    Args:
        is_word: whether a word in small letters is an English one: not ``None``.

    >>> has_english_labels("Supplier: Elevantis; Contact: Olaf Brandt", {"supplier": 1, "contact": 2}.get)
    True
    >>> has_english_labels("It ends: now", {"it": 1, "ends": 2}.get)
    False
    """
    words = [word for label in _LABEL.findall(text) for word in _WORD.findall(label)]
    spelt = [word for word in words if not (word.isupper() and len(word) <= _ABBREVIATED)]
    labels = [word.lower() for word in (spelt if 2 * len(spelt) >= len(words) else words)]
    unknown = sum(is_word(word) is None for word in labels)
    if len(_LABEL.findall(text)) < 2 or 2 * unknown > len(labels):
        return False
    return unknown <= min(1, len(labels) // 3) or (_OTHER_LABELS.isdisjoint(labels) and is_english(" ".join(labels)))


def is_english_beside_names(text: str, is_word: Callable[[str], object]) -> bool:
    """Decide whether a text may be English, its names behind English labels left out.

    Those would deceive the classifier: a contract's header is of the language of its labels, not of the tenant's name.

    Args:
        is_word: whether a word in small letters is an English one: not ``None``.

    >>> english = {"tenant": 1}.get
    >>> is_english_beside_names("Tenant: Carlos Mendoza Ruiz.", english), is_english("Tenant: Carlos Mendoza Ruiz.")
    (True, False)
    >>> is_english_beside_names("Vermieter: Harrow Estates Ltd.", english)
    False
    """
    lines = text.splitlines()
    labels = (label.strip().lower() for line in lines for label in _NAMED.findall(line))
    if any(label in _OTHER_LABELS for label in labels) and not _has_english_words(text[:1000]):
        return False  # so little text that the classifier takes German for Latin
    if is_english(text):
        return True
    others = [line for line in lines if not _holds_names(line, is_word)]
    return len(others) < len(lines) and is_english("\n".join(others))


def _holds_names(line: str, is_word: Callable[[str], object]) -> bool:
    """Whether a line is nothing but English labels with names and numbers behind them, one with more than a word."""
    cells = list(_NAMED.finditer(line))
    if not cells or cells[0].start() > 0:
        return False
    words = {word.lower() for cell in cells for word in _WORD.findall(cell[1])}
    ends = [*(cell.start() for cell in cells[1:]), len(line)]
    values = [line[cell.end() : end].split() for cell, end in zip(cells, ends, strict=True)]
    return (
        words.isdisjoint(_OTHER_LABELS)
        and all(word in _RARE_LABELS or is_word(word) is not None for word in words)
        and all(v and all(_may_be_of_name(word) for word in v) for v in values)
        and max(map(len, values)) > 1
    )


def _may_be_of_name(word: str) -> bool:
    bare = word.strip("().,;|&-–\"'“”‘’")
    return not bare[:1].isalpha() or bare[0].isupper() or bare in _PARTICLES


def is_named_in_english(question: str, text: str) -> bool:
    """Decide whether a question has, besides function words of English, only words of a text, and at most one other.

    Its names would deceive the classifier.

    >>> is_named_in_english("Has Ada Moreno paid?", "customer: Ada Moreno; paid: true")
    True
    """
    words = {word.replace("’", "'").lower() for word in _WORD.findall(question)}
    named = words - _COMMON_WORDS
    held = named & {word.lower() for word in _WORD.findall(text)}
    return words.isdisjoint(_OTHER_WORDS) and len(named) - len(held) <= 1 and 2 * len(held) > len(named)


def _has_english_words(text: str) -> bool:
    words = [word.replace("’", "'").lower() for word in _WORD.findall(text)]
    only = sum(word in _ONLY_ENGLISH for word in words)
    if len(words) <= _SHORT:
        return len(words) > 0 and only >= _SHARE * len(words)
    share = sum(word in _COMMON_WORDS for word in words) / len(words)
    return only > 0 and share >= _COMMON_SHARE and sum(word in _OTHER_WORDS for word in words) < 2


def _is_worded_like(text: str, other: str) -> bool:
    words = [word.lower() for word in _WORD.findall(text)]
    held = {word.lower() for word in _WORD.findall(other)}
    return 0 < len(words) <= _SHORT and 2 * sum(word in held for word in words) > len(words)


@lru_cache(maxsize=1)
def _identifier() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise MissingDependencyError("py3langid", extra="offline", purpose="Language detection") from error
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
