"""``LangChainLM``: a LangChain model as a language model backend of ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.language_models.llms import BaseLLM
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import merge_configs

from langchain_selfreflect._caller import caller_of
from langchain_selfreflect._lm_options import NAMES, Options, innermost, is_sync, without_cache
from shared_core.errors import InputError, MissingDependencyError, ResponseError
from shared_core.facades.arguments import no_language_model
from shared_core.lm.base import BaseLanguageModel, LanguageModel, is_language_model
from shared_core.lm.chat import (
    Ask,
    ChatAdapter,
    LogprobsMode,
    Reply,
    find_reason,
    find_usage,
    get,
    read_content,
    read_tokens,
    runs_here,
)
from shared_core.support.threads import in_thread

HIDDEN_TAGS = ("nostream", "langsmith:nostream")
"""LangGraph keeps calls with these off ``stream_mode="messages"``; ``astream_events(…, exclude_tags=["nostream"])``
leaves them out there too."""
INNER_TAGS = (*HIDDEN_TAGS, "selfreflect:inner")
"""On every call of a model made here, so that drafts and judges' replies stay unseen."""


_CLASSES: Mapping[str, type[BaseMessage]] = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}

_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""Where integrations put a model's thoughts beside its text."""


class LangChainLM(ChatAdapter):
    """Adapter of a LangChain model to our interface: text, and token log-probabilities if the provider returns them.

    >>> from langchain_core.language_models import FakeListChatModel
    >>> LangChainLM(FakeListChatModel(responses=["In 1871."])).capabilities.text
    True

    Control strings in untrusted text are neutralised on the way in and restored on the way out. Thoughts, an echoed
    prompt and code fences around the whole reply are removed. Every call keeps the callbacks, tags and metadata of its
    caller's run, and is tagged with ``INNER_TAGS``. Samples are separate concurrent calls, and none comes from a cache
    of LangChain. Temperature, seed and limits are set if the model accepts them; otherwise its own values apply.

    Args:
        chat_model: a ``BaseChatModel``, a model that completes text (``HuggingFacePipeline``), or a runnable around
            one (``llm.bind(…)``, ``llm.with_retry()``).
        logprobs: whether the provider returns token log-probabilities: ``True``, ``False``, ``"probe"`` to find out
            with one call of one token at first use, or ``"auto"``: probe if the model's class knows a ``logprobs``
            option.
        name: name that calibrations are bound to; by default the model's own.
        context_length: context of the model in tokens, if known.
        max_concurrency: maximum concurrent calls, by default 8, and 1 for a model in this process; a lower limit in
            the run's config takes precedence.
        timeout: seconds for one sample; ``None`` for no limit.
        thinking_tokens: added to the token limit once the model has been seen to think aloud.

    Raises:
        InputError: ``chat_model`` is not a LangChain model, or an option is out of range.
    """

    _option_names = NAMES

    def __init__(
        self,
        chat_model: Runnable[Any, Any],
        *,
        logprobs: LogprobsMode = "auto",
        name: str | None = None,
        context_length: int | None = None,
        max_concurrency: int | None = None,
        timeout: float | None = 600.0,
        thinking_tokens: int = 2048,
    ) -> None:
        if not isinstance(chat_model, Runnable):
            raise InputError(
                f"A {type(chat_model).__name__} is no language model of LangChain.",
                hint="Give a BaseChatModel (ChatOpenAI(…)).",
            )
        self.chat_model = chat_model
        self._inner = innermost(chat_model)
        self._sampling = Options(chat_model)
        self._local = runs_here(self._inner, getattr(self._inner, "llm", None))
        if max_concurrency is None:
            max_concurrency = 1 if self._local else 8
        super().__init__(
            name=name or _model_name(self._inner),
            logprobs=logprobs,
            context_length=context_length,
            max_concurrency=max_concurrency,
            timeout=timeout,
            thinking_tokens=thinking_tokens,
        )

    def can_complete(self) -> bool:
        """Whether there is a model behind the chat that completes text (``ChatHuggingFace(llm=…)``)."""
        return isinstance(getattr(self._inner, "llm", None), BaseLLM)

    def clients(self) -> Iterable[object]:
        """The model and what is wrapped around it."""
        return (self.chat_model, self._inner, getattr(self._inner, "llm", None))

    def _declared_logprobs(self) -> bool | None:
        return None if self._sampling.declares("logprobs") else False

    def _at_once(self, asks: Sequence[Ask]) -> int:
        asked = [caller_of(a.request.model).config.get("max_concurrency") for a in asks]
        return min([self.max_concurrency, *(most for most in asked if most)])

    def _call(self, ask: Ask, options: Mapping[str, Any]) -> Reply:
        model, keywords = self._model(ask, options)
        return _read(model.invoke(self._prompt(ask), self._config(ask), **keywords), self._who)

    async def _acall(self, ask: Ask, options: Mapping[str, Any]) -> Reply:
        model, keywords = self._model(ask, options)
        prompt, config = self._prompt(ask), self._config(ask)
        if is_sync(model):
            return _read(await in_thread(model.invoke, prompt, config, **keywords), self._who)
        return _read(await model.ainvoke(prompt, config, **keywords), self._who)

    def _model(self, ask: Ask, options: Mapping[str, Any]) -> tuple[Runnable[Any, Any], dict[str, Any]]:
        model, keywords = self._sampling.apply(options)
        if ask.completes and self.can_complete():
            model, keywords = self._inner.llm, {k: v for k, v in keywords.items() if k == "stop"}
        return without_cache(model) if ask.params.temperature > 0 else model, keywords

    def _text_only(self, ask: Ask) -> bool:
        return ask.completes or isinstance(self._inner, BaseLLM)

    def _prompt(self, ask: Ask) -> str | list[BaseMessage]:
        """Convert to messages, or to a text for a completion model."""
        if self._text_only(ask):
            return ask.sent.text
        return [_CLASSES[role](content=content) for role, content in ask.sent.messages]

    def _options(self, ask: Ask) -> dict[str, Any]:
        params = ask.params
        if params.n > 1 and params.temperature > 0:
            self._sampling.warn_without("temperature", "all samples are drawn at the model's own")
        wanted: dict[str, Any] = {"temperature": params.temperature, "max_tokens": ask.max_tokens}
        if params.top_p < 1:
            wanted["top_p"] = params.top_p
        if params.top_k:
            wanted["top_k"] = params.top_k
        if ask.seed is not None:
            wanted["seed"] = ask.seed
        # A pipeline that gives the prompt back would stop in there.
        if ask.stop and not (self._local and self._text_only(ask)):
            wanted["stop"] = list(ask.stop)
        if params.logprobs:
            wanted["logprobs"] = True
        return wanted

    def _config(self, ask: Ask) -> RunnableConfig:
        """Return the config of the calling run, for its tracing, with the tags of inner calls."""
        return inner_config(caller_of(ask.request.model).config)


def _read(answer: Any, who: str) -> Reply:
    """Convert a message, or a text, to the common form; ResponseError for others, such as what a parser makes."""
    if isinstance(answer, str):
        return Reply(read_content(answer).text)
    if not isinstance(answer, BaseMessage):
        raise ResponseError(
            f"{who} gave a {type(answer).__name__}, not a message.",
            hint="Give a chat model, without a parser behind it.",
        )
    said, extra = answer.response_metadata, answer.additional_kwargs
    content = read_content(answer.content)
    refusal = get(extra, "refusal")
    stop = get(said, "stop_sequence")
    return Reply(
        text=content.text,
        reason=find_reason(said, extra),
        stop=stop if isinstance(stop, str) else None,
        thought=content.thought or any(get(extra, name) for name in _THOUGHTS),
        called_tool=content.called_tool or bool(get(answer, "tool_calls")) or bool(get(answer, "invalid_tool_calls")),
        refusal=refusal if isinstance(refusal, str) else "",
        tokens=read_tokens(get(said, "logprobs")),
        usage=find_usage(get(answer, "usage_metadata") if isinstance(answer, AIMessage) else None, get(said, "usage"),
                         get(said, "token_usage")),
    )  # fmt: skip


def inner_config(config: RunnableConfig) -> RunnableConfig:
    """Add the tags of inner calls to a config."""
    # An empty one is left out: each config that is merged brings the callbacks of the context with it.
    return merge_configs(config or None, RunnableConfig(tags=list(INNER_TAGS)))


def as_language_model(llm: object, *, logprobs: LogprobsMode = "auto") -> LanguageModel | None:
    """Return ``None`` and our own models unchanged, and wrap a LangChain model; InputError for others.

    A text is a model's name for ``init_chat_model`` of LangChain (``openai:gpt-4o``).
    """
    if llm is None or isinstance(llm, BaseLanguageModel):
        return llm
    if isinstance(llm, str) and ":" in llm:
        llm = _from_name(llm)
    if isinstance(llm, Runnable):
        return LangChainLM(llm, logprobs=logprobs)
    if is_language_model(llm):
        return llm
    raise no_language_model(
        llm, "Give a LangChain chat model, its name (openai:gpt-4o), or a backend of shared_core.lm."
    )


def _from_name(name: str) -> Runnable[Any, Any]:
    """Create the chat model of a name such as ``openai:gpt-4o`` with LangChain's ``init_chat_model``."""
    try:
        from langchain.chat_models import init_chat_model
    except ImportError as error:
        raise MissingDependencyError("langchain", extra="agents", purpose=f"A model by its name ({name!r})") from error
    try:
        made: Runnable[Any, Any] = init_chat_model(name)
    except (ImportError, ValueError) as error:
        raise InputError(
            f"init_chat_model({name!r}) failed: {error}",
            hint="Name provider and model (openai:gpt-4o), install the provider's package, or give the model itself.",
        ) from error
    return made


def _model_name(model: Any) -> str:
    for attribute in ("model_name", "model", "model_id", "deployment_name", "repo_id"):
        value = getattr(model, attribute, None)
        if isinstance(value, str) and value:
            return value
    return str(model.get_name()) if isinstance(model, Runnable) else type(model).__name__
