"""Questions of our own for training the reader: found again on the files they were written on."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
from benchmarks.reader import questions
from benchmarks.reader.build import More
from benchmarks.reader.claims import NOT_SUPPORTED
from benchmarks.reader.data import read_lines
from benchmarks.reader.questions import fingerprint, make, passages_of
from shared_core.errors import InputError
from shared_core.reading.network import SUPPORTED

RULES = (
    "# Rules\n\nThe desk opens at nine on weekdays, and stays closed on the first Monday of a month. "
    "Guests may borrow two chairs, which they bring back before the evening of the same day.\n"
)
PARAGRAPH = "The choir sang without Ada Byng from then, 1950, on."
REVIEW = "The zip broke after a week. The straps are soft."


def _lines(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(file, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows)


def _natural(question: str, text: str, at: int) -> dict[str, Any]:
    """Make a row of QED; the answer is "Ada Byng" with what stands before it, from ``at`` on."""
    span = [at, text.index("Ada Byng", at) + 8]
    return {"question_text": question, "paragraph_text": text, "title_text": "Choir", "answer_spans": [span]}


@pytest.fixture
def material(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sources with one file, one article of reviews and one paragraph of SQuAD, and five questions on them."""
    (tmp_path / "sources/club").mkdir(parents=True)
    (tmp_path / "sources/club/rules.md").write_text(RULES)
    (tmp_path / "sources/club/other.md").write_text("Nothing is asked about this file, so that it is not read. " * 5)
    for name in questions.SHIFTS:
        at = len(name) + 2 if name == "reddit" else 0  # in the others the answer does not begin there
        asked = [{"question": " What broke? ", "answers": [{"text": "The zip", "answer_start": at}]}]
        article = {"title": "Bags_1", "paragraphs": [{"context": f"{name}: {REVIEW}", "qas": asked}]}
        file = tmp_path / f"sources/shifts/datasets/{name}_v1.0.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"data": [article]}))
    reading = tmp_path / "data/reading"
    _lines(reading / "squad1_train_passages.jsonl.gz", [{"id": "s/1", "title": "T", "text": PARAGRAPH}])
    rows_of_squad = [
        {
            "question": q,
            "passage_id": "s/1",
            "answers": ["1950"],
            "starts": [[PARAGRAPH.index("1950")]],
            "answerable": True,
        }
        for q in ("When didn't Ada Byng sing?", "Twice?", "Twice?")
    ]
    _lines(reading / "squad1_train.jsonl.gz", rows_of_squad)
    for part, question in (
        ("train", "when did n't ada byng sing ?"),
        ("dev", "twice ?"),
        ("test", "of the other set ?"),
    ):
        (tmp_path / "sources/pairs/QG").mkdir(parents=True, exist_ok=True)
        for kind, asked in (("answerable", question), ("unanswerable", "did the ada byng choir cost $ 1 , 200 ?")):
            (tmp_path / f"sources/pairs/QG/{part}-{kind}-questions.txt").write_text(f"id\t{asked}\t1\t2\n")
    (key,) = passages_of(tmp_path / "sources/club", {"rules.md"})
    of_natural = [_natural("who sang in 1950", "Ada Byng , who `` sang '' , left . Ada Byng sang .", 34)]
    of_natural += [
        _natural("Measured with ?", "Ada Byng sang .", 0),
        _natural("who sang", "x " * 2100 + "Ada Byng", 4200),
    ]
    for number, name in enumerate(questions._QED):
        file = tmp_path / "sources/natural" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(json.dumps(row) + "\n" for row in of_natural) if number == 3 else "")
    _lines(tmp_path / "data/rag/nq_gold_passage.jsonl.gz", [{"question": "measured with"}])
    rows: list[dict[str, Any]] = [
        {"of": "club", "file": "rules.md", "passage": key, "question": "opening time?", "answer": "at nine"},
        {"of": "club", "file": "rules.md", "passage": key, "question": "On Sundays?", "answer": None},
        {"of": "club", "file": "rules.md", "passage": "0" * 12, "question": "Of an older version?", "answer": "x"},
        {"of": "squad1", "file": "", "passage": "s/1", "question": "Who wrote it?", "answer": None},
        {"of": "shifts", "file": "", "passage": fingerprint(f"reddit: {REVIEW}"), "question": "Price?", "answer": None},
    ]
    _lines(tmp_path / "questions.jsonl.gz", rows)
    monkeypatch.setattr(questions, "FILE", tmp_path / "questions.jsonl.gz")
    monkeypatch.setattr(questions, "SOURCES", dict.fromkeys(("club", "shifts", "pairs", "natural"), ""))
    return tmp_path


def test_questions_are_found_again_and_lost_ones_are_counted(material: Path) -> None:
    counts = make(material / "data", material / "sources", material / "out")
    people = {"files": (2, 1), "adversarial": (2, 0), "shifts": (1, 0), "pairs": (2, 0), "natural": (1, 0)}
    assert counts == {**people, "presupposed": (0, 0), "tables": (0, 0), "labels": (0, 0), "opinions": (0, 0)}
    passages, rows = More(material / "out/files").read()
    assert [r.question for r in rows] == ["opening time?", "On Sundays?"]
    (start, end), text = rows[0].spans[0], passages[rows[0].passage].text
    assert text[start:end] == "at nine"
    assert rows[1].spans == ()
    passages, rows = More(material / "out/adversarial").read()
    assert {passages[r.passage].text for r in rows} == {PARAGRAPH, f"reddit: {REVIEW}"}
    passages, (row,) = More(material / "out/shifts").read()
    assert len(passages) == 3
    (start, end), text = row.spans[0], passages[row.passage].text
    assert (row.question, text[start:end]) == ("What broke?", "The zip")


def test_a_paired_question_gets_the_paragraph_of_the_one_it_resembles_and_capitals(material: Path) -> None:
    make(material / "data", material / "sources", material / "out")
    _, (answerable, unanswerable) = More(material / "out/pairs").read()
    assert (answerable.question, answerable.spans) == ("When didn't Ada Byng sing?", ((43, 47),))
    assert (unanswerable.question, unanswerable.spans) == ("Did the Ada Byng choir cost $1,200?", ())
    assert unanswerable.passage == answerable.passage == "s/1"  # "Twice?" is asked twice, so its pair is left out


def test_a_question_of_qed_gets_its_paragraph_as_people_write_it_and_the_answer_nearest_to_its_place(
    material: Path,
) -> None:
    make(material / "data", material / "sources", material / "out")
    passages, (row,) = More(material / "out/natural").read()
    text = passages[row.passage].text
    assert (row.question, text) == ("who sang in 1950", 'Ada Byng, who "sang", left. Ada Byng sang.')
    assert row.spans == ((text.rindex("Ada"), text.rindex("Ada") + 8),)
    assert {p.text for p in passages.values()} == {text, PARAGRAPH}  # SQuAD's paragraphs do not answer


def test_claims_of_a_pair_are_right_and_wrong_beside_the_sentence_of_the_answer(material: Path) -> None:
    make(material / "data", material / "sources", material / "out")
    pairs = More(material / "out/pairs")
    passages, _ = pairs.read()
    right, wrong = pairs.claims(passages, random.Random(0))
    assert (right.label, wrong.label) == (SUPPORTED, NOT_SUPPORTED)
    assert all("1950" in row.claim for row in (right, wrong))
    assert all((row.evidence or passages[row.passage].text) == PARAGRAPH for row in (right, wrong))
    assert More(material / "out/files").claims({}, random.Random(0)) == []


def test_a_source_that_is_missing_is_named(material: Path) -> None:
    (material / "sources/shifts/datasets/reddit_v1.0.json").unlink()
    with pytest.raises(InputError, match=r"reddit_v1\.0\.json: no such file"):
        make(material / "data", material / "sources", material / "out")


def test_only_files_with_questions_are_read(material: Path) -> None:
    found = passages_of(material / "sources/club", {"rules.md"})
    assert all(fingerprint(p["text"]) == key and "Nothing is asked" not in p["text"] for key, p in found.items())


def test_the_questions_in_the_repository_are_well_formed() -> None:
    rows = read_lines(questions.FILE)
    assert len(rows) > 10_000
    assert all(r["question"].strip() and r["passage"] for r in rows)
    assert {r["of"] for r in rows} <= {*questions.SOURCES, "squad1"}
    assert len({(r["passage"], r["question"].lower()) for r in rows}) == len(rows)


@pytest.mark.parametrize(
    ("text", "folder", "times"), [("a/b", "a/b", 1), ("a/b:4", "a/b", 4), ("a:b", "a:b", 1), ("a:b:2", "a:b", 2)]
)
def test_more_is_parsed(text: str, folder: str, times: int) -> None:
    assert More.parse(text) == More(Path(folder), times)
