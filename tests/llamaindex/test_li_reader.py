"""``SelfReflectReader``: files as passages of LlamaIndex's own indexes."""

from __future__ import annotations

from pathlib import Path

import pytest
from llama_index.core import SimpleDirectoryReader
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode

from llamaindex_selfreflect import SelfReflectCitationQueryEngine, SelfReflectQueryEngine, SelfReflectReader
from llamaindex_selfreflect._nodes import document_place, passage_of
from shared_core.errors import InputError
from tests.fakes import FirstSentenceReader
from tests.llamaindex.li_fakes import NodeShelf

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


RULES = (
    "# Rules\n\n## Bikes\nBikes stay outside.\n\n## Lamp\nThe lamp was lit in 1871. It burns oil.\n\nAt night too.\n"
)


@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize("engine", [SelfReflectQueryEngine, SelfReflectCitationQueryEngine])
def test_quotes_are_where_the_citation_says_in_the_file(
    tmp_path: Path, pieces: bool, engine: type[SelfReflectQueryEngine]
) -> None:
    file = tmp_path / "rules.md"
    file.write_text(RULES, "utf-8")
    documents = SelfReflectReader().load_data(file)
    splitter = SentenceSplitter(chunk_size=22 if pieces else 1024, chunk_overlap=0)
    nodes = splitter.get_nodes_from_documents(documents)
    assert (len(nodes) > len(documents)) is pieces
    found = [NodeWithScore(node=node, score=0.5) for node in nodes if "lit in" in node.get_content()]
    response = engine(NodeShelf(found), reader=FirstSentenceReader(0.9)).query("When was the lamp lit?")
    (block,) = response.citations
    place = block.additional_location_info
    assert RULES[place["document_start"] : place["document_end"]] == getattr(block.cited_content, "text", None)
    (passage,) = response.answer.passages
    assert RULES[passage.metadata["start"] : passage.metadata["end"]] == passage.text


def test_a_piece_that_nobody_placed_has_no_place_in_the_file() -> None:
    metadata = {"source": "rules.md", "start": 30, "end": 90}
    assert document_place(TextNode(text="The lamp was lit in 1871.", metadata=metadata)) is None
    video = TextNode(text="It was lit.", metadata={"start": 5, "end": 9}, start_char_idx=40, end_char_idx=51)
    assert document_place(video) == (40, 51)
