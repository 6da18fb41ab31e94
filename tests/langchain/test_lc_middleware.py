"""The middleware in streams of an agent, and with structured responses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from pydantic import BaseModel, Field

from shared_core import Passage, SelfReflectSettings
from shared_core.errors import AbstainedError, SettingsError
from shared_core.retrieval import BM25Retriever
from tests.langchain.lc_fakes import TalkingModel

agents = pytest.importorskip("langchain.agents")
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy  # noqa: E402

from langchain_selfreflect import SelfReflectMiddleware, middleware  # noqa: E402

QUESTION = "When was the lamp of Vessen lit?"
FOUND = "The lamp of Vessen was lit in 1871 by Ila Venn."
TRUE, FALSE = "The lamp of Vessen was lit in 1871.", "The lamp of Vessen was lit in 1902."
CALL = AIMessage("Looking.", tool_calls=[{"name": "lookup", "args": {"query": "lamp"}, "id": "1"}])


class Streaming(TalkingModel):
    """Calls a tool, then gives its replies in turn, a word at a time where it is streamed."""

    replies: list[AIMessage] = Field(default_factory=list)
    calls: AIMessage | None = CALL

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        if self.calls is not None and not isinstance(messages[-1], ToolMessage):
            return self.calls.model_copy()
        self.seen.append(messages)
        return self.replies[min(len(self.seen), len(self.replies)) - 1].model_copy()

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        return self._generate(*args, **kwargs)

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        message = self._next(messages)
        calls: Any = [
            {"name": c["name"], "args": json.dumps(c["args"]), "id": c["id"], "index": i}
            for i, c in enumerate(message.tool_calls)
        ]
        for word in str(message.text).split(" "):
            yield ChatGenerationChunk(message=AIMessageChunk(f"{word} "))
        yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=calls))


@tool
def lookup(query: str) -> str:
    """Look something up."""
    return FOUND


def agent(*replies: str | AIMessage, response_format: Any = None, tools: Any = (lookup,), **options: Any) -> Any:
    said = [AIMessage(r) if isinstance(r, str) else r for r in replies]
    model = Streaming(replies=said, calls=CALL if tools else None)
    others = options.pop("others", [])
    made = [SelfReflectMiddleware(**options), *others]
    return agents.create_agent(model, list(tools), middleware=made, response_format=response_format)


ASKED: Any = {"messages": [HumanMessage(QUESTION)]}


async def streamed(made: Any, *, sync: bool) -> list[BaseMessage]:
    """The messages and pieces of the model that an app shows."""
    if sync:
        pieces = list(made.stream(ASKED, stream_mode="messages"))
    else:
        pieces = [piece async for piece in made.astream(ASKED, stream_mode="messages")]
    return [message for message, _ in pieces if not isinstance(message, ToolMessage)]


# --- streams -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sync", [True, False])
async def test_streams_show_the_checked_answer_alone(sync: bool) -> None:
    call, answer = await streamed(agent(FALSE, on_unsupported="refuse"), sync=sync)
    assert isinstance(call, AIMessage)
    assert [c["name"] for c in call.tool_calls] == ["lookup"]
    assert "not shown" in answer.text
    assert "1902" not in answer.text
    _, flagged = await streamed(agent(FALSE, on_unsupported="flag"), sync=sync)
    assert flagged.text.strip() == f"{FALSE} (contradicted)"
    assert flagged.response_metadata["selfreflect"]["claims"]


async def test_the_state_never_holds_the_draft() -> None:
    made = agent(FALSE, on_unsupported="refuse")
    updates = [part for u in made.stream(ASKED, stream_mode="updates") for part in u.values() if part]
    for states in (updates, list(made.stream(ASKED, stream_mode="values"))):
        texts = [m.text for state in states for m in state["messages"]]
        assert any("not shown" in text for text in texts)
        assert not any("1902" in text for text in texts)
    calls = [u["model"]["messages"] for u in made.stream(ASKED, stream_mode="updates") if "model" in u]
    assert [m.text.strip() for m in calls[0]] == ["Looking."]  # a reply that calls a tool arrives whole
    result = made.invoke(ASKED)["messages"]
    assert [type(m) for m in result] == [HumanMessage, AIMessage, ToolMessage, AIMessage]
    assert (await made.ainvoke(ASKED))["messages"][-1].text == result[-1].text


async def test_another_model_of_a_middleware_within_is_hidden_too() -> None:
    class Other(middleware.Base):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(model=request.model.model_copy()))

    made = agent(FALSE, on_unsupported="refuse", others=[Other()])
    assert "1902" not in "".join(m.text for m in await streamed(made, sync=True))


async def test_drafts_are_streamed_on_request() -> None:
    made = agent(FALSE, on_unsupported="flag", stream_drafts=True)
    pieces = await streamed(made, sync=True)
    assert "".join(m.text for m in pieces if isinstance(m, AIMessageChunk)).split()[1:] == FALSE.split()
    assert made.invoke(ASKED)["messages"][-1].text == f"{FALSE} (contradicted)"


def test_tags_are_those_of_the_models_call_alone() -> None:
    class Listening(middleware.Base):
        def after_model(self, state: Any, runtime: Any) -> None:
            from langchain_core.runnables.config import ensure_config

            heard.extend(ensure_config()["tags"])

    heard: list[str] = []
    agent(TRUE, others=[Listening()]).invoke(ASKED)
    assert "nostream" not in heard


# --- structured responses ------------------------------------------------------------------------------------------


class Lamp(BaseModel):
    year: int
    lit_by: str = "nobody"


@dataclass
class Built:
    year: int


def respond(**values: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "Lamp", "args": values, "id": "2"}])


def check_of(state: Any) -> Any:
    return next(c for m in reversed(state["messages"]) if (c := m.response_metadata.get("selfreflect")))


async def test_values_of_a_response_tool_are_checked() -> None:
    supported = agent(respond(year=1871), response_format=ToolStrategy(Lamp), on_unsupported="refuse")
    state = supported.invoke(ASKED)
    assert state["structured_response"] == Lamp(year=1871)
    assert check_of(state)["metadata"]["fields"] == {"year": "supported"}  # a default is no statement of the model
    assert state["messages"][-2].tool_calls  # the message is as it was
    wrong = agent(respond(year=1902), response_format=ToolStrategy(Lamp), on_unsupported="refuse")
    for state in (wrong.invoke(ASKED), await wrong.ainvoke(ASKED)):
        assert state["structured_response"] is None
        assert "not shown" in state["messages"][-1].text
        assert not state["messages"][-1].tool_calls
        assert check_of(state)["metadata"]["fields"]["year"] != "supported"
    *_, shown = await streamed(wrong, sync=True)
    assert isinstance(shown, AIMessage)
    assert ("not shown" in shown.text, shown.tool_calls) == (True, [])


@pytest.mark.parametrize("schema", [Lamp, Built])
def test_values_of_a_providers_response_are_checked(schema: Any) -> None:
    def ask(year: int, policy: str) -> Any:
        reply = f'{{"year": {year}}}'
        return agent(reply, response_format=ProviderStrategy(schema), on_unsupported=policy).invoke(ASKED)

    assert ask(1871, "refuse")["structured_response"].year == 1871
    assert ask(1871, "refuse")["messages"][-1].text.strip() == '{"year": 1871}'
    assert ask(1902, "refuse")["structured_response"] is None
    assert "not shown" in ask(1902, "strip")["messages"][-1].text
    assert ask(1902, "pass")["structured_response"].year == 1902


def test_a_value_cannot_be_marked_which_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    middleware._warn_of_unmarked.cache_clear()
    made = agent(respond(year=1902), response_format=ToolStrategy(Lamp), on_unsupported="flag")
    states = [made.invoke(ASKED), made.invoke(ASKED)]
    assert [s["structured_response"].year for s in states] == [1902, 1902]
    assert [c["status"] for c in check_of(states[0])["claims"]] == ["flagged"]
    assert len([r for r in caplog.records if "cannot be marked" in r.getMessage()]) == 1


def test_a_refused_response_ends_the_run_without_tools() -> None:
    shelf = BM25Retriever([Passage("lamp", FOUND)])
    for reply, strategy in ((respond(year=1902), ToolStrategy(Lamp)), ('{"year": 1902}', ProviderStrategy(Lamp))):
        made = agent(reply, response_format=strategy, tools=(), on_unsupported="refuse", retriever=shelf)
        state = made.invoke(ASKED, {"recursion_limit": 8})
        assert state["structured_response"] is None
        assert "not shown" in state["messages"][-1].text


def test_a_failed_attempt_is_no_evidence_for_the_next() -> None:
    wrong = respond(year="1902, as everybody knows")  # LangChain's error for the model repeats it
    made = agent(wrong, respond(year=1902), response_format=ToolStrategy(Lamp), on_unsupported="refuse")
    assert made.invoke(ASKED)["structured_response"] is None


def test_only_named_values_are_checked() -> None:
    reply, named = respond(year=1871, lit_by="Bob Hill"), {"response_format": ToolStrategy(Lamp)}
    assert agent(reply, on_unsupported="refuse", **named).invoke(ASKED)["structured_response"] is None
    made = agent(reply, on_unsupported="refuse", fields=["year"], **named)
    assert made.invoke(ASKED)["structured_response"].lit_by == "Bob Hill"
    with pytest.raises(SettingsError, match="list of names"):
        SelfReflectMiddleware(fields="year")


def test_a_refused_response_is_raised_where_it_is_told_to() -> None:
    settings = SelfReflectSettings(on_abstain="raise")
    made = agent(respond(year=1902), response_format=ToolStrategy(Lamp), on_unsupported="refuse", settings=settings)
    with pytest.raises(AbstainedError):
        made.invoke(ASKED)


# --- turns in which no tool is called ------------------------------------------------------------------------------


def second_turn(reply: str, question: str = "What did it burn?", *, found: str = FOUND, **options: Any) -> AIMessage:
    """The reply to a second message, after a first one for which the tool was called."""
    first = ToolMessage(found, tool_call_id="1", name="lookup")
    thread = [HumanMessage(QUESTION), CALL, first, AIMessage(TRUE), HumanMessage(question)]
    model = Streaming(replies=[AIMessage(reply)], calls=None)
    made = agents.create_agent(model, [lookup], middleware=[SelfReflectMiddleware(**options)])
    last: AIMessage = made.invoke({"messages": thread})["messages"][-1]
    return last


def test_a_later_turn_without_tools_is_checked_against_the_earlier_ones_results() -> None:
    found = "The lamp of Vessen was lit in 1871. It burned whale oil until 1903."
    right = second_turn("The lamp of Vessen was lit in 1871.", found=found, on_unsupported="refuse")
    assert right.text == TRUE
    assert right.response_metadata["selfreflect"]["claims"][0]["verdict"] == "supported"
    for wrong in ("It burned plutonium until 2003.", "The Tide Museum was founded in 1950."):
        assert "not shown" in second_turn(wrong, found=found, on_unsupported="refuse").text


@pytest.mark.parametrize(("said", "reply"), [
    ("thanks!", "You're welcome! Anything else?"),
    ("Thank you", "Bitte sehr, jederzeit gern."),
    ("ok thanks a lot, that helps", "I'm glad that was useful. Let me know if you have more questions."),
    ("What did it burn?", "Which lamp do you mean?"),
    ("What did it burn?", "I don't know."),
])  # fmt: skip
def test_what_states_nothing_is_not_refused(said: str, reply: str) -> None:
    for required in (False, True):
        assert second_turn(reply, said, on_unsupported="refuse", require_evidence=required).text == reply


def test_a_reply_that_nothing_can_check_says_so() -> None:
    def asked(reply: str, question: str = QUESTION, **options: Any) -> AIMessage:
        made = agent(reply, tools=(), on_unsupported="refuse", **options)
        last: AIMessage = made.invoke({"messages": [HumanMessage(question)]})["messages"][-1]
        return last

    shown = asked(FALSE)
    assert shown.text == FALSE
    assert shown.response_metadata["selfreflect"]["status"] == "unchecked"
    assert "no tool was called" in shown.response_metadata["selfreflect"]["reason"]
    assert "not shown" in asked(FALSE, require_evidence=True).text
    assert asked("Hello! How can I help?", "Hi there", require_evidence=True).text == "Hello! How can I help?"
    failed = ToolMessage("timeout", tool_call_id="1", name="lookup", status="error")
    model = Streaming(replies=[AIMessage(FALSE)], calls=None)
    made = agents.create_agent(model, [lookup], middleware=[SelfReflectMiddleware(on_unsupported="refuse")])
    thread = [HumanMessage(QUESTION), CALL, failed, AIMessage("It failed."), HumanMessage(QUESTION)]
    assert made.invoke({"messages": thread})["messages"][-1].response_metadata["selfreflect"]["status"] == "unchecked"
