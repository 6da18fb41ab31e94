"""Steps that a stop string cut at an initial or an abbreviation ("John F. ", "the U.S. ") are written on to their end.

Stop strings know no sentences. The samples concerned are continued, all of them in one batch, until the sentence ends;
most steps need no such batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

from shared_core.citation import ends_sentence, split_sentences
from shared_core.lm.base import Generation, Prompt, Sample
from shared_core.pipelines.gating.prompts import SENTENCE_STOP
from shared_core.runtime.flow import Flow, Generate, Together

T = TypeVar("T")

_ROUNDS = 12
"""Initials and abbreviations of one sentence at most."""

Place = tuple[int, int]
"""(number of the request, number of the sample)"""


def finish_sentences(
    asked: Sequence[Generate], written: Sequence[Generation | Exception]
) -> Flow[list[Generation | Exception]]:
    """Cut every sample at the end of its sentence. Errors stay in place.

    A sample that is written on has the tokens and log-probabilities of all its parts, and the hidden state behind the
    last. Its attention weights, where they were asked for, are read again over the whole.

    Args:
        written: their results, in the same order; their samples keep a stop string that ended them (``include_stop``).
    """
    done = {(i, j): s for i, r in enumerate(written) if isinstance(r, Generation) for j, s in enumerate(r.samples)}
    waiting = [place for place, sample in done.items() if _is_cut(sample)]
    joined: set[Place] = set()
    for _ in range(_ROUNDS):
        requests = {p: request for p in waiting if (request := _go_on(asked[p[0]], done[p], p[1])) is not None}
        if not requests:
            break
        found = yield Together(tuple(requests.values()), return_errors=True)
        waiting = []
        for place, result in zip(requests, found):
            whole = _join(done[place], result.samples[0]) if isinstance(result, Generation) else None
            if whole is not None:
                done[place] = whole
                joined.add(place)
                waiting += [place] if _is_cut(whole) else []
    yield from _read_attention_again(asked, done, joined)
    return [
        dataclasses.replace(r, samples=tuple(done[i, j] for j in range(len(r.samples))))
        if isinstance(r, Generation)
        else r
        for i, r in enumerate(written)
    ]


def _is_cut(sample: Sample) -> bool:
    """Whether a stop string ended it where a sentence may well go on."""
    text = sample.text.rstrip()
    untold = sample.stop is None and sample.finish_reason == "stop" and text.endswith(SENTENCE_STOP.strip())
    return (sample.stop == SENTENCE_STOP or untold) and bool(text) and not ends_sentence(text)


def _go_on(asked: Generate, sample: Sample, number: int) -> Generate | None:
    """The request for the rest; ``None`` where no tokens are left."""
    params = asked.params
    used = len(sample.token_ids) or len(sample.tokens or ()) or len(sample.text.split())
    if used >= params.max_tokens:
        return None
    # Equal beginnings are continued independently of each other: the same seed would make them agree.
    seed = None if params.seed is None else params.seed + number + 1
    rest = dataclasses.replace(params, n=1, max_tokens=params.max_tokens - used, seed=seed, attention=False)
    return dataclasses.replace(asked, prompt=asked.prompt + Prompt.untrusted(sample.text.rstrip()), params=rest)


def _join(first: Sample, rest: Sample) -> Sample | None:
    """Both as one sample; ``None`` where the second begins a new sentence, so that the first was one already."""
    start = first.text.rstrip()
    if not rest.text.strip():
        return None
    text = start + rest.text
    if len(split_sentences(text)) > 1 and split_sentences(text)[0][1] <= len(start):
        return None
    kept = _tokens_within(start, first.tokens)
    size = len(kept) if kept is not None else len(first.token_ids)

    def both(a: tuple[T, ...] | None, b: tuple[T, ...] | None) -> tuple[T, ...] | None:
        return None if a is None or b is None else (*(a if kept is None else a[:size]), *b)

    return dataclasses.replace(
        rest,
        text=text,
        token_ids=(*first.token_ids[:size], *rest.token_ids),
        tokens=None if kept is None or rest.tokens is None else (*kept, *rest.tokens),
        logprobs=both(first.logprobs, rest.logprobs),
        entropy=both(first.entropy, rest.entropy),
        logsumexp=both(first.logsumexp, rest.logsumexp),
        alternatives=both(first.alternatives, rest.alternatives),
        attention=None,
    )


def _tokens_within(text: str, tokens: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The tokens that spell the text and nothing beyond it; ``None`` where that cannot be told."""
    if tokens is None:
        return None
    spelt, count = "", 0
    while count < len(tokens) and len(spelt) < len(text):
        spelt += tokens[count]
        count += 1
    return tokens[:count] if spelt == text else None


def _read_attention_again(asked: Sequence[Generate], done: dict[Place, Sample], joined: set[Place]) -> Flow[None]:
    """Weights of samples that were put together: their text is written once more, in one go."""
    places = [p for p in sorted(joined) if asked[p[0]].params.attention and done[p].tokens]
    if not places:
        return
    requests = []
    for i, j in places:
        size = len(done[i, j].tokens or ())
        requests.append(
            dataclasses.replace(asked[i], params=dataclasses.replace(asked[i].params, max_tokens=size, stop=()))
        )
    found = yield Together(tuple(requests), return_errors=True)
    for place, result in zip(places, found):
        text = done[place].text
        if isinstance(result, Generation) and result.text.startswith(text.rstrip()):
            done[place] = dataclasses.replace(result.samples[0], text=text)
