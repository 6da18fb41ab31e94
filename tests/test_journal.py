from __future__ import annotations

from pathlib import Path

import pytest

from shared_core.errors import InputError
from shared_core.support.run_log import Journal


def test_what_was_appended_is_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "lines.jsonl")
    assert journal.read() == []
    with journal.writing() as write:
        write([{"a": 1}, {"a": "é\u2028\n"}])
        assert len(journal.read()) == 2  # on the disk before the next
        write([{"a": "\ud83d"}])
    assert journal.read() == [{"a": 1}, {"a": "é\u2028\n"}, {"a": "\ud83d"}]


def test_a_torn_line_is_no_line_and_the_next_writer_cuts_it_off(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "lines.jsonl")
    with journal.writing() as write:
        write([{"a": 1}, {"a": 2}])
    whole = journal.path.read_bytes()
    for cut in range(len(whole)):
        journal.path.write_bytes(whole[:cut])
        found = journal.read()
        assert found == [{"a": 1}, {"a": 2}][: whole[:cut].count(b"\n")]
        with journal.writing() as write:
            write([{"a": 3}])
        assert journal.read() == [*found, {"a": 3}]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "lines.jsonl")
    with journal.writing(), pytest.raises(InputError, match="Another run"), Journal(journal.path).writing():
        pass
    with journal.writing() as write:
        write([{"a": 1}])


@pytest.mark.parametrize("line", ["no json", "[1]", "1"])
def test_what_is_no_line_of_ours_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"a": 1}\n' + line + "\n")
    with pytest.raises(InputError, match="line 2"):
        Journal(path).read()
