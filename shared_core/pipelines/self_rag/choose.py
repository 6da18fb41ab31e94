"""Choose who writes and judges: a model's reflection tokens if it has them, else prompts."""

from __future__ import annotations

from shared_core.errors import CapabilityError
from shared_core.lm.base import Capabilities, LanguageModel
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.self_rag.prompted import PromptedWriter
from shared_core.pipelines.self_rag.segments import Writer
from shared_core.pipelines.self_rag.with_tokens import TokenWriter
from shared_core.reflection import REFLECTION_TOKENS, ReflectionVocabulary
from shared_core.runtime.flow import Flow, TokenIds

NEEDED = ("verdict_logprobs", "token_prompts", "stop_tokens")
"""What a backend must be able to do for reflection tokens to be read by id."""
_WAY_OUT = "Use a checkpoint trained for Self-RAG with a transformers or vLLM backend, or self_rag.critic='auto'."


def has_reflection_tokens(lm: LanguageModel) -> bool:
    """Whether a model has all fifteen reflection tokens, and its backend can read verdicts by id.

    Raises:
        LanguageModelError: the backend cannot be asked now.
    """
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
    missing = [token for token, i in zip(REFLECTION_TOKENS, found) if i is None]
    shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
    return None, f"{name} has no {shown} as one token" if missing else f"{name} has one id for two reflection tokens"


def require_tokens(run: QuestionRun) -> Flow[None]:
    """Nothing, where ``self_rag.critic`` does not ask for the tokens, or the model has them. No model is called.

    Raises:
        CapabilityError: they are asked for, and the model does not have them all; it names those that are missing.
    """
    if run.settings.self_rag.critic == "tokens":
        vocabulary, why = yield from find_vocabulary(run)
        if vocabulary is None:
            raise missing_tokens(run.abilities.model_name("default"), why)


def choose_writer(question: str, run: QuestionRun) -> Flow[Writer]:
    """By ``settings.self_rag.critic``; the trace says who it is and why.

    Raises:
        CapabilityError: the tokens are asked for, and the model does not have them.
    """
    wanted = run.settings.self_rag.critic
    vocabulary, why = None, "asked for by self_rag.critic"
    if wanted != "prompted":
        vocabulary, why = yield from find_vocabulary(run)
    if vocabulary is None and wanted == "tokens":
        raise missing_tokens(run.abilities.model_name("default"), why)
    writer: Writer = PromptedWriter(question, run) if vocabulary is None else TokenWriter(question, run, vocabulary)
    yield run.note("critic", writer.by, why)
    return writer


def missing_tokens(name: str, why: str) -> CapabilityError:
    """The error of a model that was asked for reflection tokens and cannot be read by them."""
    return CapabilityError("reflection tokens", name, hint=f"{why[:1].upper()}{why[1:]}. {_WAY_OUT}")


def _lacking(capabilities: Capabilities) -> str | None:
    return next((name for name in NEEDED if not getattr(capabilities, name)), None)
