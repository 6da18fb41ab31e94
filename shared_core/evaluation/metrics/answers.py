"""Right or wrong: short answers against gold answers. All scores are in [0, 1] (published tables: times 100)."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from shared_core.errors import InputError

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED_ANSWERS = ("yes", "no", "noanswer")
_POSSESSIVE = re.compile(r"(?<=[^\W\d_])['’]s\b", re.IGNORECASE)
_OPENING, _CLOSING = r"[\"'“‘«(\[]*", r"[\"'”’»)\]]*[.,;:!?]*"


def normalize_answer(text: str) -> str:
    """SQuAD's normal form: lower case, no ASCII punctuation, no a/an/the, single spaces.

    Source: SQuAD ``evaluate-v2.0.py`` (ALCE and HotpotQA use the same).
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(prediction: str | None, golds: str | Iterable[str]) -> float:
    """1 if the normalised prediction equals a normalised gold answer, else 0 (SQuAD 2.0).

    Args:
        prediction: the short answer; ``""`` or ``None`` is "no answer".
        golds: the accepted answers; none (or none with content) means that no answer is the right one.

    Raises:
        InputError: something else than text.
    """
    predicted = normalize_answer(_text(prediction))
    return float(any(predicted == normalize_answer(gold) for gold in _golds(golds)))


def f1(prediction: str | None, golds: str | Iterable[str]) -> float:
    """SQuAD's F1 in [0, 1]: word overlap of the normalised texts, the best over the gold answers.

    Where either side has no words, 1 if both have none, else 0. Arguments and errors as for ``exact_match``.
    """
    return max(_overlap(_text(prediction), gold)[0] for gold in _golds(golds))


def hotpot_f1(prediction: str | None, gold: str) -> tuple[float, float, float]:
    """HotpotQA's (F1, precision, recall), each in [0, 1]: 0 unless yes, no and noanswer match exactly."""
    predicted, wanted = normalize_answer(_text(prediction)), normalize_answer(_text(gold))
    if predicted != wanted and (predicted in _CLOSED_ANSWERS or wanted in _CLOSED_ANSWERS):
        return (0.0, 0.0, 0.0)
    return _overlap(predicted, wanted) if predicted and wanted else (0.0, 0.0, 0.0)


def contains_answer(text: str | None, golds: str | Iterable[str]) -> bool:
    """A gold answer stands in the text, as a run of whole normalised words.

    Unlike ``str_em`` "art" does not stand in "cart"; "Mozilla" does in "Mozilla's". A gold answer that the normal form
    leaves nothing of (``#``, ``A``) must stand by itself in the text as it is; empty ones are ignored.
    """
    said = _text(text)
    given = [golds] if isinstance(golds, str) else [_text(gold) for gold in golds]
    texts = [f" {normalize_answer(t)} " for t in (said, _POSSESSIVE.sub("", said))]
    plain = [f" {gold} " for gold in map(normalize_answer, given) if gold]
    return any(gold in t for t in texts for gold in plain) or any(_stands_bare(said, g) for g in bare_golds(given))


def bare_golds(golds: Iterable[str]) -> list[str]:
    """The gold answers that the normal form leaves nothing of, though they say something: symbols and articles."""
    return [gold for gold in golds if gold.strip() and not normalize_answer(gold)]


def is_bare_answer(text: str | None, gold: str) -> bool:
    """The text is that gold answer (of ``bare_golds``), but for quotation marks, brackets and a full stop around it."""
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
    """ALCE's string exact match in [0, 1]: the share of sub-questions with a short answer in the output.

    Normalised substrings, not words, and citations are not removed, as published; an empty short answer is found in
    every output.

    Source: ALCE ``eval.py`` ``compute_str_em``.

    Args:
        prediction: the long answer.
        golds: for each sub-question its short answers; a string or a list of strings is one sub-question.

    Returns:
        The share; 0 without sub-questions.
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


class StringMatch(NamedTuple):
    """``alce_string_match`` of a data set: mean ``str_em`` and the share of items where it is 1 (``str_hit``)."""

    str_em: float
    str_hit: float


def alce_string_match(data: Iterable[Mapping[str, Any]]) -> StringMatch:
    """str-em and str-hit over ALCE items ``{"output": …, "qa_pairs": [{"short_answers": […]}]}``.

    Items without ``qa_pairs`` are left out; (0, 0) if none has them. The published code returns (0, 0) for the whole
    data set as soon as its first item has none.
    """
    scores = [
        str_em(item["output"], [pair["short_answers"] for pair in item["qa_pairs"]])
        for item in data
        if item.get("qa_pairs")
    ]
    if not scores:
        return StringMatch(0.0, 0.0)
    return StringMatch(math.fsum(scores) / len(scores), sum(s == 1.0 for s in scores) / len(scores))


class ListAnswer(NamedTuple):
    """``list_answer_scores``: ``*_top5`` need five of the answers at most."""

    predictions: int
    precision: float
    recall: float
    recall_top5: float
    f1: float
    f1_top5: float


def list_answer_scores(prediction: str, answers: Sequence[Sequence[str]]) -> ListAnswer:
    """QAMPARI's scores of a comma-separated list against answers that each have several names (ALCE).

    InputError without answers (the published code divides by zero).
    """
    if not answers:
        raise InputError("A list question needs at least one answer.")
    parts = (normalize_answer(part) for part in _text(prediction).rstrip().rstrip(".").rstrip(",").split(","))
    given = [part for part in parts if part]
    names = [[normalize_answer(name) for name in answer] for answer in answers]
    every = {name for answer in names for name in answer}
    precision = sum(part in every for part in given) / len(given) if given else 0.0
    found = sum(any(name in given for name in answer) for answer in names)
    recall, recall5 = found / len(names), min(5, found) / min(5, len(names))
    return ListAnswer(
        len(given), precision, recall, recall5, _harmonic(precision, recall), _harmonic(precision, recall5)
    )


class SupportingFacts(NamedTuple):
    """``supporting_facts``: each in [0, 1]."""

    em: float
    f1: float
    precision: float
    recall: float


def supporting_facts(prediction: Iterable[Sequence[Any]], gold: Iterable[Sequence[Any]]) -> SupportingFacts:
    """HotpotQA's scores of predicted supporting facts (title, sentence number), compared as sets."""
    predicted, wanted = {tuple(f) for f in prediction}, {tuple(f) for f in gold}
    right = len(predicted & wanted)
    precision = right / len(predicted) if predicted else 0.0
    recall = right / len(wanted) if wanted else 0.0
    return SupportingFacts(float(predicted == wanted), _harmonic(precision, recall), precision, recall)


class NoAnswerThreshold(NamedTuple):
    """``best_no_answer_threshold``: answer where the no-answer probability is at most ``threshold``."""

    score: float
    threshold: float


def best_no_answer_threshold(
    scores: Sequence[float], has_answer: Sequence[bool], no_answer: Sequence[float]
) -> NoAnswerThreshold:
    """The threshold on the no-answer probability with the best mean score (SQuAD 2.0's ``find_best_thresh``).

    Args:
        scores: (N,) score of each question if it is answered, in [0, 1] (``exact_match`` or ``f1``); for a question
            without answer it counts only as whether the prediction is empty.
        has_answer: (N,) whether there is one.
        no_answer: (N,) probability (or any score) that there is none; NaN is never answered.

    Returns:
        The mean score at the lowest best threshold, and that threshold; -inf if it is best to answer nothing.
        Questions of equal probability are answered together; the published script splits such ties, and so
        may promise a score that its threshold cannot reach.

    Raises:
        InputError: different lengths, or no question.
    """
    if not len(scores) == len(has_answer) == len(no_answer) or not len(scores):
        raise InputError("scores, has_answer and no_answer must be of the same length, and not empty.")
    gains: dict[float, float] = {}
    for score, has, p in zip(scores, has_answer, no_answer):
        if not math.isnan(p):
            # Answering loses the point an unanswerable question gave, unless the prediction is empty.
            gains[p] = gains.get(p, 0.0) + (score if has else float(score) - 1.0)
    total = best = float(sum(not has for has in has_answer))
    threshold = -math.inf
    for p in sorted(gains):
        total += gains[p]
        if total > best + 1e-12:
            best, threshold = total, p
    return NoAnswerThreshold(best / len(scores), threshold)


def _overlap(prediction: str, gold: str) -> tuple[float, float, float]:
    predicted, wanted = normalize_answer(prediction).split(), normalize_answer(gold).split()
    if not predicted or not wanted:
        same = float(predicted == wanted)
        return (same, same, same)
    common = sum((Counter(predicted) & Counter(wanted)).values())
    precision, recall = common / len(predicted), common / len(wanted)
    return (_harmonic(precision, recall), precision, recall)


def _harmonic(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _golds(golds: str | Iterable[str]) -> list[str]:
    given = [golds] if isinstance(golds, str) else [_text(g) for g in golds]
    return [g for g in given if normalize_answer(g)] or [""]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"An answer must be text, not {value!r}.", hint="Give None for no answer.")
    return value
