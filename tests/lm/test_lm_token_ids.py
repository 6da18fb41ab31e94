"""Ids of control strings, stop tokens and the verdicts behind the last token: what they mean, on every backend."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from shared_core.errors import BackendUnavailableError, InputError
from shared_core.flow import Flow, Resources, Together, TokenIds, arun, arun_many, run, run_many
from shared_core.lm.base import BaseLanguageModel, Generate, Prompt, Sample, SamplingParams
from shared_core.lm.encoding import Encoder
from shared_core.lm.scripted import ScriptedLM
from shared_core.reflection.tokens import reflection_ids
from tests.conftest import REFLECTION
from tests.lm.openai_client import PLAIN, Connect
from tests.openai_server import FakeServer

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
    import copy

    from shared_core.lm.transformers import TransformersLM

    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.add_tokens(["[Late]"])
    assert TransformersLM(tiny_model, tokenizer).token_ids(["[Late]", "[Relevant]"])[0] is None


def test_control_strings_of_a_server(connect: Connect, tiny_tokenizer: Any) -> None:
    strings = ["[Relevant]", "two words", "[Odd]", "[Utility:5]"]
    with FakeServer() as server:
        lm = connect(server)
        assert lm.token_ids(strings) == asyncio.run(lm.atoken_ids(strings)) == [3, None, 7, None]
        assert connect(server, tokenizer=tiny_tokenizer).token_ids(strings)[1:] == [None] * 3
        asked = len(server.requests)
        assert lm.token_ids(strings[::-1]) == [None, 7, None, 3]
        assert len(server.requests) == asked  # remembered
    with FakeServer(PLAIN) as server:
        assert connect(server).token_ids(strings) == [None] * 4
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


@pytest.mark.parametrize(
    "wrong", [{"stop_token_ids": (-1,)}, {"stop_token_ids": ("x",)}, {"next_verdicts": True}, {"stop": ("",)}]
)
def test_params_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        SamplingParams(**wrong)


def test_params_say_what_they_need() -> None:
    assert SamplingParams(n=5, logprobs=True, temperature=1.0).needs == ()
    params = SamplingParams(stop_token_ids=(3,), verdicts=(3, 4), next_verdicts=True)
    assert params.needs == ("verdict_logprobs", "next_verdicts", "stop_tokens")


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
    assert cut.cumulative_logprob == -6.0
    np.testing.assert_array_equal(cut.verdict_logprobs, SAMPLE.verdict_logprobs[:3])  # type: ignore[index]
    np.testing.assert_array_equal(cut.next_verdict_logprobs, [6.0, 7.0])  # what stood behind the stop token
    assert (spelt.text, spelt.stop_token_id) == ("spelt [Utility:5] out", None)
