"""``selfreflect index``: exit codes, what goes to which stream, nothing lost."""

from __future__ import annotations

import errno
import io
import json
import os
import threading
from pathlib import Path

import pytest
from filelock import FileLock
from typer.testing import Result

from shared_core.cli.console import PlainConsole, indexing_progress, set_verbosity
from shared_core.documents.scan import INDEX_MARK
from shared_core.documents.store import DocumentIndex
from tests.command import selfreflect


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.txt").write_text("Alpha is a ferry.")
    (folder / "t.csv").write_text("id,note\n1,2024-01\n")
    return folder


def run(*arguments: object, dense: bool = False) -> Result:
    return selfreflect("index", *arguments, *([] if dense else ["--no-dense"]), env={"COLUMNS": "200"})


def test_indexes_and_lists_what_failed(docs: Path, tmp_path: Path) -> None:
    result = run(docs, "--index", tmp_path / "i")
    assert result.exit_code == 0, result.output
    assert "added" in result.stdout
    assert "t.csv: There is no text column; the columns are: 'id', 'note'." in result.stderr
    assert "--text-column" in result.stderr
    assert "t.csv" not in result.stdout
    assert run(docs, "--index", tmp_path / "i", "--strict").exit_code == 1
    result = run(docs, "--index", tmp_path / "i", "--text-column", "note", "--strict")
    assert (result.exit_code, result.stderr) == (0, "")


def test_more_failures_than_documents_are_a_failure(docs: Path, tmp_path: Path) -> None:
    for i in range(3):
        (docs / f"broken{i}.pdf").write_bytes(b"%PDF-1.7 broken")
    result = run(docs, "--index", tmp_path / "i")
    assert result.exit_code == 1
    assert "warning: 4 of 5 files not indexed:" in result.stderr
    assert "index:" in result.stdout  # the others are indexed
    assert run(docs, "--index", tmp_path / "i", "--text-column", "note").exit_code == 1
    (docs / "broken0.pdf").unlink()
    assert run(docs, "--index", tmp_path / "i", "--text-column", "note").exit_code == 0


def test_json_report(docs: Path, tmp_path: Path) -> None:
    result = run(docs, "--index", tmp_path / "i", "--json")
    report = json.loads(result.stdout)
    assert (report["added"], report["passages"]) == (["a.txt"], 1)
    assert report["failed"][0]["source"] == "t.csv"
    assert report["index"] == str(tmp_path / "i")
    (docs / "a.txt").unlink()
    (docs / "b.txt").write_text("Beta.")
    assert json.loads(run(docs, "--index", tmp_path / "i", "--json", "--no-prune").stdout)["deleted"] == []
    assert json.loads(run(docs, "--index", tmp_path / "i", "--json").stdout)["deleted"] == ["a.txt"]


def test_bad_input_leaves_with_2_and_a_hint(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "zero.txt").write_bytes(b"")
    (tmp_path / "binary.txt").write_bytes(b"\x00" * 100)
    for path in ("gone", "empty", "zero.txt", "binary.txt"):
        result = run(tmp_path / path, "--index", tmp_path / "i")
        assert result.exit_code == 2, result.output
        assert "error:" in result.stderr
        assert "hint:" in result.stderr
        assert "Traceback" not in result.output
    for options in (["--encoding", "klingon"], ["--max-chars", "3"], ["--overlap", "99"], ["--nonsense"]):
        assert run(docs, "--index", tmp_path / "i", *options).exit_code == 2
    assert run(docs, "--index", docs).exit_code == 2
    assert sorted(p.name for p in docs.iterdir()) == ["a.txt", "t.csv"]


def test_a_misspelt_path_among_others_leaves_with_2_and_the_others_are_indexed(docs: Path, tmp_path: Path) -> None:
    result = run(docs, tmp_path / "dcos", "--index", tmp_path / "i")
    assert result.exit_code == 2
    assert "dcos" in result.stderr
    assert DocumentIndex(tmp_path / "i", dense=False).sources() == ["a.txt"]


def test_a_damaged_index_leaves_with_1_and_is_not_touched(docs: Path, tmp_path: Path) -> None:
    run(docs, "--index", tmp_path / "i")
    (tmp_path / "i" / INDEX_MARK).write_bytes(b"garbage" * 1000)
    result = run(docs, "--index", tmp_path / "i")
    assert result.exit_code == 1
    assert "hint:" in result.stderr
    assert (tmp_path / "i" / INDEX_MARK).read_bytes() == b"garbage" * 1000


@pytest.mark.parametrize(("error", "code", "said", "unsaid"), [
    (KeyboardInterrupt(), 130, ["to continue"], ["Traceback"]),
    (OSError(errno.ENOSPC, "No space left on device", "somewhere"), 1, ["disk is full", "Free some space"], ["away"]),
    (ZeroDivisionError("odd \x1b[31m"), 1, ["ZeroDivisionError"], ["\x1b", "Traceback"]),
])  # fmt: skip
def test_what_breaks_in_the_middle_is_called_by_its_name(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: list[str],
    unsaid: list[str],
) -> None:  # fmt: skip
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("shared_core.documents.store.read_files", broken)
    result = run(docs, "--index", tmp_path / "i")
    assert result.exit_code == code
    assert all(words in result.stderr for words in said)
    assert not any(words in result.output for words in unsaid)
    if isinstance(error, ZeroDivisionError):  # a fault of this program
        assert "Traceback" in run(docs, "--index", tmp_path / "i", "-v").stderr


def test_the_default_place_is_in_the_users_cache_and_said(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(docs)
    result = run(docs)
    assert result.exit_code == 0, result.output
    (mark,) = tmp_path.rglob(INDEX_MARK)
    assert mark.parent.parent == tmp_path / "cache" / "selfreflect"
    assert str(mark.parent) in result.stdout
    assert sorted(path.name for path in docs.iterdir()) == ["a.txt", "t.csv"]
    run(docs / ".." / docs.name)  # the same folder by another name
    assert list(tmp_path.rglob(INDEX_MARK)) == [mark]


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (docs / "[bold]odd[").mkdir()
    (docs / "[bold]odd[" / "name.txt").write_text("Text.")
    stream = io.StringIO()
    with indexing_progress(PlainConsole(file=stream, force_terminal=True)) as progress:
        DocumentIndex(None, dense=False).update(docs, progress=progress)
    assert "Reading files" in stream.getvalue()
    all_three = [f"Reading files: {done} of 3" for done in (1, 2, 3)]
    for every, expected in ((0.0, all_three), (9e9, [])):
        monkeypatch.setattr("shared_core.cli.console.EVERY_SECONDS", every)
        stream = io.StringIO()
        with indexing_progress(PlainConsole(file=stream)) as progress:
            DocumentIndex(None, dense=False).update(docs, progress=progress)
        assert [line.split(",")[0] for line in stream.getvalue().splitlines()] == expected
    set_verbosity(-1)
    with indexing_progress(PlainConsole(file=stream)) as progress:
        assert progress is None
    set_verbosity(0)


def test_what_is_passed_over_is_named_with_a_way_out(docs: Path, tmp_path: Path) -> None:
    (docs / "b.xlsb").write_bytes(b"x")
    (docs / "c.png").write_bytes(b"x")
    result = run(docs, "--index", tmp_path / "i")
    assert ".xlsb 1 (save them as .xlsx)" in result.stdout
    assert ".png 1" in result.stdout
    report = json.loads(run(docs, "--index", tmp_path / "i", "--json").stdout)
    assert report["skipped_endings"] == {".xlsb": 1, ".png": 1}


def test_odd_files_each_get_their_true_hint(docs: Path, tmp_path: Path) -> None:
    (docs / "loop.txt").symlink_to("loop.txt")
    (docs / "around").symlink_to(docs / "around")
    os.mkfifo(docs / "pipe.txt")
    result = run(docs, "--index", tmp_path / "i")
    assert result.exit_code == 1, result.output  # three of four
    assert "loop.txt: The symbolic link points to itself." in result.stderr
    assert "pipe.txt: It is a pipe, not a plain file." in result.stderr
    for path in ("loop.txt", "pipe.txt"):
        assert run(docs / path, "--index", tmp_path / "j").exit_code == 2


def test_names_of_files_cannot_steer_the_terminal(docs: Path, tmp_path: Path) -> None:
    (docs / "evil\x1b[2J\u202etxt.csv").write_text("id\n1\n")
    (docs / "[red]x.csv").write_text("id\n1\n")
    result = run(docs, "--index", tmp_path / "i")
    assert "[red]x.csv" in result.stderr
    for text in (result.stdout, result.stderr):
        assert "\x1b" not in text
        assert "\u202e" not in text
    raw = run(docs, "--index", tmp_path / "i", "--json").stdout
    assert "\x1b" not in raw
    assert "\u202e" not in raw
    assert any("\u202e" in entry["source"] for entry in json.loads(raw)["failed"])


def test_quiet_says_nothing_beside_the_result_and_verbose_more(docs: Path, tmp_path: Path) -> None:
    assert run(docs, "--index", tmp_path / "i", "-q").stderr == ""
    assert run(docs / "gone", "--index", tmp_path / "i", "-q").stderr.startswith("error:")


def test_vectors_may_live_in_chroma(docs: Path, tmp_path: Path) -> None:
    pytest.importorskip("chromadb")
    assert run(docs, "--index", tmp_path / "i", "--vectors", "chroma", dense=True).exit_code == 0
    assert (tmp_path / "i" / "chroma").is_dir()
    assert run(docs, "--index", tmp_path / "i", dense=True).exit_code == 0  # the index remembers it
    assert (tmp_path / "i" / "chroma").is_dir()
    assert run(docs, "--index", tmp_path / "i", "--vectors", "none", dense=True).exit_code == 0
    assert not (tmp_path / "i" / "chroma").exists()
    wrong = run(docs, "--index", tmp_path / "i", "--vectors", "qdrant")
    assert wrong.exit_code == 2
    assert "index|chroma|chroma:http://HOST:PORT|none" in wrong.stderr


def test_the_old_name_of_the_option_warns(docs: Path, tmp_path: Path) -> None:
    result = run(docs, "--index", tmp_path / "i", "--chroma-url", "http://127.0.0.1:9", dense=True)
    assert "--chroma-url is now --vectors chroma:http://127.0.0.1:9" in result.stderr
    assert "The Chroma server http://127.0.0.1:9 failed" in result.stderr


def test_it_waits_for_another_process_as_long_as_it_is_asked_to(docs: Path, tmp_path: Path) -> None:
    index = tmp_path / "i"
    assert run(docs, "--index", index).exit_code == 0
    (docs / "b.txt").write_text("Beta is a bridge.")
    lock = FileLock(index / "lock", thread_local=False)  # released by another thread
    lock.acquire()
    busy = run(docs, "--index", index, "--wait", 0)
    assert busy.exit_code == 1
    assert "Another process is writing" in busy.stderr
    assert "--wait SECONDS" in busy.stderr
    later = threading.Timer(0.5, lock.release)
    later.start()
    assert run(docs, "--index", index, "--wait", 60).exit_code == 0
    later.join()
    assert len(DocumentIndex(index).sources()) == 2
