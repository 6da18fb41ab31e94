"""What every language model backend is to the rest: prompts, requests, results, capabilities, the protocol.

A backend takes many requests at once and gives one result for each, in order; a request that fails gives its
error as the result, so that one bad prompt never takes the others down. Requests that share a prefix share its
computation where the backend can; callers never have to arrange for that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar, runtime_checkable

from shared_core.errors import CapabilityError, InputError, LanguageModelError
from shared_core.threads import in_thread
from shared_core.types import Usage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Role = Literal["system", "user", "assistant"]
HiddenKind = Literal["residual", "mlp"]
HiddenPosition = Literal["eos", "last"]
FinishReason = Literal["stop", "eos", "length", "grammar"]


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a prompt.

    Attributes:
        text: the text; empty where ``token_ids`` is given.
        trusted: only trusted text may contain control tokens. Untrusted text (documents, questions, anything a
            stranger wrote) is tokenized with special-token splitting, so that it stays text whatever it says.
        role: of the chat message this part belongs to; ``None`` in a raw prompt.
        token_ids: ids to place as they are (earlier output of the same model); needs ``token_prompts``.
    """

    text: str = ""
    trusted: bool = False
    role: Role | None = None
    token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """A sequence of parts; prompts add up with ``+``.

    A prompt whose parts carry roles is a chat; the backend renders it with the model's chat template. A raw
    prompt (no roles) goes to the model as it is, or as one user message where only a chat API exists.
    """

    parts: tuple[Part, ...] = ()

    @classmethod
    def trusted(cls, text: str, role: Role | None = None) -> Prompt:
        """Text written by us, in which control tokens are meant."""
        return cls((Part(text, trusted=True, role=role),))

    @classmethod
    def untrusted(cls, text: str, role: Role | None = None) -> Prompt:
        """Text written by others, which never becomes a control token."""
        return cls((Part(text, trusted=False, role=role),))

    @classmethod
    def tokens(cls, token_ids: Iterable[int], role: Role | None = None) -> Prompt:
        """Token ids, placed as they are."""
        return cls((Part(trusted=True, role=role, token_ids=tuple(token_ids)),))

    def __add__(self, other: Prompt) -> Prompt:
        return Prompt(self.parts + other.parts)

    def __bool__(self) -> bool:
        return any(p.text or p.token_ids for p in self.parts)

    @property
    def is_chat(self) -> bool:
        """Whether any part carries a role."""
        return any(p.role is not None for p in self.parts)

    @property
    def text(self) -> str:
        """The text of all parts, for logs and text-only backends; token parts are left out."""
        return "".join(p.text for p in self.parts)


@dataclass(frozen=True, slots=True)
class Grammar:
    """A constraint on what may be generated.

    Attributes:
        lark: llguidance's Lark dialect; the same text runs in transformers (through llguidance) and vLLM.
        name: shown in errors and traces.
    """

    lark: str
    name: str = "grammar"


@dataclass(frozen=True, slots=True)
class Capture:
    """Which hidden state of a sequence: of a sample, taken in the same pass that generates it, or of a given text.

    Attributes:
        layer: index of a decoder layer, 0 … L-1, or ``None`` for the middle one, L // 2.
        kind: ``residual`` (the layer's output) or ``mlp`` (its MLP's output before the residual is added).
        position: at an end-of-sequence token that is put behind the sequence (``eos``, as SeaKR does) or at the
            sequence's ``last`` token. A sample ends where its text does: of a last token that completes a stop string,
            only what lies within the text counts (not the blank of " The" behind "sentence.").
    """

    layer: int | None = None
    kind: HiddenKind = "mlp"
    position: HiddenPosition = "eos"

    @property
    def append_eos(self) -> bool:
        """Whether an end-of-sequence token is put behind."""
        return self.position == "eos"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to generate.

    Attributes:
        n: samples per prompt, at least 1.
        max_tokens: new tokens per sample at most.
        temperature: 0 is greedy.
        top_k: 0 switches it off.
        top_p: in (0, 1].
        stop: strings that end a sample; cut off the text unless ``include_stop``.
        include_stop: leave the stop string in the text.
        min_tokens: end-of-sequence is forbidden before that many tokens.
        seed: makes sampling reproducible: same model, request and seed give the same samples, however batched, up to
            rounding. In half precision rounding is coarse and differs from batch to batch: there a seed gives the
            same samples only for the same batch.
        logprobs: return the log-probability (natural log, of the raw distribution before temperature, top-k,
            top-p and masks) of every generated token.
        verdicts: tokens whose log-probabilities are wanted at every generated position: ids, or strings that
            are one token each. At most 128.
        stop_token_ids: tokens that end a sample, by id. No text ends it, however it is spelt: a model may write
            ``[Retrieval]`` in ordinary tokens and goes on. The token is the last of ``Sample.token_ids`` and has its
            log-probabilities; it is left out of the text unless ``include_stop``.
        next_verdicts: also give the verdicts' log-probabilities at the position behind the last token
            (``Sample.next_verdict_logprobs``), so that what comes next can be decided without another request.
        grammar: constrains the samples.
        capture: also return hidden states.
        token_statistics: also return per-position entropy and logsumexp of the raw logits.
        attention: also return the last layer's attention weights; costs one more forward pass over each sample.
    """

    _: KW_ONLY
    n: int = 1
    max_tokens: int = 256
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    include_stop: bool = False
    min_tokens: int = 0
    seed: int | None = None
    logprobs: bool = False
    verdicts: tuple[int | str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    next_verdicts: bool = False
    grammar: Grammar | None = None
    capture: Capture | None = None
    token_statistics: bool = False
    attention: bool = False

    def __post_init__(self) -> None:
        """Refuse values of the wrong type or out of range."""
        for name in ("n", "max_tokens", "top_k", "min_tokens"):
            value = getattr(self, name)
            _require(isinstance(value, Integral) and not isinstance(value, bool), name, value, "a whole number")
        _require(not isinstance(self.stop, str), "stop", self.stop, "a tuple of strings, such as (stop,)")
        _require(not isinstance(self.verdicts, str), "verdicts", self.verdicts, "a tuple of tokens")
        _require(all(isinstance(s, str) for s in self.stop), "stop", self.stop, "a tuple of strings")
        _require(self.seed is None or isinstance(self.seed, Integral), "seed", self.seed, "a whole number or None")
        _require(self.n >= 1, "n", self.n, ">= 1")
        _require(self.max_tokens >= 1, "max_tokens", self.max_tokens, ">= 1")
        _require(self.temperature >= 0, "temperature", self.temperature, ">= 0")
        _require(self.top_k >= 0, "top_k", self.top_k, ">= 0")
        _require(0 < self.top_p <= 1, "top_p", self.top_p, "in (0, 1]")
        _require(0 <= self.min_tokens <= self.max_tokens, "min_tokens", self.min_tokens, "in [0, max_tokens]")
        _require(len(self.verdicts) <= 128, "verdicts", len(self.verdicts), "at most 128 tokens")
        _require(all(self.stop), "stop", self.stop, "without empty strings")
        ids = all(isinstance(i, int) and i >= 0 for i in self.stop_token_ids)
        _require(ids, "stop_token_ids", self.stop_token_ids, "token ids, 0 or more")
        _require(
            bool(self.verdicts) or not self.next_verdicts, "verdicts", (), "given where next_verdicts is asked for"
        )

    @property
    def needs(self) -> tuple[str, ...]:
        """The capabilities without which this cannot be done as asked; token log-probabilities may stay unknown."""
        asked = {
            "verdict_logprobs": bool(self.verdicts),
            "next_verdicts": self.next_verdicts,
            "stop_tokens": bool(self.stop_token_ids),
            "grammar": self.grammar is not None,
            "hidden_states": self.capture is not None,
            "token_statistics": self.token_statistics,
            "attention": self.attention,
        }
        return tuple(name for name, wanted in asked.items() if wanted)


def _require(holds: bool, name: str, value: object, rule: str) -> None:
    if not holds:
        raise InputError(f"SamplingParams.{name} must be {rule}, not {value!r}.")


# --- requests: what a flow yields and a backend takes --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Generate:
    """Continue ``prompt``. Result: ``Generation``.

    ``model`` names one of the engine's models (``reference``, ``claim``, …); ``default`` stands in for a missing one.
    """

    prompt: Prompt
    params: SamplingParams = field(default_factory=SamplingParams)
    model: str = "default"


@dataclass(frozen=True, slots=True)
class Score:
    """Log-probabilities of given continuations of ``prompt``. Result: ``Scores``."""

    prompt: Prompt
    continuations: tuple[Prompt, ...]
    model: str = "default"


@dataclass(frozen=True, slots=True)
class HiddenStates:
    """A hidden state of each of the given sequences. Result: ``States``.

    Attributes:
        sequences: whole sequences (prompt and continuation together).
        at: which state of each.
    """

    sequences: tuple[Prompt, ...]
    at: Capture = Capture()
    model: str = "default"


@dataclass(frozen=True, slots=True)
class TokenIds:
    """Which ids strings have. Result: ``tuple[int | None, ...]``, ``None`` for what is not one token of the model."""

    strings: tuple[str, ...]
    model: str = "default"


# --- results -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """Weights of the last layer's attention for one sample of T tokens after a prompt of C tokens.

    Attributes:
        within: (heads, T, T) float32, ``[h, q, t]`` the weight that generated token q gives to generated token t.
        context: (T, C) float32, mean over heads: the weight that each generated token gives to each prompt token.
        context_tokens: (C,) text of the prompt's tokens.
        context_text: text of the whole prompt as the model saw it.
    """

    within: NDArray[np.float32]
    context: NDArray[np.float32]
    context_tokens: tuple[str, ...]
    context_text: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One continuation.

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
        attention: last-layer weights, if asked for.
        stop_token_id: which token of ``stop_token_ids`` ended it; the last of ``token_ids``.
        next_verdict_logprobs: (V,) of the verdicts at the position behind the last of ``token_ids``, where
            ``SamplingParams.next_verdicts`` asks for it; NaN where the server did not say or the last token is not
            known (thoughts taken off a reply); ``None`` after the end of the sequence, which nothing follows.
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

    @property
    def cumulative_logprob(self) -> float | None:
        """Sum of the token log-probabilities, ``None`` if unknown."""
        return None if self.logprobs is None else float(sum(self.logprobs))


@dataclass(frozen=True, slots=True)
class Generation:
    """Result of ``Generate``: ``params.n`` samples (never fewer: a backend that gets fewer reports an error)."""

    samples: tuple[Sample, ...]
    usage: Usage = Usage()

    @property
    def text(self) -> str:
        """The first sample's text."""
        return self.samples[0].text


@dataclass(frozen=True, slots=True)
class Scores:
    """Result of ``Score``: for each continuation the log-probabilities of its tokens."""

    token_logprobs: tuple[tuple[float, ...], ...]
    usage: Usage = Usage()

    @property
    def totals(self) -> tuple[float, ...]:
        """Sum over each continuation's tokens."""
        return tuple(float(sum(t)) for t in self.token_logprobs)


@dataclass(frozen=True, slots=True)
class States:
    """Result of ``HiddenStates``: (number of sequences, d) float32."""

    states: NDArray[np.float32]
    usage: Usage = Usage()


GenerateResult = Generation | LanguageModelError
ScoreResult = Scores | LanguageModelError
StatesResult = States | LanguageModelError


# --- capabilities and the protocol ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do.

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
        attention: attention weights (DRAGIN).
        token_statistics: entropy and logsumexp of the whole distribution.
        context_length: in tokens; ``None`` if unknown.
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
    context_length: int | None = None

    def names(self) -> tuple[str, ...]:
        """The names of what it can do."""
        return tuple(f.name for f in dataclasses.fields(self) if getattr(self, f.name) is True)


@runtime_checkable
class LanguageModel(Protocol):
    """A language model backend. Calls are safe from several threads; results come in the order of the requests."""

    @property
    def name(self) -> str:
        """The model's name or path; never a secret. Calibrations are bound to it."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        ...

    def generate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Continue many prompts at once."""
        ...

    async def agenerate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """``generate`` without blocking the event loop."""
        ...

    def score(self, requests: Sequence[Score]) -> list[ScoreResult]:
        """Log-probabilities of given continuations; CapabilityError as results where it can't."""
        ...

    async def ascore(self, requests: Sequence[Score]) -> list[ScoreResult]:
        """``score`` without blocking the event loop."""
        ...

    def hidden_states(self, requests: Sequence[HiddenStates]) -> list[StatesResult]:
        """Hidden states of given sequences; CapabilityError as results where it can't."""
        ...

    async def ahidden_states(self, requests: Sequence[HiddenStates]) -> list[StatesResult]:
        """``hidden_states`` without blocking the event loop."""
        ...

    def token_ids(self, strings: Sequence[str]) -> list[int | None]:
        """The id of each string that the model reads as exactly one token where we write it (reflection tokens, …).

        ``None`` for every other string, one that becomes the unknown token among them, and for all where the
        backend does not know the model's tokenizer. Whether a model has certain control tokens is asked by this.

        Raises:
            LanguageModelError: the backend cannot be asked now (a server that is down).
        """
        ...

    async def atoken_ids(self, strings: Sequence[str]) -> list[int | None]:
        """``token_ids`` without blocking the event loop."""
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
}


class BaseLanguageModel:
    """Defaults for backends: async forms that run the sync ones in a thread, and refusals of what is not there."""

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
        """``None`` for each: the tokenizer is not known, unless overridden."""
        return [None] * len(strings)

    async def agenerate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """``generate`` in a thread."""
        return await in_thread(self.generate, requests)

    async def ascore(self, requests: Sequence[Score]) -> list[ScoreResult]:
        """``score`` in a thread."""
        return await in_thread(self.score, requests)

    async def ahidden_states(self, requests: Sequence[HiddenStates]) -> list[StatesResult]:
        """``hidden_states`` in a thread."""
        return await in_thread(self.hidden_states, requests)

    async def atoken_ids(self, strings: Sequence[str]) -> list[int | None]:
        """``token_ids`` in a thread."""
        return await in_thread(self.token_ids, strings)
