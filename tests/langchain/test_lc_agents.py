"""In agents: the chain as a tool, calls with options of their own, and the middleware that checks an agent's answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from langchain_selfreflect import SelfReflectChain, SelfReflectChecker
from shared_core import Passage, SelfReflectSettings
from shared_core.errors import AbstainedError, InputError, SettingsError
from shared_core.retrieval import BM25Retriever
from tests.langchain.lc_fakes import TalkingModel

SHELF = BM25Retriever(
    [Passage("lamp", "The lamp of Vessen was lit in 1871."), Passage("sea", "The Selm Strait is 3 miles wide.")]
)
QUESTION, UNKNOWN = "When was the lamp of Vessen lit?", "Who painted the lamp of Vessen?"


def chain(**options: Any) -> SelfReflectChain:
    return SelfReflectChain(retriever=SHELF, **options)


# --- the chain as a tool -------------------------------------------------------------------------------------------


def called_with(question: str) -> Any:
    """The call of a tool by an agent's model."""
    return {"type": "tool_call", "id": "1", "name": "ask_documents", "args": {"question": question}}


async def test_the_chain_is_a_tool_with_its_documents() -> None:
    made, call = chain().as_tool(), called_with(QUESTION)
    assert set(made.args) == {"question"}
    result = made.invoke(call)
    assert result.content == "The lamp of Vessen was lit in 1871. [1]"
    assert [d.id for d in result.artifact][:1] == ["lamp"]
    assert (await made.ainvoke(call)).content == result.content


def test_an_abstention_as_a_tools_result_is_marked_and_quotes_nothing() -> None:
    plain = chain().invoke(UNKNOWN)
    assert plain.response_metadata["selfreflect"]["abstained"]
    call = called_with(UNKNOWN)
    result = chain().as_tool(name="ask").invoke(call)
    assert result.content.startswith("NO ANSWER: ")
    assert "lit in 1871" not in result.content
    assert result.artifact == []
    assert chain().as_tool(nearest=True).invoke(call).content == f"NO ANSWER: {plain.text}"


async def test_an_empty_question_of_an_agent_does_not_end_its_run() -> None:
    made, call = chain().as_tool(), called_with(" ")
    result = made.invoke(call)
    assert result.content == "NO ANSWER: A question must be non-empty text, not ' '."
    assert result.artifact == []
    assert (await made.ainvoke(call)).content == result.content


# --- calls with options --------------------------------------------------------------------------------------------


async def test_settings_hold_for_one_call() -> None:
    made = chain()
    usual, strict = made.invoke(QUESTION), {"target_accuracy": 0.999}
    assert not usual.response_metadata["selfreflect"]["abstained"]
    for message in (
        made.invoke(QUESTION, **strict),
        made.invoke(QUESTION, {"configurable": strict}),
        made.bind(**strict).invoke(QUESTION),
        await made.ainvoke(QUESTION, **strict),
        made.batch([QUESTION], **strict)[0],
        (await made.abatch([QUESTION], {"configurable": strict}))[0],
        list(made.stream(QUESTION, **strict))[-1],
    ):
        assert message.response_metadata["selfreflect"]["abstained"]
    assert made.invoke(QUESTION) == usual
    assert len(made.invoke(QUESTION, top_k=1).response_metadata["selfreflect"]["passages"]) == 1
    with pytest.raises(SettingsError):
        made.invoke(QUESTION, target_accuracy=7)


async def test_a_setting_has_a_name_of_its_own_in_a_graphs_config() -> None:
    made = chain()

    def abstains(shared: Any, **given: Any) -> bool:
        message = made.invoke(QUESTION, {"configurable": shared}, **given)
        return bool(message.response_metadata["selfreflect"]["abstained"])

    usual = {"target_accuracy": 0.5}
    assert not abstains(usual)
    for own in ({"selfreflect_target_accuracy": 0.999}, {"selfreflect": {"target_accuracy": 0.999}}):
        assert abstains(own)
        assert abstains({**usual, **own})
        assert not abstains(own, **usual)  # a call's own keyword
    for wrong in ({"selfreflect_topk": 1}, {"selfreflect": {"stop": 1}}, {"selfreflect": 3}):
        with pytest.raises(SettingsError):
            abstains(wrong)
    assert not abstains({"target_acuracy": 0.999, "thread_id": "1"})  # another node's


@pytest.mark.parametrize(("name", "right"), [
    ("target_acuracy", "target_accuracy"), ("targetaccuracy", "target_accuracy"), ("topk", "top_k"),
    ("on_abstein", "on_abstain"), ("dead_line", "deadline"),
])  # fmt: skip
async def test_a_misspelt_setting_of_a_call_is_refused_with_the_right_name(name: str, right: str) -> None:
    made: Any = chain()
    bound = made.bind(**{name: 1})
    for ask in (bound.invoke, lambda q: bound.batch([q]), lambda q: list(bound.stream(q))):
        with pytest.raises(SettingsError, match=f"Did you mean {right}"):
            ask(QUESTION)
    for other in ("stop", "tools", "temperature", "top_p", "timeout", "target", "line"):
        assert made.invoke(QUESTION, **{other: 1}).text


async def test_settings_of_the_config_hold_for_the_tool() -> None:
    made, strict = chain().as_tool(), {"configurable": {"target_accuracy": 0.999}}
    assert made.invoke({"question": QUESTION}).startswith("The lamp")
    assert made.invoke({"question": QUESTION}, strict).startswith("NO ANSWER")
    assert (await made.ainvoke({"question": QUESTION}, strict)).startswith("NO ANSWER")


def test_other_keywords_have_no_effect() -> None:
    assert chain().bind(stop=["\n"], temperature=0.1).invoke(QUESTION) == chain().invoke(QUESTION)


def test_light_messages_keep_the_verdict_and_the_citations() -> None:
    full, light = chain().invoke(QUESTION), chain(metadata="light").invoke(QUESTION)
    assert (light.text, light.content_blocks) == (full.text, full.content_blocks)
    details = light.response_metadata["selfreflect"]
    assert set(details) == {"question", "abstained", "reason", "confidence", "calibrated"}
    assert 2 * len(json.dumps(light.response_metadata)) < len(json.dumps(full.response_metadata))


def test_a_model_may_be_named() -> None:
    with pytest.raises(InputError, match="init_chat_model"):
        chain(llm="nobody:model")


# --- our own abstentions -------------------------------------------------------------------------------------------


def test_our_abstention_is_no_claim() -> None:
    for question in (UNKNOWN, "Hello!"):
        said = chain().invoke(question)
        checked = SelfReflectChecker(on_unsupported="refuse").invoke({"answer": said.text, "context": ["The sea."]})
        assert checked["answer"] == said.text
        assert checked["selfreflect"]["reason"] == "abstention"
        assert checked["selfreflect"]["metadata"]["passing"]
    own = SelfReflectSettings(abstain_text="Leider keine Antwort auf: {question}")
    checker = SelfReflectChecker(settings=own)
    text = chain(settings=own).invoke(UNKNOWN).text
    assert checker.invoke({"answer": text, "context": ["x"]})["selfreflect"]["reason"] == "abstention"
    assert checker.invoke({"answer": "The lamp is red.", "context": ["x"]})["selfreflect"]["reason"] != "abstention"


# --- the middleware ------------------------------------------------------------------------------------------------


def agent(reply: str, result: Any, *, calls: bool = False, **options: Any) -> Any:
    pytest.importorskip("langchain.agents")
    from langchain.agents import create_agent

    from langchain_selfreflect import SelfReflectMiddleware

    class Calling(TalkingModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

        def _answer(self, how: str, messages: Any, stop: Any, kwargs: Any) -> Any:
            if calls and not any(isinstance(m, ToolMessage) for m in messages):
                return ChatResult(generations=[ChatGeneration(message=CALL)])
            return super()._answer(how, messages, stop, kwargs)

    @tool(response_format="content_and_artifact")
    def lookup(query: str) -> Any:
        """Look something up."""
        return result

    model = Calling(reply=lambda prompt: reply)
    return create_agent(model, [lookup], middleware=[SelfReflectMiddleware(**options)])


CALL = AIMessage("", tool_calls=[{"name": "lookup", "args": {"query": "lamp"}, "id": "1"}])
TRUE, FALSE = "The lamp of Vessen was lit in 1871.", "The sea is warm in winter."


def run(reply: str, content: Any, artifact: Any = None, **options: Any) -> AIMessage:
    result = ToolMessage(content, tool_call_id="1", name="lookup", artifact=artifact)
    made = agent(reply, ("", None), **options)
    messages = made.invoke({"messages": [HumanMessage(QUESTION), CALL, result]})["messages"]
    assert len(messages) == 4  # the reply is replaced, not doubled
    last: AIMessage = messages[-1]
    return last


def test_an_agents_answer_is_checked_against_its_tools_results() -> None:
    flagged = run(f"{TRUE} {FALSE}", TRUE, on_unsupported="flag")
    assert flagged.text == f"{TRUE} {FALSE} (unsupported)"
    assert flagged.response_metadata["selfreflect"]["metadata"]["verdicts"]["supported"] == 1
    assert run(f"{TRUE} {FALSE}", TRUE, on_unsupported="strip").text.strip() == TRUE
    assert "not shown" in run(FALSE, TRUE, on_unsupported="refuse").text
    assert run(f"{TRUE} {FALSE}", TRUE).text == f"{TRUE} {FALSE}"
    documents = [Document(TRUE, id="lamp")]
    cited = run(TRUE, "see the artifact", documents, on_unsupported="flag")
    assert cited.additional_kwargs["citations"][0]["extras"]["passage_id"] == "lamp"


def test_documents_of_two_tools_with_one_id_are_both_evidence() -> None:
    pytest.importorskip("langchain.agents")
    from langchain_selfreflect.middleware import evidence_of

    other = "The Selm Strait is 3 miles wide."
    results = [
        ToolMessage("", tool_call_id=name, name=name, artifact=[Document(text, metadata={"id": 0})])
        for name, text in (("lamps", TRUE), ("straits", other), ("again", TRUE))
    ]
    found = evidence_of([*results, ToolMessage("A text.", tool_call_id="4", name="web")])
    assert [p.text for p in found] == [TRUE, other, "A text."]
    assert (found[2].id, found[2].metadata) == ("web 4", {"source": "web"})


@pytest.mark.parametrize(
    "content", ["NO ANSWER: No passage matches.", "", [{"type": "image", "base64": "AA==", "mime_type": "image/png"}]]
)
def test_tools_that_found_nothing_support_nothing(content: Any) -> None:
    assert run(FALSE, content, on_unsupported="flag").text == f"{FALSE} (unverified)"
    assert "not shown" in run(FALSE, content, on_unsupported="refuse").text


async def test_a_tool_that_returns_bytes_is_no_evidence() -> None:
    made = agent(FALSE, (b"\x89PNG\x00", b"\x89PNG"), on_unsupported="flag", calls=True)
    for state in (made.invoke({"messages": [HumanMessage(QUESTION)]}),
                  await made.ainvoke({"messages": [HumanMessage(QUESTION)]})):  # fmt: skip
        *_, result, last = state["messages"]
        assert isinstance(result, ToolMessage)
        assert last.text.startswith(FALSE)
        assert last.text != FALSE


def test_without_tools_only_a_retriever_can_check() -> None:
    made = agent(FALSE, ("", None), on_unsupported="flag")
    assert made.invoke({"messages": [HumanMessage(QUESTION)]})["messages"][-1].text == FALSE
    made = agent(FALSE, ("", None), on_unsupported="flag", retriever=SHELF)
    assert made.invoke({"messages": [HumanMessage(QUESTION)]})["messages"][-1].text == f"{FALSE} (unsupported)"


async def test_the_middleware_is_async_and_raises_where_it_is_told_to() -> None:
    settings = SelfReflectSettings(on_abstain="raise")
    made = agent(FALSE, ("", None), on_unsupported="refuse", retriever=SHELF, settings=settings)
    with pytest.raises(AbstainedError):
        await made.ainvoke({"messages": [HumanMessage(QUESTION)]})
    abstention = "I can't answer that from these documents with the certainty asked for."
    made = agent(abstention, ("", None), on_unsupported="refuse", retriever=SHELF)
    assert (await made.ainvoke({"messages": [HumanMessage(QUESTION)]}))["messages"][-1].text == abstention


def test_a_node_of_langgraph_holds_a_conversation() -> None:
    graphs = pytest.importorskip("langgraph.graph")
    from langgraph.checkpoint.memory import InMemorySaver

    answers = chain(metadata="light")

    def answer(state: Any) -> dict[str, Any]:
        return {"messages": [answers.invoke(state)]}

    graph = graphs.StateGraph(graphs.MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(graphs.START, "answer")
    app = graph.compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    app.invoke({"messages": [HumanMessage("Who crossed the Selm Strait?")]}, thread)
    last = app.invoke({"messages": [HumanMessage("How wide is it?")]}, thread)["messages"][-1]
    assert last.text == "The Selm Strait is 3 miles wide. [1]"
    assert last.response_metadata["selfreflect"]["metadata"]["condensed_question"] == "How wide is the Selm Strait?"
