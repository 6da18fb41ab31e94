"""Stand-ins in LlamaIndex's shapes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
    LogProb,
    MessageRole,
)
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.custom import CustomLLM
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from tests.fakes import PASSAGES, shares_a_word

QUESTION = "When was the lamp lit?"


def nodes() -> list[NodeWithScore]:
    lamp, ship = PASSAGES
    return [
        NodeWithScore(
            node=TextNode(
                id_="lamp", text=lamp.text, metadata={"title": "Lamps", "tags": ["a"]}, start_char_idx=100,
                end_char_idx=100 + len(lamp.text),
            ),
            score=0.75,
        ),
        NodeWithScore(node=TextNode(id_="ship", text=ship.text, metadata={"file_name": "ships.txt"}), score=0.5),
    ]  # fmt: skip


class NodeShelf(BaseRetriever):
    """Gives its nodes if they share a word with the query; notes how it was asked."""

    def __init__(self, shelf: Sequence[NodeWithScore] | None = None, **arguments: Any) -> None:
        self.shelf = list(nodes() if shelf is None else shelf)
        self.asked: list[tuple[str, QueryBundle]] = []
        super().__init__(**arguments)

    def _found(self, how: str, bundle: QueryBundle) -> list[NodeWithScore]:
        self.asked.append((how, bundle))
        return [n for n in self.shelf if not n.text or shares_a_word(bundle.query_str, n.text)]

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._found("sync", query_bundle)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        await asyncio.sleep(0)
        return self._found("async", query_bundle)


class Listener(BaseEventHandler):
    """Keeps what the dispatcher tells."""

    events: list[BaseEvent]

    @classmethod
    def class_name(cls) -> str:
        return "Listener"

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        self.events.append(event)

    def of(self, name: str) -> list[Any]:
        return [e for e in self.events if e.class_name() == name]


Script = Callable[[str, dict[str, Any]], Any]


class CompletionLLM(CustomLLM):
    """A completion model whose reply is a function of the prompt and the call options."""

    temperature: float = 0.1
    max_tokens: int = 10
    _script: Script = PrivateAttr()
    _calls: list[tuple[str, dict[str, Any]]] = PrivateAttr(default_factory=list)

    def __init__(self, script: Script, **fields: Any) -> None:
        super().__init__(**fields)
        self._script = script

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        return self._calls

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="fake-completion", context_window=2048)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        self._calls.append((prompt, kwargs))
        reply = self._script(prompt, kwargs)
        return reply if isinstance(reply, CompletionResponse) else CompletionResponse(text=reply)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        raise NotImplementedError


class ChatLLM(CompletionLLM):
    """A chat model with log-probabilities and async methods of its own."""

    logprobs: bool | None = None
    top_logprobs: int = 0

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="fake-chat", is_chat_model=True)

    def _reply(self, messages: Sequence[ChatMessage], kwargs: dict[str, Any]) -> ChatResponse:
        prompt = "\n".join(f"{m.role.value}: {m.content}" for m in messages)
        self._calls.append((prompt, kwargs))
        reply = self._script(prompt, kwargs)
        return reply if isinstance(reply, ChatResponse) else chat_reply(reply)

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self._reply(messages, kwargs)

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        await asyncio.sleep(0)
        return self._reply(messages, kwargs)


def chat_reply(text: str, **fields: Any) -> ChatResponse:
    return ChatResponse(message=ChatMessage(role=MessageRole.ASSISTANT, content=text), **fields)


def top(*positions: dict[str, float]) -> list[list[LogProb]]:
    return [[LogProb(token=t, logprob=p) for t, p in position.items()] for position in positions]
