"""Documents: text exactly as extracted, titles, structure; every bad file refused with a reason and a hint."""

from __future__ import annotations

import gzip
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from shared_core.documents.load import Failure, load_document
from shared_core.documents.scan import INDEX_MARK, describe_skipped, iter_documents, scan
from shared_core.errors import DocumentError, InputError
from tests.documents.pdf_files import pdf
from tests.documents.reading import read, refused, refuses, write


def test_text_is_kept_character_for_character(tmp_path: Path) -> None:
    content = "  Tide tables\r\n\r\nHigh\u00a0water: 3.5 m.\tLow…\n\n\n  e\u0301 \U0001f30a \n"
    document = load_document(write(tmp_path, "tide.txt", content))
    assert document.text == content
    assert (document.title, document.source, document.format) == ("Tide tables", "tide.txt", "text")
    assert len(document.content_hash) == 64


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xef\xbb\xbfna\xc3\xafve", "naïve"),
        ("\ufeffnaïve 水".encode("utf-16-le"), "naïve 水"),
        ("\ufeffnaïve 水".encode("utf-16-be"), "naïve 水"),
        ("\ufeffnaïve 水".encode("utf-32-le"), "naïve 水"),
    ],
)
def test_byte_order_marks_decide_and_are_not_text(tmp_path: Path, data: bytes, expected: str) -> None:
    assert load_document(write(tmp_path, "a.txt", data)).text == expected


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Grüße aus Köln. Die Fähre fährt täglich.", "cp1252"),
        ("The fee is £5 – “paid” at the gate. It’s due.", "cp1252"),
        ("Le café est fermé l’été, à côté du théâtre. " * 3, "cp1252"),
        ("Příliš žluťoučký kůň úpěl.", "cp1250"),
        ("Паром отправляется каждый день.", "cp1251"),
    ],
)
def test_the_encoding_that_a_hint_names_is_the_usual_one(text: str, encoding: str) -> None:
    pytest.importorskip("charset_normalizer")
    assert refuses(text.encode(encoding), "a.txt").hint.endswith(f"It may be {encoding}.")


def test_lines_may_end_as_on_old_macs() -> None:
    found = read("# Rules\r\rNobody smokes.\r", "a.md")
    assert [heading.label for heading in found.headings] == ["Rules"]
    assert found.text.strip().endswith("Nobody smokes.")


def test_wrong_encoding_is_refused_with_the_place_and_never_guessed(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "eins\nzwei\nGrüße aus Köln".encode("cp1252"))
    error = refused(path)
    assert "line 3" in error.message
    assert "--encoding" in error.hint
    assert load_document(path, encoding="cp1252").text.endswith("Grüße aus Köln")
    # The fallback is for files that are not UTF-8: the others keep their letters.
    assert load_document(write(tmp_path, "b.txt", "Grüße"), encoding="cp1252").text == "Grüße"
    assert "truncated" not in refused(write(tmp_path, "c.txt", b"\xff\xfea\x00b")).message
    with pytest.raises(InputError, match="no text encoding"):
        load_document(path, encoding="klingon")
    with pytest.raises(InputError, match="no text encoding"):
        load_document(path, encoding="hex")


@pytest.mark.parametrize(
    "data",
    [b"\x7fELF\x02\x01\x01\x00" * 40, b"text with a \x00 in it", bytes(range(1, 9)) * 50, pdf([[(60, 700, 12, "x")]])],
    ids=["program", "nul", "control characters", "pdf"],
)
def test_binary_files_named_txt_are_refused(tmp_path: Path, data: bytes) -> None:
    assert "binary" in refused(write(tmp_path, "a.txt", data)).message


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b" \n\t\r\n "])
@pytest.mark.parametrize("ending", ["txt", "md", "html", "csv", "jsonl", "pdf", "epub", "rst", "py", "json"])
def test_files_without_text_are_refused(tmp_path: Path, ending: str, content: bytes) -> None:
    refused(write(tmp_path, f"a.{ending}", content))


def test_size_limit(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "x" * 101)
    assert "101" in refused(path, max_file_bytes=100).message
    assert load_document(path, max_file_bytes=101).text == "x" * 101
    with pytest.raises(InputError):
        load_document(path, max_file_bytes=0)


def test_what_is_no_readable_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no such file" in refused(tmp_path / "gone.txt").message
    assert "a folder" in refused(tmp_path).message
    os.mkfifo(tmp_path / "pipe.txt")
    assert refused(tmp_path / "pipe.txt").message == "It is a pipe, not a plain file."
    (tmp_path / "loop.txt").symlink_to("loop.txt")
    assert "points to itself" in refused(tmp_path / "loop.txt").message
    (tmp_path / "nowhere.txt").symlink_to("gone.txt")
    assert "broken" in refused(tmp_path / "nowhere.txt").message
    assert refused(Path("/dev/null")).message.startswith("It is a device")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket.txt"))
        assert "socket" in refused(tmp_path / "socket.txt").message
    assert "format" in refused(write(tmp_path, "a.xyz", "hello")).message
    assert ".xlsx" in refused(write(tmp_path, "a.xlsb", "hello")).hint
    path = write(tmp_path, "a.txt", "hello")

    def deny(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("shared_core.documents.load.os.open", deny)  # the tests may run as root
    assert "permission" in refused(path).message


def test_packed_files_are_read_as_what_they_hold(tmp_path: Path) -> None:
    path = write(tmp_path, "a.md.gz", gzip.compress(b"# Title\n\nSome text."))
    document = load_document(path)
    assert (document.text, document.format, document.title) == ("# Title\n\nSome text.", "markdown", "Title")
    assert load_document(write(tmp_path, "changelog.gz", gzip.compress(b"Some text."))).title == "changelog"
    assert load_document(write(tmp_path, "b.log.2.gz", gzip.compress(b"Some text."))).format == "code"
    assert "damaged" in refused(write(tmp_path, "c.txt.gz", gzip.compress(b"Some text.")[:-9])).message
    bomb = gzip.compress(b"x" * 10_000_000)
    assert "1,000,000" in refused(write(tmp_path, "d.txt.gz", bomb), max_file_bytes=1_000_000).message
    assert "unpack" in refused(write(tmp_path, "e.tar.gz", bomb)).hint


@pytest.mark.parametrize(
    "name",
    ["a.py", "a.js", "a.ts", "a.java", "a.c", "a.cpp", "a.go", "a.rs", "a.rb", "a.sh", "a.sql", "a.yaml", "a.toml",
     "a.ini", "a.cfg", "a.log", "a.log.1", "a.xml", "Makefile", "Dockerfile"],
)  # fmt: skip
def test_source_files_are_read_as_they_are(name: str) -> None:
    content = "first = 1\n\n\tsecond = 2  # no heading\n"
    document = read(content, name)
    assert (document.text, document.format) == (content, "code")


@pytest.mark.parametrize("name", ["a.tex", "a.org", "README", "LICENSE", "a.TXT"])
def test_other_texts(name: str) -> None:
    assert read("Some text.\n", name).format == "text"


def test_time_has_a_bound(tmp_path: Path) -> None:
    for wrong in (0, -1, float("inf"), float("nan")):
        with pytest.raises(InputError, match="max_seconds"):
            load_document(write(tmp_path, "a.txt", "text"), max_seconds=wrong)


def test_the_title_of_markdown_is_no_section_of_it(tmp_path: Path) -> None:
    fields = "Metadata-Version: 2.4\nName: bm25s\nLicense: MIT\n        License\n\n# Installation\n\nRun pip."
    for content, title in (
        (fields, "bm25s"),
        ("![logo](x.png)\n\nA library.\n\n## Features\n\nFast.", "notes"),
        ("A library.\n\n# Corrow\n\nFast.", "Corrow"),
        ("## Corrow\n\nFast.\n\n# Later\n\nText.", "Corrow"),
        ("Note: this: is prose.\n\n# Corrow\n\nFast.", "Corrow"),
    ):
        (tmp_path / "notes.md").write_text(content)
        assert load_document(tmp_path / "notes.md").title == title


def test_folders_are_walked_safely(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    for name in ("b.txt", "a/x.md", "a/.hidden.txt", ".git/y.txt", "~$lock.docx", "a/picture.png"):
        write(docs, name, "Some text.")
    write(docs, f"index/{INDEX_MARK}", "")
    write(docs, "index/inside.txt", "Not a document.")
    write(tmp_path, "outside/z.txt", "Linked.")
    (docs / "0loop").symlink_to(docs)
    (docs / "a" / "0alias.txt").symlink_to(docs / "b.txt")
    (docs / "linked").symlink_to(tmp_path / "outside")
    (docs / "broken.txt").symlink_to(tmp_path / "nowhere.txt")
    found = scan([docs])
    assert [file.source for file in found.files] == ["a/x.md", "b.txt", "linked/z.txt"]
    assert [failure.source for failure in found.failures] == ["broken.txt"]
    assert found.skipped == 1


def test_odd_entries_of_a_folder_cost_themselves_only(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "Some text.")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "loop.txt").symlink_to("loop.txt")
    (tmp_path / "ping").symlink_to("pong")
    (tmp_path / "pong").symlink_to("ping")
    os.mkfifo(tmp_path / "pipe.txt")
    found = scan([tmp_path])
    assert [file.source for file in found.files] == ["a.txt", "pipe.txt"]
    assert [(f.source, "itself" in f.message) for f in found.failures] == [("loop.txt", True)]
    failures: list[Failure] = []
    assert [d.source for d in iter_documents(tmp_path, on_failure=failures.append)] == ["a.txt"]
    assert {failure.source for failure in failures} == {"loop.txt", "pipe.txt"}


def test_what_is_passed_over_is_counted_by_ending(tmp_path: Path) -> None:
    for name in ("a.txt", "b.xlsb", "c.xlsb", "d.PNG", "e.tar.gz", "node_modules/x/readme.md", "binary"):
        write(tmp_path, name, "Some text.")
    write(tmp_path, "env/pyvenv.cfg", "home = /usr")
    write(tmp_path, "env/lib/readme.md", "Some text.")
    found = scan([tmp_path])
    assert [file.source for file in found.files] == ["a.txt"]
    assert found.skipped_endings == {".xlsb": 2, ".png": 1, ".tar.gz": 1, "node_modules/": 1, "env/": 1, "no ending": 1}
    shown = describe_skipped(found.skipped_endings)
    assert shown.startswith(".xlsb 2 (save them as .xlsx), ")
    assert ".tar.gz 1 (unpack them)" in shown
    assert [file.source for file in scan([tmp_path / "env"]).files] == ["lib/readme.md", "pyvenv.cfg"]  # asked for


def test_a_readme_is_read_whatever_its_ending(tmp_path: Path) -> None:
    names = ["CHANGES.1", "COPYING.LIB", "NEWS.old", "README.Debian", "changelog.old", "copyright"]
    for name in (*names, "README.zip", "install.exe", "news.db"):
        write(tmp_path, name, "Some text.")
    write(tmp_path, "changelog.Debian.gz", gzip.compress(b"Some text."))
    assert [d.source for d in iter_documents(tmp_path)] == sorted([*names, "changelog.Debian.gz"])


def test_what_documentation_generators_write_for_browsers_is_skipped(tmp_path: Path) -> None:
    names = ("index.html", "searchindex.js", "_static/jquery.js", "_static/basic.css", "_static/manual.txt", "app.js",
             "js/app.min.js", "search/search_index.json", "data.json", "searchindex-7a90acc2.js", "book-a0b12cfe.css",
             "tides-20240101.js")  # fmt: skip
    for name in names:
        write(tmp_path, name, "Some text.")
    found = scan([tmp_path])
    read = ["_static/manual.txt", "app.js", "data.json", "index.html", "tides-20240101.js"]
    assert [file.source for file in found.files] == read
    assert found.skipped_endings == {"generated .js": 4, "generated .css": 2, "generated .json": 1}
    assert [file.source for file in scan([tmp_path / "searchindex.js"]).files] == ["searchindex.js"]  # asked for


def test_missing_paths_and_empty_folders_are_failures(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = scan([tmp_path / "empty", tmp_path / "gone", write(tmp_path, "a.txt", "Hello.")])
    assert [file.source for file in found.files] == ["a.txt"]
    assert found.missing == [str(tmp_path / "gone")]
    assert ["no documents" in found.failures[0].message, "no such" in found.failures[1].message] == [True, True]
    assert not found.complete  # nothing counts as deleted because of them


def test_a_folder_that_cannot_be_listed_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "open/a.txt", "Hello.")
    write(tmp_path, "closed/b.txt", "Hidden.")
    real = os.scandir

    def scandir(path: Any) -> Any:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr("shared_core.documents.scan.os.scandir", scandir)
    found = scan([tmp_path])
    assert [file.source for file in found.files] == ["open/a.txt"]
    assert [failure.source for failure in found.failures] == ["closed"]
    assert not found.covers(str(tmp_path / "closed" / "b.txt"))
    assert found.covers(str(tmp_path / "open" / "c.txt"))


def test_iter_documents_goes_on_after_a_failure(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "Fine.")
    write(tmp_path, "b.txt", b"")
    write(tmp_path, "c.txt", "Fine too.")
    failures: list[Failure] = []
    assert [d.source for d in iter_documents(tmp_path, on_failure=failures.append)] == ["a.txt", "c.txt"]
    assert [f.source for f in failures] == ["b.txt"]
    with pytest.raises(DocumentError):
        list(iter_documents([tmp_path]))


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"caf\xe9.txt")
    with open(path, "wb") as file:
        file.write(b"text")
    assert "UTF-8" in refused(Path(os.fsdecode(path))).message
    assert "control" in refused(write(tmp_path, "a\x1fb.txt", "text")).message


def test_a_title_has_the_names_that_only_the_path_gives() -> None:
    text = "General By-laws\n\nThe seal of Arle is blue.\n\nIn Arle, dogs are led.\n\nThe mayor of Arle is paid.\n"
    assert read(text, "arle.txt").title == "Arle: General By-laws"
    assert read(text, "by-laws.txt").title == "General By-laws"
    assert read(text.replace("General", "Arle's"), "arle.txt").title == "Arle's By-laws"
    assert read(text.replace("Arle", "arle"), "arle.txt").title == "General By-laws"
    assert read(text, "arle/by-laws.txt").title == "General By-laws"
    assert read(text * 2, "arle/by-laws.txt").title == "Arle: General By-laws"
    assert read(text.replace("Arle", "ArleHub"), "arlehub.txt").title == "ArleHub: General By-laws"
    assert read(text.replace("Arle", "ARLE"), "arle.txt").title == "General By-laws"


def test_codes_in_the_name_of_a_file_head_its_title_as_the_text_writes_them() -> None:
    text = "Syllabus\n\nDaily. All members of Knots 141 meet, and Knots 141 has a lab. In version 2, version 2."
    assert read(text, "knots-141.txt").title == read(text, "Knots141.txt").title == "Knots 141: Syllabus"
    assert read(text, "knots-142.txt").title == read(text, "version-2.txt").title == "Syllabus"
    assert read(text.replace("Knots 141 has", "it has"), "knots-141.txt").title == "Syllabus"
    assert read(text.replace("Syllabus", "Syllabus of Knots 141"), "knots-141.txt").title == "Syllabus of Knots 141"


def test_pages_with_their_language_and_encoding_behind_the_name_are_read() -> None:
    page = "<html><title>Caching</title><body><p>Caching is fast.</p></body></html>"
    assert [read(page, name).format for name in ("a.html.en", "a.html.en.utf8", "a.html.pt-br.utf8")] == ["html"] * 3
