"""The protocol of language model backends, and their capabilities.

A backend takes many requests (``requests``) at once and gives one result (``results``) for each, in order; a request
that fails gives its error as the result, so that one bad prompt never takes the others down. Requests that share a
prefix share its computation where the backend can; callers never have to arrange for that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Protocol, TypeVar, runtime_checkable

from shared_core.errors import CapabilityError, ContextOverflowError, InputError, LanguageModelError
from shared_core.lm.requests import Capture as Capture
from shared_core.lm.requests import Generate as Generate
from shared_core.lm.requests import Grammar as Grammar
from shared_core.lm.requests import HiddenKind as HiddenKind
from shared_core.lm.requests import HiddenPosition as HiddenPosition
from shared_core.lm.requests import HiddenStates as HiddenStates
from shared_core.lm.requests import Part as Part
from shared_core.lm.requests import Prompt as Prompt
from shared_core.lm.requests import Role as Role
from shared_core.lm.requests import SamplingParams as SamplingParams
from shared_core.lm.requests import Score as Score
from shared_core.lm.requests import TokenIds as TokenIds
from shared_core.lm.results import Alternative as Alternative
from shared_core.lm.results import Attention as Attention
from shared_core.lm.results import FinishReason as FinishReason
from shared_core.lm.results import GenerateResult as GenerateResult
from shared_core.lm.results import Generation as Generation
from shared_core.lm.results import Sample as Sample
from shared_core.lm.results import ScoreResult as ScoreResult
from shared_core.lm.results import Scores as Scores
from shared_core.lm.results import States as States
from shared_core.lm.results import StatesResult as StatesResult
from shared_core.support.threads import in_thread


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Abilities of a backend.

    Attributes:
        text: generate text (every backend can).
        token_logprobs: log-probabilities of generated tokens.
        verdict_logprobs: log-probabilities of given tokens at generated positions.
        next_verdicts: the same at the position behind the last generated token.
        stop_tokens: end a sample at given token ids.
        grammar: constrained decoding from a Lark grammar.
        hidden_states: of any layer.
        token_prompts: prompts given as token ids, so that untrusted text is joined at id level.
        score: log-probabilities of given continuations.
        attention: attention weights (DRAGIN, RAUQ).
        alternatives: the likely tokens at each generated position (claim-conditioned probability).
        token_statistics: entropy and logsumexp of the whole distribution.
        context_length: in tokens; ``None`` if unknown.

    Example:
        >>> Capabilities(grammar=True, context_length=8192).names()
        ('text', 'grammar')
    """

    _: KW_ONLY
    text: bool = True
    token_logprobs: bool = False
    verdict_logprobs: bool = False
    next_verdicts: bool = False
    stop_tokens: bool = False
    grammar: bool = False
    hidden_states: bool = False
    token_prompts: bool = False
    score: bool = False
    attention: bool = False
    token_statistics: bool = False
    alternatives: bool = False
    context_length: int | None = None

    def names(self) -> tuple[str, ...]:
        """Return the names of the abilities it has."""
        return tuple(f.name for f in dataclasses.fields(self) if getattr(self, f.name) is True)

    def check_length(self, needed: int) -> None:
        """Raise ContextOverflowError if so many tokens are known not to fit into the context."""
        if self.context_length is not None and needed > self.context_length:
            raise ContextOverflowError(needed, self.context_length)


@runtime_checkable
class LanguageModel(Protocol):
    """A language model backend. Calls are safe from several threads; results come in the order of the requests.

    Example:
        >>> from shared_core.lm import ScriptedLM
        >>> lm = ScriptedLM(["Mira Dorn."])
        >>> isinstance(lm, LanguageModel)
        True
        >>> [result] = lm.generate([Generate(Prompt.untrusted("Who bridged the Thale?", role="user"))])
        >>> result.text
        'Mira Dorn.'
    """

    @property
    def name(self) -> str:
        """The model's name or path; never a secret. Calibrations are bound to it, or to the backend's ``identity``
        where it has one (``shared_core.lm.identity``)."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """Its abilities."""
        ...

    def generate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Continue many prompts at once."""
        ...

    async def agenerate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Run ``generate`` without blocking the event loop."""
        ...

    def score(self, requests: Sequence[Score]) -> list[ScoreResult]:
        """Compute log-probabilities of given continuations; CapabilityError as results where it can't."""
        ...

    async def ascore(self, requests: Sequence[Score]) -> list[ScoreResult]:
        """Run ``score`` without blocking the event loop."""
        ...

    def hidden_states(self, requests: Sequence[HiddenStates]) -> list[StatesResult]:
        """Return hidden states of given sequences; CapabilityError as results where it can't."""
        ...

    async def ahidden_states(self, requests: Sequence[HiddenStates]) -> list[StatesResult]:
        """Run ``hidden_states`` without blocking the event loop."""
        ...

    def token_ids(self, strings: Sequence[str]) -> list[int | None]:
        """Return the id of each string that the model reads as exactly one token (reflection tokens, …).

        ``None`` for every other string, one that becomes the unknown token among them, and for all where the
        backend does not know the model's tokenizer. Whether a model has certain control tokens is asked by this.

        Raises:
            LanguageModelError: the backend cannot be asked now (a server that is down).
        """
        ...

    async def atoken_ids(self, strings: Sequence[str]) -> list[int | None]:
        """Run ``token_ids`` without blocking the event loop."""
        ...


T = TypeVar("T")


def require(lm: LanguageModel, *names: str, hint: str = "") -> None:
    """Raise CapabilityError for the first of the named capabilities that ``lm`` lacks."""
    for name in names:
        if not getattr(lm.capabilities, name):
            raise CapabilityError(name, lm.name, hint=hint or _WAYS_OUT.get(name, ""))


_WAYS_OUT = {
    "token_logprobs": "Use a transformers or vLLM model, or a server that returns logprobs.",
    "verdict_logprobs": "Use a transformers model, or vLLM (logprob_token_ids).",
    "next_verdicts": "Use a transformers or vLLM model; or ask for one more token in a request of its own.",
    "stop_tokens": "Use a transformers or vLLM model.",
    "grammar": "Use a transformers model, or a vLLM server with the guidance backend.",
    "hidden_states": "Use a transformers model, or vLLM in-process; or allow another estimator in the settings.",
    "token_prompts": "Use a transformers or vLLM model.",
    "score": "Use a transformers model, or a server with prompt_logprobs.",
    "attention": "Use a transformers model loaded with eager attention.",
    "token_statistics": "Use a transformers model.",
    "alternatives": "Use a transformers or vLLM model, or a server that returns top_logprobs.",
}


def as_result(error: Exception) -> LanguageModelError:
    """Convert what was raised while a request was prepared to an error that can be its result.

    Tokenizers and servers fail in all ways on odd input, and that must not reach the other requests of a batch.
    """
    if isinstance(error, LanguageModelError):
        return error
    if isinstance(error, InputError):
        result = LanguageModelError(error.message, hint=error.hint)
    else:
        result = LanguageModelError(
            f"The request cannot be prepared: {type(error).__name__}: {error}",
            hint="The tokenizer refused its text, or it holds values of the wrong type.",
        )
    result.__cause__ = error
    return result


class BaseLanguageModel:
    """Base class of backends: async methods run the sync ones in a thread, optional ones refuse.

    Example:
        >>> class Shout(BaseLanguageModel):
        ...     name = "shout"
        ...     def generate(self, requests):
        ...         return [Generation((Sample(r.prompt.text.upper()),)) for r in requests]
        >>> [result] = Shout().generate([Generate(Prompt.untrusted("hello"))])
        >>> result.text, Shout().token_ids(["[Retrieval]"])
        ('HELLO', [None])
    """

    name: str = "language model"
    capabilities: Capabilities = Capabilities()

    def generate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Continue many prompts at once; every backend overrides this or ``agenerate``."""
        return [CapabilityError("text", self.name) for _ in requests]

    def score(self, requests: Sequence[Score]) -> list[ScoreResult]:
        """Refuse, unless overridden."""
        return [CapabilityError("score", self.name, hint=_WAYS_OUT["score"]) for _ in requests]

    def hidden_states(self, requests: Sequence[HiddenStates]) -> list[StatesResult]:
        """Refuse, unless overridden."""
        return [CapabilityError("hidden_states", self.name, hint=_WAYS_OUT["hidden_states"]) for _ in requests]

    def token_ids(self, strings: Sequence[str]) -> list[int | None]:
        """Return ``None`` for each: the tokenizer is not known, unless overridden."""
        return [None] * len(strings)

    async def agenerate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Run ``generate`` in a thread."""
        return await in_thread(self.generate, requests)

    async def ascore(self, requests: Sequence[Score]) -> list[ScoreResult]:
        """Run ``score`` in a thread."""
        return await in_thread(self.score, requests)

    async def ahidden_states(self, requests: Sequence[HiddenStates]) -> list[StatesResult]:
        """Run ``hidden_states`` in a thread."""
        return await in_thread(self.hidden_states, requests)

    async def atoken_ids(self, strings: Sequence[str]) -> list[int | None]:
        """Run ``token_ids`` in a thread."""
        return await in_thread(self.token_ids, strings)
