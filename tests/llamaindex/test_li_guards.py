"""In agents and workflows: the query engine as a tool, the guard, and evaluations that know our abstentions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.base.response.schema import AsyncStreamingResponse, Response, StreamingResponse
from llama_index.core.chat_engine.types import AgentChatResponse, StreamingAgentChatResponse
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import SubQuestionQueryEngine
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step

from llamaindex_selfreflect import (
    SelfReflectChatEngine,
    SelfReflectChecker,
    SelfReflectGuard,
    SelfReflectQueryEngine,
    SelfReflectRerank,
    SelfReflectResponse,
    SelfReflectTool,
)
from shared_core import Passage
from shared_core.errors import ArgumentError, InputError, OptionError, SettingsError
from shared_core.retrieval import BM25Retriever
from tests.llamaindex.li_fakes import NodeShelf

SHELF = BM25Retriever([Passage("lamp", "The lamp of Vessen was lit in 1871.")])
TRUE, FALSE = "The lamp of Vessen was lit in 1871.", "The sea is warm."
NODES_OF = [TextNode(id_="lamp", text=TRUE)]
NODES = [NodeWithScore(node=TextNode(id_="lamp", text=TRUE))]
UNKNOWN = "Who painted the lamp of Vessen?"


async def test_a_tools_abstention_is_marked() -> None:
    engine = SelfReflectQueryEngine(SHELF)
    tool = SelfReflectTool(engine)
    assert tool.call("When was the lamp of Vessen lit?").content == f"{TRUE} [1]"
    for result in (tool.call(UNKNOWN), await tool.acall(UNKNOWN)):
        assert result.content.startswith("NO ANSWER: ")
        assert "1871" not in result.content
    for empty in ({"input": ""}, {"input": "  "}):
        for result in (tool.call(**empty), await tool.acall(**empty)):
            assert result.content.startswith("NO ANSWER: A question must be non-empty text")
            assert not result.is_error
    assert SelfReflectTool(engine, nearest=True).call(UNKNOWN).content == f"NO ANSWER: {engine.query(UNKNOWN)}"


@pytest.mark.parametrize("streaming", [False, True])
async def test_engines_over_a_tool_get_no_quotes_of_an_abstention(streaming: bool) -> None:
    inner = SelfReflectQueryEngine(SHELF, streaming=streaming)
    engine, nearest = SelfReflectTool(inner).query_engine, SelfReflectTool(inner, nearest=True).query_engine
    assert "1871" in str(inner.query(UNKNOWN))
    bundle = QueryBundle(UNKNOWN)
    found = (engine.query(UNKNOWN), await engine.aquery(bundle), engine.synthesize(bundle, NODES),
             await engine.asynthesize(bundle, NODES))  # fmt: skip
    for response in found:
        assert isinstance(response, SelfReflectResponse)
        assert str(response).startswith("NO ANSWER: ")
        assert "1871" not in str(response)
        assert response.source_nodes == []
        assert response.abstained
    kept: Any = nearest.query(UNKNOWN)
    assert "1871" in str(kept)
    assert kept.source_nodes
    assert [n.node.node_id for n in engine.retrieve(bundle)] == ["lamp"]
    answered: Any = engine.query("When was the lamp of Vessen lit?")
    assert not answered.abstained
    assert answered.source_nodes


def test_a_sub_question_without_an_answer_gives_no_quotes() -> None:
    tool = SelfReflectTool(SelfReflectQueryEngine(SHELF), name="lamps")
    asked = SubQuestionQueryEngine(
        Splits(), get_response_synthesizer(MockLLM()), [tool], verbose=False, use_async=False
    ).query(UNKNOWN)
    texts = " ".join(n.node.get_content() for n in asked.source_nodes)
    assert "NO ANSWER: " in texts
    assert "1871" not in texts


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


WRONG = "The lamp of Vessen was lit in 1899."


def responses() -> dict[str, Any]:
    """Responses of all kinds, each with the node as its source."""
    chat = [ChatResponse(message=ChatMessage(role="assistant", content=WRONG), delta=WRONG)]
    return {
        "Response": Response(WRONG, NODES),
        "StreamingResponse": StreamingResponse(iter([WRONG[:9], WRONG[9:]]), NODES),
        "AsyncStreamingResponse": AsyncStreamingResponse(_pieces(WRONG), NODES),
        "AgentChatResponse": AgentChatResponse(WRONG, source_nodes=NODES),
        "StreamingAgentChatResponse": StreamingAgentChatResponse(
            chat_stream=iter(chat), source_nodes=NODES, is_writing_to_memory=False
        ),
        "a text": WRONG,
    }


async def _pieces(text: str) -> AsyncGenerator[str, None]:
    for piece in (text[:9], text[9:]):
        yield piece


@pytest.mark.parametrize("door", ["check", "acheck"])
@pytest.mark.parametrize("kind", responses())
async def test_every_response_is_checked_against_its_nodes_and_shows_them(kind: str, door: str) -> None:
    shelf = SHELF if kind == "a text" else BM25Retriever([Passage("other", f"{WRONG} It burned oil.")])
    guard, given = SelfReflectGuard("flag", retriever=shelf), responses()[kind]
    if door == "acheck" or kind == "AsyncStreamingResponse":  # which only async code reads
        checked = await guard.acheck(given)
    else:
        checked = guard.check(given)
    assert str(checked) == f"{WRONG} (contradicted)"
    assert [n.node.node_id for n in checked.source_nodes] == ["lamp"]
    assert [c.cited_content.text for c in checked.citations] == [TRUE]
    assert checked.metadata["selfreflect"]["citations"][0]["source"] == "lamp"


def test_our_own_chat_is_guarded_and_what_is_no_response_refused() -> None:
    chat, guard = SelfReflectChatEngine(SHELF), SelfReflectGuard("flag")
    for said in (chat.chat(QUESTION), chat.stream_chat(QUESTION)):
        assert guard.check(said).response == f"{TRUE} [1]"
    for wrong in (None, 5, [TRUE]):
        with pytest.raises(InputError, match="text or a response"):
            SelfReflectGuard("flag", retriever=SHELF).check(wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="NodeWithScore"):
        guard.check(TRUE, nodes=NODES_OF)  # type: ignore[arg-type]


def test_a_tool_is_made_as_llamaindex_makes_them() -> None:
    engine = SelfReflectQueryEngine(SHELF)
    tool = SelfReflectTool.from_defaults(engine, name="lamps", description="Of lamps.", return_direct=True)
    assert (tool.metadata.name, tool.metadata.description, tool.metadata.return_direct) == ("lamps", "Of lamps.", True)
    assert tool.call(UNKNOWN).content.startswith("NO ANSWER: ")
    assert SelfReflectTool.from_defaults(engine).metadata == SelfReflectTool(engine).metadata
    for wrong in (5, None):
        with pytest.raises(InputError, match="no query engine"):
            SelfReflectTool(wrong)  # type: ignore[arg-type]


def test_our_abstention_passes_every_policy_and_evaluation() -> None:
    said = SelfReflectQueryEngine(SHELF).query(UNKNOWN)
    assert said.abstained
    assert str(SelfReflectGuard("refuse").check(said)) == str(said)
    for score in ("weakest", "share"):
        evaluation = SelfReflectChecker(score=score).evaluate_response(UNKNOWN, said)  # type: ignore[arg-type]
        assert (evaluation.passing, evaluation.score) == (True, None)
        assert "abstention" in (evaluation.feedback or "")


def test_our_abstention_is_no_evidence() -> None:
    said = str(SelfReflectQueryEngine(SHELF).query(UNKNOWN))
    for text in (said, f"Sub question: {UNKNOWN}\nResponse: {said}", "NO ANSWER: No passage matches."):
        silent = NodeWithScore(node=TextNode(text=text))
        assert SelfReflectRerank().postprocess_nodes([silent, *NODES], query_str=QUESTION)[0].node.node_id == "lamp"
        assert SelfReflectRerank().postprocess_nodes([silent], query_str=QUESTION) == []
        assert str(SelfReflectGuard("flag").check(FALSE, nodes=[silent])) == f"{FALSE} (unverified)"


async def test_the_nearest_quotes_of_an_abstention_are_no_evidence_of_another_engine() -> None:
    said = str(SelfReflectQueryEngine(SHELF, target_accuracy=0.999).query(QUESTION))
    assert "lit in 1871" in said
    silent = NodeWithScore(node=TextNode(id_="said", text=said))
    assert SelfReflectQueryEngine(SHELF).synthesize(QUESTION, [silent]).abstained
    engine = SelfReflectQueryEngine(NodeShelf([silent, *NODES]))
    for response in (engine.query(QUESTION), await engine.aquery(QUESTION)):
        assert [n.node.node_id for n in response.source_nodes] == ["lamp"]


async def test_a_guard_is_a_step_of_a_workflow() -> None:
    guard = SelfReflectGuard("strip")

    class Answering(Workflow):
        @step
        async def answer(self, event: StartEvent) -> StopEvent:
            checked = await guard.acheck(Response(f"{TRUE} {FALSE}", NODES), event.query)
            return StopEvent(result=checked)

    checked: Any = await Answering().run(query="When was it lit?")
    assert (str(checked).strip(), checked.source_nodes[0].node.node_id) == (TRUE, "lamp")


# --- calls as frameworks make them ---------------------------------------------------------------------------------

QUESTION = "When was the lamp of Vessen lit?"


async def test_options_hold_for_one_call() -> None:
    engine, strict = SelfReflectQueryEngine(SHELF), {"target_accuracy": 0.999}
    chat = SelfReflectChatEngine(engine)
    given: Any = strict
    for said in (
        engine.query(QUESTION, **given),
        await engine.aquery(QUESTION, **given),
        engine.with_options(**given).query(QUESTION),
        SelfReflectTool(engine.with_options(**given)).call(QUESTION).raw_output,
        chat.chat(QUESTION, **given).sources[0].raw_output,
        (await chat.astream_chat(QUESTION, **given)).sources[0].raw_output,
    ):
        assert said.abstained
    assert not engine.query(QUESTION).abstained
    with pytest.raises(SettingsError):
        engine.query(QUESTION, target_accuracy=7)
    misspelt: Any = {"target_acuracy": 0.5}
    with pytest.raises(ArgumentError, match="target_accuracy"):
        engine.query(QUESTION, **misspelt)


def test_where_and_top_k_of_a_call_reach_our_retrievers() -> None:
    shelf = BM25Retriever([Passage(f"lamp {n}", TRUE, metadata={"year": 1871 + n}) for n in range(4)])
    engine = SelfReflectQueryEngine(shelf)
    response = engine.query(QUESTION, where={"year": 1873})
    assert {p.id for p in response.answer.passages} == {"lamp 2"}
    assert len(engine.retrieve(QUESTION)) > len(engine.with_options(top_k=1).retrieve(QUESTION)) == 1
    theirs = SelfReflectQueryEngine(VectorStoreIndex(NODES_OF, embed_model=MockEmbedding(3)).as_retriever())
    with pytest.raises(OptionError, match="where"):
        theirs.query(QUESTION, where={"year": 1873})


class Splits(BaseQuestionGenerator):
    """Asks the same question of both tools."""

    def generate(self, tools: Any, query: QueryBundle) -> list[SubQuestion]:
        return [SubQuestion(sub_question=query.query_str, tool_name=t.name) for t in tools]

    async def agenerate(self, tools: Any, query: QueryBundle) -> list[SubQuestion]:
        return self.generate(tools, query)

    def _get_prompts(self) -> Any:
        return {}

    def _update_prompts(self, prompts: Any) -> None:
        pass


def test_markers_stay_unique_over_sub_questions() -> None:
    shelves = {name: BM25Retriever([Passage(name, TRUE)]) for name in ("north", "south")}
    tools = [SelfReflectTool(SelfReflectQueryEngine(s, markers="ids"), name=n) for n, s in shelves.items()]
    asked = SubQuestionQueryEngine(
        Splits(), get_response_synthesizer(MockLLM()), tools, verbose=False, use_async=False
    ).query(QUESTION)
    texts = " ".join(n.node.get_content() for n in asked.source_nodes)
    assert "[north:0]" in texts
    assert "[south:0]" in texts
    response = SelfReflectQueryEngine(shelves["north"], markers="ids").query(QUESTION)
    claim = response.answer.claims[0]
    assert response.answer.text[claim.start : claim.end] == claim.text == TRUE
    unknown: Any = "letters"
    with pytest.raises(SettingsError, match="markers"):
        SelfReflectQueryEngine(SHELF, markers=unknown)
