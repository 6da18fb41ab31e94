"""Base class of the runnables that answer: one question, a stream or many questions, each sync and async."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_selfreflect._caller import Caller
from langchain_selfreflect._question import ChainInput
from shared_core.types import Answer, Event, Finished

Output = TypeVar("Output")


class Answering(Runnable[ChainInput, Output]):
    """LangChain's methods over the engine's events; subclasses convert answers and events to outputs."""

    @abstractmethod
    def events(self, input: ChainInput, caller: Caller) -> Iterator[Event]:
        """Yield the engine's events and dispatch them to callbacks. Runs in a context of its own."""

    @abstractmethod
    def aevents(self, input: ChainInput, caller: Caller) -> AsyncGenerator[Event, None]:
        """``events`` for async runs."""

    @abstractmethod
    def answer_batch(self, inputs: Sequence[ChainInput], callers: Sequence[Caller]) -> list[Answer | Exception]:
        """Answers or errors, in order; each question is asked on behalf of its caller."""

    @abstractmethod
    async def aanswer_batch(self, inputs: Sequence[ChainInput], callers: Sequence[Caller]) -> list[Answer | Exception]:
        """``answer_batch`` for async runs."""

    @abstractmethod
    def _output(self, input: ChainInput, answer: Answer, caller: Caller) -> Output:
        """Convert an answer to the output of ``invoke``."""

    @abstractmethod
    def _pieces(self, input: ChainInput, event: Event, caller: Caller) -> Iterator[Output]:
        """Convert an event to pieces of a stream; all pieces add up to the output."""

    # --- one question ------------------------------------------------------------------------------------------

    def invoke(self, input: ChainInput, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        """Answer a question."""
        return self._call_with_config(self._invoke, input, config, **kwargs)

    async def ainvoke(self, input: ChainInput, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        """``invoke`` without blocking the event loop."""
        return await self._acall_with_config(self._ainvoke, input, config, **kwargs)

    def _invoke(
        self, input: ChainInput, run_manager: CallbackManagerForChainRun, config: RunnableConfig, **options: Any
    ) -> Output:
        caller = Caller.of(config, options)
        return self._output(input, find_answer(self.events(input, caller)), caller)

    async def _ainvoke(
        self, input: ChainInput, run_manager: AsyncCallbackManagerForChainRun, config: RunnableConfig, **options: Any
    ) -> Output:
        caller = Caller.of(config, options)
        async with aclosing(self.aevents(input, caller)) as events:
            answer = find_answer([event async for event in events])
        return self._output(input, answer, caller)

    # --- streaming ---------------------------------------------------------------------------------------------

    def stream(self, input: ChainInput, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Output]:
        """Yield pieces of the output as they are decided; they add up to the output of ``invoke``."""
        yield from self.transform(iter([input]), config, **kwargs)

    async def astream(
        self, input: ChainInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Output]:
        """``stream`` without blocking the event loop."""

        async def only() -> AsyncIterator[ChainInput]:
            yield input

        async for piece in self.atransform(only(), config, **kwargs):
            yield piece

    def transform(
        self, input: Iterator[ChainInput], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Output]:
        """``stream`` for an input that itself comes in pieces."""
        yield from self._transform_stream_with_config(input, self._transform, config, **kwargs)

    async def atransform(
        self, input: AsyncIterator[ChainInput], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Output]:
        """``transform`` without blocking the event loop."""
        async for piece in self._atransform_stream_with_config(input, self._atransform, config, **kwargs):
            yield piece

    def _transform(
        self,
        input: Iterator[ChainInput],
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        **options: Any,
    ) -> Iterator[Output]:
        whole, caller = _join(list(input)), Caller.of(config, options)
        for event in self.events(whole, caller):
            yield from self._pieces(whole, event, caller)

    async def _atransform(
        self,
        input: AsyncIterator[ChainInput],
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        **options: Any,
    ) -> AsyncIterator[Output]:
        whole, caller = _join([piece async for piece in input]), Caller.of(config, options)
        async with aclosing(self.aevents(whole, caller)) as events:
            async for event in events:
                for piece in self._pieces(whole, event, caller):
                    yield piece

    # --- many questions ----------------------------------------------------------------------------------------

    def batch(
        self,
        inputs: list[ChainInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Output]:
        """Answer many questions at once: the models' requests go out in batches. A failing one fails alone.

        With ``return_exceptions`` its error takes its place; else the first error is raised when all are done.
        """
        return self._batch_with_config(self._batch, inputs, config, return_exceptions=return_exceptions, **kwargs)

    async def abatch(
        self,
        inputs: list[ChainInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Output]:
        """``batch`` without blocking the event loop."""
        return await self._abatch_with_config(
            self._abatch, inputs, config, return_exceptions=return_exceptions, **kwargs
        )

    def _batch(
        self,
        inputs: list[ChainInput],
        run_manager: list[CallbackManagerForChainRun],
        config: list[RunnableConfig],
        **options: Any,
    ) -> list[Exception | Output]:
        callers = Caller.of_all(config, options)
        return self._outputs(inputs, self.answer_batch(inputs, callers), callers)

    async def _abatch(
        self,
        inputs: list[ChainInput],
        run_manager: list[AsyncCallbackManagerForChainRun],
        config: list[RunnableConfig],
        **options: Any,
    ) -> list[Exception | Output]:
        callers = Caller.of_all(config, options)
        return self._outputs(inputs, await self.aanswer_batch(inputs, callers), callers)

    def _outputs(
        self, inputs: Sequence[ChainInput], answers: Sequence[Answer | Exception], callers: Sequence[Caller]
    ) -> list[Exception | Output]:
        return [
            self._output(given, answer, caller) if isinstance(answer, Answer) else answer
            for given, answer, caller in zip(inputs, answers, callers, strict=True)
        ]


def find_answer(events: Iterable[Event]) -> Answer:
    """Consume all events, so that later ones are dispatched too, and return the answer."""
    (answer,) = [event.answer for event in events if isinstance(event, Finished)]
    return answer


def _join(pieces: list[Any]) -> ChainInput:
    """Join the pieces of a streamed input: texts are joined, dicts merged; otherwise the last piece counts."""
    whole: Any = pieces[0] if pieces else ""
    for piece in pieces[1:]:
        try:
            whole = whole + piece
        except TypeError:
            whole = {**whole, **piece} if isinstance(whole, dict) and isinstance(piece, dict) else piece
    joined: ChainInput = whole
    return joined
