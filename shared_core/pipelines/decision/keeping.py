"""Rules for claims beside each other: merge repeated ones, and never keep a claim without the one it leans on."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Sequence

from shared_core.pipelines.decision.wording import one_line
from shared_core.types import Claim


def merge_duplicates(claims: Sequence[Claim]) -> list[Claim]:
    """Merge claims with the same text: the first keeps its place, gains the citations, and has the better support."""
    merged: dict[str, Claim] = {}
    for claim in claims:
        key = one_line(claim.text).casefold().rstrip(".")
        first = merged.get(key)
        if first is None:
            merged[key] = claim
            continue
        quotes = (*first.citations, *(c for c in claim.citations if c not in first.citations))
        surer = max((first, claim), key=lambda c: -1.0 if c.support is None else c.support)
        # Support and the signals it was made of stay together, so that the trace can explain the number.
        merged[key] = dataclasses.replace(
            first, citations=quotes, support=surer.support, signals=surer.signals, critique=surer.critique
        )
    return list(merged.values())


_LEANING = re.compile(
    r"(?:(?:and|but|so|then|also|however|therefore|thus)\b,?\s+)?"
    r"(?:he|she|it|they|his|her|hers|its|their|theirs|this|these|those|that|such|both|the former|the latter)\b",
    re.IGNORECASE,
)


def leans(text: str) -> bool:
    """Return whether a statement begins with a pronoun, so that it needs the statement before it.

    Example:
        >>> leans("She died in 1899."), leans("Mira Holm died in 1899.")
        (True, False)
    """
    return _LEANING.match(text) is not None


def standing(claims: Sequence[Claim], eligible: Collection[int] | None = None) -> list[float | None]:
    """Return the score each claim is kept by: its support, or the score of the claim it leans on if that is lower.

    So at any bar, each kept claim is shown together with the claim that says who "she" is.

    Args:
        claims: in the order of the text, with their support.
        eligible: numbers of the claims that may be kept; all by default.

    Returns:
        One score in [0, 1] for each claim; ``None`` for a claim that is never kept.

    Example:
        >>> standing([Claim("Mira Holm built it.", 0.2), Claim("She died in 1899.", 0.9)])
        [0.2, 0.2]
    """
    found: list[float | None] = []
    for i, claim in enumerate(claims):
        score = claim.support if eligible is None or i in eligible else None
        if i > 0 and score is not None and leans(claim.text) and not _is_quote(claim):
            before = found[-1]  # a score, not a support: "It … She … They …" all lean on the first
            score = None if before is None else min(score, before)
        found.append(score)
    return found


def _is_quote(claim: Claim) -> bool:
    """Return whether the claim is its own quote: a sentence of a document is shown as it is, pronouns and all."""
    return any(one_line(c.quote) == one_line(claim.text) for c in claim.citations)
