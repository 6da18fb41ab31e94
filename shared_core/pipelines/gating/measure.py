"""Uncertainty of a model about what it would write: one sampling pass, all the estimators asked for.

Every prompt's greedy continuation and its samples go out as one batch with those of the other prompts, so that a
backend with tree decoding shares their prefixes. Steps that a stop string cut at an initial or an abbreviation
("John F. ", "the U.S. ") are written on to their end: stop strings know no sentences. The samples concerned are
continued, all of them in one batch, until the sentence ends; most steps need no such batch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from shared_core.citation import ends_sentence, split_sentences
from shared_core.errors import ContextOverflowError
from shared_core.lm.base import Capture, Generation, Prompt, Sample, SamplingParams
from shared_core.pipelines.gating.alternatives import MOST, ClaimUncertainty
from shared_core.pipelines.gating.choose import ChosenEstimator
from shared_core.pipelines.gating.prompts import SENTENCE_STOP
from shared_core.pipelines.gating.statistics import Drawn, gather
from shared_core.runtime.flow import Flow, Generate, Together
from shared_core.uncertainty import Cost, Estimator, SampleStatistics

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
            # A continuation that failed, or begins a new sentence, leaves the sample as it was.
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
    # Some servers do not say which stop string it was.
    untold = sample.stop is None and sample.finish_reason == "stop" and text.endswith(SENTENCE_STOP.strip())
    return (sample.stop == SENTENCE_STOP or untold) and bool(text) and not ends_sentence(text)


def _go_on(asked: Generate, sample: Sample, number: int) -> Generate | None:
    """The request for the rest; ``None`` where no tokens are left."""
    params = asked.params
    # Words where no tokens are known: an estimate, and rather too low than too high.
    used = len(sample.token_ids) or len(sample.tokens or ()) or len(sample.text.split())
    if used >= params.max_tokens:
        return None
    # Equal beginnings are continued independently of each other: the same seed would make them agree.
    seed = None if params.seed is None else params.seed + number + 1
    rest = dataclasses.replace(params, n=1, max_tokens=params.max_tokens - used, seed=seed, attention=False)
    return dataclasses.replace(asked, prompt=asked.prompt + Prompt.untrusted(sample.text.rstrip()), params=rest)


def _join(first: Sample, rest: Sample) -> Sample | None:
    """Both as one sample; ``None`` where the second begins a new sentence, so that the first was one already."""
    start = first.text.rstrip()  # without the stop's blank, which `rest` brings along
    if not rest.text.strip():
        return None
    text = start + rest.text
    if len(split_sentences(text)) > 1 and split_sentences(text)[0][1] <= len(start):
        return None
    # Tokens beyond that text go, too, so that all lists stay aligned with it.
    kept = _tokens_within(start, first.tokens)
    size = len(kept) if kept is not None else len(first.token_ids)

    def both(a: tuple[T, ...] | None, b: tuple[T, ...] | None) -> tuple[T, ...] | None:
        # Half of a list would be read as if it were the whole sentence's.
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
        attention=None,  # read again over the whole, if it was asked for
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
        # Drafts are greedy, so the model writes the same again; their number of tokens ends it, no stop string.
        size = len(done[i, j].tokens or ())
        requests.append(
            dataclasses.replace(asked[i], params=dataclasses.replace(asked[i].params, max_tokens=size, stop=()))
        )
    found = yield Together(tuple(requests), return_errors=True)
    for place, result in zip(places, found):
        text = done[place].text
        # Another batch may round otherwise and write something else; then the weights stay unknown.
        if isinstance(result, Generation) and result.text.startswith(text.rstrip()):
            done[place] = dataclasses.replace(result.samples[0], text=text)


# --- measuring -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measurement:
    """A draft of the model with its uncertainty.

    Attributes:
        greedy: the greedy continuation, with token log-probabilities where the model gives them.
        uncertainty: higher = less certain; +inf where it is unknown, as it is of an empty continuation, or where
            the model does not give the figures (log-probabilities) that it was asked for.
        samples: the sampled continuations; empty for estimators that need none.
        others: uncertainties of the further estimators asked for.
        empty: how many of the samples are empty.
        claims: the greedy continuation's sentences with their claim-conditioned uncertainty, where that was asked for.
        error: why there is none of this, where the prompt did not fit (only if that was to be tolerated).
    """

    greedy: Sample
    uncertainty: float
    samples: tuple[Sample, ...] = ()
    others: dict[str, float] = field(default_factory=dict)
    empty: int = 0
    error: ContextOverflowError | None = None
    claims: tuple[ClaimUncertainty, ...] = ()

    @property
    def text(self) -> str:
        """The greedy continuation on one line."""
        return " ".join(self.greedy.text.split())

    @property
    def known(self) -> float | None:
        """The uncertainty, ``None`` where it is unknown (for traces)."""
        return self.uncertainty if math.isfinite(self.uncertainty) else None


def measure(
    prompts: Sequence[Prompt],
    chosen: ChosenEstimator,
    *,
    stop: tuple[str, ...] = (),
    max_tokens: int | None = None,
    question: str | Sequence[str] = "",
    attention: bool = False,
    tolerate_overflow: bool = False,
    draft_only: bool = False,
) -> Flow[list[Measurement]]:
    """Measure the greedy continuation and the uncertainty of each prompt; requests of a kind go out in one batch.

    Results in the cache (``ChosenEstimator.measured``) are not asked for again, if a seed makes them repeatable.

    Args:
        stop: ends a continuation; kept in the text.
        max_tokens: at most; ``max_step_tokens`` of the settings if not given.
        question: stands before samples where a judge compares their meanings; one for all prompts, or each its own.
        attention: have the greedy continuations' attention weights and entropies as well (DRAGIN).
        tolerate_overflow: a prompt that does not fit the context gives a measurement with ``error`` instead of
            raising, and the others go on.
        draft_only: only write the greedy continuation: its uncertainty is unknown, and costs nothing.

    Raises:
        LanguageModelError: the model failed at a prompt.
    """
    limit = max_tokens or chosen.options.max_step_tokens
    estimators = () if draft_only else (chosen.estimator, *chosen.also)
    needs: set[str] = {need for e in estimators for need in e.needs}
    ask = _Ask(
        greedy=_greedy(chosen, needs, stop, limit, attention),
        sampling=_sampling(chosen, needs, stop, limit) if any(e.cost >= Cost.SAMPLES for e in estimators) else None,
        estimators=tuple(e.name for e in estimators),
    )
    asked = [question] * len(prompts) if isinstance(question, str) else list(question)
    # Without a seed two measurements are two draws, and a cached one would hide the difference.
    known = chosen.measured if chosen.seed is not None else None
    before = [known.get((*pair, ask)) if known is not None else None for pair in zip(prompts, asked, strict=True)]
    found = [m if isinstance(m, Measurement) else None for m in before]
    open_ = [i for i, m in enumerate(found) if m is None]
    if open_:
        some = [prompts[i] for i in open_], [asked[i] for i in open_]
        made = yield from _measure(*some, ask, chosen, needs, tolerate_overflow)
        for i, one in zip(open_, made, strict=True):
            found[i] = one
            if known is not None and one.error is None:
                # the states are large, and were read
                known[prompts[i], asked[i], ask] = replace(
                    one, samples=tuple(replace(s, hidden_state=None) for s in one.samples)
                )
    return [m for m in found if m is not None]


@dataclass(frozen=True, slots=True)
class _Ask:
    """The requests for each prompt, and how their results are read."""

    greedy: SamplingParams
    sampling: SamplingParams | None
    estimators: tuple[str, ...]


def _measure(
    prompts: Sequence[Prompt],
    questions: Sequence[str],
    ask: _Ask,
    chosen: ChosenEstimator,
    needs: set[str],
    tolerate_overflow: bool,
) -> Flow[list[Measurement]]:
    # Order: P greedy requests, then P sampling requests, so result i belongs to prompt i % P.
    requests = [Generate(p, ask.greedy) for p in prompts]
    requests += [Generate(p, ask.sampling) for p in prompts] if ask.sampling is not None else []
    written = yield Together(tuple(requests), return_errors=True)
    results = yield from finish_sentences(requests, written)
    found: list[Measurement | None] = [None] * len(prompts)
    for i, result in enumerate(results):
        if isinstance(result, ContextOverflowError) and tolerate_overflow:
            found[i % len(prompts)] = Measurement(Sample("", finish_reason="length"), math.inf, error=result)
        elif isinstance(result, Exception):
            raise result
    # Prompts whose greedy and sampled requests both fit.
    fine = [i for i, m in enumerate(found) if m is None]
    texts = [r.samples if isinstance(r, Generation) else () for r in results]  # errors were raised or are tolerated
    drawn = [Drawn(prompts[i], texts[i][0], texts[len(prompts) + i] if ask.sampling else ()) for i in fine]
    if not ask.estimators:
        for i, one in zip(fine, drawn):
            found[i] = Measurement(one.draft, math.inf)
        return [m for m in found if m is not None]
    every = yield from gather(drawn, chosen, needs, [questions[i] for i in fine])
    for i, one, gathered in zip(fine, drawn, every):
        told = gathered.statistics
        others = {e.name: _estimate(e, told, one.draft) for e in chosen.also}
        uncertainty = _estimate(chosen.estimator, told, one.draft)
        found[i] = Measurement(one.draft, uncertainty, one.samples, others, told.empty_samples, claims=gathered.claims)
    return [m for m in found if m is not None]


def _estimate(estimator: Estimator, statistics: SampleStatistics, draft: Sample) -> float:
    """Unknown where nothing was written, most of the samples are empty, or the model gives no figures as asked."""
    # Empty samples are all alike, so spread and agreement would call a silent model certain.
    if not draft.text.strip() or (statistics.k and 2 * statistics.empty_samples > statistics.k):
        return math.inf
    return estimator.estimate(statistics, asked=True)


def _greedy(
    chosen: ChosenEstimator, needs: set[str], stop: tuple[str, ...], limit: int, attention: bool
) -> SamplingParams:
    # Attention weights cost another pass (transformers): only where the gate or the estimator reads them.
    attention = attention or bool(needs & {"attention", "previous_attention"})
    return SamplingParams(
        max_tokens=limit,
        stop=stop,
        include_stop=True,  # else a step would lose its full stop
        logprobs="token_logprobs" in chosen.abilities,  # whatever the estimator: queries are made of certain words
        token_statistics=attention or "token_statistics" in needs,
        attention=attention,
        alternatives=MOST if "alternatives" in needs else 0,
        seed=chosen.seed,
    )


def _sampling(chosen: ChosenEstimator, needs: set[str], stop: tuple[str, ...], limit: int) -> SamplingParams:
    options = chosen.options
    # By default SeaKR's state: the MLP output of the middle layer at the end-of-sequence token, one (d,) per sample.
    capture = Capture(options.published.layer, options.published.hidden, options.published.position)
    return SamplingParams(
        n=options.samples,
        max_tokens=limit,
        temperature=options.published.temperature,
        top_k=options.published.top_k_sampling,
        top_p=options.published.top_p,
        stop=stop,
        include_stop=True,
        logprobs="token_logprobs" in needs,
        capture=capture if "hidden_states" in needs else None,
        seed=chosen.seed,
    )
