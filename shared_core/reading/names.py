"""Compare the names in a question with those in passages: names that none has, and documents of another bearer.

Common words are often paraphrased; a product, a town or a party hardly ever is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import PurePath

from shared_core.reading.features import STOP_WORDS
from shared_core.reading.language import word_list
from shared_core.reading.places import above, source_of
from shared_core.reading.values import values_of
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

_WORD = lazy_regex(r"[^\W\d_]{3,}")
_CAPITALISED = lazy_regex(r"(?<=[a-z,] )(?![A-Z]+s?\b)(?:[a-z]?[A-Z][^\W\d_]*[a-z][^\W\d_]*)(?:-[^\W\d_]+)*")
_NO_NAMES = word_list("no_names")
_SAME = 5  # letters at the beginning that make two words alike: "Belgian", "Belgium"
_ALIKE = 0.8  # similarity of a name and its misspelling
_TITLE_CASE = 0.6  # share of capitalised words in a question that is written as a title


def absent_names(question: str, texts: Sequence[str]) -> list[str]:
    """Return the names in a question that none of the texts has, in no form or spelling close to it.

    Abbreviations are left out, which texts often spell out, and so is a question in capitals throughout. So should
    texts be without title and source: a review seldom names what it reviews.

    >>> absent_names("Which iPhone app shows the Belgian prices?", ["The app for Android has prices in Belgium."])
    ['iPhone']
    """
    words = question.split()
    if sum(word[:1].isupper() for word in words) > _TITLE_CASE * len(words):
        return []
    dates = " ".join(value.text for value in values_of(question))  # compared as such
    names = [name for name in _CAPITALISED.findall(question) if name.casefold() not in _NO_NAMES and name not in dates]
    if not names:
        return []
    known = {word for text in texts for word in _WORD.findall(text.casefold())}
    begin = {word[:_SAME] for word in known}

    def is_absent(part: str) -> bool:
        alike = [word for word in known if word[0] == part[0]]
        return part[:_SAME] not in begin and not get_close_matches(part, alike, 1, _ALIKE)

    return [name for name in names if any(map(is_absent, _WORD.findall(name.casefold())))]


def find_others(question: str, passages: Sequence[Passage]) -> set[int]:
    """Return the numbers of the passages that are in the document of another bearer than the question names.

    Of documents side by side in one folder (``belmont.pdf``, ``brookfield.pdf``), each may treat the same of another
    town, product or party: one with another name in its file's name, which nowhere in the passage has the name asked
    for.

    >>> towns = [Passage(f"{t}.pdf#0", f"The fee in {t} is $5.", t, {"source": f"{t}.pdf"}) for t in ("Arle", "Sund")]
    >>> find_others("What is the fee in Arle?", towns)
    {1}
    """
    places = [PurePath(source_of(p)) for p in passages]
    labels = [frozenset(_WORD.findall(place.stem.casefold())) - _NO_NAMES - STOP_WORDS for place in places]
    asked = frozenset(_WORD.findall(question.casefold()))
    every = frozenset().union(*labels)
    if asked.isdisjoint(every):
        return set()
    texts = "\n".join(p.text for p in passages)
    known = {word.casefold() for word in _CAPITALISED.findall(question)}
    for passage, place in zip(passages, places):
        known |= {*_WORD.findall(passage.title.rpartition(": ")[0].casefold())}
        known |= {place.stem.casefold()} & {*_WORD.findall(passage.title.casefold())}
    names = {word for word in every if _is_name(word, texts, word in known)}
    found = set()
    for i, passage in enumerate(passages):
        told = frozenset(_WORD.findall(f"{above(passage)}\n{places[i]}\n{passage.text}".casefold()))
        for name in names & asked - told:
            bearers = [label for label, at in zip(labels, places) if name in label and _are_siblings(at, places[i])]
            if bearers and names & labels[i] - asked - frozenset().union(*bearers):
                found.add(i)
    return found


def _are_siblings(one: PurePath, other: PurePath) -> bool:
    """Return whether two files are of one folder and one format."""
    return one.suffix != "" and one.suffix == other.suffix and one.parent == other.parent


def _is_name(word: str, texts: str, known: bool) -> bool:
    """Return whether texts have a word always with a capital, and within a sentence if it is not known for a name."""
    found = re.findall(rf"(?:([a-z,] )|(?<![^\W\d_]))({word})(?![^\W\d_])", texts, re.IGNORECASE)
    return not any(same.islower() for _, same in found) and (known or any(inside for inside, _ in found))
