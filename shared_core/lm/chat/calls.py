"""One call of a framework's model, made again without the options that the model refuses."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from shared_core.errors import CapabilityError
from shared_core.lm.base import Generate, SamplingParams
from shared_core.lm.chat.failures import refused_options
from shared_core.lm.chat.layout import Outgoing
from shared_core.lm.chat.reply import Reply

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ask:
    """One call of the model, for one sample of one request.

    Attributes:
        index: which of the request's samples, from 0.
        sent: the prompt in both forms.
        max_tokens: the most to generate, the model's thoughts among them.
        stop: strings that the provider may stop at; fewer than were asked for, since the rest is cut here.
        completes: send ``sent.text`` to be continued, not messages.
    """

    request: Generate
    index: int
    sent: Outgoing
    max_tokens: int
    stop: tuple[str, ...]
    completes: bool

    @property
    def params(self) -> SamplingParams:
        """Its sampling parameters."""
        return self.request.params

    @property
    def seed(self) -> int | None:
        """Seed of this sample; with one seed for all they would be the same sample."""
        return None if self.params.seed is None else self.params.seed + self.index


class Caller(ABC):
    """Calls a model; options that it refuses (reasoning models take no temperature) are left out from then on."""

    name: str

    _option_names: ClassVar[Mapping[str, Sequence[str]]] = {}
    """What providers call an option, where that is not its own name alone."""

    @abstractmethod
    def _options(self, ask: Ask) -> dict[str, Any]:
        """Return the options of a call, by our names."""

    @abstractmethod
    def _call(self, ask: Ask, options: Mapping[str, Any]) -> Reply:
        """Call the model; raise whatever its client raises."""

    @abstractmethod
    async def _acall(self, ask: Ask, options: Mapping[str, Any]) -> Reply:
        """Call the model's own async form; without one, in a thread that no event loop waits for."""

    def __init__(self) -> None:
        self._refused: set[str] = set()

    @property
    def refused(self) -> frozenset[str]:
        """Options that the model has refused and that are left out since."""
        return frozenset(self._refused)

    def call(self, ask: Ask) -> Reply:
        """Call the model, again without the options that it refuses; raise whatever its client raises."""
        while True:
            sent = self._not_refused(ask)
            try:
                return self._as_asked(ask, self._call(ask, sent))
            except Exception as error:
                if not self._learn(error, sent):
                    raise

    async def acall(self, ask: Ask) -> Reply:
        """``call`` without blocking the event loop."""
        while True:
            sent = self._not_refused(ask)
            try:
                return self._as_asked(ask, await self._acall(ask, sent))
            except Exception as error:
                if not self._learn(error, sent):
                    raise

    def _not_refused(self, ask: Ask) -> dict[str, Any]:
        return {option: value for option, value in self._options(ask).items() if option not in self._refused}

    def _as_asked(self, ask: Ask, reply: Reply) -> Reply:
        if ask.params.logprobs and "logprobs" in self._refused:
            raise CapabilityError("token_logprobs", self.name, hint="Set logprobs=False.")
        return reply

    def _learn(self, error: Exception, sent: Mapping[str, Any]) -> bool:
        """Record the options that an error refuses; return whether the call can be tried again without them.

        ``sent`` are the options of this very call. Of calls made at once all are refused, and the first one to fail
        records it for all; each of the others still has to be tried again. A call that is tried again sends fewer
        options each time, so that the trying ends.
        """
        named = refused_options(error, {option: self._option_names.get(option, (option,)) for option in sent})
        for option in sorted(named - self._refused):
            _LOG.warning("%s does not take %s; going on without it", self.name, option)
        self._refused |= named
        return bool(named)
