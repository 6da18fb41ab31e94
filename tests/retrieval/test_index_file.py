"""The index as files: who may read them, what is remembered, reading where nothing may be written, earlier versions."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from file_vectors import execute
from hashing_embedder import HashingEmbedder

from shared_core import SelfReflectEngine
from shared_core.documents import DocumentIndex, manifest, store
from shared_core.documents.scan import INDEX_MARK
from shared_core.errors import IndexCorruptedError, IndexMissingError, StoreError
from shared_core.retrieval import HybridRetriever
from tests.command import succeeds

pytest.importorskip("chromadb")


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, text in {
        "boats": "The Halcyon is a ferry. It was built in 1904 and carries ninety passengers to the island of Ellisk.",
        "birds": "Terns nest on the cliffs of Ellisk from May to August, and the cliffs are closed to visitors then.",
    }.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


def make(folder: Path, docs: Path, **options: bool) -> None:
    with DocumentIndex(folder, embedder=HashingEmbedder(), **options) as index:
        index.update(docs)


def ask(folder: Path) -> list[str]:
    """Ids of what is found by both retrievers."""
    with DocumentIndex(folder, embedder=HashingEmbedder()) as index:
        hybrid = index.retriever()
        found = [p.id for p in hybrid.retrieve("a ferry to the island", 5)]
        assert sorted(found) == sorted(p.id for p in hybrid.retrievers[-1].retrieve("a ferry to the island", 5))
    return found


# --- what is remembered ---------------------------------------------------------------------------------------------


def test_an_index_without_vectors_stays_one(tmp_path: Path, docs: Path) -> None:
    make(tmp_path / "i", docs, dense=False)
    embedder = HashingEmbedder()
    for use in (lambda i: i.retriever().retrieve("ferry"), lambda i: i.update(docs), lambda i: i.retriever()):
        with DocumentIndex(tmp_path / "i", embedder=embedder) as index:
            use(index)
            assert index.stats().embedder == "none"
    assert embedder.batches == []
    assert not (tmp_path / "i" / "chroma").exists()
    make(tmp_path / "i", docs, dense=True)  # until it is told otherwise
    assert len(ask(tmp_path / "i")) == 2


def test_the_command_line_remembers_it_too(tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def embed(*_: object) -> None:
        raise AssertionError("nothing of such an index may be embedded")

    succeeds("index", docs, "--index", tmp_path / "i", "--no-dense")
    monkeypatch.setattr("shared_core.retrieval.embedding.MiniLMEmbedder.embed_passages", embed)
    monkeypatch.setattr("shared_core.retrieval.embedding.MiniLMEmbedder.embed", embed)
    succeeds("index", docs, "--index", tmp_path / "i")
    with DocumentIndex(tmp_path / "i") as index:
        assert index.retriever().retrieve("ferry")[0].metadata["source"] == "boats.txt"


# --- who may read ---------------------------------------------------------------------------------------------------


def test_an_index_is_not_more_readable_than_the_documents_may_be(tmp_path: Path, docs: Path) -> None:
    before = os.umask(0o022)
    try:
        make(tmp_path / "i", docs)
        (docs / "more.txt").write_text("More about the tides of Ellisk.")
        make(tmp_path / "i", docs)
        with DocumentIndex(tmp_path / "i", embedder=HashingEmbedder()) as index:
            index.retriever()
            modes = {path: path.stat().st_mode & 0o777 for path in (tmp_path / "i").rglob("*")}
    finally:
        os.umask(before)
    assert (tmp_path / "i").stat().st_mode & 0o777 == 0o700
    assert len(modes) >= 4
    assert {path: mode for path, mode in modes.items() if mode & 0o077} == {}


# --- where nothing may be written -----------------------------------------------------------------------------------


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A folder that users other than the one who runs the tests may enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


def without_rights(work: Callable[[], object]) -> object:
    """What ``work`` gives, as JSON, run by a process that may not write anything (root's rights are laid down)."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            result: object = work()
        except BaseException as error:
            result = f"{type(error).__name__}: {error}"
        os.write(write, json.dumps(result).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        found: object = json.loads(pipe.read())
    os.waitpid(child, 0)
    return found


def make_read_only(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)


def test_an_index_that_may_not_be_written_can_be_asked(open_place: Path, docs: Path) -> None:
    docs = Path(shutil.copytree(docs, open_place / "docs"))
    make(open_place / "i", docs)
    expected = ask(open_place / "i")
    before = {path: path.read_bytes() for path in (open_place / "i").rglob("*") if path.is_file()}
    make_read_only(open_place / "i")
    assert without_rights(lambda: ask(open_place / "i")) == expected
    assert {path: path.read_bytes() for path in (open_place / "i").rglob("*") if path.is_file()} == before
    update = str(without_rights(lambda: make(open_place / "i", docs)))
    assert update.startswith("StoreError")
    assert "permission" in update.lower()


def test_what_a_killed_writer_left_in_its_journal_is_read_too(open_place: Path, docs: Path) -> None:
    with DocumentIndex(open_place / "i", embedder=HashingEmbedder(), dense=False) as index:
        index.update(docs)
        (docs / "late.txt").write_text("A late ferry.")
        index.update(docs)
        journal = open_place / "i" / f"{INDEX_MARK}-wal"
        assert journal.stat().st_size
        (open_place / "copy").mkdir()
        for file in (open_place / "i" / INDEX_MARK, journal):
            shutil.copy(file, open_place / "copy" / file.name)
    make_read_only(open_place / "copy")

    def sources() -> list[str]:
        with DocumentIndex(open_place / "copy", embedder=HashingEmbedder()) as copy:
            assert copy.retriever().retrieve("late ferry", 1)[0].metadata["source"] == "late.txt"
            return copy.sources()

    assert without_rights(sources) == ["birds.txt", "boats.txt", "late.txt"]


def test_an_incomplete_index_is_searched_and_said_to_be_so(
    tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path / "i", docs)
    execute(tmp_path / "i", "DELETE FROM vectors WHERE row = 1")
    monkeypatch.setattr(store, "_SOON", 0)  # too much to be done before the first answer
    with caplog.at_level(logging.WARNING), DocumentIndex(tmp_path / "i", embedder=HashingEmbedder()) as index:
        both = index.retriever()
        assert len(both.retrievers[0].retrieve("ferry cliffs", 5)) == 2
        assert len(both.retrievers[1].retrieve("ferry cliffs", 5)) == 1
    assert "1 of its 2 passages" in caplog.text
    monkeypatch.undo()
    assert len(ask(tmp_path / "i")) == 2


# --- busy, full, empty ----------------------------------------------------------------------------------------------


def test_asking_during_the_first_indexing_says_wait(tmp_path: Path, docs: Path) -> None:
    said: list[str] = []

    def meanwhile(_: object) -> None:
        if said:
            return
        execute(tmp_path / "i", "DELETE FROM files")
        with pytest.raises(StoreError) as caught:
            DocumentIndex(tmp_path / "i", embedder=HashingEmbedder()).retriever()
        said.append(f"{caught.value.message} {caught.value.hint}")

    with DocumentIndex(tmp_path / "i", embedder=HashingEmbedder()) as index:
        index.update(docs, progress=meanwhile)
    assert "being created by another process" in said[0]
    assert "Wait" in said[0]
    assert "Move" not in said[0]


def test_an_index_without_documents_is_missing(tmp_path: Path, docs: Path) -> None:
    make(tmp_path / "i", docs)
    execute(tmp_path / "i", "DELETE FROM files")
    with pytest.raises(IndexMissingError, match="no documents"):
        DocumentIndex(tmp_path / "i", embedder=HashingEmbedder()).retriever()


def test_a_full_disk_is_told_and_the_old_state_stays(
    tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "i", docs)
    expected = ask(tmp_path / "i")
    connect = manifest._connect

    def without_room(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(manifest, "_connect", without_room)
    for n in range(40):
        (docs / f"more{n}.txt").write_text(f"Number {n}. " + " ".join(str(n * i) for i in range(8_000)))
    with DocumentIndex(tmp_path / "i", embedder=HashingEmbedder()) as index, pytest.raises(StoreError) as caught:
        index.update(docs)
    assert "full" in caught.value.message
    assert "Free some disk space" in caught.value.hint
    assert not isinstance(caught.value, IndexCorruptedError)
    monkeypatch.undo()
    for file in docs.glob("more*"):
        file.unlink()
    make(tmp_path / "i", docs)
    assert ask(tmp_path / "i") == expected


# --- snapshots ------------------------------------------------------------------------------------------------------


TRAMS = "Another text altogether, about trams."


def change(docs: Path) -> None:
    (docs / "boats.txt").write_text(TRAMS)
    (docs / "birds.txt").unlink()


def found_by(retriever: Any) -> list[str]:
    return [p.text for p in retriever.retrieve("ferry to the island", 5)]


def test_a_retriever_sees_no_updates_by_others(tmp_path: Path, docs: Path) -> None:
    index = DocumentIndex(tmp_path / "i", embedder=HashingEmbedder())
    index.update(docs)
    before = index.retriever()
    expected = found_by(before)
    change(docs)
    with DocumentIndex(tmp_path / "i", embedder=HashingEmbedder()) as other:
        other.update(docs)
    assert found_by(index.retriever()) == [TRAMS]
    index.close()
    assert found_by(before) == expected
    assert len(before) == len(before.get(before.ids())) == 2


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("close", [False, True])
def test_a_retriever_follows_the_updates_of_its_index(tmp_path: Path, docs: Path, in_memory: bool, close: bool) -> None:
    index = DocumentIndex(None if in_memory else tmp_path / "i", embedder=HashingEmbedder())
    index.update(docs)
    retriever, idle = index.retriever(), index.retriever()
    answering = SelfReflectEngine(HybridRetriever(retrievers=[retriever]))
    old = retriever.ids()
    assert len(found_by(retriever)) == 2
    change(docs)
    index.update(docs)
    if close and not in_memory:
        index.close()
    assert found_by(retriever) == [TRAMS]
    assert found_by(answering.resources.retriever) == [TRAMS]
    assert idle.get(old) == []
    assert (len(idle), retriever.index_version) == (1, index.version())
    held = retriever.retrievers
    found_by(retriever)
    assert retriever.retrievers is held  # nothing changed, nothing is opened


def test_a_retriever_reads_its_former_content_while_an_update_is_under_way(docs: Path) -> None:
    index = DocumentIndex(None, dense=False)
    index.update(docs)
    retriever = index.retriever()
    before = found_by(retriever)
    change(docs)
    index.update(docs)
    seen: list[list[str]] = []
    (docs / "late.txt").write_text("A late ferry.")
    index.update(docs, progress=lambda _: seen.append(found_by(retriever)))
    assert seen
    assert seen == [before] * len(seen)
    assert "A late ferry." in found_by(retriever)


def test_a_retriever_keeps_what_it_has_where_its_index_is_gone(
    tmp_path: Path, docs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    index = DocumentIndex(tmp_path / "i", dense=False)
    index.update(docs)
    retriever = index.retriever()
    before = found_by(retriever)
    change(docs)
    index.update(docs)
    index.close()
    shutil.rmtree(tmp_path / "i")
    assert found_by(retriever) == found_by(retriever) == before
    assert caplog.text.count("cannot be read anew") == 1


def test_many_threads_search_the_new_content(docs: Path) -> None:
    index = DocumentIndex(None, embedder=HashingEmbedder())
    index.update(docs)
    retriever = index.retriever()
    change(docs)
    index.update(docs)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: tuple(found_by(retriever)), range(32))) == {(TRAMS,)}


# --- earlier versions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_index_of_an_earlier_format_is_refused_with_the_command_that_makes_it_anew(
    tmp_path: Path, docs: Path, version: int
) -> None:
    make(tmp_path / "i", docs, dense=False)
    execute(tmp_path / "i", f"PRAGMA user_version = {version}")
    for use in (lambda i: i.retriever(), lambda i: i.update(docs)):
        with DocumentIndex(tmp_path / "i", dense=False) as index, pytest.raises(StoreError) as caught:
            use(index)
        assert f"selfreflect index DOCUMENTS --index {tmp_path / 'i'}" in caught.value.hint
