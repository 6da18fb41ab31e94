"""Steps of a model's answer: none is cut off, and one that cannot be shown leaves a mark."""

from __future__ import annotations

import pytest

from shared_core.pipelines.confidence import Weighed, decide_weighed
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.decision.wording import assemble
from shared_core.runtime.flow import Resources, run
from shared_core.settings import SelfReflectSettings
from shared_core.types import Claim, Passage


def claims(*texts: str, dropped: int) -> list[Claim]:
    return [Claim(t, 0.9, status="dropped" if i == dropped else "kept") for i, t in enumerate(texts)]


@pytest.mark.parametrize("first", ["First, switch it off.", "1. Switch it off.", "Step 1: switch it off."])
def test_a_step_left_out_leaves_a_mark(first: str) -> None:
    steps = claims(first, "Hold the arrow down.", "Release it.", dropped=1)
    text, placed = assemble(steps)
    assert text == f"{first} […] Release it."
    assert all(text[c.start : c.end] == c.text for c in placed if c.status == "kept")


@pytest.mark.parametrize("dropped", [0, 2])
def test_before_the_first_step_and_behind_the_last_one_there_is_no_mark(dropped: int) -> None:
    assert "[…]" not in assemble(claims("First, switch it off.", "Then wait.", "Release it.", dropped=dropped))[0]


def test_statements_of_their_own_need_no_mark() -> None:
    assert "[…]" not in assemble(claims("It is red.", "It is tall.", "It is old.", dropped=1))[0]


@pytest.mark.parametrize(("settings", "kept"), [({}, 5), ({"max_claims": 3}, 3)])
def test_all_that_a_model_claims_is_shown_unless_a_maximum_is_set(settings: dict[str, int], kept: int) -> None:
    texts = ["Switch it off.", "Wait.", "Hold the arrow.", "Release it.", "Switch it on."]
    weighed = Weighed([Claim(text, 0.9) for text in texts])
    question_run = QuestionRun(SelfReflectSettings(**settings))
    flow = decide_weighed("How is it reset?", weighed, [Passage("a", "…")], question_run, pipeline="composed")
    assert len(run(flow, Resources()).kept_claims) == kept
