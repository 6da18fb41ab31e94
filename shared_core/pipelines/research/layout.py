"""The text of the answer: the chosen candidate as it was written, with marks.

Whole where all of it may be shown; otherwise sentences are left out whole, never a part of one. Behind a sentence stand
the numbers of its quotes, and ``(unsupported)`` or ``(partly unsupported)`` where its claims are flagged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from shared_core.abstention import claim_key
from shared_core.pipelines.decision.keeping import leans
from shared_core.pipelines.research.claims import Candidate
from shared_core.types import Claim


def shown_scores(candidate: Candidate, scores: Mapping[str, float | None]) -> list[float | None]:
    """For each claim of the candidate what its sentence is shown by.

    A sentence is shown by the least of its claims' scores, and one that begins with a word for something said before it
    by no more than that sentence is: so whatever the bar, what is above it can be shown and understood.

    Args:
        candidate: its claims are in order.
        scores: of each claim by ``claim_key``; ``None`` for unknown.
    """
    shown: dict[str, float | None] = {}  # a claim that is made again is shown where its first sentence is
    before: float | None = None
    for i, part in enumerate(candidate.parts):
        keys = [key for c in part.claims if (key := claim_key(c))]
        least = _least([shown.get(key, scores.get(key)) for key in keys])
        # "It is red." says nothing without the sentence before it, so it is never more certain than that one.
        if i and leans(candidate.text[part.start : part.end]):
            least = _least([least, before])
        # Chained through: a dropped sentence drops all that refer back to it, one after the other.
        before = least
        for key in keys:
            shown.setdefault(key, least)
    return [shown[claim_key(claim)] for claim, _ in candidate.places()]


def _least(scores: Sequence[float | None]) -> float | None:
    known = [s for s in scores if s is not None]
    # One unknown claim makes the sentence unknown: a sentence is shown whole or not at all.
    return min(known) if known and len(known) == len(scores) else None


def lay_out(candidate: Candidate, claims: Sequence[Claim], *, marks: bool = True) -> tuple[str, tuple[Claim, ...]]:
    """The candidate's text as far as its claims are not dropped, and the claims with their places in it.

    Args:
        candidate: as written.
        claims: its claims in order (``Candidate.places``), each with its status.
        marks: put marks behind the sentences; then words that make no claim (“I am not sure.”) are left out, too.

    Returns:
        The text and the claims, the dropped ones last. A claim's place is that of its sentence as written, whose words
        need not be the claim's own: the claim is understandable by itself.
    """
    status = {claim_key(c.text): c for c in claims}
    shown = False
    numbers: dict[tuple[str, int, int], int] = {}
    text, last = "", 0
    places: dict[int, tuple[int, int]] = {}
    for part in candidate.parts:
        mine = [status[key] for c in part.claims if (key := claim_key(c)) in status]
        shown = all(c.status != "dropped" for c in mine)
        if shown:
            text += _between(candidate.text[last : part.start], keep=not marks) if text or not last else ""
            start = len(text)
            text += candidate.text[part.start : part.end]
            places[part.start] = (start, len(text))
            text += _marks(mine, numbers) if marks else ""
        last = part.end
    if shown:
        text = (text + _between(candidate.text[last:], keep=not marks)).rstrip()
    placed = []
    for claim, part in ((status[claim_key(t)], p) for t, p in candidate.places()):
        if claim.status != "dropped" and part.start in places:
            claim = dataclasses.replace(claim, start=places[part.start][0], end=places[part.start][1])
        placed.append(claim)
    # sort is stable: claims that are shown keep the order of the text.
    placed.sort(key=lambda c: c.status == "dropped")
    return text, tuple(placed)


def _between(text: str, *, keep: bool) -> str:
    """Text between sentences with claims; ``keep``: words, too."""
    return " " if not keep and any(c.isalnum() for c in text) else text


def _marks(claims: Sequence[Claim], numbers: dict[tuple[str, int, int], int]) -> str:
    spans = [s for c in claims for citation in c.citations for s in citation.primary]
    marks = [numbers.setdefault((s.passage_id, s.start, s.end), len(numbers) + 1) for s in spans]
    text = (" " if marks else "") + "".join(f"[{n}]" for n in dict.fromkeys(marks))
    flagged = sum(c.status == "flagged" for c in claims)
    if flagged:
        text += " (unsupported)" if flagged == len(claims) else " (partly unsupported)"
    return text
