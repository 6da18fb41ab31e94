"""Documents to passages and back: ids, titles, metadata, duplicates; the originals are never touched."""

from __future__ import annotations

import copy
import uuid
from datetime import date
from pathlib import PurePosixPath

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document

from langchain_selfreflect.documents import annotate, to_documents, to_passages
from shared_core.errors import InputError
from shared_core.types import Passage

VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=2))
DOCUMENTS = st.builds(
    lambda text, metadata, doc_id: Document(text, metadata=metadata, id=doc_id),
    st.text(max_size=12),
    st.dictionaries(st.sampled_from(["id", "title", "source", "page", "tags"]), VALUES, max_size=4),
    st.one_of(st.none(), st.sampled_from(["a", "b"])),
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(DOCUMENTS, max_size=6))
def test_every_document_comes_back_unchanged_and_ids_are_unique(docs: list[Document]) -> None:
    before = copy.deepcopy(docs)
    known: dict[str, Document] = {}
    passages = to_passages(docs, known)
    ids = [p.id for p in passages]
    assert docs == before
    assert len(set(ids)) == len(ids)
    back = to_documents(passages, known)
    assert all(any(b == d for d in docs) for b in back)
    assert {d.page_content for d in docs} == {b.page_content for b in back}
    assert [p.text for p in passages] == [b.page_content for b in back]
    assert to_passages(docs) == passages  # stable


def test_where_the_id_comes_from() -> None:
    number = uuid.uuid4()
    docs = [
        Document("a", id="own", metadata={"id": "meta"}), Document("b", metadata={"id": "meta"}),
        Document("c", metadata={"_id": 7}), Document("d", metadata={"chunk_id": number}), Document("e"),
    ]  # fmt: skip
    ids = [p.id for p in to_passages(docs)]
    assert ids[:4] == ["own", "meta", "7", str(number)]
    assert ids[4] == to_passages([Document("e", metadata={"score": 0.3, "selfreflect_reason": "x"})])[0].id
    assert ids[4] != to_passages([Document("e", metadata={"source": "f"})])[0].id


def test_the_same_document_twice_is_one_passage_and_a_stranger_with_its_id_another() -> None:
    docs = [Document("a", id="x"), Document("a", id="x"), Document("b", id="x"), Document("b", id="x")]
    first, second = to_passages(docs)
    assert (first.id, first.text) == ("x", "a")
    assert second.id.startswith("x#")
    assert second.text == "b"


def test_ids_hold_over_several_calls_for_one_question() -> None:
    known: dict[str, Document] = {}
    (second,) = to_passages([Document("b", metadata={"id": "x"})], known)
    first, again = to_passages([Document("a", metadata={"id": "x"}), Document("b", metadata={"id": "x"})], known)
    assert second == again
    assert first.id != again.id


def test_flat_metadata_is_kept_and_the_rest_comes_back_with_the_document() -> None:
    metadata = {
        "title": "Lamps", "page": np.int64(3), "path": PurePosixPath("a/b"), "day": date(1871, 1, 2), "tags": ["x"],
        "nested": {"a": 1}, "none": None,
    }  # fmt: skip
    known: dict[str, Document] = {}
    (passage,) = to_passages([Document("text", metadata=metadata)], known)
    assert passage.title == "Lamps"
    assert dict(passage.metadata) == {"title": "Lamps", "page": 3, "path": "a/b", "day": "1871-01-02", "none": None}
    (document,) = to_documents([passage.with_score(0.5, selfreflect_reason="because")], known)
    assert document.metadata == {**metadata, "relevance_score": 0.5, "selfreflect_reason": "because"}


def test_a_passage_of_ours_becomes_a_document() -> None:
    (document,) = to_documents([Passage("p", "text", "T", {"source": "s"}, 0.25)], {})
    assert document == Document("text", id="p", metadata={"title": "T", "source": "s", "relevance_score": 0.25})


def test_a_note_is_put_on_a_copy() -> None:
    original = Document("a", metadata={"x": 1})
    assert annotate(original, y=2, z=None).metadata == {"x": 1, "y": 2}
    assert original.metadata == {"x": 1}


def test_what_is_no_document_is_refused() -> None:
    with pytest.raises(InputError, match="str where a Document"):
        to_passages(["text"])  # type: ignore[list-item]
