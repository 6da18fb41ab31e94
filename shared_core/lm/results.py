"""Results of requests to language models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from shared_core.errors import LanguageModelError
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

    Example:
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

    Example:
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

    Example:
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

    Example:
        >>> import numpy as np
        >>> States(np.zeros((2, 576), np.float32)).states.shape
        (2, 576)
    """

    states: NDArray[np.float32]
    usage: Usage = Usage()


GenerateResult = Generation | LanguageModelError
ScoreResult = Scores | LanguageModelError
StatesResult = States | LanguageModelError
