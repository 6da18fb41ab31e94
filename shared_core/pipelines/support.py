"""Score how far a quote supports its claim, with the best scorer available.

In order: the engine's judge (an NLI model, …); the shipped critic; the model's log-probabilities of "yes" and "no" as
continuations; the probability of its first token; the percentage it states. The trace names the one that was used. A
score that cannot be read is ``None``.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from typing import Literal

from shared_core.citation.facts import IMPLIED_AT_LEAST, Comparison, compare_claim
from shared_core.errors import LanguageModelError, LimitError
from shared_core.lm.base import Generation, Prompt, SamplingParams, Scores
from shared_core.pipelines.decision.question_run import Abilities, QuestionRun, attempt, try_reader, within_limits
from shared_core.pipelines.evidence import known_probability, ours, theirs, words_only
from shared_core.pipelines.extractive import QUOTES
from shared_core.pipelines.gating.prompts import own_word_prompt
from shared_core.reading.base import Reading, Verdict
from shared_core.runtime.flow import Flow, Generate, Judge, Score
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage
from shared_core.uncertainty import parse_probability

_YES_OR_NO = lazy_regex(r"\W*(yes|no)\b(?!\W*(?:but|however|only)\b)", re.IGNORECASE)
MODEL_ALONE_AT_MOST = 0.7
"""Largest support where nobody but the model can judge, such as in a language that the critic does not read: models
say 97% of what they invent."""
MODEL_ALONE = f"nobody but the model can judge these, so its word counts for {MODEL_ALONE_AT_MOST:g} at most"
QuotedClaim = tuple[str, str]
"""(quote, claim)"""

# With and without the blank: chat templates differ in whether the reply follows one.
YES = tuple(Prompt.trusted(word) for word in (" yes", "yes", " Yes", "Yes"))
NO = tuple(Prompt.trusted(word) for word in (" no", "no", " No", "No"))
"""Continuations that mean yes and no; scored together, ``YES`` first."""


def judge_at_hand(context: Abilities) -> Literal["judge", "critic"] | None:
    """Name who judges without asking the model: the engine's own judge, else the critic; ``None`` without either."""
    if context.scorer is not None:
        return "judge"
    return "critic" if context.critic is not None else None


def support_method(context: Abilities) -> str | None:
    """Name the scorer that will be used: ``judge critic score logprobs verbalised``; ``None`` if there is none."""
    return judge_at_hand(context) or model_method(context)


def model_method(context: Abilities) -> str | None:
    """Name the way the model will be asked: ``score logprobs verbalised``; ``None`` without a model."""
    model = context.model("judge")
    if model is None:
        return None
    if model.score:
        return "score"
    return "logprobs" if model.token_logprobs else "verbalised"


def support(pairs: Sequence[QuotedClaim], run: QuestionRun) -> Flow[list[float | None]]:
    """Score P(quote supports claim) in [0, 1] for each pair, calibrated by ``calibrations["support"]`` if there is one.

    All pairs go out as one batch. A pair whose request fails is unknown (``None``); the trace says how many are. The
    model is asked about pairs that the critic cannot judge (in another language); its word then counts for
    ``MODEL_ALONE_AT_MOST`` at most. If the budget does not suffice for all pairs, the first ones are judged; once the
    time is over, none.
    """
    context = run.abilities
    if not pairs:
        return []
    # One batch for all pairs: they share the judge's pass, or the prompt's prefix in a model's cache.
    asked = [(*p, "") for p in pairs]
    by = judge_at_hand(context)
    found = (yield from _score(asked, run)) if by is None else (yield from _judge(asked, by, run))
    # Before the model's replies below are added: the calibration was fitted on this scorer's scores only.
    found = _calibrated(found, run)
    unknown = [i for i, p in enumerate(found) if p is None]
    outcome, fitted = support_method(context) or "none", "support" in context.calibrations
    why = "calibrated on labelled claims" if fitted else "as the scorer gives it, not calibrated here"
    # A judge of the user's own is not second-guessed: what it leaves unknown stays unknown.
    if by == "critic" and unknown and model_method(context) is not None:
        rest = yield from _score([asked[i] for i in unknown], run)
        for i, p in zip(unknown, rest):
            found[i] = None if p is None else min(p, MODEL_ALONE_AT_MOST)
        outcome, why = f"{outcome}; {model_method(context)} for {len(unknown)}", f"{why}; {MODEL_ALONE}"
    known = [p for p in found if p is not None]
    best = max(known, default=None)
    yield run.note("support", outcome, why, pairs=len(pairs), unknown=len(pairs) - len(known), best=best)
    return found


def verdicts(
    pairs: Sequence[QuotedClaim],
    run: QuestionRun,
    contexts: Sequence[str] | None = None,
    written: Sequence[str] | None = None,
) -> Flow[list[Verdict | None]]:
    """Verdicts of the engine's judge, else the critic, on each pair; unknown where neither can judge.

    Supports are calibrated by ``calibrations["support"]`` where there is one. A judge that does not tell contradiction
    from missing support gives no refutation. NaN is unknown. A verdict never supports more than the claim's facts allow
    (``compare_claim``); where nobody can judge a claim whose facts the evidence contradicts, they alone decide.

    Args:
        pairs: (evidence, claim).
        contexts: for each pair, text that may name what is spoken of: the rest of the passage, the question.
        written: for each pair, the claim with its backticks and links, where it was stripped of them.

    Raises:
        LimitError: the time is over.
    """
    by = judge_at_hand(run.abilities)
    sound: list[Verdict | None] = [None] * len(pairs)
    if pairs and by is not None:
        judged: tuple[Verdict | None, ...] = yield Judge(tuple(pairs), by=by, verdicts=True)
        supported = _calibrated([known_probability(v.supported) if v else None for v in judged], run)
        sound = [
            None if v is None or p is None else dataclasses.replace(v, supported=p) for v, p in zip(judged, supported)
        ]
    none = [""] * len(pairs)
    facts = [compare_claim(c, e, a, w) for (e, c), a, w in zip(pairs, contexts or none, written or none, strict=True)]
    return [_hold_to_facts(v, f) for v, f in zip(sound, facts, strict=True)]


def _calibrated(supports: list[float | None], run: QuestionRun) -> list[float | None]:
    """Apply ``calibrations["support"]`` where there is one."""
    calibration = run.abilities.calibrations.get("support")
    if calibration is None:
        return supports
    return calibration.require(**support_binding(run.abilities)).probabilities(supports)


def _hold_to_facts(verdict: Verdict | None, facts: Comparison) -> Verdict | None:
    if verdict is None and not facts.implied:
        return Verdict(facts.cap(1.0)) if facts.refuted else None  # agreement alone supports nothing
    if verdict is None:
        return Verdict(IMPLIED_AT_LEAST)
    if facts.implied:
        supported = max(verdict.supported, IMPLIED_AT_LEAST)
        refuted = None if verdict.refuted is None else min(verdict.refuted, 1 - supported)
        return dataclasses.replace(verdict, supported=supported, refuted=refuted)
    return dataclasses.replace(verdict, supported=facts.cap(verdict.supported))


def ask_model(asked: Sequence[tuple[str, str, str]], run: QuestionRun) -> Flow[list[float | None]]:
    """Ask the model for P(the claim is a right answer, by the quote) of each (quote, claim, question)."""
    found = yield from _score(asked, run)
    yield run.note("answers", model_method(run.abilities) or "none", "as the model says", pairs=len(asked))
    return found


JudgeWay = Literal["score", "logprobs", "verbalised"]
"""The form of a model's judgement: scores of yes and no, the probability of its first token, or a percentage."""
_Asked = tuple[str, str, str]
"""(quote, claim, question); with a question, whether the claim answers it as well."""


def judge_prompt(way: JudgeWay, quote: str, claim: str, question: str = "") -> Prompt:
    """Word the question whether a quote supports a claim; with ``question``, whether it shows the claim to be right.

    Question, quote and claim are untrusted: whatever they say, they never become control tokens.
    """
    parts = [("Question: ", question)] if question else []
    parts += [("Quote: ", quote), ("Claim: ", claim)]
    prompt = ours("Judge only by the quote, not by what you know.")
    for label, text in parts:
        prompt += ours(f"\n{label}") + theirs(text)
    verb, rest = ("show", "that the claim is a right answer") if question else ("support", "the claim")
    asks: dict[JudgeWay, str] = {
        "score": f"Does the quote {verb} {rest}? Answer yes or no.",
        "logprobs": f"Does the quote {verb} {rest}? Answer with the single word yes or no.",
        "verbalised": f"How probable is it, from 0 to 100, that the quote {verb}s {rest}? Reply with the number only.",
    }
    return prompt + ours(f"\n{asks[way]}")


def _judge(asked: Sequence[_Asked], by: Literal["judge", "critic"], run: QuestionRun) -> Flow[list[float | None]]:
    try:
        scores = yield Judge(tuple((quote, claim) for quote, claim, _ in asked), by=by)  # it takes no question
    except LimitError as error:
        yield run.stop(error)
        return [None] * len(asked)
    return [known_probability(p) for p in scores]


def _score(asked: Sequence[_Asked], run: QuestionRun) -> Flow[list[float | None]]:
    """Ask the model; unknown without one."""
    found: list[float | None] = [None] * len(asked)
    method = model_method(run.abilities)
    if method is None:
        return found
    requests: list[Generate | Score] = []
    if method == "score":
        requests = [Score(judge_prompt("score", *a), (*YES, *NO), model="judge") for a in asked]
    elif method == "logprobs":
        params = SamplingParams(max_tokens=3, logprobs=True)  # room for a quotation mark or "**" before the word
        requests = [Generate(judge_prompt("logprobs", *a), params, model="judge") for a in asked]
    else:
        params = SamplingParams(max_tokens=12)  # "Probability: 95/100" and the like
        requests = [Generate(judge_prompt("verbalised", *a), params, model="judge") for a in asked]
    results, limit = yield from within_limits(requests)
    if limit is not None:
        yield run.stop(limit)
    stated = parse_probability if method == "verbalised" else None
    found[: len(results)] = [judgement_of(result, stated) for result in results]
    return found


def judgement_of(result: object, stated: Callable[[str], float | None] | None = None) -> float | None:
    """Read P(yes) off a result, by scores of yes and no or the reply's first token; ``None`` if that failed.

    Args:
        stated: reads a reply that states the probability in words.
    """
    if isinstance(result, Scores):
        return share_of_yes(result.totals)
    if not isinstance(result, Generation):
        return None
    return stated(result.text) if stated is not None else yes_of_first_token(result)


def try_critic(pairs: Sequence[tuple[str, str]], run: QuestionRun) -> Flow[list[float | None]]:
    """Ask the shipped critic for P(evidence supports claim) of each pair; unknown without one, or where it fails."""
    if run.abilities.critic is None or not pairs:
        return [None] * len(pairs)
    said = yield from attempt(Judge(tuple(pairs), by="critic"), run, "critic")
    return [None] * len(pairs) if said is None else [known_probability(p) for p in said]


def support_binding(context: Abilities) -> dict[str, str | None]:
    """Return the configuration that a calibration of support is bound to."""
    method = support_method(context)
    names = {"judge": context.scorer, "critic": context.critic}
    model = names[method] if method in names else context.model_identity("judge")
    return {"support_method": method, "model": model}


def share_of_yes(totals: Sequence[float]) -> float | None:
    """Return P(yes) among the ways to say yes and no: a softmax over ``YES`` and ``NO``, summed over ``YES``.

    ``totals`` are the log-probabilities (nats) of the continuations, those of ``YES`` first; ``None`` if one is NaN or
    all are -inf.
    """
    best = max(totals)  # subtracted, so that exp neither overflows nor makes all weights 0
    if any(math.isnan(t) for t in totals) or not math.isfinite(best):
        return None
    weights = [math.exp(t - best) for t in totals]
    return sum(weights[: len(YES)]) / sum(weights)


def yes_of_first_token(generation: Generation) -> float | None:
    """Return P(yes) by the first token of a reply; ``None`` if it says neither yes nor no, or "yes, but …"."""
    sample = generation.samples[0]
    word = _YES_OR_NO.match(sample.text)
    if word is None or not sample.logprobs or not math.isfinite(sample.logprobs[0]):
        return None
    probability = min(1.0, math.exp(sample.logprobs[0]))  # rounding may lift a log-probability above 0
    return probability if word[1].lower() == "yes" else 1.0 - probability  # all that is not "no" counts as yes


def own_word(question: str, text: str, context: Abilities) -> Flow[float | None]:
    """Score the default model's P(True) of an answer without any quote (Kadavath et al. 2022).

    ``None`` if the model cannot score continuations, or the scores are not finite.
    """
    model = context.model("default")
    if model is None or not model.score:
        return None
    try:
        scores: Scores = yield Score(  # blanks before both words: the prompt ends in "It is"
            own_word_prompt(question, text), (Prompt.trusted(" true"), Prompt.trusted(" false"))
        )
    except LanguageModelError:  # a failed reply leaves it unknown; a limit is the caller's to handle
        return None
    true, false = scores.totals  # nats
    if not (math.isfinite(true) and math.isfinite(false)):
        return None
    return 1.0 / (1.0 + math.exp(min(false - true, 700.0)))  # exp overflows above 709


# --- short answers -------------------------------------------------------------------------------------------------

# "1871" states nothing that a critic could compare, but a reader finds answers: one that it finds in the passages, too,
# is as probable as the reader holds it to be.

# Words that an answer may have more or fewer of than the reader's: "in 1871" and "1871" say the same.
_EMPTY = frozenset({"a", "an", "the", "in", "on", "at", "of", "by", "to", "for", "from", "about", "it", "was", "is"})


def find_short_answers(
    question: str, answers: Sequence[str], passages: Sequence[Passage], run: QuestionRun
) -> Flow[list[Reading | None]]:
    """Return the reader's reading of each short answer: the best one that says the same, ``None`` if there is none.

    Nobody is asked without a question, a reader or passages; nor where the engine was given a judge of its own, or
    only support counts (``signals="support_only"``).
    """
    alone = run.settings.signals == "support_only" or support_method(run.abilities) == "judge"
    if not (question and answers and passages and run.abilities.has_reader) or alone or run.trace.limit is not None:
        return [None] * len(answers)
    found = yield from try_reader(question, passages, QUOTES, run)
    asked = {*words_only(question).split(), *_EMPTY}
    known = [r for r in found.readings if r.probability is not None and r.short_answer is not None]
    known.sort(key=lambda r: -(r.probability or 0.0))
    return [next((r for r in known if _says(answer, r, asked)), None) for answer in answers]


def _says(answer: str, reading: Reading, asked: set[str]) -> bool:
    """Return whether an answer holds the reader's words and no others, but for those of the question."""
    said = words_only(answer).split()
    short = words_only(reading.short_answer.text).split() if reading.short_answer is not None else []
    # Without content of its own the reader's answer only repeats the question, and any answer would.
    content = set(short) - asked
    return bool(content) and content <= set(said) and set(said) <= asked | set(short)
