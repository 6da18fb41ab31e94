"""The adapter from an LLM of LlamaIndex to ours."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatResponse, TextBlock, ThinkingBlock
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.llms import MockLLM

from llamaindex_selfreflect import LlamaIndexLM
from shared_core.errors import InputError, LanguageModelError
from shared_core.lm import Generate, Generation, LanguageModel, Prompt, SamplingParams
from tests.llamaindex.li_fakes import ChatLLM, CompletionLLM, chat_reply, top

ASK = Prompt.trusted("Say: ")


def only(result: Any) -> Generation:
    (one,) = result
    assert isinstance(one, Generation), one
    return one


def refused(result: Any) -> LanguageModelError:
    (one,) = result
    assert isinstance(one, LanguageModelError), one
    return one


def test_it_is_a_language_model_and_says_what_it_can_do() -> None:
    told = chat_reply("Yes", raw=raw(("Yes", -0.1)))
    chat, completion = LlamaIndexLM(ChatLLM(lambda p, o: told)), LlamaIndexLM(CompletionLLM(lambda p, o: ""))
    assert isinstance(chat, LanguageModel)
    assert (chat.name, completion.name) == ("fake-chat", "fake-completion")
    assert chat.capabilities.names() == ("text", "token_logprobs")
    assert completion.capabilities.names() == ("text",)
    assert (chat.capabilities.context_length, completion.capabilities.context_length) == (None, 2048)
    for silent, options in ((ChatLLM(lambda p, o: ""), {}), (ChatLLM(lambda p, o: told), {"logprobs": False})):
        assert LlamaIndexLM(silent, **options).capabilities.names() == ("text",)  # a field alone promises nothing
    assert LlamaIndexLM(MockLLM()).name == "MockLLM"
    with pytest.raises(InputError, match="no language model of LlamaIndex"):
        LlamaIndexLM("gpt")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="max_concurrency"):
        LlamaIndexLM(MockLLM(), max_concurrency=0)


def test_chat_models_get_messages_and_others_a_prompt() -> None:
    prompt = Prompt.trusted("Be brief.", "system") + Prompt.trusted("Who? ", "user") + Prompt.untrusted("Ada", "user")
    chat, completion = ChatLLM(lambda p, o: "yes"), CompletionLLM(lambda p, o: "yes")
    assert only(LlamaIndexLM(chat).generate([Generate(prompt)])).text == "yes"
    assert only(LlamaIndexLM(completion).generate([Generate(prompt)])).text == "yes"
    assert chat.calls[0][0] == "system: Be brief.\nuser: Who? Ada"
    assert completion.calls[0][0] == "system: Be brief.\nuser: Who? Ada\nassistant: "
    LlamaIndexLM(completion).generate([Generate(ASK)])
    LlamaIndexLM(chat).generate([Generate(ASK)])
    assert (chat.calls[1][0], completion.calls[1][0]) == ("user: Say: ", "Say: ")


def test_the_models_own_system_prompt_stays() -> None:
    chat = ChatLLM(lambda p, o: "", system_prompt="In English.")
    completion = CompletionLLM(lambda p, o: "", system_prompt="In English.")
    LlamaIndexLM(chat).generate([Generate(ASK)])
    LlamaIndexLM(completion).generate([Generate(ASK)])
    assert chat.calls[0][0] == "system: In English.\nuser: Say: "
    assert completion.calls[0][0] == "In English.\n\nSay: "


def test_options_are_passed_where_the_class_has_them() -> None:
    params = SamplingParams(temperature=0.7, max_tokens=9, top_p=0.5, seed=3, n=2)
    known, plain = CompletionLLM(lambda p, o: ""), MockLLM(max_tokens=2)
    LlamaIndexLM(known).generate([Generate(ASK, params)])
    assert [o for _, o in known.calls] == [{"temperature": 0.7, "max_tokens": 9}] * 2
    assert only(LlamaIndexLM(plain).generate([Generate(ASK, params)])).samples[0].text == "text text"
    seeded = CompletionLLM(lambda p, o: "")
    LlamaIndexLM(seeded, options={"seed"}).generate([Generate(ASK, params)])
    assert sorted(o["seed"] for _, o in seeded.calls) == [3, 4]


async def test_a_class_without_async_methods_does_not_block_the_loop() -> None:
    threads: set[str] = set()

    def script(prompt: str, options: dict[str, Any]) -> str:
        threads.add(threading.current_thread().name)
        return "ok"

    lm = LlamaIndexLM(CompletionLLM(script))
    chat = Prompt.trusted("Hello", "user")
    assert only(await lm.agenerate([Generate(ASK)])).text == only(await lm.agenerate([Generate(chat)])).text == "ok"
    assert threading.main_thread().name not in threads


def test_callbacks_and_traces_stay() -> None:
    debug = LlamaDebugHandler(print_trace_on_end=False)
    llm = ChatLLM(lambda p, o: "ok", callback_manager=CallbackManager([debug]))
    LlamaIndexLM(llm).generate([Generate(ASK)])
    asyncio.run(LlamaIndexLM(llm).agenerate([Generate(ASK)]))
    assert len(debug.get_event_pairs(CBEventType.LLM)) == 2


# --- logprobs, usage -----------------------------------------------------------------------------------------------


def raw(*tokens: tuple[str, float], reason: str = "stop") -> Any:
    content = [SimpleNamespace(token=t, logprob=p, bytes=None) for t, p in tokens]
    return SimpleNamespace(choices=[SimpleNamespace(logprobs=SimpleNamespace(content=content), finish_reason=reason)])


def tokens_of(text: str, lists: Any = None, raw: Any = None) -> tuple[tuple[str, ...] | None, tuple[float, ...] | None]:
    """What a reply's tokens are read as: texts and log-probabilities."""
    lm = LlamaIndexLM(saying(chat_reply(text, raw=raw, logprobs=lists)))
    (sample,) = only(lm.generate([Generate(ASK, SamplingParams(logprobs=True))])).samples
    return sample.tokens, sample.logprobs


def test_logprobs_are_read_from_top_lists_only_if_there_is_one_way() -> None:
    one = top({"Yes": -0.1, "No": -2.0}, {".": -0.3, "!": -1.0})
    assert tokens_of("No.", one) == (("No", "."), (-2.0, -0.3))
    assert tokens_of("Maybe.", one) == (None, None)
    two = top({"a": -1.0, "ab": -1.0}, {"bc": -1.0, "c": -1.0})
    assert tokens_of("abc", two) == (None, None)
    assert tokens_of("abbc", two) == (("ab", "bc"), (-1.0, -1.0))
    assert tokens_of("ab") == (None, None)


@pytest.mark.parametrize("odd", [
    raw(("Yes", float("nan"))), raw(("Yes", 0.5)), raw(("Other", -0.1)),
    {"choices": [{"logprobs": {"content": [{"token": None, "logprob": "-1"}]}}]},
    {"choices": [{"logprobs": {"content": [{"token": "Yes", "logprob": -(10**400)}]}}]}, {"choices": []}, "text",
])  # fmt: skip
def test_logprobs_that_cannot_be_right_are_unknown(odd: Any) -> None:
    assert tokens_of("Yes", None, odd) == (None, None)


def test_the_token_that_ended_a_reply_is_left_out() -> None:
    assert tokens_of("Yes", None, raw(("Yes", -0.1), ("</s>", -0.2))) == (("Yes",), (-0.1,))


def test_usage_is_counted_where_it_is_given() -> None:
    told = chat_reply("a", additional_kwargs={"prompt_tokens": 7, "completion_tokens": 2})
    found = chat_reply("a", raw={"usage": {"input_tokens": 5, "output_tokens": 1}})
    for reply, expected in ((told, (14, 4)), (found, (10, 2))):
        usage = only(LlamaIndexLM(saying(reply)).generate([Generate(ASK, SamplingParams(n=2))])).usage
        assert (usage.calls, usage.prompt_tokens, usage.generated_tokens) == (2, *expected)


def saying(reply: ChatResponse) -> ChatLLM:
    return ChatLLM(lambda prompt, options: reply)


# --- failures ------------------------------------------------------------------------------------------------------


def test_a_reply_in_several_blocks_is_one_text() -> None:
    reply = chat_reply("")
    reply.message.blocks = [ThinkingBlock(content="hm"), TextBlock(text="I don't"), TextBlock(text=" know.")]
    assert only(LlamaIndexLM(ChatLLM(lambda p, o: reply)).generate([Generate(ASK)])).text == "I don't know."


def test_a_reply_without_text_is_empty_not_a_crash() -> None:
    silent = chat_reply("")
    silent.message.blocks = []
    assert only(LlamaIndexLM(ChatLLM(lambda p, o: silent)).generate([Generate(ASK)])).text == ""
