"""Score short and long answers against known ones: exact match, F1, string match, ROUGE-Lsum."""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from shared_core.citation.sentences import SentenceSplitter, split_sentences
from shared_core.errors import InputError, MissingDependencyError
from shared_core.support.regex import lazy_regex

_ARTICLES = lazy_regex(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_POSSESSIVE = lazy_regex(r"(?<=[^\W\d_])['’]s\b", re.IGNORECASE)
_ELIDED = lazy_regex(r"(?<=[^\W\d_])['’](?=[^\W\d_]{3})")  # l'école, dell'Aquila
_NO_BLANKS = lazy_regex(  # Thai, Lao, Burmese, Khmer, Japanese, Chinese; Korean particles follow without a blank
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\U00020000-\U0003ffff]"
)
_TYPOGRAPHY = str.maketrans(
    dict.fromkeys("‘’‚‛′", "'")
    | dict.fromkeys("“”„‟«»‹›″「」『』《》〈〉【】（）", '"')
    | dict.fromkeys("‐‑‒–−", "-")
    | dict.fromkeys("—―、。，；：！？…·", " ")
    | dict.fromkeys("¿¡؟،؛।\u00ad\u200b\ufeff", "")
)
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

    "Mozilla's" contains "Mozilla", and "dell'Aquila" "Aquila". Typographic marks count as their ASCII forms; in scripts
    without blanks every character is a word. A gold answer of which normalisation leaves nothing (``#``, ``A``) must
    occur by itself, as written; empty ones are ignored.
    """
    said = _text(text)
    given = [golds] if isinstance(golds, str) else [_text(gold) for gold in golds]
    for form in (str, _plain):
        text = form(said)
        texts = [f" {normalize_answer(t)} " for t in (text, _POSSESSIVE.sub("", text), _ELIDED.sub(" ", text))]
        golds = [f" {gold} " for gold in (normalize_answer(form(g)) for g in given) if gold]
        if any(gold in t for t in texts for gold in golds):
            return True
    return any(_stands_bare(said, gold) for gold in bare_golds(given))


def _plain(text: str) -> str:
    """Write text in composed letters and ASCII marks, with blanks around characters of scripts that have none."""
    return _NO_BLANKS.sub(r" \g<0> ", unicodedata.normalize("NFC", text).casefold().translate(_TYPOGRAPHY))


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
    """Return ALCE's string exact match: the share of sub-questions with a short answer in the output, 0 without any.

    As published, normalised substrings are matched rather than words, citations are not removed, and an empty short
    answer matches every output. Source: ALCE ``eval.py`` ``compute_str_em``.

    Args:
        golds: short answers of each sub-question; a string or a list of strings is one sub-question.
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
    """Result of ``alce_string_match``: mean ``str_em``, and the share of items where it is 1 (``str_hit``).

    >>> alce_string_match([{"output": "Paris, 1911", "qa_pairs": [{"short_answers": ["Paris"]}]}])
    StringMatch(str_em=1.0, str_hit=1.0)
    """

    str_em: float
    str_hit: float


def alce_string_match(data: Iterable[Mapping[str, Any]]) -> StringMatch:
    """Return str-em and str-hit over ALCE items ``{"output": …, "qa_pairs": [{"short_answers": […]}]}``.

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


def rouge_lsum(
    prediction: str,
    references: str | Iterable[str],
    *,
    stemmer: bool = True,
    splitter: SentenceSplitter = split_sentences,
) -> float:
    """Return ROUGE-Lsum F1 in [0, 1], the best over the references (package rouge-score).

    As in ALCE: lower case, one sentence a line, Porter stemmer. Average over answers for a data set (ALCE prints the
    median of bootstrap samples of that average instead).

    Args:
        references: one or more texts.

    Raises:
        InputError: no reference.
        MissingDependencyError: rouge-score is not installed.
    """
    texts = [references] if isinstance(references, str) else list(references)
    if not texts:
        raise InputError("ROUGE needs at least one reference text.")
    scorer, predicted = _scorer(stemmer), _lines(prediction, splitter)
    return max(float(scorer.score(_lines(t, splitter), predicted)["rougeLsum"].fmeasure) for t in texts)


def _lines(text: str, splitter: SentenceSplitter) -> str:
    return "\n".join(text[a:b].lower() for a, b in splitter(text))  # capitals help to find sentences: split first


@lru_cache(maxsize=2)
def _scorer(stemmer: bool) -> Any:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise MissingDependencyError("rouge-score", extra="eval", purpose="ROUGE-Lsum") from error
    return RougeScorer(["rougeLsum"], use_stemmer=stemmer)
