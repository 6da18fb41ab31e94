"""Score short and long answers against known ones: exact match, F1, string match."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from shared_core.errors import InputError

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_POSSESSIVE = re.compile(r"(?<=[^\W\d_])['’]s\b", re.IGNORECASE)
_OPENING, _CLOSING = r"[\"'“‘«(\[]*", r"[\"'”’»)\]]*[.,;:!?]*"


def normalize_answer(text: str) -> str:
    """Normalise as SQuAD does: lower case, no ASCII punctuation, no a/an/the, single spaces.

    Source: SQuAD ``evaluate-v2.0.py`` (ALCE uses the same).
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(prediction: str | None, golds: str | Iterable[str]) -> float:
    """Return 1 if the normalised prediction equals a normalised gold answer, else 0 (SQuAD 2.0).

    Args:
        prediction: short answer; ``""`` or ``None`` means "no answer".
        golds: accepted answers; none (or only empty ones) means that "no answer" is right.

    Raises:
        InputError: an answer is not text.
    """
    predicted = normalize_answer(_text(prediction))
    return float(any(predicted == normalize_answer(gold) for gold in _golds(golds)))


def f1(prediction: str | None, golds: str | Iterable[str]) -> float:
    """Return SQuAD's F1: word overlap of the normalised texts, the best over the gold answers.

    If either side has no words, 1 if both have none, else 0. Arguments and errors as for ``exact_match``.
    """
    return max(_overlap(_text(prediction), gold) for gold in _golds(golds))


def contains_answer(text: str | None, golds: str | Iterable[str]) -> bool:
    """Return whether the text contains a gold answer as a run of whole normalised words.

    >>> contains_answer("It dates from 1911.", ["1911"]), contains_answer("a cart", ["art"])
    (True, False)

    "Mozilla's" contains "Mozilla". A gold answer of which normalisation leaves nothing (``#``, ``A``) must occur by
    itself, as written; empty ones are ignored.
    """
    said = _text(text)
    given = [golds] if isinstance(golds, str) else [_text(gold) for gold in golds]
    texts = [f" {normalize_answer(t)} " for t in (said, _POSSESSIVE.sub("", said))]
    plain = [f" {gold} " for gold in map(normalize_answer, given) if gold]
    return any(gold in t for t in texts for gold in plain) or any(_stands_bare(said, g) for g in bare_golds(given))


def bare_golds(golds: Iterable[str]) -> list[str]:
    """Return the gold answers of which normalisation leaves nothing: symbols and articles."""
    return [gold for gold in golds if gold.strip() and not normalize_answer(gold)]


def is_bare_answer(text: str | None, gold: str) -> bool:
    """Return whether the text is that gold answer, apart from quotation marks, brackets and a full stop around it."""
    return re.fullmatch(_bare(gold), " ".join(_text(text).split()), re.IGNORECASE) is not None


def _stands_bare(text: str, gold: str) -> bool:
    if is_bare_answer(text, gold):
        return True
    if gold.lower() == gold.upper():
        before = r"(?<!\S)"
    elif gold != gold.lower():
        before = r"(?<=[^.!?] )"  # an "A" that begins a sentence is an article
    else:
        return False
    return re.search(rf"{before}{_bare(gold)}(?!\S)", " ".join(text.split())) is not None


def _bare(gold: str) -> str:
    return f"{_OPENING}{re.escape(' '.join(gold.split()))}{_CLOSING}"


def str_em(prediction: str, golds: str | Sequence[str] | Sequence[Sequence[str]]) -> float:
    """Return ALCE's string exact match: the share of sub-questions with a short answer in the output.

    As published, normalised substrings are matched rather than words, citations are not removed, and an empty short
    answer matches every output.

    Source: ALCE ``eval.py`` ``compute_str_em``.

    Args:
        prediction: long answer.
        golds: short answers of each sub-question; a string or a list of strings is one sub-question.

    Returns:
        In [0, 1]; 0 without sub-questions.
    """
    output = normalize_answer(_text(prediction))
    found = [any(normalize_answer(_text(short)) in output for short in q) for q in _sub_questions(golds)]
    return sum(found) / len(found) if found else 0.0


def _sub_questions(golds: Any) -> list[list[str]]:
    if isinstance(golds, str):
        return [[golds]]
    golds = list(golds)
    if golds and all(isinstance(g, str) for g in golds):
        return [golds]
    return [[g] if isinstance(g, str) else list(g) for g in golds]


def _overlap(prediction: str, gold: str) -> float:
    predicted, wanted = normalize_answer(prediction).split(), normalize_answer(gold).split()
    if not predicted or not wanted:
        return float(predicted == wanted)
    common = sum((Counter(predicted) & Counter(wanted)).values())
    return 2 * common / (len(predicted) + len(wanted))


def _golds(golds: str | Iterable[str]) -> list[str]:
    given = [golds] if isinstance(golds, str) else [_text(g) for g in golds]
    return [g for g in given if normalize_answer(g)] or [""]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"An answer must be text, not {value!r}.", hint="Use None for no answer.")
    return value
