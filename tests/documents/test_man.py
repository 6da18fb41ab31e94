"""Manual pages (``files/whole`` has whole ones): an option stays with its definition; what only looks like a page."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from shared_core.documents import DocumentIndex
from shared_core.documents.chunking import chunk_document
from tests.documents.reading import FILES, read


def test_an_option_and_its_definition_are_one_passage() -> None:
    option = "\n.TP\n\\-\\-option{}\nDo the thing number {} and every other thing that a long description names."
    page = ".TH LONG 1\n.SH OPTIONS" + "".join(option.format(i, i) for i in range(40))
    passages = chunk_document(read(page, "long.man"))
    assert len(passages) > 2
    for i in range(40):
        assert sum(f"--option{i}\nDo the thing number {i} " in passage.text for passage in passages) == 1


@pytest.mark.parametrize(("name", "pack"), [("buoy.1.gz", gzip.compress), ("buoy.3pm.bz2", bz2.compress)])
def test_manuals_are_packed(name: str, pack: Callable[[bytes], bytes]) -> None:
    page = (FILES / "whole" / "buoy.man").read_bytes()
    assert (read(pack(page), name).text, read(pack(page), name).format) == (read(page, "buoy.man").text, "man")


@pytest.mark.parametrize("name", ["messages.1.gz", "a.3pm.gz", "b.man"])
def test_other_files_with_such_names_are_read_as_they_are(name: str) -> None:
    log = "May 1 03:00:00 buoy: ring\n"
    document = read(gzip.compress(log.encode()) if name.endswith("gz") else log, name)
    assert (document.text, document.format) == (log, "code")


def test_pages_as_they_lie_in_a_folder_are_read_and_what_only_has_such_a_name_is_skipped(tmp_path: Path) -> None:
    page = (FILES / "whole" / "buoy.man").read_bytes()
    for name in ("buoy.1", "Buoy.3pm", "buoy.8.in"):
        (tmp_path / name).write_bytes(page)
    (tmp_path / "libbuoy.so.1").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "release-1.2").write_text("Nothing of a manual.", "utf-8")
    (tmp_path / "buoy.rst.inc").write_text("The buoy rings in fog.", "utf-8")
    with DocumentIndex(None, dense=False) as index:
        report = index.update([tmp_path])
        texts = {p.metadata["source"]: p.text for p in index.passages()}
    assert set(texts) == {"buoy.1", "Buoy.3pm", "buoy.8.in", "buoy.rst.inc"}
    assert not report.failed
    assert dict(report.skipped_endings) == {".1": 1, ".2": 1}
    assert texts["buoy.rst.inc"] == "The buoy rings in fog."


BROKEN = (".TH X 1\n.de A\n", ".TH X 1\n.if n \\{\\\n", ".TH X 1\n\\", ".TH\n.SH\n.TP\n.IP\n.It\nx")


@pytest.mark.parametrize("page", BROKEN)
def test_broken_and_huge_pages_are_read_in_linear_time(page: str) -> None:
    huge = "\\f[" * 100_000 + "\n" + ".TP\n" * 20_000 + 'B "' * 20_000 + "\nword" * 300_000
    document = read(f"{page}\n..\n.\\}}\n{huge}\nend", "b.man", max_seconds=30)
    assert document.text.endswith("word end")


def test_a_term_of_several_lines_in_mdoc_is_one_with_what_is_optional_in_brackets() -> None:
    page = (
        ".Dd May 1\n.Dt WINCH 1\n.Sh COMMANDS\n.Bl -tag\n.It Xo Ic break-rope\n.Op Fl ab\n.Op Fl n Ar name\n.Xc\n"
        ".D1 Pq alias: Ic breakr\nBreak a rope off its drum.\n.It Ic haul Ar rope\nHaul it in.\n.El\n"
    )
    document = read(page, "winch.1")
    assert [h.label for h in document.headings if h.level >= 10] == ["break-rope [-ab] [-n name]", "haul rope"]
    assert document.text.split("\n\n")[1] == "break-rope [-ab] [-n name]\n(alias: breakr)\nBreak a rope off its drum."
