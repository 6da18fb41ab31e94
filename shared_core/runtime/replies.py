"""Make replies readable for pipelines: without a model's thoughts, and empty where there is no answer in them.

A reply that was withheld, refuses by the provider's own field, calls a tool or is nothing but thoughts says as little
as an empty text, and pipelines know what to do about that: ask otherwise, or answer from the documents alone. Other
failures (no connection, a broken server) stay errors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from shared_core.errors import EmptyReplyError
from shared_core.lm.base import Generate, Generation, Sample
from shared_core.lm.chat.read import Kept, kept_tokens
from shared_core.lm.chat.thoughts import find_thoughts
from shared_core.runtime.requests import Flow, LeafRequest, Report, Together, leaves_of, send_results

T = TypeVar("T")
_PER_TOKEN = ("token_ids", "tokens", "logprobs", "entropy", "logsumexp", "alternatives")


def readable(flow: Flow[T], note: Callable[[str], Report]) -> Flow[T]:
    """Wrap a flow, to be closed with it, so that every reply it is sent is readable.

    ``note`` makes the report of replies without an answer from a description of the first.

    >>> from shared_core.lm import Generate, Prompt, ScriptedLM
    >>> from shared_core.runtime.flow import Resources, run
    >>> def ask() -> Flow[str]:
    ...     return (yield Generate(Prompt.untrusted("Where is Aster?"))).text
    >>> lm = ScriptedLM(["<think>A valley?</think>In the valley."])
    >>> run(readable(ask(), note=lambda why: Report(None)), Resources({"default": lm}))
    'In the valley.'
    """
    try:
        request = next(flow)
        while True:
            # Every result by itself, so that one reply without an answer does not hide the others.
            sent = dataclasses.replace(request, return_errors=True) if isinstance(request, Together) else request
            try:
                found = yield sent
            except Exception as error:
                found = error
            if isinstance(request, Report):
                request = flow.send(found)
                continue
            if isinstance(request, Together) and isinstance(found, Exception):  # the batch did not go out
                request = flow.throw(found)
                continue
            results = found if isinstance(request, Together) else [found]
            empty = next((r for r in results if isinstance(r, EmptyReplyError)), None)
            if empty is not None:
                yield note(empty.message)
            request = send_results(flow, request, [_readable(*pair) for pair in zip(leaves_of(request), results)])
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        flow.close()


def _readable(leaf: LeafRequest, result: Any) -> Any:
    if not isinstance(leaf, Generate):
        return result
    if isinstance(result, EmptyReplyError):
        return Generation((Sample(""),) * leaf.params.n)
    if isinstance(result, Generation) and leaf.params.grammar is None:
        return dataclasses.replace(result, samples=tuple(map(_without_thoughts, result.samples)))
    return result


def _without_thoughts(sample: Sample) -> Sample:
    """Take a model's thoughts out of its text, with their tokens; all of it where they have no end."""
    thoughts = find_thoughts(sample.text)
    if not thoughts.stretches:
        return sample
    kept = Kept.all_of(sample.text).without(thoughts.stretches)
    places = None if sample.tokens is None else kept_tokens(sample.tokens, kept)
    of_tokens: dict[str, Any] = {name: _only(getattr(sample, name), places) for name in _PER_TOKEN}
    rows = sample.verdict_logprobs
    return dataclasses.replace(
        sample,
        text=kept.text,
        token_ids=of_tokens.pop("token_ids") or (),
        verdict_logprobs=None if rows is None or places is None else rows[places],
        attention=None,
        **of_tokens,
    )


def _only(values: Sequence[Any] | None, places: Sequence[int] | None) -> tuple[Any, ...] | None:
    """The values of the tokens at these places; ``None`` where they, or the places, are not known."""
    if values is None or places is None or len(values) <= max(places, default=-1):
        return None
    return tuple(values[i] for i in places)
