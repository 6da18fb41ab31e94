"""Which claims may be kept beside which: repeated claims, and claims that lean on the one before them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Sequence

from shared_core.pipelines.decision.wording import one_line
from shared_core.types import Claim


def merge_duplicates(claims: Sequence[Claim]) -> list[Claim]:
    """Each statement once: one said again adds its quotes to the first, and the surer of the two supports counts."""
    merged: dict[str, Claim] = {}
    for claim in claims:
        key = one_line(claim.text).casefold().rstrip(".")
        first = merged.get(key)
        if first is None:
            merged[key] = claim
            continue
        quotes = (*first.citations, *(c for c in claim.citations if c not in first.citations))
        surer = max((first, claim), key=lambda c: -1.0 if c.support is None else c.support)
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
    """Whether a statement begins with a word for something that was said before it."""
    return _LEANING.match(text) is not None


def standing(claims: Sequence[Claim], eligible: Collection[int] | None = None) -> list[float | None]:
    """What each claim is kept by: its support, or less where it leans on one that is less sure; ``None``: never.

    So whatever the bar, a claim above it can be understood beside the others above it.
    """
    found: list[float | None] = []
    for i, claim in enumerate(claims):
        score = claim.support if eligible is None or i in eligible else None
        if i > 0 and score is not None and leans(claim.text) and not _is_quote(claim):
            before = found[-1]
            score = None if before is None else min(score, before)
        found.append(score)
    return found


def _is_quote(claim: Claim) -> bool:
    """Whether the claim is its own quote: then it is shown as its document has it."""
    return any(one_line(c.quote) == one_line(claim.text) for c in claim.citations)
