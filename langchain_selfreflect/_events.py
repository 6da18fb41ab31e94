"""Events of the core as LangChain's custom events: plain values under names of ours."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.runnables import RunnableConfig

from shared_core.types import ClaimSealed, Decided, Decision, Event, ReferenceSealed, Retrieved

DECISION, RETRIEVED = "selfreflect_decision", "selfreflect_retrieved"
QUOTE, CLAIM = "selfreflect_quote", "selfreflect_claim"


def tell(event: Event | Decision | None, config: RunnableConfig) -> None:
    """Dispatch an event or a decision to the run that ``config`` belongs to; nothing if there is none."""
    if (named := _named(event)) is not None:
        dispatch_custom_event(*named, config=config)


async def atell(event: Event | Decision | None, config: RunnableConfig) -> None:
    """``tell`` for async runs."""
    if (named := _named(event)) is not None:
        await adispatch_custom_event(*named, config=config)


def _named(event: Event | Decision | None) -> tuple[str, dict[str, Any]] | None:
    """Return name and data of a custom event; ``None`` for events that LangChain shows itself (text, the answer)."""
    made = event.decision if isinstance(event, Decided) else event
    if isinstance(made, Decision):
        data = {"kind": made.kind, "outcome": made.outcome, "reason": made.reason, "values": dict(made.values)}
        return DECISION, data
    if isinstance(event, Retrieved):
        return RETRIEVED, {"query": str(event.query), "passage_ids": [p.id for p in event.passages]}
    if isinstance(event, ReferenceSealed):
        spans = [{"passage_id": s.passage_id, "start": s.start, "end": s.end} for s in event.citation.spans]
        return QUOTE, {"quote": event.citation.quote, "match": event.citation.match, "spans": spans}
    if isinstance(event, ClaimSealed):
        verdict = {} if event.claim.verdict is None else {"verdict": event.claim.verdict}
        return CLAIM, {"text": event.claim.text, "support": event.claim.support, **verdict}
    return None
