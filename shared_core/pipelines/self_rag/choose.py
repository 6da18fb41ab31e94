"""Choose who writes, judges and rates passages: a model's reflection tokens if it has them, else prompts."""

from __future__ import annotations

from collections.abc import Sequence

from shared_core.errors import CapabilityError
from shared_core.lm.base import Capabilities, LanguageModel, Sample, SamplingParams
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.rerank import Ranked
from shared_core.pipelines.self_rag.prompted import PromptedWriter
from shared_core.pipelines.self_rag.prompts import ask_critic, ask_relevant, critic_method
from shared_core.pipelines.self_rag.segments import Writer, generate_all
from shared_core.pipelines.self_rag.with_tokens import TokenWriter, instruction, lead
from shared_core.reflection import (
    REFLECTION_TOKENS,
    RELEVANCE_TOKENS,
    ReflectionVocabulary,
    group_logprobs,
    relevance_score,
)
from shared_core.runtime.flow import Flow, Generate, TokenIds
from shared_core.types import Passage

NEEDED = ("verdict_logprobs", "token_prompts", "stop_tokens")
"""What a backend must be able to do for reflection tokens to be read by id."""
_WAY_OUT = "Use a checkpoint trained for Self-RAG with a transformers or vLLM backend, or self_rag.critic='auto'."


def has_reflection_tokens(lm: LanguageModel) -> bool:
    """Whether a model has all fifteen reflection tokens, and its backend can read verdicts by id.

    LanguageModelError if the backend cannot be asked now.
    """
    # Abilities first: looking up ids may mean asking a server.
    if _lacking(lm.capabilities) is not None:
        return False
    return ReflectionVocabulary.of_lookup(lm.token_ids(REFLECTION_TOKENS)) is not None


def find_vocabulary(run: QuestionRun) -> Flow[tuple[ReflectionVocabulary | None, str]]:
    """The default model's reflection tokens, or ``None`` and why they cannot be used."""
    capabilities, name = run.abilities.model("default"), run.abilities.model_name("default")
    lacking = _lacking(capabilities) if capabilities is not None else "text"
    if lacking is not None:
        return None, f"{name} has no {lacking}"
    found: tuple[int | None, ...] = yield TokenIds(REFLECTION_TOKENS)
    vocabulary = ReflectionVocabulary.of_lookup(found)
    if vocabulary is not None:
        return vocabulary, ""
    # of_lookup refuses for one of two reasons: a token is missing, or two have the same id.
    missing = [token for token, i in zip(REFLECTION_TOKENS, found) if i is None]
    shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
    return None, f"{name} has no {shown} as one token" if missing else f"{name} has one id for two reflection tokens"


def require_tokens(run: QuestionRun) -> Flow[None]:
    """Refuse a model that lacks a token, where ``self_rag.critic`` asks for the tokens. No model is called.

    The CapabilityError names those that are missing.
    """
    if run.settings.self_rag.critic == "tokens":
        yield from _wanted_vocabulary(run)


def _wanted_vocabulary(run: QuestionRun) -> Flow[tuple[ReflectionVocabulary | None, str]]:
    """The tokens, where ``self_rag.critic`` wants them and the model has them, else why not; raises as above."""
    wanted = run.settings.self_rag.critic
    if wanted == "prompted":
        return None, "asked for by self_rag.critic"
    vocabulary, why = yield from find_vocabulary(run)
    if vocabulary is None and wanted == "tokens":
        raise missing_tokens(run.abilities.model_name("default"), why)
    return vocabulary, why


def choose_writer(question: str, run: QuestionRun) -> Flow[Writer]:
    """By ``settings.self_rag.critic``; the trace says who it is and why. CapabilityError as of ``require_tokens``."""
    vocabulary, why = yield from _wanted_vocabulary(run)
    writer: Writer = PromptedWriter(question, run) if vocabulary is None else TokenWriter(question, run, vocabulary)
    yield run.note("critic", writer.by, why)
    return writer


def missing_tokens(name: str, why: str) -> CapabilityError:
    """The error of a model that was asked for reflection tokens and cannot be read by them."""
    return CapabilityError("reflection tokens", name, hint=f"{why[:1].upper()}{why[1:]}. {_WAY_OUT}")


def _lacking(capabilities: Capabilities) -> str | None:
    return next((name for name in NEEDED if not getattr(capabilities, name)), None)


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
    vocabulary, _ = yield from _wanted_vocabulary(run)
    if vocabulary is not None:
        rows, by = (yield from _by_tokens(question, passages, vocabulary, run)), "reflection tokens"
    else:
        rows = yield from ask_critic([ask_relevant(question, p) for p in passages], run)
        by = f"prompted critic, {critic_method(run.abilities)}"
    # Limits were caught and marked in the run; a ranking of some passages only would be wrong.
    if run.trace.limit is not None:
        raise run.trace.limit
    scores = [relevance_score(known) if (known := group_logprobs(r, RELEVANCE_TOKENS)) else None for r in rows]
    # s in [0, 1] becomes [-2, -1]: an unknown score comes last, with those of 0.
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
    found = yield from generate_all(asked, run, may_all_overflow=True)
    return [_first_row(g.samples[0]) if g is not None else {} for g in found]


def _first_row(sample: Sample) -> dict[str, float]:
    # (T, 2): T = 1 generated position, columns as in RELEVANCE_TOKENS.
    rows = sample.verdict_logprobs
    if rows is None or not len(rows):
        return {}
    return {t: float(v) for t, v in zip(RELEVANCE_TOKENS, rows[0])}
