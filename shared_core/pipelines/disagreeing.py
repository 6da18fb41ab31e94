"""Find documents that contradict each other on what was asked.

Two passages may both answer a question, each otherwise: "The dam was completed in 1911." and "… in 1921." Whichever is
shown, the reader of the answer has to know of the other. Sentences contradict each other if they say the same but for
one fact, or but for their answers.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from shared_core.citation.facts import compare_claim
from shared_core.pipelines.evidence import quoted_places
from shared_core.types import Claim, Passage

_SHARE, _LEAST = 0.1, 0.1
"""Probability that the less probable quote must have: of the other's, and in any case. What hardly answers at all may
differ in anything."""

_ANOTHER = re.compile(
    r"\b(?:first|second|third|fourth|fifth|last|next|another|other|additional|further|again|new|newer|newest|old|older|"
    r"oldest|earlier|later|former|previous|current|currently|originally|initially|re(?:built|opened|founded|launched))\b",
    re.IGNORECASE,
)
"""Words that tell one of several things or times of a kind from another: "a second lamp was lit in 1899"."""


def add_contradiction(
    claims: Sequence[Claim], quotes: Sequence[Claim], passages: Sequence[Passage], question: str
) -> tuple[list[Claim], tuple[int, int] | None]:
    """Add to the claims the quote that contradicts one of them.

    Args:
        quotes: the reader's best quotes as claims, with support and short answer.

    Returns:
        The claims, with one or two quotes more where documents contradict each other, and the numbers of the two that
        do, neighbours, the surer first; ``None`` if none do. At most one of the two can be right, which lowers both.
    """
    pair = find_contradiction(quotes, passages, question)
    if pair is None:
        return list(claims), None
    out = list(claims)
    numbers = []
    for quote in pair:
        # Already claimed: the surest claim that shows this quote takes part, in place of a copy of it.
        same = [i for i, c in enumerate(out) if quoted_places(c) & quoted_places(quote)]
        if not same:
            out.append(quote)
        numbers.append(max(same, key=lambda i: out[i].support or 0.0) if same else len(out) - 1)
    first, second = sorted(numbers, key=lambda i: -(out[i].support or 0.0))
    if first == second:  # one claim that cites both
        return list(claims), None
    one, other = _exclusive(out[first], out[second])
    out[first] = one
    del out[second]
    first -= second < first  # the deletion before it moves it up by one
    return [*out[: first + 1], other, *out[first + 1 :]], (first, first + 1)


def _exclusive(one: Claim, other: Claim) -> tuple[Claim, Claim]:
    """Lower the supports a and b of two claims of which at most one is right: to a(1 - b) / (1 - ab), and so for b."""
    # P(A, not B | not both), with A and B independent but for that; the rest is that neither is right.
    a, b = one.support or 0.0, other.support or 0.0
    either = 1 - a * b
    if either <= 0:  # both certain: 0 / 0, and nothing prefers one of them
        return dataclasses.replace(one, support=0.5), dataclasses.replace(other, support=0.5)
    lowered = a * (1 - b) / either, b * (1 - a) / either
    return dataclasses.replace(one, support=lowered[0]), dataclasses.replace(other, support=lowered[1])


def find_contradiction(
    quotes: Sequence[Claim], passages: Sequence[Passage], question: str
) -> tuple[Claim, Claim] | None:
    """Return the surest quote and the first of the others that contradicts it from another passage."""
    titles = {p.id: p.title for p in passages}
    ranked = sorted((c for c in quotes if c.support and c.citations), key=lambda c: -(c.support or 0.0))
    for other in ranked[1:]:
        first = ranked[0]
        if (other.support or 0.0) < max(_SHARE * (first.support or 0.0), _LEAST):
            return None  # sorted: all further ones are less probable still
        # Passages contradict each other; two sentences of one passage may be before and after, rule and exception.
        apart = {s[0] for s in quoted_places(first)}.isdisjoint(s[0] for s in quoted_places(other))
        if apart and (_refutes(first, other, question, titles) or _refutes(other, first, question, titles)):
            return first, other
    return None


def _refutes(one: Claim, other: Claim, question: str, titles: dict[str, str]) -> bool:
    """Return whether ``one`` refutes ``other``, and no longer does once one fact or the answers are exchanged."""
    if {w.casefold() for w in _ANOTHER.findall(one.text)} ^ {w.casefold() for w in _ANOTHER.findall(other.text)}:
        return False
    context = "\n".join([question, *(titles.get(s[0], "") for s in quoted_places(one))])
    found = compare_claim(other.text, one.text, context)
    if not found.refuted:
        return False
    (fact, *more) = found.mismatches
    # A fact that the question names says which thing is meant ("the 1911 dam"); it is not what was asked.
    if not more and fact.kind != "addition" and not _holds(question, fact.claimed):
        return True
    mine, theirs = one.short_answer, other.short_answer
    if not mine or not theirs or _holds(mine, theirs) or _holds(theirs, mine):  # one is more exact
        return False
    return compare_claim(other.text.replace(theirs, mine), one.text, context).agrees


def _holds(text: str, part: str) -> bool:
    # Not \b: an answer may begin or end with a sign ("$5", "C++"), where \b would want a letter beside it.
    return re.search(rf"(?<!\w){re.escape(part.casefold())}(?!\w)", text.casefold()) is not None
