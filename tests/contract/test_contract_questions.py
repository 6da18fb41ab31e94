"""What may be asked of both plug-ins: texts, messages, conversations; what was said before is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.runnables.history import RunnableWithMessageHistory
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock

from langchain_selfreflect import SelfReflectChain
from shared_core import Answer
from shared_core.errors import AbstainedError, QuestionError
from tests.contract.facades import QUESTION, TEXTS, Facades, LangChainFacades, LlamaIndexFacades
from tests.langchain.lc_fakes import AsyncEar, Ear

LAMP = "The lamp was lit in 1871. [1]"
EARLIER = "Who was captain of the Marrow?"

ALONE: dict[str, Callable[[Facades], Any]] = {
    "text": lambda f: QUESTION,
    "message": lambda f: f.human(QUESTION),
    "list": lambda f: [f.human(QUESTION)],
    "dict": lambda f: {"messages": [f.human(QUESTION)]},
}
IN_A_CONVERSATION: dict[str, Callable[[Facades], Any]] = {
    "list": lambda f: [f.system("Be brief."), f.human(EARLIER), f.ai("Ila Venn."), f.human(QUESTION)],
    "dict": lambda f: {"messages": [f.human(EARLIER), f.ai("Ila Venn."), f.system("Hm."), f.human(QUESTION)]},
    "answered already": lambda f: [f.human(EARLIER), f.ai("Venn."), f.human(QUESTION), f.ai("Let me look.")],
}


def notes(answer: Answer) -> list[Any]:
    return [d for d in answer.trace if d.kind == "history"]


@pytest.mark.parametrize("given", ALONE.values(), ids=list(ALONE))
async def test_a_question_alone_is_read_whole(facades: Facades, given: Callable[[Facades], Any]) -> None:
    engine = facades.engine()
    answer = facades.ask(engine, given(facades))
    assert (answer.question, answer.text.split(" [1]")[0]) == (QUESTION, LAMP[:-4])
    assert notes(answer) == []
    assert await facades.aask(engine, given(facades)) == answer


@pytest.mark.parametrize("given", IN_A_CONVERSATION.values(), ids=list(IN_A_CONVERSATION))
async def test_the_users_last_message_is_the_question_and_the_rest_its_history(
    facades: Facades, given: Callable[[Facades], Any]
) -> None:
    engine = facades.engine()
    answer = facades.ask(engine, given(facades))
    assert answer.question == QUESTION
    assert sum(note.values["messages"] for note in notes(answer)) == 3
    assert [note.outcome for note in notes(answer)][-1] == "read"
    assert list(answer.trace[: len(notes(answer))]) == notes(answer)
    assert await facades.aask(engine, given(facades)) == answer


@pytest.mark.parametrize(
    "given",
    [lambda f: f.ai("It was lit."), lambda f: [f.system("Be brief."), f.ai("Yes?")], lambda f: {"messages": []},
     lambda f: [], lambda f: f.human("  "), lambda f: 7, lambda f: {"messages": [3.5]}, lambda f: {"messages": 7}],
    ids=["assistant's", "nobody's", "no messages", "nothing", "blank", "number", "list of numbers", "no list"],
)  # fmt: skip
async def test_what_asks_nothing_is_refused_with_a_way_out(facades: Facades, given: Callable[[Facades], Any]) -> None:
    with pytest.raises(QuestionError) as caught:
        facades.ask(facades.engine(), given(facades))
    assert caught.value.hint
    with pytest.raises(QuestionError):
        await facades.aask(facades.engine(), given(facades))


def test_an_assistants_message_is_refused_in_the_same_words() -> None:
    said = set()
    for facades in (LlamaIndexFacades(), LangChainFacades()):
        with pytest.raises(QuestionError, match=r"none of them is the user's \(the last: assistant's\)") as caught:
            facades.ask(facades.engine(), facades.ai("It was lit in 1871."))
        said.add(str(caught.value))
    assert len(said) == 1


def test_sources_come_back_with_their_texts(facades: Facades) -> None:
    sources = facades.sources(facades.engine(), [facades.human(EARLIER), facades.human(QUESTION)])
    assert sources[0] == ("p0", TEXTS[0])
    assert {text for _, text in sources} <= set(TEXTS)


# --- what only one of them has -------------------------------------------------------------------------------------


def chain(**options: Any) -> SelfReflectChain:
    made: SelfReflectChain = LangChainFacades().engine(**options)
    return made


PROMPT = ChatPromptTemplate([("system", "Answer."), ("placeholder", "{history}"), ("human", "{question}")])


@pytest.mark.parametrize(
    ("given", "unread"),
    [
        (PromptTemplate.from_template("{q}").invoke({"q": QUESTION}), 0),
        (PROMPT.invoke({"question": QUESTION, "history": [("human", EARLIER), ("ai", "Venn.")]}), 3),
        ([("human", EARLIER), ("human", QUESTION)], 1),
        ([{"role": "user", "content": EARLIER}, {"role": "user", "content": QUESTION}], 1),
        ({"question": HumanMessage(QUESTION)}, 0),
        ({"input": [HumanMessage(EARLIER), HumanMessage(QUESTION)]}, 1),
        ({"question": QUESTION, "history": [HumanMessage(EARLIER), AIMessage("Venn.")]}, 2),
        ({"question": QUESTION, "log_of_mine": [HumanMessage(EARLIER)], "tags": ["a"]}, 1),
        ({"question": QUESTION, "history": []}, 0),
        ([HumanMessage([{"type": "text", "text": QUESTION}])], 0),
        ([HumanMessage(QUESTION), AIMessage("", tool_calls=[{"name": "s", "args": {}, "id": "1"}]),
          ToolMessage("found", tool_call_id="1")], 2),
    ],
)  # fmt: skip
def test_langchains_ways_of_asking(given: Any, unread: int) -> None:
    answer = LangChainFacades().ask(chain(), given)
    assert answer.question == QUESTION
    assert [n.values["messages"] for n in notes(answer)] == ([unread] if unread else [])


def test_an_image_beside_the_question_is_told_of() -> None:
    content: Any = [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": "x"}}]
    (note,) = notes(LangChainFacades().ask(chain(), HumanMessage(content)))
    assert note.values["other_parts"] == 1
    facades = LlamaIndexFacades()
    pictured = ChatMessage(role="user", blocks=[TextBlock(text=QUESTION), ImageBlock(url="http://x.example/i.png")])
    (note,) = notes(facades.ask(facades.engine(), pictured))
    assert note.values["other_parts"] == 1


@pytest.mark.parametrize("keys", [{}, {"input_messages_key": "question", "history_messages_key": "history"},
                                  {"input_messages_key": "question"}], ids=str)  # fmt: skip
def test_a_history_of_langchain_is_told_of_and_grows(keys: dict[str, str]) -> None:
    history = InMemoryChatMessageHistory()
    remembering = RunnableWithMessageHistory(chain(), lambda: history, history_factory_config=[], **keys)
    ask: Any = (lambda q: {"question": q}) if keys else (lambda q: [HumanMessage(q)])
    first = remembering.invoke(ask(EARLIER))
    second = remembering.invoke(ask(QUESTION))
    assert notes(Answer.from_dict(first.response_metadata["selfreflect"])) == []
    answer = Answer.from_dict(second.response_metadata["selfreflect"])
    assert answer.question == QUESTION
    assert notes(answer)[0].values["messages"] == 2
    assert [m.type for m in history.messages] == ["human", "ai", "human", "ai"]


async def test_a_history_is_heard_of_as_it_is_left_out() -> None:
    given = [HumanMessage(EARLIER), HumanMessage(QUESTION)]
    ear, others = Ear(), AsyncEar()
    chain().invoke(given, {"callbacks": [ear]})
    chain().batch([given, QUESTION], {"callbacks": [ear]})
    await chain().abatch([given, QUESTION], {"callbacks": [others]})
    for events, times in (([(n, d) for n, d, _ in ear.events], 2), (others.events, 1)):
        assert [d["kind"] for n, d in events if n == "selfreflect_decision"].count("history") == times


def test_a_batch_tells_each_question_its_own_and_refuses_alone() -> None:
    given = [QUESTION, [HumanMessage(EARLIER), HumanMessage(QUESTION)], AIMessage("no")]
    whole, after, refused = chain().batch(given, return_exceptions=True)  # type: ignore[arg-type]
    assert notes(Answer.from_dict(whole.response_metadata["selfreflect"])) == []
    assert len(notes(Answer.from_dict(after.response_metadata["selfreflect"]))) == 1
    assert isinstance(refused, QuestionError)


async def test_the_documents_come_back_as_a_retrieval_chain_gives_them() -> None:
    sourced = chain().with_sources()
    whole = sourced.invoke({"input": QUESTION, "user": "ann"})
    assert set(whole) == {"input", "user", "context", "answer", "message"}
    assert whole["answer"] == whole["message"].text
    assert all(isinstance(d, Document) for d in whole["context"])
    cited = whole["message"].content_blocks[0]["annotations"][0]  # type: ignore[typeddict-item]
    assert cited["extras"]["passage_id"] in {d.id for d in whole["context"]}
    assert await sourced.ainvoke({"input": QUESTION, "user": "ann"}) == whole
    assert sourced.invoke(QUESTION)["input"] == QUESTION


async def test_sources_stream_and_come_in_batches() -> None:
    sourced = chain().with_sources()
    whole = sourced.invoke(QUESTION)
    pieces = list(sourced.stream(QUESTION))
    assert [next(iter(p)) for p in pieces] == ["input", "context", *["answer"] * (len(pieces) - 3), "message"]
    assert "".join(p.get("answer", "") for p in pieces) == whole["answer"]
    assert [p async for p in sourced.astream(QUESTION)] == pieces
    assert sourced.batch([QUESTION, {"question": QUESTION}])[0] == whole
    assert (await sourced.abatch([QUESTION, EARLIER]))[0] == whole
    failed, fine = sourced.batch([AIMessage("no"), QUESTION], return_exceptions=True)
    assert isinstance(failed, QuestionError)
    assert fine == whole
    picked = RunnablePassthrough.assign(n=lambda x: len(x["context"]))
    assert (sourced | picked).invoke(QUESTION)["n"] == len(whole["context"])


def test_an_abstention_brings_what_was_read_and_may_be_raised() -> None:
    reader = LangChainFacades().reader(0.1)
    whole = chain(reader=reader).with_sources().invoke(QUESTION)
    assert len(whole["context"]) == 2
    with pytest.raises(AbstainedError):
        chain(reader=reader, on_abstain="raise").with_sources().invoke(QUESTION)
