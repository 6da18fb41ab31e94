"""The words of an answer: its claims put together with their marks, or what is said where there is none."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from shared_core.pipelines.decision.reasons import (
    BELOW_GUARANTEE,
    CANNOT_JUDGE,
    CERTAINTY_UNKNOWN,
    NOT_KNOWN,
    NOTHING_ASKED,
    SUPPORT_BELOW_TARGET,
)
from shared_core.settings import SelfReflectSettings
from shared_core.types import Claim, Passage, Span


def abstention_text(
    question: str,
    reason: str,
    sentence: str,
    claims: Sequence[Claim],
    passages: Sequence[Passage],
    settings: SelfReflectSettings,
) -> str:
    """What to say instead of an answer: ``settings.abstain_text`` or our own words, by ``settings.on_abstain``.

    What is merely not certain enough is shown, marked as such, so that a person can judge; so is what only a person
    can judge. ``on_abstain="show"`` shows the nearest passages in any case.
    """
    own = settings.abstain_text
    surest = sorted(claims, key=lambda c: -1.0 if c.support is None else c.support, reverse=True)
    spans = [s for c in surest for citation in c.citations for s in citation.primary]
    by_id = {p.id: p for p in passages}
    if settings.on_abstain == "show" and passages:
        nearest = spans or [p.span(0, min(len(p.text), 300)) for p in passages]
        heading = "The nearest passages say:"
        nearest = nearest[: settings.max_claims]
    else:
        nearest = spans[:1] if own is None and reason in (SUPPORT_BELOW_TARGET, BELOW_GUARANTEE, CANNOT_JUDGE) else []
        heading = "Nearest, but not certain enough:" if reason != CANNOT_JUDGE else "Nearest, unjudged:"
    if own is not None:
        said = own.format(question=question, reason=sentence)
    elif reason == NOTHING_ASKED:
        said = sentence
    else:
        closed = settings.pipeline == "research" and settings.research.closed_book
        source = "what I know" if closed or reason in (NOT_KNOWN, CERTAINTY_UNKNOWN) else "these documents"
        said = f"I can't answer that from {source} with the certainty asked for."
        if not (nearest and reason == SUPPORT_BELOW_TARGET and settings.on_abstain != "show"):
            said += f" {sentence}"  # else the heading says it
    if not nearest:
        return said
    lines = [f"- “{one_line(s.text)}” ({source_of(by_id[s.passage_id])})" for s in nearest]
    return "\n".join([said, *([heading] if own is None else []), *lines])  # not in another language than the rest


def source_of(passage: Passage) -> str:
    """Where a passage comes from, for people: its file, else its title, else its id."""
    return str(passage.metadata.get("source") or passage.title or passage.id)


def one_line(text: str) -> str:
    """The text with a blank for each run of white space."""
    return re.sub(r"\s+", " ", text).strip()


def assemble(claims: Sequence[Claim]) -> tuple[str, tuple[Claim, ...]]:
    """Join the claims that are not dropped into the answer's text, with markers [1], [2], … after each claim.

    Returns the text and the claims with their places in it: ``text[c.start:c.end] == c.text``. Numbers follow the
    first appearance of each quote, without gaps; a flagged claim is followed by ``(unsupported)``.
    """
    numbers: dict[tuple[str, int, int], int] = {}
    text = ""
    placed: list[Claim] = []
    for claim in claims:
        if claim.status == "dropped":
            placed.append(claim)
            continue
        start = len(text) + bool(text)
        text = f"{text} {claim.text}" if text else claim.text
        placed.append(dataclasses.replace(claim, start=start, end=start + len(claim.text)))
        marks = [numbers.setdefault(_key(s), len(numbers) + 1) for c in claim.citations for s in c.primary]
        text += (" " if marks else "") + "".join(f"[{n}]" for n in dict.fromkeys(marks))
        text += " (unsupported)" if claim.status == "flagged" else ""
    placed.sort(key=lambda c: c.status == "dropped")
    return text, tuple(placed)


UNCITED = "(from the model, without a quote)"


def assemble_uncited(claims: Sequence[Claim]) -> tuple[str, tuple[Claim, ...]]:
    """As ``assemble``, for claims none of which has a quote: the text says so."""
    text, placed = assemble(claims)
    return f"{text} {UNCITED}", placed


def _key(span: Span) -> tuple[str, int, int]:
    return (span.passage_id, span.start, span.end)
