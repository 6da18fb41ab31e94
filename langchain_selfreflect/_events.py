"""Events of the core as LangChain's custom events: plain values under names of ours."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.runnables import RunnableConfig

from shared_core.types import ClaimSealed, Decided, Decision, Event, ReferenceSealed, Retrieved

Named = tuple[str, dict[str, Any]]

DECISION, RETRIEVED = "selfreflect_decision", "selfreflect_retrieved"
QUOTE, CLAIM = "selfreflect_quote", "selfreflect_claim"


def name_event(event: Event) -> Named | None:
    """Return name and data of a custom event; ``None`` for events that LangChain shows itself (text, the answer)."""
    if isinstance(event, Decided):
        return name_decision(event.decision)
    if isinstance(event, Retrieved):
        return RETRIEVED, {"query": str(event.query), "passage_ids": [p.id for p in event.passages]}
    if isinstance(event, ReferenceSealed):
        spans = [{"passage_id": s.passage_id, "start": s.start, "end": s.end} for s in event.citation.spans]
        return QUOTE, {"quote": event.citation.quote, "match": event.citation.match, "spans": spans}
    if isinstance(event, ClaimSealed):
        verdict = {} if event.claim.verdict is None else {"verdict": event.claim.verdict}
        return CLAIM, {"text": event.claim.text, "support": event.claim.support, **verdict}
    return None


def name_decision(made: Decision | None) -> Named | None:
    """Convert a decision, if there is one, to a custom event."""
    if made is None:
        return None
    data = {"kind": made.kind, "outcome": made.outcome, "reason": made.reason, "values": dict(made.values)}
    return DECISION, data


def tell(event: Named | None, config: RunnableConfig) -> None:
    """Dispatch an event to the run that ``config`` belongs to."""
    if event is not None:
        dispatch_custom_event(*event, config=config)


async def atell(event: Named | None, config: RunnableConfig) -> None:
    """``tell`` for async runs."""
    if event is not None:
        await adispatch_custom_event(*event, config=config)
