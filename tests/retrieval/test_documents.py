"""Documents: text exactly as extracted, titles, structure; every bad file refused with a reason and a hint."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from shared_core.errors import DocumentError, InputError
from shared_core.retrieval.documents import Document, Failure, load_document
from shared_core.retrieval.scan import INDEX_MARK, iter_documents, scan


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def make_pdf(pages: list[str], *, title: str = "", password: str = "") -> bytes:
    """A PDF with one line of text on each page; an empty string makes a page without text."""
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    for text in pages:
        page = writer.add_blank_page(width=600, height=200)
        font = DictionaryObject(
            {
                NameObject("/Type"): NameObject("/Font"),
                NameObject("/Subtype"): NameObject("/Type1"),
                NameObject("/BaseFont"): NameObject("/Helvetica"),
            }
        )
        fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode() if text else b"")
        page[NameObject("/Contents")] = writer._add_object(stream)
    if title:
        writer.add_metadata({"/Title": title})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def make_docx(title: str = "") -> bytes:
    import docx

    document = docx.Document()
    document.core_properties.title = title
    document.add_heading("The Harbour", level=1)
    document.add_paragraph("It was dug in 1804.")
    document.add_heading("Cranes", level=2)
    table = document.add_table(rows=2, cols=2)
    for i, word in enumerate(("Crane", "Built", "Old Meg", "1811")):
        table.cell(i // 2, i % 2).text = word
    document.add_paragraph("Both still work.")
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def refused(path: Path, **options: Any) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        load_document(path, **options)
    assert caught.value.hint
    return caught.value


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
    [b"\x7fELF\x02\x01\x01\x00" * 40, b"text with a \x00 in it", bytes(range(1, 9)) * 50, make_pdf(["x"])],
    ids=["program", "nul", "control characters", "pdf"],
)
def test_binary_files_named_txt_are_refused(tmp_path: Path, data: bytes) -> None:
    assert "binary" in refused(write(tmp_path, "a.txt", data)).message


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b" \n\t\r\n "])
@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html", "a.csv", "a.jsonl", "a.pdf", "a.docx"])
def test_files_without_text_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    refused(write(tmp_path, name, content))


def test_size_limit(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "x" * 101)
    assert "101" in refused(path, max_file_bytes=100).message
    assert load_document(path, max_file_bytes=101).text == "x" * 101
    with pytest.raises(InputError):
        load_document(path, max_file_bytes=0)


def test_what_is_no_readable_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no such file" in refused(tmp_path / "gone.txt").message
    assert "plain file" in refused(tmp_path).message
    os.mkfifo(tmp_path / "pipe.txt")
    assert "plain file" in refused(tmp_path / "pipe.txt").message
    assert "format" in refused(write(tmp_path, "a.xyz", "hello")).message
    path = write(tmp_path, "a.txt", "hello")

    def deny(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", deny)  # the tests may run as root, who may read everything
    assert "permission" in refused(path).message


def test_markdown_headings(tmp_path: Path) -> None:
    text = (
        "---\ntitle: 'The Ferry'\n---\n# One #\n\ntext\n\nTwo\n---\n\n```\n# no heading\n```\n\n"
        "- item\n---\n\n###### Six C#\na\nb\n===\n#hashtag\n"
    )
    document = load_document(write(tmp_path, "a.md", text))
    assert document.text == text
    assert document.title == "The Ferry"
    assert [(h.level, h.label) for h in document.headings] == [(1, "One"), (2, "Two"), (6, "Six C#")]
    assert [text[h.start : h.end] for h in document.headings] == ["# One #", "Two\n---", "###### Six C#"]
    assert [text[p.start : p.end][:5] for p in document.parts] == ["# One"]


def test_html_visible_text_and_headings(tmp_path: Path) -> None:
    page = """<!doctype html><html><head><title>Tide &amp; Clock</title><style>p {}</style></head><body>
      <script>var hidden = "<p>no</p>";</script><h1>The <em>old</em>
      clock</h1><p>Built&nbsp;in 1841,<br>wound   daily.<p>No end tag<ul><li>one</li><li>two</li></ul>
      <noscript>no</noscript><template>no</template><svg><text>no</text></svg>
      <table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table><pre>x\n  y</pre><h2>End</h2>tail"""
    document = load_document(write(tmp_path, "a.html", page))
    assert document.text == (
        "The old clock\n\nBuilt\u00a0in 1841,\nwound daily.\n\nNo end tag\n\n"
        "one\ntwo\n\na\tb\nc\n\nx\n  y\n\nEnd\n\ntail"
    )
    assert document.title == "Tide & Clock"
    assert [document.text[h.start : h.end] for h in document.headings] == ["The old clock", "End"]


def test_html_declared_encoding(tmp_path: Path) -> None:
    page = '<meta charset="iso-8859-1"><p>caf\u00e9 \u2013 \u20ac</p>'.encode("cp1252")
    assert load_document(write(tmp_path, "a.html", page)).text == "café – €"
    assert load_document(write(tmp_path, "b.html", '<meta charset="ascii"><p>水')).text == "水"
    refused(write(tmp_path, "c.html", "<p>café</p>".encode("cp1252")))


def test_pdf_pages(tmp_path: Path) -> None:
    document = load_document(write(tmp_path, "a.pdf", make_pdf(["First page.", "", "Third page."], title="Ports")))
    assert [(document.text[p.start : p.end], p.metadata["page"]) for p in document.parts] == [
        ("First page.", 1),
        ("Third page.", 3),
    ]
    assert document.title == "Ports"


def test_bad_pdfs_are_refused(tmp_path: Path) -> None:
    assert "password" in refused(write(tmp_path, "a.pdf", make_pdf(["x"], password="secret"))).message
    assert "OCR" in refused(write(tmp_path, "b.pdf", make_pdf(["", ""]))).hint
    whole = make_pdf(["One line of text."])
    refused(write(tmp_path, "c.pdf", b"%PDF-1.7 not really"))
    refused(write(tmp_path, "d.pdf", whole[:60]))
    refused(write(tmp_path, "e.pdf", b"plain text"))


def test_docx_in_order_with_headings_and_tables(tmp_path: Path) -> None:
    document = load_document(write(tmp_path, "a.docx", make_docx("Works of the harbour")))
    assert document.text == (
        "The Harbour\n\nIt was dug in 1804.\n\nCranes\n\nCrane\tBuilt\nOld Meg\t1811\n\nBoth still work."
    )
    assert document.title == "Works of the harbour"
    assert [(document.text[h.start : h.end], h.level) for h in document.headings] == [("The Harbour", 1), ("Cranes", 2)]
    assert load_document(write(tmp_path, "b.docx", make_docx())).title == "The Harbour"


def test_bad_docx_are_refused(tmp_path: Path) -> None:
    assert "damaged" in refused(write(tmp_path, "a.docx", make_docx()[:500])).message
    assert "damaged" in refused(write(tmp_path, "b.docx", b"PK\x03\x04 nothing")).message
    assert ".doc" in refused(write(tmp_path, "c.docx", b"\xd0\xcf\x11\xe0" + b"\0" * 600)).message
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("word/document.xml", "<broken")
    assert "damaged" in refused(write(tmp_path, "d.docx", buffer.getvalue())).message


def rows(document: Document) -> list[tuple[str, str, dict[str, Any]]]:
    return [(document.text[p.start : p.end], p.title, dict(p.metadata)) for p in document.parts]


def test_csv_rows_are_parts_with_their_columns(tmp_path: Path) -> None:
    table = (
        'id,Title,Content,year,price,postcode,source\r\n'
        '7,Lamp,"Brass, with ""eyes"".\r\nTwo lines.",1841,3.5,01234,attic\r\n\r\n'
        "8,Sail,Torn.,,2,55555,\r\n9,Nothing,,1850,1,00000,x\r\n"
    )  # fmt: skip
    document = load_document(write(tmp_path, "a.csv", table))
    lamp = {"id": 7, "year": 1841, "price": 3.5, "postcode": "01234", "column_source": "attic", "row": 1}
    assert rows(document) == [
        ('Brass, with "eyes".\r\nTwo lines.', "Lamp", lamp),
        ("Torn.", "Sail", {"id": 8, "price": 2.0, "postcode": "55555", "row": 2}),
    ]
    assert ["row 3" in p.message for p in document.problems] == [True]
    assert rows(load_document(write(tmp_path, "b.csv", "text;n\nhello, you;1\n")))[0][0] == "hello, you"
    assert rows(load_document(write(tmp_path, "c.tsv", "text\tn\nhello, you\t1\n")))[0][0] == "hello, you"


def test_csv_text_column(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "id,note\n1,hello\n")
    error = refused(path)
    assert "'id', 'note'" in error.message
    assert "--text-column" in error.hint
    assert load_document(path, text_column="NOTE").text == "hello"
    assert "'nope'" in refused(path, text_column="nope").message


def test_bad_csv_is_refused_with_its_line(tmp_path: Path) -> None:
    assert "line 3" in refused(write(tmp_path, "a.csv", 'text,n\nfine,1\n"never closed,2\n')).message
    assert "no rows" in refused(write(tmp_path, "b.csv", "text,n\n")).message
    assert load_document(write(tmp_path, "c.csv", "text,n\n" + "x" * 300_000 + ",1\n")).text == "x" * 300_000
    extra = load_document(write(tmp_path, "d.csv", "text,n\nfine,1,2,3\n"))
    assert "row 1 has 4 fields" in extra.problems[0].message


def test_jsonl_bad_lines_are_named_and_the_others_kept(tmp_path: Path) -> None:
    lines = [
        json.dumps({"text": "One.", "title": "T", "tags": ["a"], "n": 2**70, "ok": True, "row": 5}),
        '{"text": "broken',
        "",
        '["a list"]',
        '{"text": null}',
        '{"text": "Lone \\ud800 surrogate.", "bad": NaN}',
    ]
    document = load_document(write(tmp_path, "a.jsonl", "\n".join(lines)))
    assert rows(document) == [
        ("One.", "T", {"tags": '["a"]', "n": str(2**70), "ok": True, "column_row": 5, "row": 1}),
        ("Lone \ufffd surrogate.", "", {"row": 6}),
    ]
    assert [p.message.split(" is")[0] for p in document.problems[:2]] == ["line 2", "line 4"]
    assert "line 5" in document.problems[2].message
    assert "line 1" in refused(write(tmp_path, "b.jsonl", "{\n[")).message
    assert "no text column" in refused(write(tmp_path, "c.jsonl", '{"a": 1}')).message
    nested = '{"text": "x", "deep": ' + "[" * 100_000
    assert load_document(write(tmp_path, "d.jsonl", f'{nested}\n{{"text": "fine"}}')).text == "fine"


def test_many_bad_lines_are_summed_up(tmp_path: Path) -> None:
    document = load_document(write(tmp_path, "a.jsonl", '{"text": "fine"}\n' + "broken\n" * 500))
    assert len(document.problems) == 21
    assert "480 more" in document.problems[-1].message


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

    monkeypatch.setattr("shared_core.retrieval.scan.os.scandir", scandir)
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
