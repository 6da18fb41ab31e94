"""Requests that a flow may yield, and the results it is sent for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from shared_core.lm.base import Generate, HiddenStates, Score, TokenIds
from shared_core.reading.base import Judge, Rate, Read
from shared_core.retrieval.base import Where
from shared_core.types import Event

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retrieve:
    """Find passages. Result: ``tuple[Passage, ...]``, best first."""

    query: str
    k: int = 5
    where: Where | None = None


@dataclass(frozen=True, slots=True)
class Embed:
    """Unit vectors of texts. Result: (len(texts), d) float32."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Report an event to whoever listens. Result: ``None``, at once."""

    event: Event


@dataclass(frozen=True, slots=True)
class Together:
    """Carry out several requests at once, those of one kind as one batch. Result: a list, in order.

    Attributes:
        requests: of any kinds, but not ``Report`` or ``Together``.
        return_errors: give errors as values in the list instead of raising the first.
    """

    requests: tuple[Generate | Score | HiddenStates | TokenIds | Retrieve | Read | Judge | Rate | Embed, ...]
    return_errors: bool = False


ModelRequest = Generate | Score | HiddenStates
ASKS_MODEL = (Generate, Score, HiddenStates)
"""Requests that a language model computes; the shipped reader and critic are none."""
LeafRequest = Generate | Score | HiddenStates | TokenIds | Retrieve | Read | Judge | Rate | Embed
Request = LeafRequest | Report | Together
Flow = Generator[Request, Any, T]
"""``Flow[Answer]`` is a generator of requests that returns an ``Answer``."""


def leaves_of(request: Request) -> tuple[LeafRequest, ...]:
    """Return the requests to carry out: the parts of ``Together``, the request itself, or nothing for a report."""
    if isinstance(request, Together):
        return request.requests
    return () if isinstance(request, Report) else (request,)


def describe(requests: Sequence[LeafRequest]) -> str:
    """Describe requests for traces and errors: ``2 Generate (claim), 1 Retrieve``."""
    roles = ((type(r).__name__, getattr(r, "model", "default")) for r in requests)
    counts = Counter(kind if role == "default" else f"{kind} ({role})" for kind, role in roles)
    return ", ".join(f"{count} {name}" for name, count in counts.items())
