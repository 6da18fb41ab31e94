"""Requests that a flow may yield, the results it is sent for them, and how long they may take."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from shared_core.errors import DeadlineError, InputError
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
class Compute:
    """Compute something that takes long without a model. Result: what ``work`` returns.

    Asynchronous drivers run it in a thread, so that the event loop stays free.
    """

    work: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Report:
    """Report an event to whoever listens. Result: ``None``, at once."""

    event: Event


LeafRequest = Generate | Score | HiddenStates | TokenIds | Retrieve | Read | Judge | Rate | Embed | Compute
"""Requests that something outside of a flow carries out."""


@dataclass(frozen=True, slots=True)
class Together:
    """Carry out several requests at once, those of one kind as one batch. Result: a list, in order.

    Attributes:
        requests: of any kinds, but not ``Report`` or ``Together``.
        return_errors: give errors as values in the list instead of raising the first.
    """

    requests: tuple[LeafRequest, ...]
    return_errors: bool = False


ModelRequest = Generate | Score | HiddenStates
ASKS_MODEL = (Generate, Score, HiddenStates)
"""Requests that a language model computes; the shipped reader and critic are none."""
Request = LeafRequest | Report | Together
Flow = Generator[Request, Any, T]
"""``Flow[Answer]`` is a generator of requests that returns an ``Answer``."""


def leaves_of(request: Request) -> tuple[LeafRequest, ...]:
    """Return the requests to carry out: the parts of ``Together``, the request itself, or nothing for a report."""
    if isinstance(request, Together):
        return request.requests
    return () if isinstance(request, Report) else (request,)


def send_results(flow: Flow[T], request: Request, results: Sequence[Any]) -> Request:
    """Send a flow the results of its request, or throw the first error among them unless it wants errors as values."""
    errors = [result for result in results if isinstance(result, BaseException)]
    if errors and not (isinstance(request, Together) and request.return_errors):
        return flow.throw(errors[0])
    return flow.send(list(results) if isinstance(request, Together) else results[0])


def describe(requests: Sequence[LeafRequest]) -> str:
    """Describe requests for traces and errors: ``2 Generate (claim), 1 Retrieve``."""
    roles = ((type(r).__name__, getattr(r, "model", "default")) for r in requests)
    counts = Counter(kind if role == "default" else f"{kind} ({role})" for kind, role in roles)
    return ", ".join(f"{count} {name}" for name, count in counts.items())


@dataclass(frozen=True, slots=True)
class Deadline:
    """Seconds from a driver's call to its result.

    Attributes:
        seconds: above 0.
        reserve: of these, how many at the end are kept from language models: what answers in their stead (the embedded
            reader) needs time too. At least 0, below ``seconds``.

    Raises:
        InputError: one of them is out of range.

    >>> Deadline(3.0, reserve=0.5).reserve
    0.5
    """

    seconds: float
    reserve: float = 0.0

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        if not self.seconds > 0:
            raise InputError(f"A deadline must be a number of seconds above 0, not {self.seconds!r}.")
        if not 0 <= self.reserve < self.seconds:
            raise InputError(f"The reserve of a deadline must be in [0, {self.seconds:g}), not {self.reserve!r}.")


class Clock:
    """The deadline of one call's flows, counted from now; ``None`` for no deadline.

    >>> Clock(None).left([]) is None
    True
    """

    def __init__(self, deadline: Deadline | float | None) -> None:
        self._deadline = Deadline(deadline) if isinstance(deadline, (int, float)) else deadline
        self._start = time.monotonic()

    def left(self, requests: Sequence[LeafRequest]) -> float | None:
        """Return the seconds left for the requests together, 0 when it is over; ``None`` without a deadline."""
        if self._deadline is None:
            return None
        end = self._start + self._deadline.seconds
        if any(isinstance(r, ASKS_MODEL) for r in requests):
            end -= self._deadline.reserve
        return max(0.0, end - time.monotonic())

    def open(self, requests: Sequence[LeafRequest]) -> list[int]:
        """Return the numbers of the requests that there is time to begin, each by itself."""
        return [i for i, r in enumerate(requests) if self.left([r]) != 0]

    def error(self, late: Sequence[LeafRequest]) -> DeadlineError:
        """Make the error for a flow whose requests were not done in time."""
        assert self._deadline is not None, "nothing is late without a deadline"
        seconds, reserve = self._deadline.seconds, self._deadline.reserve
        kept = reserve and any(isinstance(r, ASKS_MODEL) for r in late)
        over = f" ({reserve:g} s of it are kept for answering without the model)" if kept else ""
        return DeadlineError(
            f"The time of {seconds:g} s is over{over}; left undone: {describe(late)}.",
            hint="Give more time (deadline=…), a faster model, fewer samples or fewer passages.",
        )
