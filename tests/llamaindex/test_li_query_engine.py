"""The query engine: RetrieverQueryEngine's doors, our answers."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.base.response.schema import AsyncStreamingResponse, Response, StreamingResponse
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import LongContextReorder, SimilarityPostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts import PromptTemplate
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from llamaindex_selfreflect import (
    LlamaIndexLM,
    PassageRetriever,
    SelfReflectQueryEngine,
    SelfReflectRerank,
    SelfReflectResponse,
)
from shared_core import Answer, SelfReflectEngine, SelfReflectSettings
from shared_core.errors import ArgumentError, InputError
from shared_core.lm import ScriptedLM
from tests.fakes import FirstSentenceReader, Shelf, published
from tests.llamaindex.li_fakes import QUESTION, ChatLLM, Listener, NodeShelf, nodes

ANSWER = "The lamp was lit in 1871. [1]"


def engine(*probabilities: float | None, shelf: Any = None, **arguments: Any) -> SelfReflectQueryEngine:
    reader = FirstSentenceReader(*probabilities)
    return SelfReflectQueryEngine.from_args(NodeShelf() if shelf is None else shelf, reader=reader, **arguments)


def test_an_answer_is_a_response_with_sources_in_citation_order() -> None:
    response = engine(0.8, 0.9).query("the captain and the lamp")
    assert isinstance(response, Response)
    assert isinstance(response, SelfReflectResponse)
    assert "[1]" in str(response)
    assert "[2]" in str(response)
    assert isinstance(response.answer, Answer)
    spans = response.answer.numbered_spans()
    assert [n.node.node_id for n in response.source_nodes] == [s.passage_id for s in spans]
    for node, span, block in zip(response.source_nodes, spans, response.citations):
        place = block.additional_location_info
        assert node.node.get_content()[span.start : span.end] == span.text
        assert node.node.get_content()[place["start"] : place["end"]] == getattr(block.cited_content, "text", None)
        assert block.source == node.node.node_id
    assert {n.node.node_id: n.score for n in response.source_nodes} == {"lamp": 0.75, "ship": 0.5}


def test_metadata_holds_the_nodes_own_and_one_key_of_ours_in_plain_values() -> None:
    response = engine(0.9).query(QUESTION)
    assert set(response.metadata) == {"lamp", "selfreflect"}
    assert response.metadata["lamp"] == {"title": "Lamps", "tags": ["a"]}
    ours = json.loads(json.dumps(response.metadata["selfreflect"]))
    assert ours["confidence"] == 0.9
    assert [d["kind"] for d in ours["trace"]] == ["retrieve", "read", "keep", "answer"]
    assert "text" not in ours["passages"][0]
    assert ours["citations"][0]["cited_content"]["text"] == "The lamp was lit in 1871."


def test_citation_blocks_say_where_the_quote_stands() -> None:
    response = engine(0.9).query(QUESTION)
    (block,) = response.citations
    assert block.title == "Lamps"
    assert block.additional_location_info == {
        "number": 1, "start": 0, "end": 25, "answer_start": 0, "answer_end": 25, "document_start": 100,
        "document_end": 125,
    }  # fmt: skip
    message = response.to_chat_message()
    assert [b.block_type for b in message.blocks] == ["text", "citation"]
    assert message.content.startswith(ANSWER)


async def test_async_equals_sync_and_uses_async_retrieval() -> None:
    shelf = NodeShelf()
    made = engine(0.9, shelf=shelf)
    response = await made.aquery(QUESTION)
    assert response == made.query(QUESTION)
    assert [how for how, _ in shelf.asked] == ["async", "sync"]


async def test_streams_come_claim_by_claim_with_sources_from_the_start() -> None:
    made = engine(0.9, 0.8, streaming=True)
    whole = engine(0.9, 0.8).query("the captain and the lamp")
    stream = made.query("the captain and the lamp")
    assert isinstance(stream, StreamingResponse)
    assert stream.source_nodes == whole.source_nodes
    assert stream.metadata == whole.metadata
    tokens = list(stream.response_gen)
    assert len(tokens) == 2
    assert "".join(tokens) == str(whole) == str(stream) == str(stream)
    assert stream.get_response() == whole  # though the stream was read
    later = await made.aquery("the captain and the lamp")
    assert isinstance(later, AsyncStreamingResponse)
    assert later.source_nodes == whole.source_nodes
    assert str(later) == str(whole)
    assert [t async for t in later.async_response_gen()] == tokens
    assert str(later) == str(whole)
    once_more = await made.aquery("the captain and the lamp")
    assert isinstance(once_more, AsyncStreamingResponse)
    assert await once_more.get_response() == whole
    again = made.query("the captain and the lamp")
    assert isinstance(again, StreamingResponse)
    assert again.get_response() == whole


@pytest.mark.parametrize(
    ("question", "probability", "reason", "read"),
    [("Who painted zebras?", 0.9, "nothing retrieved", []), (QUESTION, 0.1, "support below target", ["lamp"])],
)
def test_it_abstains_and_says_why(question: str, probability: float, reason: str, read: list[str]) -> None:
    response = engine(probability).query(question)
    assert response.abstained
    assert response.reason == reason
    assert str(response).startswith("I can't answer that")
    assert [n.node.node_id for n in response.source_nodes] == read
    assert response.citations == []
    assert response.metadata["selfreflect"]["reason"] == reason


async def test_nodes_that_a_postprocessor_adds_are_read() -> None:
    class Neighbours(BaseNodePostprocessor):
        def _postprocess_nodes(
            self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
        ) -> list[NodeWithScore]:
            texts = [f"The lamp {i} was lit." for i in range(5)]
            return [*nodes, *(NodeWithScore(node=TextNode(id_=f"n{i}", text=t)) for i, t in enumerate(texts))]

    shelf = NodeShelf(nodes()[:1])
    vars(shelf)["similarity_top_k"] = 1
    made = engine(0.3, shelf=shelf, node_postprocessors=[Neighbours()])
    assert len(made.query(QUESTION).source_nodes) == 6
    assert len((await made.aquery(QUESTION)).source_nodes) == 6
    assert len(made.query(QUESTION, top_k=2).source_nodes) == 2


def test_nodes_are_never_changed() -> None:
    shelf = nodes()
    before = copy.deepcopy(shelf)
    engine(0.9, shelf=NodeShelf(shelf)).query(QUESTION)
    assert shelf == before


def test_nodes_without_text_repeated_nodes_and_shared_ids_are_told_apart() -> None:
    twice = [
        *nodes(),
        nodes()[0],
        NodeWithScore(node=TextNode(id_="lamp", text="Another lamp was lit in 1902."), score=0.1),
        NodeWithScore(node=TextNode(id_="image", text="")),
    ]
    response = engine(0.1).synthesize(QueryBundle(QUESTION), twice)
    assert [n.text[:8] for n in response.source_nodes] == ["The lamp", "The Marr", "Another "]
    assert [p.id for p in response.answer.passages] == ["lamp", "ship", "lamp#2"]


def test_the_question_reaches_the_retriever_as_it_was_asked() -> None:
    shelf = NodeShelf()
    bundle = QueryBundle(QUESTION, custom_embedding_strs=["lamp lighting"])
    engine(0.9, shelf=shelf).query(bundle)
    assert shelf.asked[0][1] is bundle


def test_postprocessors_are_applied_and_told_of_the_callbacks() -> None:
    cut = SimilarityPostprocessor(similarity_cutoff=0.6)
    manager = CallbackManager([])
    made = engine(0.1, node_postprocessors=[cut], callback_manager=manager)
    assert [n.node.node_id for n in made.query("the captain and the lamp").source_nodes] == ["lamp"]
    assert cut.callback_manager is manager
    assert [n.node.node_id for n in made.retrieve(QueryBundle("the captain and the lamp"))] == ["lamp"]


async def test_nodes_are_read_best_first_though_reordered_for_long_prompts() -> None:
    """It puts the best of two nodes last, and what is found last is believed less."""
    made = engine(0.1, node_postprocessors=[LongContextReorder()])
    asked = QueryBundle("the captain and the lamp")
    assert [n.node.node_id for n in made.retrieve(asked)] == ["lamp", "ship"]
    assert [n.node.node_id for n in await made.aretrieve(asked)] == ["lamp", "ship"]
    assert [p.id for p in made.query(asked).answer.passages] == ["lamp", "ship"]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["response_synthesizer:text_qa_template", "text_qa_template"])
def test_a_template_set_later_is_refused_as_on_creation(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} has no effect here"):
        engine(0.9).update_prompts({name: PromptTemplate("{context_str}")})
    engine(0.9).update_prompts({})


async def test_the_other_doors_of_a_retriever_query_engine() -> None:
    made = engine(0.9)
    bundle = QueryBundle(QUESTION)
    assert isinstance(made.retriever, NodeShelf)
    assert await made.aretrieve(bundle) == made.retrieve(bundle)
    extra = nodes()[1]
    response = made.synthesize(bundle, nodes()[:1], additional_source_nodes=[extra])
    assert str(response) == ANSWER
    assert [n.node.node_id for n in response.source_nodes] == ["lamp", "ship"]
    assert await made.asynthesize(bundle, nodes()[:1], additional_source_nodes=[extra]) == response
    other = made.with_retriever(NodeShelf([]))
    assert isinstance(other, SelfReflectQueryEngine)
    assert other.query(QUESTION).answer.reason == "nothing retrieved"  # type: ignore[union-attr]
    assert str(made.query(QUESTION)) == ANSWER
    assert made.get_prompts() == {}
    empty = made.synthesize(bundle, [])
    assert empty.reason == "nothing retrieved"


def test_callbacks_and_events(listener: Listener) -> None:
    debug = LlamaDebugHandler(print_trace_on_end=False)
    response = engine(0.9, callback_manager=CallbackManager([debug])).query(QUESTION)
    for kind in (CBEventType.QUERY, CBEventType.RETRIEVE):
        assert len(debug.get_event_pairs(kind)) == 1, kind
    decisions = listener.of("SelfReflectDecisionEvent")
    assert [e.kind for e in decisions] == ["retrieve", "read", "keep", "answer"]
    (told,) = listener.of("SelfReflectAnswerEvent")
    assert (told.abstained, told.confidence) == (False, 0.9)
    (end,) = listener.of("QueryEndEvent")
    assert type(end.response) is SelfReflectResponse
    assert end.response == response
    assert [e.class_name() for e in listener.events].count("RetrievalEndEvent") == 1


def test_a_retriever_that_shares_the_callbacks_is_not_told_of_twice() -> None:
    debug = LlamaDebugHandler(print_trace_on_end=False)
    manager = CallbackManager([debug])
    engine(0.9, shelf=NodeShelf(callback_manager=manager), callback_manager=manager).query(QUESTION)
    assert len(debug.get_event_pairs(CBEventType.RETRIEVE)) == 1


def test_decisions_are_printed_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    engine(0.9, verbose=True).query(QUESTION)
    assert "keep: 1 of 1 claims" in capsys.readouterr().out


def test_arguments_without_effect_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"streeming.*\n.*Did you mean streaming"):
        engine(0.9, streeming=True)
    for name in ("response_synthesizer", "text_qa_template", "output_cls", "multimodal"):
        with pytest.raises(InputError, match=name):
            engine(0.9, **{name: True})
    with pytest.raises(InputError, match="response_mode"):
        engine(0.9, response_mode="tree_summarize")
    assert str(engine(0.9, response_mode="compact", use_async=True).query(QUESTION)) == ANSWER


def test_from_args_takes_every_name_of_the_original() -> None:
    import inspect

    theirs = inspect.signature(RetrieverQueryEngine.from_args).parameters
    ours = inspect.signature(SelfReflectQueryEngine.from_args).parameters
    assert set(theirs) - {"kwargs"} <= set(ours)


def test_wrong_parts_are_refused_when_the_engine_is_made() -> None:
    for wrong in (SelfReflectRerank(), 5, ["x"]):
        with pytest.raises(InputError, match="node_postprocessors must be a list"):
            SelfReflectQueryEngine(NodeShelf(), node_postprocessors=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="settings"):
        SelfReflectQueryEngine(NodeShelf(), settings="fast")  # type: ignore[arg-type]
    for given in ([nodes()[0].node], None, "x"):
        with pytest.raises(InputError, match="nodes must be"):
            engine(0.9).synthesize(QueryBundle(QUESTION), given)  # type: ignore[arg-type]


def test_the_global_llm_is_used_only_on_demand() -> None:
    before = Settings._llm
    try:
        Settings.llm = MockLLM()
        assert dict(engine(0.9)._shared.resources.models) == {}
        assert engine(0.9, llm="settings")._shared.resources.models["default"].llm is Settings.llm
    finally:
        Settings._llm = before


@pytest.mark.parametrize("door", ["query", "aquery"])
async def test_pipelines_run_on_llms_of_the_framework(door: str) -> None:
    def script(prompt: str, options: dict[str, Any]) -> str:
        if "from 0 to 100" in prompt:
            return "95"
        return "<reference>S1</reference><claim>The lamp was lit in 1871.</claim>"

    llm = ChatLLM(script, logprobs=None)
    made = engine(llm=LlamaIndexLM(llm, logprobs=False), settings=published(pipeline="reclaim"))
    response = made.query(QUESTION) if door == "query" else await made.aquery(QUESTION)
    assert str(response) == ANSWER
    assert response.answer.usage.calls == len(llm.calls) == 2


def test_retrievers_and_models_of_our_own_work_too() -> None:
    lm = ScriptedLM(lambda r: "42" if "100" in r.prompt.text else "NO ANSWER")
    made = SelfReflectQueryEngine(Shelf(), llm=lm, settings=SelfReflectSettings(pipeline="reclaim", compete=False))
    assert isinstance(made.retriever, PassageRetriever)
    assert made.query(QUESTION).answer.reason == "passages do not answer"  # type: ignore[union-attr]
    ours = SelfReflectQueryEngine(Shelf(), reader=FirstSentenceReader(0.9)).query(QUESTION)
    direct = SelfReflectEngine(Shelf(), reader=FirstSentenceReader(0.9)).answer(QUESTION)
    assert str(ours) == direct.text
    assert ours.source_nodes[0].node.metadata["title"] == "Lamps"


async def test_a_filter_reaches_a_retriever_of_our_own() -> None:
    class Filtering(Shelf):
        def retrieve(self, query: str, k: int = 5, where: Any = None) -> Any:
            assert where == {"lang": "en"}
            return super().retrieve(query, k)

    settings = SelfReflectSettings(where={"lang": "en"})
    made = SelfReflectQueryEngine(Filtering(), settings=settings, reader=FirstSentenceReader(0.9))
    assert str(made.query(QUESTION)) == str(await made.aquery(QUESTION)) == ANSWER


class SlowToTell(ScriptedLM):
    """A model whose abilities are known only once the event loop has gone on."""

    slow, waited = False, True
    went_on = threading.Event()

    def __getattribute__(self, name: str) -> Any:
        if name == "capabilities" and self.slow:
            self.waited = self.went_on.wait(5) and self.waited
        return super().__getattribute__(name)


async def test_the_event_loop_is_free_while_a_model_is_asked_what_it_can_do() -> None:
    lm = SlowToTell(lambda request: "NO ANSWER")
    made = SelfReflectQueryEngine.from_args(NodeShelf(), llm=lm, reader=FirstSentenceReader(0.9))
    lm.slow = True
    asyncio.get_running_loop().call_later(0.01, lm.went_on.set)
    await made.aquery(QUESTION)
    assert lm.waited
