"""``SelfReflectReader``: files as passages of LlamaIndex's own indexes."""

from __future__ import annotations

from pathlib import Path

import pytest
from llama_index.core import SimpleDirectoryReader
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import MetadataMode, NodeWithScore

from llamaindex_selfreflect import SelfReflectReader
from llamaindex_selfreflect._nodes import passage_of
from shared_core.errors import InputError

FILES = Path(__file__).parents[1] / "documents" / "files"
MINUTES = FILES / "libreoffice_minutes.pdf"


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


def test_other_file_systems_are_refused() -> None:
    with pytest.raises(InputError, match="local files"):
        SelfReflectReader().load_data(MINUTES, fs=object())
