"""How far does a quote support its claim? The best scorer that is at hand, chosen openly.

In order: the engine's judge (an NLI model, …); the model's log-probabilities of "yes" and "no" as continuations; the
probability of its first token; the percentage it states. What cannot be told is ``None``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from shared_core.errors import LanguageModelError
from shared_core.flow import Flow, Generate, Judge, Score, Together
from shared_core.lm.base import Generation, Prompt, SamplingParams, Scores
from shared_core.pipelines.common import Context, Trace
from shared_core.settings import SelfReflectSettings
from shared_core.uncertainty import parse_confidence

Pair = tuple[str, str]
"""(quote, claim)"""

# With and without the space: chat templates differ in what stands before the reply.
_YES = tuple(Prompt.trusted(word) for word in (" yes", "yes", " Yes", "Yes"))
_NO = tuple(Prompt.trusted(word) for word in (" no", "no", " No", "No"))


def support_method(context: Context) -> str | None:
    """Which scorer will be used: ``judge``, ``score``, ``logprobs``, ``verbalised``, or ``None`` if there is none."""
    if context.has_judge:
        return "judge"
    model = context.model("judge")
    if model is None:
        return None
    if model.score:
        return "score"
    return "logprobs" if model.token_logprobs else "verbalised"


def support(
    pairs: Sequence[Pair], settings: SelfReflectSettings, context: Context, trace: Trace
) -> Flow[list[float | None]]:
    """P(quote supports claim) of each pair, calibrated by ``context.calibrations["support"]`` where there is one.

    All pairs go out as one batch; a pair whose request fails is unknown, and the trace says how many are.
    """
    method = support_method(context)
    if not pairs:
        return []
    if method is None:
        found: list[float | None] = [None] * len(pairs)
    elif method == "judge":
        found = list((yield Judge(tuple(pairs))))
    else:
        ask = {"score": _by_score, "logprobs": _by_logprobs, "verbalised": _verbalised}[method]
        found = yield from ask(pairs)
    calibration = context.calibrations.get("support")
    if calibration is not None:
        calibration.require(**support_binding(context))
        found = calibration.probabilities(found)
    known = [p for p in found if p is not None]
    yield trace.add(
        "support",
        method or "none",
        "calibrated on labelled claims" if calibration else "as the scorer gives it, not calibrated",
        pairs=len(pairs),
        unknown=len(pairs) - len(known),
        best=max(known) if known else None,
    )
    return found


def support_binding(context: Context) -> dict[str, str | None]:
    """What a calibration of support is bound to."""
    method = support_method(context)
    judge = context.names.get("judge_scorer") if method == "judge" else context.model_name("judge")
    return {"support_method": method, "model": judge}


def _question(pair: Pair, ask: str) -> Prompt:
    quote, claim = pair
    return (
        Prompt.trusted("Judge only by the quote, not by what you know.\nQuote: ", role="user")
        + Prompt.untrusted(quote, role="user")
        + Prompt.trusted("\nClaim: ", role="user")
        + Prompt.untrusted(claim, role="user")
        + Prompt.trusted(f"\n{ask}", role="user")
    )


def _by_score(pairs: Sequence[Pair]) -> Flow[list[float | None]]:
    ask = "Does the quote support the claim? Answer yes or no."
    requests = [Score(_question(p, ask), (*_YES, *_NO), model="judge") for p in pairs]
    results = yield Together(tuple(requests), return_errors=True)
    return [_share(r.totals) if isinstance(r, Scores) else None for r in _checked(results)]


def _share(totals: Sequence[float]) -> float | None:
    """P(yes) among the ways to say yes and no; ``None`` where a log-probability is NaN or all are impossible."""
    best = max(totals)
    if any(math.isnan(t) for t in totals) or not math.isfinite(best):
        return None
    weights = [math.exp(t - best) for t in totals]
    return sum(weights[: len(_YES)]) / sum(weights)


def _by_logprobs(pairs: Sequence[Pair]) -> Flow[list[float | None]]:
    ask = "Does the quote support the claim? Answer with the single word yes or no."
    params = SamplingParams(max_tokens=3, logprobs=True)
    requests = [Generate(_question(p, ask), params, model="judge") for p in pairs]
    results = yield Together(tuple(requests), return_errors=True)
    return [_first_token(r) if isinstance(r, Generation) else None for r in _checked(results)]


def _first_token(generation: Generation) -> float | None:
    sample = generation.samples[0]
    word = sample.text.strip().lower()
    if not sample.logprobs or not math.isfinite(sample.logprobs[0]):
        return None
    probability = min(1.0, math.exp(sample.logprobs[0]))
    if word.startswith("yes"):
        return probability
    return 1.0 - probability if word.startswith("no") and not word.startswith("not") else None


def _verbalised(pairs: Sequence[Pair]) -> Flow[list[float | None]]:
    ask = "How probable is it, from 0 to 100, that the quote supports the claim? Reply with the number only."
    params = SamplingParams(max_tokens=12)
    requests = [Generate(_question(p, ask), params, model="judge") for p in pairs]
    results = yield Together(tuple(requests), return_errors=True)
    return [parse_confidence(r.text) if isinstance(r, Generation) else None for r in _checked(results)]


def _checked(results: list[object]) -> list[object]:
    """The results as they are; a failure of the model is unknown, any other is a fault of ours and is raised."""
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, LanguageModelError):
            raise result
    return results
