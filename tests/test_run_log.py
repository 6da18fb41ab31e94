"""Logs of long runs: what is on the disk after a kill, what a resumed run does, and which folders are refused."""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared_core.errors import DocumentError, InputError, StoreError
from shared_core.support.run_log import RUN, Batches, RunLog, differences, digest_of_values


def test_appended_rows_are_read(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "new" / "lines.jsonl")
    assert log.read() == []
    log.append([{"a": 1}, {"a": "é\u2028\n"}])
    assert len(RunLog(log.path).read()) == 2  # on the disk before the next
    log.append([{"a": "\ud83d"}])
    log.append([{"a": math.inf}, {"a": math.nan}])
    *others, last = log.read()
    assert others == [{"a": 1}, {"a": "é\u2028\n"}, {"a": "\ud83d"}, {"a": math.inf}]
    assert math.isnan(last["a"])


def test_a_full_disk_is_a_failure_and_no_wrong_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    log = RunLog(tmp_path / "lines.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="the disk is full") as caught:
            log.append([{"a": 1}])
    assert "Free some space" in caught.value.hint
    log.append([{"a": 2}])
    assert log.read()[-1] == {"a": 2}


def test_a_torn_line_is_no_line_and_the_next_writer_cuts_it_off(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    RunLog(path).append([{"a": 1}, {"a": 2}])
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        found = RunLog(path).read()
        assert found == [{"a": 1}, {"a": 2}][: whole[:cut].count(b"\n")]
        RunLog(path).append([{"a": 3}])
        assert RunLog(path).read() == [*found, {"a": 3}]


@pytest.mark.parametrize(
    "torn", [b"x" * n for n in (1, 4095, 4096, 4097, 20_000)] + [b"\xc3"], ids=lambda torn: str(len(torn))
)
def test_a_torn_line_of_any_length_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "lines.jsonl"
    RunLog(path).append([{"a": 1}])
    for before in (path.read_bytes(), b""):
        path.write_bytes(before + torn)
        RunLog(path).append([{"a": 3}])
        assert path.read_bytes() == before + b'{"a": 3}\n'


def test_appending_does_not_read_the_file_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """30 MB are there already; a hundred batches used to read 3 GB."""
    path = tmp_path / "lines.jsonl"
    path.write_bytes((b'{"key": "k", "row": "' + b"x" * 1000 + b'"}\n') * 30_000)
    log = RunLog(path)
    assert len(log.rows) == 1
    monkeypatch.setattr(RunLog, "read", None)
    started = time.process_time()
    for i in range(100):
        log.add({str(i): i})
    assert time.process_time() - started < 0.5
    monkeypatch.undo()
    assert len(RunLog(path).rows) == 101


def test_one_process_at_a_time(tmp_path: Path) -> None:
    log, other = RunLog(tmp_path / "lines.jsonl"), RunLog(tmp_path / "lines.jsonl")
    with log.locked():
        with pytest.raises(InputError, match="Another run"):
            other.append([{"a": 0}])
        log.append([{"a": 1}])
    other.append([{"a": 2}])
    assert log.read() == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("line", ["no json", "[1]", "1"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"a": 1}\n' + line + "\n")
    with pytest.raises(InputError, match="line 2") as refused:
        RunLog(path).read()
    assert f"mv {path}" in str(refused.value.hint)
    assert path.read_text() == '{"a": 1}\n' + line + "\n"


def test_rows_are_found_by_their_key(tmp_path: Path) -> None:
    for path in (None, tmp_path / "rows"):
        values, records = RunLog(path), RunLog(path and tmp_path / "records.jsonl", key="id")
        values.add({"one": [1, None], "two": 2})
        values.add({"two": 3})
        records.add({"a": {"id": "a", "n": 1}})
        if path is not None:
            values, records = RunLog(path), RunLog(tmp_path / "records.jsonl", key="id")
        assert values.rows == {"one": [1, None], "two": 3}
        assert records.rows.get("a") == {"id": "a", "n": 1}
    with pytest.raises(InputError, match="line 1: a row without 'id'"):
        RunLog(tmp_path / "rows", key="id").rows.get("one")
    with pytest.raises(InputError, match="line 1: a row without 'row'"):
        RunLog(tmp_path / "records.jsonl").rows.get("a")


# --- filling ---------------------------------------------------------------------------------------------------------


class Stop(BaseException):
    """As a kill."""


def test_fill_makes_what_is_missing_and_tries_failures_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def work(batches: Batches, *, dies: bool = False, fails: str = "") -> Iterator[Any]:
        for number, batch in enumerate(batches):
            if dies and number == 2:
                raise Stop
            asked.extend(batch)
            yield {k: k.upper() for k in batch if k != fails}, {k: "why" for k in batch if k == fails}

    path, told = tmp_path / "rows", list[tuple[int, int]]()
    with pytest.raises(Stop):
        RunLog(path).fill("abcdefg", lambda b: work(b, dies=True), batch_size=2)
    assert asked == ["a", "b", "c", "d"]
    asked.clear()
    log = RunLog(path)
    errors = log.fill("abcdefg", lambda b: work(b, fails="f"), batch_size=2, progress=lambda *n: told.append(n))
    assert (asked, errors, told) == (["e", "f", "g"], {"f": "why"}, [(4, 7), (6, 7), (7, 7)])
    assert RunLog(path).fill("abcdefg", work, batch_size=2) == {}
    assert [RunLog(path).rows.get(k) for k in "af"] == ["A", "F"]
    with pytest.raises(InputError, match="batch"):
        log.fill("a", work, batch_size=0)


# --- configurations --------------------------------------------------------------------------------------------------

MADE_WITH = {"model": "m", "settings": {"top_k": 3, "seed": 0}, "documents": None}


def log_of(folder: Path) -> RunLog:
    return RunLog(folder / "labels.jsonl", key="id", card="labels.json")


def test_another_configuration_is_refused_by_the_value_that_differs(tmp_path: Path) -> None:
    log_of(tmp_path).bind({RUN: MADE_WITH})
    log_of(tmp_path).bind({RUN: MADE_WITH})
    other = {**MADE_WITH, "settings": {"top_k": 5, "seed": 0}}
    with pytest.raises(InputError) as refused:
        log_of(tmp_path).bind({RUN: other})
    assert refused.value.message == f"The run in {tmp_path} was made with settings.top_k 3, not 5."
    with pytest.raises(InputError, match=r"model \"m\", not \"n\" \(and 1 more such value\)"):
        log_of(tmp_path).bind({RUN: {**other, "model": "n"}})
    with pytest.raises(InputError, match="top_k 3, not 5"):
        log_of(tmp_path).check({RUN: {"settings": {"top_k": 5, "seed": 0}}})
    log_of(tmp_path).check({RUN: {"settings": {"top_k": 3, "seed": 0}, "not recorded": 1}})


def test_configurations_of_several_names_are_kept_apart(tmp_path: Path) -> None:
    log_of(tmp_path).bind({"ours": {"k": 1}}, {"started": "now"})
    log_of(tmp_path).bind({"theirs": {"k": (2,)}}, {"started": "later"})
    assert log_of(tmp_path).description() == (
        {"ours": {"k": 1}, "theirs": {"k": [2]}},
        [{"started": "now"}, {"started": "later"}],
    )
    with pytest.raises(InputError, match=r"The run 'ours' in .* was made with k 1, not 2"):
        log_of(tmp_path).bind({"ours": {"k": 2}})


def test_rows_without_a_card_and_damaged_cards_are_refused(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.add({"a": {"id": "a"}})
    with pytest.raises(InputError, match=r"has no labels\.json"):
        log.bind({RUN: MADE_WITH})
    for content in ("no json", "[]", '{"format": "selfreflect-run"}'):
        (tmp_path / "labels.json").write_text(content)
        with pytest.raises(InputError, match="does not describe a run"):
            log.bind({RUN: MADE_WITH})
    later = {"format": "selfreflect-run", "version": 99, "configurations": {}, "sessions": []}
    (tmp_path / "labels.json").write_text(json.dumps(later))
    with pytest.raises(InputError, match="version 99") as refused:
        log.check({RUN: MADE_WITH})
    assert "Update" in str(refused.value.hint)


def test_a_bare_configuration_of_0_1_0_is_read_and_completed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "labels.json").write_text(json.dumps({"model": "m", "top_k": 3}))
    (tmp_path / "labels.jsonl").write_text('{"id": "a"}\n')

    def upgrade(old: dict[str, Any]) -> dict[str, Any]:
        return {"model": old["model"], "settings": {"top_k": old["top_k"], "seed": 0}}

    with pytest.raises(InputError, match=r"settings\.top_k 3, not 5"):
        log_of(tmp_path).bind({RUN: {**MADE_WITH, "settings": {"top_k": 5, "seed": 0}}}, upgrade=upgrade)
    with caplog.at_level(logging.WARNING, "shared_core"):
        log_of(tmp_path).bind({RUN: {**MADE_WITH, "documents": "abc"}}, upgrade=upgrade)
    assert "did not record documents" in caplog.text
    assert log_of(tmp_path).description()[0] == {RUN: {**MADE_WITH, "documents": "abc"}}
    with pytest.raises(InputError, match='documents "abc", not "def"'):  # from now on it is recorded
        log_of(tmp_path).bind({RUN: {**MADE_WITH, "documents": "def"}}, upgrade=upgrade)
    assert log_of(tmp_path).rows.get("a") == {"id": "a"}


def test_a_folder_that_cannot_be_used_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = RunLog(tmp_path / "file" / "rows")
    for use in (lambda: log.append([{"a": 1}]), lambda: log.locked().__enter__()):
        with pytest.raises(DocumentError, match="cannot be used"):
            use()


def test_removing_leaves_nothing(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.remove()
    log.bind({RUN: MADE_WITH})
    log.add({"a": {"id": "a"}})
    log.remove()
    assert not list(tmp_path.iterdir())
    assert len(log.rows) == 0


def test_differences_are_named() -> None:
    before = {"a": 1, "settings": {"top_k": 3, "seed": 0}, "same": None}
    now = {"a": 1, "settings": {"top_k": 5, "seed": 0}, "same": None, "new": "x"}
    assert differences(before, now) == ['new null, not "x"', "settings.top_k 3, not 5"]
    assert digest_of_values({"a": 1, "b": 2}) == digest_of_values({"b": 2, "a": 1}) != digest_of_values({"a": 1})
