"""From an ``Answer`` to LangChain's messages."""

from __future__ import annotations

import hashlib
from typing import Any, cast

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message
from langchain_core.messages import content as blocks
from langchain_core.messages.ai import UsageMetadata

from shared_core.citation import find_place
from shared_core.types import Answer, Citation, Claim, Passage, Span

NAMESPACE = "selfreflect"
"""The key of ``response_metadata`` that holds all of ours."""

_V1 = {"output_version": "v1"}
_INDEX = 0  # the same for every chunk, or they would not merge into one block


def message(answer: Answer, *, texts: bool = False) -> AIMessage:
    """The answer as one message; the streamed chunks of the same answer add up to it. ``texts``: whole passages too."""
    return AIMessage(
        content=[_block(answer.question, answer.text, citations(answer))],
        response_metadata=_metadata(answer, texts),
        usage_metadata=_usage(answer),
    )


def checked(answer: Answer, original: AIMessage | None) -> AIMessage:
    """An answer of a chain that was checked: its message with the text that is to be shown, and ours beside its own."""
    made = message(answer)
    if original is None:
        return made
    whole = message_chunk_to_message(original)
    others = [b for b in whole.content if isinstance(b, dict) and b.get("type") != "text"]
    update = {
        "content": [*others, *made.content],
        "response_metadata": {**whole.response_metadata, **made.response_metadata},
    }
    return cast("AIMessage", whole.model_copy(update=update))


def chunk(question: str, text: str) -> AIMessageChunk:
    """A piece of the text."""
    return AIMessageChunk(
        content=[_block(question, text)],
        response_metadata=dict(_V1),
    )


def last_chunk(answer: Answer, *, texts: bool = False) -> AIMessageChunk:
    """What is known only in the end: citations and everything beside the text."""
    return AIMessageChunk(
        content=[_block(answer.question, "", citations(answer))],
        response_metadata=_metadata(answer, texts),
        usage_metadata=_usage(answer),
        chunk_position="last",
    )


def citations(answer: Answer) -> list[blocks.Citation]:
    """One annotation for each quote of each shown claim, in the order of the text.

    ``start_index`` and ``end_index`` are the claim's place in the answer's text; ``cited_text`` stands in the passage
    at ``extras["start"]`` to ``extras["end"]`` (code points of ``page_content``). ``source_start`` and ``source_end``
    are the place in the whole file, where the document's metadata say where it begins (``start`` or ``start_index``);
    ``page`` and ``section`` are texts, where the metadata tell them (``page_label``, or ``page``, which LangChain's
    loaders count from 0).
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
    first = next((v for v in (metadata.get("start"), metadata.get("start_index")) if _is_offset(v)), None)
    place = find_place(passage, span, pages_from_zero=True) if passage is not None else None
    extras: dict[str, Any] = {
        "passage_id": span.passage_id,
        "source": source,
        "page": place.page or None if place is not None else None,
        "section": place.section or None if place is not None else None,
        "start": span.start,
        "end": span.end,
        "source_start": first + span.start if isinstance(first, int) else None,
        "source_end": first + span.end if isinstance(first, int) else None,
        "match": citation.match,
        "ambiguous": citation.ambiguous or None,
        "quote": citation.quote if citation.match != "verbatim" else None,
        "support": claim.support,
        "short_answer": claim.short_answer,
    }
    return blocks.create_citation(
        id=f"{_block_id(answer.question)}-{number}",
        url=_url(metadata.get("url"), source),
        title=passage.title or None if passage is not None else None,
        start_index=claim.start,
        end_index=claim.end,
        cited_text=span.text,
        **extras,
    )


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _url(*candidates: object) -> str | None:
    return next((c for c in candidates if isinstance(c, str) and c.startswith(("http://", "https://"))), None)


def _block(question: str, text: str, annotations: list[blocks.Citation] | None = None) -> dict[str, Any]:
    made = blocks.create_text_block(
        text,
        id=_block_id(question),
        annotations=list(annotations) if annotations else None,
        index=_INDEX,
    )
    return dict(made)


def _block_id(question: str) -> str:
    """Known before the answer is, so that chunks carry it, and the same for ``invoke`` and ``stream``."""
    return "selfreflect-" + hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _metadata(answer: Answer, texts: bool) -> dict[str, Any]:
    details = answer.to_dict(texts=texts)
    del details["usage"]["seconds"]  # LangChain times its runs; without it equal answers are equal messages
    return {**_V1, NAMESPACE: details}


def _usage(answer: Answer) -> UsageMetadata | None:
    read, written = answer.usage.prompt_tokens, answer.usage.generated_tokens
    if not read and not written:
        return None
    return UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
