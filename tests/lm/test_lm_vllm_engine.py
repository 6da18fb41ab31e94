"""What is done with a vLLM engine that refuses, fails or dies; on an imitated one (the real one is in tests/vllm)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from shared_core.errors import BackendUnavailableError, GenerationError, InputError, LanguageModelError, ModelLoadError
from shared_core.lm._vllm.engine import Engine, Job, engine_options


class EngineDeadError(Exception):
    """Named as vLLM's is."""


class Mortal:
    """In the place of ``vllm.LLM``: runs prompts until one of them kills it; ids above 100 are refused."""

    started = 0
    starts = True
    deadly: tuple[int, ...] = ()

    def __init__(self, **options: Any) -> None:
        if not Mortal.starts:
            raise RuntimeError("no memory")
        Mortal.started += 1
        self.ran: list[list[int]] = []
        core = SimpleNamespace(resources=SimpleNamespace(engine_dead=False), shutdown=lambda: None)
        self.llm_engine = SimpleNamespace(engine_core=core)

    def die(self) -> None:
        self.llm_engine.engine_core.resources.engine_dead = True

    def generate(self, prompts: Sequence[dict[str, list[int]]], sampling: Any, use_tqdm: bool) -> list[str]:
        ids = [p["prompt_token_ids"] for p in prompts]
        if self.llm_engine.engine_core.resources.engine_dead:
            raise EngineDeadError("dead before")
        if any(i > 100 for row in ids for i in row):
            raise ValueError("too high")
        if any(row == [66] for row in ids):
            raise RuntimeError("a bad day")
        if any(i in Mortal.deadly for row in ids for i in row):
            self.die()
            raise EngineDeadError("EngineCore encountered an issue.")
        return [f"ran {row}" for row in ids]

    def collective_rpc(self, method: str, args: tuple[Any, ...]) -> list[str]:
        if self.llm_engine.engine_core.resources.engine_dead:
            raise EngineDeadError("dead")
        return [method]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    package, platforms = ModuleType("vllm"), ModuleType("vllm.platforms")
    package.LLM = Mortal  # type: ignore[attr-defined]
    platforms.current_platform = SimpleNamespace(is_cpu=lambda: True)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", package)
    monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)
    monkeypatch.setattr(Mortal, "started", 0)
    monkeypatch.setattr(Mortal, "starts", True)
    monkeypatch.setattr(Mortal, "deadly", ())
    return Engine("tiny", None, {})


def run(engine: Engine, *rows: int) -> list[Any]:
    jobs = [Job([row], None) for row in rows]
    engine.run(jobs)
    return [j.error if j.error is not None else j.output for j in jobs]


def test_one_refused_prompt_fails_alone(engine: Engine) -> None:
    first, refused, last = run(engine, 1, 101, 2)
    assert (first, last) == ("ran [1]", "ran [2]")
    assert isinstance(refused, LanguageModelError)
    assert "too high" in refused.message
    assert Mortal.started == 1


def test_a_failure_that_is_no_death_fails_the_batch_and_the_engine_lives(engine: Engine) -> None:
    for result in run(engine, 1, 66):
        assert isinstance(result, GenerationError)
    assert run(engine, 1) == ["ran [1]"]
    assert Mortal.started == 1


def test_a_death_is_named_and_its_neighbours_are_run_again(
    engine: Engine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Mortal, "deadly", (7,))
    first, killer, last = run(engine, 1, 7, 2)
    assert first == "ran [1]"
    for dead in (killer, last):  # it is not started a third time for what may kill it again
        assert isinstance(dead, BackendUnavailableError)
        assert "died" in dead.message
        assert "tiny" in dead.message
        assert "restart()" in dead.hint
    assert Mortal.started == 2
    assert run(engine, 2) == ["ran [2]"]  # the next call starts it anew
    assert Mortal.started == 3
    assert caplog.records[0].levelno == logging.WARNING


def test_a_batch_that_only_together_is_too_much_survives_as_a_whole(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Mortal.generate

    def small(self: Mortal, prompts: Any, sampling: Any, use_tqdm: bool) -> list[str]:
        if len(prompts) > 2:
            self.die()
            raise EngineDeadError("out of memory")
        return real(self, prompts, sampling, use_tqdm)

    monkeypatch.setattr(Mortal, "generate", small)
    assert run(engine, 1, 2, 3, 4) == [f"ran [{i}]" for i in (1, 2, 3, 4)]
    assert Mortal.started == 2


def test_an_engine_that_died_while_nobody_asked_is_started_anew_first(engine: Engine) -> None:
    engine._llm.die()
    assert not engine.alive
    assert run(engine, 1) == ["ran [1]"]
    engine._llm.die()
    assert engine.ask_workers("layers") == ["layers"]
    assert Mortal.started == 3


def test_a_restart_on_demand(engine: Engine) -> None:
    engine.restart()
    assert Mortal.started == 2
    assert engine.alive
    assert run(engine, 1) == ["ran [1]"]


def test_an_engine_that_does_not_start_again_is_an_error_of_each_request_until_it_does(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine._llm.die()
    monkeypatch.setattr(Mortal, "starts", False)
    for _ in range(2):
        for result in run(engine, 1, 2):
            assert isinstance(result, ModelLoadError)
            assert "no memory" in result.message
    monkeypatch.setattr(Mortal, "starts", True)
    assert run(engine, 1) == ["ran [1]"]


def test_a_closed_engine_stays_closed(engine: Engine) -> None:
    engine.close()
    for attempt in (engine.check_open, engine.restart):
        with pytest.raises(InputError, match="closed"):
            attempt()
    assert Mortal.started == 1


def test_on_a_cpu_prompts_are_computed_in_one_step_unless_the_budget_is_given(engine: Engine) -> None:
    assert engine_options({}, hidden_states=False)["enable_chunked_prefill"] is False
    assert engine_options({"enable_chunked_prefill": True}, hidden_states=False)["enable_chunked_prefill"] is True
    assert "enable_chunked_prefill" not in engine_options({"max_num_batched_tokens": 512}, hidden_states=True)
