"""Questions with a few words for answers, read from a model's log-probabilities where it has them, else from votes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from shared_core.lm.base import Generation, Prompt, Sample, SamplingParams, Scores
from shared_core.pipelines.decision.abilities import Abilities
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.self_rag.prompts import CriticQuestion, Words
from shared_core.pipelines.self_rag.segments import ask_all
from shared_core.pipelines.support import model_method
from shared_core.runtime.flow import Flow, Generate, Score

_TOKENS = 5
"""A word of the answer is not longer."""


def critic_method(context: Abilities) -> str:
    """Choose how the critic's answers are read: ``score``, ``logprobs`` or ``votes``."""
    found = model_method(context)
    return found if found in ("score", "logprobs") else "votes"


def ask_critic(questions: Sequence[CriticQuestion], run: QuestionRun) -> Flow[list[dict[str, float]]]:
    """For each question the log-probabilities of its answers, by reflection token; empty where unknown. One batch.

    By ``score``: each word as a continuation, in its usual spellings. By ``logprobs``: the probability of the first
    token of the word it says; what is left goes to the most doubtful other word. By ``votes``: the share of
    samples (``self_rag.published.votes``) that say a word, with half a vote for each word on top, so that a few votes
    for one are not certainty; a sample that says none of the words is no vote.
    """
    method = critic_method(run.abilities)
    params = _params(method, run)
    requests = [
        Score(q.prompt, _spellings(q.words), model="judge") if params is None else Generate(q.prompt, params, "judge")
        for q in questions
    ]
    results = yield from ask_all(requests, run)
    found = [_read(q.words, result, method) for q, result in zip(questions, results)]
    if questions:
        yield run.note("verdicts", method, "", questions=len(questions), unknown=sum(not f for f in found))
    return found


def _params(method: str, run: QuestionRun) -> SamplingParams | None:
    if method == "score":
        return None
    seed = run.settings.seed
    if method == "logprobs":
        return SamplingParams(max_tokens=_TOKENS, logprobs=True, seed=seed)
    votes = run.settings.self_rag.published.votes
    return SamplingParams(max_tokens=_TOKENS, n=votes, temperature=1.0 if votes > 1 else 0.0, seed=seed)


def _spellings(words: Words) -> tuple[Prompt, ...]:
    """With and without a space and a capital: chat templates differ in what stands before the reply."""
    return tuple(Prompt.trusted(s) for word, _ in words for s in _spelt(word))


def _spelt(word: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((f" {word}", word, f" {word.capitalize()}", word.capitalize())))


def _read(words: Words, result: object, method: str) -> dict[str, float]:
    if isinstance(result, Scores):
        return _from_scores(words, result.totals)
    if not isinstance(result, Generation):
        return {}
    return _from_first_token(words, result.samples[0]) if method == "logprobs" else _from_votes(words, result.samples)


def _from_scores(words: Words, totals: Sequence[float]) -> dict[str, float]:
    if any(math.isnan(t) or t == math.inf for t in totals) or not any(map(math.isfinite, totals)):
        return {}
    top, found, start = max(totals), {}, 0
    for word, token in words:
        end = start + len(_spelt(word))
        # Spellings of one word are different continuations: their probabilities add.
        mass = sum(math.exp(t - top) for t in totals[start:end])
        found[token] = math.log(mass) + top if mass > 0 else -math.inf
        start = end
    return found


def _from_first_token(words: Words, sample: Sample) -> dict[str, float]:
    said = _word_of(sample.text, words)
    if said is None or not sample.logprobs or not math.isfinite(sample.logprobs[0]):
        return {}
    p = min(1.0, math.exp(sample.logprobs[0]))
    # The words are ordered from the most doubtful on, so the remainder is counted against the segment.
    doubtful = next(token for _, token in words if token != said)
    found = {token: -math.inf for _, token in words}
    found[said] = math.log(p)
    found[doubtful] = math.log(1.0 - p) if p < 1.0 else -math.inf
    return found


def _from_votes(words: Words, samples: Sequence[Sample]) -> dict[str, float]:
    votes = Counter(v for v in (_word_of(s.text, words) for s in samples) if v is not None)
    if not votes:
        return {}
    # Jeffreys prior, half a vote per word: n of n votes is not certainty.
    total = sum(votes.values()) + 0.5 * len(words)
    return {token: math.log((votes[token] + 0.5) / total) for _, token in words}


def _word_of(text: str, words: Words) -> str | None:
    """The reflection token of the word that a reply begins with."""
    found = re.match(r"\W*(\w+)", text)
    return next((token for word, token in words if found and found[1].casefold() == word), None)
