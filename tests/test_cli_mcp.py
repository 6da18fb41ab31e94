"""`selfreflect mcp`: the tools that an agent's client sees and what they say."""

from __future__ import annotations

from typing import Any

import pytest

from shared_core import Passage, SelfReflectEngine
from shared_core.cli.serve import make_server
from shared_core.errors import RetrievalError
from shared_core.retrieval import BM25Retriever

mcp = pytest.importorskip("mcp")

ENGINE = SelfReflectEngine(
    BM25Retriever(
        [
            Passage("lamp", "The lamp of Vessen was lit in 1871.", metadata={"source": "lamps.md"}),
            Passage("sea", "The Selm strait is 3 miles wide.", metadata={"source": "sea.md"}),
        ]
    )
)


async def call(name: str, **arguments: Any) -> str:
    async with mcp.Client(make_server(ENGINE)) as client:
        result = await client.call_tool(name, arguments)
    assert not result.is_error, result
    text: str = result.content[0].text
    return text


async def test_the_tools_are_listed_with_what_they_take() -> None:
    async with mcp.Client(make_server(ENGINE)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {"ask", "search", "check"}
    assert list(tools["ask"].input_schema["properties"]) == ["question"]
    assert all(tool.description for tool in tools.values())


async def test_ask_quotes_its_source_or_says_no_answer() -> None:
    lines = (await call("ask", question="When was the lamp of Vessen lit?")).splitlines()
    assert lines[0] == "The lamp of Vessen was lit in 1871. [1]"
    assert lines[2] == "[1] “The lamp of Vessen was lit in 1871.” (lamps.md)"
    nothing = await call("ask", question="Who painted the lamp of Vessen?")
    assert nothing.startswith("NO ANSWER: ")
    assert "1871" not in nothing


async def test_search_and_check() -> None:
    assert (await call("search", query="Selm strait", k=1)).splitlines()[0] == "[1] sea.md"
    assert await call("search", query="zzz") == "No passage matches."
    told = await call("check", text="The lamp of Vessen was lit in 1871. The sea is warm.")
    assert [line.split(":")[0] for line in told.splitlines()] == ["supported", "unsupported"]


async def test_an_error_says_why_and_what_to_do() -> None:
    class Down(BM25Retriever):
        def retrieve(self, query: str, k: int = 5) -> Any:
            raise RetrievalError("The store is down.", hint="Start it.")

    async with mcp.Client(make_server(SelfReflectEngine(Down([Passage("p", "Text.")])))) as client:
        for name, given, said in (
            ("ask", {"question": ""}, "non-empty text, not ''.\nHint: Ask in words."),
            ("check", {"text": ""}, "An answer to check must be non-empty text"),
            ("search", {"query": "Selm"}, "The store is down.\nHint: Start it."),
        ):
            result = await client.call_tool(name, given)
            assert result.is_error
            assert said in result.content[0].text
