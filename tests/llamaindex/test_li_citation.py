"""The citation query engine, the embedder, and the package itself."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest
from llama_index.core import Document, MockEmbedding, SummaryIndex, VectorStoreIndex
from llama_index.core.base.llms.types import CitationBlock, TextBlock
from llama_index.core.node_parser import SentenceSplitter, TokenTextSplitter
from llama_index.core.query_engine import CitationQueryEngine
from llama_index.core.schema import MetadataMode, NodeRelationship, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores import ExactMatchFilter, MetadataFilters

import llamaindex_selfreflect
from llamaindex_selfreflect import (
    LlamaIndexLM,
    MiniLMEmbedding,
    SelfReflectCitationQueryEngine,
    SelfReflectQueryEngine,
    SelfReflectResponse,
)
from shared_core import SelfReflectSettings
from shared_core.errors import ArgumentError, InputError, OptionError
from shared_core.reading.base import Read, Reading, ReadResult
from tests.fakes import PASSAGES, FirstSentenceReader
from tests.llamaindex.li_fakes import QUESTION, ChatLLM, NodeShelf

LONG = "The lamp was lit in 1871. " + "It burned whale oil for many years. " * 20 + "The lamp went out in 1902."


@pytest.fixture(scope="module")
def index() -> VectorStoreIndex:
    documents = [Document(text=p.text, metadata={"title": p.title, "lang": p.id}) for p in PASSAGES]
    return VectorStoreIndex.from_documents(documents, embed_model=MockEmbedding(embed_dim=4))


def quoted(block: CitationBlock) -> str:
    assert isinstance(block.cited_content, TextBlock)
    return block.cited_content.text


def cite(index: Any, **arguments: Any) -> SelfReflectCitationQueryEngine:
    return SelfReflectCitationQueryEngine.from_args(index, reader=FirstSentenceReader(0.9, 0.8), **arguments)


def test_one_source_node_for_each_number(index: VectorStoreIndex) -> None:
    response = cite(index, similarity_top_k=2).query("the captain and the lamp")
    assert len(response.source_nodes) == len(response.citations) == 2
    for number, (node, block) in enumerate(zip(response.source_nodes, response.citations), 1):
        place = block.additional_location_info
        assert place["number"] == number
        assert f"[{number}]" in str(response)
        assert block.source == node.node.node_id
        assert node.node.get_content()[place["start"] : place["end"]] == quoted(block)
        assert str(response)[place["answer_start"] : place["answer_end"]] == quoted(block)
        assert all(type(v) is int for v in place.values())


def test_filters_and_width_go_to_the_retriever(index: VectorStoreIndex) -> None:
    filters = MetadataFilters(filters=[ExactMatchFilter(key="lang", value="ship")])
    response = cite(index, similarity_top_k=2, filters=filters).query("the captain and the lamp")
    assert [n.node.metadata["lang"] for n in response.source_nodes] == ["ship"]
    assert len(cite(index, similarity_top_k=1).query("the captain and the lamp").source_nodes) == 1


def test_long_nodes_are_cut_into_chunks_whose_places_hold() -> None:
    node = NodeWithScore(node=TextNode(id_="long", text=LONG, start_char_idx=7, end_char_idx=7 + len(LONG)), score=0.3)
    made = SelfReflectCitationQueryEngine(
        NodeShelf([node]), citation_chunk_size=40, citation_chunk_overlap=5, reader=FirstSentenceReader(0.1)
    )
    response = made.query(QUESTION)
    assert len(response.source_nodes) > 3
    assert len({n.node.node_id for n in response.source_nodes}) == len(response.source_nodes)
    for found in response.source_nodes:
        chunk = found.node
        assert isinstance(chunk, TextNode)
        assert LONG[chunk.start_char_idx - 7 : chunk.end_char_idx - 7] == chunk.text
        assert chunk.relationships[NodeRelationship.PARENT].node_id == "long"  # type: ignore[union-attr]
        assert found.score == 0.3
    cited = SelfReflectCitationQueryEngine(
        NodeShelf([node]), citation_chunk_size=40, citation_chunk_overlap=5, reader=FirstSentenceReader(0.9)
    ).query(QUESTION)
    for block in cited.citations:
        place = block.additional_location_info
        assert LONG[place["document_start"] - 7 : place["document_end"] - 7] == quoted(block)


def _far_node(name: str) -> NodeWithScore:
    """A node whose answer stands in its last chunk, after ten that say nothing of it."""
    return NodeWithScore(node=TextNode(id_=name, text="It burned whale oil for many years. " * 60 + "The end."))


def test_every_chunk_of_every_node_is_read() -> None:
    answer = NodeWithScore(node=TextNode(id_="late", text="Salt was carried. " * 120 + "The lamp was lit in 1871."))
    shelf = NodeShelf([_far_node("a"), _far_node("b"), answer])
    shelf.similarity_top_k = 3  # type: ignore[attr-defined]
    made = SelfReflectCitationQueryEngine(shelf, citation_chunk_size=40, citation_chunk_overlap=0, reader=_Finder())
    for response in (
        made.query("What of the lamp, the oil and the salt that was carried?"),
        made.synthesize(QueryBundle(QUESTION), shelf.shelf),
    ):
        assert str(response) == "The lamp was lit in 1871. [1]"
        assert not any(d.kind == "chunks" for d in response.answer.trace)


def test_too_many_chunks_are_shared_out_and_the_trace_says_so() -> None:
    short = NodeWithScore(node=TextNode(id_="short", text="The lamp was lit in 1871."))
    made = SelfReflectCitationQueryEngine(
        NodeShelf([_far_node("a"), short, _far_node("b")]),
        citation_chunk_size=40,
        citation_chunk_overlap=0,
        max_citation_chunks=6,
        reader=FirstSentenceReader(0.1),
        settings=SelfReflectSettings(rerank="none"),
    )
    response = made.query("What of the lamp and the whale oil?")
    read = [n.node.node_id.split(":")[0] for n in response.source_nodes]
    assert read == ["a", "a", "a", "short", "b", "b"] or read == ["a", "a", "short", "b", "b", "b"]
    (told,) = (d for d in response.answer.trace if d.kind == "chunks")
    assert told.values["read"] == 6
    assert told.values["chunks"] == told.values["read"] + _left_out(made, response)
    with pytest.raises(InputError, match="max_citation_chunks"):
        SelfReflectCitationQueryEngine(NodeShelf(), max_citation_chunks=0)


def _left_out(made: SelfReflectCitationQueryEngine, response: SelfReflectResponse) -> int:
    every = SelfReflectCitationQueryEngine(
        made.retriever, citation_chunk_size=40, citation_chunk_overlap=0, reader=FirstSentenceReader(0.1),
        settings=SelfReflectSettings(rerank="none"),
    )  # fmt: skip
    return len(every.query("What of the lamp and the whale oil?").source_nodes) - len(response.source_nodes)


class _Finder(FirstSentenceReader):
    """Finds the sentence with the year, wherever it stands."""

    def _one(self, request: Read) -> ReadResult:
        found = [
            Reading(p.span(at := p.text.index("The lamp was lit"), at + 25), 0.9, 1.0)
            for p in request.passages
            if "1871" in p.text
        ]
        return ReadResult(tuple(found))


def test_a_splitter_that_rewrites_leaves_the_node_whole() -> None:
    class Shouting(TokenTextSplitter):
        def split_text(self, text: str, *args: Any, **kwargs: Any) -> list[str]:
            return [piece.upper() for piece in super().split_text(text)]

    node = NodeWithScore(node=TextNode(id_="long", text=LONG))
    splitter = Shouting(chunk_size=20, chunk_overlap=0)
    made = SelfReflectCitationQueryEngine(NodeShelf([node]), text_splitter=splitter, reader=FirstSentenceReader(0.9))
    assert [n.node.node_id for n in made.query(QUESTION).source_nodes] == ["long"]


async def test_with_a_model_it_writes_claims_after_quotes(index: VectorStoreIndex) -> None:
    def script(prompt: str, options: dict[str, Any]) -> str:
        if "from 0 to 100" in prompt:
            return "90"
        return "<reference>The lamp was lit in 1871.</reference><claim>It was lit in 1871.</claim>"

    lm = LlamaIndexLM(ChatLLM(script), logprobs=False)
    made = cite(index, llm=lm, similarity_top_k=2, settings=SelfReflectSettings(pipeline="reclaim", compete=False))
    assert made.settings.pipeline == "reclaim"
    response = made.query(QUESTION)
    assert str(response) == "It was lit in 1871. [1]"
    assert quoted(response.citations[0]) == "The lamp was lit in 1871."
    assert await made.aquery(QUESTION) == response
    assert made.synthesize(QueryBundle(QUESTION), made.retrieve(QueryBundle(QUESTION))) == response
    assert cite(index).settings.pipeline == "composed"
    chosen = cite(index, llm=lm, settings=SelfReflectSettings(pipeline="seakr"))
    assert chosen.settings.pipeline == "seakr"


def test_arguments_are_those_of_the_original_and_no_others(index: VectorStoreIndex) -> None:
    theirs = inspect.signature(CitationQueryEngine.from_args).parameters
    ours = inspect.signature(SelfReflectCitationQueryEngine.from_args).parameters
    assert set(theirs) - {"kwargs"} <= set(ours)
    assert [n for n in theirs if n in ours][:5] == [n for n in ours if n in theirs][:5]  # by position too
    for name in ("citation_qa_template", "response_synthesizer", "multimodal"):
        with pytest.raises(InputError, match=name):
            cite(index, **{name: True})
    with pytest.raises(InputError, match="metadata_mode"):
        cite(index, metadata_mode=MetadataMode.LLM)
    for other in (index, SummaryIndex([])):
        with pytest.raises(ArgumentError, match=r"similarity_topk.*\n.*Did you mean similarity_top_k"):
            cite(other, similarity_topk=3)
    with pytest.raises(OptionError, match="similarity_top_k"):
        cite(index, retriever=NodeShelf(), similarity_top_k=3)
    with pytest.raises(InputError, match="neither"):
        cite(None)
    with pytest.raises(InputError, match="no index"):
        cite(NodeShelf())
    with pytest.raises(InputError, match="is an index"):
        SelfReflectQueryEngine(index)  # type: ignore[arg-type]
    for wrong in (
        {"citation_chunk_size": 0}, {"citation_chunk_size": "x"}, {"citation_chunk_overlap": 600},
        {"citation_chunk_overlap": -1}, {"max_citation_chunks": 0},
    ):  # fmt: skip
        with pytest.raises(OptionError, match=next(iter(wrong))):
            cite(index, **wrong)
    with pytest.raises(InputError, match="no TextSplitter"):
        cite(index, text_splitter=5)
    splitter = SentenceSplitter(chunk_size=64, chunk_overlap=0)
    assert cite(index, text_splitter=splitter).text_splitter is splitter
    assert cite(None, retriever=NodeShelf()).query(QUESTION).source_nodes


# --- embedder and package ------------------------------------------------------------------------------------------


class Letters:
    name = "letters"

    def embed(self, texts: Any) -> Any:
        import numpy as np

        return np.array([[t.count("a"), 1.0] for t in texts], dtype=np.float32)


async def test_our_embedders_serve_an_index() -> None:
    embedding = MiniLMEmbedding(Letters())
    assert embedding.model_name == "letters"
    assert embedding.class_name() == embedding.to_dict()["class_name"] == "MiniLMEmbedding"
    assert embedding.get_text_embedding_batch(["a", "b"]) == [[1.0, 1.0], [0.0, 1.0]]
    assert await embedding.aget_text_embedding_batch(["a", "b"]) == [[1.0, 1.0], [0.0, 1.0]]
    assert embedding.get_query_embedding("aa") == await embedding.aget_query_embedding("aa") == [2.0, 1.0]


def test_the_package_is_cheap_to_import_and_names_what_it_has() -> None:
    code = "import sys, llamaindex_selfreflect as p; print(*sys.modules); print(*dir(p))"
    loaded, names = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert "llama_index" not in {m.split(".")[0] for m in loaded.split()}
    assert names.split() == sorted(llamaindex_selfreflect.__all__)
    for name in llamaindex_selfreflect.__all__:
        assert getattr(llamaindex_selfreflect, name).__name__ == name
    assert set(llamaindex_selfreflect._HOME) == set(llamaindex_selfreflect.__all__)


def test_a_missing_framework_is_named() -> None:
    code = (
        "import sys\nsys.modules['llama_index'] = None\n"
        "import llamaindex_selfreflect\nfrom shared_core.errors import MissingDependencyError\n"
        "try:\n    llamaindex_selfreflect.SelfReflectQueryEngine\n"
        "except MissingDependencyError as error:\n    print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "selfreflect-rag[llamaindex]" in said
