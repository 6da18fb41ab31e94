"""``LlamaIndexLM``: a language model of LlamaIndex as one of ours."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, LogProb, MessageRole
from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW
from llama_index.core.instrumentation.dispatcher import (  # type: ignore[attr-defined]  # used there, exported nowhere
    active_instrument_tags,
    instrument_tags,
)
from llama_index.core.llms import LLM
from llama_index.core.llms.custom import CustomLLM

from shared_core.errors import InputError, ResponseError
from shared_core.facades.arguments import no_language_model
from shared_core.lm.base import LanguageModel, is_language_model
from shared_core.lm.chat import (
    Ask,
    ChatAdapter,
    LogprobsMode,
    Reply,
    Tokens,
    find_reason,
    find_usage,
    get,
    read_content,
    read_tokens,
    runs_here,
    tokens_of,
)
from shared_core.support.threads import in_thread

_LOG = logging.getLogger(__name__)
_ROLES = {"system": MessageRole.SYSTEM, "user": MessageRole.USER, "assistant": MessageRole.ASSISTANT}

INNER_TAGS = {"selfreflect": "inner"}
"""On every instrumentation event and span of a call made here (``event.tags``), so that drafts and judges' replies can
be told from what the user asked for."""

Sent = list[ChatMessage] | str
"""A chat, or a text to be completed."""

_THOUGHTS = ("reasoning_content", "reasoning", "thinking", "thinking_delta")
"""Where integrations put a model's thoughts beside its text."""


class LlamaIndexLM(ChatAdapter):
    """Adapter of any LlamaIndex ``LLM``: text, and token log-probabilities if the provider returns them.

    >>> from llama_index.core.llms import MockLLM
    >>> LlamaIndexLM(MockLLM()).capabilities.text
    True

    Chat models get chat messages, others a completion, as in LlamaIndex itself; a model without a chat template is
    completed. The model's own ``system_prompt``, callbacks and tracing stay in place, and instrumentation events carry
    ``INNER_TAGS``. Samples are separate concurrent calls. Untrusted text is neutralised reversibly, and stop
    strings are cut here. Thoughts, an echoed prompt and code fences around the whole reply are removed.

    A request's ``temperature``, ``max_tokens``, ``top_p``, ``top_k`` and ``seed`` are passed as call options if the
    model's class has a field of that name. A class without such a field (or that ignores call options, as Ollama's
    does) uses its own configuration, so samples may not differ. What a model refuses (reasoning models take no
    temperature) is left out from then on, and logged.

    Args:
        llm: of LlamaIndex.
        logprobs: whether the provider returns token log-probabilities: ``True``, ``False``, ``"probe"`` to find out
            with one call of one token at first use, or ``"auto"``: probe if the class has a field ``logprobs``.
        options: names of the call options to pass, in place of those that the class has fields for.
        name: name that calibrations are bound to; by default the model's own.
        context_length: context of the model in tokens; by default from its metadata.
        max_concurrency: maximum concurrent calls, by default 8, and 1 for a model in this process.
        timeout: seconds for one sample; ``None`` for no limit.
        thinking_tokens: added to the token limit once the model has been seen to think aloud.

    Raises:
        InputError: ``llm`` is no LLM of LlamaIndex, or an option is out of range.
    """

    _option_names: ClassVar = {
        "max_tokens": ("max_tokens", "max_completion_tokens", "max_output_tokens"),
        "logprobs": ("logprobs", "top_logprobs"),
    }

    def __init__(
        self,
        llm: LLM,
        *,
        logprobs: LogprobsMode = "auto",
        options: Collection[str] | None = None,
        name: str | None = None,
        context_length: int | None = None,
        max_concurrency: int | None = None,
        timeout: float | None = 600.0,
        thinking_tokens: int = 2048,
    ) -> None:
        if not isinstance(llm, LLM):
            raise InputError(
                f"A {type(llm).__name__} is no language model of LlamaIndex.", hint="Give an LLM (OpenAI(…))."
            )
        self.llm = llm
        self._passed = set(type(llm).model_fields if options is None else options)
        self._warned = False
        metadata = llm.metadata
        window = metadata.context_window
        if context_length is None and window > 0 and window != DEFAULT_CONTEXT_WINDOW:
            context_length = window  # the default stands where a class does not know
        if max_concurrency is None:
            max_concurrency = 1 if runs_here(llm) else 8
        super().__init__(
            name=name or (metadata.model_name if metadata.model_name not in ("", "unknown") else llm.class_name()),
            logprobs=logprobs,
            context_length=context_length,
            max_concurrency=max_concurrency,
            timeout=timeout,
            thinking_tokens=thinking_tokens,
        )

    def can_complete(self) -> bool:
        """Every LLM of LlamaIndex has ``complete``."""
        return True

    def clients(self) -> Iterable[object]:
        """The model, which holds its provider's key."""
        return (self.llm,)

    def _declared_logprobs(self) -> bool | None:
        # A field of that name is no promise: the provider may ignore it, so one call tells.
        return None if "logprobs" in type(self.llm).model_fields else False

    def _call(self, ask: Ask, options: Mapping[str, Any]) -> Reply:
        prompt = self._prompt(ask)
        with _tagged():
            answer = self._answer(prompt, options)
        return self._reply(answer, prompt, ask)

    async def _acall(self, ask: Ask, options: Mapping[str, Any]) -> Reply:
        prompt = self._prompt(ask)
        with _tagged():
            answer = await self._aanswer(prompt, options)
        return self._reply(answer, prompt, ask)

    def _answer(self, prompt: Sent, options: Mapping[str, Any]) -> ChatResponse | CompletionResponse:
        if isinstance(prompt, str):
            return self.llm.complete(prompt, formatted=True, **options)
        return self.llm.chat(prompt, **options)

    async def _aanswer(self, prompt: Sent, options: Mapping[str, Any]) -> ChatResponse | CompletionResponse:
        if _blocking(self.llm, "acomplete" if isinstance(prompt, str) else "achat"):
            return await in_thread(self._answer, prompt, options)
        if isinstance(prompt, str):
            return await self.llm.acomplete(prompt, formatted=True, **options)
        return await self.llm.achat(prompt, **options)

    def _reply(self, answer: object, prompt: Sent, ask: Ask) -> Reply:
        return _read(answer, self._who, sent=prompt if isinstance(prompt, str) else "", logprobs=ask.params.logprobs)

    # --- what is sent ------------------------------------------------------------------------------------------

    def _prompt(self, ask: Ask) -> Sent:
        """Messages for a chat model, text for another."""
        system = self.llm.system_prompt
        messages = [ChatMessage(role=_ROLES[role], content=content) for role, content in ask.sent.messages]
        if self.llm.metadata.is_chat_model and not ask.completes:
            return [ChatMessage(role=MessageRole.SYSTEM, content=system), *messages] if system else messages
        text = self._rendered(messages, ask)
        return f"{system}\n\n{text}" if system else text

    def _rendered(self, messages: list[ChatMessage], ask: Ask) -> str:
        """One text, by the model's own template where it has one that works."""
        if ask.completes:
            return ask.sent.text
        chat, completion = self.llm.messages_to_prompt, self.llm.completion_to_prompt
        if not ask.request.prompt.is_chat:
            return ask.sent.text if completion is None else completion(ask.sent.text)
        try:
            if chat is not None:
                return chat(messages)
        except Exception as error:  # a tokenizer without a chat template, for one
            if not self._warned:
                self._warned = True
                why = self._secrets().strip(str(error), 120)
                _LOG.warning("%s has no chat template that works, it is given plain text: %s", self.name, why)
        return ask.sent.text

    def _options(self, ask: Ask) -> dict[str, Any]:
        """Call options of one sample."""
        params = ask.params
        given: dict[str, Any] = {"temperature": params.temperature, "max_tokens": ask.max_tokens}
        given |= {"top_p": params.top_p} if params.top_p < 1 else {}
        given |= {"top_k": params.top_k} if params.top_k > 0 else {}
        given |= {"seed": ask.seed} if ask.seed is not None else {}
        options = {k: v for k, v in given.items() if k in self._passed}
        if params.logprobs:
            options["logprobs"] = True if self.llm.metadata.is_chat_model and not ask.completes else 1
        return options


@contextmanager
def _tagged() -> Iterator[None]:
    with instrument_tags({**active_instrument_tags.get(), **INNER_TAGS}):
        yield


def _blocking(llm: LLM, name: str) -> bool:
    """Whether that async method is the one of ``CustomLLM``, which runs the sync one within the event loop."""
    return inspect.unwrap(getattr(type(llm), name)) is inspect.unwrap(getattr(CustomLLM, name))


# --- what comes back ------------------------------------------------------------------------------------------------


def _read(answer: Any, who: str, *, sent: str, logprobs: bool) -> Reply:
    """Convert the answer of ``chat`` or ``complete`` to the common form; ResponseError for others.

    ``sent`` is the text that was to be completed, empty for a chat.
    """
    if not isinstance(answer, (ChatResponse, CompletionResponse)):
        raise ResponseError(
            f"{who} gave a {type(answer).__name__}, not a message.", hint="Does llm.complete('Hello') work by itself?"
        )
    message = answer.message if isinstance(answer, ChatResponse) else None
    blocks = read_content(get(message, "blocks"))
    text = blocks.text  # a message's ``content`` would put a line break between two of them
    if text is None:
        text = read_content(answer.text if isinstance(answer, CompletionResponse) else get(message, "content")).text
    if text is None and message is not None and not get(message, "blocks"):
        text = ""  # LlamaIndex makes no block of a reply that is empty
    choice, candidate = (get(get(answer.raw, name), 0) for name in ("choices", "candidates"))
    extra = (get(message, "additional_kwargs"), answer.additional_kwargs, get(choice, "message"))
    refusal = get(get(choice, "message"), "refusal")
    tokens = None
    if logprobs:
        tokens = read_tokens(get(choice, "logprobs")) or _tokens_from_top(text or "", answer.logprobs)
    return Reply(
        text=text,
        reason=find_reason(choice, answer.raw, candidate, *extra),
        thought=blocks.thought or any(get(e, name) for e in extra for name in _THOUGHTS),
        called_tool=blocks.called_tool or any(get(e, "tool_calls") for e in extra),
        refusal=refusal if isinstance(refusal, str) else "",
        tokens=tokens,
        usage=find_usage(answer.additional_kwargs, get(answer.raw, "usage"), get(answer.raw, "usage_metadata"),
                         answer.raw),
        sent=sent,
    )  # fmt: skip


def _tokens_from_top(text: str, top: Sequence[Sequence[LogProb]] | None) -> Tokens | None:
    """Find the one way to read ``text`` through the lists, one token of each; ``None`` if there is none or several.

    LlamaIndex passes on, for each position, the list of the most probable tokens, and does not mark which one was
    generated. Where the provider's raw reply does not say it, it is worked out from the text, without guessing.
    """
    if not top:
        return None
    # ways[i][place]: number of ways (at most 2) to reach that place of the text with the first i lists
    ways: list[dict[int, int]] = [{0: 1}]
    for position in top:
        reached: dict[int, int] = {}
        for place, count in ways[-1].items():
            for token in {entry.token for entry in position}:
                if token and text.startswith(token, place):
                    end = place + len(token)
                    reached[end] = min(2, reached.get(end, 0) + count)
        ways.append(reached)
    if ways[-1].get(len(text)) != 1:
        return None
    tokens, values, place = [], [], len(text)
    for i in range(len(top), 0, -1):
        entry = _ending(top[i - 1], text, place, ways[i - 1])
        tokens.append(entry.token)
        values.append(entry.logprob)
        place -= len(entry.token)
    return tokens_of(tokens[::-1], values[::-1])


def _ending(position: Sequence[LogProb], text: str, end: int, before: Mapping[int, int]) -> LogProb:
    """The entry that leads to ``end`` from a place that can be reached; there is exactly one."""
    for entry in position:
        start = end - len(entry.token)
        if entry.token and start in before and text.startswith(entry.token, start):
            return entry
    raise AssertionError("a reached place has a way to it")


def as_language_model(llm: object) -> LanguageModel | None:
    """Convert a user's ``llm``: ``None``, one of LlamaIndex, one of ours, or ``"settings"`` (``Settings.llm``).

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
    if is_language_model(llm):
        return llm
    raise no_language_model(
        llm, "Give an LLM of LlamaIndex (OpenAI(…)), a backend of shared_core.lm, or 'settings' for Settings.llm."
    )
