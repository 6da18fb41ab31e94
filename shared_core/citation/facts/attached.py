"""Attach numbers, names and years to what a sentence says them of: "8 euros for adults and 3 for children"."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import lru_cache

from shared_core.citation.facts.dates import dates_of
from shared_core.citation.facts.quantities import Quantity, quantities_of
from shared_core.citation.facts.tokens import Sentence, tokens_of

_FAR = 8
"""Words between two numbers at most: what is further apart is no list."""
_MOST = 12  # numbers of a sentence; more are a table
_OF_BOTH = re.compile(r"\bof (?:whom|which|these|those)\b")
_CUT = re.compile(r"\b(?:and|but|while|to|or|whereas)\b|[,;](?!\d)")


def attached_otherwise(claim: Sentence, quantity: Quantity, held: Sentence) -> Quantity | None:
    """Return the number that a sentence gives for what the claim speaks of, where it gives the claim's for another.

    The sentence is cut between its numbers, at the conjunction before the next or else behind the last. Each part has
    words that the others lack. If the claim has such words of another number's part, and none of its own number's, it
    speaks of the other.

    Args:
        quantity: one of its numbers, which ``held`` has as well.
    """
    dated = [range(d.end - len(d.text), d.end) for d in dates_of(held.text) if d.end]
    every = [q for q in quantities_of(held.text) if not q.is_year and not q.ordinal]
    numbers = [q for q in every if not any(q.start in r for r in dated)]
    own = next((i for i, q in enumerate(numbers) if q.values & quantity.values), None)
    if own is None or not 2 <= len(numbers) <= _MOST:
        return None
    claimed = quantities_of(claim.text)
    parts = _parts(held.text, numbers)
    if parts is None:
        return None
    said = _words(claim.text)
    whole = [_words(held.text[a:b]) for a, b in parts]
    if own and _OF_BOTH.search(held.text, numbers[own].end):
        return None  # "3 million served, 1.5 million of whom fought": the part shares the words of the whole
    behind = _words(held.text[numbers[own].end : parts[own][1]]) if own == 0 else whole[own]
    mine = (behind or whole[own]) - set().union(*(w for i, w in enumerate(whole) if i != own))
    for i, other in enumerate(numbers):
        theirs = whole[i] - set().union(*(w for j, w in enumerate(whole) if j != i))
        comparable = other.dimension == quantity.dimension and not any(other.values & c.values for c in claimed)
        if i == own or not comparable or not theirs & said:
            continue
        if own == 0 and not _words(held.text[other.end : parts[i][1]]):
            # ", the team plan 50": what it leaves out stands behind the first number, what it has before it
            before = _listed(held.text[: numbers[own].start])
            first = [w for w in before if w not in whole[i]][: len(theirs)]
            if first and not said & set(first):
                return other
        elif mine and (not mine & said or (theirs <= said and not mine <= said)):
            return other
    return None


def placed_otherwise(claim: Sentence, held: Sentence) -> tuple[str, str] | None:
    """Find a name or year of the claim that a sentence gives for another of its statements.

    "She died in Skell" where the evidence has "She was born in Skell and died in Paris": the part that says most of the
    claim has another name behind the same preposition.

    Returns:
        The claim's words and the evidence's; ``None`` if there are none.
    """
    parts = [part for part in _PART.split(held.text) if part.strip()]
    if len(parts) < 2:
        return None
    said = _words(claim.text)
    plain = said - _capitals(claim.text)
    for mine in _PLACE.finditer(claim.text):
        rest = plain - _words(mine[2])
        best = max(parts, key=lambda part: len(rest & _words(part)))
        elsewhere = any(mine[2] in part for part in parts if part is not best)
        if mine[2] in best or not elsewhere or all(key[:1].isdigit() for key in rest & _words(best)):
            continue
        for other in _PLACE.finditer(best):
            same_kind = mine[2][:1].isdigit() == other[2][:1].isdigit()
            if mine[1] == other[1] and same_kind and not _words(other[2]) & said:
                return mine[0], other[0]
    return None


_PART = re.compile(r";\s|\b(?:and|but|while|whereas)\b")
_PLACE = re.compile(
    r"\b(in|at|to|from|for|on|with)\s+(?:the\s+)?([12]\d{3}\b(?!\s+\w+s\b)|[A-Z][\w’'-]+(?:\s+[A-Z][\w’'-]+)*)"
)


def _capitals(text: str) -> set[str]:
    return {t.key for t in tokens_of(text) if t.is_capitalised}


def _parts(text: str, numbers: Sequence[Quantity]) -> list[tuple[int, int]] | None:
    """Cut the text between each two numbers; ``None`` if there is no conjunction or comma to cut at."""
    cuts = [0]
    for one, other in itertools.pairwise(numbers):
        found = list(_CUT.finditer(text, one.end, other.start))
        if not found or len(text[one.end : other.start].split()) > _FAR:
            return None
        directly = not text[found[-1].end() : other.start].strip()
        cuts.append((found[-1] if directly else found[0]).start())
    return list(zip(cuts, [*cuts[1:], len(text)], strict=True))


def _listed(text: str) -> list[str]:
    """Keys of content words, in order."""
    return [t.key for t in tokens_of(text) if t.is_content]


@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    """Keys of content words and years."""
    years = {str(int(min(q.values))) for q in quantities_of(text) if q.is_year and not q.last}
    return frozenset(t.key for t in tokens_of(text) if t.is_content) | years
