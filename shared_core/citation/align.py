"""Quotes that a model wrote freely, found again in the passages: exactly, after normalisation, or approximately.

The ladder for models without a grammar: exact → equal after normalising white space, quotation marks, dashes, NFKC and
case, with a map back to offsets → few edits (Sellers' algorithm around shared character n-grams) → not found. Each step
gives offsets into the passage as it is, so a span's text is always the passage's own.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shared_core.citation.index import find_all, occurrences
from shared_core.citation.sentences import split_sentences, trim
from shared_core.errors import InputError
from shared_core.support.regex import lazy_regex
from shared_core.types import Citation, MatchKind, Passage, Span, check_passages

__all__ = ["align_quote"]

_MAX_QUOTE = 2000  # characters aligned at once; longer quotes are aligned sentence by sentence
_SEEDS = 48
_HITS_PER_SEED = 400
_SEED = 6  # characters: at 15% edits some piece of this length survives
_WINDOWS = 8
_CELLS = 1_500_000  # of the edit matrices together
_GROW = 16
_ELLIPSIS = lazy_regex(r"\s*(?:\[\s*(?:\.{3}|…)\s*\]|\(\s*(?:\.{3}|…)\s*\)|\.{3,}|…)\s*")
_WRAPPERS = "\"'“”‘’«»„`「」『』"
_KINDS: tuple[MatchKind, ...] = ("verbatim", "normalised", "fuzzy")


def align_quote(quote: str, passages: Iterable[Passage], *, threshold: float = 0.85) -> Citation | None:
    """Find the passage text that ``quote`` quotes.

    Args:
        quote: as a model wrote it; quotation marks around it are ignored. A quote of several sentences or of parts
            joined by an ellipsis that does not occur as a whole is found part by part, all of them or none.
        passages: where to look, in order of preference.
        threshold: the least similarity of an approximate match, 1 - edits / length of the longer text, in (0, 1].

    Returns:
        A citation whose ``match`` is the weakest step needed, with a span for every place of equal quality
        (``ambiguous`` if there are several for one part), or ``None``. ``quote`` is kept as written unless verbatim.

    Raises:
        InputError: the threshold is out of range.
        PassageError: two passages share an id and differ.
    """
    if not 0 < threshold <= 1:  # also refuses NaN
        raise InputError(f"threshold must lie in (0, 1], not {threshold!r}.")
    known = check_passages(passages)
    text = quote.strip()
    for part in dict.fromkeys((text, text.strip(_WRAPPERS).strip())):
        if part:
            spans = occurrences(part, known)
            if spans:
                return Citation(tuple(spans), "verbatim", len(spans) > 1)
    found = _find(text, known, threshold)
    if found:
        kind, spans = found
        return Citation(tuple(spans), kind, len(spans) > 1, quote=text)
    return _piecewise(text, known, threshold)


def _find(
    text: str, passages: Sequence[Passage], threshold: float, *, fuzzy: bool = True
) -> tuple[MatchKind, list[Span]] | None:
    """The best step of the ladder that finds the text as a whole."""
    spans = occurrences(text, passages) if text else []
    if spans:
        return "verbatim", spans
    needle = _normalise(text.strip(_WRAPPERS)).text.strip(" \"'-")
    if not any(c.isalnum() for c in needle):
        return None
    spans = [span for p in passages for span in _find_normalised(needle, p)]
    if spans:
        return "normalised", spans
    spans = _fuzzy(needle, passages, threshold) if fuzzy else []
    return ("fuzzy", spans) if spans else None


def _piecewise(text: str, passages: Sequence[Passage], threshold: float) -> Citation | None:
    """Find parts between ellipses, else sentences, one by one; in a single passage if it holds them all."""
    parts = [part for part in _ELLIPSIS.split(text.strip(_WRAPPERS)) if part.strip()]
    if len(parts) < 2:
        parts = [text[start:end] for start, end in split_sentences(text)]
    if len(parts) < 2:
        return None
    for passage in passages:
        if all(_find(part, [passage], threshold, fuzzy=False) for part in parts):
            passages = [passage]
            break
    spans: dict[Span, None] = {}
    worst, ambiguous = 0, False
    for part in parts:
        found = _find(part, passages, threshold)
        if found is None:
            return None
        kind, places = found
        worst = max(worst, _KINDS.index(kind))
        ambiguous |= len(places) > 1
        spans.update(dict.fromkeys(places))
    kind = _KINDS[worst]
    return Citation(tuple(spans), kind, ambiguous, quote="" if kind == "verbatim" else text)


# --- normalisation with a map back ---------------------------------------------------------------------------------

_SINGLE = dict.fromkeys("‘’‚‛′`´ʼ＇", "'")
_DOUBLE = dict.fromkeys("“”„‟″«»「」『』＂", '"')
_DASHES = dict.fromkeys("‐‑‒–—―−﹘﹣－", "-")
_FOLDED = {**_SINGLE, **_DOUBLE, **_DASHES}


@dataclass(frozen=True, slots=True)
class _Normalised:
    """A normalised text and how to get back: stretches of equal length, and irregular ones that map as a whole.

    ``starts`` (in the normalised text, ascending), ``sources`` (offset in the original) and ``sizes`` (original
    length if irregular, -1 if the stretch maps one to one) describe the pieces.
    """

    text: str
    starts: list[int]
    sources: list[int]
    sizes: list[int]

    def start(self, at: int) -> int | None:
        """The original offset where normalised character ``at`` begins; None inside of an expansion."""
        i = bisect_right(self.starts, at) - 1
        inside = at - self.starts[i]
        if self.sizes[i] < 0:
            return self.sources[i] + inside
        return self.sources[i] if inside == 0 else None

    def end(self, at: int) -> int | None:
        """The original offset where the normalised character before ``at`` ends; None inside of an expansion."""
        i = bisect_right(self.starts, at - 1) - 1
        if self.sizes[i] < 0:
            return self.sources[i] + at - self.starts[i]
        following = self.starts[i + 1] if i + 1 < len(self.starts) else len(self.text)
        return self.sources[i] + self.sizes[i] if at == following else None


@lru_cache(maxsize=8192)
def _fold(char: str) -> str:
    """One character (or a base with its combining marks) folded: NFKC, case, quotation marks, dashes; Cf dropped."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", char).casefold())
    return "".join(_FOLDED.get(c, " " if c.isspace() else c) for c in folded if unicodedata.category(c) != "Cf")


@lru_cache(maxsize=1024)
def _normalise(text: str) -> _Normalised:
    """Fold every character and collapse white space; linear, and quick where few characters change length."""
    table: dict[int, str] = {}
    irregular = []
    for char in set(text):
        folded = _fold(char)
        if unicodedata.combining(char):
            continue
        if len(folded) == 1:
            table[ord(char)] = folded
        else:
            irregular.append(char)
    marks = "".join(re.escape(c) for c in set(text) if unicodedata.combining(c))
    patterns = [r"\s\s+"]
    if marks:
        patterns += [rf"[^{marks}][{marks}]+", rf"[{marks}]+"]
    if re.search("[\u1100-\u115f][\u1160-\u11a7]", text):  # Korean in single letters
        patterns.append("[\u1100-\u115f][\u1160-\u11a7][\u11a8-\u11ff]?")
    if irregular:
        patterns.append(f"[{''.join(map(re.escape, irregular))}]")
    pieces: list[tuple[str, int, int]] = []  # (normalised, offset in the original, original length or -1)
    at = 0
    for match in re.finditer("|".join(patterns), text):
        low, high = match.span()
        pieces.append((text[at:low].translate(table), at, -1))
        blank = match.group().isspace()
        pieces.append((" " if blank else _fold(match.group()), low, high - low))
        at = high
    pieces.append((text[at:].translate(table), at, -1))
    pieces = [piece for piece in pieces if piece[0]]
    starts = list(itertools.accumulate((len(piece) for piece, _, _ in pieces), initial=0))[:-1]
    return _Normalised("".join(p for p, _, _ in pieces), starts, [o for _, o, _ in pieces], [n for _, _, n in pieces])


def _find_normalised(needle: str, passage: Passage) -> list[Span]:
    """Every stretch of the passage that is equal to ``needle`` after normalisation."""
    hay = _normalise(passage.text)
    spans = []
    for at in find_all(needle, hay.text):
        start, end = hay.start(at), hay.end(at + len(needle))
        if start is not None and end is not None:
            spans.append(passage.span(start, end))
    return spans


# --- few edits -----------------------------------------------------------------------------------------------------


def _fuzzy(needle: str, passages: Sequence[Passage], threshold: float) -> list[Span]:
    """The stretches with the fewest edits, if similar enough: seeds vote for diagonals, the best are aligned."""
    size = len(needle)
    if not 8 <= size <= _MAX_QUOTE:
        return []
    width = max(8, size // 4)
    windows: list[tuple[int, int, int]] = []  # (votes, passage, diagonal)
    for number, passage in enumerate(passages):
        votes = _votes(needle, _normalise(passage.text).text, width)
        windows += [(count, number, bucket * width) for bucket, count in votes.most_common(_WINDOWS)]
    windows.sort(key=lambda w: (-w[0], w[1], w[2]))
    slack = int((1 - threshold) * size) + _SEED
    limit = max(1, min(_WINDOWS, _CELLS // (size * (size + 2 * width + 2 * slack))))
    best: dict[Span, float] = {}
    for count, number, diagonal in windows[:limit]:
        if 2 * count < windows[0][0]:
            break
        hay = _normalise(passages[number].text)
        low, high = max(0, diagonal - slack), diagonal + 2 * width + size + slack
        edits, start, end = _closest(needle, hay.text[low:high])
        found = _accept(passages[number], hay, (low + start, low + end), edits, size, threshold)
        if found:
            best[found[0]] = max(found[1], best.get(found[0], 0.0))
    top = max(best.values(), default=0.0)
    return [span for span, similarity in best.items() if math.isclose(similarity, top)]


def _votes(needle: str, hay: str, width: int) -> Counter[int]:
    """Count the seeds (short pieces of the needle) that the hay holds near each diagonal; buckets overlap by half."""
    size = len(needle)
    length = _SEED if size >= 4 * _SEED else max(3, size // 4)
    rare: Counter[int] = Counter()
    common: Counter[int] = Counter()  # seeds that stand everywhere say little: used where there is nothing else
    for offset in range(0, size - length + 1, max(1, size // _SEEDS)):
        hits = list(itertools.islice(find_all(needle[offset : offset + length], hay), _HITS_PER_SEED))
        if not hits:
            continue
        buckets = {(at - offset) // width for at in hits}
        (common if len(hits) == _HITS_PER_SEED else rare).update(buckets | {bucket - 1 for bucket in buckets})
    return rare or common


def _closest(needle: str, hay: str) -> tuple[int, int, int]:
    """Fewest edits between ``needle`` and any stretch of ``hay``: (edits, start, end). Sellers (1980), row by row."""
    a, b = _codes(needle), _codes(hay)
    rows = np.empty((len(a) + 1, len(b) + 1), np.int32)
    rows[0] = 0
    steps = np.arange(len(b) + 1, dtype=np.int32)
    for i in range(1, len(a) + 1):
        row = rows[i]
        row[0] = i
        np.minimum(rows[i - 1, :-1] + (b != a[i - 1]), rows[i - 1, 1:] + 1, out=row[1:])
        row -= steps
        np.minimum.accumulate(row, out=row)
        row += steps
    end = j = int(rows[-1].argmin())
    i = len(a)
    while i > 0:
        here = rows[i, j]
        if j > 0 and here == rows[i - 1, j - 1] + (a[i - 1] != b[j - 1]):
            i, j = i - 1, j - 1
        elif here == rows[i - 1, j] + 1:
            i -= 1
        else:
            j -= 1
    return int(rows[-1, end]), j, end


def _codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _accept(
    passage: Passage, hay: _Normalised, place: tuple[int, int], edits: int, size: int, threshold: float
) -> tuple[Span, float] | None:
    """The place in the original, grown to whole words where that keeps it similar enough, and its similarity."""
    low, high = place
    if low >= high:
        return None
    similarity = 1 - edits / max(size, high - low)
    start, end = hay.start(low), hay.end(high)
    while start is None:
        low -= 1
        start = hay.start(low)
    while end is None:
        high += 1
        end = hay.end(high)
    text = passage.text
    start, end = trim(text, start, end)
    if similarity < threshold or start == end:
        return None
    left, right = start, end
    while left > 0 and start - left < _GROW and text[left - 1].isalnum() and text[left].isalnum():
        left -= 1
    while right < len(text) and right - end < _GROW and text[right].isalnum() and text[right - 1].isalnum():
        right += 1
    grown = 1 - (edits + start - left + right - end) / max(size, right - left)
    if grown >= threshold:
        start, end = left, right
    return passage.span(start, end), similarity
