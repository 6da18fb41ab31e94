"""What vLLM's engine dies of on a CPU is kept from it; one that has died all the same is named and started anew."""

from __future__ import annotations

import logging
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from shared_core.errors import BackendUnavailableError
from shared_core.lm._vllm.engine import Job
from shared_core.lm.base import Generate, Generation, HiddenStates, Prompt, SamplingParams, States
from tests.servers.process import VLLM_ENVIRONMENT

pytestmark = pytest.mark.vllm

PROMPTS = [Prompt.tokens([40 + (7 * i + j) % 300 for j in range(900)]) for i in range(32)]
NEW = [[340 - (5 * i + j) % 300 for j in range(900)] for i in range(2)]  # of which no cache holds anything
DRAW = SamplingParams(n=20, temperature=1.0, seed=1, max_tokens=4)


def test_many_long_prompts_with_a_seed(engine: Any) -> None:
    """More tokens than vLLM computes at once: their prompts were chunked, and the engine died."""
    first, again = (engine.generate([Generate(p, DRAW) for p in PROMPTS]) for _ in range(2))
    for a, b in zip(first, again):
        assert isinstance(a, Generation)
        assert isinstance(b, Generation)
        assert len(a.samples) == 20
        assert [s.token_ids for s in a.samples] == [s.token_ids for s in b.samples]
    assert engine._engine.restarts == 0


@pytest.fixture(scope="module")
def chunked(checkpoint: Path) -> Any:
    """An engine whose user wants chunks."""
    from shared_core.lm.vllm import VLLM

    os.environ.update(VLLM_ENVIRONMENT)
    with VLLM(str(checkpoint), dtype="float32", enable_chunked_prefill=True, max_num_batched_tokens=512) as lm:
        yield lm


def test_with_chunks_there_is_no_seed_and_that_is_said_once(chunked: Any, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        results = chunked.generate([Generate(p, DRAW) for p in PROMPTS[:4]])
        assert all(isinstance(r, Generation) for r in results)
    said = [r for r in caplog.records if "seed" in r.getMessage()]
    assert [r.levelno for r in said] == [logging.WARNING]
    assert chunked._engine.restarts == 0


def test_a_death_is_named_and_the_next_call_works(chunked: Any) -> None:
    deadly = chunked._vllm.SamplingParams(n=2, temperature=1.0, seed=1, max_tokens=2)
    job = Job(NEW[0], deadly)
    chunked._engine.run([job])
    assert isinstance(job.error, BackendUnavailableError)
    assert "died" in job.error.message
    assert "restart" in job.error.hint
    (result,) = chunked.generate([Generate(PROMPTS[0], SamplingParams(max_tokens=3))])
    assert isinstance(result, Generation)
    assert chunked._engine.restarts == 1


def test_neighbours_survive_a_death(chunked: Any) -> None:
    before = chunked._engine.restarts
    plain, deadly = (chunked._vllm.SamplingParams(temperature=1.0, seed=s, max_tokens=2) for s in (None, 1))
    jobs = [Job(NEW[1][:100], plain), Job(NEW[1][:200], plain), Job(NEW[1][::-1], deadly)]
    chunked._engine.run(jobs)
    assert [j.error is None for j in jobs] == [True, True, False]
    assert chunked._engine.restarts == before + 1
    chunked.restart()
    (result,) = chunked.generate([Generate(PROMPTS[0], SamplingParams(max_tokens=3))])
    assert isinstance(result, Generation)


def test_an_engine_killed_while_nobody_asks(chunked: Any) -> None:
    before = chunked._engine.restarts
    manager = chunked._engine._llm.llm_engine.engine_core.resources.engine_manager
    (core,) = manager.processes
    os.kill(core.pid, signal.SIGKILL)
    end = time.monotonic() + 60
    while chunked._engine.alive and time.monotonic() < end:
        time.sleep(0.1)
    request = HiddenStates((PROMPTS[0],))
    (states,) = chunked.hidden_states([request])
    assert isinstance(states, States)
    assert chunked._engine.restarts == before + 1
