"""Parts of a search for an answer: steps, jobs, written segments, and their writer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from shared_core.reflection import Path, Segment
from shared_core.runtime.flow import Flow
from shared_core.types import Passage

Move = Literal["retrieve", "continue", "none", "end"]
"""What comes next on a path: a segment from passages looked up for it, one more from the passage of the last one, one
without any passage, or nothing."""


@dataclass(frozen=True, slots=True)
class Step:
    """A decision about what comes next.

    Attributes:
        move: what it is.
        probability: that retrieving is wanted, among the alternatives, in [0, 1]; ``None`` where unknown.
        reason: why, for people.
    """

    move: Move
    probability: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """Record of a segment.

    Attributes:
        text: as a reader should see it.
        move: how it was begun.
        passage: what it was written from.
        token_ids: as generated, up to its end; empty where text is all there is.
        next: what the model wants after it; ``None`` where that has to be asked.
        fully: P(the passage fully supports it), in [0, 1]; ``None`` if not judged. Partial support counts nothing.
        useful: P(it is useful for the question: a rating of 4 or 5), in [0, 1]; ``None`` if not judged.
        irrelevant: its writer says that the passage has nothing to do with it.
    """

    text: str
    move: Move
    passage: Passage | None = None
    token_ids: tuple[int, ...] = ()
    next: Step | None = None
    fully: float | None = None
    useful: float | None = None
    irrelevant: bool = False


WrittenSegment = Segment[Written]
WrittenPath = Path[Written]


@dataclass(frozen=True, slots=True)
class Job:
    """A segment to be written behind ``path``."""

    path: WrittenPath
    move: Move
    passage: Passage | None = None


class Writer(Protocol):
    """Writes and judges the segments of one question's answer."""

    @property
    def by(self) -> str:
        """Name the judge: ``reflection tokens``, or ``prompted critic`` and how it is read."""
        ...

    @property
    def declined(self) -> bool:
        """Whether the model said that no passage helps: then that nothing was written is an answer."""
        ...

    def begin(self) -> Flow[Step]:
        """Write the beginning of the answer."""
        ...

    def ask_next(self, paths: Sequence[WrittenPath]) -> Flow[list[Step]]:
        """Write the next segment of each path."""
        ...

    def write(self, jobs: Sequence[Job]) -> Flow[list[WrittenSegment | None]]:
        """A judged segment for each job, all in one batch; ``None`` where nothing came of it."""
        ...
