"""LangChain's ``Document`` ↔ ``Passage``."""

from __future__ import annotations

import datetime
import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import PurePath
from typing import Any

from langchain_core.documents import Document

from shared_core.errors import InputError
from shared_core.types import MetadataValue, Passage

_ID_KEYS = ("id", "_id", "chunk_id")
_PASSING = ("score", "_score", "relevance_score", "distance", "similarity")
"""Metadata that changes from query to query and so is no part of a document's identity."""


def to_passages(documents: Iterable[Document], known: MutableMapping[str, Document] | None = None) -> list[Passage]:
    """Convert documents to passages, in order and without duplicates.

    ``passage.text`` is ``page_content``, so offsets hold in it. The id is the document's own, else its metadata's
    (``id``, ``_id``, ``chunk_id``), else a hash of text and metadata. Where two different documents share an id (chunks
    that inherited their file's), the later ones get a hash added. Flat metadata is kept; nested values are left out
    (``to_documents`` brings the original back whole). The title is ``metadata["title"]``.

    Args:
        documents: never changed.
        known: documents seen before by passage id; the new ones are added to it.

    Raises:
        InputError: something in ``documents`` is no Document.
    """
    seen: MutableMapping[str, Document] = known if known is not None else {}
    passages: dict[str, Passage] = {}
    for document in documents:
        if not isinstance(document, Document):
            raise InputError(
                f"A retriever gave a {type(document).__name__} where a Document is needed.",
                hint="Its output should be a list of langchain_core.documents.Document.",
            )
        passage_id = _free_id(document, seen)
        seen.setdefault(passage_id, document)
        if passage_id not in passages:
            passages[passage_id] = _passage(passage_id, document)
    return list(passages.values())


def to_documents(passages: Iterable[Passage], known: Mapping[str, Document]) -> list[Document]:
    """Return copies of the documents behind the passages, with the passages' notes in their metadata.

    ``relevance_score`` is the passage's score, where it has one. A passage that came from no document gets a new one.
    """
    return [_document(p, known.get(p.id)) for p in passages]


def annotate(document: Document, **metadata: Any) -> Document:
    """Return a copy with added metadata; entries that are ``None`` are left out."""
    added = {k: v for k, v in metadata.items() if v is not None}
    return document.model_copy(update={"metadata": {**document.metadata, **added}})


def _passage(passage_id: str, document: Document) -> Passage:
    title = document.metadata.get("title")
    return Passage(
        passage_id, document.page_content, title if isinstance(title, str) else "", flat(document.metadata)
    )  # fmt: skip


def _document(passage: Passage, original: Document | None) -> Document:
    if original is None:
        title = {"title": passage.title} if passage.title else {}
        original = Document(passage.text, metadata={**title, **passage.metadata}, id=passage.id)
    notes = {k: v for k, v in passage.metadata.items() if k.startswith("selfreflect_")}
    return annotate(original, **notes, relevance_score=passage.score)


def flat(metadata: Mapping[str, Any]) -> dict[str, MetadataValue]:
    """Keep plain values; convert paths, dates and UUIDs to text and numpy scalars to numbers."""
    found: dict[str, MetadataValue] = {}
    for key, value in metadata.items():
        plain = value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value
        if isinstance(plain, (PurePath, uuid.UUID, datetime.date, datetime.time)):
            plain = str(plain)
        if plain is None or isinstance(plain, (str, int, float, bool)):
            found[str(key)] = plain
    return found


def _free_id(document: Document, seen: Mapping[str, Document]) -> str:
    wanted = _own_id(document)
    other = seen.get(wanted)
    if other is None or _same(other, document):
        return wanted
    return f"{wanted}#{_digest(document)}"


def _own_id(document: Document) -> str:
    if document.id:
        return document.id
    for key in _ID_KEYS:
        value = document.metadata.get(key)
        if isinstance(value, (str, int, uuid.UUID)) and not isinstance(value, bool) and str(value):
            return str(value)
    return _digest(document)


def _same(one: Document, other: Document) -> bool:
    """Whether two documents are the same: equal ids and texts, whatever the metadata."""
    return one is other or one.page_content == other.page_content


def _digest(document: Document) -> str:
    lasting = {
        str(k): v for k, v in document.metadata.items() if k not in _PASSING and not str(k).startswith("selfreflect_")
    }
    try:
        described = json.dumps(lasting, sort_keys=True, default=str, ensure_ascii=False)
    except ValueError:  # circular
        described = repr(sorted(lasting))
    raw = f"{document.page_content}\0{described}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(raw).hexdigest()[:16]
