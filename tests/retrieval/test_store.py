"""The index of files: incremental, whole after being killed, never trusting what is damaged, never losing anything."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from file_vectors import FileVectors, execute, place, state

from shared_core.documents.scan import INDEX_MARK
from shared_core.documents.store import DocumentIndex, IndexProgress, IndexReport, IndexSettings
from shared_core.errors import IndexCorruptedError, IndexMissingError, InputError, SettingsError, StoreError

LONG = " ".join(f"Sentence number {i} is about the tide." for i in range(60))


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text(f"Alpha\n\n{LONG}\n\nThe end.")
    (folder / "b.md").write_text("# Beta\n\nBeta is a ferry.\n\n## Crew\n\nThere are three.")
    (folder / "sub" / "c.csv").write_text("text,year\nGamma is a crane.,1811\nDelta is a dock.,1804\n")
    return folder


class Case:
    """An index under test together with its vectors."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "index"
        self.vectors = FileVectors(folder / "vectors.db")

    def open(self, **options: Any) -> DocumentIndex:
        return DocumentIndex(self.path, store=self.vectors, **options)

    def update(self, *paths: Path, **options: Any) -> IndexReport:
        self.vectors.added.clear()
        self.vectors.deleted.clear()
        with self.open(**options.pop("open", {})) as index:
            report = index.update(paths, **options)
            assert {p.id: p for p in index.passages()} == {p.id: p for p in self.vectors.passages()}
            assert report.passages == len(index.passages())
        return report


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_passages_point_into_the_stored_text(case: Case, docs: Path) -> None:
    report = case.update(docs)
    assert report.added == ("a.txt", "b.md", "sub/c.csv")
    assert (report.changed, report.deleted, report.unchanged, report.failed) == ((), (), (), ())
    with case.open() as index:
        assert index.document_text("a.txt") == (docs / "a.txt").read_text()
        for p in index.passages():
            assert index.document_text(str(p.metadata["source"]))[place(p)] == p.text
        assert [p.metadata["year"] for p in index.passages() if p.metadata["source"] == "sub/c.csv"] == [1811, 1804]
        assert index.sources() == ["a.txt", "b.md", "sub/c.csv"]
        stats = index.stats()
        assert (stats.documents, stats.passages) == (3, report.passages)
        assert stats.characters == sum(len(index.document_text(s)) for s in index.sources())
        with pytest.raises(InputError, match="no document"):
            index.document_text("z.txt")


def test_only_what_changed_is_read_and_embedded_again(case: Case, docs: Path) -> None:
    case.update(docs)
    assert case.update(docs).unchanged == ("a.txt", "b.md", "sub/c.csv")
    assert (case.vectors.added, case.vectors.deleted) == ([], [])

    text = (docs / "a.txt").read_text()
    (docs / "a.txt").write_text(text.replace("The end.", "The very end."))
    report = case.update(docs)
    assert (report.changed, report.unchanged) == (("a.txt",), ("b.md", "sub/c.csv"))
    assert (len(case.vectors.added), len(case.vectors.deleted)) == (1, 1)  # the passages before the change are kept

    (docs / "a.txt").write_text(text)
    case.update(docs)
    (docs / "b.md").unlink()
    (docs / "new.txt").write_text("Something new.")
    report = case.update(docs)
    assert (report.added, report.deleted) == (("new.txt",), ("b.md",))


def test_no_prune_keeps_and_other_folders_are_left_alone(case: Case, docs: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "o.txt").write_text("Another folder.")
    case.update(docs)
    assert case.update(other).deleted == ()
    (docs / "b.md").unlink()
    assert case.update(docs, prune=False).deleted == ()
    assert case.update(docs).deleted == ("b.md",)
    with case.open() as index:
        assert index.sources() == ["a.txt", "o.txt", "sub/c.csv"]


def test_what_a_file_held_that_is_empty_now_is_not_quoted_any_more(case: Case, docs: Path) -> None:
    case.update(docs)
    (docs / "b.md").write_text("\n")
    assert "kept" in case.update(docs, prune=False).failed[0].message
    report = case.update(docs)
    assert (report.deleted, report.failed[0].source) == (("b.md",), "b.md")
    with case.open() as index:
        assert index.sources() == ["a.txt", "sub/c.csv"]
    for name in ("a.txt", "sub/c.csv"):
        (docs / name).write_text("")
    assert case.update(docs).deleted == ()  # nothing would be left: both were cut short, perhaps by mistake
    with case.open() as index:
        assert index.sources() == ["a.txt", "sub/c.csv"]


def test_settings_are_remembered_and_a_change_cuts_again(case: Case, docs: Path) -> None:
    case.update(docs, open={"settings": IndexSettings(max_chars=300)})
    assert case.update(docs).unchanged == ("a.txt", "b.md", "sub/c.csv")
    report = case.update(docs, open={"settings": IndexSettings(text_column="text")})
    assert (report.changed, report.unchanged) == (("sub/c.csv",), ("a.txt", "b.md"))
    with case.open() as index:
        assert max(len(p.text) for p in index.passages()) <= 300
    assert case.update(docs, open={"split_sentences": lambda t: [(0, len(t))]}).changed == (
        "a.txt",
        "b.md",
        "sub/c.csv",
    )
    with pytest.raises(SettingsError):
        IndexSettings(max_chars=10)
    with pytest.raises(SettingsError):
        IndexSettings(max_char=500)


def test_a_bad_file_fails_alone_and_keeps_its_former_state(case: Case, docs: Path) -> None:
    (docs / "bad.txt").write_bytes(b"\x00\x01binary")
    (docs / "rows.jsonl").write_text('{"text": "Fine."}\n{broken\n')
    report = case.update(docs)
    assert len(report.added) == 4
    assert [(f.source, "line 2" in f.message) for f in report.failed] == [("bad.txt", False), ("rows.jsonl", True)]
    assert all(f.hint for f in report.failed)
    assert case.update(docs).failed == report.failed  # told again as long as it is so

    (docs / "a.txt").write_bytes(b"\xff\x00")
    report = case.update(docs)
    assert "kept" in next(f.message for f in report.failed if f.source == "a.txt")
    with case.open() as index:
        assert "Alpha" in index.document_text("a.txt")
    assert report.to_dict()["failed"][0].keys() == {"source", "message", "hint"}


def test_a_fault_of_a_parser_costs_only_its_file(case: Case, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from shared_core.documents.loaders import markdown

    monkeypatch.setattr(markdown, "load_markdown", lambda *_, **options: 1 / 0)
    report = case.update(docs)
    assert report.added == ("a.txt", "sub/c.csv")
    assert "ZeroDivisionError" in report.failed[0].message


def test_an_unreadable_file_fails_alone(case: Case, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case.update(docs)
    real = os.open

    def guarded(path: Any, *args: Any, **options: Any) -> Any:
        if Path(path).name == "a.txt":
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **options)

    monkeypatch.setattr("shared_core.documents.load.os.open", guarded)
    report = case.update(docs)
    assert ("permission" in report.failed[0].message, report.deleted) == (True, ())
    assert report.unchanged == ("b.md", "sub/c.csv")


def test_nothing_to_index_is_an_error_and_removes_nothing(case: Case, docs: Path, tmp_path: Path) -> None:
    case.update(docs)
    empty = tmp_path / "empty"
    empty.mkdir()
    for paths in ([empty], [tmp_path / "gone"], []):
        with pytest.raises(InputError):
            case.update(*paths)
    shutil.rmtree(docs)
    docs.mkdir()
    with pytest.raises(InputError, match="no documents"):
        case.update(docs)
    with case.open() as index:
        assert len(index.sources()) == 3
    (empty / "a.txt").write_bytes(b"")
    with pytest.raises(InputError, match="None of the 1 files"):
        DocumentIndex(None, dense=False).update(empty)


@pytest.mark.parametrize(("name", "text"), [
    ("a.md", "---\ntitle: Cargo\n---\n"),
    ("a.html", "<meta http-equiv='refresh' content='0; url=../b.html'><p>Moved to <a href='../b.html'>b</a>.</p>"),
])  # fmt: skip
def test_files_that_hold_nothing_to_quote_are_refused_with_the_reason(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match="nothing that could be quoted"):
        DocumentIndex(None, dense=False).update([tmp_path])


def test_documents_of_the_same_name_are_told_apart(case: Case, tmp_path: Path) -> None:
    for folder in ("one", "two", "x/two"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "readme.md").write_text(f"This is {folder}.")
    roots = [tmp_path / "one", tmp_path / "two", tmp_path / "x" / "two"]
    names = ("readme.md", "two-2/readme.md", "two/readme.md")
    assert case.update(*roots).added == names
    assert case.update(*reversed(roots)).unchanged == names
    with case.open() as index:
        assert index.document_text("two-2/readme.md") == "This is x/two."
    # A folder that was moved is the same folder.
    (tmp_path / "one").rename(tmp_path / "moved")
    assert case.update(tmp_path / "moved").unchanged == ("readme.md",)
    # A file is found again by where it lies, whatever root it is named by.
    assert case.update(tmp_path / "x").unchanged == ("two-2/readme.md",)


def test_the_index_may_lie_among_the_documents(docs: Path) -> None:
    with DocumentIndex(docs / "index", dense=False) as index:
        assert len(index.update(docs).added) == 3
        assert len(index.update(docs).unchanged) == 3


def test_progress_is_told(case: Case, docs: Path) -> None:
    told: list[IndexProgress] = []
    case.update(docs, progress=told.append)
    assert [(p.done, p.total) for p in told if p.phase == "reading"] == [(1, 3), (2, 3), (3, 3)]
    embedded = [p for p in told if p.phase == "embedding"]
    assert embedded[-1].done == embedded[-1].total == len(case.vectors.added)


def test_lost_or_surplus_vectors_are_made_good(case: Case, docs: Path) -> None:
    case.update(docs)
    lost = case.vectors.ids()[:2]
    case.vectors.delete(lost)
    case.update(docs)
    assert sorted(case.vectors.added) == sorted(lost)


def test_passages_of_others_in_a_store_of_ones_own_are_left_alone(case: Case, docs: Path) -> None:
    from shared_core.types import Passage

    case.vectors.add([Passage("mine", "Not from a file.")])
    with case.open() as index:
        index.update(docs)
        (docs / "b.md").unlink()
        index.update(docs)
        assert set(case.vectors.ids()) == {"mine", *(p.id for p in index.passages())}


def test_killed_at_any_moment(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    run = subprocess.run(
        [sys.executable, "-m", "tests.retrieval.file_vectors", str(tmp_path / "index"), str(docs), "7"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[2],
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) >= 25  # it did die, at many places
    fresh = DocumentIndex(None, dense=False)
    fresh.update(docs)
    with DocumentIndex(tmp_path / "index", dense=False) as index:
        assert index.passages() == fresh.passages()
    assert sorted(FileVectors(tmp_path / "vectors.db").ids()) == sorted(p.id for p in fresh.passages())
    assert set(state(tmp_path / "index")) == {path.name for path in docs.iterdir()}


def test_a_killed_update_is_completed_by_the_next_reader(case: Case, docs: Path) -> None:
    case.update(docs)
    case.vectors.delete(case.vectors.ids())
    with case.open() as index:
        assert index.retriever().retrieve("ferry", 1)[0].metadata["source"] == "b.md"
        assert sorted(case.vectors.ids()) == sorted(p.id for p in index.passages())


def test_readers_are_told_that_an_update_was_killed_while_it_read_files(
    tmp_path: Path, docs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def stop(_: IndexProgress) -> None:
        raise KeyboardInterrupt

    with DocumentIndex(tmp_path / "i", dense=False) as index:
        with pytest.raises(KeyboardInterrupt):
            index.update(docs, progress=stop)
        assert len(index.sources()) == 1
    with DocumentIndex(tmp_path / "i", dense=False) as index:
        assert index.retriever() is not None
        assert "before it had read all files" in caplog.text
        caplog.clear()
        index.update(docs)
        assert index.retriever() is not None
    assert not caplog.text


def test_two_writers_cannot_meet(case: Case, docs: Path) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def wait(_: IndexProgress) -> None:
        inside.set()
        go_on.wait(20)

    first = threading.Thread(target=lambda: DocumentIndex(case.path, dense=False).update(docs, progress=wait))
    first.start()
    try:
        assert inside.wait(20)
        with pytest.raises(StoreError, match="Another process"):
            DocumentIndex(case.path, dense=False, lock_timeout=0).update(docs)
        # Readers are not kept out.
        assert DocumentIndex(case.path, dense=False).retriever() is not None
    finally:
        go_on.set()
        first.join()
    assert len(DocumentIndex(case.path, dense=False).sources()) == 3


def of_another_program(_: bytes) -> bytes:
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE of_another_program (x)")
        return connection.serialize()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[: len(data) // 2],
    "garbage": lambda _: b"this is no database" * 500,
    "empty": lambda _: b"",
    "middle": lambda data: data[:4096] + b"\xa5" * (len(data) - 4096),
    "foreign": of_another_program,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_manifest_is_told_and_left_as_it_is(case: Case, docs: Path, damage: Any) -> None:
    case.update(docs)
    manifest = case.path / INDEX_MARK
    manifest.write_bytes(damage(manifest.read_bytes()))
    before = {f: f.read_bytes() for f in case.path.iterdir()}
    for use in (
        lambda: case.open().update(docs),
        lambda: case.open().passages(),
        lambda: case.open().retriever(),
        lambda: case.open().stats(),
    ):
        with pytest.raises(IndexCorruptedError) as caught:
            use()
        assert caught.value.hint
    assert {f: f.read_bytes() for f in case.path.iterdir() if f in before} == before
    assert len(case.vectors.ids()) > 0


@pytest.mark.parametrize("damage", [
    "UPDATE texts SET text = x'00'", "UPDATE passages SET metadata = '{'",
    "UPDATE meta SET value = '{\"max_chars\": -1}' WHERE key = 'settings'",
])  # fmt: skip
def test_damaged_content_is_told(case: Case, docs: Path, damage: str) -> None:
    case.update(docs)
    execute(case.path, damage)
    with pytest.raises(IndexCorruptedError):
        case.open().update(docs) if "settings" in damage else case.open().passages()


def test_an_index_of_a_newer_version_is_refused(case: Case, docs: Path) -> None:
    case.update(docs)
    execute(case.path, "PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="format 99"):
        case.open().passages()


def test_a_missing_index_is_told(case: Case) -> None:
    for use in (case.open().passages, case.open().retriever, case.open().stats, case.open().sources):
        with pytest.raises(IndexMissingError, match="no index"):
            use()
    assert not case.path.exists()


def test_folders_that_are_no_index_are_left_alone(docs: Path, tmp_path: Path) -> None:
    before = sorted(docs.rglob("*"))
    for documents in (docs / "a.txt", docs):
        with pytest.raises(InputError, match="holds other files"):
            DocumentIndex(docs, dense=False).update(documents)
    assert sorted(docs.rglob("*")) == before
    with pytest.raises(InputError, match="is a file"):
        DocumentIndex(docs / "a.txt")
    (tmp_path / "half" / "chroma").mkdir(parents=True)
    with pytest.raises(IndexCorruptedError):
        DocumentIndex(tmp_path / "half", dense=False).update(docs)
    with pytest.raises(InputError, match="manifest"):
        DocumentIndex(None, chroma_url="http://localhost:1")


def test_a_large_file_is_indexed(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "big.txt"
    path.write_text("A tide came in at noon. It went out again.\n\n" * 40_000)  # nearly 2 MB
    with DocumentIndex(case.path, dense=False) as index:
        report = index.update(path)
        assert report.passages == len(index.passages())
        assert len(index.document_text("big.txt")) == path.stat().st_size
    small = DocumentIndex(tmp_path / "small", dense=False, settings=IndexSettings(max_file_bytes=1000))
    with pytest.raises(InputError, match="limit"):
        small.update(path)


def test_any_text_survives_storage(case: Case, tmp_path: Path) -> None:
    text = "Zürich 水 \U0001f30a e\u0301\u200b\u00a0\u2028 \ufeff\ufffd\n\nשלום. مرحبا؟"
    (tmp_path / "t.txt").write_text(text)
    case.update(tmp_path / "t.txt")
    with case.open() as index:
        assert index.document_text("t.txt") == text
