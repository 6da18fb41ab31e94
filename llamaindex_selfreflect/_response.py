"""Answers as LlamaIndex's responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, CitationBlock, MessageRole, TextBlock
from llama_index.core.base.response.schema import AsyncStreamingResponse, PydanticResponse, Response, StreamingResponse
from llama_index.core.chat_engine.types import StreamingAgentChatResponse
from llama_index.core.schema import NodeWithScore
from llama_index.core.types import TokenAsyncGen, TokenGen

from llamaindex_selfreflect._nodes import NodeBook, document_place
from shared_core.citation import find_place
from shared_core.errors import InputError
from shared_core.types import Answer, Span

NAMESPACE = "selfreflect"
"""Our key in ``Response.metadata``, beside one for each source node's id."""


@dataclass
class SelfReflectResponse(Response):
    """A LlamaIndex ``Response`` with our ``Answer``.

    >>> str(SelfReflectResponse("In 1871. [1]"))
    'In 1871. [1]'

    Attributes:
        answer: text, claims, exact citations, confidence and trace.
        citations: entry ``i`` is the citation that the text marks as ``[i + 1]``; its node is ``source_nodes[i]``.
    """

    answer: Answer | None = None
    citations: list[CitationBlock] = field(default_factory=list)

    __str__ = Response.__str__

    @property
    def abstained(self) -> bool:
        """No claim met the target accuracy."""
        return self.answer is not None and self.answer.abstained

    @property
    def reason(self) -> str:
        """Why it abstained; empty if it did not."""
        return self.answer.reason if self.answer is not None else ""

    @property
    def confidence(self) -> float | None:
        """Calibrated probability that the answer is right; ``None`` if unknown."""
        return self.answer.confidence if self.answer is not None else None

    def to_chat_message(self) -> ChatMessage:
        """The answer as an assistant's message: its text, then a ``CitationBlock`` for each citation number."""
        text = self.answer.text if self.answer is not None else ""
        marks = {"abstained": True} if self.abstained else {}
        blocks = [TextBlock(text=text), *self.citations]
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks, additional_kwargs=marks)


class SelfReflectStreamingResponse(SelfReflectResponse, StreamingResponse):
    """A ``StreamingResponse`` that is also a ``SelfReflectResponse``, complete when the stream begins.

    >>> from shared_core import Answer
    >>> whole = SelfReflectResponse("In 1871.", answer=Answer("When?", "In 1871."))
    >>> "".join(SelfReflectStreamingResponse(whole).response_gen)
    'In 1871.'

    Args:
        whole: the response, whose text is streamed claim by claim.
    """

    def __init__(self, whole: SelfReflectResponse) -> None:
        SelfReflectResponse.__init__(self, **vars(whole))
        self._whole = whole
        self.response_gen: TokenGen = _pieces(whole.answer)
        self.response_txt: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:  # a stream does not travel; it begins anew
        return type(self), (self._whole,)

    def __str__(self) -> str:
        """The whole text, however much of the stream was read."""
        return str(self._whole)

    get_formatted_sources = StreamingResponse.get_formatted_sources

    def get_response(self) -> SelfReflectResponse:
        """The whole, not streamed."""
        return replace(self._whole)


class SelfReflectAsyncStreamingResponse(SelfReflectResponse, AsyncStreamingResponse):
    """An ``AsyncStreamingResponse`` that is also a ``SelfReflectResponse``, complete when the stream begins.

    ::

        response = await SelfReflectQueryEngine(retriever, streaming=True).aquery(question)
        async for piece in response.async_response_gen():
            print(piece, end="")

    Args:
        whole: the response, whose text is streamed claim by claim.
    """

    def __init__(self, whole: SelfReflectResponse) -> None:
        SelfReflectResponse.__init__(self, **vars(whole))
        self._whole = whole
        self.response_gen: TokenAsyncGen = _apieces(whole.answer)
        self.response_txt: str | None = None
        self.__post_init__()

    def __reduce__(self) -> tuple[Any, ...]:  # a stream does not travel; it begins anew
        return type(self), (self._whole,)

    def __str__(self) -> str:
        """The whole text, however much of the stream was read."""
        return str(self._whole)

    get_formatted_sources = AsyncStreamingResponse.get_formatted_sources

    async def get_response(self) -> SelfReflectResponse:
        """The whole, not streamed."""
        return replace(self._whole)


def respond(answer: Answer, book: NodeBook, additional: Sequence[NodeWithScore] = ()) -> SelfReflectResponse:
    """Convert an answer to a response.

    ``source_nodes[i]`` is the node that the text marks as ``[i + 1]``; where nothing is cited (an abstention, an answer
    from the model's own knowledge) they are the nodes that were read. ``additional`` ones follow.
    """
    cited = [book.node(s.passage_id) for s in answer.numbered_spans()]
    nodes = [*(cited or [book.node(p.id) for p in answer.passages]), *additional]
    citations = citation_blocks(answer, book)
    metadata: dict[str, Any] = {n.node.node_id: n.node.metadata for n in nodes}
    metadata[NAMESPACE] = _details(answer, citations)
    return SelfReflectResponse(answer.text, nodes, metadata, answer, citations)


def text_of(response: object) -> str | None:
    """Return the text of any response of LlamaIndex; that of a stream is read to its end.

    Raises:
        InputError: the stream can be read by async code only.
    """
    if response is None or isinstance(response, str):
        return response
    if isinstance(response, Response):
        return response.response
    if isinstance(response, PydanticResponse) and response.response is None:
        return None
    if isinstance(response, (StreamingResponse, PydanticResponse)):
        return response.get_response().response
    if isinstance(response, StreamingAgentChatResponse):
        if response.achat_stream is not None and not response.is_done:
            raise InputError("This stream is async.", hint="Use the async method: await guard.acheck(response).")
        for _ in response.response_gen:
            pass
        return response.response
    return str(response)


async def atext_of(response: object) -> str | None:
    """``text_of`` for async code, which may read async streams too."""
    if isinstance(response, AsyncStreamingResponse) and not isinstance(response, Response):
        return (await response.get_response()).response
    if isinstance(response, StreamingAgentChatResponse) and response.achat_stream is not None:
        async for _ in response.async_response_gen():
            pass
        return response.response
    return text_of(response)


def _pieces(answer: Answer | None) -> TokenGen:
    yield from answer.pieces() if answer is not None else ()


async def _apieces(answer: Answer | None) -> TokenAsyncGen:
    for piece in _pieces(answer):
        yield piece


def citation_blocks(answer: Answer, book: NodeBook) -> list[CitationBlock]:
    """Create one block per citation number.

    ``source`` is the node's id. ``additional_location_info`` holds ``number``; ``start`` and ``end`` of the quote in
    the node's own text; ``answer_start`` and ``answer_end`` of the first claim that cites it in the answer's text;
    ``document_start`` and ``document_end`` where the node knows its place in its document (of our reader: in the file's
    text), all in code points; ``page``
    where its metadata tell one that is a number. (The block takes numbers only: ``response.metadata["selfreflect"]``
    has ``page``, such as ``iv``, and ``section`` beside each citation.)
    """
    return [_block(i, s, answer, book) for i, s in enumerate(answer.numbered_spans(), 1)]


def _block(number: int, span: Span, answer: Answer, book: NodeBook) -> CitationBlock:
    node = book.node(span.passage_id).node
    where = {"number": number, "start": span.start, "end": span.end}
    claim = next(c for c in answer.kept_claims if any(span in citation.spans for citation in c.citations))
    if claim.start is not None and claim.end is not None:
        where |= {"answer_start": claim.start, "answer_end": claim.end}
    place = document_place(node)
    if place is not None:
        where |= {"document_start": place[0] + span.start, "document_end": place[0] + span.end}
    passage = answer.passage(span.passage_id)
    page = find_place(passage, span).page
    if page.isdecimal():
        where["page"] = int(page)
    return CitationBlock(
        cited_content=TextBlock(text=span.text),
        source=node.node_id,
        title=passage.title or str(passage.metadata.get("source") or ""),
        additional_location_info=where,
    )


def _details(answer: Answer, citations: Sequence[CitationBlock]) -> dict[str, Any]:
    """Plain values; passages without their texts, which the source nodes hold."""
    details = answer.to_dict(texts=False)
    del details["usage"]["seconds"]  # in ``answer.usage``; without it equal answers have equal metadata
    places = [find_place(answer.passage(span.passage_id), span) for span in answer.numbered_spans()]
    details["citations"] = [
        {**block.model_dump(mode="json"), "page": place.page, "section": place.section}
        for block, place in zip(citations, places, strict=True)
    ]
    return details
