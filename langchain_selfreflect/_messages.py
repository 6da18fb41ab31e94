"""From an ``Answer`` to LangChain's messages.

``content`` is the plain text, as of most chat models: it can be printed, put into a prompt, sent to any provider as
history. The citations lie in ``additional_kwargs["citations"]``, and ``content_blocks``, LangChain's common form, has
them as annotations of its text block (by a translator, registered here under the name of our provider).
"""

from __future__ import annotations

import hashlib
from typing import Any, cast

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message
from langchain_core.messages import content as blocks
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.block_translators import register_translator

from shared_core.citation import find_place
from shared_core.citation.places import is_offset, range_in_file
from shared_core.conversation.answering import CONDENSED
from shared_core.types import Answer, Citation, Claim, Passage, Span

NAMESPACE = "selfreflect"
"""The key of ``response_metadata`` that holds all of ours, and the name of the provider there."""
CITATIONS = "citations"
"""The key of ``additional_kwargs`` that holds the citations."""


def message(answer: Answer, *, texts: bool = False, light: bool = False) -> AIMessage:
    """Convert an answer to one message, equal to the sum of its streamed chunks.

    Args:
        answer: of the engine.
        texts: include whole passages.
        light: leave out claims, passages and trace.
    """
    return AIMessage(content=answer.text, **_fields(answer, texts, light))


def checked(answer: Answer, original: AIMessage | None) -> AIMessage:
    """An answer of a chain that was checked: its message with the text that is to be shown, and ours beside its own.

    Where the original's content is a list that holds more than text (reasoning, images), it stays one, of LangChain's
    standard blocks.
    """
    made = message(answer)
    if original is None:
        return made
    whole = message_chunk_to_message(original)
    update: dict[str, Any] = {
        "content": made.content,
        "additional_kwargs": {**whole.additional_kwargs, **made.additional_kwargs},
        "response_metadata": {**whole.response_metadata, **made.response_metadata},
    }
    if any(isinstance(b, dict) and b.get("type") != "text" for b in whole.content):
        others = [b for b in whole.content_blocks if b["type"] != "text"]
        update["content"] = [*others, *made.content_blocks]
        update["response_metadata"]["output_version"] = "v1"
    return cast("AIMessage", whole.model_copy(update=update))


def noted(answer: Answer, original: AIMessage) -> AIMessage:
    """Return a message with its check beside its own metadata, and nothing else changed."""
    details = _metadata(answer, texts=False, light=False)[NAMESPACE]
    return original.model_copy(update={"response_metadata": {**original.response_metadata, NAMESPACE: details}})


def unchecked(original: AIMessage, reason: str) -> AIMessage:
    """Return a message that was not checked, with a note that says so and why."""
    note = {"status": "unchecked", "reason": reason}
    return original.model_copy(update={"response_metadata": {**original.response_metadata, NAMESPACE: note}})


def chunk(text: str) -> AIMessageChunk:
    """Create a chunk with a piece of the text."""
    return AIMessageChunk(content=text)


def last_chunk(answer: Answer, *, texts: bool = False, light: bool = False) -> AIMessageChunk:
    """Create the last chunk: citations and metadata, which are known only at the end."""
    return AIMessageChunk(content="", chunk_position="last", **_fields(answer, texts, light))


def _fields(answer: Answer, texts: bool, light: bool) -> dict[str, Any]:
    found = citations(answer)
    return {
        "additional_kwargs": {CITATIONS: found} if found else {},
        "response_metadata": _metadata(answer, texts, light),
        "usage_metadata": _usage(answer),
    }


def _to_blocks(message: AIMessage | AIMessageChunk) -> list[blocks.ContentBlock]:
    """Convert to LangChain's standard content blocks, with the citations at the text."""
    plain = message.model_copy(update={"response_metadata": {}})
    made = list(plain.content_blocks)
    cited = message.additional_kwargs.get(CITATIONS)
    if not cited:
        return made
    at = next((i for i, block in enumerate(made) if block["type"] == "text"), None)
    if at is None:  # a stream's last chunk has no text
        return [*made, blocks.create_text_block("", annotations=cited)]
    made[at] = cast("blocks.ContentBlock", {**made[at], "annotations": cited})
    return made


register_translator(NAMESPACE, _to_blocks, _to_blocks)


def citations(answer: Answer) -> list[blocks.Citation]:
    """List one annotation per quote of each shown claim, in the order of the text.

    ``start_index`` and ``end_index`` are the claim's place in the answer's text; ``cited_text`` is the passage's
    text from ``extras["start"]`` to ``extras["end"]`` (code points of ``page_content``). ``source_start`` and
    ``source_end`` are offsets in the whole file, if the document's metadata has its offset (``start`` or
    ``start_index``); ``page`` and ``section`` are texts, if the metadata has them (``page_label``, or ``page``, which
    LangChain's loaders count from 0).
    """
    passages = {p.id: p for p in answer.passages}
    return [
        _citation(answer, claim, citation, span, passages.get(span.passage_id), number)
        for number, (claim, citation, span) in enumerate(_quotes(answer))
    ]


def _quotes(answer: Answer) -> list[tuple[Claim, Citation, Span]]:
    # of an answer that was checked, what stands beside a claim that is not supported is no citation of it
    placed = [c for c in answer.kept_claims if c.start is not None and c.verdict in (None, "supported")]
    return [(claim, citation, span) for claim in placed for citation in claim.citations for span in citation.primary]


def _citation(
    answer: Answer, claim: Claim, citation: Citation, span: Span, passage: Passage | None, number: int
) -> blocks.Citation:
    metadata = passage.metadata if passage is not None else {}
    source = metadata.get("source")
    first = _start_in_file(passage) if passage is not None else None
    place = find_place(passage, span, pages_from_zero=True) if passage is not None else None
    extras: dict[str, Any] = {
        "passage_id": span.passage_id,
        "source": source,
        "page": place.page or None if place is not None else None,
        "section": place.section or None if place is not None else None,
        "start": span.start,
        "end": span.end,
        "source_start": first + span.start if first is not None else None,
        "source_end": first + span.end if first is not None else None,
        "match": citation.match,
        "ambiguous": citation.ambiguous or None,
        "quote": citation.quote if citation.match != "verbatim" else None,
        "support": claim.support,
        "short_answer": claim.short_answer,
    }
    return blocks.create_citation(
        id=f"{_key(answer.question)}-{number}",
        url=_url(metadata.get("url"), source),
        title=passage.title or None if passage is not None else None,
        start_index=claim.start,
        end_index=claim.end,
        cited_text=span.text,
        **extras,
    )


def _start_in_file(passage: Passage) -> int | None:
    """Return the start of a passage in its file; ``None`` if its metadata do not tell."""
    metadata = passage.metadata
    start, index = metadata.get("start"), metadata.get("start_index")
    place = range_in_file(metadata, len(passage.text), index if is_offset(index) else None)
    if place is not None:
        return place[0]
    if is_offset(start) and not (metadata.get("source") and is_offset(metadata.get("end"))):
        return start  # with its ``end`` it would be a piece of it, nobody knows which
    return index if is_offset(index) and not is_offset(start) else None


def _url(*candidates: object) -> str | None:
    return next((c for c in candidates if isinstance(c, str) and c.startswith(("http://", "https://"))), None)


def _key(question: str) -> str:
    return "selfreflect-" + hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest()[:16]


_LIGHT = ("question", "abstained", "reason", "confidence", "calibrated")


def _metadata(answer: Answer, texts: bool, light: bool) -> dict[str, Any]:
    if light:
        details = {name: getattr(answer, name) for name in _LIGHT}
        condensed = answer.metadata.get(CONDENSED)
        return {
            "model_provider": NAMESPACE,
            NAMESPACE: details | ({"metadata": {CONDENSED: condensed}} if condensed else {}),
        }
    details = answer.to_dict(texts=texts)
    del details["usage"]["seconds"]  # LangChain times its runs; without it equal answers are equal messages
    return {"model_provider": NAMESPACE, NAMESPACE: details}


def _usage(answer: Answer) -> UsageMetadata | None:
    read, written = answer.usage.prompt_tokens, answer.usage.generated_tokens
    if not read and not written:
        return None
    return UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
