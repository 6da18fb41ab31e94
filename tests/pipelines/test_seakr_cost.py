"""What SeaKR may cost with a model that gives nothing but text is said before it is spent, and holds."""

from __future__ import annotations

import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.lm.base import Capabilities, Generate
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.gating.choose import most_replies
from tests.pipelines.seakr_scripts import QUESTION, Library


def ask(lm: ScriptedLM, multi_hop: bool) -> SelfReflectSettings:
    settings = SelfReflectSettings(
        pipeline="seakr",
        top_k=3,
        seakr={
            "multi_hop": multi_hop, "samples": 4, "max_steps": 3, "estimator": "lexical_similarity", "threshold": -1.0,
        },
    )  # fmt: skip
    SelfReflectEngine(Library(), lm, settings).answer(QUESTION)
    return settings


@pytest.mark.parametrize("multi_hop", [False, True])
def test_a_black_box_is_asked_no_more_than_was_said_once(multi_hop: bool, caplog: pytest.LogCaptureFixture) -> None:
    lm = ScriptedLM(lambda request: " Dorn built it in the north.", name=f"black box {multi_hop}")
    settings = ask(lm, multi_hop)
    ask(lm, multi_hop)
    told = [r.getMessage() for r in caplog.records if "replies" in r.getMessage()]
    assert len(told) == 1
    assert str(most_replies(settings)) in told[0]
    assert f"black box {multi_hop}" in told[0]
    written = sum(r.params.n for r in lm.requests if isinstance(r, Generate))
    assert 0 < written <= 2 * most_replies(settings)  # two questions


def test_a_model_that_shows_its_probabilities_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    able = Capabilities(token_logprobs=True)
    ask(ScriptedLM(lambda request: " Dorn built it.", name="open box", capabilities=able), False)
    assert not [r for r in caplog.records if "replies" in r.getMessage()]
