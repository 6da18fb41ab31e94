"""Self-RAG through LlamaIndex: query engine and re-ranker, on its own LLM objects and on ours."""

from __future__ import annotations

from typing import Any

from llamaindex_selfreflect import SelfReflectQueryEngine, SelfReflectRerank
from tests.fakes import published
from tests.llamaindex.li_fakes import QUESTION, CompletionLLM, NodeShelf, nodes
from tests.pipelines.self_rag_scripts import made, said, trained

LIT = "The lamp was lit in 1871."


def critic(prompt: str, options: Any) -> str:
    """A plain completion model that writes, and answers the critic's questions."""
    if "Write " in prompt and "Passage:" in prompt:
        return LIT if "lamp" in prompt.partition("Passage:")[2].lower() else "NOTHING"
    if "How far" in prompt:
        return "fully"
    if "How useful" in prompt:
        return "5"
    if "leave part" in prompt:
        return "no"
    return "yes" if "lamp" in prompt.partition("Passage:")[2].lower() or "Would passages" in prompt else "no"


async def test_the_pipeline_runs_on_the_frameworks_llm() -> None:
    engine = SelfReflectQueryEngine(
        NodeShelf(), llm=CompletionLLM(critic), settings=published(target_accuracy=0.5), pipeline="self_rag"
    )
    response = engine.query(QUESTION)
    assert str(response).startswith(LIT)
    assert next(n.node.node_id for n in response.source_nodes) == "lamp"
    assert str(await engine.aquery(QUESTION)) == str(response)


def test_the_pipeline_runs_on_a_model_with_reflection_tokens() -> None:
    lm = trained(lambda r: said("[Retrieval]" if not r else f"[Relevant]{LIT}[Fully supported][Utility:5]"))
    engine = SelfReflectQueryEngine(NodeShelf(), llm=lm, settings=made())
    assert str(engine.query(QUESTION)).startswith(LIT)


def test_nodes_are_ranked_by_relevance() -> None:
    ranked = SelfReflectRerank(CompletionLLM(critic), method="relevance").postprocess_nodes(
        list(reversed(nodes())), query_str=QUESTION
    )
    assert [n.node.node_id for n in ranked] == ["lamp", "ship"]
    assert "relevant" in ranked[0].node.metadata["selfreflect_reason"]
