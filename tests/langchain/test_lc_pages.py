"""The page and the section of a quote are in its annotation, from any loader's metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document

from langchain_selfreflect import SelfReflectChain
from shared_core.documents import chunk_document, load_document
from shared_core.retrieval import BM25Retriever
from tests.fakes import FirstSentenceReader

FILES = Path(__file__).parents[1] / "documents" / "files"


def extras(retriever: Any, question: str) -> dict[str, Any]:
    message = SelfReflectChain(retriever=retriever, reader=FirstSentenceReader(0.9)).invoke(question)
    block: dict[str, Any] = dict(message.content_blocks[0])
    found: dict[str, Any] = block["annotations"][0]["extras"]
    return found


@pytest.mark.parametrize(
    ("metadata", "page"),
    [
        ({"page": 0, "page_label": "1", "source": "m.pdf"}, "1"),
        ({"page": 11, "total_pages": 20, "source": "m.pdf"}, "12"),
        ({"source": "m.txt"}, None),
    ],
)
def test_annotations_name_the_page(metadata: dict[str, Any], page: str | None) -> None:
    from langchain_core.retrievers import BaseRetriever

    class One(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document("The lamp was lit in 1871.", id="d", metadata=metadata)]

    assert extras(One(), "When was the lamp lit?").get("page") == page


def test_a_pdf_of_ours() -> None:
    passages = chunk_document(load_document(FILES / "xelatex_report.pdf"))
    found = extras(BM25Retriever(passages[-1:]), "the bell and the brig")
    assert (found["page"], found["section"]) == ("2", "2 The fog signal")
