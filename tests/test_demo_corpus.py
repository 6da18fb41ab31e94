"""The demo corpus is what the demo and its questions take it to be."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from shared_core.documents.load import Document, load_document

pytest.importorskip("office_oxide")
pytest.importorskip("pypdfium2")
pytest.importorskip("docx")
pytest.importorskip("bs4")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
DOCS = EXAMPLES / "demo_docs"
KINDS = {"single", "multi_hop", "unanswerable", "invented_name"}
PARAGRAPH_BREAK = re.compile(r"\n[^\S\n]*\n\s*")
PARAGRAPH_WORDS = 20  # fewer is a title, a heading or a table


@cache
def documents() -> dict[str, Document]:
    return {path.name: load_document(path) for path in sorted(DOCS.iterdir())}


@cache
def questions() -> tuple[dict[str, Any], ...]:
    lines = (EXAMPLES / "demo_questions.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines)


def paragraphs(document: Document) -> list[str]:
    return [p for p in PARAGRAPH_BREAK.split(document.text) if len(p.split()) >= PARAGRAPH_WORDS]


def supports() -> list[tuple[str, str, str]]:
    """(id, source, quote) of every quote, those of the earlier hops among them."""
    found = []
    for q in questions():
        for s in ([q] if q["quote"] else []) + q.get("also", []):
            found.append((q["id"], s["source"], s["quote"]))
    return found


def words(text: str) -> str:
    return " " + " ".join(re.findall(r"[\w.,&-]*\w|&", text.lower())) + " "


def test_size_and_formats() -> None:
    formats = Counter(document.format for document in documents().values())
    assert sum(formats.values()) >= 40
    assert sum(len(paragraphs(document)) for document in documents().values()) >= 300
    assert set(formats) == {"text", "markdown", "html", "pdf", "docx", "csv", "jsonl"}
    assert min(formats["html"], formats["pdf"], formats["docx"]) >= 2


def test_every_document_is_read_whole() -> None:
    for name, document in documents().items():
        assert not document.problems, name
        assert len(paragraphs(document)) >= 5, name
        assert "\ufffd" not in document.text, name


def test_no_paragraph_occurs_twice() -> None:
    counts = Counter(" ".join(p.split()) for document in documents().values() for p in paragraphs(document))
    assert [p for p, n in counts.items() if n > 1] == []


def test_html_noise_is_not_text() -> None:
    for name, document in documents().items():
        assert "<p>" not in document.text, name
        assert "pageLoadedAt" not in document.text, name


def test_binary_files_are_small() -> None:
    for path in DOCS.iterdir():
        if path.suffix in {".pdf", ".docx"}:
            assert path.stat().st_size < 60_000, path.name


def test_made_files_are_those_of_their_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    try:
        made = importlib.import_module("make_demo_docs").make_all(tmp_path)
    finally:
        sys.modules.pop("make_demo_docs", None)
    assert {path.name for path in made} == {name for name in documents() if name.endswith((".pdf", ".docx"))}
    for path in made:
        assert load_document(path).text == documents()[path.name].text, path.name
        if path.suffix == ".pdf":
            assert path.read_bytes() == (DOCS / path.name).read_bytes(), path.name


def test_pdf_text_is_in_reading_order() -> None:
    for source in sorted((EXAMPLES / "demo_sources").glob("*.pdf.md")):
        written = re.sub(r"^#+ ", "", source.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert documents()[source.stem].text.split() == written.split(), source.name


def test_questions_have_every_field() -> None:
    ids = [q["id"] for q in questions()]
    texts = [q["question"] for q in questions()]
    assert len(set(ids)) == len(ids) >= 60
    assert len(set(texts)) == len(texts)
    for q in questions():
        assert {"id", "question", "answers", "answerable", "source", "quote", "kind"} <= set(q), q["id"]
        assert q["kind"] in KINDS
        assert q["question"].endswith("?")
        assert q["answerable"] == bool(q["answers"]) == (q["kind"] in {"single", "multi_hop"}), q["id"]
        assert q["answerable"] == bool(q["quote"]) == bool(q["source"]), q["id"]
        assert (q["kind"] == "multi_hop") == bool(q.get("also")), q["id"]


def test_enough_questions_of_each_kind() -> None:
    counts = Counter(q["kind"] for q in questions())
    assert counts["single"] >= 35
    assert counts["multi_hop"] >= 8
    assert counts["unanswerable"] >= 12
    assert counts["invented_name"] >= 6
    assert {documents()[q["source"]].format for q in questions() if q["source"]} >= {
        "text", "markdown", "html", "pdf", "docx", "csv", "jsonl",
    }  # fmt: skip


def test_quotes_are_verbatim_and_whole() -> None:
    for id_, source, quote in supports():
        text = documents()[source].text
        assert text.count(quote) == 1, id_
        assert quote == quote.strip(), id_
        assert quote[0].isupper(), id_
        assert quote[-1] in ".!?", id_


def test_quotes_hold_an_answer() -> None:
    for q in questions():
        if q["answerable"]:
            quote = words(q["quote"])
            assert any(words(answer) in quote for answer in q["answers"]), q["id"]


def test_answers_do_not_stand_in_their_question() -> None:
    for q in questions():
        assert not any(words(answer) in words(q["question"]) for answer in q["answers"]), q["id"]


def test_unanswerable_questions_are_tempting() -> None:
    """They name a document that is about their subject: it shares a name or a number with the question."""
    for q in questions():
        if q["kind"] == "unanswerable":
            names = re.findall(r"(?<!^)\b(?:[A-Z]\w+|\d{4})", q["question"])
            text = documents()[q["tempting"]].text
            assert any(name in text for name in names) or "grey fever" in q["question"], q["id"]


def test_what_makes_questions_unanswerable_is_not_in_the_corpus() -> None:
    """As far as strings can show it: the combination that would answer stands in no sentence."""
    corpus = "\n".join(document.text for document in documents().values())
    for pattern in (
        r"vaccin", r"Hask Bridge was opened", r"Ellisk Race was opened", r"husband of Maren|Maren Tolvard's husband",
        r"Tobin[^.]*\bgoals\b", r"[Cc]aptain of the (barque )?\*?Ardent", r"railway (to|reached) Port Sennet",
    ):  # fmt: skip
        assert not re.search(pattern, corpus), pattern


def test_invented_names_are_not_in_the_corpus() -> None:
    corpus = " ".join(document.text for document in documents().values()).lower()
    for q in questions():
        if q["kind"] == "invented_name":
            assert q["name"] in q["question"], q["id"]
            assert q["name"].lower() not in corpus, q["id"]


def test_fact_sheet_is_outside_the_corpus() -> None:
    assert not any("fact" in name for name in documents())


def test_demo_five() -> None:
    five = json.loads((EXAMPLES / "demo_five.json").read_text(encoding="utf-8"))
    known = {q["question"]: q for q in questions()}
    assert len(five) == len(set(five)) == 5
    assert set(five) <= set(known)
    chosen = [known[text] for text in five]
    assert Counter(q["answerable"] for q in chosen) == {True: 4, False: 1}
    assert len({documents()[q["source"]].format for q in chosen if q["answerable"]}) >= 3
