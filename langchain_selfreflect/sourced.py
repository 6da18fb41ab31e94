"""``SourcedChain``: an answer with the documents it was made from, as ``create_retrieval_chain`` gives it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Protocol, TypedDict, cast

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.base import RunnableSerializable
from pydantic import ConfigDict, SkipValidation

from langchain_selfreflect._caller import Caller
from langchain_selfreflect._question import ChainInput
from langchain_selfreflect._stream import find_answer, join
from langchain_selfreflect._strict import Strict
from langchain_selfreflect.documents import to_documents
from shared_core.types import Answer, Event, Finished


class SourcedAnswer(TypedDict, total=False):
    """What ``SelfReflectChain.with_sources()`` gives; the input's own keys are there as well.

    Attributes:
        input: what was asked, where it was no dict.
        context: the documents that were read, best first, copies whose ``id`` is the one that citations name.
        answer: the text.
        message: the answer as ``SelfReflectChain`` gives it.
    """

    input: Any
    context: list[Document]
    answer: str
    message: AIMessage


class Asks(Protocol):
    """What answers: ``SelfReflectChain``."""

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


class SourcedChain(Strict, RunnableSerializable[ChainInput, SourcedAnswer]):
    """A ``SelfReflectChain`` whose output is a dict with the documents; made by its ``with_sources()``.

    A stream gives the input, then ``context``, then ``answer`` claim by claim, then ``message``; the pieces add up to
    what ``invoke`` gives.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    chain: Annotated[Asks, SkipValidation]

    def invoke(self, input: ChainInput, config: RunnableConfig | None = None, **kwargs: Any) -> SourcedAnswer:
        """Answer a question."""
        return self._call_with_config(self._invoke, input, config, **kwargs)

    async def ainvoke(self, input: ChainInput, config: RunnableConfig | None = None, **kwargs: Any) -> SourcedAnswer:
        """``invoke`` without blocking the event loop."""
        return await self._acall_with_config(self._ainvoke, input, config, **kwargs)

    def _invoke(
        self, input: ChainInput, run_manager: CallbackManagerForChainRun, config: RunnableConfig
    ) -> SourcedAnswer:
        caller = Caller(config)
        return self._output(input, find_answer(self.chain.events(input, caller)), caller)

    async def _ainvoke(
        self, input: ChainInput, run_manager: AsyncCallbackManagerForChainRun, config: RunnableConfig
    ) -> SourcedAnswer:
        caller = Caller(config)
        async with aclosing(self.chain.aevents(input, caller)) as events:
            answer = find_answer([event async for event in events])
        return self._output(input, answer, caller)

    def _output(self, input: ChainInput, answer: Answer, caller: Caller) -> SourcedAnswer:
        whole: dict[str, Any] = {}
        for piece in self._pieces(input, answer, caller):
            whole |= piece
        return cast("SourcedAnswer", whole | {"answer": answer.text})

    def _pieces(self, input: ChainInput, answer: Answer, caller: Caller) -> Iterator[SourcedAnswer]:
        """What a stream brings, in order; the texts of ``answer`` joined are the text."""
        yield cast("SourcedAnswer", dict(input) if isinstance(input, Mapping) else {"input": input})
        documents = to_documents(answer.passages, caller.documents)
        named = [d.model_copy(update={"id": p.id}) for d, p in zip(documents, answer.passages, strict=True)]
        yield {"context": named}
        for text in answer.pieces():
            yield {"answer": text}
        yield {"message": self.chain.message(answer)}

    # --- streaming ---------------------------------------------------------------------------------------------

    def stream(self, input: ChainInput, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[SourcedAnswer]:
        """The input, the documents, the text claim by claim, the message."""
        yield from self.transform(iter([input]), config, **kwargs)

    async def astream(
        self, input: ChainInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[SourcedAnswer]:
        """``stream`` without blocking the event loop."""

        async def only() -> AsyncIterator[ChainInput]:
            yield input

        async for piece in self.atransform(only(), config, **kwargs):
            yield piece

    def transform(
        self, input: Iterator[ChainInput], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[SourcedAnswer]:
        """``stream`` for an input that itself comes in pieces."""
        yield from self._transform_stream_with_config(input, self._transform, config, **kwargs)

    async def atransform(
        self, input: AsyncIterator[ChainInput], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[SourcedAnswer]:
        """``transform`` without blocking the event loop."""
        async for piece in self._atransform_stream_with_config(input, self._atransform, config, **kwargs):
            yield piece

    def _transform(
        self, input: Iterator[ChainInput], run_manager: CallbackManagerForChainRun, config: RunnableConfig
    ) -> Iterator[SourcedAnswer]:
        whole, caller = join(list(input)), Caller(config)
        for event in self.chain.events(whole, caller):
            if isinstance(event, Finished):
                yield from self._pieces(whole, event.answer, caller)

    async def _atransform(
        self, input: AsyncIterator[ChainInput], run_manager: AsyncCallbackManagerForChainRun, config: RunnableConfig
    ) -> AsyncIterator[SourcedAnswer]:
        whole, caller = join([piece async for piece in input]), Caller(config)
        async with aclosing(self.chain.aevents(whole, caller)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    for piece in self._pieces(whole, event.answer, caller):
                        yield piece

    # --- many questions ----------------------------------------------------------------------------------------

    def batch(
        self,
        inputs: list[ChainInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[SourcedAnswer]:
        """Answer many questions at once; see ``SelfReflectChain.batch``."""
        return self._batch_with_config(self._batch, inputs, config, return_exceptions=return_exceptions, **kwargs)

    async def abatch(
        self,
        inputs: list[ChainInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[SourcedAnswer]:
        """``batch`` without blocking the event loop."""
        return await self._abatch_with_config(
            self._abatch, inputs, config, return_exceptions=return_exceptions, **kwargs
        )

    def _batch(
        self, inputs: list[ChainInput], run_manager: list[CallbackManagerForChainRun], config: list[RunnableConfig]
    ) -> list[Exception | SourcedAnswer]:
        callers = [Caller(c) for c in config]
        return self._outputs(inputs, self.chain.answer_batch(inputs, callers), callers)

    async def _abatch(
        self, inputs: list[ChainInput], run_manager: list[AsyncCallbackManagerForChainRun], config: list[RunnableConfig]
    ) -> list[Exception | SourcedAnswer]:
        callers = [Caller(c) for c in config]
        return self._outputs(inputs, await self.chain.aanswer_batch(inputs, callers), callers)

    def _outputs(
        self, inputs: Sequence[ChainInput], answers: Sequence[Answer | Exception], callers: Sequence[Caller]
    ) -> list[Exception | SourcedAnswer]:
        return [
            self._output(given, answer, caller) if isinstance(answer, Answer) else answer
            for given, answer, caller in zip(inputs, answers, callers, strict=True)
        ]
