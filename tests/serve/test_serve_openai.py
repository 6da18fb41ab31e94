"""Unchanged clients of OpenAI's API get checked answers by another base URL."""

from __future__ import annotations

from typing import Any

import pytest

from shared_core.errors import BackendUnavailableError
from shared_core.lm import ScriptedLM
from shared_core.serve import Limits, create_app
from shared_core.types import TextDelta
from tests.fakes import Shelf
from tests.serve.engines import MakeClient, Serve, dead_model, make_engine

openai = pytest.importorskip("openai")

QUESTION = "When was the lamp lit?"
TEXT = "The lamp was lit in 1871. [1]"


def ask(question: str = QUESTION, **more: Any) -> dict[str, Any]:
    return {"model": "gpt-4o", "messages": [{"role": "user", "content": question}], **more}


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


def dead_app() -> Any:
    return create_app(make_engine(lm=ScriptedLM(dead_model), pipeline="reclaim"))


def openai_client(url: str, key: str = "sesame") -> Any:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)


def test_the_openai_client_is_answered_and_streamed_to(serve: Serve) -> None:
    with openai_client(serve(create_app(make_engine(), limits=Limits(key="sesame")))) as client:
        done = client.chat.completions.create(**ask(temperature=0.3, stop=["\n"], tool_choice="auto", user="me"))
        assert done.choices[0].message.content == TEXT
        assert done.choices[0].finish_reason == "stop"
        assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens
        extra = done.model_extra["selfreflect"]
        assert extra["confidence"] == pytest.approx(0.9)
        assert extra["citations"][0]["text"] == "The lamp was lit in 1871."
        chunks = list(client.chat.completions.create(**ask(stream=True, stream_options={"include_usage": True})))
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == TEXT
        assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
        assert chunks[-2].model_extra["selfreflect"]["citations"] == extra["citations"]
        assert chunks[-1].usage is not None
        assert [m.id for m in client.models.list()] == ["selfreflect"]


def test_errors_are_the_clients_own(serve: Serve) -> None:
    url = serve(create_app(make_engine(), limits=Limits(key="sesame")))
    with openai_client(url, "wrong") as client, pytest.raises(openai.AuthenticationError):
        client.chat.completions.create(**ask())
    with openai_client(url) as client:
        image = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
        for wrong in (
            {"n": 2},
            {"response_format": {"type": "json_object"}},
            {"messages": []},
            {"logprobs": True, "top_logprobs": 2},
            {"tools": [TOOL], "tool_choice": "required"},
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "look"}}},
            {"modalities": ["text", "audio"]},
            {"messages": [{"role": "user", "content": image}]},
        ):
            with pytest.raises(openai.BadRequestError) as caught:
                client.chat.completions.create(**{**ask(), **wrong})
            assert caught.value.body["type"] == "invalid_request_error"  # type: ignore[index]
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("gpt-4o")


@pytest.mark.parametrize("stream", [False, True])
def test_a_dead_model_is_a_bad_gateway(serve: Serve, stream: bool) -> None:
    with (
        openai_client(serve(dead_app())) as client,
        pytest.raises(openai.InternalServerError, match="The model server is down") as caught,
    ):
        client.chat.completions.create(**ask(stream=stream))
    assert caught.value.status_code == 502


def test_an_abstention_is_text_with_its_reason(client: MakeClient) -> None:
    reply = client(make_engine(support=0.2)).post("/v1/chat/completions", json=ask()).json()
    assert reply["choices"][0]["message"]["content"]
    assert reply["selfreflect"]["abstained"]
    assert reply["selfreflect"]["reason"] == "support below target"


def test_a_follow_up_is_read_with_what_was_said_before(client: MakeClient) -> None:
    shelf = Shelf()
    messages = [
        {"role": "user", "content": "Who sailed the Marrow?"},
        {"role": "assistant", "content": "The Marrow sailed under Captain Ila Venn."},
        {"role": "user", "content": "And what salt did it carry?"},
    ]
    client(make_engine(retriever=shelf)).post("/v1/chat/completions", json=ask(messages=messages))
    assert any("Marrow" in query for query in shelf.queries)


def test_the_last_message_of_the_user_is_the_question(client: MakeClient) -> None:
    parts = [{"type": "image_url", "image_url": {"url": "data:,"}}, {"type": "text", "text": QUESTION}]
    messages = [
        {"role": "system", "content": "Answer in French."},
        {"role": "user", "content": "Who sailed the Marrow?"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "user", "content": parts},
    ]
    reply = client().post("/v1/chat/completions", json=ask(messages=messages)).json()
    assert reply["choices"][0]["message"]["content"] == TEXT


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"messages": "hello"}', b'{"messages": [{"role": "user", "content": 5}]}', b"\xff\xfe"]
)
def test_a_bad_body_is_an_error_in_the_known_form(client: MakeClient, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    response = client().post("/v1/chat/completions", content=body, headers=headers)
    assert response.status_code == 400
    assert set(response.json()["error"]) >= {"message", "type", "param", "code"}


def test_a_stream_that_breaks_off_is_an_error_of_the_client(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine()

    async def breaking(self: Any, question: Any) -> Any:
        yield TextDelta("The lamp ")
        raise BackendUnavailableError("The model server is down.", hint="Start it.")

    monkeypatch.setattr(type(engine), "astream", breaking)
    with openai_client(serve(create_app(engine))) as client:
        stream = client.chat.completions.create(**ask(stream=True))
        with pytest.raises(openai.APIError, match="The model server is down"):
            list(stream)


def test_langchains_chat_model_is_answered(serve: Serve) -> None:
    chat = pytest.importorskip("langchain_openai").ChatOpenAI
    url = serve(create_app(make_engine()))
    model = chat(model="any", base_url=f"{url}/v1", api_key="none", temperature=0, max_retries=0)
    assert model.invoke(QUESTION).content == TEXT
    assert "".join(chunk.content for chunk in model.stream(QUESTION)) == TEXT
    offered = model.bind_tools([TOOL]).invoke(QUESTION)  # an agent then takes the text for its answer
    assert (offered.content, offered.tool_calls) == (TEXT, [])
    with pytest.raises(openai.BadRequestError, match="No tool is called here"):
        model.bind_tools([TOOL], tool_choice="required").invoke(QUESTION)
    with pytest.raises(openai.BadRequestError, match="log-probabilities"):
        list(model.bind(logprobs=True).stream(QUESTION))
    dead = chat(model="any", base_url=f"{serve(dead_app())}/v1", api_key="none", max_retries=0)
    with pytest.raises(openai.InternalServerError, match="The model server is down"):
        dead.invoke(QUESTION)


def test_llama_indexs_model_is_answered(serve: Serve) -> None:
    like = pytest.importorskip("llama_index.llms.openai_like").OpenAILike
    message = pytest.importorskip("llama_index.core.llms").ChatMessage
    known = {"model": "any", "api_key": "none", "is_chat_model": True, "max_retries": 0}
    model = like(api_base=f"{serve(create_app(make_engine()))}/v1", **known)
    assert model.complete(QUESTION).text == TEXT
    assert [part.delta for part in model.stream_complete(QUESTION)][-1] is not None
    asked = [message(role="user", content=QUESTION)]
    assert model.chat(asked).message.content == TEXT
    assert "".join(part.delta or "" for part in model.stream_chat(asked)) == TEXT
    with pytest.raises(openai.BadRequestError, match="log-probabilities"):
        model.chat(asked, logprobs=True, top_logprobs=2)
    with pytest.raises(openai.InternalServerError, match="The model server is down"):
        like(api_base=f"{serve(dead_app())}/v1", **known).complete(QUESTION)
