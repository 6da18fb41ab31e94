"""Prompts for models without reflection tokens: to write the next sentence, and to judge it.

Each critic's question is answered by one of a few words, and each word stands for a reflection token; so its answers
are scored by the same formulas. They are read from the model's log-probabilities where it has them, else from votes.
Passages, questions and what a model wrote are untrusted: no text of theirs becomes a control token.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from shared_core.abstention.refusals import is_refusal
from shared_core.lm.base import Generation, Prompt, Sample, SamplingParams, Scores
from shared_core.pipelines.decision.question_run import Abilities, QuestionRun
from shared_core.pipelines.evidence import ours, theirs, titled
from shared_core.pipelines.self_rag.segments import WrittenPath, ask_all
from shared_core.pipelines.support import model_method
from shared_core.reflection.tokens import (
    FULLY_SUPPORTED,
    IRRELEVANT,
    NO_RETRIEVAL,
    NO_SUPPORT,
    PARTIALLY_SUPPORTED,
    RELEVANT,
    RETRIEVAL,
    UTILITY_TOKENS,
)
from shared_core.runtime.flow import Flow, Generate, Score
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

Words = tuple[tuple[str, str], ...]
"""(word, reflection token it stands for), the most doubtful answer first."""

RETRIEVE_WORDS: Words = (("yes", RETRIEVAL), ("no", NO_RETRIEVAL))
MORE_WORDS: Words = (("no", NO_RETRIEVAL), ("yes", RETRIEVAL))
RELEVANT_WORDS: Words = (("no", IRRELEVANT), ("yes", RELEVANT))
SUPPORT_WORDS: Words = (("no", NO_SUPPORT), ("partly", PARTIALLY_SUPPORTED), ("fully", FULLY_SUPPORTED))
# Ascending: the lowest rating is the most doubtful answer.
USEFUL_WORDS: Words = tuple((str(i), token) for i, token in enumerate(UTILITY_TOKENS, 1))

NOTHING = "NOTHING"
_NOTHING = lazy_regex(rf"\W*{NOTHING}\b\W*", re.IGNORECASE)


class CriticQuestion(NamedTuple):
    """A question to the critic, with all that is to be judged, and the words that may answer it."""

    prompt: Prompt
    words: Words


def ask_retrieve(question: str) -> CriticQuestion:
    """Is something to be looked up before answering?"""
    prompt = ours("Question: ") + theirs(question)
    ask = "\nWould passages from documents help to answer it correctly? Reply with one word, yes or no."
    return CriticQuestion(prompt + ours(ask), RETRIEVE_WORDS)


def ask_more(question: str, path: WrittenPath) -> CriticQuestion:
    """Does an answer need one more sentence?"""
    prompt = ours("Question: ") + theirs(question) + ours("\nAnswer so far: ") + theirs(said(path))
    ask = "\nDoes the answer leave part of the question open, so that it needs another sentence? Reply with one word, "
    return CriticQuestion(prompt + ours(f"{ask}yes or no."), MORE_WORDS)


def ask_relevant(question: str, passage: Passage) -> CriticQuestion:
    """Does a passage help to answer?"""
    prompt = ours("Question: ") + theirs(question) + ours("\nPassage: ") + theirs(titled(passage))
    ask = "\nDoes the passage hold something that helps to answer the question? Reply with one word, yes or no."
    return CriticQuestion(prompt + ours(ask), RELEVANT_WORDS)


def ask_support(passage: Passage, text: str) -> CriticQuestion:
    """Ask how far a passage supports a sentence."""
    prompt = ours("Judge only by the passage, not by what you know.\nPassage: ") + theirs(titled(passage))
    prompt += ours("\nStatement: ") + theirs(text)
    ask = "\nHow far does the passage support the statement? Reply with one word: fully, partly, or no (the passage "
    return CriticQuestion(prompt + ours(f"{ask}does not say it, or says otherwise)."), SUPPORT_WORDS)


def ask_useful(question: str, path: WrittenPath, text: str) -> CriticQuestion:
    """Ask how useful an answer is for its question."""
    prompt = ours("Question: ") + theirs(question)
    prompt += ours("\nAnswer: ") + theirs(f"{said(path)} {text}".strip())
    ask = "\nHow useful is the answer for the question, from 1 (not at all) to 5 (answers it well)? Reply with the "
    return CriticQuestion(prompt + ours(f"{ask}number only."), USEFUL_WORDS)


def said(path: WrittenPath) -> str:
    """The answer as far as it goes."""
    return " ".join(s.payload.text for s in path.segments)


def write_prompt(question: str, path: WrittenPath, passage: Passage | None, *, short: bool, closed: bool) -> Prompt:
    """To write one sentence (``short``: the whole answer) from a passage, or from what the model knows.

    The passages of the sentences before it stay in the prompt. What all passages of a step share comes first, so that
    a backend computes it once.
    """
    what = _task(short=short, closed=closed)
    source = "from what you know" if passage is None else "from the passages alone"
    prompt = ours(f"Write {what}, {source}. Write no marks of citations and nothing else. ")
    if passage is not None:
        prompt += ours(f"If the last passage says nothing that helps, write only: {NOTHING} ")
    prompt += ours("\nQuestion: ") + theirs(question)
    if path.segments:
        prompt += ours("\nAnswer so far: ") + theirs(said(path))
    for used in _evidence(path, passage):
        prompt += ours("\nPassage: ") + theirs(titled(used))
    return prompt + ours("\nThe sentence:" if not short else "\nThe answer:")


def _task(*, short: bool, closed: bool) -> str:
    if not short:
        return "the next sentence of an answer to the question"
    return "the answer to the question, in as few words as it can be said" if closed else "an answer to the question"


def _evidence(path: WrittenPath, passage: Passage | None) -> Sequence[Passage]:
    """The passages of the path, each once, and the new one last."""
    if passage is None:
        return ()
    # In order of first use, so that the prompts of one path share their beginning from step to step.
    used = {s.passage_id: s.payload.passage for s in path.segments if s.payload.passage is not None}
    return (*(p for p in used.values() if p is not None and p.id != passage.id), passage)


def says_nothing(text: str) -> bool:
    """Whether a reply says that the passage does not help."""
    return _NOTHING.fullmatch(text.strip()) is not None or is_refusal(text)


_TOKENS = 5
"""A word of the answer is not longer."""


def critic_method(context: Abilities) -> str:
    """Choose how the critic's answers are read: ``score``, ``logprobs`` or ``votes``."""
    # A model without figures ("verbalised") is asked for words several times, not for a percentage.
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
    # Votes at temperature 0 would all be the same.
    return SamplingParams(max_tokens=_TOKENS, n=votes, temperature=1.0 if votes > 1 else 0.0, seed=seed)


def _spellings(words: Words) -> tuple[Prompt, ...]:
    """With and without a space and a capital: chat templates differ in what stands before the reply."""
    return tuple(Prompt.trusted(s) for word, _ in words for s in _spelt(word))


def _spelt(word: str) -> tuple[str, ...]:
    # Each once: a digit has no capital, and its probability would count twice.
    return tuple(dict.fromkeys((f" {word}", word, f" {word.capitalize()}", word.capitalize())))


def _read(words: Words, result: object, method: str) -> dict[str, float]:
    if isinstance(result, Scores):
        return _from_scores(words, result.totals)
    if not isinstance(result, Generation):
        return {}
    return _from_first_token(words, result.samples[0]) if method == "logprobs" else _from_votes(words, result.samples)


def _from_scores(words: Words, totals: Sequence[float]) -> dict[str, float]:
    # totals: log-probabilities (nats), word by word, each in all its spellings.
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
    p = min(1.0, math.exp(sample.logprobs[0]))  # rounding may lift a log-probability above 0
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
