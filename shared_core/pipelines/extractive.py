"""The extractive writer: answers in the documents' own sentences, without any language model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from shared_core.flow import Flow, Read, Report, Retrieve
from shared_core.pipelines.common import Context, Trace, decide
from shared_core.reading.base import Reading, ReadResult
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Citation, Claim, ClaimSealed, Passage, Retrieved, Span
from shared_core.uncertainty.calibration import Calibration


def extractive(question: str, settings: SelfReflectSettings, context: Context) -> Flow[Answer]:
    """Retrieve, quote the sentences that answer, keep those whose calibrated support is above the target.

    The trace holds the decisions ``retrieve``, ``read``, ``keep`` and ``answer`` or ``abstain``.
    """
    trace = Trace()
    yield trace.add("retrieve", "always", "no language model is there to know anything by itself", k=settings.top_k)
    found: tuple[Passage, ...] = yield Retrieve(question, settings.top_k, settings.where)
    yield Report(Retrieved(question, found))
    if not found:
        return (yield from decide(question, (), (), settings, trace, pipeline="composed"))
    result: ReadResult = yield Read(question, found, limit=settings.max_claims)
    yield trace.add(
        "read",
        f"{len(result.readings)} candidate quotes",
        best=result.readings[0].probability if result.readings else None,
        answerable=result.answerable,
    )
    by_id = {p.id: p for p in found}
    claims = claims_from(result.readings, by_id, context.calibrations.get("confidence"))
    for claim in claims:
        yield Report(ClaimSealed(claim))
    return (
        yield from decide(question, claims, found, settings, trace, pipeline="composed", answerable=result.answerable)
    )


def claims_from(
    readings: Sequence[Reading], passages: Mapping[str, Passage], calibration: Calibration | None
) -> list[Claim]:
    """One claim for each distinct quote; ``calibration`` (of this app's own questions) replaces the shipped one."""
    claims: list[Claim] = []
    seen: dict[str, int] = {}
    for reading in readings:
        text = re.sub(r"\s+", " ", reading.quote.text).strip()
        if text in seen:  # the same sentence in another passage: a second place, not a second claim
            claims[seen[text]] = _with_place(claims[seen[text]], reading.quote)
            continue
        support = reading.probability
        if calibration is not None and support is not None:
            support = calibration.probability(support)
        seen[text] = len(claims)
        short = reading.short_answer.text if reading.short_answer else None
        claims.append(Claim(text, support, (Citation((reading.quote,)),), short_answer=short))
    return claims


def _with_place(claim: Claim, span: Span) -> Claim:
    citation = claim.citations[0]
    merged = Citation((*citation.spans, span), citation.match, ambiguous=True, quote=citation.quote)
    return Claim(claim.text, claim.support, (merged,), short_answer=claim.short_answer)
