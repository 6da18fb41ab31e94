"""The postprocessor and the gated retriever."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import ImageNode, MetadataMode, NodeWithScore, QueryBundle, TextNode

from llamaindex_selfreflect import MiniLMEmbedding, SelfReflectRerank, SelfReflectRetriever
from shared_core import SelfReflectSettings
from shared_core.errors import InputError, ModelLoadError, SettingsError
from shared_core.lm import Capabilities, Generate, Sample, ScriptedLM
from shared_core.settings import SeakrSettings
from tests.fakes import FirstSentenceReader
from tests.llamaindex.li_fakes import QUESTION, CompletionLLM, Listener, NodeShelf, nodes

FEW = SelfReflectSettings(seakr=SeakrSettings(estimator="perplexity", samples=2))


def rerank(**arguments: Any) -> SelfReflectRerank:
    return SelfReflectRerank(reader=FirstSentenceReader(0.9, 0.4), **arguments)


def sure_of(*words: str) -> ScriptedLM:
    """A model that is sure where its prompt holds one of the words, and unsure elsewhere."""

    def reply(request: Generate) -> list[Sample]:
        sure = any(w in request.prompt.text for w in words)
        one = Sample(" 1871", logprobs=(-0.01,) if sure else (-4.0,), tokens=(" 1871",))
        return [one] * request.params.n

    return ScriptedLM(reply, capabilities=Capabilities(token_logprobs=True))


async def test_best_first_with_a_reason_and_nothing_changed() -> None:
    given = nodes()
    before = copy.deepcopy(given)
    best = rerank(top_n=2, keep_retrieval_score=True).postprocess_nodes(given, query_str=QUESTION)
    assert given == before
    assert [n.node.node_id for n in best] == ["lamp", "ship"]
    assert best[0].score > best[1].score
    metadata = best[0].node.metadata
    assert metadata["selfreflect_reason"] == "holds the sentence that answers best"
    assert metadata["selfreflect_probability"] == 0.9
    assert metadata["retrieval_score"] == 0.75
    assert metadata["title"] == "Lamps"
    assert "selfreflect" not in best[0].node.get_content(MetadataMode.LLM)
    assert "retrieval_score" not in best[0].node.get_content(MetadataMode.EMBED)
    again = await rerank(top_n=2, keep_retrieval_score=True).apostprocess_nodes(given, query_str=QUESTION)
    assert again == best


def test_no_nodes_no_query_and_two_models() -> None:
    assert rerank().postprocess_nodes([], query_str=QUESTION) == []
    with pytest.raises(ValueError, match="query"):
        rerank().postprocess_nodes(nodes())
    with pytest.raises(InputError, match="llm and model"):
        rerank(llm=MockLLM(), model="x")


def test_metadata_that_embeddings_see_is_judged_with_the_text() -> None:
    seen: list[str] = []

    class Spy(FirstSentenceReader):
        def read(self, requests: Any) -> Any:
            seen.extend(p.text for r in requests for p in r.passages)
            return super().read(requests)

    given = [NodeWithScore(node=TextNode(text="It was lit.", metadata={"year": "1871."}))]
    SelfReflectRerank(reader=Spy(0.9)).postprocess_nodes(given, query_str=QUESTION)
    SelfReflectRerank(reader=Spy(0.9), metadata_mode=MetadataMode.NONE).postprocess_nodes(given, query_str=QUESTION)
    assert seen == ["year: 1871.\n\nIt was lit.", "It was lit."]


def test_nodes_of_one_id_stay_apart_and_images_come_last() -> None:
    other = NodeWithScore(node=TextNode(id_="lamp", text="A second lamp was lit in 1899."))
    given = [NodeWithScore(node=TextNode(id_="image", text="")), nodes()[1], nodes()[0], other]
    best = rerank(top_n=9).postprocess_nodes(given, query_str=QUESTION)
    assert [n.node.node_id for n in best] == ["ship", "lamp", "lamp", "image"]
    assert best[-1].node.metadata["selfreflect_reason"] == "has no text to judge"
    scores = [n.score for n in best if n.score is not None]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 4


async def test_a_repeated_node_takes_no_place() -> None:
    given = [nodes()[0], nodes()[0], nodes()[1], nodes()[0]]
    given[1].score = 0.1
    made = rerank(top_n=2, keep_retrieval_score=True)
    best = made.postprocess_nodes(given, query_str=QUESTION)
    assert [n.node.node_id for n in best] == ["lamp", "ship"]
    assert best[0].node.metadata["retrieval_score"] == 0.75  # of the first
    assert await made.apostprocess_nodes(given, query_str=QUESTION) == best


def test_rerank_tells_of_itself(listener: Listener) -> None:
    debug = LlamaDebugHandler(print_trace_on_end=False)
    made = rerank(top_n=1)
    made.callback_manager = CallbackManager([debug])  # as query engines do
    best = made.postprocess_nodes(nodes(), query_bundle=QueryBundle(QUESTION))
    (start,), (end,) = listener.of("ReRankStartEvent"), listener.of("ReRankEndEvent")
    assert (start.top_n, start.model_name, len(start.nodes)) == (1, "selfreflect-reading", 2)
    assert end.nodes == best
    assert len(debug.get_event_pairs(CBEventType.RERANKING)) == 1


def test_it_serialises_under_its_own_name() -> None:
    made = rerank(top_n=3, keep_retrieval_score=True, settings=FEW)
    plain = json.loads(made.to_json())
    assert plain["class_name"] == SelfReflectRerank.class_name() == "SelfReflectRerank"
    back = SelfReflectRerank.from_dict(plain)
    assert (back.top_n, back.keep_retrieval_score, back.settings) == (3, True, FEW)
    assert "reader" not in plain
    assert SelfReflectRerank.model_validate(made.model_dump()).model_dump() == made.model_dump()
    embedding = MiniLMEmbedding(embed_batch_size=3)
    assert MiniLMEmbedding.model_validate(embedding.model_dump()).model_dump() == embedding.model_dump()


def test_a_copy_with_another_method_ranks_by_it() -> None:
    made = SelfReflectRerank(llm=sure_of("Marrow"), settings=FEW, top_n=2)
    by_reading, by_model = made, made.model_copy(update={"method": "uncertainty", "top_n": 1})
    asked = {"nodes": nodes(), "query_str": "When was the lamp lit?"}
    assert [n.node.node_id for n in by_model.postprocess_nodes(**asked)] == ["ship"]
    assert [n.node.node_id for n in by_reading.postprocess_nodes(**asked)] == ["lamp", "ship"]
    for wrong in ({"method": "magic"}, {"top_n": 0}):
        with pytest.raises(SettingsError):
            made.model_copy(update=wrong)


def test_it_fits_into_an_ordinary_query_engine() -> None:
    engine = RetrieverQueryEngine.from_args(NodeShelf(), llm=MockLLM(), node_postprocessors=[rerank(top_n=1)])
    response = engine.query("the captain and the lamp")
    assert [n.node.node_id for n in response.source_nodes] == ["lamp"]
    assert "selfreflect" not in str(response)  # MockLLM repeats its prompt


async def test_by_uncertainty_the_passage_that_makes_surest_comes_first() -> None:
    made = SelfReflectRerank(llm=sure_of("Marrow"), method="uncertainty", top_n=2, settings=FEW)
    best = made.postprocess_nodes(nodes(), query_str="Who was the captain?")
    assert [n.node.node_id for n in best] == ["ship", "lamp"]
    assert "lower than" in best[0].node.metadata["selfreflect_reason"]
    assert await made.apostprocess_nodes(nodes(), query_str="Who was the captain?") == best


# --- the gated retriever -------------------------------------------------------------------------------------------


def gated(lm: Any, shelf: NodeShelf | None = None, **arguments: Any) -> SelfReflectRetriever:
    return SelfReflectRetriever(shelf or NodeShelf(), llm=lm, **{"settings": FEW, **arguments})


@pytest.mark.parametrize("gate", ["uncertainty", "flare"])
async def test_the_gate_lets_through_what_the_model_does_not_know(gate: Any, listener: Listener) -> None:
    settings = FEW.replace(seakr=FEW.seakr.replace(threshold=2.0))
    shelf = NodeShelf()
    before = copy.deepcopy(shelf.shelf)
    made = gated(sure_of("lamp"), shelf, gate=gate, settings=settings)
    assert made.retrieve(QUESTION) == []
    assert shelf.asked == []
    assert made.last_decision.outcome == "know"
    assert [e.outcome for e in listener.of("SelfReflectDecisionEvent") if e.kind == "gate"] == ["know"]
    unsure = gated(sure_of("nothing"), shelf, gate=gate, settings=settings)
    found = await unsure.aretrieve(QUESTION) if gate == "uncertainty" else unsure.retrieve(QUESTION)
    assert unsure.last_decision.outcome == "retrieve"
    if gate == "uncertainty":
        assert found == unsure.retrieve(QUESTION)
        (node,) = found
        assert node.score == 0.75
        assert node.node.metadata["selfreflect_gate"] == "uncertainty"
        assert node.node.metadata["selfreflect_reason"]
        assert node.node.metadata["tags"] == ["a"]
        assert "selfreflect" not in node.node.get_content(MetadataMode.LLM)
    assert shelf.shelf == before


async def test_an_open_gate_needs_no_model_and_may_rerank() -> None:
    made = SelfReflectRetriever(NodeShelf(), gate="always", rerank=rerank(top_n=1))
    (node,) = made.retrieve("the captain and the lamp")
    assert node.node.metadata["selfreflect_gate"] == "always"
    assert node.node.metadata["selfreflect_reason"] == "holds the sentence that answers best"
    assert await made.aretrieve("the captain and the lamp") == [node]
    assert made.last_decision is None


async def test_nodes_without_text_pass_the_gate_and_come_last() -> None:
    image = NodeWithScore(node=ImageNode(id_="image", image_path="lamp.png"), score=0.9)
    shelf = NodeShelf([image, *nodes()])
    plain = SelfReflectRetriever(shelf, gate="always", rerank=False)
    found = plain.retrieve(QUESTION)
    assert [n.node.node_id for n in found] == ["lamp", "image"]
    assert found[1] == image
    assert found[1] is not image
    assert await plain.aretrieve(QUESTION) == found
    ranked = SelfReflectRetriever(shelf, gate="always", rerank=rerank()).retrieve(QUESTION)
    assert [n.node.node_id for n in ranked] == ["lamp", "image"]
    known = gated(sure_of("lamp"), shelf, settings=FEW.replace(seakr=FEW.seakr.replace(threshold=2.0)))
    assert known.retrieve(QUESTION) == []


async def test_a_model_without_a_threshold_makes_the_order_no_worse() -> None:
    texts = ["The lamp of Vessen is green.", "The lamp of Vessen was lit in 1871.", *(f"Lamp {i}." for i in range(5))]
    shelf = NodeShelf([NodeWithScore(node=TextNode(text=t, id_=t), score=0.5) for t in texts])
    question, lm = "When was the lamp of Vessen lit?", sure_of("lamp")
    plain = SelfReflectRetriever(shelf).retrieve(question)
    found = gated(lm, shelf).retrieve(question)
    assert [n.node.node_id for n in found] == [n.node.node_id for n in plain]
    assert len(found) == len(gated(lm, shelf, rerank=False).retrieve(question))
    assert found[0].node.node_id == "The lamp of Vessen was lit in 1871."
    assert found[0].node.metadata["selfreflect_probability"] > 0.5
    assert await gated(lm, shelf).aretrieve(question) == found
    unranked = gated(lm, shelf, rerank=False).retrieve(question)
    assert [n.node.node_id for n in unranked][:2] == texts[:2]
    measured = FEW.replace(seakr=FEW.seakr.replace(threshold=2.0))
    asked = gated(sure_of("nothing"), shelf, settings=measured)
    assert [n.node.node_id for n in asked.retrieve(question)][:2] == texts[:2]
    always = gated(sure_of("nothing"), shelf, settings=measured, rerank=True)
    assert always.retrieve(question)[0].node.node_id == texts[1]


def test_gates_need_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llamaindex_selfreflect.retriever.has_default_models", lambda: False)
    shelf = NodeShelf(nodes())
    assert [n.node.node_id for n in gated(sure_of("nothing"), shelf).retrieve(QUESTION)] == ["lamp"]
    assert SelfReflectRetriever(shelf).rerank is None


def test_what_is_no_re_ranker_is_refused() -> None:
    with pytest.raises(InputError, match="rerank"):
        SelfReflectRetriever(NodeShelf(), gate="always", rerank=3)  # type: ignore[arg-type]


def test_it_sits_in_an_ordinary_query_engine() -> None:
    retriever = SelfReflectRetriever(NodeShelf(), gate="always")
    engine = RetrieverQueryEngine.from_args(retriever, llm=CompletionLLM(lambda p, o: "done"))
    assert [n.node.node_id for n in engine.query(QUESTION).source_nodes] == ["lamp"]


def test_a_model_can_be_given_by_its_path(tmp_path: Path, tiny_model: Any, tiny_tokenizer: Any) -> None:
    tiny_model.save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    few = SelfReflectSettings(seakr=SeakrSettings(samples=2, max_step_tokens=4))
    made = SelfReflectRerank(model=str(tmp_path), method="uncertainty", device="cpu", top_n=1, settings=few)
    (best,) = made.postprocess_nodes(nodes(), query_str=QUESTION)
    assert "gram" in best.node.metadata["selfreflect_reason"]
    with pytest.raises(ModelLoadError):
        SelfReflectRerank(model=str(tmp_path / "missing"), method="uncertainty")
