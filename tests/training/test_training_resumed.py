"""Trainings that were interrupted go on where they were; one process of several writes."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shared_core.errors import InputError
from shared_core.training.folder import CARD, CHECKPOINTS, TrainingFolder, tells_full_disk
from shared_core.training.recipes import train
from shared_core.training.rows import TrainingRow, write_rows
from shared_core.training.trainer import TrainingResult
from tests.training.interrupting import Interrupted, interrupt_at, options

pytest.importorskip("trl")
pytest.importorskip("peft")
torch = pytest.importorskip("torch")
load_file = pytest.importorskip("safetensors.torch").load_file

pytestmark = pytest.mark.usefixtures("one_thread")

EIGHT = options(max_steps=8, save_every=2)


def interrupt(at: int, rows: list[TrainingRow], base: Path, folder: Path) -> None:
    """Train eight steps, and interrupt it after so many."""
    with pytest.raises(Interrupted):
        train(rows, base, folder, EIGHT, progress=interrupt_at(at))


@pytest.fixture(scope="module")
def whole(rows: list[TrainingRow], checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingResult:
    """What comes of a training that nobody interrupts."""
    return train(rows, checkpoint, tmp_path_factory.mktemp("whole") / "m", EIGHT)


@pytest.mark.parametrize("at", [pytest.param(1, marks=pytest.mark.train), 3, pytest.param(8, marks=pytest.mark.train)])
def test_a_training_goes_on_where_it_was(
    at: int, whole: TrainingResult, rows: list[TrainingRow], checkpoint: Path, tmp_path: Path
) -> None:
    interrupt(at, rows, checkpoint, tmp_path / "m")
    assert not (tmp_path / "m" / CARD).exists()
    result = train(rows, checkpoint, tmp_path / "m", EIGHT)
    assert result.card["resumed_at"] == (at - 1) // 2 * 2
    assert result.losses == pytest.approx(whole.losses)
    assert not (tmp_path / "m" / CHECKPOINTS).exists()
    expected, found = (load_file(folder / "model.safetensors") for folder in (whole.output, tmp_path / "m"))
    assert all(torch.equal(expected[name], w) for name, w in found.items())
    with pytest.raises(InputError, match="in use"):  # it is done
        train(rows, checkpoint, tmp_path / "m", EIGHT)


@pytest.mark.parametrize(
    ("said", "free", "told"),
    [
        ("I/O error: No space left on device (os error 28)", 10**9, OSError),  # safetensors
        ("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0", 0, OSError),  # torch
        ("a defect", 10**9, RuntimeError),
    ],
)
def test_a_full_disk_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, free: int, told: type[Exception]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    with pytest.raises(told) as caught, tells_full_disk(tmp_path):
        raise RuntimeError(said)
    assert told is RuntimeError or (isinstance(caught.value, OSError) and caught.value.errno == errno.ENOSPC)


@pytest.mark.train
def test_a_training_goes_on_after_a_full_disk(
    rows: list[TrainingRow], checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import Trainer

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("I/O error: No space left on device (os error 28)")

    settings = options(max_steps=4, save_every=2)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "save_model", fail)
        with pytest.raises(OSError, match="No space left"):
            train(rows, checkpoint, tmp_path / "m", settings)
    assert train(rows, checkpoint, tmp_path / "m", settings).steps == 4


@pytest.mark.train
def test_a_torn_checkpoint_is_passed_over(
    whole: TrainingResult, rows: list[TrainingRow], checkpoint: Path, tmp_path: Path
) -> None:
    interrupt(5, rows, checkpoint, tmp_path / "m")
    torn = tmp_path / "m" / CHECKPOINTS / "checkpoint-6"
    torn.mkdir()
    (torn / "trainer_state.json").write_text("{")
    result = train(rows, checkpoint, tmp_path / "m", EIGHT)
    assert result.card["resumed_at"] == 4
    assert result.losses == pytest.approx(whole.losses)


@pytest.mark.train
def test_another_training_does_not_go_on_in_its_folder(
    rows: list[TrainingRow], checkpoint: Path, tmp_path: Path
) -> None:
    interrupt(3, rows, checkpoint, tmp_path / "m")
    with pytest.raises(InputError, match="settings"):
        train(rows, checkpoint, tmp_path / "m", options(max_steps=8, save_every=2, learning_rate=1e-4))
    with pytest.raises(InputError, match="rows"):
        train(rows[1:], checkpoint, tmp_path / "m", EIGHT)
    other = TrainingFolder(tmp_path / "m")
    with other.log.locked(), pytest.raises(InputError, match="Another run"):
        train(rows, checkpoint, tmp_path / "m", EIGHT)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="in use"):
        TrainingFolder(tmp_path / "taken")


@pytest.mark.train
def test_a_training_that_ended_while_it_was_set_up_begins_again(
    rows: list[TrainingRow], checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_memory(*args: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("shared_core.training.recipes.run", out_of_memory)
        with pytest.raises(MemoryError):
            train(rows, checkpoint, tmp_path / "m", options(max_steps=1))
    train(rows, checkpoint, tmp_path / "m", options(max_steps=1))
    assert (tmp_path / "m" / CARD).exists()


@pytest.mark.train
def test_other_weights_at_the_same_path_are_refused_before_they_are_loaded(
    rows: list[TrainingRow], checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM

    base = shutil.copytree(checkpoint, tmp_path / "base")
    interrupt(3, rows, base, tmp_path / "m")
    model = AutoModelForCausalLM.from_pretrained(base)
    with torch.no_grad():
        model.get_input_embeddings().weight.add_(1)
    model.save_pretrained(base)
    with monkeypatch.context() as patched:
        patched.setattr("shared_core.training.trainer.load_base", None)
        with pytest.raises(InputError, match="made with base_weights"):
            train(rows, base, tmp_path / "m", EIGHT)
        with pytest.raises(InputError, match=r"made with settings\.learning_rate 0\.001, not 0\.1\."):
            train(rows, checkpoint, tmp_path / "m", options(max_steps=8, save_every=2, learning_rate=0.1))
    shutil.copytree(checkpoint, base, dirs_exist_ok=True)
    moved = base.rename(tmp_path / "moved")  # the same weights are the same base, wherever they lie
    assert train(rows, moved, tmp_path / "m", EIGHT).card["resumed_at"] == 2
    assert [p for p in (tmp_path / "m").iterdir() if p.name.startswith(".")] == []


@pytest.mark.train
def test_a_training_that_0_1_0_began_goes_on(
    rows: list[TrainingRow], checkpoint: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    card = tmp_path / "m" / "run.json"
    interrupt(3, rows, checkpoint, tmp_path / "m")
    written = json.loads(card.read_text())["configurations"]["run"]
    assert written.pop("base_weights").startswith("base, weights ")
    card.write_text(json.dumps(written, indent=2))  # which is all that 0.1.0 wrote
    assert train(rows, checkpoint, tmp_path / "m", EIGHT).card["resumed_at"] == 2
    assert "did not record base_weights" in caplog.text


@pytest.mark.train
def test_a_signal_lets_the_step_end_and_keeps_a_checkpoint(
    whole: TrainingResult, rows: list[TrainingRow], checkpoint: Path, tmp_path: Path
) -> None:
    def send(done: int, total: int, loss: float | None) -> None:
        if loss is not None and done == 3:
            os.kill(os.getpid(), signal.SIGINT)

    settings = options(max_steps=8, save_every=8)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(rows, checkpoint, tmp_path / "m", settings, progress=send)
    assert signal.getsignal(signal.SIGINT) is before
    result = train(rows, checkpoint, tmp_path / "m", settings)
    assert result.card["resumed_at"] in (3, 4)
    assert result.losses == pytest.approx(whole.losses)


# --- real processes: `make test-slow`


def launch(command: list[str], **more: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, **more
    )


def asked(folder: Path, checkpoint: Path, output: str, *more: str) -> list[str]:
    return [
        *("train", "reclaim", "--role", "reference", "--rows", str(folder / "rows.jsonl"), "--model", str(checkpoint)),
        *(
            "--output", str(folder / output), "--max-steps", "60", "--batch-size", "4", "--save-every", "5", "--cpu",
            *more,
        ),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_command_goes_on(number: int, rows: list[TrainingRow], checkpoint: Path, tmp_path: Path) -> None:
    write_rows(rows, tmp_path / "rows.jsonl")
    command = [sys.executable, "-m", "shared_core.cli"]
    alone = launch([*command, *asked(tmp_path, checkpoint, "alone")])
    alone.communicate(timeout=300)
    assert alone.returncode == 0
    rounds = 0
    for wait in (0.05, 0.3, 0.6):  # after its first checkpoint, at three moments
        process = launch([*command, *asked(tmp_path, checkpoint, "m")])
        marks = len(list((tmp_path / "m").glob(f"{CHECKPOINTS}/*/complete.json")))
        limit = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < limit:
            now = len(list((tmp_path / "m").glob(f"{CHECKPOINTS}/*/complete.json")))
            if now > marks or (marks == 2 and now == 2):
                break
            time.sleep(0.02)
        time.sleep(wait)
        process.send_signal(number)
        process.communicate(timeout=120)
        rounds += process.returncode != 0
        if process.returncode == 0:
            break
    assert rounds
    last = launch([*command, *asked(tmp_path, checkpoint, "m")])
    said, _ = last.communicate(timeout=300)
    if not (tmp_path / "m" / CARD).exists():
        raise AssertionError(said)
    cards = [json.loads((tmp_path / name / CARD).read_text()) for name in ("alone", "m")]
    assert cards[0]["steps"] == cards[1]["steps"] == 60
    assert cards[1]["loss"]["last"] == pytest.approx(cards[0]["loss"]["last"])


@pytest.mark.slow
def test_of_two_processes_one_writes_and_prints(rows: list[TrainingRow], checkpoint: Path, tmp_path: Path) -> None:
    write_rows(rows, tmp_path / "rows.jsonl")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29541"]
    both = launch([*torchrun, "-m", "shared_core.cli", *asked(tmp_path, checkpoint, "m", "--max-steps", "4")])
    said, _ = both.communicate(timeout=300)
    assert both.returncode == 0, said
    assert said.count("written: ") == 1
    assert said.count("loss ") == 3  # the first step, the last, and the summary
    card = json.loads((tmp_path / "m" / CARD).read_text())
    assert card["processes"] == 2
    one = launch([sys.executable, "-m", "shared_core.cli", *asked(tmp_path, checkpoint, "one", "--max-steps", "4")])
    one.communicate(timeout=300)
    alone = json.loads((tmp_path / "one" / CARD).read_text())
    assert card["loss"]["first"] == pytest.approx(alone["loss"]["first"], rel=0.05)
