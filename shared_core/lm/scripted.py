"""A scripted language model: the public test double."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from shared_core.errors import CapabilityError, GenerationError, LanguageModelError
from shared_core.lm.base import (
    BaseLanguageModel,
    Capabilities,
    Generate,
    GenerateResult,
    Generation,
    HiddenStates,
    Sample,
    Score,
    ScoreResult,
    Scores,
    States,
    StatesResult,
)
from shared_core.lm.chat.read import find_stop
from shared_core.support.pickling import Portable
from shared_core.types import Usage

Reply = str | Sample | Sequence[str | Sample] | LanguageModelError
"""A text, a sample, one of these for each of ``n`` samples, or the error that the request is to fail with."""


class ScriptedLM(Portable, BaseLanguageModel):
    """Language model that replies from a list (one per request, in order) or from a function of the request.

    Args:
        replies: replies in order, or a function from request to reply.
        capabilities: what to claim; text only by default.
        score: log-probabilities of a continuation: function of (request) → one tuple of floats per continuation.
        states: hidden states: function of (request) → (sequences, d) array.
        token_ids: the ids of the strings that are one token of the scripted model.

    Attributes:
        requests: every request received, in order (``token_ids`` aside).
        batches: sizes of the batches they came in.

    >>> from shared_core.lm import Prompt
    >>> lm = ScriptedLM(["first reply", Sample("second", logprobs=(-0.1,))])
    >>> requests = [Generate(Prompt.untrusted(text)) for text in ("One?", "Two?")]
    >>> [result.text for result in lm.generate(requests)]
    ['first reply', 'second']
    >>> ScriptedLM(lambda request: "Paris").generate([Generate(Prompt.untrusted("Where?"))])[0].text
    'Paris'
    """

    def __init__(
        self,
        replies: Iterable[Reply] | Callable[[Generate], Reply] = (),
        *,
        capabilities: Capabilities | None = None,
        name: str = "scripted",
        score: Callable[[Score], Sequence[Sequence[float]]] | None = None,
        states: Callable[[HiddenStates], np.ndarray] | None = None,
        token_ids: Mapping[str, int] | None = None,
    ) -> None:
        self.name = name
        self.capabilities = capabilities or Capabilities()
        self.requests: list[Generate | Score | HiddenStates] = []
        self.batches: list[int] = []
        self._reply = replies if callable(replies) else None
        self._queue = None if callable(replies) else iter(replies)
        self._score = score
        self._states = states
        self._token_ids = dict(token_ids or {})
        self._lock = threading.Lock()

    def generate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Return the scripted replies, cut at stop strings or (by ids) stop tokens as a real backend would."""
        with self._lock:
            self.batches.append(len(requests))
            return [self._generate_one(r) for r in requests]

    def _generate_one(self, request: Generate) -> GenerateResult:
        self.requests.append(request)
        reply = self._reply(request) if self._reply is not None else next(self._queue or iter(()), None)
        if reply is None:
            return GenerationError("The script has no reply left.", hint="Give ScriptedLM one reply for each request.")
        if isinstance(reply, LanguageModelError):
            return reply
        replies = [reply] * request.params.n if isinstance(reply, (str, Sample)) else list(reply)
        if len(replies) != request.params.n:
            return GenerationError(f"The script gives {len(replies)} samples where {request.params.n} are asked for.")
        samples = tuple(_cut(r if isinstance(r, Sample) else Sample(r), request) for r in replies)
        generated = sum(len(s.token_ids) or len(s.text.split()) for s in samples)
        return Generation(
            samples, Usage(calls=1, prompt_tokens=len(request.prompt.text.split()), generated_tokens=generated)
        )

    def score(self, requests: Sequence[Score]) -> list[ScoreResult]:
        """Return the ``score`` function's values, if one was given."""
        if self._score is None:
            return [CapabilityError("score", self.name) for _ in requests]
        self.requests.extend(requests)
        return [Scores(tuple(tuple(map(float, c)) for c in self._score(r)), Usage(calls=1)) for r in requests]

    def token_ids(self, strings: Sequence[str]) -> list[int | None]:
        """Return the ``token_ids`` that were given."""
        return [self._token_ids.get(s) for s in strings]

    def hidden_states(self, requests: Sequence[HiddenStates]) -> list[StatesResult]:
        """Return the ``states`` function's values, if one was given."""
        if self._states is None:
            return [CapabilityError("hidden_states", self.name) for _ in requests]
        self.requests.extend(requests)
        return [States(np.asarray(self._states(r), dtype=np.float32), Usage(calls=1)) for r in requests]


def _cut(sample: Sample, request: Generate) -> Sample:
    if sample.stop is not None or sample.stop_token_id is not None:
        return sample
    sample = _cut_at_token(sample, request)
    end, stop = find_stop(sample.text, request.params)
    if stop is None:
        return sample
    return dataclasses.replace(sample, text=sample.text[:end], finish_reason="stop", stop=stop, stop_token_id=None)


def _cut_at_token(sample: Sample, request: Generate) -> Sample:
    """Cut the sample after its first stop token, and its text if the text of its tokens is known."""
    ends = set(request.params.stop_token_ids)
    at = next((i for i, token in enumerate(sample.token_ids) if token in ends), None)
    if at is None:
        return sample
    end = at + 1
    tokens = sample.tokens and sample.tokens[:end]
    text = "".join(tokens if request.params.include_stop else tokens[:at]) if tokens else sample.text
    rows = sample.verdict_logprobs
    return dataclasses.replace(
        sample,
        text=text,
        token_ids=sample.token_ids[:end],
        tokens=tokens,
        logprobs=sample.logprobs and sample.logprobs[:end],
        verdict_logprobs=None if rows is None else rows[:end],
        # The row behind the token that now is the last is the one that stood at the token after it.
        next_verdict_logprobs=sample.next_verdict_logprobs if rows is None or len(rows) <= end else rows[end],
        finish_reason="stop",
        stop_token_id=sample.token_ids[at],
    )
