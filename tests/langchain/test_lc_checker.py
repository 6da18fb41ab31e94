"""The checker behind chains of LangChain: what goes in, what comes out, what it does with unsupported claims."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from langchain_selfreflect import SelfReflectChecker
from shared_core import SelfReflectSettings
from shared_core.errors import AbstainedError, InputError, SettingsError
from tests.fakes import WordCritic
from tests.langchain.lc_fakes import ShelfRetriever, documents

LIT, WRONG, FLEW = "The lamp was lit in 1871.", "The lamp was lit in 1950.", "Captain Venn flew to the moon."


def checker(**arguments: Any) -> SelfReflectChecker:
    return SelfReflectChecker(critic=WordCritic(), **{"retriever": ShelfRetriever(), **arguments})


def test_a_text_gives_a_message_with_citations_and_the_check() -> None:
    message = checker().invoke(f"{LIT} {FLEW}")
    assert isinstance(message, AIMessage)
    assert str(message.text) == f"{LIT} {FLEW}"
    told = message.response_metadata["selfreflect"]
    assert [c["verdict"] for c in told["claims"]] == ["supported", "unsupported"]
    (citation,) = dict(message.content_blocks[0])["annotations"]  # type: ignore[misc]
    assert (citation["start_index"], citation["end_index"], citation["cited_text"]) == (0, len(LIT), LIT)


def test_it_stands_behind_a_chain_and_before_a_parser() -> None:
    chain = RunnableLambda(lambda q: AIMessage(f"{LIT} {FLEW}")) | checker(on_unsupported="strip") | StrOutputParser()
    assert chain.invoke("When?") == LIT
    assert "".join(chain.stream("When?")) == LIT
    assert chain.batch(["a", "b"]) == [LIT, LIT]


async def test_async_gives_the_same() -> None:
    made = checker(on_unsupported="flag")
    assert await made.ainvoke(f"{LIT} {FLEW}") == made.invoke(f"{LIT} {FLEW}")
    assert [m async for m in made.astream(LIT)] == [made.invoke(LIT)]


@pytest.mark.parametrize(("policy", "text"), [
    ("pass", f"{LIT} {FLEW}"), ("flag", f"{LIT} {FLEW} (unsupported)"), ("strip", LIT),
    ("refuse", "This answer is not shown: not all of it is supported by the documents."),
])  # fmt: skip
def test_what_is_done_with_unsupported_claims(policy: Any, text: str) -> None:
    message = checker(on_unsupported=policy).invoke(f"{LIT} {FLEW}")
    assert str(message.text).startswith(text)
    assert message.response_metadata["selfreflect"]["abstained"] == (policy == "refuse")


def test_refusing_may_raise() -> None:
    made = checker(on_unsupported="refuse", settings=SelfReflectSettings(on_abstain="raise"))
    assert str(made.invoke(LIT).text) == LIT
    with pytest.raises(AbstainedError):
        made.invoke(WRONG)


def test_of_a_retrieval_chain_the_documents_it_used_are_checked_against() -> None:
    shelf = ShelfRetriever()
    given = {
        "input": "When was the lamp lit?",
        "context": documents()[1:2],
        "answer": f"{LIT} The Marrow carried salt.",
    }
    made = checker(retriever=shelf, on_unsupported="strip").invoke(given)
    assert made["answer"] == "The Marrow carried salt."
    assert made["context"] == given["context"]
    assert made["selfreflect"]["question"] == "When was the lamp lit?"
    assert shelf.asked == []
    assert given["answer"] == f"{LIT} The Marrow carried salt.", "the input is not changed"


@pytest.mark.parametrize(
    ("context", "passing"),
    [([LIT], True), (f"Lamps\n\n{LIT}", True), ([], False), (documents()[:1], True), (documents()[0], True)],
)
def test_contexts_of_every_form(context: Any, passing: bool) -> None:
    made = checker(retriever=None).invoke({"query": "When?", "result": LIT, "source_documents": context})
    assert made["selfreflect"]["metadata"]["passing"] is passing


def test_questions_of_every_form() -> None:
    for question in ("When?", HumanMessage("When?"), [HumanMessage("What?"), AIMessage("?"), HumanMessage("When?")]):
        made = checker().invoke({"question": question, "answer": AIMessage(LIT)})
        assert made["selfreflect"]["question"] == "When?"
        assert isinstance(made["answer"], AIMessage)
    made = checker(answer_key="said", question_key="asked").invoke({"asked": "When?", "said": LIT})
    assert (made["said"], made["selfreflect"]["question"]) == (LIT, "When?")


def test_a_message_keeps_what_is_its_own() -> None:
    original = AIMessage(LIT, id="m1", response_metadata={"model_name": "gpt"}, name="bot")
    made = checker().invoke(original)
    assert (made.id, made.name, made.response_metadata["model_name"]) == ("m1", "bot", "gpt")
    assert (made.content, len(made.content_blocks[0]["annotations"])) == (LIT, 1)
    called = checker().invoke(AIMessage(LIT, tool_calls=[{"name": "f", "args": {}, "id": "1"}]))
    assert [b["type"] for b in called.content_blocks] == ["text", "tool_call"]
    for thinking in (
        AIMessageChunk([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": LIT}]),
        AIMessage(  # in the provider's own form
            [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": LIT}],
            response_metadata={"model_provider": "anthropic"},
        ),
    ):
        made = checker().invoke(thinking)
        assert type(made) is AIMessage
        assert made.text == LIT
        assert [b["type"] for b in made.content_blocks] == ["reasoning", "text"]
        assert len(made.content_blocks[1]["annotations"]) == 1


async def test_settings_hold_for_one_call_and_other_keywords_have_no_effect() -> None:
    made = checker(on_unsupported="refuse")
    usual = made.invoke(f"{LIT} {FLEW}")
    for call in (made, made.bind(stop=["x"]), made.with_config(configurable={"thread": 1})):
        assert call.invoke(f"{LIT} {FLEW}") == usual
    strict: dict[str, Any] = {"target_accuracy": 0.999, "on_abstain": "raise"}
    for config, options in (({}, strict), ({"configurable": strict}, {})):
        with pytest.raises(AbstainedError):
            made.invoke(LIT, config, **options)
        with pytest.raises(AbstainedError):
            await made.ainvoke(LIT, config, **options)
    with pytest.raises(SettingsError):
        made.invoke(LIT, target_accuracy=7)
    assert made.invoke(LIT).text == LIT


def test_what_has_no_text_passes_as_it_is() -> None:
    call = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}])
    assert checker(on_unsupported="refuse").invoke(call) is call
    assert checker().invoke({"answer": ""}) == {"answer": ""}


def test_the_retriever_is_asked_for_each_claim_and_events_are_told() -> None:
    shelf = ShelfRetriever()
    made = checker(retriever=shelf)
    made.invoke(f"{LIT} {WRONG}")
    assert [q for _, q in shelf.asked] == [LIT, WRONG]


async def test_each_judged_claim_is_an_event() -> None:
    chain = RunnablePassthrough() | checker()
    events = [e async for e in chain.astream_events(f"{LIT} {WRONG}", version="v2") if e["event"] == "on_custom_event"]
    told = [e["data"]["verdict"] for e in events if e["name"] == "selfreflect_claim"]
    assert told == ["supported", "contradicted"]


@pytest.mark.parametrize("given", [{}, {"context": []}, {"answer": 5}, 5, {"answer": None}])
def test_an_input_without_an_answer_is_refused(given: Any) -> None:
    with pytest.raises(InputError):
        checker().invoke(given)


def test_wrong_arguments_are_refused() -> None:
    for arguments in ({"on_unsupported": "hide"}, {"target_accuracy": 2}, {"treshold": 1}):
        with pytest.raises(SettingsError):
            checker(**arguments)
    for arguments in ({"retriever": 5}, {"llm": 5}):
        with pytest.raises(InputError):
            checker(**arguments)
    with pytest.raises(InputError, match="nothing to check the answer against"):
        checker(retriever=None).invoke(LIT)
