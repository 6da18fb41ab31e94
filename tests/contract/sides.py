"""One ``Side`` for each framework: the same scripted model, spoken to in the framework's own words.

A script is a function from the prompt as it was sent to an ``Answer`` (or a text, for short), to an exception to be
raised, or to ``HANG``. A test that holds on every side is written once, with the fixture ``side``. Further things of a
framework that are to keep the contract (engines, chains, retrievers) get a method here that makes them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.llms import BaseLLM
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult, Generation, LLMResult
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.custom import CustomLLM
from pydantic import Field

from langchain_selfreflect import LangChainLM
from llamaindex_selfreflect import LlamaIndexLM
from shared_core.lm import LanguageModel
from shared_core.lm.openai import OpenAICompatibleLM
from tests.openai_server import FakeServer

HANG = object()
"""What a script gives for a model that does not answer for a long time."""
LONG = 30.0


@dataclass(frozen=True)
class Answer:
    """What a model answers, in no framework's words.

    Attributes:
        text: of the reply; ``None`` for a reply without any.
        finish: why it ended, as OpenAI's API says it.
        tokens: (text, log-probability) of each token; bytes where it is a part of a character.
        thoughts: given beside the text.
        tool: it calls a tool.
        prompt_tokens, generated_tokens: usage.
    """

    text: str | None = ""
    finish: str = "stop"
    tokens: tuple[tuple[str | bytes, Any], ...] = ()
    thoughts: str = ""
    tool: bool = False
    prompt_tokens: int = 0
    generated_tokens: int = 0


Script = Callable[[str], Any]


@dataclass
class Seen:
    """One call that the model got: the prompt, the options (``max_tokens``, ``stop``, … in the framework's words)."""

    prompt: str
    options: Mapping[str, Any] = field(default_factory=dict)


class Model:
    """A scripted model, for all sides; safe from several threads.

    Attributes:
        seen: every call.
        busiest: how many calls were under way at once at most.
        pace: seconds that each call takes.
    """

    def __init__(self, script: Script, pace: float = 0.0) -> None:
        self.script, self.pace = script, pace
        self.seen: list[Seen] = []
        self.threads: set[str] = set()
        self.busy = self.busiest = 0
        self.hanging = threading.Event()
        self._lock = threading.Lock()

    @property
    def prompts(self) -> list[str]:
        return [s.prompt for s in self.seen]

    def begin(self, prompt: str, options: Mapping[str, Any]) -> Any:
        with self._lock:
            self.seen.append(Seen(prompt, options))
            self.threads.add(threading.current_thread().name)
            self.busy += 1
            self.busiest = max(self.busiest, self.busy)
        return self.script(prompt)

    def end(self) -> None:
        with self._lock:
            self.busy -= 1

    def answer(self, prompt: str, options: Mapping[str, Any]) -> Answer:
        try:
            said = self.begin(prompt, options)
            if said is HANG:
                self.hanging.wait(LONG)
            elif self.pace:
                time.sleep(self.pace)
            return _answer(said)
        finally:
            self.end()

    async def aanswer(self, prompt: str, options: Mapping[str, Any]) -> Answer:
        try:
            said = self.begin(prompt, options)
            await asyncio.sleep(LONG if said is HANG else self.pace)
            return _answer(said)
        finally:
            self.end()


def _answer(said: Any) -> Answer:
    if isinstance(said, BaseException):
        raise said
    if said is HANG:
        return Answer("late")
    return said if isinstance(said, Answer) else Answer(said)


def openai_logprobs(answer: Answer) -> dict[str, Any]:
    return {"content": [_token(t, p) for t, p in answer.tokens]}


def _token(text: str | bytes, logprob: Any) -> dict[str, Any]:
    if isinstance(text, str):
        return {"token": text, "logprob": logprob, "bytes": None}
    return {"token": "\\x", "logprob": logprob, "bytes": list(text)}


class Side(ABC):
    """A framework (or plain HTTP) and how a scripted model is made a language model of ours through it."""

    name: str
    raises: bool = True
    """A script's exceptions reach the adapter as they are."""

    def __init__(self) -> None:
        self.model = Model(lambda prompt: Answer())

    def lm(
        self, script: Script, *, completes: bool = False, pace: float = 0.0, kept: bool = False, **options: Any
    ) -> LanguageModel:
        """The scripted model as ours. ``self.model`` tells what it saw.

        Args:
            completes: it knows no chat.
            kept: a server and its client may be those of earlier tests: for tests of which neither learns anything.
        """
        self.model = Model(script, pace)
        return self._kept(completes, options) if kept else self._make(completes, options)

    def _kept(self, completes: bool, options: dict[str, Any]) -> LanguageModel:
        return self._make(completes, options)

    @abstractmethod
    def _make(self, completes: bool, options: dict[str, Any]) -> LanguageModel: ...

    def close(self) -> None:
        self.model.hanging.set()


# --- LlamaIndex ----------------------------------------------------------------------------------------------------


class _LlamaIndexText(CustomLLM):
    temperature: float = 0.1
    max_tokens: int = 10
    seed: int | None = None
    api_key: str = "llama-secret-key-1"
    _model: Model = PrivateAttr()

    def __init__(self, model: Model, **fields: Any) -> None:
        super().__init__(**fields)
        self._model = model

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **options: Any) -> CompletionResponse:
        answer = self._model.answer(prompt, options)
        return CompletionResponse(text=answer.text or "", raw=_raw(answer), additional_kwargs=_usage(answer))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **options: Any) -> Any:
        raise NotImplementedError


class _LlamaIndexChat(_LlamaIndexText):
    logprobs: bool | None = None

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted", is_chat_model=True)

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
        return self._chatted(self._model.answer(_joined(messages), options))

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
        return self._chatted(await self._model.aanswer(_joined(messages), options))

    def _chatted(self, answer: Answer) -> ChatResponse:
        message = ChatMessage(role=MessageRole.ASSISTANT, content=answer.text)
        blocks: list[Any] = [ThinkingBlock(content=answer.thoughts)] if answer.thoughts else []
        blocks += [TextBlock(text=answer.text)] if answer.text is not None else []
        blocks += [ToolCallBlock(tool_name="search", tool_kwargs={})] if answer.tool else []
        message.blocks = blocks
        return ChatResponse(message=message, raw=_raw(answer), additional_kwargs=_usage(answer))


def _joined(messages: Sequence[ChatMessage]) -> str:
    return "\n".join(str(m.content) for m in messages)


def _raw(answer: Answer) -> Any:
    content = [SimpleNamespace(**_token(t, p)) for t, p in answer.tokens]
    choice = SimpleNamespace(logprobs=SimpleNamespace(content=content), finish_reason=answer.finish)
    return SimpleNamespace(choices=[choice])


def _usage(answer: Answer) -> dict[str, int]:
    return {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.generated_tokens}


class LlamaIndexSide(Side):
    name = "llamaindex"

    def _make(self, completes: bool, options: dict[str, Any]) -> LanguageModel:
        return LlamaIndexLM((_LlamaIndexText if completes else _LlamaIndexChat)(self.model), **options)


# --- LangChain -----------------------------------------------------------------------------------------------------


class _LangChainChat(BaseChatModel):
    model_name: str = "scripted"
    temperature: float | None = 0.1
    max_tokens: int | None = None
    seed: int | None = None
    api_key: str = "lang-secret-key-1"
    model: Any = Field(exclude=True)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        return self._chatted(self.model.answer(_contents(messages), self._options(stop, options)))

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        return self._chatted(await self.model.aanswer(_contents(messages), self._options(stop, options)))

    def _options(self, stop: Any, options: dict[str, Any]) -> dict[str, Any]:
        own = {"temperature": self.temperature, "max_tokens": self.max_tokens, "seed": self.seed}
        return {**own, "stop": stop, **options}

    def _chatted(self, answer: Answer) -> ChatResult:
        content: Any = answer.text or ""
        if answer.thoughts:
            content = [{"type": "thinking", "thinking": answer.thoughts}, {"type": "text", "text": content}]
        used = {"input_tokens": answer.prompt_tokens, "output_tokens": answer.generated_tokens, "total_tokens": 0}
        message = AIMessage(
            content,
            response_metadata={"finish_reason": answer.finish, "logprobs": openai_logprobs(answer)},
            tool_calls=[{"name": "search", "args": {}, "id": "1"}] if answer.tool else [],
            usage_metadata=used,  # type: ignore[arg-type]
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    @property
    def _llm_type(self) -> str:
        return "scripted"


class _LangChainText(BaseLLM):
    model_name: str = "scripted"
    api_key: str = "lang-secret-key-1"
    model: Any = Field(exclude=True)

    def _generate(self, prompts: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> LLMResult:
        said = [self.model.answer(p, {"stop": stop, **options}) for p in prompts]
        return LLMResult(generations=[[Generation(text=a.text or "")] for a in said])

    async def _agenerate(self, prompts: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> LLMResult:
        said = [await self.model.aanswer(p, {"stop": stop, **options}) for p in prompts]
        return LLMResult(generations=[[Generation(text=a.text or "")] for a in said])

    @property
    def _llm_type(self) -> str:
        return "scripted-text"


def _contents(messages: Sequence[BaseMessage]) -> str:
    return "\n".join(str(m.content) for m in messages)


class LangChainSide(Side):
    name = "langchain"

    def _make(self, completes: bool, options: dict[str, Any]) -> LanguageModel:
        return LangChainLM((_LangChainText if completes else _LangChainChat)(model=self.model), **options)


# --- HTTP ----------------------------------------------------------------------------------------------------------


@cache
def _probed(completes: bool) -> tuple[LanguageModel, FakeServer]:
    """A server for the rest of the process, and a client that has asked what it can do."""
    made = HttpSide()
    made._make(completes, {})
    return made._opened[0], made._opened[1]


class HttpSide(Side):
    """The backend for OpenAI-compatible servers; exceptions of a script with a ``status_code`` become that answer."""

    name = "http"
    raises = False

    def __init__(self) -> None:
        super().__init__()
        self._opened: list[Any] = []

    def _make(self, completes: bool, options: dict[str, Any]) -> LanguageModel:
        server = FakeServer({"completions" if completes else "chat", "logprobs"})
        options.pop("logprobs", None)
        lm = OpenAICompatibleLM(
            server.url, api_key="http-secret-key-1", **{"max_retries": 0, "timeout": LONG, **options}
        )
        self._opened += [lm, server]
        lm.probe()
        server.script = self._script
        return lm

    def _kept(self, completes: bool, options: dict[str, Any]) -> LanguageModel:
        lm, server = _probed(completes)
        server.script = self._script
        return lm

    def _script(self, body: dict[str, Any], chat: bool) -> tuple[int, Any]:
        prompt = "\n".join(m["content"] for m in body["messages"]) if chat else body["prompt"]
        try:
            answer = self.model.answer(prompt, body)
        except Exception as error:
            said = getattr(error, "body", None) or {"message": str(error)}
            return getattr(error, "status_code", 500), {"error": said}
        choice: dict[str, Any] = {"index": 0, "finish_reason": answer.finish}
        if chat:
            message: dict[str, Any] = {"role": "assistant", "content": answer.text}
            message |= {"reasoning_content": answer.thoughts} if answer.thoughts else {}
            message |= {"tool_calls": [{"function": {"name": "search"}}]} if answer.tool else {}
            choice["message"] = message
        else:
            choice["text"] = answer.text
        if body.get("logprobs") and answer.tokens:
            texts, values = zip(*answer.tokens)
            choice["logprobs"] = (
                openai_logprobs(answer) if chat else {"tokens": list(texts), "token_logprobs": list(values)}
            )
        used = {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.generated_tokens}
        return 200, {"choices": [choice], "usage": used}

    def close(self) -> None:
        super().close()
        for lm, server in zip(self._opened[::2], self._opened[1::2]):
            lm.close()
            server.__exit__()


SIDES: dict[str, type[Side]] = {s.name: s for s in (LlamaIndexSide, LangChainSide, HttpSide)}
