"""Questions and claims on made-up documents for training the reader and critic."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

pytest.importorskip("torch")
from benchmarks.reader import sets
from benchmarks.reader.build import More
from benchmarks.reader.data import read_lines, write_lines
from benchmarks.reader.documents import FILE, documents, rows_of_folder
from shared_core.reading.network import REFUTED, SUPPORTED, UNSUPPORTED

TEXT = "The hall opens at nine. Ana has the key, and she closes it."
PARAGRAPH = "The choir sang on. It sang at nine."


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder of data with one paragraph."""
    (tmp_path / "reading").mkdir()
    with gzip.open(tmp_path / "reading/squad1_train_passages.jsonl.gz", "wt") as out:
        out.write(json.dumps({"id": "s/1", "title": "Choir", "text": PARAGRAPH}))
    return tmp_path


def _file(folder: Path) -> Path:
    own = {
        "kind": "rules",
        "part": "fit",
        "title": "Hall",
        "text": TEXT,
        "questions": [
            {"question": "When does it open?", "answer": "The hall opens at nine.", "short": "nine"},
            {"question": "Who bought the key?", "near": "Ana has the key, and she closes it.", "short": "Ana"},
            {"question": "When does it close?", "near": "The hall opens at nine."},
        ],
        "claims": [
            {"claim": "One gets in from nine.", "label": "supported", "evidence": "The hall opens at nine."},
            {"claim": "The hall closes at nine.", "label": "refuted", "evidence": "The hall opens at nine."},
            {"claim": "Ana made the key.", "label": "unsupported", "evidence": "Ana has the key, and she closes it."},
        ],
    }
    named = {
        "kind": "wikipedia",
        "part": "train",
        "passage": "s/1",
        "questions": [{"question": "What time did it sing?", "answer": [19, 35], "short": [30, 34]}],
        "claims": [{"claim": "It went on.", "label": "supported", "evidence": [0, 18]}],
    }
    file = folder / "documents.jsonl.gz"
    with gzip.open(file, "wt") as out:
        out.writelines(json.dumps(row) + "\n" for row in (own, {**own, "part": "train"}, named))
    return file


def test_part_to_fit_on_is_held_out(data: Path) -> None:
    file = _file(data)
    assert [row["id"] for row in documents(data, held_out=True, file=file)] == ["documents/0"]
    assert [row["id"] for row in documents(data, file=file)] == ["documents/1", "documents/2"]


def test_named_paragraph_gives_its_text(data: Path) -> None:
    named = documents(data, file=_file(data))[-1]
    assert (named["title"], named["text"]) == ("Choir", PARAGRAPH)
    assert named["questions"] == [{"question": "What time did it sing?", "answer": "It sang at nine.", "short": "nine"}]
    assert named["claims"][0]["evidence"] == "The choir sang on."


def test_folder_is_read_as_questions_and_claims(data: Path, tmp_path: Path) -> None:
    for name, rows in rows_of_folder(documents(data, file=_file(data))).items():
        write_lines(tmp_path / f"out/{name}.jsonl.gz", rows)
    more = More(tmp_path / "out", 3)
    texts, questions = more.read()
    assert [(q.question, q.answers) for q in questions if q.passage == "documents/1"] == [
        ("When does it open?", ("nine",)),
        ("Who bought the key?", ()),
        ("When does it close?", ()),
    ]
    claims = more.claims(texts, random.Random(0))
    written = [(c.claim, c.label) for c in claims if "?" not in c.claim and c.label != -1]
    for claim, label in (
        ("One gets in from nine.", SUPPORTED),
        ("The hall closes at nine.", REFUTED),
        ("Ana made the key.", UNSUPPORTED),
    ):
        assert written.count((claim, label)) == 3  # as often as its questions
    assert written.count(("The hall opens at nine.", SUPPORTED)) == 3  # the text's own words beside wrong claims'
    assert sum(c.label == -1 for c in claims) == 1  # "Ana" looks like an answer, once
    for c in claims:
        for start, end in c.spans:
            assert texts[c.passage].text[start:end]


def test_file_that_ships_is_whole() -> None:
    rows = read_lines(FILE)
    assert len(rows) > 100
    for row in rows:
        held = row.get("text", "")
        assert row["part"] in ("train", "fit")
        for asked in row["questions"]:
            sentence = asked["answer"] if "answer" in asked else asked["near"]
            assert isinstance(sentence, list) if "passage" in row else sentence in held
            assert "short" in asked or "near" in asked
        for claim in row["claims"]:
            assert claim["label"] in ("supported", "unsupported", "refuted")
            assert isinstance(claim["evidence"], list) if "passage" in row else claim["evidence"] in held


def test_halves_of_small_documents_share_none(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = documents(data, held_out=True, file=_file(data))
    monkeypatch.setattr(sets, "documents", lambda data, held_out: rows if held_out else [])
    fit, report = (sets.small_documents(data, half) for half in ("fit", "report"))
    of_fit, of_report = ({p.text for case in some for p in case.passages} for some in (fit, report))
    assert TEXT in of_fit
    assert not of_fit & of_report
    for case in (*fit, *report):
        assert (case.kind == "answerable") == bool(case.answers)
