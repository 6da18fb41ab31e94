"""What goes wrong at a provider: the same error in the same words on every side, the provider's class catchable."""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
import re
import traceback
from typing import Any

import openai
import pytest
from langchain_core.runnables import RunnableLambda

from langchain_selfreflect import SelfReflectChain
from shared_core import Passage, SelfReflectEngine
from shared_core.errors import BackendUnavailableError, CapabilityError, ContextOverflowError, LanguageModelError
from shared_core.lm import Generate, Generation, Prompt, SamplingParams
from shared_core.lm.base import Capture, Grammar, HiddenStates, Score
from shared_core.settings import ReclaimSettings, SelfReflectSettings
from tests.contract.provider_errors import KEY, OTHERS, REFUSALS, RateLimitError
from tests.contract.sides import SIDES, Side
from tests.fakes import Shelf
from tests.langchain.lc_fakes import QUESTION, ShelfRetriever

ASK = Generate(Prompt.trusted("Say a word."))


def failure(side: Side, said: Any, **options: Any) -> LanguageModelError:
    (found,) = side.lm(lambda _: said() if callable(said) else said, **options).generate([ASK])
    assert isinstance(found, LanguageModelError), found
    return found


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_is_the_same_error_in_the_same_words_on_every_side(name: str) -> None:
    refusal = REFUSALS[name]
    said: set[str] = set()
    for kind in SIDES.values():
        side = kind()
        error = failure(side, refusal.error)
        side.close()
        assert isinstance(error, refusal.ours)
        assert refusal.words in error.message
        said.add(re.sub(r"^(?:The language model 'scripted'|http://[\d.:]+/v1)", "", error.message))
    assert len(said) == 1, said


@pytest.mark.parametrize("name", REFUSALS)
async def test_the_sdks_class_stays_catchable(framework: Side, name: str) -> None:
    refusal = REFUSALS[name]
    lm = framework.lm(lambda _: refusal.error())
    for error in (lm.generate([ASK])[0], (await lm.agenerate([ASK]))[0]):
        assert isinstance(error, refusal.ours)
        assert isinstance(error, refusal.raised)
        assert error.status_code == refusal.status
        assert error.response.headers["retry-after"] == "7"
        with pytest.raises(refusal.raised):
            raise error


@pytest.mark.parametrize("name", OTHERS)
async def test_whatever_a_client_raises_is_one_of_our_errors(framework: Side, name: str) -> None:
    make, ours = OTHERS[name]
    lm = framework.lm(lambda _: make())
    for error in (lm.generate([ASK])[0], (await lm.agenerate([ASK]))[0]):
        assert isinstance(error, ours), error
        assert str(error)
        assert repr(error)
        if name != "StopIteration":  # thrown into a flow it would end it
            assert isinstance(error, type(make()))
            assert error.message == error.args[0]


def test_an_error_of_both_classes_survives_pickling_and_copying(framework: Side) -> None:
    for make in (REFUSALS["429"].error, lambda: RateLimitError("slow down"), lambda: ConnectionError("no route")):
        error = failure(framework, make)
        for twin in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
            assert type(twin) is type(error)
            assert (str(twin), twin.hint, twin.args) == (str(error), error.hint, error.args)


def test_an_error_whose_class_cannot_be_found_again_is_ours_alone(framework: Side) -> None:
    class Local(Exception):
        pass

    error = failure(framework, lambda: Local("gone"))
    assert isinstance(error, Local)
    twin = pickle.loads(pickle.dumps(error))
    assert isinstance(twin, LanguageModelError)
    assert twin.message == error.message


def test_a_class_that_can_be_no_base_is_kept_as_the_cause(framework: Side) -> None:
    from pydantic import BaseModel, ValidationError

    class Form(BaseModel):
        number: int

    def make() -> Exception:
        try:
            Form(number="one")  # type: ignore[arg-type]
        except ValidationError as error:
            return error
        raise AssertionError

    error = failure(framework, make)
    assert isinstance(error.__cause__, ValidationError)


@pytest.mark.parametrize(("capability", "params"), [
    ("grammar", {"grammar": Grammar('start: "a"')}), ("verdict_logprobs", {"verdicts": ("yes",)}),
    ("stop_tokens", {"stop_token_ids": (7,)}), ("hidden_states", {"capture": Capture()}),
    ("token_statistics", {"token_statistics": True}), ("min_tokens", {"min_tokens": 2}),
    ("token_logprobs", {"logprobs": True}), ("token_prompts", None),
])  # fmt: skip
async def test_what_a_model_cannot_do_is_refused_by_name(
    framework: Side, capability: str, params: dict[str, Any] | None
) -> None:
    lm = framework.lm(lambda prompt: "a", logprobs=False)
    prompt = Prompt.tokens([1, 2]) if params is None else ASK.prompt
    request = Generate(prompt, SamplingParams(**(params or {})))
    for error in (lm.generate([request])[0], (await lm.agenerate([request]))[0]):
        assert isinstance(error, CapabilityError)
        assert error.capability == capability
    assert isinstance(lm.score([Score(ASK.prompt, (ASK.prompt,))])[0], CapabilityError)
    assert isinstance(lm.hidden_states([HiddenStates((ASK.prompt,))])[0], CapabilityError)
    assert framework.model.seen == []


# --- secrets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    f"Incorrect API key provided: {KEY}", "Authorization: Bearer eyJhbGciOi.eyJzdWIi.c2lnbmF0dXJl",
    "for http://ann:hunter2-secret@proxy.example/v1", "GET https://api.example/v1?key=AIzaSyB-secret-1234567890",
    "{'x-api-key': 'zq-4711-kx'}", "api_key=zq-4711-kx was refused",
])  # fmt: skip
async def test_no_secret_is_shown(side: Side, caplog: pytest.LogCaptureFixture, text: str) -> None:
    caplog.set_level(logging.DEBUG)
    own = {"llamaindex": "llama-secret-key-1", "langchain": "lang-secret-key-1", "http": "http-secret-key-1"}[side.name]
    refusal = type(REFUSALS["401"])(401, f"{text} / {own}", openai.AuthenticationError, BackendUnavailableError)
    lm = side.lm(lambda _: refusal.error())
    for error in (lm.generate([ASK])[0], (await lm.agenerate([ASK]))[0]):
        shown = "".join(traceback.format_exception(error)) + repr(error) + error.hint + repr(error.args)
        shown += repr(getattr(error, "body", ""))
        for secret in (own, KEY, "c2lnbmF0dXJl", "hunter2", "AIzaSyB", "zq-4711"):
            assert secret not in shown


def test_a_cause_without_secrets_is_kept(framework: Side) -> None:
    assert isinstance(failure(framework, lambda: RuntimeError("boom")).__cause__, RuntimeError)


# --- neighbours ----------------------------------------------------------------------------------------------------


async def test_one_bad_request_fails_alone(side: Side) -> None:
    def script(prompt: str) -> Any:
        if "bad" not in prompt:
            return "fine"
        return REFUSALS["422"].error()

    lm = side.lm(script)
    words = ["good", "bad", "good \ud800 half", "good"]
    requests = [Generate(Prompt.untrusted(f"a {w} one"), SamplingParams(n=2, temperature=1.0)) for w in words]
    for found in (lm.generate(requests), await lm.agenerate(requests)):
        assert [isinstance(r, Generation) for r in found] == [True, False, True, True]


@pytest.mark.parametrize("request_", [Generate(Prompt()), Generate(ASK.prompt, SamplingParams(grammar=Grammar("x")))])
async def test_what_cannot_be_asked_is_refused_in_the_same_words(request_: Generate) -> None:
    said = set()
    for kind in SIDES.values():
        side = kind()
        lm = side.lm(lambda _: "fine")
        for found in (lm.generate([request_, ASK]), await lm.agenerate([request_, ASK])):
            assert isinstance(found[0], LanguageModelError)
            assert isinstance(found[1], Generation)
            said.add(found[0].message.replace("'tiny'", "'scripted'"))
        side.close()
    assert len(said) == 1, said


def test_when_a_sample_fails_the_others_of_its_request_are_not_waited_for(framework: Side) -> None:
    lm = framework.lm(lambda _: REFUSALS["401"].error(), max_concurrency=1)
    assert isinstance(lm.generate([Generate(ASK.prompt, SamplingParams(n=20, temperature=1.0))])[0], LanguageModelError)
    assert len(framework.model.seen) == 1


def test_an_interrupt_is_no_failure(framework: Side) -> None:
    with pytest.raises(KeyboardInterrupt):
        framework.lm(lambda _: KeyboardInterrupt()).generate([ASK, ASK])


# --- through an engine ---------------------------------------------------------------------------------------------


def engine(lm: Any, passages: int, **settings: Any) -> SelfReflectEngine:
    shelf = [Passage(f"p{i}", f"The lamp number {i} was lit in 18{i:02}. It burned oil.") for i in range(passages)]
    chosen = SelfReflectSettings(pipeline="reclaim", top_k=passages, reclaim=ReclaimSettings(regenerate=0), **settings)
    return SelfReflectEngine(Shelf(shelf), lm, chosen)


@pytest.mark.parametrize("figures", [True, False])
def test_passages_that_do_not_fit_are_left_out(side: Side, figures: bool) -> None:
    def script(prompt: str) -> Any:
        shown = prompt.count("was lit in 18")
        if shown <= 3:
            return "<reference>S1</reference><claim>The lamp number 0 was lit in 1800.</claim>"
        if figures:
            text = f"prompt is too long: {shown * 100} tokens > 350 maximum"
        else:
            text = "Your input exceeds the context window of this model."
        return type(REFUSALS["413"])(400, text, openai.BadRequestError, ContextOverflowError).error()

    answer = engine(side.lm(script), 6, on_overflow="drop").answer("When was lamp number 0 lit?")
    assert any("left out" in step.outcome for step in answer.trace if step.kind == "context")
    assert any("1800" in claim.text for claim in answer.claims)


def test_a_providers_error_comes_through_the_engine_as_both(framework: Side) -> None:
    asked = engine(framework.lm(lambda _: REFUSALS["429"].error()), 2)
    with pytest.raises(openai.RateLimitError) as caught:
        asked.answer("When was lamp number 0 lit?")
    assert isinstance(caught.value, BackendUnavailableError)
    with pytest.raises(openai.RateLimitError):
        asyncio.run(asked.aanswer("When was lamp number 0 lit?"))


def test_langchains_retry_and_fallbacks_filtered_on_the_providers_class_match() -> None:
    side = SIDES["langchain"]()
    calls: list[int] = []

    def script(prompt: str) -> Any:
        calls.append(1)
        return REFUSALS["429"].error() if len(calls) < 3 else "<reference>S1</reference><claim>In 1871.</claim>"

    chain = SelfReflectChain(retriever=ShelfRetriever(), llm=side.lm(script), pipeline="reclaim")
    retried = chain.with_retry(
        retry_if_exception_type=(openai.RateLimitError,), wait_exponential_jitter=False, stop_after_attempt=3
    )
    assert "1871" in str(retried.invoke(QUESTION).response_metadata)
    calls.clear()
    other = RunnableLambda(lambda question: "the other")
    assert chain.with_fallbacks([other], exceptions_to_handle=(openai.RateLimitError,)).invoke(QUESTION) == "the other"
    calls.clear()
    with pytest.raises(openai.RateLimitError):
        chain.with_fallbacks([other], exceptions_to_handle=(openai.AuthenticationError,)).invoke(QUESTION)
