"""Small things about streams: inputs that come in pieces, and the end of the engine's events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_selfreflect._question import ChainInput
from shared_core.errors import ResponseError
from shared_core.types import Answer, Event, Finished


def find_answer(events: Iterable[Event]) -> Answer:
    """Consume all events, so that later ones are dispatched too, and return the answer."""
    found = [event.answer for event in events if isinstance(event, Finished)]
    if not found:
        raise ResponseError("The pipeline ended without an answer.", hint="This is a bug of the pipeline.")
    return found[-1]


def join(pieces: list[Any]) -> ChainInput:
    """Join the pieces of a streamed input: texts are joined, dicts merged; otherwise the last piece counts."""
    whole: Any = pieces[0] if pieces else ""
    for piece in pieces[1:]:
        try:
            whole = whole + piece
        except TypeError:
            whole = {**whole, **piece} if isinstance(whole, dict) and isinstance(piece, dict) else piece
    joined: ChainInput = whole
    return joined
