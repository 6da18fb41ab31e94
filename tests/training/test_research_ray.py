"""Searches on Ray Data, on this machine: what comes of them, and what is on the disk, is as without it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared_core import SelfReflectEngine
from shared_core.errors import BackendUnavailableError, InputError
from shared_core.training.research.searches import SEARCHES, OnRay, run_searches
from tests.command import selfreflect, succeeds
from tests.fakes import Shelf
from tests.pipelines.research_scripts import believes
from tests.training.ray_models import Broken, Numbered
from tests.training.test_research_rows import LIT, QUESTIONS, Killed, made, research_data

TWO = OnRay(workers=2)


def numbered(seen: Path | None = None, processes: int = 1, **research: Any) -> SelfReflectEngine:
    model = Numbered([[LIT]], think=believes(lit="90", sank="20"))
    model.seen, model.processes = str(seen) if seen is not None else "", processes
    return made(model, **research)[0]


def test_what_could_never_run_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(InputError, match="a worker"):
        OnRay(workers=0)
    auto = numbered()
    auto = auto.over(Shelf(), auto.settings.replace(expected_answerable="auto"))
    with pytest.raises(InputError, match="expected_answerable"):
        run_searches(auto, QUESTIONS, tmp_path / "auto", carrier=TWO)
    here: Any = Shelf()
    here.open = (i for i in ())  # a generator does not leave its process
    bound = numbered().over(here)
    with pytest.raises(InputError, match="other processes"):
        run_searches(bound, QUESTIONS, tmp_path / "bound", carrier=TWO)
    refused = selfreflect("train", "research-data", "q.jsonl", "-o", "x", "--model", "m", "--ray-address", "auto")
    assert refused.exit_code == 2


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    yield
    import ray

    assert not ray.is_initialized()  # what a run starts it ends


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
def test_two_workers_find_what_one_process_finds(tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    alone, failed_alone = run_searches(numbered(), QUESTIONS, tmp_path / "alone", batch_size=2)
    told: list[tuple[int, int]] = []
    engine = numbered(tmp_path / "seen", processes=2)
    found, failed = run_searches(
        engine, QUESTIONS, tmp_path / "ray", batch_size=2, carrier=TWO, progress=lambda *at: told.append(at)
    )
    assert found == alone
    assert failed == failed_alone
    assert set(failed) == {"5"}
    assert told[-1] == (7, 7)
    assert sorted((tmp_path / "ray" / SEARCHES).read_text().splitlines()) == sorted(
        (tmp_path / "alone" / SEARCHES).read_text().splitlines()
    )
    processes = {p.suffix for p in (tmp_path / "seen").iterdir()}
    assert len(processes) == 2
    assert f".{os.getpid()}" not in processes


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
def test_killed_it_goes_on_with_or_without_ray(tmp_path: Path) -> None:
    def kill(done: int, total: int) -> None:
        if done >= 4:
            raise Killed

    (tmp_path / "seen").mkdir()
    with pytest.raises(Killed):
        run_searches(numbered(), QUESTIONS, tmp_path / "run", batch_size=2, carrier=TWO, progress=kill)
    kept = [json.loads(line)["id"] for line in (tmp_path / "run" / SEARCHES).read_text().splitlines()]
    assert len(kept) in (3, 4)  # two batches; lamp 5 fails
    found, _ = run_searches(numbered(tmp_path / "seen"), QUESTIONS, tmp_path / "run", batch_size=2, carrier=TWO)
    assert found == run_searches(numbered(), QUESTIONS, tmp_path / "whole", batch_size=2)[0]
    asked = {p.stem for p in (tmp_path / "seen").iterdir()}
    assert asked == {q.id for q in QUESTIONS} - set(kept)


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
def test_a_worker_that_dies_ends_the_run_and_keeps_what_was_done(tmp_path: Path) -> None:
    run_searches(numbered(), QUESTIONS[:2], tmp_path, batch_size=2)
    broken = made(Broken([[LIT]], think=believes(lit="90", sank="20")))[0]
    with pytest.raises(BackendUnavailableError, match="Ray gave up"):
        run_searches(broken, QUESTIONS, tmp_path, batch_size=4, carrier=OnRay(workers=1))
    assert [s.id for s in run_searches(numbered(), QUESTIONS[:2], tmp_path)[0]] == ["0", "1"]


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
def test_the_command_makes_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command, _ = research_data(tmp_path, monkeypatch)
    command += ["--limit", "4", "--batch-size", "2"]
    succeeds(*command, "-o", tmp_path / "alone")
    succeeds(*command, "-o", tmp_path / "ray", "--ray", "--workers", "2")
    for name in ("sft.jsonl", "dpo.jsonl", "rloo.jsonl"):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
