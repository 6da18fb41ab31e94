"""``selfreflect index``: exit codes, what goes to which stream, nothing lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from shared_core.commands.index import index_command
from shared_core.commands.progress import indexing_progress
from shared_core.retrieval.scan import INDEX_MARK
from shared_core.retrieval.store import DocumentIndex

app = typer.Typer()
app.command()(index_command)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.txt").write_text("Alpha is a ferry.")
    (folder / "t.csv").write_text("id,note\n1,A crane.\n")
    return folder


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments), "--no-dense"], env={"COLUMNS": "200"})


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


def test_interrupted_leaves_with_130(docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shared_core.retrieval.store.read_files", interrupt)
    result = run(docs, "--index", tmp_path / "i")
    assert result.exit_code == 130
    assert "go on" in result.stderr


def test_the_default_place_is_hidden(docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("docs").exit_code == 0
    assert [p.parent.parent.name for p in tmp_path.rglob(INDEX_MARK)] == [".selfreflect"]


def test_progress_is_drawn_on_a_terminal_only(docs: Path) -> None:
    import io

    from rich.console import Console

    stream = io.StringIO()
    with indexing_progress(Console(file=stream)) as progress:
        assert progress is None
    (docs / "[bold]odd[").mkdir()
    (docs / "[bold]odd[" / "name.txt").write_text("Text.")
    with indexing_progress(Console(file=stream, force_terminal=True)) as progress:
        DocumentIndex(None, dense=False).update(docs, progress=progress)
    assert "Reading files" in stream.getvalue()
