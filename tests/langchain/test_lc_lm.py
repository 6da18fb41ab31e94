"""The adapter of a chat model: what goes in, what comes out, what it claims to be able to do."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.documents import Document
from langchain_core.globals import set_llm_cache
from langchain_core.language_models import BaseChatModel, FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda

from langchain_selfreflect import LangChainLM
from langchain_selfreflect._retrieval import LangChainRetriever
from shared_core.errors import GenerationError, InputError, ResponseError
from shared_core.lm.base import Generate, Generation, LanguageModel, Prompt, Sample, SamplingParams
from shared_core.types import Usage
from tests.langchain.lc_fakes import Ear, TalkingModel, TunableModel


def ask(text: str = "When?", **params: Any) -> Generate:
    return Generate(Prompt.trusted(text), SamplingParams(**params))


def one(lm: LangChainLM, request: Generate) -> Sample:
    (result,) = lm.generate([request])
    assert isinstance(result, Generation), result
    return result.samples[0]


def test_it_is_a_language_model_and_keeps_the_models_name() -> None:
    assert isinstance(LangChainLM(TalkingModel()), LanguageModel)
    assert LangChainLM(TunableModel()).name == "tunable-1"
    assert LangChainLM(TunableModel().bind(x=1)).name == "tunable-1"
    assert LangChainLM(TalkingModel(), name="mine").name == "mine"


# --- prompts -------------------------------------------------------------------------------------------------------


def test_roles_become_messages_and_a_raw_prompt_one_human_message() -> None:
    model = TalkingModel()
    chat = (
        Prompt.trusted("Be brief.", "system")
        + Prompt.trusted("Question: ", "user")
        + Prompt.untrusted("When?", "user")
        + Prompt.trusted("Then.", "assistant")
        + Prompt.untrusted("Where?", "user")
    )
    LangChainLM(model).generate([Generate(chat), ask("raw")])
    kinds = sorted([[(m.type, m.content) for m in call.messages] for call in model.seen], key=len)
    assert kinds[0] == [("human", "raw")]
    assert kinds[1] == [("system", "Be brief."), ("human", "Question: When?"), ("ai", "Then."), ("human", "Where?")]


# --- options -------------------------------------------------------------------------------------------------------


def test_options_are_set_where_the_model_has_them_and_left_out_where_not() -> None:
    tunable, plain = TunableModel(), TalkingModel()
    request = ask(temperature=0.3, max_tokens=11, top_k=5, seed=1)
    LangChainLM(tunable).generate([request])
    LangChainLM(plain).generate([request])
    assert tunable.seen[0].kwargs == {"temperature": 0.3, "max_tokens": 11}
    assert plain.seen[0].kwargs == {}
    assert tunable.temperature == 0.9  # the user's own model is not changed


def test_a_wrapped_model_gets_them_as_keywords() -> None:
    model = TunableModel()
    LangChainLM(model.bind(user="x").with_retry()).generate([ask(temperature=0.3, max_tokens=11)])
    assert model.seen[0].kwargs == {"temperature": 0.3, "max_tokens": 11, "user": "x"}


def test_samples_at_a_temperature_that_cannot_be_set_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    plain, tunable = LangChainLM(TalkingModel()), LangChainLM(TunableModel())
    for lm in (plain, plain, tunable):
        lm.generate([ask(n=2, temperature=1.0)])
    assert [r.getMessage() for r in caplog.records if "temperature" in r.getMessage()] == [
        "TalkingModel takes no temperature: all samples are drawn at the model's own"
    ]


async def test_of_calls_made_at_once_all_are_tried_again_without_what_the_model_refuses() -> None:
    """The first to fail must not keep the others from being tried again; an error that stays must end the trying."""
    cured = True
    started = threading.Barrier(4, timeout=10)

    class Refusing(TunableModel):
        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
            if self.temperature is not None:
                started.wait()
            if self.temperature is not None or not cured:
                raise ValueError("Unsupported value: 'temperature' does not support 0.7 with this model.")
            return self._answer("sync", messages, stop, {})

        async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
            return await asyncio.to_thread(self._generate, messages, stop)

    requests = [ask(f"q{i}") for i in range(4)]
    model = Refusing(temperature=None)
    for results in (LangChainLM(model).generate(requests), await LangChainLM(model).agenerate(requests)):
        assert [type(r) for r in results] == [Generation] * 4
    cured = False
    assert all(isinstance(r, GenerationError) for r in LangChainLM(model).generate(requests))


# --- ends ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", ["plain", "own cache", "retry", "fallbacks"])
async def test_samples_do_not_come_from_a_cache_of_langchain(wrap: str) -> None:
    """All of them would be the first one, and a model that guesses would seem certain."""
    count = itertools.count()
    model, other = (TunableModel(reply=lambda prompt: f"Guess {next(count)}.") for _ in range(2))
    cached: Any = model.model_copy(update={"cache": InMemoryCache()}) if wrap == "own cache" else model
    cached = {"retry": model.with_retry(), "fallbacks": model.with_fallbacks([other])}.get(wrap, cached)
    lm = LangChainLM(cached, max_concurrency=1)
    if wrap != "own cache":
        set_llm_cache(InMemoryCache())
    try:
        for [result] in (lm.generate([ask(n=3, temperature=1.0)]), await lm.agenerate([ask(n=3, temperature=1.0)])):
            assert isinstance(result, Generation), result
            assert len({sample.text for sample in result.samples}) == 3
        assert one(lm, ask("Greedy?")).text == one(lm, ask("Greedy?")).text, "what is not drawn may be cached"
    finally:
        set_llm_cache(None)


@pytest.mark.parametrize(("stop", "include", "text", "passed_on"), [
    (("\nQuestion:", "then"), False, "1871", 2), (("?",), True, "1871\nQuestion: and then?", 0),
    (("5", "6", "9", "0", "71"), False, "18", 4),  # no more than providers take
])  # fmt: skip
def test_stop_strings_are_passed_on_and_cut_here_too(
    stop: tuple[str, ...], include: bool, text: str, passed_on: int
) -> None:
    model = TalkingModel(reply=lambda p: "1871\nQuestion: and then? Then.")
    sample = one(LangChainLM(model), ask(stop=stop, include_stop=include))
    assert (sample.text, sample.finish_reason, sample.stop in stop) == (text, "stop", True)
    assert model.seen[0].stop == (list(stop[:passed_on]) or None)


# --- log-probabilities ---------------------------------------------------------------------------------------------


def test_unreadable_logprobs_are_unknown_not_confident() -> None:
    reply = AIMessage("yes!", response_metadata={"logprobs": "none"})
    lm = LangChainLM(RunnableLambda(lambda m, **kwargs: reply), logprobs=True)
    assert one(lm, ask(logprobs=True)).logprobs is None


@pytest.mark.parametrize("gives", [True, False])
def test_a_probe_asks_once(gives: bool) -> None:
    model = TalkingModel(gives_logprobs=gives)
    lm = LangChainLM(model, logprobs="probe")
    assert model.seen == []
    assert lm.capabilities.token_logprobs is gives
    assert lm.capabilities.token_logprobs is gives
    assert len(model.seen) == 1


def test_a_probe_that_fails_for_another_reason_is_tried_again() -> None:
    answers: list[Any] = [ConnectionError("down"), "yes"]
    model = TalkingModel(gives_logprobs=True, reply=lambda p: answers.pop(0))
    lm = LangChainLM(model, logprobs="probe")
    assert lm.capabilities.token_logprobs is False
    assert lm.capabilities.token_logprobs is True


def test_auto_probes_only_a_model_that_knows_the_option() -> None:
    plain, knowing = TalkingModel(gives_logprobs=True), TunableModel(gives_logprobs=True)
    assert not LangChainLM(plain).capabilities.token_logprobs
    assert plain.seen == []
    assert LangChainLM(knowing).capabilities.token_logprobs
    assert not LangChainLM(GenericFakeChatModel(messages=iter(["x"]))).capabilities.token_logprobs


# --- many requests, failures, usage --------------------------------------------------------------------------------


async def test_async_calls_use_the_models_own_async_form() -> None:
    model = TalkingModel()
    await LangChainLM(model).agenerate([ask(n=2, temperature=1.0)])
    assert [call.how for call in model.seen] == ["async", "async"]


def test_usage_is_the_providers_added_up() -> None:
    (result,) = LangChainLM(TalkingModel()).generate([ask(n=3, temperature=1.0)])
    assert isinstance(result, Generation)
    assert result.usage == Usage(calls=3, prompt_tokens=21, generated_tokens=6, cached_tokens=9)


def test_content_blocks_and_plain_strings_are_read() -> None:
    blocks = AIMessage([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "1871"}])
    assert one(LangChainLM(RunnableLambda(lambda m: blocks)), ask()).text == "1871"
    assert one(LangChainLM(RunnableLambda(lambda m: "1871")), ask()).text == "1871"
    assert one(LangChainLM(FakeListChatModel(responses=["1871"])), ask()).text == "1871"
    (result,) = LangChainLM(RunnableLambda(lambda m: 3)).generate([ask()])
    assert isinstance(result, ResponseError)


class SyncModel(BaseChatModel):
    """Has no async form, and hangs."""

    let_go: threading.Event

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        self.let_go.wait(20)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("1871"))])

    @property
    def _llm_type(self) -> str:
        return "sync"


class SyncRetriever(BaseRetriever):
    """Likewise."""

    let_go: threading.Event

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        self.let_go.wait(20)
        return []


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: m.bind(user="ann"), lambda m: m.with_fallbacks([m])])
def test_the_event_loop_does_not_wait_at_its_end_for_a_sync_model_that_hangs(wrap: Any) -> None:
    let_go = threading.Event()
    begun = time.monotonic()
    lm = LangChainLM(wrap(SyncModel(let_go=let_go)), timeout=0.2)
    (result,) = asyncio.run(lm.agenerate([ask()]))
    let_go.set()
    assert "did not answer within 0.2 s" in result.message  # type: ignore[union-attr]
    assert time.monotonic() - begun < 10


def test_nor_for_such_a_retriever() -> None:
    let_go = threading.Event()
    begun = time.monotonic()

    async def retrieve() -> None:
        async with asyncio.timeout(0.2):
            await LangChainRetriever(SyncRetriever(let_go=let_go)).aretrieve("lamp")

    with pytest.raises(TimeoutError):
        asyncio.run(retrieve())
    let_go.set()
    assert time.monotonic() - begun < 10


def test_callbacks_of_the_model_itself_are_kept() -> None:
    ear = Ear()
    LangChainLM(TalkingModel(callbacks=[ear])).generate([ask(n=2)])
    assert len(ear.ids("llm")) == 2


@pytest.mark.parametrize("kwargs", [{"timeout": "x"}, {"context_length": 0}])
def test_wrong_arguments_are_refused(kwargs: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        LangChainLM(TalkingModel(), **kwargs)
    with pytest.raises(InputError):
        LangChainLM("gpt-4")  # type: ignore[arg-type]
