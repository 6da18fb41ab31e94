"""``SelfReflectReader``: files as passages of LlamaIndex's own indexes."""

from __future__ import annotations

from pathlib import Path

import pytest
from llama_index.core import SimpleDirectoryReader
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import MetadataMode, NodeWithScore

from llamaindex_selfreflect import SelfReflectReader
from llamaindex_selfreflect._nodes import passage_of
from shared_core.documents import load_document
from shared_core.errors import DocumentError, InputError

FILES = Path(__file__).parents[1] / "documents" / "files"
MINUTES = FILES / "libreoffice_minutes.pdf"


def test_a_document_is_a_passage_with_its_place_in_the_file() -> None:
    text = load_document(MINUTES).text
    documents = SelfReflectReader().load_data(MINUTES)
    assert len({document.id_ for document in documents}) == len(documents) > 2
    for document in documents:
        assert text[document.metadata["start"] : document.metadata["end"]] == document.text
    (table,) = [document for document in documents if "Place: Entrance; March: 6.1 m; June: 5.6 m" in document.text]
    assert table.metadata["section"] == "The dredger > Soundings"
    assert table.metadata["page"] == 1


def test_models_see_the_headings_and_no_offsets() -> None:
    documents = SelfReflectReader().load_data(MINUTES)
    shown = documents[-1].get_content(MetadataMode.LLM)
    assert documents[-1].metadata["section"] in shown
    assert "start" not in shown
    assert shown == documents[-1].get_content(MetadataMode.EMBED)


def test_the_frameworks_own_reader_and_splitter_take_it() -> None:
    reader = SimpleDirectoryReader(input_files=[MINUTES], file_extractor={".pdf": SelfReflectReader()})
    documents = reader.load_data()
    nodes = SentenceSplitter().get_nodes_from_documents(documents)
    assert [node.get_content() for node in nodes] == [document.text for document in documents]
    assert nodes[0].metadata["file_name"] == MINUTES.name
    assert passage_of(NodeWithScore(node=nodes[-1])).metadata["section"] == documents[-1].metadata["section"]


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("The ferry leaves at nine.")
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.7 broken")
    with pytest.raises(DocumentError):
        SelfReflectReader().load_data(tmp_path)
    failures: list[str] = []
    (document,) = SelfReflectReader(on_failure=lambda failure: failures.append(failure.source)).load_data(tmp_path)
    assert document.text == "The ferry leaves at nine."
    assert failures == ["bad.pdf"]


def test_other_file_systems_are_refused() -> None:
    with pytest.raises(InputError, match="local files"):
        SelfReflectReader().load_data(MINUTES, fs=object())
