"""Re-ranking by relevance: the first verdict that a Self-RAG model, or the prompted critic, gives of a passage."""

from __future__ import annotations

from collections.abc import Sequence

from shared_core.lm.base import Sample, SamplingParams
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.rerank import Ranked
from shared_core.pipelines.self_rag.asking import generate_all
from shared_core.pipelines.self_rag.choose import find_vocabulary, missing_tokens
from shared_core.pipelines.self_rag.critic import ask_critic, critic_method
from shared_core.pipelines.self_rag.prompts import ask_relevant
from shared_core.pipelines.self_rag.with_tokens import instruction, lead
from shared_core.reflection import RELEVANCE_TOKENS, ReflectionVocabulary, group_logprobs, relevance_score
from shared_core.runtime.flow import Flow, Generate
from shared_core.types import Passage


def rerank_by_relevance(question: str, passages: Sequence[Passage], run: QuestionRun) -> Flow[list[Ranked]]:
    """Best first by P(relevant) against P(irrelevant), each passage by itself, all in one batch; unknown ones last.

    No passage is compared with another: scores of different requests compare. With reflection tokens one token is
    generated behind each passage, and only the two verdicts' log-probabilities are asked for.

    Raises:
        CapabilityError: ``self_rag.critic`` is ``tokens``, and the model does not have them.
        LimitError: a limit of the settings was reached before all passages were judged.
    """
    if not passages:
        return []
    vocabulary, why = None, ""
    if run.settings.self_rag.critic != "prompted":
        vocabulary, why = yield from find_vocabulary(run)
    if vocabulary is None and run.settings.self_rag.critic == "tokens":
        raise missing_tokens(run.abilities.model_name("default"), why)
    if vocabulary is not None:
        rows, by = (yield from _by_tokens(question, passages, vocabulary, run)), "reflection tokens"
    else:
        rows = yield from ask_critic([ask_relevant(question, p) for p in passages], run)
        by = f"prompted critic, {critic_method(run.abilities)}"
    if run.trace.limit is not None:
        raise run.trace.limit
    scores = [relevance_score(known) if (known := group_logprobs(r, RELEVANCE_TOKENS)) else None for r in rows]
    order = sorted(range(len(passages)), key=lambda i: -1.0 if (s := scores[i]) is None else -s - 1.0)
    return [_ranked(passages[i], scores[i], by) for i in order]


def _ranked(passage: Passage, score: float | None, by: str) -> Ranked:
    if score is None:
        return Ranked(passage, -1.0, None, None, f"its relevance is unknown ({by})")
    return Ranked(passage, score, None, None, f"relevant with probability {score:.2f} by the model's verdict ({by})")


def _by_tokens(
    question: str, passages: Sequence[Passage], vocabulary: ReflectionVocabulary, run: QuestionRun
) -> Flow[list[dict[str, float]]]:
    params = SamplingParams(max_tokens=1, verdicts=vocabulary.of(RELEVANCE_TOKENS), seed=run.settings.seed)
    asked = [Generate(instruction(question) + lead("retrieve", p), params) for p in passages]
    found = yield from generate_all(asked, run)
    return [_first_row(g.samples[0]) if g is not None else {} for g in found]


def _first_row(sample: Sample) -> dict[str, float]:
    rows = sample.verdict_logprobs
    if rows is None or not len(rows):
        return {}
    return {t: float(v) for t, v in zip(RELEVANCE_TOKENS, rows[0])}
