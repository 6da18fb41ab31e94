"""What SeaKR may cost with a model that gives nothing but text is said before it is spent, and holds."""

from __future__ import annotations

import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.facades.arguments import READ_ALL
from shared_core.lm.base import Capabilities, Generate
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.gating.choose import most_replies
from tests.pipelines.seakr_scripts import QUESTION, Library


def ask(lm: ScriptedLM, multi_hop: bool, top_k: int = 3) -> SelfReflectSettings:
    settings = SelfReflectSettings(
        pipeline="seakr",
        top_k=top_k,
        seakr={
            "multi_hop": multi_hop, "samples": 4, "max_steps": 3, "estimator": "lexical_similarity", "threshold": -1.0,
        },
    )  # fmt: skip
    SelfReflectEngine(Library(), lm, settings).answer(QUESTION)
    return settings


@pytest.mark.parametrize("top_k", [1, READ_ALL])  # SeaKR compares ``rerank_passages``, whatever the others read
@pytest.mark.parametrize("multi_hop", [False, True])
def test_a_black_box_is_asked_no_more_than_was_said_once(
    multi_hop: bool, top_k: int, caplog: pytest.LogCaptureFixture
) -> None:
    lm = ScriptedLM(lambda request: " Dorn built it in the north.", name=f"black box {multi_hop} {top_k}")
    settings = ask(lm, multi_hop, top_k)
    ask(lm, multi_hop, top_k)
    told = [r.getMessage() for r in caplog.records if "replies" in r.getMessage()]
    assert len(told) == 1
    assert f"up to {most_replies(settings)} replies" in told[0]
    assert most_replies(settings) == (70 if multi_hop else 20)
    assert f"black box {multi_hop} {top_k}" in told[0]
    written = sum(r.params.n for r in lm.requests if isinstance(r, Generate))
    assert 0 < written <= 2 * most_replies(settings)  # two questions


def test_a_model_that_shows_its_probabilities_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    able = Capabilities(token_logprobs=True)
    ask(ScriptedLM(lambda request: " Dorn built it.", name="open box", capabilities=able), False)
    assert not [r for r in caplog.records if "replies" in r.getMessage()]
