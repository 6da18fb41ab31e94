"""A conversation through LlamaIndex's chat interface, its memories and its own chat engines."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.chat_engine import CondenseQuestionChatEngine
from llama_index.core.llms import ChatMessage, ImageBlock, MessageRole, MockLLM, TextBlock
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer, Memory
from llama_index.core.prompts import PromptTemplate

from llamaindex_selfreflect import SelfReflectChatEngine, SelfReflectQueryEngine, SelfReflectResponse
from shared_core import Passage
from shared_core.errors import ArgumentError, OptionError, QuestionError, SettingsError
from shared_core.lm import ScriptedLM
from shared_core.retrieval import BM25Retriever

FIRST, SECOND = "Who founded the Tide Museum?", "And when was it closed?"
CLOSED = "The Tide Museum was closed in 1941. [1]"


def shelf() -> BM25Retriever:
    return BM25Retriever(
        [
            Passage("museum", "The Tide Museum was founded by Lavinia Hathe. The Tide Museum was closed in 1941."),
            Passage("mill", "The Old Mill was founded by Rufus Crail. The mill was closed in 1833."),
        ]
    )


def memories() -> list[BaseMemory | None]:
    return [None, Memory.from_defaults(), ChatMemoryBuffer.from_defaults(token_limit=2_000)]


@pytest.mark.parametrize("kind", range(3), ids=["own", "Memory", "ChatMemoryBuffer"])
def test_a_follow_up_is_answered_about_its_topic(kind: int) -> None:
    chat = SelfReflectChatEngine.from_defaults(shelf(), memory=memories()[kind])
    assert "Lavinia Hathe" in str(chat.chat(FIRST))
    response = chat.chat(SECOND)
    assert str(response) == CLOSED
    assert response.answer.metadata["condensed_question"] == "When was the Tide Museum closed?"
    assert response.source_nodes[0].node.get_content().startswith("The Tide Museum")
    assert isinstance(response.sources[0].raw_output, SelfReflectResponse)
    assert [m.role for m in chat.chat_history] == [MessageRole.USER, MessageRole.ASSISTANT] * 2
    chat.reset()
    assert chat.chat_history == []


@pytest.mark.parametrize("kind", range(3), ids=["own", "Memory", "ChatMemoryBuffer"])
async def test_async_and_streams_say_the_same(kind: int) -> None:
    chat = SelfReflectChatEngine(shelf(), memory=memories()[kind])
    await chat.achat(FIRST)
    stream = await chat.astream_chat(SECOND)
    assert "".join([piece async for piece in stream.async_response_gen()]) == CLOSED == str(stream)
    before = [ChatMessage(role="user", content=FIRST)]
    assert str(await chat.achat(SECOND, chat_history=before)) == CLOSED


def test_a_stream_has_its_sources_before_it_begins() -> None:
    chat = SelfReflectChatEngine(shelf(), chat_history=[ChatMessage(role="user", content=FIRST)])
    stream = chat.stream_chat(SECOND)
    assert stream.source_nodes
    assert stream.citations
    assert "".join(stream.response_gen) == CLOSED
    assert len(chat.chat_history) == 3


def test_what_asks_about_the_answer_is_declined_and_keeps_the_topic() -> None:
    chat = SelfReflectChatEngine(shelf())
    chat.chat(FIRST)
    doubt = chat.chat("Are you sure?")
    assert doubt.answer.reason == "asks about the answer"
    assert str(chat.chat(SECOND)) == CLOSED
    with pytest.raises(QuestionError):
        chat.chat("  ")


def test_templates_of_llamaindex_condense() -> None:
    template = PromptTemplate("Conversation:\n{chat_history}\nFollow up: {question}\nStandalone question:")
    seen = []

    def reply(request: object) -> str:
        seen.append(request.prompt.text)  # type: ignore[attr-defined]
        return "When was the Tide Museum closed?"

    chat = SelfReflectChatEngine(shelf(), llm=ScriptedLM(reply), condense=template)
    chat.query_engine.query([ChatMessage(role="user", content=FIRST), ChatMessage(role="user", content=SECOND)])
    assert seen[0] == f"Conversation:\nUser: {FIRST}\nFollow up: {SECOND}\nStandalone question:"
    with pytest.raises(SettingsError, match="needs a language model"):
        SelfReflectChatEngine(shelf(), condense=True)
    with pytest.raises(ArgumentError, match="condens"):
        SelfReflectChatEngine(shelf(), condensing=True)  # type: ignore[call-arg]


def test_options_beside_a_query_engine_are_refused() -> None:
    engine = SelfReflectQueryEngine(shelf())
    with pytest.raises(OptionError, match="target_accuracy cannot have an effect"):
        SelfReflectChatEngine(engine, target_accuracy=0.999)
    with pytest.raises(ArgumentError, match="target_acuracy"):
        SelfReflectChatEngine.from_defaults(engine, target_acuracy=0.999)  # type: ignore[call-arg]


@pytest.mark.parametrize("history", ["x", [5], [{"role": "bogus", "content": "x"}], 5], ids=str)
@pytest.mark.parametrize("kind", range(3), ids=["own", "Memory", "ChatMemoryBuffer"])
async def test_a_history_that_is_none_leaves_the_conversation_as_it_is(kind: int, history: Any) -> None:
    chat = SelfReflectChatEngine(shelf(), memory=memories()[kind])
    chat.chat(FIRST)
    before = chat.chat_history
    for message, given in ((SECOND, history), ("  ", [ChatMessage(role="user", content="Hm?")])):
        with pytest.raises(QuestionError):
            chat.chat(message, chat_history=given)
        with pytest.raises(QuestionError):
            await chat.achat(message, chat_history=given)
    assert chat.chat_history == before
    assert str(chat.chat(SECOND)) == CLOSED


PICTURE = {"type": "image_url", "image_url": {"url": "https://example.org/lamp.png"}}


@pytest.mark.parametrize("content", [
    SECOND, [{"type": "text", "text": SECOND}], [{"type": "input_text", "text": SECOND}, PICTURE],
    [{"block_type": "text", "text": SECOND}],
])  # fmt: skip
def test_messages_may_be_dicts_as_openai_writes_them(content: Any) -> None:
    messages: Any = [
        {"role": "user", "content": [{"type": "text", "text": FIRST}]},
        {"role": "user", "content": content},
    ]
    response = SelfReflectQueryEngine(shelf()).query(messages)
    assert str(response) == CLOSED
    assert any(d.outcome == "not read" for d in response.answer.trace) == (PICTURE in list(content))


@pytest.mark.parametrize("message", [
    {"role": "bogus", "content": SECOND}, {"role": "user", "content": 5}, {"role": "user", "content": [5]},
    {"role": "user", "content": None}, {"role": "user", "content": [{"type": "text", "text": None}]},
])  # fmt: skip
def test_what_is_no_message_is_refused(message: Any) -> None:
    with pytest.raises(QuestionError):
        SelfReflectQueryEngine(shelf()).query([message])


def test_llamaindexs_own_condensing_engine_asks_ours() -> None:
    class Condenser(MockLLM):
        def predict(self, *args: object, **kwargs: object) -> str:
            return "When was the Tide Museum closed?"

    history = [ChatMessage(role="user", content=FIRST), ChatMessage(role="assistant", content="Lavinia Hathe.")]
    plain, streaming = (
        CondenseQuestionChatEngine.from_defaults(
            SelfReflectQueryEngine(shelf(), streaming=streams), llm=Condenser(), chat_history=history
        )
        for streams in (False, True)
    )
    assert str(plain.chat(SECOND)) == CLOSED == "".join(streaming.stream_chat(SECOND).response_gen)


def said(role: str, text: str, *blocks: Any) -> ChatMessage:
    return ChatMessage(role=MessageRole(role), blocks=[TextBlock(text=text), *blocks])


BEFORE = [said("user", FIRST), said("assistant", "The Tide Museum was founded by Lavinia Hathe. [1]")]
ODD: dict[str, list[ChatMessage]] = {
    "10,000 messages": [said("user", "When was the Old Mill closed?"), said("assistant", "In 1833.")] * 5_000 + BEFORE,
    "images": [said("user", FIRST, ImageBlock(image=b"AA==", image_mimetype="image/png")), BEFORE[1]],
    "other roles": [*BEFORE, said("system", "Speak of the Old Mill."), said("developer", "Speak of the Old Mill."),
                    said("tool", "The Old Mill was closed in 1833."), said("model", "Well.")],
    "an abstention": [said("user", "Who owns the Tide Museum?"), ChatMessage(
        role="assistant", content="No. Nearest: “The Old Mill.”", additional_kwargs={"abstained": True})],
}  # fmt: skip


@pytest.mark.parametrize("before", ODD.values(), ids=list(ODD))
def test_odd_histories_keep_the_topic(before: list[ChatMessage]) -> None:
    chat = SelfReflectChatEngine(shelf(), chat_history=before)
    assert str(chat.chat(SECOND)) == CLOSED
