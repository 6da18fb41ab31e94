"""In agents and workflows: the query engine as a tool, the guard, and evaluations that know our abstentions."""

from __future__ import annotations

import pytest
from llama_index.core.base.response.schema import Response
from llama_index.core.schema import NodeWithScore, TextNode

from llamaindex_selfreflect import SelfReflectChecker, SelfReflectGuard, SelfReflectQueryEngine, SelfReflectTool
from shared_core import Passage
from shared_core.errors import InputError
from shared_core.retrieval import BM25Retriever

SHELF = BM25Retriever([Passage("lamp", "The lamp of Vessen was lit in 1871.")])
TRUE, FALSE = "The lamp of Vessen was lit in 1871.", "The sea is warm."
NODES = [NodeWithScore(node=TextNode(id_="lamp", text=TRUE))]
UNKNOWN = "Who painted the lamp of Vessen?"


async def test_a_tools_abstention_is_marked() -> None:
    engine = SelfReflectQueryEngine(SHELF)
    tool = SelfReflectTool(engine)
    assert tool.call("When was the lamp of Vessen lit?").content == f"{TRUE} [1]"
    for result in (tool.call(UNKNOWN), await tool.acall(UNKNOWN)):
        assert result.content.startswith("NO ANSWER: ")
        assert "1871" not in result.content
    assert SelfReflectTool(engine, nearest=True).call(UNKNOWN).content == f"NO ANSWER: {engine.query(UNKNOWN)}"


async def test_a_guard_treats_what_the_nodes_do_not_support() -> None:
    given = Response(f"{TRUE} {FALSE}", NODES)
    flagged = SelfReflectGuard("flag").check(given, "When was it lit?")
    assert str(flagged) == f"{TRUE} {FALSE} (unsupported)"
    assert flagged.source_nodes[0].node.node_id == "lamp"
    assert str(await SelfReflectGuard("strip").acheck(given)).strip() == TRUE
    assert "not shown" in str(SelfReflectGuard("refuse").check(FALSE, nodes=NODES))
    assert str(SelfReflectGuard("flag", retriever=SHELF).check(f"{TRUE} {FALSE}")).endswith("(unsupported)")
    assert SelfReflectGuard().check(Response(None, NODES)).response is None
    with pytest.raises(InputError, match="nothing to check"):
        SelfReflectGuard().check(FALSE)


def test_our_abstention_passes_every_policy_and_evaluation() -> None:
    said = SelfReflectQueryEngine(SHELF).query(UNKNOWN)
    assert said.abstained
    assert str(SelfReflectGuard("refuse").check(said)) == str(said)
    for score in ("weakest", "share"):
        evaluation = SelfReflectChecker(score=score).evaluate_response(UNKNOWN, said)  # type: ignore[arg-type]
        assert (evaluation.passing, evaluation.score) == (True, None)
        assert "abstention" in (evaluation.feedback or "")
