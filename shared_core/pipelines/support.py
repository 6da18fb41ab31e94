"""How far does a quote support its claim? The best scorer that is at hand, chosen openly.

In order: the engine's judge (an NLI model, …); the model's log-probabilities of "yes" and "no" as continuations; the
probability of its first token; the percentage it states. What cannot be told is ``None``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from shared_core.errors import BudgetError, LimitError
from shared_core.flow import Flow, Generate, Judge, Score, Together
from shared_core.lm.base import Generation, Prompt, SamplingParams, Scores
from shared_core.pipelines.common import Context, Run, raise_faults
from shared_core.uncertainty import parse_confidence

QuotedClaim = tuple[str, str]
"""(quote, claim)"""

# With and without the space: chat templates differ in what stands before the reply.
_YES = tuple(Prompt.trusted(word) for word in (" yes", "yes", " Yes", "Yes"))
_NO = tuple(Prompt.trusted(word) for word in (" no", "no", " No", "No"))


def support_method(context: Context) -> str | None:
    """Which scorer will be used: ``judge``, ``score``, ``logprobs``, ``verbalised``, or ``None`` if there is none."""
    if context.scorer is not None:
        return "judge"
    model = context.model("judge")
    if model is None:
        return None
    if model.score:
        return "score"
    return "logprobs" if model.token_logprobs else "verbalised"


def support(pairs: Sequence[QuotedClaim], run: Run) -> Flow[list[float | None]]:
    """P(quote supports claim) of each pair, calibrated by ``calibrations["support"]`` where there is one.

    All pairs go out as one batch; a pair whose request fails is unknown, and the trace says how many are. Where the
    budget does not suffice for all of them the first ones are judged, and the rest are unknown, as all are when the
    time is over.
    """
    context = run.context
    method = support_method(context)
    if not pairs:
        return []
    found: list[float | None] = [None] * len(pairs)
    try:
        found = yield from _score(method, pairs)
    except LimitError as error:
        yield run.stop(error)
        if isinstance(error, BudgetError) and error.calls_left:
            first = yield from _score(method, pairs[: error.calls_left])
            found[: len(first)] = first
    calibration = context.calibrations.get("support")
    if calibration is not None:
        calibration.require(**support_binding(context))
        found = calibration.probabilities(found)
    known = [p for p in found if p is not None]
    yield run.note(
        "support",
        method or "none",
        "calibrated on labelled claims" if calibration else "as the scorer gives it, not calibrated",
        pairs=len(pairs),
        unknown=len(pairs) - len(known),
        best=max(known) if known else None,
    )
    return found


def _score(method: str | None, pairs: Sequence[QuotedClaim]) -> Flow[list[float | None]]:
    if method is None:
        return [None] * len(pairs)
    if method == "judge":
        return list((yield Judge(tuple(pairs))))
    ask = {"score": _score_by_continuations, "logprobs": _score_by_first_token, "verbalised": _score_by_percentage}
    return (yield from ask[method](pairs))


def support_binding(context: Context) -> dict[str, str | None]:
    """What a calibration of support is bound to."""
    method = support_method(context)
    return {"support_method": method, "model": context.scorer if method == "judge" else context.model_name("judge")}


def _question(pair: QuotedClaim, ask: str) -> Prompt:
    quote, claim = pair
    return (
        Prompt.trusted("Judge only by the quote, not by what you know.\nQuote: ", role="user")
        + Prompt.untrusted(quote, role="user")
        + Prompt.trusted("\nClaim: ", role="user")
        + Prompt.untrusted(claim, role="user")
        + Prompt.trusted(f"\n{ask}", role="user")
    )


def _score_by_continuations(pairs: Sequence[QuotedClaim]) -> Flow[list[float | None]]:
    ask = "Does the quote support the claim? Answer yes or no."
    requests = [Score(_question(p, ask), (*_YES, *_NO), model="judge") for p in pairs]
    results = yield Together(tuple(requests), return_errors=True)
    raise_faults(results)
    return [_share(r.totals) if isinstance(r, Scores) else None for r in results]


def _share(totals: Sequence[float]) -> float | None:
    """P(yes) among the ways to say yes and no; ``None`` where a log-probability is NaN or all are impossible."""
    best = max(totals)
    if any(math.isnan(t) for t in totals) or not math.isfinite(best):
        return None
    weights = [math.exp(t - best) for t in totals]
    return sum(weights[: len(_YES)]) / sum(weights)


def _score_by_first_token(pairs: Sequence[QuotedClaim]) -> Flow[list[float | None]]:
    ask = "Does the quote support the claim? Answer with the single word yes or no."
    params = SamplingParams(max_tokens=3, logprobs=True)
    requests = [Generate(_question(p, ask), params, model="judge") for p in pairs]
    results = yield Together(tuple(requests), return_errors=True)
    raise_faults(results)
    return [_first_token(r) if isinstance(r, Generation) else None for r in results]


def _first_token(generation: Generation) -> float | None:
    sample = generation.samples[0]
    word = sample.text.strip().lower()
    if not sample.logprobs or not math.isfinite(sample.logprobs[0]):
        return None
    probability = min(1.0, math.exp(sample.logprobs[0]))
    if word.startswith("yes"):
        return probability
    return 1.0 - probability if word.startswith("no") and not word.startswith("not") else None


def _score_by_percentage(pairs: Sequence[QuotedClaim]) -> Flow[list[float | None]]:
    ask = "How probable is it, from 0 to 100, that the quote supports the claim? Reply with the number only."
    params = SamplingParams(max_tokens=12)
    requests = [Generate(_question(p, ask), params, model="judge") for p in pairs]
    results = yield Together(tuple(requests), return_errors=True)
    raise_faults(results)
    return [parse_confidence(r.text) if isinstance(r, Generation) else None for r in results]
