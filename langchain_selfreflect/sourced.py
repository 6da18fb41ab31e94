"""``SourcedChain``: an answer with the documents it was made from, as ``create_retrieval_chain`` gives it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Annotated, Any, Protocol, TypedDict, cast

from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.runnables.base import RunnableSerializable
from pydantic import ConfigDict, SkipValidation

from langchain_selfreflect._answering import Answering
from langchain_selfreflect._caller import Caller
from langchain_selfreflect._question import ChainInput
from langchain_selfreflect._strict import Strict
from langchain_selfreflect.documents import to_documents
from shared_core.types import Answer, Event, Finished


class SourcedAnswer(TypedDict, total=False):
    """Output of ``SelfReflectChain.with_sources()``; it also has the input's keys.

    >>> SourcedAnswer(answer="In 1871. [1]", context=[])["answer"]
    'In 1871. [1]'

    Attributes:
        input: the input, if it was not a dict.
        context: documents that were read, best first; copies whose ``id`` is the one that citations name.
        answer: the text.
        message: the answer as a message of ``SelfReflectChain``.
    """

    input: Any
    context: list[Document]
    answer: str
    message: AIMessage


class Asks(Protocol):
    """Interface of ``SelfReflectChain`` that ``SourcedChain`` needs."""

    def events(self, input: ChainInput, caller: Caller) -> Iterator[Event]:
        """Events of the engine."""

    def aevents(self, input: ChainInput, caller: Caller) -> AsyncGenerator[Event, None]:
        """``events`` for async runs."""

    def answer_batch(self, inputs: Sequence[ChainInput], callers: Sequence[Caller]) -> list[Answer | Exception]:
        """Answers or errors, in order."""

    async def aanswer_batch(self, inputs: Sequence[ChainInput], callers: Sequence[Caller]) -> list[Answer | Exception]:
        """``answer_batch`` for async runs."""

    def message(self, answer: Answer) -> AIMessage:
        """The answer as a message."""


class SourcedChain(Strict, Answering[SourcedAnswer], RunnableSerializable[ChainInput, SourcedAnswer]):
    """A ``SelfReflectChain`` whose output is a dict with the documents; created by its ``with_sources()``.

    >>> from langchain_selfreflect import SelfReflectChain
    >>> from shared_core import Passage
    >>> from shared_core.retrieval import BM25Retriever
    >>> lamp = Passage("lamp", "The lamp of Vessen was lit in 1871.")
    >>> chain = SelfReflectChain(retriever=BM25Retriever([lamp])).with_sources()
    >>> sorted(chain.invoke({"question": "When was the lamp of Vessen lit?"}))
    ['answer', 'context', 'message', 'question']

    A stream gives the input, then ``context``, then ``answer`` claim by claim, then ``message``; the pieces add up to
    what ``invoke`` gives.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    chain: Annotated[Asks, SkipValidation]

    def events(self, input: ChainInput, caller: Caller) -> Iterator[Event]:
        """The chain's."""
        return self.chain.events(input, caller)

    def aevents(self, input: ChainInput, caller: Caller) -> AsyncGenerator[Event, None]:
        """The chain's."""
        return self.chain.aevents(input, caller)

    def answer_batch(self, inputs: Sequence[ChainInput], callers: Sequence[Caller]) -> list[Answer | Exception]:
        """The chain's."""
        return self.chain.answer_batch(inputs, callers)

    async def aanswer_batch(self, inputs: Sequence[ChainInput], callers: Sequence[Caller]) -> list[Answer | Exception]:
        """The chain's."""
        return await self.chain.aanswer_batch(inputs, callers)

    def _output(self, input: ChainInput, answer: Answer, caller: Caller) -> SourcedAnswer:
        whole: dict[str, Any] = {}
        for piece in self._pieces(input, Finished(answer), caller):
            whole |= piece
        return cast("SourcedAnswer", whole | {"answer": answer.text})

    def _pieces(self, input: ChainInput, event: Event, caller: Caller) -> Iterator[SourcedAnswer]:
        """Yield everything once the answer is known; the pieces of ``answer`` add up to the text."""
        if not isinstance(event, Finished):
            return
        answer = event.answer
        yield cast("SourcedAnswer", dict(input) if isinstance(input, Mapping) else {"input": input})
        documents = to_documents(answer.passages, caller.documents)
        named = [d.model_copy(update={"id": p.id}) for d, p in zip(documents, answer.passages, strict=True)]
        yield {"context": named}
        for text in answer.pieces():
            yield {"answer": text}
        yield {"message": self.chain.message(answer)}
