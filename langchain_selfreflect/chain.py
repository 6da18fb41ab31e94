"""``SelfReflectChain``: the engine as a runnable."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self, cast

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.prompt_values import ChatPromptValueConcrete, StringPromptValue
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.base import RunnableSerializable
from langchain_core.tools import BaseTool
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SkipValidation

from langchain_selfreflect import _events, _messages
from langchain_selfreflect._answering import Answering
from langchain_selfreflect._caller import Caller, enter, tagged
from langchain_selfreflect._condense import Condenser, Condensing
from langchain_selfreflect._fields import (
    AnyModel,
    AnyRetriever,
    Figure,
    Guarantee,
    Logprobs,
    Made,
    OnAbstain,
    OurEmbedder,
    OurJudge,
    OurReader,
    Pipeline,
    ReflectSettings,
    Strict,
)
from langchain_selfreflect._question import ChainInput, find_asked
from langchain_selfreflect._retrieval import as_retriever, with_usual_k
from langchain_selfreflect.lm import as_language_model
from langchain_selfreflect.sourced import SourcedChain, make_tool
from shared_core.calibration.stack import AnyCalibration
from shared_core.conversation.turns import Asked
from shared_core.errors import QuestionError, SettingsError
from shared_core.facades.arguments import SHORTCUTS, in_words_of, reword, set_shortcuts
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.chat import LogprobsMode
from shared_core.runtime.flow import Flow
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Event, Finished, TextDelta

AnyCondenser = Annotated[Condenser, SkipValidation]


class SelfReflectChain(Strict, Answering[AIMessage], RunnableSerializable[ChainInput, AIMessage]):
    """Answers a question from a retriever's documents, claim by claim with quotes, or abstains and says why.

    >>> from shared_core import Passage
    >>> from shared_core.retrieval import BM25Retriever
    >>> lamp = Passage("lamp", "The lamp of Vessen was lit in 1871.")
    >>> SelfReflectChain(retriever=BM25Retriever([lamp])).invoke("When was the lamp of Vessen lit?").content
    'The lamp of Vessen was lit in 1871. [1]'

    A drop-in for ``{"context": retriever | …, "question": …} | prompt | llm``; ``| StrOutputParser()`` gives the text.

    The message's content is the text; its ``content_blocks`` have one ``Citation`` annotation for each quote, and
    ``response_metadata["selfreflect"]`` is the answer (``Answer.to_dict()``): claims with quotes, ids of the passages,
    ``abstained``, ``reason``, ``confidence``, the trace; whole passages only with ``include_passages``.
    Decisions are dispatched as custom events (``selfreflect_decision``, ``selfreflect_retrieved``,
    ``selfreflect_quote``, ``selfreflect_claim``). ``with_sources()`` gives a dict with the documents instead.

    The input is a question, a message, a list of messages, a ``PromptValue``, or a dict with one of these. Of several
    messages the user's last one is the question; those before it (and a ``history`` or ``chat_history`` next to the
    question) are its history. A follow-up ("and when was it closed?") is made a full question, which the answer's
    metadata holds as ``condensed_question``, or declined (docs/conversation.md). ``target_accuracy``, ``top_k``,
    ``where``, ``deadline`` and ``on_abstain`` can be given per call, as keywords or under ``config["configurable"]``
    (``selfreflect_top_k``, or ``{"selfreflect": {"top_k": …}}``, where other nodes know the plain names too); other
    keywords (``stop`` of ``bind``) have no effect, and nearly these ones raise ArgumentError.

    Raises:
        SettingsError: an argument is unknown or wrong, or the pipeline or policy needs an ``llm``; on creation.
        InputError: ``retriever`` cannot retrieve, or ``llm`` is not a language model; on creation.
        QuestionError: the question is empty or missing; when asked.
        AbstainedError: it abstains and ``on_abstain="raise"``; when asked.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    retriever: AnyRetriever = Field(
        description="A LangChain retriever (or runnable from text to documents), or one of ours."
    )
    llm: AnyModel | None = Field(
        default=None, description="A LangChain chat model or one of our backends; None answers in quotes."
    )
    settings: ReflectSettings = Field(default_factory=SelfReflectSettings)
    target_accuracy: Figure | None = Field(default=None, description="Shortcut for the setting of that name.")
    pipeline: Pipeline | None = Field(default=None, description="Shortcut for the setting of that name.")
    on_abstain: OnAbstain | None = Field(default=None, description="Shortcut for the setting of that name.")
    guarantee: Guarantee | None = Field(default=None, description="Shortcut for the setting of that name.")
    abstain_text: str | None = Field(default=None, description="Shortcut for the setting of that name.")
    deadline: Figure | None = Field(default=None, description="Shortcut for the setting of that name, in seconds.")
    style: str | None = Field(
        default=None, description="How claims are worded, told to the model: tone, length, language (reclaim.style)."
    )
    condense: AnyCondenser = Field(
        default="auto",
        description="How follow-ups become full questions: auto (those recognised, by the llm or by rule), True (every "
        "question with a history, by the llm), a template, a prompt, a runnable, or False (asked as they are).",
    )
    include_passages: bool = Field(
        default=False, description="Put whole passages into the messages' metadata instead of their ids and titles."
    )
    metadata: Literal["full", "light"] = Field(
        default="full",
        description="Metadata of messages: the whole answer, or only whether and why it abstained, its confidence and "
        "the full question asked (for threads that keep many messages).",
    )
    input_key: str = Field(
        default="question", description="Key of the question in a dict; else question, input, query, messages."
    )
    logprobs: Logprobs = Field(default="auto", description="See LangChainLM.")
    models: dict[str, AnyModel] = Field(
        default_factory=dict, description="Further models by role (reference, claim, …)."
    )
    reader: OurReader | None = Field(
        default=None, description="An extractive reader of ours instead of the shipped one."
    )
    judge: OurJudge | None = Field(default=None, description="Scores how far a quote supports a claim.")
    embedder: OurEmbedder | None = Field(default=None, description="An embedder of ours instead of the shipped one.")
    calibrations: Mapping[str, AnyCalibration] | None = Field(
        default=None, description="Calibrations by purpose; by default read from settings.calibration."
    )

    _made: Made[SelfReflectEngine] = PrivateAttr(default_factory=Made)

    def model_post_init(self, context: Any, /) -> None:
        """Refuse a configuration that cannot work, without calling a model."""
        self._make(probe=False)
        Condensing(self.condense, self.llm)

    @property
    def InputType(self) -> Any:
        """Accepted inputs, for schemas."""
        return str | AnyMessage | list[AnyMessage] | ChatPromptValueConcrete | StringPromptValue | dict[str, Any]

    def with_sources(self) -> SourcedChain:
        """Return the same chain with a dict as output, whose ``context`` is the documents read, best first.

        As from ``create_retrieval_chain``: the input, ``context``, ``answer`` (text) and also ``message``.
        """
        return SourcedChain(chain=self)

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
        nearest: bool = False,
    ) -> BaseTool:
        """Create a tool of an agent, from ``question`` to the answer's text, with the documents as its artifact.

        An abstention's result begins with ``NO ANSWER`` and holds no quote, unless ``nearest``. ``args_schema`` and
        ``arg_types`` have no effect.
        """
        return make_tool(self, name, description, nearest=nearest)

    def warm_up(self) -> Self:
        """Load models eagerly instead of at the first question, raising what that would raise. Returns the chain.

        Sends one query to the retriever, and may probe a chat model once for log-probabilities.
        """
        with in_words_of(self, lm="llm"):
            self.engine.warm_up()
        return self

    # --- the engine --------------------------------------------------------------------------------------------

    @property
    def _condensing(self) -> Condensing:
        with in_words_of(self, lm="llm"):
            return Condensing(self.condense, self.llm)

    @property
    def engine(self) -> SelfReflectEngine:
        """The engine built from the current fields."""
        return self._made.get(self, self._make)

    def _engine_of(self, caller: Caller) -> SelfReflectEngine:
        """Return the engine with the settings of one call."""
        if not caller.options:
            return self.engine
        settings = self.engine.settings.replace(**caller.options)
        return self.engine.over(as_retriever(self.retriever, settings), settings)

    def _make(self, *, probe: bool = True) -> SelfReflectEngine:
        with in_words_of(self, lm="llm"):
            settings = self._settings()
            mode: LogprobsMode = self.logprobs if probe else False
            models = {role: as_language_model(m, logprobs=mode) for role, m in self.models.items()}
            return SelfReflectEngine(
                as_retriever(self.retriever, settings),
                as_language_model(self.llm, logprobs=mode),
                settings,
                reader=self.reader,
                judge=self.judge,
                embedder=self.embedder,
                models={role: m for role, m in models.items() if m is not None},
                calibrations=self.calibrations,
            )

    def _settings(self) -> SelfReflectSettings:
        given = {name: getattr(self, name) for name in SHORTCUTS}
        return set_shortcuts(with_usual_k(self.settings, self.retriever, calibrated=bool(self.calibrations)), given)

    # --- Answering ---------------------------------------------------------------------------------------------

    def events(self, input: ChainInput, caller: Caller) -> Iterator[Event]:
        """Yield the engine's events and dispatch them to callbacks. Runs in a context of its own."""
        asked = find_asked(input, self.input_key)
        enter(replace(caller, history=asked.history))
        _events.tell(asked.note, caller.config)
        asked = self._condensing.prepare(asked, caller.config)
        with in_words_of(self, lm="llm"), closing(cast("Any", self._engine_of(caller).stream(asked))) as events:
            for event in events:
                _events.tell(event, caller.config)
                yield _with_note(event, asked)

    async def aevents(self, input: ChainInput, caller: Caller) -> AsyncGenerator[Event, None]:
        """``events`` for async runs."""
        asked = find_asked(input, self.input_key)
        enter(replace(caller, history=asked.history))
        await _events.atell(asked.note, caller.config)
        asked = await self._condensing.aprepare(asked, caller.config)
        with in_words_of(self, lm="llm"):
            await self._made.aget(self, self._make)
            async with aclosing(cast("Any", self._engine_of(caller).astream(asked))) as events:
                async for event in events:
                    await _events.atell(event, caller.config)
                    yield _with_note(event, asked)

    def _output(self, input: ChainInput, answer: Answer, caller: Caller) -> AIMessage:
        return _messages.message(answer, texts=self.include_passages, light=self.metadata == "light")

    def _pieces(self, input: ChainInput, event: Event, caller: Caller) -> Iterator[AIMessage]:
        """Yield chunks of the text; the last one carries the citations."""
        if isinstance(event, TextDelta):
            yield _messages.chunk(event.text)
        elif isinstance(event, Finished):
            yield _messages.last_chunk(event.answer, texts=self.include_passages, light=self.metadata == "light")

    def answer_batch(self, inputs: Sequence[ChainInput], callers: Sequence[Caller]) -> list[Answer | Exception]:
        """Answer questions together, each on behalf of its caller; answers or errors, in order.

        One batch for each set of options, where the callers' differ.
        """
        found: dict[int, Answer | Exception] = {}
        for places in _alike(callers):
            try:
                answers = self._answer_alike([inputs[i] for i in places], [callers[i] for i in places])
            except SettingsError as error:  # what these callers ask for; others' questions go on
                answers = [error] * len(places)
            found.update(zip(places, answers, strict=True))
        return [found[i] for i in range(len(inputs))]

    async def aanswer_batch(self, inputs: Sequence[ChainInput], callers: Sequence[Caller]) -> list[Answer | Exception]:
        """``answer_batch`` for async runs."""
        found: dict[int, Answer | Exception] = {}
        for places in _alike(callers):
            try:
                answers = await self._aanswer_alike([inputs[i] for i in places], [callers[i] for i in places])
            except SettingsError as error:
                answers = [error] * len(places)
            found.update(zip(places, answers, strict=True))
        return [found[i] for i in range(len(inputs))]

    def _answer_alike(self, inputs: Sequence[ChainInput], callers: Sequence[Caller]) -> list[Answer | Exception]:
        """Answer questions of callers with the same options, as one batch."""
        batch = _Batch.of(inputs, callers, self.input_key)
        for caller, asked in zip(batch.callers, batch.asked):
            _events.tell(asked.note, caller.config)

        def listen(i: int, event: Event) -> None:
            _events.tell(event, batch.callers[i].config)

        engine = self._engine_of(callers[0])
        todo = batch.keep(self._condensing.prepare_all(batch.asked, batch.runs))
        return self._end(batch, engine.answer_many(todo, listen, wrap=batch.tag))

    async def _aanswer_alike(self, inputs: Sequence[ChainInput], callers: Sequence[Caller]) -> list[Answer | Exception]:
        """``_answer_alike`` for async runs."""
        batch = _Batch.of(inputs, callers, self.input_key)
        for caller, asked in zip(batch.callers, batch.asked):
            await _events.atell(asked.note, caller.config)
        await self._made.aget(self, self._make)
        engine = self._engine_of(callers[0])
        todo = batch.keep(await self._condensing.aprepare_all(batch.asked, batch.runs))
        async with _telling(lambda i: batch.callers[i].config) as listen:
            answers = await engine.aanswer_many(todo, listen, wrap=batch.tag)
        return self._end(batch, answers)

    def _end(self, batch: _Batch, answers: Sequence[Answer | Exception]) -> list[Answer | Exception]:
        return batch.put_in_place([reword(a, self, lm="llm") if isinstance(a, Exception) else a for a in answers])


@dataclass(slots=True)
class _Batch:
    """Inputs of a batch.

    Attributes:
        results: an error in the place of each input that asks nothing or could not be condensed, ``None`` for the
            others.
        places: of each question, its input's place.
        asked: what each of them asks.
        callers: of each of them, the run on whose behalf it is asked.
    """

    results: list[Answer | Exception | None]
    places: list[int] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    callers: list[Caller] = field(default_factory=list)

    @classmethod
    def of(cls, inputs: Sequence[ChainInput], callers: Sequence[Caller], input_key: str) -> _Batch:
        """Read the inputs."""
        batch = cls([None] * len(inputs))
        for i, (given, caller) in enumerate(zip(inputs, callers, strict=True)):
            try:
                asked = find_asked(given, input_key)
            except QuestionError as error:
                batch.results[i] = error
                continue
            batch.places.append(i)
            batch.asked.append(asked)
            batch.callers.append(replace(caller, history=asked.history))
        return batch

    @property
    def runs(self) -> list[RunnableConfig]:
        """Configs of the questions' runs."""
        return [caller.config for caller in self.callers]

    def keep(self, prepared: Sequence[Asked | Exception]) -> list[Asked]:
        """Return the questions that were prepared, and leave the others out, with their errors in their places."""
        kept = [i for i, found in enumerate(prepared) if isinstance(found, Asked)]
        for place, found in zip(self.places, prepared, strict=True):
            if isinstance(found, Exception):
                self.results[place] = found
        self.places, self.asked, self.callers = (
            [self.places[i] for i in kept], [self.asked[i] for i in kept], [self.callers[i] for i in kept]
        )  # fmt: skip
        return [found for found in prepared if isinstance(found, Asked)]

    def tag(self, i: int, flow: Flow[Answer]) -> Flow[Answer]:
        """Mark every request of a question's flow with its caller."""
        return tagged(flow, self.callers[i])

    def put_in_place(self, answers: Sequence[Answer | Exception]) -> list[Answer | Exception]:
        """One result for each input, in order."""
        for i, asked, answer in zip(self.places, self.asked, answers, strict=True):
            self.results[i] = asked.tell(answer) if isinstance(answer, Answer) else answer
        return [r for r in self.results if r is not None]


def _alike(callers: Sequence[Caller]) -> list[list[int]]:
    """Return the places of callers with the same options, the first one's first."""
    groups: list[list[int]] = []
    for i, caller in enumerate(callers):
        same = next((g for g in groups if callers[g[0]].options == caller.options), None)
        if same is None:
            groups.append([i])
        else:
            same.append(i)
    return groups


def _with_note(event: Event, asked: Asked) -> Event:
    return Finished(asked.tell(event.answer)) if isinstance(event, Finished) else event


@contextlib.asynccontextmanager
async def _telling(config_of: Callable[[int], RunnableConfig]) -> AsyncIterator[Callable[[int, Event], None]]:
    """Create a listener for async handlers: events are queued, and dispatched in order while the engine works."""
    queue: asyncio.Queue[tuple[int, Event] | None] = asyncio.Queue()

    async def dispatch() -> None:
        while (item := await queue.get()) is not None:
            await _events.atell(item[1], config_of(item[0]))

    worker = asyncio.create_task(dispatch())
    try:
        yield lambda i, event: queue.put_nowait((i, event))
        queue.put_nowait(None)
        await worker
    finally:
        worker.cancel()
