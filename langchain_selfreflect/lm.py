"""``LangChainLM``: a LangChain chat model as a language model backend of ours."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import get_executor_for_config

from langchain_selfreflect import _lm_read
from langchain_selfreflect._caller import Caller, caller_of
from langchain_selfreflect._lm_options import Options, innermost
from shared_core.errors import (
    BackendUnavailableError,
    CapabilityError,
    GenerationError,
    InputError,
    LanguageModelError,
)
from shared_core.lm._server.http import context_overflow
from shared_core.lm._server.prompt import as_messages, control_strings
from shared_core.lm.base import (
    BaseLanguageModel,
    Capabilities,
    Generate,
    GenerateResult,
    Generation,
    LanguageModel,
    Sample,
    SamplingParams,
)
from shared_core.types import Usage

LogprobsMode = bool | Literal["auto", "probe"]
_CLASSES: Mapping[str, type[BaseMessage]] = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
_UNREACHABLE = ("APITimeout", "APIConnection", "Connect", "ReadTimeout")  # of providers' own kits
_MOST_STOPS = 4  # what OpenAI's API takes; the others are cut here


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of the chat model, for one sample of one request."""

    messages: list[BaseMessage]
    options: Mapping[str, Any]
    params: SamplingParams
    restored: bool
    caller: Caller


class LangChainLM(BaseLanguageModel):
    """A LangChain chat model as ours: text always, token log-probabilities where the provider returns them.

    Control strings in untrusted text are neutralised on the way in and restored on the way out. Every call keeps the
    callbacks, tags and metadata of the run on whose behalf it is made. Samples are separate calls, made at once.
    Temperature, seed and limits are set where the model has them, else its own hold.

    Args:
        chat_model: a ``BaseChatModel``, or a runnable around one (``llm.bind(…)``, ``llm.with_retry()``).
        logprobs: whether the provider returns token log-probabilities: ``True``, ``False``, ``"probe"`` to find out
            with one call of one token at first need, or ``"auto"``: probe if the model's class knows a ``logprobs``
            option.
        name: what calibrations are bound to; the model's own name if not given.
        context_length: of the model in tokens, if known.
        max_concurrency: calls under way at once; a lower one in the run's config holds.

    Raises:
        InputError: ``chat_model`` is none, or an option is out of range.
    """

    def __init__(
        self,
        chat_model: Runnable[Any, Any],
        *,
        logprobs: LogprobsMode = "auto",
        name: str | None = None,
        context_length: int | None = None,
        max_concurrency: int = 8,
    ) -> None:
        if not isinstance(chat_model, Runnable):
            raise InputError(
                f"A {type(chat_model).__name__} is no LangChain chat model.",
                hint="Give a BaseChatModel (ChatOpenAI(…)).",
            )
        if logprobs not in (True, False, "auto", "probe"):
            raise InputError(f"logprobs must be True, False, 'auto' or 'probe', not {logprobs!r}.")
        if max_concurrency < 1:
            raise InputError(f"max_concurrency must be at least 1, not {max_concurrency}.")
        self.chat_model = chat_model
        self.name = name or _model_name(innermost(chat_model))
        self.context_length = context_length
        self.max_concurrency = max_concurrency
        self._options = Options(chat_model)
        self._control = control_strings()
        probes = logprobs == "probe" or (logprobs == "auto" and self._options.declares("logprobs"))
        self._logprobs: bool | None = None if probes else logprobs is True
        self._lock = threading.Lock()

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """What the model can do; the first look may make the probing call."""
        return Capabilities(token_logprobs=self.probe(), context_length=self.context_length)

    @property
    def refused(self) -> frozenset[str]:
        """The options that the model has refused so far and that are left out since."""
        return frozenset(self._options.refused)

    def probe(self) -> bool:
        """Whether token log-probabilities come back; asks once where that is not known.

        A failure that says nothing about it (no connection, no key) counts as no for now and is tried again.
        """
        with self._lock:
            if self._logprobs is None:
                self._settle(self._run(self._probing()))
            return bool(self._logprobs)

    def generate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Continue many prompts at once, in threads; a failing one gives its error."""
        plans = [self._plan(r) for r in requests]
        calls = [c for p in plans if not isinstance(p, LanguageModelError) for c in p]
        if len(calls) < 2:
            return _gather(plans, [self._run(c) for c in calls])
        with get_executor_for_config(RunnableConfig(max_concurrency=self._limit(calls))) as executor:
            return _gather(plans, list(executor.map(self._run, calls)))

    async def agenerate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """``generate`` by the model's own async form."""
        plans = [self._plan(r) for r in requests]
        calls = [c for p in plans if not isinstance(p, LanguageModelError) for c in p]
        slots = asyncio.Semaphore(self._limit(calls))

        async def one(call: _Call) -> tuple[Sample, Usage] | LanguageModelError:
            async with slots:
                return await self._arun(call)

        return _gather(plans, list(await asyncio.gather(*map(one, calls))))

    # --- planning ----------------------------------------------------------------------------------------------

    def _plan(self, request: Generate) -> list[_Call] | LanguageModelError:
        params = request.params
        refusal = self._cannot(request)
        if refusal is not None:
            return refusal
        spoken, _, changed = as_messages(request.prompt, self._control, continues=False)
        messages = [_CLASSES[m["role"]](content=m["content"]) for m in spoken]
        if params.n > 1 and params.temperature > 0:
            self._options.warn_without("temperature", "all samples are drawn at the model's own")
        caller = caller_of(request.model)
        return [_Call(messages, _options(params, i), params, changed, caller) for i in range(params.n)]

    def _cannot(self, request: Generate) -> LanguageModelError | None:
        params = request.params
        asked = {
            "grammar": params.grammar is not None,
            "verdict_logprobs": bool(params.verdicts),
            "hidden_states": params.capture is not None,
            "token_statistics": params.token_statistics,
            "token_prompts": any(p.token_ids for p in request.prompt.parts),
            "min_tokens": params.min_tokens > 0,
            "token_logprobs": params.logprobs and self._logprobs is False,
        }
        for capability, wanted in asked.items():
            if wanted:
                return CapabilityError(capability, self.name, hint="Use a transformers or vLLM model (shared_core.lm).")
        return None if request.prompt else GenerationError("A prompt must not be empty.")

    def _limit(self, calls: Sequence[_Call]) -> int:
        asked = [c.caller.config.get("max_concurrency") for c in calls if c.caller.config]
        return min([self.max_concurrency, *(a for a in asked if a)])

    def _probing(self) -> _Call:
        params = SamplingParams(max_tokens=1, logprobs=True)
        return _Call([HumanMessage(content="Say yes.")], _options(params, 0), params, False, caller_of())

    def _settle(self, outcome: tuple[Sample, Usage] | LanguageModelError) -> None:
        if isinstance(outcome, CapabilityError):
            self._logprobs = False
        elif not isinstance(outcome, LanguageModelError):
            self._logprobs = outcome[0].logprobs is not None

    # --- calling -----------------------------------------------------------------------------------------------

    def _run(self, call: _Call) -> tuple[Sample, Usage] | LanguageModelError:
        while True:
            model, keywords = self._options.apply(call.options)
            try:
                return self._read(model.invoke(call.messages, call.caller.config, **keywords), call)
            except Exception as error:
                if not self._options.learn(error, call.options):
                    return _as_error(error, self.name)

    async def _arun(self, call: _Call) -> tuple[Sample, Usage] | LanguageModelError:
        while True:
            model, keywords = self._options.apply(call.options)
            try:
                return self._read(await model.ainvoke(call.messages, call.caller.config, **keywords), call)
            except Exception as error:
                if not self._options.learn(error, call.options):
                    return _as_error(error, self.name)

    def _read(self, reply: Any, call: _Call) -> tuple[Sample, Usage]:
        if call.params.logprobs and "logprobs" in self._options.refused:
            raise CapabilityError("token_logprobs", self.name, hint="Set logprobs=False.")
        return _lm_read.sample(reply, call.params, restored=call.restored, name=self.name), _lm_read.usage(reply)


def as_language_model(llm: object, *, logprobs: LogprobsMode = "auto") -> LanguageModel | None:
    """``None`` as it is, one of ours as it is, a LangChain chat model as ``LangChainLM``; InputError for others."""
    if llm is None or isinstance(llm, BaseLanguageModel):
        return llm
    if isinstance(llm, Runnable):
        return LangChainLM(llm, logprobs=logprobs)
    if isinstance(llm, LanguageModel):
        return llm
    raise InputError(
        f"A {type(llm).__name__} is no language model.",
        hint="Give a LangChain chat model (ChatOpenAI(…)), or a backend of shared_core.lm.",
    )


def _options(params: SamplingParams, i: int) -> dict[str, Any]:
    """What to ask of the model for sample ``i``; the same seed for all would make them all one sample."""
    options: dict[str, Any] = {"temperature": params.temperature, "max_tokens": params.max_tokens}
    if params.top_p < 1:
        options["top_p"] = params.top_p
    if params.top_k:
        options["top_k"] = params.top_k
    if params.seed is not None:
        options["seed"] = params.seed + i
    if params.stop and not params.include_stop:  # a provider leaves out the string it stopped at
        options["stop"] = list(params.stop[:_MOST_STOPS])
    if params.logprobs:
        options["logprobs"] = True
    return options


def _gather(
    plans: Sequence[list[_Call] | LanguageModelError],
    outcomes: Sequence[tuple[Sample, Usage] | LanguageModelError],
) -> list[GenerateResult]:
    results: list[GenerateResult] = []
    start = 0
    for plan in plans:
        if isinstance(plan, LanguageModelError):
            results.append(plan)
            continue
        mine = outcomes[start : start + len(plan)]
        start += len(plan)
        failed = next((o for o in mine if isinstance(o, LanguageModelError)), None)
        written = [o for o in mine if not isinstance(o, LanguageModelError)]
        total = sum((u for _, u in written), Usage())
        results.append(failed if failed is not None else Generation(tuple(s for s, _ in written), total))
    return results


def _as_error(error: Exception, name: str) -> LanguageModelError:
    if isinstance(error, LanguageModelError):
        return error
    found: LanguageModelError | None = context_overflow({"message": str(error)})
    if found is None:
        message = f"{name} failed: {type(error).__name__}: {str(error)[:300]}"
        if isinstance(error, (TimeoutError, ConnectionError)) or type(error).__name__.startswith(_UNREACHABLE):
            found = BackendUnavailableError(message, hint="Is the provider reachable? llm.with_retry() tries again.")
        else:
            found = GenerationError(message, hint="The provider's own error is its cause (__cause__).")
    found.__cause__ = error
    return found


def _model_name(model: Any) -> str:
    for attribute in ("model_name", "model", "model_id", "deployment_name", "repo_id"):
        value = getattr(model, attribute, None)
        if isinstance(value, str) and value:
            return value
    return str(model.get_name()) if isinstance(model, Runnable) else type(model).__name__
