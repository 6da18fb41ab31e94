"""The page and the section of a quote are in its citation block, from any loader's metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from llama_index.core.schema import NodeWithScore, TextNode

from llamaindex_selfreflect import PassageRetriever, SelfReflectQueryEngine, SelfReflectResponse
from shared_core.documents import chunk_document, load_document
from shared_core.retrieval import BM25Retriever
from tests.fakes import FirstSentenceReader
from tests.llamaindex.li_fakes import QUESTION, NodeShelf

FILES = Path(__file__).parents[1] / "documents" / "files"


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"page_label": "12", "file_name": "manual.pdf"}, ("12", 12, "")),
        ({"page": 3, "page_label": "iii", "section": "Lamps > Oil"}, ("iii", None, "Lamps > Oil")),
        ({}, ("", None, "")),
    ],
)
def test_citation_blocks_name_the_page(metadata: dict[str, Any], expected: tuple[str, int | None, str]) -> None:
    node = NodeWithScore(node=TextNode(id_="n", text="The lamp was lit in 1871.", metadata=metadata), score=1.0)
    engine = SelfReflectQueryEngine.from_args(NodeShelf([node]), reader=FirstSentenceReader(0.9))
    response = engine.query(QUESTION)
    assert isinstance(response, SelfReflectResponse)
    assert response.metadata is not None
    told = response.metadata["selfreflect"]["citations"][0]
    number = response.citations[0].additional_location_info.get("page")
    assert (told["page"], number, told["section"]) == expected


def test_a_pdf_of_ours() -> None:
    passages = chunk_document(load_document(FILES / "xelatex_report.pdf"))
    shelf = PassageRetriever(BM25Retriever(passages[-1:]), top_k=1)
    response = SelfReflectQueryEngine.from_args(shelf, reader=FirstSentenceReader(0.9)).query("the bell and the brig")
    assert isinstance(response, SelfReflectResponse)
    assert response.source_nodes[0].node.metadata["page_label"] == "2"
    assert response.citations[0].additional_location_info["page"] == 2
    assert response.metadata is not None
    assert response.metadata["selfreflect"]["citations"][0]["section"] == "2 The fog signal"
