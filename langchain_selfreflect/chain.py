"""``SelfReflectChain``: the engine as a runnable."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, closing
from typing import Any, Literal, cast

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.base import RunnableSerializable
from pydantic import ConfigDict, Field, PrivateAttr

from langchain_selfreflect import _events, _messages
from langchain_selfreflect._caller import Caller, Tagged, enter, tagged
from langchain_selfreflect._retrieval import as_retriever, with_usual_k
from langchain_selfreflect._strict import Made, Strict
from langchain_selfreflect.lm import LogprobsMode, as_language_model
from shared_core.engine import SelfReflectEngine
from shared_core.errors import QuestionError, ResponseError
from shared_core.flow import Flow
from shared_core.settings import PipelineName, SelfReflectSettings
from shared_core.types import Answer, Event, Finished, TextDelta

ChainInput = str | dict[str, Any]
_KEYS = ("question", "input", "query")


class _Engine(SelfReflectEngine):
    """The engine, in which a question of a batch says on whose behalf it is asked."""

    def _flow(self, question: str) -> Flow[Answer]:
        flow = super()._flow(question)
        return tagged(flow, question.caller) if isinstance(question, Tagged) else flow


class SelfReflectChain(Strict, RunnableSerializable[ChainInput, AIMessage]):
    """Answers a question from a retriever's documents, claim by claim with quotes, or abstains and says why.

    A drop-in for ``{"context": retriever | …, "question": …} | prompt | llm``; ``| StrOutputParser()`` gives the text.

    The message holds the text with one ``Citation`` annotation for each quote, and ``response_metadata["selfreflect"]``
    the whole answer (``Answer.to_dict()``): claims, passages, ``abstained``, ``reason``, ``confidence``, the trace.
    Decisions are dispatched as custom events (``selfreflect_decision``, ``selfreflect_retrieved``,
    ``selfreflect_quote``, ``selfreflect_claim``). The input is a question, or a dict that holds one.

    Raises:
        SettingsError: an argument is unknown or wrong, or the pipeline or policy needs an ``llm``; when made.
        InputError: ``retriever`` cannot retrieve, or ``llm`` is no language model; when made.
        QuestionError: the question is empty or missing; when asked.
        AbstainedError: it abstains and ``on_abstain="raise"``; when asked.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    retriever: Any = Field(description="A LangChain retriever (or runnable from text to documents), or one of ours.")
    llm: Any = Field(None, description="A LangChain chat model, one of our backends, or none: answer in quotes.")
    settings: SelfReflectSettings = Field(default_factory=SelfReflectSettings)
    target_accuracy: float | None = Field(None, description="Shortcut for the setting of that name.")
    pipeline: PipelineName | None = Field(None, description="Shortcut for the setting of that name.")
    on_abstain: Literal["say", "show", "raise", "fallback"] | None = Field(
        None, description="Shortcut for the setting of that name."
    )
    input_key: str = Field("question", description="Where the question stands in a dict; then question, input, query.")
    logprobs: LogprobsMode = Field("auto", description="See LangChainLM.")
    models: dict[str, Any] = Field(default_factory=dict, description="Further models by role (reference, claim, …).")
    reader: Any = Field(None, description="An extractive reader of ours instead of the shipped one.")
    judge: Any = Field(None, description="Scores how far a quote supports a claim.")
    embedder: Any = Field(None, description="An embedder of ours instead of the shipped one.")

    _made: Made[SelfReflectEngine] = PrivateAttr(default_factory=Made)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._make(probe=False)  # what cannot work is refused now, and without a call

    # --- the engine --------------------------------------------------------------------------------------------

    @property
    def engine(self) -> SelfReflectEngine:
        """The engine of the fields as they are now."""
        return self._made.get(self, self._make)

    def _make(self, *, probe: bool = True) -> SelfReflectEngine:
        settings = self._settings()
        mode: LogprobsMode = self.logprobs if probe else False
        models = {role: as_language_model(m, logprobs=mode) for role, m in self.models.items()}
        return _Engine(
            as_retriever(self.retriever, settings),
            as_language_model(self.llm, logprobs=mode),
            settings,
            reader=self.reader,
            judge=self.judge,
            embedder=self.embedder,
            models={role: m for role, m in models.items() if m is not None},
        )

    def _settings(self) -> SelfReflectSettings:
        settings = with_usual_k(self.settings, self.retriever)
        shortcuts = {n: getattr(self, n) for n in ("target_accuracy", "pipeline", "on_abstain")}
        given = {n: v for n, v in shortcuts.items() if v is not None}
        return settings.replace(**given) if given else settings

    # --- one question ------------------------------------------------------------------------------------------

    def invoke(self, input: ChainInput, config: RunnableConfig | None = None, **kwargs: Any) -> AIMessage:
        """Answer a question."""
        return self._call_with_config(self._invoke, input, config, **kwargs)

    async def ainvoke(self, input: ChainInput, config: RunnableConfig | None = None, **kwargs: Any) -> AIMessage:
        """``invoke`` without blocking the event loop."""
        return await self._acall_with_config(self._ainvoke, input, config, **kwargs)

    def _invoke(self, input: ChainInput, run_manager: CallbackManagerForChainRun, config: RunnableConfig) -> AIMessage:
        return _last_message(_message_of(event) for event in self._events(input, config))

    async def _ainvoke(
        self, input: ChainInput, run_manager: AsyncCallbackManagerForChainRun, config: RunnableConfig
    ) -> AIMessage:
        async with aclosing(self._aevents(input, config)) as events:
            return _last_message([_message_of(event) async for event in events])

    def _events(self, input: ChainInput, config: RunnableConfig) -> Iterator[Event]:
        """Events of the engine, told to whoever listens on the way. Runs in a context of its own."""
        enter(Caller(config))
        with closing(cast("Any", self.engine.stream(self._question(input)))) as events:
            for event in events:
                _events.tell(_events.name_event(event), config)
                yield event

    async def _aevents(self, input: ChainInput, config: RunnableConfig) -> AsyncGenerator[Event, None]:
        enter(Caller(config))
        engine = await self._made.aget(self, self._make)
        async with aclosing(cast("Any", engine.astream(self._question(input)))) as events:
            async for event in events:
                await _events.atell(_events.name_event(event), config)
                yield event

    def _question(self, input: ChainInput) -> str:
        if isinstance(input, str):
            return input
        keys = dict.fromkeys((self.input_key, *_KEYS))
        if not isinstance(input, Mapping):
            raise QuestionError(
                f"The input must be a question or a dict that holds one, not a {type(input).__name__}.",
                hint=f"chain.invoke('…'), or chain.invoke({{{self.input_key!r}: '…'}}).",
            )
        for key in keys:
            if key in input:
                return cast("str", input[key])
        raise QuestionError(
            f"The input holds no question: its keys are {', '.join(map(repr, input)) or 'none'}.",
            hint=f"Use one of {', '.join(keys)}, or set input_key.",
        )

    # --- streaming ---------------------------------------------------------------------------------------------

    def stream(self, input: ChainInput, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[AIMessage]:
        """Chunks of the text as it is decided on; the last one brings the citations. They add up to ``invoke``'s."""
        yield from self.transform(iter([input]), config, **kwargs)

    async def astream(
        self, input: ChainInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[AIMessage]:
        """``stream`` without blocking the event loop."""

        async def only() -> AsyncIterator[ChainInput]:
            yield input

        async for piece in self.atransform(only(), config, **kwargs):
            yield piece

    def transform(
        self, input: Iterator[ChainInput], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[AIMessage]:
        """``stream`` for an input that itself comes in pieces."""
        yield from self._transform_stream_with_config(input, self._transform, config, **kwargs)

    async def atransform(
        self, input: AsyncIterator[ChainInput], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[AIMessage]:
        """``transform`` without blocking the event loop."""
        async for piece in self._atransform_stream_with_config(input, self._atransform, config, **kwargs):
            yield piece

    def _transform(
        self, input: Iterator[ChainInput], run_manager: CallbackManagerForChainRun, config: RunnableConfig
    ) -> Iterator[AIMessage]:
        whole = _join(list(input))
        for event in self._events(whole, config):
            piece = self._piece(event, whole)
            if piece is not None:
                yield piece

    async def _atransform(
        self, input: AsyncIterator[ChainInput], run_manager: AsyncCallbackManagerForChainRun, config: RunnableConfig
    ) -> AsyncIterator[AIMessage]:
        whole = _join([piece async for piece in input])
        async with aclosing(self._aevents(whole, config)) as events:
            async for event in events:
                piece = self._piece(event, whole)
                if piece is not None:
                    yield piece

    def _piece(self, event: Event, input: ChainInput) -> AIMessageChunk | None:
        if isinstance(event, TextDelta):
            return _messages.chunk(self._question(input).strip(), event.text)
        return _messages.last_chunk(event.answer) if isinstance(event, Finished) else None

    # --- many questions ----------------------------------------------------------------------------------------

    def batch(
        self,
        inputs: list[ChainInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[AIMessage]:
        """Answer many questions at once: the models' requests go out in batches. A failing one fails alone.

        With ``return_exceptions`` its error stands in its place; else the first error is raised when all are done.
        """
        return self._batch_with_config(self._batch, inputs, config, return_exceptions=return_exceptions, **kwargs)

    async def abatch(
        self,
        inputs: list[ChainInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[AIMessage]:
        """``batch`` without blocking the event loop."""
        return await self._abatch_with_config(
            self._abatch, inputs, config, return_exceptions=return_exceptions, **kwargs
        )

    def _batch(
        self, inputs: list[ChainInput], run_manager: list[CallbackManagerForChainRun], config: list[RunnableConfig]
    ) -> list[Exception | AIMessage]:
        def listen(i: int, event: Event) -> None:
            _events.tell(_events.name_event(event), config[asked[i][0]])

        results, asked = self._sort_out(inputs, config)
        answers = self.engine.answer_many([question for _, question in asked], listen)
        return _put_in_place(results, asked, answers)

    async def _abatch(
        self, inputs: list[ChainInput], run_manager: list[AsyncCallbackManagerForChainRun], config: list[RunnableConfig]
    ) -> list[Exception | AIMessage]:
        results, asked = self._sort_out(inputs, config)
        engine = await self._made.aget(self, self._make)
        async with _telling(lambda i: config[asked[i][0]]) as listen:
            answers = await engine.aanswer_many([question for _, question in asked], listen)
        return _put_in_place(results, asked, answers)

    def _sort_out(
        self, inputs: list[ChainInput], configs: list[RunnableConfig]
    ) -> tuple[list[Exception | AIMessage | None], list[tuple[int, Tagged]]]:
        """Results with the errors of unusable inputs in place, and the other questions with their places."""
        results: list[Exception | AIMessage | None] = [None] * len(inputs)
        asked: list[tuple[int, Tagged]] = []
        for i, (input, config) in enumerate(zip(inputs, configs)):
            try:
                question = self._question(input)
                if not isinstance(question, str):
                    raise QuestionError(f"A question must be non-empty text, not {question!r}.", hint="Ask in words.")
                asked.append((i, Tagged.by(question, Caller(config))))
            except QuestionError as error:
                results[i] = error
        return results, asked


def _message_of(event: Event) -> AIMessage | None:
    return _messages.message(event.answer) if isinstance(event, Finished) else None


def _last_message(messages: Any) -> AIMessage:
    """The message among the events; all of them are gone through, so that what follows it is told as well."""
    found = [m for m in messages if m is not None]
    if not found:
        raise ResponseError("The pipeline ended without an answer.", hint="This is a bug of the pipeline.")
    return cast("AIMessage", found[-1])


def _join(pieces: list[ChainInput]) -> ChainInput:
    """Pieces of an input that was streamed: texts join, dicts merge; the last one holds where they do neither."""
    whole = pieces[0] if pieces else ""
    for piece in pieces[1:]:
        try:
            whole = whole + piece  # type: ignore[operator]
        except TypeError:
            whole = {**whole, **piece} if isinstance(whole, dict) and isinstance(piece, dict) else piece
    return whole


def _put_in_place(
    results: list[Exception | AIMessage | None], asked: list[tuple[int, Tagged]], answers: list[Answer | Exception]
) -> list[Exception | AIMessage]:
    for (i, _), answer in zip(asked, answers):
        results[i] = _messages.message(answer) if isinstance(answer, Answer) else answer
    return [r for r in results if r is not None]


@contextlib.asynccontextmanager
async def _telling(config_of: Callable[[int], RunnableConfig]) -> AsyncIterator[Callable[[int, Event], None]]:
    """A listener that async handlers hear: events are queued and dispatched, in order, while the engine works."""
    queue: asyncio.Queue[tuple[int, Event] | None] = asyncio.Queue()

    async def dispatch() -> None:
        while (item := await queue.get()) is not None:
            await _events.atell(_events.name_event(item[1]), config_of(item[0]))

    worker = asyncio.create_task(dispatch())
    try:
        yield lambda i, event: queue.put_nowait((i, event))
        queue.put_nowait(None)
        await worker
    finally:
        worker.cancel()
