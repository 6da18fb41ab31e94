"""How models are called, on both frameworks: at once but no more than allowed, in the caller's context, tagged."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms import MockLLM

from langchain_selfreflect import LangChainLM
from llamaindex_selfreflect import LlamaIndexLM
from shared_core.errors import InputError, LanguageModelError
from shared_core.lm import Generate, Generation, Prompt, SamplingParams
from tests.contract.sides import Side

MANY = [Generate(Prompt.trusted(f"Say {i}: ")) for i in range(6)]
SAMPLED = Generate(Prompt.trusted("Say it: "), SamplingParams(n=6, temperature=1.0, seed=5))


@pytest.mark.parametrize("requests", [MANY, [SAMPLED]], ids=["requests", "samples"])
async def test_calls_are_made_at_once_but_no_more_than_allowed(framework: Side, requests: list[Generate]) -> None:
    lm = framework.lm(lambda p: p, pace=0.05, max_concurrency=3)
    lm.generate(requests)
    assert framework.model.busiest == 3
    framework.model.busiest = 0
    await lm.agenerate(requests)
    assert framework.model.busiest == 3


def test_one_at_a_time_keeps_the_order(framework: Side) -> None:
    lm = framework.lm(lambda p: p, max_concurrency=1)
    lm.generate(MANY)
    assert framework.model.prompts == [f"Say {i}: " for i in range(6)]
    assert framework.model.busiest == 1


def test_samples_have_seeds_of_their_own(framework: Side) -> None:
    framework.lm(lambda p: p).generate([SAMPLED])
    assert sorted(s.options["seed"] for s in framework.model.seen) == [5, 6, 7, 8, 9, 10]


def test_a_model_that_computes_here_is_called_one_at_a_time() -> None:
    class Weights:
        pass

    Weights.__module__ = "transformers.models.llama"

    class Local(MockLLM):
        _model: Any = None

        def __init__(self) -> None:
            super().__init__()
            self._model = Weights()

    class LocalChat(GenericFakeChatModel):
        pipeline: Any = None

    assert (
        LlamaIndexLM(MockLLM()).max_concurrency
        == LangChainLM(GenericFakeChatModel(messages=iter(()))).max_concurrency
        == 8
    )
    assert LlamaIndexLM(Local()).max_concurrency == 1
    assert LangChainLM(LocalChat(messages=iter(()), pipeline=Weights())).max_concurrency == 1
    assert LangChainLM(LocalChat(messages=iter(()), pipeline=Weights()), max_concurrency=4).max_concurrency == 4


def test_calls_see_the_callers_context(framework: Side) -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    heard: list[str] = []

    def script(prompt: str) -> str:
        heard.append(who.get())
        return "fine"

    lm = framework.lm(script)
    who.set("ann")
    lm.generate(MANY[:2])
    assert heard == ["ann", "ann"]


@pytest.mark.parametrize("options", [
    {"max_concurrency": 0}, {"max_concurrency": 2.5}, {"timeout": 0}, {"timeout": -1}, {"thinking_tokens": -1},
    {"logprobs": "sometimes"},
], ids=str)  # fmt: skip
def test_options_out_of_range_are_refused(framework: Side, options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        framework.lm(lambda p: p, **options)


async def test_what_a_model_refuses_is_left_out_from_then_on(framework: Side) -> None:
    def picky(prompt: str) -> Any:
        options = framework.model.seen[-1].options
        if options.get("temperature") == 0.7:
            return ValueError("Unsupported value: 'temperature' does not support 0.7, only the default (1)")
        for option in ("seed", "logprobs"):
            if options.get(option):
                return TypeError(f"create() got an unexpected keyword argument '{option}'")
        return "ok"

    lm: Any = framework.lm(picky, logprobs="probe")
    assert not lm.capabilities.token_logprobs
    asked = Generate(Prompt.trusted("Say a word."), SamplingParams(temperature=0.7, seed=3))
    assert lm.generate([asked])[0].text == (await lm.agenerate([asked]))[0].text == "ok"
    assert lm.refused == {"temperature", "seed", "logprobs"}
    assert len(framework.model.seen) == 2 + 3 + 1  # the probe, what is refused by and by, and the same at once


def test_an_error_that_only_names_an_option_refuses_nothing(framework: Side) -> None:
    lm: Any = framework.lm(lambda prompt: ValueError("temperature of the server room is too high"))
    assert isinstance(lm.generate([MANY[0]])[0], LanguageModelError)
    assert lm.refused == frozenset()


# --- tags ----------------------------------------------------------------------------------------------------------


class Screen(BaseCallbackHandler):
    """Shows what a LangGraph app with ``stream_mode="messages"`` would: replies of calls that are not tagged."""

    def __init__(self) -> None:
        self.shown: list[Any] = []
        self.hidden: list[Any] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, *, tags: Any = None, **kwargs: Any) -> None:
        (self.hidden if "nostream" in (tags or ()) else self.shown).append(messages)

    def on_llm_start(self, serialized: Any, prompts: Any, *, tags: Any = None, **kwargs: Any) -> None:
        (self.hidden if "nostream" in (tags or ()) else self.shown).append(prompts)


async def test_inner_calls_do_not_reach_the_screen_of_a_langgraph_app() -> None:
    screen = Screen()
    lm = LangChainLM(GenericFakeChatModel(messages=iter([AIMessage("<claim>draft</claim>")] * 9)))

    def node(question: str) -> str:
        return str([r for r in lm.generate([MANY[0]] * 2) if isinstance(r, Generation)])

    async def anode(question: str) -> str:
        return str([r for r in await lm.agenerate([MANY[0]] * 2) if isinstance(r, Generation)])

    chain = RunnableLambda(node, afunc=anode)
    chain.invoke("?", {"callbacks": [screen], "tags": ["mine"]})
    await chain.ainvoke("?", {"callbacks": [screen], "tags": ["mine"]})
    assert screen.shown == []
    assert len(screen.hidden) == 4


async def test_inner_calls_are_tagged_among_langchains_events() -> None:
    lm = LangChainLM(GenericFakeChatModel(messages=iter([AIMessage("a draft")] * 9)))

    async def node(question: str) -> str:
        await lm.agenerate([MANY[0]])
        return "done"

    chain = RunnableLambda(node)
    events = [e async for e in chain.astream_events("?", version="v2")]
    inner = [e for e in events if "chat_model" in e["event"]]
    assert inner
    assert all({"nostream", "selfreflect:inner"} <= set(e["tags"]) for e in inner)
    left = [e async for e in chain.astream_events("?", version="v2", exclude_tags=["nostream"])]
    assert not [e for e in left if "chat_model" in e["event"]]


async def test_inner_calls_are_tagged_among_llamaindexs_events() -> None:
    class Listener(BaseEventHandler):
        tags: list[Any] = []  # noqa: RUF012

        @classmethod
        def class_name(cls) -> str:
            return "Listener"

        def handle(self, event: Any, **kwargs: Any) -> None:
            if event.class_name().startswith("LLM"):
                self.tags.append(dict(event.tags))

    listener = Listener(tags=[])
    get_dispatcher().add_event_handler(listener)
    llm = MockLLM(max_tokens=1)
    try:
        LlamaIndexLM(llm).generate(MANY[:2])
        await LlamaIndexLM(llm).agenerate(MANY[:2])
        assert len(listener.tags) >= 8
        assert all(t.get("selfreflect") == "inner" for t in listener.tags)
        listener.tags.clear()
        llm.complete("mine")
        assert all("selfreflect" not in t for t in listener.tags)
    finally:
        get_dispatcher().event_handlers.remove(listener)


async def test_a_cancelled_caller_leaves_no_call_behind(framework: Side) -> None:
    lm = framework.lm(lambda p: "late", pace=5.0)
    task = asyncio.ensure_future(lm.agenerate(MANY))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert framework.model.busy == 0
