"""What goes into the chain and what comes out: a question in several forms, and a message with citations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import convert_to_openai_messages, messages_from_dict, messages_to_dict
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda

from langchain_selfreflect import SelfReflectLoader
from shared_core import Answer
from shared_core.errors import QuestionError
from tests.fakes import Shelf
from tests.langchain.lc_fakes import QUESTION, ShelfRetriever, TalkingModel, block, chain, documents, merged, ours

# --- questions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["question", "input", "query", "frage"])
def test_a_dict_holds_the_question_under_the_usual_keys(key: str) -> None:
    made = chain(0.9, input_key="frage")
    assert made.invoke({key: QUESTION}) == made.invoke(QUESTION)


@pytest.mark.parametrize("bad", ["", "  ", {}, {"text": QUESTION}, {"question": None}, {"question": 3}, 7, None])
def test_an_input_without_a_question_is_refused(bad: Any) -> None:
    with pytest.raises(QuestionError) as caught:
        chain(0.9).invoke(bad)
    assert caught.value.hint
    with pytest.raises(QuestionError):
        list(chain(0.9).stream(bad))


def test_an_input_that_comes_in_pieces_is_joined() -> None:
    expected = chain(0.9).invoke(QUESTION)
    assert merged(chain(0.9).transform(iter(["When was ", "the lamp lit?"]))) == expected
    assert merged(chain(0.9).transform(iter([{"question": "When was "}, {"other": "x"}]))).text
    upstream = RunnableLambda(lambda x: x["q"]) | chain(0.9)
    assert upstream.invoke({"q": QUESTION}) == expected


# --- messages ------------------------------------------------------------------------------------------------------


def test_the_message_holds_the_text_with_citations_whose_offsets_hold() -> None:
    message = chain(0.9, 0.8, target_accuracy=0.6).invoke(QUESTION)
    text = block(message)
    first, second = text["annotations"]
    shelf = documents()
    assert message.text == text["text"] == "The lamp was lit in 1871. [1] A second lamp was lit in 1899. [2]"
    for citation, document in ((first, shelf[0]), (second, shelf[2])):
        extras = citation["extras"]
        assert citation["type"] == "citation"
        assert document.page_content[extras["start"] : extras["end"]] == citation["cited_text"]
        assert text["text"][citation["start_index"] : citation["end_index"]] == citation["cited_text"]
        assert extras["match"] == "verbatim"
    assert first["title"] == "Lamps"
    assert first["extras"]["source"] == "lamps.md"
    assert first["extras"]["support"] == 0.9
    assert (first["extras"]["source_start"], first["extras"]["source_end"]) == (100, 125)
    assert second["extras"]["passage_id"] == "lamp-2"
    assert "source_start" not in second["extras"]


@pytest.mark.parametrize("split", ["not", "with its place", "without"])
def test_quotes_of_files_are_where_the_citation_says_or_nowhere(tmp_path: Path, split: str) -> None:
    rules = "# Rules\n\n## Bikes\nBikes stay outside.\n\n## Lamp\nThe lamp was lit in 1871. It burns oil all night.\n"
    (tmp_path / "rules.md").write_text(rules, "utf-8")
    (found,) = [d for d in SelfReflectLoader(tmp_path / "rules.md").load() if "lit in" in d.page_content]
    begin = 0 if split == "not" else found.page_content.index("The lamp")
    place = {"start_index": begin} if split == "with its place" else {}
    piece = Document(found.page_content[begin:], metadata={**found.metadata, **place})  # as a text splitter makes it
    message = chain(0.9, retriever=ShelfRetriever(docs=[piece])).invoke(QUESTION)
    (citation,) = block(message)["annotations"]
    where = slice(citation["extras"].get("source_start"), citation["extras"].get("source_end"))
    assert where == slice(None) if split == "without" else rules[where] == citation["cited_text"]


def test_the_content_is_plain_text_as_of_any_chat_model() -> None:
    answered, abstained = chain(0.9).invoke(QUESTION), chain(0.3).invoke(QUESTION)
    for message in (answered, abstained, merged(chain(0.9).stream(QUESTION))):
        assert isinstance(message.content, str)
        assert message.content == message.text
    assert all(isinstance(p.content, str) for p in chain(0.9).stream(QUESTION))
    assert answered.additional_kwargs["citations"] == block(answered)["annotations"]
    assert "citations" not in abstained.additional_kwargs
    history = ChatPromptTemplate([("placeholder", "{history}"), ("human", "And who lit it?")])
    assert answered.text in history.invoke({"history": [answered]}).to_string()
    (told,) = convert_to_openai_messages([answered])
    assert told == {"role": "assistant", "content": answered.text}


def test_messages_that_were_stored_still_have_their_citations() -> None:
    message = chain(0.9).invoke(QUESTION)
    (again,) = messages_from_dict(json.loads(json.dumps(messages_to_dict([message]))))
    assert again.content_blocks == message.content_blocks
    assert again == message


def test_a_source_on_the_web_becomes_the_url() -> None:
    (citation,) = block(chain(0.9).invoke("Who was captain of the Marrow?"))["annotations"]
    assert citation["url"] == "https://ships.example/venn"
    assert citation["extras"]["passage_id"] == "ship"


def test_the_whole_answer_stands_under_one_key() -> None:
    message = chain(0.9).invoke(QUESTION)
    assert set(message.response_metadata) == {"model_provider", "selfreflect"}
    answer = Answer.from_dict(json.loads(json.dumps(ours(message))))
    assert answer.text == message.text
    assert answer.trace[-1].kind == "answer"
    assert answer.passages == ()  # their texts stay where they are, unless they are asked for
    assert [set(p) for p in ours(message)["passages"]] == [{"id", "title", "score"}] * 2
    assert documents()[0].page_content not in json.dumps(ours(message))
    whole = Answer.from_dict(ours(chain(0.9, include_passages=True).invoke(QUESTION)))
    assert whole.passages[0].text == documents()[0].page_content


def test_usage_of_the_model_is_reported_where_it_is_known() -> None:
    message = chain(None, retriever=Shelf(()), on_abstain="fallback", llm=TalkingModel()).invoke(QUESTION)
    assert message.usage_metadata == {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}
    assert chain(0.9).invoke(QUESTION).usage_metadata is None


def test_the_string_parser_gives_the_plain_text() -> None:
    piped = chain(0.9) | StrOutputParser()
    expected = "The lamp was lit in 1871. [1] A second lamp was lit in 1899. [2]"
    assert piped.invoke(QUESTION) == expected
    assert "".join(piped.stream(QUESTION)) == expected
