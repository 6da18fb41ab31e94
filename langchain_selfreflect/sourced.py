"""An answer with the documents it was made from: as ``create_retrieval_chain`` gives it, and as a tool of an agent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Annotated, Any, NotRequired, cast

from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.runnables import AddableDict, RunnableConfig
from langchain_core.runnables.base import RunnableSerializable
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import ConfigDict, SkipValidation
from typing_extensions import TypedDict  # before Python 3.12 pydantic makes no schema of typing's

from langchain_selfreflect._answering import Answering, find_answer
from langchain_selfreflect._caller import Caller
from langchain_selfreflect._fields import Strict
from langchain_selfreflect._question import ChainInput
from langchain_selfreflect.documents import to_documents
from shared_core.errors import QuestionError
from shared_core.pipelines.decision.wording import NO_ANSWER, TOOL_DESCRIPTION, TOOL_NAME, tool_text
from shared_core.types import Answer, Event, Finished

_OWN = ("context", "answer", "message")
"""Keys of the output that an input's keys of these names make way for."""


class SourcedAnswer(TypedDict):
    """Output of ``SelfReflectChain.with_sources()``; it also has the input's other keys.

    >>> SourcedAnswer(answer="In 1871. [1]", context=[], message=AIMessage("In 1871. [1]"))["answer"]
    'In 1871. [1]'

    Attributes:
        input: the input, if it was not a dict.
        context: documents that were read, best first; copies whose ``id`` is the one that citations name.
        answer: the text.
        message: the answer as a message of ``SelfReflectChain``.
    """

    input: NotRequired[Any]
    context: list[Document]
    answer: str
    message: AIMessage


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

    chain: Annotated[Answering[AIMessage], SkipValidation]

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
        answer, given = event.answer, input if isinstance(input, Mapping) else {"input": input}
        yield _piece({key: value for key, value in given.items() if key not in _OWN})
        documents = to_documents(answer.passages, caller.documents)
        named = [d.model_copy(update={"id": p.id}) for d, p in zip(documents, answer.passages, strict=True)]
        yield _piece({"context": named})
        for text in answer.pieces():
            yield _piece({"answer": text})
        yield _piece({"message": self.chain._output(input, answer, caller)})


def _piece(part: Mapping[str, Any]) -> SourcedAnswer:
    """Return a piece of a stream that what comes behind the chain can add up: a plain dict cannot be added."""
    return cast("SourcedAnswer", AddableDict(part))


def make_tool(chain: Answering[AIMessage], name: str | None, description: str | None, *, nearest: bool) -> BaseTool:
    """Create a tool from a question to an answer; its artifact are the documents that the answer was made from.

    An abstention's result begins with ``NO ANSWER`` and has no documents; so does that of an empty question.

    Args:
        chain: answers.
        name, description: for the agent's model; by default our own.
        nearest: keep the nearest quotes that an abstention shows.
    """

    def give(answer: Answer, caller: Caller) -> tuple[str, list[Document]]:
        found = [] if answer.abstained else to_documents(answer.passages, caller.documents)
        return tool_text(answer, nearest=nearest), found

    def ask(question: str, config: RunnableConfig) -> tuple[str, list[Document]]:
        caller = Caller.of(config, {})
        try:
            answer = find_answer(chain.events(question, caller))
        except QuestionError as error:
            return _refused(error)
        return give(answer, caller)

    async def aask(question: str, config: RunnableConfig) -> tuple[str, list[Document]]:
        caller = Caller.of(config, {})
        try:
            answer = find_answer([event async for event in chain.aevents(question, caller)])
        except QuestionError as error:
            return _refused(error)
        return give(answer, caller)

    made: Any = StructuredTool.from_function(
        ask,
        aask,
        name=name or TOOL_NAME,
        description=description or TOOL_DESCRIPTION,
        response_format="content_and_artifact",
    )
    tool: BaseTool = made
    return tool


def _refused(error: QuestionError) -> tuple[str, list[Document]]:
    """Tell the agent's model what is wrong with its question; an error would end the agent's run."""
    return f"{NO_ANSWER}: {error.message}", []
