"""LangChain stand-ins: a retriever, chat models that answer by a function, a handler that writes down what it hears."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_chunk_to_message
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from langchain_selfreflect import SelfReflectChain
from tests.fakes import FirstSentenceReader, shares_a_word

QUESTION = "When was the lamp lit?"


def documents() -> list[Document]:
    return [
        Document(
            "The lamp was lit in 1871.\nIt burned whale oil.",
            metadata={"source": "lamps.md", "title": "Lamps", "start_index": 100, "tags": ["a", "b"]},
        ),
        Document(
            "The Marrow sailed under Captain Ila Venn. She carried salt.",
            id="ship",
            metadata={"source": "https://ships.example/venn", "page": 3},
        ),
        Document("A second lamp was lit in 1899. It was electric.", metadata={"id": "lamp-2"}),
    ]


class ShelfRetriever(BaseRetriever):
    """Documents that share a word of more than three letters with the query."""

    docs: list[Document] = Field(default_factory=documents)
    asked: list[tuple[str, str]] = Field(default_factory=list)
    burst: str = "burst"

    def _find(self, how: str, query: str) -> list[Document]:
        self.asked.append((how, query))
        if self.burst in query:
            raise OSError("pipe burst")
        return [d for d in self.docs if shares_a_word(query, d.page_content)]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return self._find("sync", query)

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return self._find("async", query)


class KRetriever(BaseRetriever):
    """Takes ``k`` at each call, and holds one."""

    docs: list[Document] = Field(default_factory=documents)
    k: int = 2
    asked: list[int] = Field(default_factory=list)

    def _get_relevant_documents(self, query: str, *, run_manager: Any, k: int | None = None) -> list[Document]:
        self.asked.append(k or self.k)
        return self.docs[: k or self.k]


class Seen:
    """What a chat model was called with."""

    def __init__(self, how: str, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]) -> None:
        self.how, self.messages, self.stop, self.kwargs = how, messages, stop, kwargs

    @property
    def prompt(self) -> str:
        return "\n".join(str(m.content) for m in self.messages)


class TalkingModel(BaseChatModel):
    """Answers by a function of the prompt; returns log-probabilities when asked, if it can."""

    reply: Callable[[str], Any] = lambda prompt: "1871"
    seen: list[Any] = Field(default_factory=list)
    gives_logprobs: bool = False
    finish: str = "stop"

    def _answer(self, how: str, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]) -> Any:
        call = Seen(how, messages, stop, kwargs)
        self.seen.append(call)
        said = self.reply(call.prompt)
        if isinstance(said, Exception):
            raise said
        metadata: dict[str, Any] = {"finish_reason": self.finish}
        if self.gives_logprobs and kwargs.get("logprobs"):
            pieces = [said[i : i + 4] for i in range(0, len(said), 4)]
            metadata["logprobs"] = {"content": [{"token": p, "logprob": -0.25 * (i + 1)} for i, p in enumerate(pieces)]}
        usage = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9, "input_token_details": {"cache_read": 3}}
        message = AIMessage(said, response_metadata=metadata, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return self._answer("sync", messages, stop, kwargs)

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return self._answer("async", messages, stop, {**kwargs, **self.settings_seen()})

    def settings_seen(self) -> dict[str, Any]:
        return {}

    @property
    def _llm_type(self) -> str:
        return "talking"


class TunableModel(TalkingModel):
    """Has fields for temperature and limit, as providers' classes do."""

    model_name: str = "tunable-1"
    temperature: float | None = 0.9
    max_tokens: int | None = None
    logprobs: bool | None = None

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        own = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        return self._answer("sync", messages, stop, {**own, **kwargs})


class Ear(BaseCallbackHandler):
    """Writes down runs and custom events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any], UUID]] = []
        self.runs: list[tuple[str, UUID, UUID | None]] = []
        self.errors: list[BaseException] = []
        self.ends: list[Any] = []

    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **kwargs: Any) -> None:
        self.events.append((name, data, run_id))

    def on_chain_start(self, *args: Any, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any) -> None:
        self.runs.append(("chain", run_id, parent_run_id))

    def on_retriever_start(self, *args: Any, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any) -> None:
        self.runs.append(("retriever", run_id, parent_run_id))

    def on_chat_model_start(self, *args: Any, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any) -> None:
        self.runs.append(("llm", run_id, parent_run_id))

    def on_chain_error(self, error: BaseException, **kwargs: Any) -> None:
        self.errors.append(error)

    def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        self.ends.append(outputs)

    def parents(self, kind: str) -> list[UUID | None]:
        return [parent for k, _, parent in self.runs if k == kind]

    def ids(self, kind: str) -> list[UUID]:
        return [run for k, run, _ in self.runs if k == kind]


class AsyncEar(AsyncCallbackHandler):
    """Hears custom events only if they are awaited."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    async def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> None:
        self.events.append((name, data))


def chain(*probabilities: float | None, retriever: Any = None, **kwargs: Any) -> SelfReflectChain:
    kwargs.setdefault("reader", FirstSentenceReader(*(probabilities or (0.9,))))
    return SelfReflectChain(retriever=retriever or ShelfRetriever(), **kwargs)


def merged(chunks: Iterable[Any]) -> AIMessage:
    first, *rest = chunks
    total: Any = first
    for piece in rest:
        total = total + piece
    assert isinstance(total, AIMessageChunk)
    message = message_chunk_to_message(total)
    assert isinstance(message, AIMessage)
    return message


def block(message: AIMessage) -> dict[str, Any]:
    (only,) = message.content_blocks
    return dict(only)


def ours(message: AIMessage) -> dict[str, Any]:
    found: dict[str, Any] = message.response_metadata["selfreflect"]
    return found
