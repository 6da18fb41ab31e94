"""The protocol of language model backends: capabilities, results.

A backend takes many requests (``requests``) at once and gives one result for each, in order; a request that
fails gives its error as the result, so that one bad prompt never takes the others down. Requests that share a
prefix share its computation where the backend can; callers never have to arrange for that.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, Protocol, TypeGuard, runtime_checkable

from shared_core.errors import CapabilityError, ContextOverflowError, InputError, LanguageModelError
from shared_core.lm.requests import Capture as Capture
from shared_core.lm.requests import Generate as Generate
from shared_core.lm.requests import Grammar as Grammar
from shared_core.lm.requests import HiddenKind as HiddenKind
from shared_core.lm.requests import HiddenStates as HiddenStates
from shared_core.lm.requests import Part as Part
from shared_core.lm.requests import Prompt as Prompt
from shared_core.lm.requests import Role as Role
from shared_core.lm.requests import SamplingParams as SamplingParams
from shared_core.lm.requests import Score as Score
from shared_core.lm.requests import TokenIds as TokenIds
from shared_core.support.threads import LoopThread, in_thread
from shared_core.types import Usage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


FinishReason = Literal["stop", "eos", "length", "grammar"]


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """Attention weights of one sample of T tokens after a prompt of C tokens.

    Attributes:
        within: (heads, T, T) float32, of the last layer, ``[h, q, t]`` the weight that generated token q gives to
            generated token t.
        context: (T, C) float32, of the last layer, mean over heads: the weight that each generated token gives to each
            prompt token.
        context_tokens: (C,) text of the prompt's tokens.
        context_text: text of the whole prompt as the model saw it.
        previous: (layers, heads, T) float32, of every layer that has such weights, the weight that each generated token
            gives to the token before it (the first one to the prompt's last); ``None`` where layers differ in heads.
    """

    within: NDArray[np.float32]
    context: NDArray[np.float32]
    context_tokens: tuple[str, ...]
    context_text: str
    previous: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class Alternative:
    """A likely token at a position: its text, and its natural-log probability in the raw distribution."""

    token: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One continuation of a prompt.

    Attributes:
        text: decoded, stop string cut off (unless asked otherwise), special tokens that were generated left in.
        token_ids: as generated; empty where the backend gives none.
        finish_reason: ``stop`` (a string or a token of ``stop_token_ids``), ``eos``, ``length`` or a completed
            ``grammar``.
        stop: which stop string ended it.
        logprobs: (T,) natural-log probabilities of the generated tokens, ``None`` where not asked for or not given.
        tokens: (T,) text of each token, where known.
        verdict_logprobs: (T, V) at each generated position for each of ``SamplingParams.verdicts``; NaN where
            the server did not say.
        entropy: (T,) of the raw distribution, nats; ``logsumexp``: (T,) of the raw logits.
        hidden_state: (d,) float32, if captured.
        attention: attention weights, if asked for.
        alternatives: (T) the likely tokens at each generated position, if asked for: the generated one first, the
            others from the most likely on.
        stop_token_id: which token of ``stop_token_ids`` ended it; the last of ``token_ids``.
        next_verdict_logprobs: (V,) of the verdicts at the position behind the last of ``token_ids``, where
            ``SamplingParams.next_verdicts`` asks for it; NaN where the server did not say or the last token is not
            known (thoughts taken off a reply); ``None`` after the end of the sequence, which nothing follows.

    >>> Sample("In 1841.", logprobs=(-0.5, -0.25)).finish_reason
    'eos'
    """

    text: str
    token_ids: tuple[int, ...] = ()
    finish_reason: FinishReason = "eos"
    stop: str | None = None
    logprobs: tuple[float, ...] | None = None
    tokens: tuple[str, ...] | None = None
    verdict_logprobs: NDArray[np.float64] | None = None
    entropy: tuple[float, ...] | None = None
    logsumexp: tuple[float, ...] | None = None
    hidden_state: NDArray[np.float32] | None = None
    attention: Attention | None = None
    stop_token_id: int | None = None
    next_verdict_logprobs: NDArray[np.float64] | None = None
    alternatives: tuple[tuple[Alternative, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """Result of ``Generate``: ``params.n`` samples (never fewer: a backend that gets fewer reports an error).

    >>> Generation((Sample("yes"), Sample("no"))).text
    'yes'
    """

    samples: tuple[Sample, ...]
    usage: Usage = Usage()

    @property
    def text(self) -> str:
        """The first sample's text."""
        return self.samples[0].text


@dataclass(frozen=True, slots=True)
class Scores:
    """Result of ``Score``: the log-probabilities of each continuation's tokens.

    >>> Scores(((-1.0, -0.5), (-3.0,))).totals
    (-1.5, -3.0)
    """

    token_logprobs: tuple[tuple[float, ...], ...]
    usage: Usage = Usage()

    @property
    def totals(self) -> tuple[float, ...]:
        """Sum over each continuation's tokens."""
        return tuple(float(sum(t)) for t in self.token_logprobs)


@dataclass(frozen=True, slots=True)
class States:
    """Result of ``HiddenStates``: (number of sequences, d) float32.

    >>> import numpy as np
    >>> States(np.zeros((2, 576), np.float32)).states.shape
    (2, 576)
    """

    states: NDArray[np.float32]
    usage: Usage = Usage()


GenerateResult = Generation | LanguageModelError
ScoreResult = Scores | LanguageModelError
StatesResult = States | LanguageModelError


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
        layers: number of decoder layers; ``None`` if unknown.
        context_length: in tokens; ``None`` if unknown.

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
    layers: int | None = None
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


_PROPERTIES = ("name", "capabilities")
_METHODS = ("generate", "agenerate", "score", "ascore", "hidden_states", "ahidden_states", "token_ids", "atoken_ids")


def is_language_model(given: object) -> TypeGuard[LanguageModel]:
    """Return whether an object is a backend, without asking it anything.

    ``isinstance`` reads all properties of it (before Python 3.12), and some models make a call to learn what they can.

    >>> from shared_core.lm import ScriptedLM
    >>> is_language_model(ScriptedLM([])), is_language_model("gpt-4o")
    (True, False)
    """
    forwards = hasattr(type(given), "__getattr__")  # a wrapper may have them of the model within
    declared = all(forwards or inspect.getattr_static(given, name, None) is not None for name in _PROPERTIES)
    return declared and all(callable(getattr(given, name, None)) for name in _METHODS)


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


@cache
def _loop_of(kind: type) -> LoopThread:
    """Return the event loop of a class of async backends: one that stays, because clients keep connections on it."""
    return LoopThread(f"selfreflect-{kind.__name__}", lambda: asyncio.sleep(0))


class BaseLanguageModel:
    """Base class of backends: async methods run the sync ones in a thread, optional ones refuse.

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
        """Continue many prompts at once; every backend overrides this or ``agenerate``, which is then run on a loop."""
        if type(self).agenerate is BaseLanguageModel.agenerate:
            return [CapabilityError("text", self.name) for _ in requests]
        kind: type = type(self)
        return _loop_of(kind).run(self.agenerate(requests))

    def score(self, requests: Sequence[Score]) -> list[ScoreResult]:
        """Refuse, unless overridden."""
        hint = "Use a transformers model, or a server with prompt_logprobs."
        return [CapabilityError("score", self.name, hint=hint) for _ in requests]

    def hidden_states(self, requests: Sequence[HiddenStates]) -> list[StatesResult]:
        """Refuse, unless overridden."""
        hint = "Use a transformers model, or vLLM in-process; or allow another estimator in the settings."
        return [CapabilityError("hidden_states", self.name, hint=hint) for _ in requests]

    def token_ids(self, strings: Sequence[str]) -> list[int | None]:
        """Return ``None`` for each: the tokenizer is not known, unless overridden."""
        return [None] * len(strings)

    async def agenerate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Run ``generate`` in a thread."""
        if type(self).generate is BaseLanguageModel.generate:  # which would run this
            return [CapabilityError("text", self.name) for _ in requests]
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
