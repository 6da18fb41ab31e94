"""``LlamaIndexLM``: a language model of LlamaIndex as one of ours."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, MessageRole
from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW
from llama_index.core.llms import LLM
from llama_index.core.llms.custom import CustomLLM

from llamaindex_selfreflect._failures import as_language_model_error
from llamaindex_selfreflect._logprobs import generated_tokens, get
from shared_core.errors import CapabilityError, InputError, LanguageModelError, ResponseError
from shared_core.lm.base import (
    BaseLanguageModel,
    Capabilities,
    FinishReason,
    Generate,
    GenerateResult,
    Generation,
    LanguageModel,
    Part,
    Prompt,
    Sample,
    SamplingParams,
)
from shared_core.lm.neutralise import MARK, neutralise, restore
from shared_core.types import Usage

Reply = ChatResponse | CompletionResponse
T = TypeVar("T")
_ROLES = {"system": MessageRole.SYSTEM, "user": MessageRole.USER, "assistant": MessageRole.ASSISTANT}


class LlamaIndexLM(BaseLanguageModel):
    """Text, and token log-probabilities where the provider returns them, from any ``LLM`` of LlamaIndex.

    Chat models get chat messages, others a completion, as in LlamaIndex itself; the model's own ``system_prompt``,
    callbacks and tracing stay in place. ``n`` samples are ``n`` calls. Untrusted text is neutralised reversibly, stop
    strings are cut here. A call that fails gives its error as the result.

    A request's ``temperature``, ``max_tokens``, ``top_p``, ``top_k`` and ``seed`` are passed as call options if the
    model's class has a field of that name. A class without such a field (or that ignores call options, as Ollama's
    does) goes by its own configuration, and samples then differ only as far as it lets them.

    Args:
        llm: of LlamaIndex.
        logprobs: whether the provider returns token log-probabilities if asked (``logprobs=True``); by default
            whether the class has a field ``logprobs``.
        options: names of the call options to pass, in place of those that the class has fields for.
        concurrency: calls under way at once in ``agenerate``, at least 1; ``generate`` makes one after another.

    Raises:
        InputError: ``llm`` is no LLM of LlamaIndex, or ``concurrency`` is below 1.
    """

    def __init__(
        self,
        llm: LLM,
        *,
        logprobs: bool | None = None,
        options: Collection[str] | None = None,
        concurrency: int = 8,
    ) -> None:
        if not isinstance(llm, LLM):
            raise InputError(f"{type(llm).__name__} is no LLM of LlamaIndex.", hint="Pass llama_index.core.llms.LLM.")
        if concurrency < 1:
            raise InputError(f"concurrency must be at least 1, not {concurrency}.")
        self.llm = llm
        self.concurrency = concurrency
        self._passed = set(type(llm).model_fields if options is None else options)
        metadata = llm.metadata
        self.name = metadata.model_name if metadata.model_name not in ("", "unknown") else llm.class_name()
        window = metadata.context_window
        self.capabilities = Capabilities(
            token_logprobs="logprobs" in type(llm).model_fields if logprobs is None else logprobs,
            # The default stands where a class does not know.
            context_length=window if window > 0 and window != DEFAULT_CONTEXT_WINDOW else None,
        )

    def generate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Continue the prompts, one call after another."""
        return [self._generate(r) for r in requests]

    async def agenerate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Continue the prompts through the model's own async methods, ``concurrency`` calls at once."""
        gate = asyncio.Semaphore(self.concurrency)
        return list(await asyncio.gather(*(self._agenerate(r, gate) for r in requests)))

    # --- one request -------------------------------------------------------------------------------------------

    def _generate(self, request: Generate) -> GenerateResult:
        try:
            prompt = self._prompt(request)
            return _generation([self._call(prompt, o) for o in self._options(request.params)], request.params)
        except Exception as error:  # a value, so that one bad request does not take the others down
            return self._failure(error)

    async def _agenerate(self, request: Generate, gate: asyncio.Semaphore) -> GenerateResult:
        try:
            prompt = self._prompt(request)
            calls = [asyncio.ensure_future(self._acall(prompt, o, gate)) for o in self._options(request.params)]
            try:
                replies = await asyncio.gather(*calls)
            finally:
                for call in calls:  # one has failed: the others are not waited for
                    call.cancel()
            return _generation(replies, request.params)
        except Exception as error:
            return self._failure(error)

    def _call(self, prompt: list[ChatMessage] | str, options: dict[str, Any]) -> Reply:
        if isinstance(prompt, str):
            return self.llm.complete(prompt, formatted=True, **options)
        return self.llm.chat(prompt, **options)

    async def _acall(self, prompt: list[ChatMessage] | str, options: dict[str, Any], gate: asyncio.Semaphore) -> Reply:
        async with gate:
            if isinstance(prompt, str):
                if _blocking(self.llm, "acomplete"):
                    return await asyncio.to_thread(self._call, prompt, options)
                return await self.llm.acomplete(prompt, formatted=True, **options)
            if _blocking(self.llm, "achat"):
                return await asyncio.to_thread(self._call, prompt, options)
            return await self.llm.achat(prompt, **options)

    def _failure(self, error: Exception) -> LanguageModelError:
        secrets = tuple(str(v) for k in ("api_key", "token") if (v := getattr(self.llm, k, None)))
        return as_language_model_error(error, self.name, secrets)

    # --- what is sent ------------------------------------------------------------------------------------------

    def _prompt(self, request: Generate) -> list[ChatMessage] | str:
        """Messages for a chat model, text for another."""
        self._check(request.params)
        parts = _merged(self._parts(request.prompt))
        system = self.llm.system_prompt
        if self.llm.metadata.is_chat_model:
            messages = [ChatMessage(role=MessageRole.SYSTEM, content=system)] if system else []
            return messages + _messages(parts)
        if request.prompt.is_chat:
            text = _rendered(self.llm.messages_to_prompt, _messages(parts))
        else:
            text = _rendered(self.llm.completion_to_prompt, "".join(p.text for p in parts))
        return f"{system}\n\n{text}" if system else text

    def _parts(self, prompt: Prompt) -> Sequence[Part]:
        if any(p.token_ids is not None for p in prompt.parts):
            raise CapabilityError("token_prompts", self.name, hint="Give the prompt as text.")
        return prompt.parts

    def _check(self, params: SamplingParams) -> None:
        wanted = {
            "grammar": params.grammar is not None,
            "verdict_logprobs": bool(params.verdicts),
            "hidden_states": params.capture is not None,
            "token_statistics": params.token_statistics,
            "token_logprobs": params.logprobs and not self.capabilities.token_logprobs,
        }
        for name, asked in wanted.items():
            if asked:
                raise CapabilityError(name, self.name, hint="Use TransformersLM or OpenAICompatibleLM for it.")

    def _options(self, params: SamplingParams) -> Iterator[dict[str, Any]]:
        """Call options of each sample."""
        given: dict[str, Any] = {"temperature": params.temperature, "max_tokens": params.max_tokens}
        given |= {"top_p": params.top_p} if params.top_p < 1 else {}
        given |= {"top_k": params.top_k} if params.top_k > 0 else {}
        options = {k: v for k, v in given.items() if k in self._passed}
        if params.logprobs:
            options["logprobs"] = True if self.llm.metadata.is_chat_model else 1
        for i in range(params.n):
            seed = {"seed": params.seed + i} if params.seed is not None and "seed" in self._passed else {}
            yield {**options, **seed}


def _merged(parts: Sequence[Part]) -> list[Part]:
    """Neighbours of one role and trust joined, then neutralised: no control string can hide across two parts."""
    merged: list[Part] = []
    for (role, trusted), group in itertools.groupby(parts, key=lambda p: (p.role, p.trusted)):
        text = "".join(p.text for p in group)
        merged.append(Part(text if trusted else neutralise(text), True, role))
    return merged


def _messages(parts: Sequence[Part]) -> list[ChatMessage]:
    """One message for each run of parts of a role; parts without a role are the user's."""
    runs = itertools.groupby(parts, key=lambda p: p.role or "user")
    return [ChatMessage(role=_ROLES[role], content="".join(p.text for p in run)) for role, run in runs]


def _blocking(llm: LLM, name: str) -> bool:
    """Whether that async method is the one of ``CustomLLM``, which runs the sync one within the event loop."""
    return inspect.unwrap(getattr(type(llm), name)) is inspect.unwrap(getattr(CustomLLM, name))


def _rendered(template: Callable[[T], str] | None, value: T) -> str:
    assert template is not None, "LLM fills in its templates when it is made"
    return template(value)


# --- what comes back -----------------------------------------------------------------------------------------------


def _generation(replies: Sequence[Reply], params: SamplingParams) -> Generation:
    usage = Usage()
    for reply in replies:
        usage += _usage(reply)
    return Generation(tuple(_sample(r, params) for r in replies), usage)


def _sample(reply: Reply, params: SamplingParams) -> Sample:
    text = reply.message.content if isinstance(reply, ChatResponse) else reply.text
    text = "" if text is None else text
    if not isinstance(text, str):
        raise ResponseError(f"The reply's text is a {type(text).__name__}.", hint="A plain-text model is needed.")
    known = generated_tokens(text, reply.logprobs, reply.raw) if params.logprobs else None
    finish = _finish(reply)
    end, stop = _cut(text, params)
    if stop is not None:
        text, finish = text[:end], "stop"
    if known is None:
        return Sample(restore(text), finish_reason=finish, stop=stop)
    count = _tokens_within(known[0], end)
    tokens = _restored(known[0][:count], text)
    return Sample(restore(text), finish_reason=finish, stop=stop, logprobs=known[1][:count], tokens=tokens)


def _cut(text: str, params: SamplingParams) -> tuple[int, str | None]:
    """Where the text ends, by the stop string that comes first (the longest of those at one place)."""
    places = [(text.find(s), -len(s), s) for s in params.stop if s in text]
    if not places:
        return len(text), None
    place, _, stop = min(places)
    return place + (len(stop) if params.include_stop else 0), stop


def _tokens_within(tokens: Sequence[str], end: int) -> int:
    """How many tokens begin before ``end``."""
    starts = itertools.accumulate((len(t) for t in tokens), initial=0)
    return sum(start < end for start, _ in zip(starts, tokens))


def _restored(tokens: tuple[str, ...], text: str) -> tuple[str, ...] | None:
    """The tokens without marks of neutralisation; ``None`` where a mark spreads over tokens."""
    if MARK not in "".join(tokens):
        return tokens
    whole = tuple(restore(t) for t in tokens)
    return whole if "".join(whole).startswith(restore(text)) else None


def _finish(reply: Reply) -> FinishReason:
    reason = get(get(get(reply.raw, "choices"), 0), "finish_reason") or get(reply.raw, "done_reason")
    reason = reason or get(reply.raw, "stop_reason")
    return "length" if str(reason) in ("length", "max_tokens", "MAX_TOKENS") else "eos"


def _usage(reply: Reply) -> Usage:
    """Token counts where the integration gives them."""
    counts = get(reply.raw, "usage")
    prompt = _count(reply, counts, "prompt_tokens", "input_tokens")
    generated = _count(reply, counts, "completion_tokens", "output_tokens")
    return Usage(calls=1, prompt_tokens=prompt, generated_tokens=generated)


def _count(reply: Reply, counts: object, *names: str) -> int:
    for source, name in itertools.product((reply.additional_kwargs, counts), names):
        value = get(source, name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return 0


def as_language_model(llm: object) -> LanguageModel | None:
    """What users may give as ``llm``: nothing, one of LlamaIndex, one of ours, or ``"settings"`` (``Settings.llm``).

    Raises:
        InputError: it is none of these.
    """
    if llm is None:
        return None
    if llm == "settings":
        from llama_index.core import Settings

        llm = Settings.llm
    if isinstance(llm, LLM):
        return LlamaIndexLM(llm)
    if isinstance(llm, LanguageModel):
        return llm
    raise InputError(
        f"{type(llm).__name__} is no language model.",
        hint="Pass an LLM of LlamaIndex, a backend of shared_core.lm, or 'settings' for Settings.llm.",
    )
