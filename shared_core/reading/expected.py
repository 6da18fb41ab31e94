"""The share of questions that the documents answer: given by the user, or estimated from the questions asked."""

from __future__ import annotations

import threading
from collections import deque

from shared_core.errors import InputError
from shared_core.reading.base import ReadResult
from shared_core.reading.confidence import estimate_share, shift
from shared_core.support.pickling import Portable

LEAST = 20
"""Minimum questions before the estimate is used."""
KEPT = 2000
"""Maximum recent questions in the estimate."""
USUAL = 0.75
"""Default share: most questions to an app are about its documents."""


class ExpectedShare(Portable):
    """Tracks the share of questions that the documents answer. Thread-safe.

    Args:
        stated: the share, in (0, 1); ``auto`` begins at ``USUAL`` and estimates it from the questions asked (without
            labels, by expectation maximisation) as soon as ``LEAST`` have been. Then what a question is answered with
            depends on the ones before it.

    Raises:
        InputError: ``stated`` out of range.
    """

    def __init__(self, stated: float | str = USUAL) -> None:
        self._estimated = stated == "auto"
        self._stated = USUAL if isinstance(stated, str) else stated
        if not 0 < self._stated < 1 or (isinstance(stated, str) and not self._estimated):
            raise InputError(f"The expected share must be in (0, 1) or 'auto', not {stated!r}.", hint="Usual: 0.75.")
        self._seen: deque[float] = deque(maxlen=KEPT)
        self._value = self._stated
        self._lock = threading.Lock()

    @property
    def value(self) -> float:
        """Current estimate of the share."""
        return self._value

    def see(self, result: ReadResult) -> None:
        """Add the result of another question."""
        if not self._estimated or result.answerable is None or result.expected is None:
            return
        with self._lock:
            # all at one assumed share, whatever was assumed when they were asked
            self._seen.append(shift(result.answerable, result.expected, self._stated))
            if len(self._seen) >= LEAST:
                self._value = estimate_share(list(self._seen), self._stated)
