"""``SelfReflectChatEngine``: in place of LlamaIndex's condense-plus-context chat engine."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, Unpack

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage, CitationBlock
from llama_index.core.chat_engine.types import AgentChatResponse, BaseChatEngine, StreamingAgentChatResponse
from llama_index.core.memory import BaseMemory
from llama_index.core.tools import ToolOutput

from llamaindex_selfreflect._base import ReflectiveQueryEngine
from llamaindex_selfreflect._options import CallOptions, EngineOptions, require_known, spells_out
from llamaindex_selfreflect._question import as_bundle, as_message, as_messages
from llamaindex_selfreflect._response import SelfReflectResponse
from llamaindex_selfreflect.query_engine import SelfReflectQueryEngine
from shared_core.errors import OptionError
from shared_core.retrieval.base import Retriever
from shared_core.types import Answer


@dataclass
class SelfReflectChatResponse(AgentChatResponse):
    """An ``AgentChatResponse`` with our ``Answer``.

    >>> str(SelfReflectChatResponse("In 1871. [1]", answer=Answer("When?", "In 1871. [1]")))
    'In 1871. [1]'

    Attributes:
        answer: text, claims, exact citations, confidence and trace.
        citations: entry ``i`` is the citation that the text marks as ``[i + 1]``; its node is ``source_nodes[i]``.
    """

    answer: Answer = field(kw_only=True)
    citations: list[CitationBlock] = field(default_factory=list)

    __str__ = AgentChatResponse.__str__


class SelfReflectStreamingChatResponse(StreamingAgentChatResponse):
    """A ``StreamingAgentChatResponse`` that comes claim by claim; sources are complete when the stream begins.

    >>> whole = SelfReflectChatResponse("In 1871.", answer=Answer("When?", "In 1871."))
    >>> "".join(SelfReflectStreamingChatResponse(whole).response_gen)
    'In 1871.'

    Args:
        whole: the response, whose text is streamed.
    """

    def __init__(self, whole: SelfReflectChatResponse) -> None:
        super().__init__(response=whole.response, sources=whole.sources, source_nodes=whole.source_nodes)
        self.answer, self.citations, self.metadata = whole.answer, whole.citations, whole.metadata
        self.is_function, self.is_done, self.is_writing_to_memory = False, True, False
        self._whole = whole

    def __reduce__(self) -> tuple[Any, ...]:  # the base class holds locks
        return (type(self), (self._whole,))

    def __deepcopy__(self, memo: dict[int, Any]) -> SelfReflectStreamingChatResponse:
        return type(self)(copy.deepcopy(self._whole, memo))

    def __str__(self) -> str:
        return self.response

    def _pieces(self) -> list[str]:
        return self.answer.pieces()

    @property
    def response_gen(self) -> Generator[str, None, None]:
        """Pieces of the text."""
        yield from self._pieces()

    async def async_response_gen(self) -> AsyncGenerator[str, None]:
        """``response_gen`` for async runs."""
        for piece in self._pieces():
            yield piece


class SelfReflectChatEngine(BaseChatEngine):
    """Holds a conversation: follow-ups are made full questions, and answered with quotes and citations or declined.

    >>> from shared_core import Passage
    >>> from shared_core.retrieval import BM25Retriever
    >>> shelf = BM25Retriever([Passage("lamp", "The Vessen lamp was lit in 1871. It was made by Ila Venn.")])
    >>> chat = SelfReflectChatEngine(shelf)
    >>> print(chat.chat("When was the Vessen lamp lit?"))
    The Vessen lamp was lit in 1871. [1]
    >>> print(chat.chat("And who made it?"))
    It was made by Ila Venn. [1]

    Responses have ``answer``, ``citations``, ``source_nodes`` and ``sources``, as of ``SelfReflectQueryEngine``;
    ``response.answer.metadata["condensed_question"]`` is the full question answered in place of a follow-up.

    Args:
        retriever: of LlamaIndex or ours, or a query engine of ours, which has its options already.
        memory: of LlamaIndex (``Memory``, ``ChatMemoryBuffer``); by default the engine keeps all messages itself.
        chat_history: messages to begin with.
        options: as for ``SelfReflectQueryEngine``.

    Raises:
        InputError, SettingsError, ArgumentError: as for ``SelfReflectQueryEngine``; when made.
        OptionError: options beside a query engine.
        QuestionError: a message without text, or a ``chat_history`` that is none; the conversation stays as it is.
        AbstainedError: it abstains and ``on_abstain="raise"``; when asked.
    """

    @spells_out(EngineOptions)
    def __init__(
        self,
        retriever: BaseRetriever | Retriever | ReflectiveQueryEngine,
        memory: BaseMemory | None = None,
        chat_history: Sequence[ChatMessage] | None = None,
        **options: Unpack[EngineOptions],
    ) -> None:
        require_known(options, type(self).__name__, "retriever", "memory", "chat_history")
        if not isinstance(retriever, ReflectiveQueryEngine):
            retriever = SelfReflectQueryEngine(retriever, **options)
        elif options:
            names = ", ".join(options)
            raise OptionError(f"{names} cannot have an effect beside a query engine.", hint="Give them to that engine.")
        self.query_engine = retriever
        self.callback_manager = self.query_engine.callback_manager
        self._memory = memory
        self._messages: list[ChatMessage] = []
        if chat_history:
            self._set(as_messages(chat_history))

    @classmethod
    @spells_out(EngineOptions)
    def from_defaults(
        cls,
        retriever: BaseRetriever | Retriever | ReflectiveQueryEngine,
        memory: BaseMemory | None = None,
        chat_history: Sequence[ChatMessage] | None = None,
        **options: Unpack[EngineOptions],
    ) -> Self:
        """Create an engine; the arguments are the constructor's."""
        return cls(retriever, memory, chat_history, **options)

    # --- the conversation ------------------------------------------------------------------------------------------

    @property
    def chat_history(self) -> list[ChatMessage]:
        """All messages so far, oldest first."""
        return list(self._messages) if self._memory is None else self._memory.get_all()

    def reset(self) -> None:
        """Forget the conversation."""
        self._messages.clear()
        if self._memory is not None:
            self._memory.reset()

    def chat(
        self, message: str, chat_history: list[ChatMessage] | None = None, **options: Unpack[CallOptions]
    ) -> SelfReflectChatResponse:
        """Answer a message; ``chat_history`` replaces the conversation so far, ``options`` hold for this call."""
        asked = _asked(message)
        if chat_history is not None:
            self._set(as_messages(chat_history))
        before = list(self._messages) if self._memory is None else self._memory.get(input=message)
        response = self.query_engine.query([*before, asked], **options)
        for said in (asked, response.to_chat_message()):
            self._messages.append(said) if self._memory is None else self._memory.put(said)
        return _respond(message, response)

    async def achat(
        self, message: str, chat_history: list[ChatMessage] | None = None, **options: Unpack[CallOptions]
    ) -> SelfReflectChatResponse:
        """``chat`` without blocking the event loop."""
        memory = self._memory
        asked = _asked(message)
        if chat_history is not None and memory is not None:
            await memory.aset(as_messages(chat_history))
        elif chat_history is not None:
            self._set(as_messages(chat_history))
        before = list(self._messages) if memory is None else await memory.aget(input=message)
        response = await self.query_engine.aquery([*before, asked], **options)
        for said in (asked, response.to_chat_message()):
            if memory is None:
                self._messages.append(said)
            else:
                await memory.aput(said)
        return _respond(message, response)

    def stream_chat(
        self, message: str, chat_history: list[ChatMessage] | None = None, **options: Unpack[CallOptions]
    ) -> SelfReflectStreamingChatResponse:
        """``chat``, with the text claim by claim: every claim is judged before any is shown."""
        return SelfReflectStreamingChatResponse(self.chat(message, chat_history, **options))

    async def astream_chat(
        self, message: str, chat_history: list[ChatMessage] | None = None, **options: Unpack[CallOptions]
    ) -> SelfReflectStreamingChatResponse:
        """``stream_chat`` without blocking the event loop."""
        return SelfReflectStreamingChatResponse(await self.achat(message, chat_history, **options))

    def _set(self, messages: list[ChatMessage]) -> None:
        if self._memory is None:
            self._messages = list(messages)
        else:
            self._memory.set(messages)


def _asked(message: str) -> ChatMessage:
    """The user's message; QuestionError if it has no text, before anything of the conversation is replaced."""
    asked = as_message({"role": "user", "content": message})
    as_bundle(asked)
    return asked


def _respond(message: str, response: SelfReflectResponse) -> SelfReflectChatResponse:
    assert response.answer is not None, "a query engine's response has its answer"
    text = response.answer.text
    tool = ToolOutput(
        tool_name="query_engine", content=text, raw_input={"query": message}, raw_output=response, is_error=False
    )
    return SelfReflectChatResponse(
        response=text,
        sources=[tool],
        source_nodes=list(response.source_nodes),
        metadata=response.metadata,
        answer=response.answer,
        citations=response.citations,
    )
