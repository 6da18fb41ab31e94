"""Describe the attempts of a request: how one failed, by when all must be over, how long to wait before the next."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from shared_core.errors import LanguageModelError, ResponseError
from shared_core.lm.chat.failures import TRANSIENT

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
_LONGEST_ASKED = 60.0
"""No server makes us wait longer than that between two attempts."""
_USUAL_DEADLINE = 600.0


class Failure(Exception):
    """A failed request: the error to hand on, and the facts that retrying and probing need.

    Attributes:
        error: of the tree, without secrets.
        status: HTTP status; ``None`` where there was no usable answer.
        transient: trying again may help.
        retry_after: seconds the server asked us to wait.
    """

    def __init__(
        self,
        error: LanguageModelError,
        *,
        status: int | None = None,
        transient: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.status = status
        self.transient = transient
        self.retry_after = retry_after

    @property
    def refused(self) -> bool:
        """Whether the server understood the request and does not support it: an answer to a probe, not a failure.

        A 500 that names a field of the request is one too (llama-cpp-python answers so), and is not repeated.
        """
        return self.status is not None and not self.busy and self.status not in (401, 403)

    @property
    def busy(self) -> bool:
        """Whether the server gave no verdict at all, so that asking again may help."""
        if self.status is None:
            return not isinstance(self.error, ResponseError)
        return self.status in TRANSIENT - {409, 500}


class Deadline:
    """A moment by which all attempts must be over.

    Args:
        seconds: from now on, for a whole call with all its requests; infinite for no limit. ``None``: so that nothing
            waits for ever, each request has ten minutes, from when its first attempt begins.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = _USUAL_DEADLINE if seconds is None else seconds
        self._own = seconds is None
        self._end = math.inf if seconds is None else time.monotonic() + seconds

    @property
    def remaining(self) -> float:
        """Return the seconds left, at least 0; infinite before it has begun."""
        return max(0.0, self._end - time.monotonic())

    def begin(self) -> None:
        """Start an attempt; the first one starts a request's own time."""
        if self._own and math.isinf(self._end):
            self._end = time.monotonic() + self.seconds

    def for_request(self) -> Deadline:
        """Return the deadline of one request of the call: this one, or a new one of its own."""
        return Deadline(None) if self._own else self


def wait(state: Any) -> float:
    """Back off exponentially with jitter on the upper half; at least what the server asked for, up to a minute."""
    backoff: float = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** (state.attempt_number - 1))
    failure = state.outcome.exception() if state.outcome is not None else None
    asked = failure.retry_after if isinstance(failure, Failure) and failure.retry_after is not None else 0.0
    jittered: float = backoff * random.uniform(0.5, 1.0)
    return max(jittered, min(asked, _LONGEST_ASKED))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to be left alone; ``None`` if it does not, or not readably."""
    value = headers.get("retry-after-ms") or ""
    try:
        if value:
            return max(0.0, float(value) / 1000)
        value = headers.get("retry-after") or ""
        if not value:
            return None
        try:
            seconds = float(value)
        except ValueError:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
