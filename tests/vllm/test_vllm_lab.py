"""The lab's model says the same in vLLM as in transformers."""

from __future__ import annotations

import pytest

from shared_core.lab import World, load_lab_model
from shared_core.lab.setup import CHECKPOINT
from shared_core.lm.base import Generation, SamplingParams
from shared_core.pipelines.gating.prompts import ANSWER_LEAD, demonstrations, step_prompt
from shared_core.runtime.flow import Generate

pytestmark = pytest.mark.vllm


def test_the_lab_model_answers_alike_in_vllm_and_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    from shared_core.lm.vllm import VLLM

    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    world = World(0)
    ours = load_lab_model()
    questions = [q for q in world.questions(kind="single", split="test") if q.known][:12]
    params = SamplingParams(max_tokens=16, stop=("\n",))
    prompts = [step_prompt(q.text, (), (), demonstrations("simple"), ANSWER_LEAD) for q in questions]
    requests = [Generate(p, params) for p in prompts]
    with VLLM(str(CHECKPOINT), dtype="float32", max_model_len=1024) as theirs:
        one, two = ours.generate(requests), theirs.generate(requests)
    texts = [[r.text if isinstance(r, Generation) else repr(r) for r in found] for found in (one, two)]
    assert texts[0] == texts[1]
