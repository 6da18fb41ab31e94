"""Requests to language models: prompts, sampling parameters, and the four kinds of request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral
from typing import Literal

from shared_core.errors import InputError

Role = Literal["system", "user", "assistant"]
HiddenKind = Literal["residual", "mlp"]
HiddenPosition = Literal["eos", "last"]


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a prompt.

    Attributes:
        text: the text; empty where ``token_ids`` is given.
        trusted: only trusted text may contain control tokens. Untrusted text (documents, questions, anything a
            stranger wrote) is tokenized with special-token splitting, so that it stays text whatever it says.
        role: of the chat message this part belongs to; ``None`` in a raw prompt.
        token_ids: ids to place as they are (earlier output of the same model); needs ``token_prompts``.

    >>> Part("[Retrieval]", trusted=False).trusted  # a document that spells a control token
    False
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

    >>> prompt = Prompt.trusted("Answer briefly.", role="system") + Prompt.untrusted("Who?", role="user")
    >>> prompt.is_chat, prompt.text
    (True, 'Answer briefly.Who?')
    """

    parts: tuple[Part, ...] = ()

    @classmethod
    def trusted(cls, text: str, role: Role | None = None) -> Prompt:
        """Return a prompt written by us, in which control tokens take effect."""
        return cls((Part(text, trusted=True, role=role),))

    @classmethod
    def untrusted(cls, text: str, role: Role | None = None) -> Prompt:
        """Return a prompt written by others, which never becomes a control token."""
        return cls((Part(text, trusted=False, role=role),))

    @classmethod
    def tokens(cls, token_ids: Iterable[int], role: Role | None = None) -> Prompt:
        """Return a prompt of token ids, used unchanged."""
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

    >>> Grammar('start: "yes" | "no"', name="verdict").name
    'verdict'
    """

    lark: str
    name: str = "grammar"


def middle_layer(layers: int) -> int:
    """Return the index of the middle one of so many decoder layers: the lower of two, as SeaKR's published code has it.

    >>> middle_layer(32), middle_layer(3)
    (15, 1)
    """
    return (layers - 1) // 2


@dataclass(frozen=True, slots=True)
class Capture:
    """Choice of a hidden state of a sequence: of a sample, in the pass that generates it, or of a given text.

    Attributes:
        layer: index of a decoder layer, 0 … L-1, or ``None`` for the middle one (``middle_layer``).
        kind: ``residual`` (the layer's output) or ``mlp`` (its MLP's output before the residual is added).
        position: at an end-of-sequence token that is put behind the sequence (``eos``, as SeaKR does) or at the
            sequence's ``last`` token. A sample ends where its text does: an end of sequence does not count, and of a
            token that completes a stop string only what lies within the text (not " The" behind "sentence.").

    >>> Capture(layer=8, position="last").append_eos
    False
    """

    layer: int | None = None
    kind: HiddenKind = "mlp"
    position: HiddenPosition = "eos"

    @property
    def append_eos(self) -> bool:
        """Whether an end-of-sequence token is appended."""
        return self.position == "eos"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Sampling parameters of a request.

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
        attention: also return attention weights; costs one more forward pass over each sample.
        alternatives: also return so many of the likely tokens at each generated position, the generated one among
            them, with their log-probabilities; 0 to 20. A server may give fewer. Not together with ``verdicts``.

    >>> SamplingParams(n=20, temperature=1.0, top_k=50, seed=0, capture=Capture()).needs
    ('hidden_states',)
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
    alternatives: int = 0

    def __post_init__(self) -> None:
        """Refuse values of the wrong type or out of range."""
        for name in ("n", "max_tokens", "top_k", "min_tokens", "alternatives"):
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
        _require(0 <= self.alternatives <= 20, "alternatives", self.alternatives, "in [0, 20]")
        one = not (self.alternatives and self.verdicts)  # servers have one field for both
        _require(one, "alternatives", self.alternatives, "asked for without verdicts, in a request of its own")
        ids = all(isinstance(i, int) and i >= 0 for i in self.stop_token_ids)
        _require(ids, "stop_token_ids", self.stop_token_ids, "token ids, 0 or more")
        _require(
            bool(self.verdicts) or not self.next_verdicts, "verdicts", (), "given where next_verdicts is asked for"
        )

    @property
    def needs(self) -> tuple[str, ...]:
        """The capabilities that the request needs; token log-probabilities may stay unknown."""
        asked = {
            "verdict_logprobs": bool(self.verdicts),
            "next_verdicts": self.next_verdicts,
            "stop_tokens": bool(self.stop_token_ids),
            "grammar": self.grammar is not None,
            "hidden_states": self.capture is not None,
            "token_statistics": self.token_statistics,
            "attention": self.attention,
            "alternatives": self.alternatives > 0,
        }
        return tuple(name for name, wanted in asked.items() if wanted)


def _require(holds: bool, name: str, value: object, rule: str) -> None:
    if not holds:
        raise InputError(f"SamplingParams.{name} must be {rule}, not {value!r}.")


@dataclass(frozen=True, slots=True)
class Generate:
    """Request to continue ``prompt``. Result: ``Generation``.

    ``model`` names one of the engine's models (``reference``, ``claim``, …); ``default`` is used if it is missing.

    >>> Generate(Prompt.untrusted("Who?"), SamplingParams(max_tokens=8)).params.max_tokens
    8
    """

    prompt: Prompt
    params: SamplingParams = field(default_factory=SamplingParams)
    model: str = "default"


@dataclass(frozen=True, slots=True)
class Score:
    """Request for log-probabilities of given continuations of ``prompt``. Result: ``Scores``.

    >>> len(Score(Prompt.untrusted("Is it so?"), (Prompt.trusted(" yes"), Prompt.trusted(" no"))).continuations)
    2
    """

    prompt: Prompt
    continuations: tuple[Prompt, ...]
    model: str = "default"


@dataclass(frozen=True, slots=True)
class HiddenStates:
    """Request for a hidden state of each of the given sequences. Result: ``States``.

    Attributes:
        sequences: whole sequences (prompt and continuation together).
        at: which state of each.

    >>> HiddenStates((Prompt.untrusted("The Thale rises in Orm."),)).at.kind
    'mlp'
    """

    sequences: tuple[Prompt, ...]
    at: Capture = Capture()
    model: str = "default"


@dataclass(frozen=True, slots=True)
class TokenIds:
    """Request for the ids of strings. Result: ``tuple[int | None, ...]``, ``None`` for what is not one token.

    >>> TokenIds(("[Retrieval]", "[No Retrieval]")).model
    'default'
    """

    strings: tuple[str, ...]
    model: str = "default"
