"""Estimators over text alone: lexical agreement of the samples, and what the model says about itself.

And SeaKR's last step: read the answer off a rationale, and choose between two answers by their uncertainty.

Higher = more uncertain; +inf = unknown.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from shared_core.abstention.refusals import is_refusal
from shared_core.citation import ends_sentence, split_sentences
from shared_core.errors import InputError
from shared_core.support.regex import lazy_regex
from shared_core.uncertainty.arrays import Float64, nothing_agrees

_WORD = lazy_regex(r"[^\W_]+")
_ASCII_WORD = lazy_regex(r"[a-z0-9]+")
_NUMBER = r"(?<![\w.,])(-?\d+(?:\.\d+)?)(?![\w,]*\d)"
_LABELLED = lazy_regex(r"\b(?:confidence|certainty|probability)\b[^\d\n-]{0,24}" + _NUMBER, re.IGNORECASE)
_MARKED = lazy_regex(_NUMBER + r"\s*(?:%|percent\b|per cent\b|/\s*100\b|out of 100\b)", re.IGNORECASE)
_ANY_NUMBER = lazy_regex(_NUMBER)
_VERDICT = lazy_regex(r"^\W*(?:answer\W+)?(yes|no|true|false)\b", re.IGNORECASE)


def lexical_similarity(texts: Sequence[str], metric: Literal["rougeL", "rouge1"] = "rougeL") -> float:
    """Disagreement in words (Fomicheva et al. 2020): *minus* the mean ROUGE F-measure over pairs of samples.

    The sign follows the one convention here, higher = more uncertain: -1 = the same words, 0 = none in common.

    Args:
        texts: k samples; words are lower-cased and stemmed as in ROUGE (text mostly beyond a-z: not split there).
        metric: ``rougeL`` (longest common subsequence) or ``rouge1`` (words in common).

    Returns:
        In [-1, 0]; +inf (unknown) for fewer than two samples or none with words.

    Raises:
        InputError: ``texts`` is one string, or the metric is unknown.
    """
    if isinstance(texts, str):
        raise InputError("texts must be a sequence of samples, not one string.")
    if len(texts) < 2 or not any(_WORD.search(t) for t in texts):
        return math.inf
    matrix = rouge_similarity(texts, metric)
    return -float(matrix[np.triu_indices(len(texts), 1)].mean()) + 0.0


def rouge_similarity(texts: Sequence[str], metric: Literal["rougeL", "rouge1"] = "rougeL") -> Float64:
    """(k, k) ROUGE F-measures between the samples, ones on the diagonal; equal texts are compared once.

    Two empty samples have 0: who says nothing twice has not said the same. A similarity for the graph estimators that
    needs no model.
    """
    if metric not in ("rougeL", "rouge1"):
        raise InputError(f"Unknown metric {metric!r}.", hint="rougeL or rouge1")
    unique = list(dict.fromkeys(texts))
    pattern = _word_pattern(unique)
    tokens = [_stems(t, pattern) for t in unique]
    common = _lcs if metric == "rougeL" else _overlap
    small = np.eye(len(unique))
    for i in range(len(unique)):
        for j in range(i):
            size = len(tokens[i]) + len(tokens[j])
            small[i, j] = small[j, i] = 2 * common(tokens[i], tokens[j]) / size if size else 0.0
    rows = [unique.index(t) for t in texts]
    return nothing_agrees(small[np.ix_(rows, rows)], texts)


def _confidence(text: str) -> float | None:
    """The confidence a model states on a scale of 0–100, as a probability; ``None`` where that is not clear.

    Read are, in this order: a number after "confidence", "certainty" or "probability"; numbers marked as per cent or
    out of 100; the only number there is. Numbers that contradict each other, lie outside 0–100 or look like
    fractions ("0.9": of 1 or of 100?) are unclear.
    """
    for pattern in (_LABELLED, _MARKED, _ANY_NUMBER):
        found = [m.group(1) for m in pattern.finditer(text)]
        if found:
            return _percentage(found, marked=pattern is _MARKED or bool(_MARKED.search(text)))
    return None


_STATED = lazy_regex(
    r"(?:(?:the\s+)?(?:answer|probability|confidence)\s*(?:is|:|=)\s*)?"
    r"(?:(?P<share>\d{1,3}(?:\.\d+)?)\s*/\s*(?P<of>100|10|1)|(?P<number>\d{1,3}(?:\.\d+)?|\.\d+)\s*(?P<unit>%|percent)?"
    r"|(?P<word>yes|true|no|false))",
    re.IGNORECASE,
)


def parse_probability(text: str) -> float | None:
    """The probability that a judge's reply *is*, if it is one; ``None`` if it merely holds a number.

    Read as .95: ``95``, ``95%``, ``95/100``, ``9.5/10``, ``0.95``, ``**95**``, ``Probability: 95``; yes is 1, no is 0.
    A whole number is on a scale of 100, one with a point and at most 1 on a scale of 1; "1" may be of either, and is
    unknown. "The depth is 83 metres." is no verdict.
    """
    match = _STATED.fullmatch(text.strip().strip("*_`\"'“” \t\r\n").rstrip(".!* "))
    if match is None:
        return None
    if match["word"]:
        return 1.0 if match["word"].lower() in ("yes", "true") else 0.0
    if match["share"]:
        value = float(match["share"]) / float(match["of"])
    else:
        value = float(match["number"])
        if match["number"] == "1" and not match["unit"]:
            return None
        of_one = "." in match["number"] and value <= 1 and not match["unit"]
        value = value if of_one else value / 100
    return value if value <= 1 else None


def verbalised_uncertainty(texts: Iterable[str]) -> float:
    """``1 - mean stated confidence`` over the replies that state one; in [0, 1], +inf (unknown) if none does."""
    return _doubt(texts, _confidence)


def _verdict(text: str) -> bool | None:
    """Whether a reply begins with yes/true or no/false; ``None`` if with neither."""
    match = _VERDICT.match(text)
    return None if match is None else match.group(1).lower() in ("yes", "true")


def sufficiency_uncertainty(texts: Iterable[str]) -> float:
    """Share of "no" among the replies to "do you have sufficient knowledge to answer?"; +inf if none is clear."""
    return _doubt(texts, _verdict)


def _doubt(texts: Iterable[str], read: Callable[[str], float | None]) -> float:
    """One less the mean of what is read off the replies; +inf if it is ``None`` for all of them."""
    found = [value for t in ((texts,) if isinstance(texts, str) else texts) if (value := read(t)) is not None]
    return 1.0 - float(np.mean(found)) if found else math.inf


def _percentage(found: list[str], marked: bool) -> float | None:
    values = {float(f) for f in found}
    if len(values) != 1:
        return None
    value = values.pop()
    fraction = "." in found[0] and value <= 1 and not marked
    return None if fraction or not 0 <= value <= 100 else value / 100


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("porter")


def _word_pattern(texts: Sequence[str]) -> re.Pattern[str]:
    """ROUGE's own words ([a-z0-9]+, which splits "Zürich"), unless most letters would be lost to it."""
    joined = " ".join(texts).lower()
    letters = sum(map(len, _WORD.findall(joined)))
    return _ASCII_WORD if 2 * sum(map(len, _ASCII_WORD.findall(joined))) >= letters else _WORD


def _stems(text: str, pattern: re.Pattern[str]) -> list[str]:
    # As ROUGE does it: words of up to three letters are left as they are.
    words = pattern.findall(text.lower())
    return [_stemmer().stemWord(w) if len(w) > 3 else w for w in words]


def _overlap(a: list[str], b: list[str]) -> int:
    return (Counter(a) & Counter(b)).total()


def _lcs(a: list[str], b: list[str]) -> int:
    """Length of the longest common subsequence, by bits: O(len(a) · len(b) / word size)."""
    where: dict[str, int] = {}  # word → its places in a, as bits
    for i, word in enumerate(a):
        where[word] = where.get(word, 0) | 1 << i
    # The row of the usual table as bits: a zero stands where the length rises (Hyyrö 2004). All ones: no rise yet.
    row, full = (1 << len(a)) - 1, (1 << len(a)) - 1
    for word in b:
        matches = row & where.get(word, 0)
        row = ((row + matches) | (row - matches)) & full
    return len(a) - row.bit_count()


# --- answers of rationales -----------------------------------------------------------------------------------------


_KIND = r"(?:(?:final|correct|right|short|best|full)\s+)*"
_ANSWER_STATED = lazy_regex(
    # "the (final) answer (to the question) is (that)"; the article may be missing where a line begins
    rf"(?:\b(?:the|my|our)\s+|^[ \t*_>#-]*){_KIND}answer(?:\s+(?:to|for)\b[^.,:!?\n]{{1,150}}?)?\s+"
    r"(?:is|was|(?:would|must|should)\s+be|(?:seems|appears)\s+to\s+be)\b[ \t]*:?[ \t]*(?:that\b[ \t]+)?",
    re.IGNORECASE | re.MULTILINE,
)
_ANSWER_LABELLED = lazy_regex(  # "Answer: …", at the beginning of a line or sentence
    rf"(?:^|(?<=[.!?]\s))[ \t*_>#-]*(?:the\s+)?{_KIND}answer[*_ \t]*:[*_ \t]*", re.IGNORECASE | re.MULTILINE
)
_IS = lazy_regex(f"{_ANSWER_STATED.pattern}|{_ANSWER_LABELLED.pattern}", re.IGNORECASE | re.MULTILINE)
_LEAD = lazy_regex(rf"(?:\b(?:so|thus|hence|therefore)\b,?[ \t]*)?(?:{_IS.pattern})", re.IGNORECASE | re.MULTILINE)
_INTRODUCED = lazy_regex(rf"(?:[^.!?\n]{{0,150}}?,\s*)?(?:{_LEAD.pattern})", re.IGNORECASE)
"""“Based on the passages, the answer is …”: models repeat the lead that they were to go on from."""
_MARKUP = lazy_regex(r"</?\s*(?:final_)?answer\s*>|\*\*|`+|\\boxed\{([^{}]*)\}", re.IGNORECASE)
_LIST_MARK = lazy_regex(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")
_OPTION = lazy_regex(r"([A-Z])\.(?=\s+(?!(?:[A-Z]\.|[A-Z][^\s.]*\.?\s*$))|\s*$)")
"""A single letter as the whole answer: "A. Later …"; not the initial of a name: "J. R. Moss", "J. Smith."."""
_CLOSED = lazy_regex(r"[.!?](?=[\"'”’)])")
_REVERSED = lazy_regex(rf"([^?]+?)\s+is the {_KIND}answer\b[^?]*$", re.IGNORECASE)
_PUBLISHED_IS = lazy_regex(r"the answer is(?:\s*:\s*)?(.*?)[,.]", re.DOTALL)
_PUBLISHED_REVERSED = lazy_regex(r"[.?!]\s*([^?!]*?)\s+is the answer\b", re.DOTALL)
_UNKNOWN = lazy_regex(
    r"\b[Uu]nknown\b(?!\s+[A-Z])|\bUNKNOWN\b|"  # not "the Unknown Soldier"
    r"^\W*(?i:(?:(?:it|this|that)\s+is\s+)?not\s+(?:known|given|stated|mentioned|specified|provided|available|clear|"
    r"answered|found|in\s+(?:the|any|these))\b|"
    r"(?:(?:it|this|that|the answer)\s+)?(?:can(?:not|\s+not|['’]t)|could(?:\s+not|n['’]t))\s+be\s+"
    r"(?:determined|answered|inferred)\b)"
)
_YES_OR_NO = lazy_regex(r"(yes|no)(?:\.?$|\s*[,;:]\s+|\s+[(–—-]\s*|\s+(?:because|since|as)\s)", re.IGNORECASE)
_SMALL_IN_TITLES = frozenset(
    ("a", "an", "and", "as", "at", "but", "by", "for", "from", "in", "of", "on", "or", "the", "to", "with")
)
_BEFORE = "It is "
"""Stands before what is split: at the beginning of a text, "83." would be the mark of a list."""


def final_answer(text: str, *, published: bool = False) -> str | None:
    """Read the X of "the answer is X", "Answer: X" or "X is the answer" as written; ``None`` where no step says so.

    Args:
        published: as the published code reads it: lower-cased, cut at the first comma or full stop wherever it stands
            ("42.5 km" → "42"; "Paris! Then, he left." → "paris! then"), and nothing without one.

    >>> final_answer("The lake is 83 m deep. So the final answer is 83. Done."), final_answer("It is deep.")
    ('83', None)
    """
    if published:
        lowered = text.lower()
        match = _PUBLISHED_IS.search(lowered) or _PUBLISHED_REVERSED.search(lowered)
        return match.group(1).strip() if match else None
    text = _MARKUP.sub(r"\1", text)
    # Stated before labelled: a label may stand before the steps to the answer.
    match = _ANSWER_STATED.search(text) or _ANSWER_LABELLED.search(text)
    found = _first_sentence(_behind(text, match)) if match else _said_before(text)
    found = found.strip(" \t\"'“”‘’*_$")
    return found or None


def _behind(text: str, lead: re.Match[str]) -> str:
    """The line behind "the answer is", or behind a colon at its end the next one; leads repeated are taken off."""
    line, _, below = text[lead.end() :].partition("\n")
    if not line.strip() and lead[0].rstrip(" \t*_").endswith(":"):
        line = _LIST_MARK.sub("", below.lstrip().partition("\n")[0])
    while (again := _INTRODUCED.match(line.lstrip())) is not None:
        line = line.lstrip()[again.end() :]
    return line.strip()


def _first_sentence(line: str) -> str:
    """A line up to the end of its first sentence, without its full stop: "42.5", "Dr. Smith", "John F. Kennedy"."""
    option = _OPTION.match(line)
    if option:
        return option[1]
    spans = split_sentences(_BEFORE + line) if line else []
    first = line[: spans[0][1] - len(_BEFORE)] if spans else ""
    decided = _yes_or_no(first)
    if decided is not None:
        return decided
    closed = _CLOSED.search(first)  # "Paris." He said …
    if closed:
        return first[: closed.start()]
    bare = first.rstrip(".!?")
    abbreviated = re.search(r"[^\W\d_]{2}$|\.[^\W\d_]$", bare) is not None and not ends_sentence(first)
    return f"{bare}." if first.endswith(".") and abbreviated else bare  # "Washington, D.C."


def _yes_or_no(sentence: str) -> str | None:
    """The yes or no that a sentence begins with, if the rest only says why; as the published code, which ends there."""
    match = _YES_OR_NO.match(sentence)
    rest = sentence[match.end() :].split() if match is not None else []
    # "Yes, Prime Minister" is a title; "Yes, Mara Venn built it" is none.
    title = bool(rest) and rest[0][0].isupper() and all(w[0].isupper() or w in _SMALL_IN_TITLES for w in rest)
    return match[1] if match is not None and (match[1].islower() or not title) else None


def _said_before(text: str) -> str:
    """The X of a sentence "X is the answer"."""
    for line in text.split("\n"):
        for start, end in split_sentences(line):
            match = _REVERSED.match(line[start:end])
            if match:
                return match[1]
    return ""


def answer_lead(text: str) -> tuple[int, int] | None:
    """Find "(so) the answer is" in a text, as a half-open range; ``None`` if it is not there."""
    match = _LEAD.search(text)
    return match.span() if match else None


def rationale_uncertainty(uncertainties: Iterable[float]) -> float:
    """Uncertainty of an answer drawn from rationales: the mean of theirs (paper, Table 9); +inf for none or NaN."""
    values = list(uncertainties)
    if not values or any(math.isnan(v) for v in values):
        return math.inf
    return sum(values) / len(values)


def choose_answer(
    from_rationales: str | None, rationale_score: float, from_knowledge: str | None, knowledge_score: float
) -> tuple[str | None, str]:
    """Self-aware reasoning: the answer of smaller uncertainty (in a tie, from ``knowledge``), and where it is from.

    An answer that is missing, empty or declines ("unknown", "The context does not say.") loses, and so does one whose
    uncertainty is NaN.
    """
    first, second = is_answer(from_rationales), is_answer(from_knowledge)
    if first != second:
        return (from_rationales, "rationales") if first else (from_knowledge, "knowledge")
    a = math.inf if math.isnan(rationale_score) else rationale_score
    b = math.inf if math.isnan(knowledge_score) else knowledge_score
    return (from_rationales, "rationales") if a < b else (from_knowledge, "knowledge")


def is_answer(answer: str | None) -> bool:
    """Whether something is said: not missing, not empty, not "unknown", "The context does not say." and the like.

    Of a text that names its answer ("So the answer is …") only that counts.

    >>> is_answer("No."), is_answer("The sources do not mention it."), is_answer("The answer is not known.")
    (True, False, False)
    """
    said = (final_answer(answer) or answer).strip() if answer else ""
    return bool(said) and not _UNKNOWN.search(said) and not is_refusal(said)
