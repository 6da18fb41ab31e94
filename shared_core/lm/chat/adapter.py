"""Base class of the adapters of frameworks' language models.

An adapter of a framework says how its model is called and how its answers are read into a ``Reply``. All else is done
here, once: layout, neutralising, samples, concurrency, limits of time, thoughts, echoes, errors.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import threading
from abc import abstractmethod
from collections.abc import Generator, Iterable, Sequence
from functools import partial
from typing import Any, Literal

from shared_core.errors import CapabilityError, InputError, LanguageModelError
from shared_core.lm.base import (
    BaseLanguageModel,
    Capabilities,
    Generate,
    GenerateResult,
    Generation,
    Prompt,
    Sample,
    SamplingParams,
)
from shared_core.lm.chat.calls import Ask, Caller
from shared_core.lm.chat.failures import needs_chat_template, provider_error, timeout_error
from shared_core.lm.chat.layout import control_strings, outgoing
from shared_core.lm.chat.read import OnlyThoughts, make_sample, read_reply
from shared_core.lm.chat.reply import Reply
from shared_core.lm.chat.secrets import Secrets
from shared_core.lm.identity import identity_of_module, module_within, plain_name
from shared_core.support.pickling import Portable
from shared_core.support.threads import FATAL, acall_all, call_all
from shared_core.types import Usage

LogprobsMode = bool | Literal["auto", "probe"]
"""Whether a provider returns token log-probabilities; see ``ChatAdapter``."""

Outcome = tuple[Sample, Usage] | LanguageModelError
_MOST_STOPS = 4  # what OpenAI's API takes; the others are cut here
_LOCAL = frozenset({
    "transformers", "torch", "llama_cpp", "ctransformers", "gpt4all", "mlx", "mlx_lm", "vllm", "optimum",
    "openvino_genai", "exllamav2", "onnxruntime", "onnxruntime_genai",
})  # fmt: skip


class ChatAdapter(Caller, Portable, BaseLanguageModel):
    """Adapter of a framework's language model: text always, log-probabilities where its provider returns them.

    ``n`` samples are ``n`` calls. All calls of a batch are made at once, up to ``max_concurrency``. A request that
    fails gives its error as the result: one of our tree that is an instance of the provider's class too.

    Args:
        name: shown in errors; calibrations are bound to it where the model's weights are not at hand.
        logprobs: whether the provider returns token log-probabilities: ``True``, ``False``, ``"probe"`` to find out
            with one call of one token at first need, or ``"auto"``: what the model's class says of itself.
        context_length: of the model in tokens, if known.
        max_concurrency: calls under way at once, at least 1.
        timeout: seconds for one sample; ``None`` for no limit.
        thinking_tokens: added to ``max_tokens`` once the model was seen to think aloud, so that there is room for an
            answer behind its thoughts.

    Raises:
        InputError: an option is out of range.
    """

    def __init__(
        self,
        *,
        name: str,
        logprobs: LogprobsMode,
        context_length: int | None,
        max_concurrency: int,
        timeout: float | None,
        thinking_tokens: int,
    ) -> None:
        if logprobs not in (True, False, "auto", "probe"):
            raise InputError(f"logprobs must be True, False, 'auto' or 'probe', not {logprobs!r}.")
        _require_whole("max_concurrency", max_concurrency, 1)
        _require_whole("thinking_tokens", thinking_tokens, 0)
        if context_length is not None:
            _require_whole("context_length", context_length, 1)
        is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
        if timeout is not None and not (is_number and timeout > 0):
            raise InputError(f"timeout must be a positive number of seconds or None, not {timeout!r}.")
        super().__init__()
        self.name = name
        self.context_length = context_length
        self.max_concurrency = max_concurrency
        self.timeout = None if timeout is None or math.isinf(timeout) else timeout
        self.thinking_tokens = thinking_tokens
        self._control = control_strings()
        self._logprobs = self._declared_logprobs() if logprobs == "auto" else None if logprobs == "probe" else logprobs
        self._known: tuple[object, str] | None = None  # the weights' stamp and the identity that they had
        self._thinks = False  # it was seen to think aloud
        self._completes = False  # it was seen to have no chat template
        self._lock = threading.Lock()

    # --- what an adapter says ----------------------------------------------------------------------------------

    @abstractmethod
    def can_complete(self) -> bool:
        """Return whether it can continue a text instead of answering messages."""

    @abstractmethod
    def clients(self) -> Iterable[object]:
        """Return the framework's objects that hold the provider's secrets."""

    samples_are_calls = True
    """Each sample of a request is a call of its own (budgets count them)."""

    def _declared_logprobs(self) -> bool | None:
        """Return whether the model's class offers log-probabilities; ``None`` to find out by a call."""
        return False

    def _at_once(self, asks: Sequence[Ask]) -> int:
        return self.max_concurrency

    # --- what it can do ----------------------------------------------------------------------------------------

    @property
    def identity(self) -> str:
        """Key for binding calibrations: a digest of the weights where the model runs here, else its name."""
        module = next(filter(None, map(module_within, self.clients())), None)
        if module is None:
            return plain_name(self.name)
        stamp = [(p.data_ptr(), 0 if p.is_inference() else p._version) for p in module.parameters()]
        if self._known is None or self._known[0] != stamp:
            self._known = stamp, identity_of_module(module)
        return self._known[1]

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]  # known only once the model was asked
        """Its abilities; the first look may make the probing call (``logprobs="probe"``)."""
        return Capabilities(token_logprobs=self.probe(), context_length=self.context_length)

    def probe(self) -> bool:
        """Return whether token log-probabilities come back; asks once where that is not known.

        A failure that says nothing about it (no connection, no key) counts as no for now and is tried again.
        """
        with self._lock:
            if self._logprobs is None:
                params = SamplingParams(max_tokens=1, logprobs=True)
                request = Generate(Prompt.trusted("Say yes."), params)
                ask = Ask(request, 0, outgoing(request.prompt, self._control), 1, (), self._completes)
                (outcome,) = call_all([lambda: self.call(ask)], at_once=1, seconds=self.timeout)
                if isinstance(outcome, CapabilityError):
                    self._logprobs = False
                elif not isinstance(outcome, BaseException):
                    self._logprobs = outcome.tokens is not None
            return bool(self._logprobs)

    # --- generating --------------------------------------------------------------------------------------------

    def generate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Continue many prompts at once, in threads; a failing one gives its error."""
        plans, asks, at_once = self._planned(requests)
        calls = [partial(self._attempt, plan, ask) for plan, ask in asks]
        return self._gather(plans, call_all(calls, at_once=at_once, seconds=self.timeout))

    async def agenerate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Run ``generate`` through the model's own async form."""
        plans, asks, at_once = self._planned(requests)
        calls = [partial(self._aattempt, plan, ask) for plan, ask in asks]
        return self._gather(plans, await acall_all(calls, at_once=at_once, seconds=self.timeout))

    def _planned(self, requests: Sequence[Generate]) -> tuple[list[_Plan], list[tuple[_Plan, Ask]], int]:
        plans = [_Plan(self._asks(r)) for r in requests]
        asks = [(plan, ask) for plan in plans for ask in plan.asks]
        return plans, asks, self._at_once([a for _, a in asks])

    def _asks(self, request: Generate) -> list[Ask] | LanguageModelError:
        """Return the calls to make for a request, or why none can be made."""
        params = request.params
        lacking = next(iter(params.needs), "")
        if any(p.token_ids is not None for p in request.prompt.parts):
            lacking = "token_prompts"
        elif not lacking and params.min_tokens > 0:
            lacking = "min_tokens"
        elif not lacking and params.logprobs and self._logprobs is False:
            lacking = "token_logprobs"
        if lacking:
            return CapabilityError(lacking, self.name, hint="Use a transformers or vLLM model (shared_core.lm).")
        if not request.prompt:
            return LanguageModelError("The prompt is empty.")
        sent = outgoing(request.prompt, self._control)
        # A provider leaves out the string that it stopped at, and may stop at one in the model's thoughts.
        stop = () if params.include_stop or self._thinks else params.stop[:_MOST_STOPS]
        room = params.max_tokens + (self._room if self._thinks else 0)
        return [Ask(request, i, sent, room, stop, self._completes) for i in range(params.n)]

    def _attempt(self, plan: _Plan, ask: Ask) -> Outcome:
        steps = self._steps(plan, ask)
        try:
            current = next(steps)
            while True:
                current = steps.send(_outcome_of(lambda: self.call(current)))  # noqa: B023  # called at once
        except StopIteration as stop:
            outcome: Outcome = stop.value
            return outcome

    async def _aattempt(self, plan: _Plan, ask: Ask) -> Outcome:
        steps = self._steps(plan, ask)
        try:
            current = next(steps)
            while True:
                try:
                    said: Reply | BaseException = await self.acall(current)
                except (*FATAL, asyncio.CancelledError):
                    raise
                except BaseException as error:  # clients written in other languages raise such too
                    said = error
                current = steps.send(said)
        except StopIteration as stop:
            outcome: Outcome = stop.value
            return outcome

    def _steps(self, plan: _Plan, ask: Ask) -> Generator[Ask, Reply | BaseException, Outcome]:
        """Yield calls, one after another, until there is a sample or an error."""
        spent = Usage()
        while True:
            if plan.failed is not None:  # a sample of the same request: the others are not needed any more
                return plan.failed
            said = yield ask
            error: LanguageModelError
            if isinstance(said, BaseException):
                if needs_chat_template(said) and not ask.completes and self.can_complete():
                    self._completes = True
                    ask = dataclasses.replace(ask, completes=True)
                    continue
                error = provider_error(said, self._who, self._secrets())
            else:
                spent += said.usage
                plan.pay(said.usage)
                try:
                    return self._read(said, ask), spent
                except OnlyThoughts as found:
                    again = self._with_room(ask)
                    if again is not None:
                        ask = again
                        continue
                    error = found.error
                except LanguageModelError as found:
                    error = found
            plan.failed = plan.failed or error
            return error

    def _read(self, reply: Reply, ask: Ask) -> Sample:
        reading = read_reply(reply, ask.params, ask.sent, self._who)
        self._thinks = self._thinks or reading.thought
        tokens = reply.tokens if ask.params.logprobs else None
        return make_sample(reading, tokens, restored=ask.sent.changed)

    def _with_room(self, ask: Ask) -> Ask | None:
        """Return the call with room for thoughts and without stop strings; ``None`` if it already was one."""
        self._thinks = True
        again = dataclasses.replace(ask, max_tokens=ask.params.max_tokens + self._room, stop=())
        return None if again == ask else again

    def _gather(self, plans: Sequence[_Plan], outcomes: Sequence[Outcome | BaseException]) -> list[GenerateResult]:
        results: list[GenerateResult] = []
        start = 0
        for plan in plans:
            mine = [self._settled(o) for o in outcomes[start : start + len(plan.asks)]]
            start += len(plan.asks)
            failed = plan.refused or next((o for o in mine if isinstance(o, LanguageModelError)), None)
            if failed is not None:
                failed.usage = plan.paid
                results.append(failed)
                continue
            written = [o for o in mine if not isinstance(o, LanguageModelError)]
            results.append(Generation(tuple(s for s, _ in written), sum((u for _, u in written), Usage())))
        return results

    def _settled(self, outcome: Outcome | BaseException) -> Outcome:
        if isinstance(outcome, TimeoutError) and not isinstance(outcome, LanguageModelError):
            return timeout_error(self._who, self.timeout)
        if isinstance(outcome, LanguageModelError) or not isinstance(outcome, BaseException):
            return outcome
        raise outcome  # what a provider raises was caught before: this is a fault of ours

    @property
    def _room(self) -> int:
        """Return the tokens for thoughts; no more than a quarter of the context, where that is known."""
        if self.context_length is None:
            return self.thinking_tokens
        return min(self.thinking_tokens, self.context_length // 4)

    @property
    def _who(self) -> str:
        return f"The language model {self.name!r}"

    def _secrets(self) -> Secrets:
        return Secrets.of(*self.clients())


class _Plan:
    """The calls for a request, what they cost, and why it fails."""

    def __init__(self, asks: list[Ask] | LanguageModelError) -> None:
        self.refused = asks if isinstance(asks, LanguageModelError) else None
        self.asks = [] if isinstance(asks, LanguageModelError) else asks
        self.failed: LanguageModelError | None = None
        self.paid: Usage | None = None
        self._lock = threading.Lock()

    def pay(self, usage: Usage) -> None:
        """Add what a reply cost; replies come in several threads."""
        with self._lock:
            self.paid = usage if self.paid is None else self.paid + usage


def _require_whole(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} must be a whole number, at least {least}, not {value!r}.")


def runs_here(*clients: object) -> bool:
    """Return whether the model computes in this process; such models are called one at a time by default.

    Their tokenizers and caches are made for one caller, and several would only share the same cores.
    """
    for client in clients:
        held: list[object] = [client]
        for source in ("__dict__", "__pydantic_private__"):
            found = getattr(client, source, None)
            held += list(found.values()) if isinstance(found, dict) else []
        for value in held:
            roots = {c.__module__.partition(".")[0] for c in type(value).__mro__}
            if roots & _LOCAL:
                return True
    return False


def _outcome_of(call: Any) -> Reply | BaseException:
    try:
        reply: Reply = call()
        return reply
    except FATAL:
        raise
    except BaseException as error:  # clients written in other languages raise such too
        return error
