"""Ids of control strings, stop tokens and the verdicts behind the last token: what they mean, on every backend."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import numpy as np
import pytest

from shared_core.errors import BackendUnavailableError, InputError
from shared_core.lm.base import BaseLanguageModel, Capture, Generate, Grammar, Prompt, Sample, SamplingParams
from shared_core.lm.encoding import Encoder
from shared_core.lm.scripted import ScriptedLM
from shared_core.lm.transformers import TransformersLM
from shared_core.reflection.tokens import reflection_ids
from shared_core.runtime.flow import Flow, Resources, Together, TokenIds, arun, arun_many, run, run_many
from tests.conftest import REFLECTION
from tests.lm.openai_client import PLAIN, Connect, Serve

STRINGS = ("[Relevant]", "[Odd]", "<paragraph>")
SCRIPTED = {"[Relevant]": 32_004, "<paragraph>": 32_005}
EXPECTED = (32_004, None, 32_005)


def test_a_flow_asks_for_ids_under_every_driver() -> None:
    def flow(*strings: str) -> Flow[Any]:
        first = yield TokenIds(strings)
        both = yield Together((TokenIds(strings[:1]), TokenIds(strings[1:], model="critic")))
        assert both[0] + both[1] == first
        return first

    resources = Resources({"default": ScriptedLM(token_ids=SCRIPTED)})
    assert run(flow(*STRINGS), resources) == EXPECTED
    assert asyncio.run(arun(flow(*STRINGS), resources)) == EXPECTED
    flows = [flow(*STRINGS), flow("[Odd]"), flow(*STRINGS[::-1])]
    wanted = [EXPECTED, (None,), EXPECTED[::-1]]
    assert run_many(flows, resources) == wanted
    flows = [flow(*STRINGS), flow("[Odd]"), flow(*STRINGS[::-1])]
    assert asyncio.run(arun_many(flows, resources)) == wanted


def test_a_backend_that_knows_no_tokenizer_knows_no_ids() -> None:
    lm = BaseLanguageModel()
    assert lm.token_ids(STRINGS) == asyncio.run(lm.atoken_ids(STRINGS)) == [None] * 3


def test_control_strings_of_a_transformers_model(tiny_lm: Any, tiny_tokenizer: Any) -> None:
    found = tiny_lm.token_ids([*REFLECTION, "[Utility:5]", "two words", "", "the"])
    assert found[: len(REFLECTION)] == tiny_tokenizer.convert_tokens_to_ids(list(REFLECTION))
    assert found[len(REFLECTION) : -1] == [None, None, None]
    with pytest.raises(InputError, match="lacks"):
        reflection_ids(dict(zip(REFLECTION, found)))


def test_a_token_without_an_embedding_is_none_of_the_models(tiny_model: Any, tiny_tokenizer: Any) -> None:
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.add_tokens(["[Late]"])
    assert TransformersLM(tiny_model, tokenizer).token_ids(["[Late]", "[Relevant]"])[0] is None


def test_control_strings_of_a_server(serve: Serve, connect: Connect, tiny_tokenizer: Any) -> None:
    strings = ["[Relevant]", "two words", "[Odd]", "[Utility:5]"]
    server, lm = serve()
    assert lm.token_ids(strings) == asyncio.run(lm.atoken_ids(strings)) == [3, None, 7, None]
    assert connect(server, tokenizer=tiny_tokenizer).token_ids(strings)[1:] == [None] * 3
    asked = len(server.requests)
    assert lm.token_ids(strings[::-1]) == [None, 7, None, 3]
    assert len(server.requests) == asked  # remembered
    assert serve(PLAIN)[1].token_ids(strings) == [None] * 4
    with pytest.raises(BackendUnavailableError):
        connect("http://127.0.0.1:9/v1", max_retries=0).token_ids(strings)


def test_what_becomes_the_unknown_token_has_no_id() -> None:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel({"<unk>": 0, "yes": 1}, unk_token="<unk>"))
    encoder = Encoder(PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>"))
    assert encoder.single_id("[Relevant]") is None
    assert (encoder.single_id("yes"), encoder.single_id("<unk>")) == (1, 0)
    with pytest.raises(InputError):
        encoder.token_id("[Relevant]")


SAMPLE = Sample(
    "He sang.[Utility:5] More",
    token_ids=(10, 11, 7, 12),
    tokens=("He", " sang.", "[Utility:5]", " More"),
    logprobs=(-1.0, -2.0, -3.0, -4.0),
    verdict_logprobs=np.arange(8.0).reshape(4, 2),
    next_verdict_logprobs=np.array([8.0, 9.0]),
)


def test_a_scripted_sample_is_cut_at_a_stop_token_by_id_alone() -> None:
    params = SamplingParams(stop_token_ids=(7, 12), verdicts=(7, 8), next_verdicts=True)
    lm = ScriptedLM([SAMPLE, Sample("spelt [Utility:5] out", token_ids=(1, 2, 3))])
    request = Generate(Prompt.trusted("q"), params)
    cut, spelt = (r.samples[0] for r in lm.generate([request, request]))  # type: ignore[union-attr]
    assert (cut.text, cut.finish_reason, cut.stop, cut.stop_token_id) == ("He sang.", "stop", None, 7)
    assert cut.token_ids == (10, 11, 7)
    assert sum(cut.logprobs or ()) == -6.0
    np.testing.assert_array_equal(cut.verdict_logprobs, SAMPLE.verdict_logprobs[:3])  # type: ignore[index]
    np.testing.assert_array_equal(cut.next_verdict_logprobs, [6.0, 7.0])  # what stood behind the stop token
    assert (spelt.text, spelt.stop_token_id) == ("spelt [Utility:5] out", None)


# --- transformers --------------------------------------------------------------------------------------------------

RAW = Prompt.trusted("Question: Who built the bridge? Answer:")
VERDICTS: tuple[int | str, ...] = ("[Relevant]", 17, "[Irrelevant]")


@pytest.fixture(scope="module", params=["tree", "rows", "fallback"])
def lm(request: pytest.FixtureRequest, tiny_model: Any, tiny_tokenizer: Any, one_thread: None) -> Any:
    return TransformersLM(tiny_model, tiny_tokenizer, layout=request.param)


def ask(lm: Any, *requests: dict[str, Any], prompt: Prompt = RAW) -> list[Any]:
    results = lm.generate([Generate(prompt, SamplingParams(**r)) for r in requests])
    return [r.samples[0] for r in results]


def test_a_sample_ends_at_a_token_by_its_id(lm: Any) -> None:
    (whole,) = ask(lm, {"max_tokens": 8, "logprobs": True, "verdicts": VERDICTS})
    end = whole.token_ids[4]
    at = whole.token_ids.index(end) + 1
    params = {"max_tokens": 8, "logprobs": True, "verdicts": VERDICTS, "stop_token_ids": (end,)}
    cut, kept, late = ask(lm, params, params | {"include_stop": True}, params | {"min_tokens": 7})
    assert (cut.token_ids, cut.finish_reason, cut.stop, cut.stop_token_id) == (whole.token_ids[:at], "stop", None, end)
    np.testing.assert_allclose(cut.logprobs, whole.logprobs[:at], atol=1e-4)
    np.testing.assert_allclose(cut.verdict_logprobs, whole.verdict_logprobs[:at], atol=1e-4)
    assert cut.text == "".join(cut.tokens[:-1])
    assert kept.text == "".join(cut.tokens)
    assert end not in late.token_ids[:7]


def test_text_that_spells_a_stop_token_ends_nothing(lm: Any, tiny_model: Any, tiny_tokenizer: Any) -> None:
    (whole,) = ask(lm, {"max_tokens": 8})
    tokenizer = copy.deepcopy(tiny_tokenizer)
    spelt = "".join(whole.tokens[2:5])
    tokenizer.add_tokens([spelt])
    stop = tokenizer.convert_tokens_to_ids(spelt)
    (sample,) = ask(TransformersLM(tiny_model, tokenizer), {"max_tokens": 8, "stop_token_ids": (stop,)})
    assert spelt in sample.text
    assert (sample.token_ids, sample.stop_token_id) == (whole.token_ids, None)


def test_the_verdicts_behind_the_last_token_wherever_the_sample_ends(lm: Any) -> None:
    (whole,) = ask(lm, {"max_tokens": 8, "verdicts": VERDICTS})
    assert whole.next_verdict_logprobs is None
    params: dict[str, Any] = {"verdicts": VERDICTS, "next_verdicts": True}
    stopped, limited, single, string, captured = ask(
        lm,
        params | {"max_tokens": 8, "stop_token_ids": (whole.token_ids[3],)},
        params | {"max_tokens": 6},
        params | {"max_tokens": 1},
        params | {"max_tokens": 8, "stop": (whole.text[1:4],)},
        params | {"max_tokens": 3, "capture": Capture(position="eos"), "token_statistics": True},
    )
    for sample in (stopped, limited, single, string, captured):
        assert len(sample.verdict_logprobs) == len(sample.token_ids)
        row = whole.verdict_logprobs[len(sample.token_ids)]
        np.testing.assert_allclose(sample.next_verdict_logprobs, row, atol=1e-4)
    assert captured.hidden_state is not None


def test_behind_samples_forced_by_a_grammar_and_behind_the_end(lm: Any, tiny_tokenizer: Any) -> None:
    params: dict[str, Any] = {"verdicts": VERDICTS, "next_verdicts": True, "max_tokens": 40}
    quote = Grammar('start: "The bridge was built in 1841."')
    (forced,) = ask(lm, params | {"grammar": quote})
    if forced.finish_reason == "grammar" and forced.token_ids[-1] != tiny_tokenizer.eos_token_id:
        (again,) = ask(lm, {"max_tokens": 1, "verdicts": VERDICTS}, prompt=RAW + Prompt.tokens(forced.token_ids))
        np.testing.assert_allclose(forced.next_verdict_logprobs, again.verdict_logprobs[0], atol=1e-4)
    ended = Grammar(f"start: <[40]> <[{tiny_tokenizer.eos_token_id}]>")
    (sample,) = ask(lm, params | {"grammar": ended})
    assert sample.token_ids[-1] == tiny_tokenizer.eos_token_id
    assert sample.next_verdict_logprobs is None


def test_each_of_many_samples_has_what_comes_behind_it(lm: Any) -> None:
    params = SamplingParams(
        n=6, temperature=1.5, seed=3, max_tokens=5, stop=("e",), verdicts=VERDICTS, next_verdicts=True
    )
    (result, other) = lm.generate([Generate(RAW, params), Generate(Prompt.trusted("The town"), params)])
    for found, prompt in ((result, RAW), (other, Prompt.trusted("The town"))):
        for sample in found.samples:
            if sample.finish_reason == "eos":
                assert sample.next_verdict_logprobs is None
                continue
            (again,) = ask(lm, {"max_tokens": 1, "verdicts": VERDICTS}, prompt=prompt + Prompt.tokens(sample.token_ids))
            np.testing.assert_allclose(sample.next_verdict_logprobs, again.verdict_logprobs[0], atol=1e-3)


def test_deciding_what_follows_costs_no_request_and_one_forward_more(tiny_lm: Any) -> None:
    plain, more = (
        tiny_lm.generate([Generate(RAW, SamplingParams(n=4, max_tokens=5, temperature=1.0, seed=1, verdicts=(17,),
                                                       min_tokens=5, next_verdicts=wanted))])[0]
        for wanted in (False, True)
    )  # fmt: skip
    assert more.usage.calls == plain.usage.calls == 1
    assert more.usage.forwards - plain.usage.forwards <= 1
