from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from shared_core.errors import DocumentError, InputError
from shared_core.evaluation import read_questions


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


ROWS = [
    {"id": "a", "question": "Who?", "answers": ["Mira", "Mira Dorn", "Mira"], "passage_id": "p/1"},
    {"id": "b", "question": "When?", "answerable": False, "answers": ["plausible"]},
    {"id": "c", "question": "Why?"},
]


@pytest.mark.parametrize("name", ["q.jsonl", "q.json", "q.jsonl.gz", "q.JSON"])
def test_the_same_rows_in_any_json(tmp_path: Path, name: str) -> None:
    text = "\n\n".join(map(json.dumps, ROWS)) + "\n" if "jsonl" in name else json.dumps({"questions": ROWS})
    found = read_questions(write(tmp_path, name, gzip.compress(text.encode()) if "gz" in name else text))
    assert [q.id for q in found] == ["a", "b", "c"]
    assert found[0].answers == ("Mira", "Mira Dorn")
    assert [q.answerable for q in found] == [True, False, None]
    assert [q.judgeable for q in found] == [True, True, False]
    assert found[1].answers == ()
    assert found[0].metadata == {"passage_id": "p/1"}


def test_csv(tmp_path: Path) -> None:
    rows = ['1,"Who, then?",Mira|Dorn,yes,x', "2,When?,,no,", '3,Where?,"[""Orm""]",,']
    text = "\n".join(["\ufeffid,question,answers,answerable,tier", *rows])
    first, second, third = read_questions(write(tmp_path, "q.csv", text))
    assert (first.question, first.answers, first.answerable) == ("Who, then?", ("Mira", "Dorn"), True)
    assert (second.answers, second.answerable) == ((), False)
    assert third.answers == ("Orm",)
    assert first.metadata == {"tier": "x"}
    (only,) = read_questions(write(tmp_path, "q.tsv", "query\tanswer\nWho?\t[sic] Mira\n"))
    assert (only.id, only.answers) == ("1", ("[sic] Mira",))
    (only,) = read_questions(write(tmp_path, "q.csv", "question;answers\nWho, then?;Mira\n"))  # of a spreadsheet
    assert (only.question, only.answers) == ("Who, then?", ("Mira",))


def test_an_empty_cell_of_a_table_is_no_answer(tmp_path: Path) -> None:
    text = '{"question": "Who?", "answers": NaN, "id": NaN, "answerable": NaN}\n{"question": "When?", "answer": 1.5}'
    first, second = read_questions(write(tmp_path, "q.jsonl", text))
    assert (first.id, first.answers, first.answerable, first.judgeable) == ("1", (), None, False)
    assert second.answers == ("1.5",)


def test_the_names_others_use(tmp_path: Path) -> None:
    rows = [
        {"_id": 7, "query": "Who?", "answer": "Mira", "type": "bridge"},
        {"question_id": "x", "question": "How many?", "answer": 3},
        {"question": "Text\u2028with a line separator?", "answers": {"text": ["Orm"], "answer_start": [0]}},
    ]
    text = "\n".join(json.dumps(r, ensure_ascii=False) for r in rows)
    found = read_questions(write(tmp_path, "q.jsonl", text))
    assert [(q.id, q.answers) for q in found] == [("7", ("Mira",)), ("x", ("3",)), ("3", ("Orm",))]


@pytest.mark.parametrize(("name", "text", "where"), [
    ("q.jsonl", '{"question": "Who?"}\nnot json\n', "line 2"),
    ("q.jsonl", '{"question": "Who?"}\n\n{"answers": ["x"]}\n', "line 3"), ("q.jsonl", '{"question": "  "}', "line 1"),
    ("q.jsonl", '["Who?"]', "line 1"), ("q.jsonl", '{"question": "Who?", "answers": [1]}', "line 1"),
    ("q.jsonl", '{"question": "Who?", "answerable": "perhaps"}', "line 1"),
    ("q.jsonl", '{"id": 1, "question": "Who?"}\n{"id": 1, "question": "When?"}', "line 2"),
    ("q.jsonl", b'{"question": "Who?"}\n{"question": "\xff"}', "line 2"), ("q.jsonl", "", "no questions"),
    ("q.json", '{"question": \n', "line"), ("q.json", '{"question": "Who?"}', "no list"),
    ("q.json", '[{"question": "Who?"}, {}]', "entry 2"), ("q.csv", "question,answers\nWho?,a,b,c\n", "line 2"),
    ("q.csv", "who,what\n1,2\n", "line 2"), ("q.csv", "question\n", "no questions"),
    ("q.jsonl.gz", b"no gzip", "cannot be read"), ("q.txt", "Who?", "txt"),
])  # fmt: skip
def test_bad_files_are_named_with_their_line(tmp_path: Path, name: str, text: str | bytes, where: str) -> None:
    with pytest.raises(InputError) as caught:
        read_questions(write(tmp_path, name, text))
    assert where in caught.value.message
    assert name in caught.value.message


def test_missing_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    for name in ("missing.jsonl", "folder.jsonl"):
        with pytest.raises(DocumentError) as caught:
            read_questions(tmp_path / name)
        assert caught.value.hint


def test_squad_as_it_is_published(tmp_path: Path) -> None:
    asked = [
        {"id": "1", "question": "Who?", "answers": [{"text": "Mira", "answer_start": 0}], "is_impossible": False},
        {"id": "2", "question": "When?", "answers": [], "is_impossible": True},
    ]
    data = {"version": "v2.0", "data": [{"title": "Orm", "paragraphs": [{"context": "…", "qas": asked}]}]}
    first, second = read_questions(write(tmp_path, "dev.json", json.dumps(data)))
    assert (first.id, first.answers, first.answerable) == ("1", ("Mira",), True)
    assert (second.answers, second.answerable) == ((), False)


@pytest.mark.parametrize("empty", ['"answers": []', '"answer": null', '"answers": {"text": [], "answer_start": []}'])
def test_a_question_with_answers_that_are_none_is_unanswerable(tmp_path: Path, empty: str) -> None:
    who, when = '{"question": "Who?", "answers": ["Mira"]}', f'{{"question": "When?", {empty}}}'
    for name, text in (("q.jsonl", f"{who}\n{when}"), ("q.json", f"[{who}, {when}]")):
        assert [q.answerable for q in read_questions(write(tmp_path, name, text))] == [True, False]


@pytest.mark.parametrize(
    ("others", "row"),
    [
        ('{"question": "Who?"}', '"answers": []'),  # no row has answers
        ('{"question": "Who?", "answers": []}', '"answers": null'),
        ('{"question": "Who?", "answer": "Mira"}', '"topic": "lamps"'),  # not said
        ('{"question": "Who?", "answer": "Mira"}\n{"question": "Why?", "answerable": false}', '"answer": null'),
        ('{"question": "Who?", "answer": "Mira"}', '"answer": null, "passage_id": "a"'),
    ],
)
def test_where_answers_may_be_unknown_nothing_is_said(tmp_path: Path, others: str, row: str) -> None:
    *_, last = read_questions(write(tmp_path, "q.jsonl", f'{others}\n{{"question": "When?", {row}}}'))
    assert last.answerable is None
    (_, cell) = read_questions(write(tmp_path, "q.csv", "question,answer\nWho?,Mira\nWhen?,\n"))
    assert cell.answerable is None


def test_the_fields_seen_are_named_where_none_is_a_question(tmp_path: Path) -> None:
    for name, text in (("q.jsonl", '{"prompt": "Who?", "gold": "x"}'), ("q.csv", "prompt,gold\na,b\n")):
        with pytest.raises(InputError, match="'prompt', 'gold'"):
            read_questions(write(tmp_path, name, text))
    with pytest.raises(InputError, match="'items'"):
        read_questions(write(tmp_path, "q.json", '{"items": []}'))


def test_headers_and_rows_as_spreadsheets_write_them(tmp_path: Path) -> None:
    text = "\ufeffQuestion,  Answers ,Answerable,Topic\nWho?,Mira,,lamps\nWhen?,,FALSE,\n,,,\n"
    who, when = read_questions(write(tmp_path, "q.csv", text))
    assert (who.question, who.answers, who.metadata) == ("Who?", ("Mira",), {"Topic": "lamps"})
    assert (when.question, when.answerable) == ("When?", False)
    (both,) = read_questions(write(tmp_path, "q.jsonl", '{"Question": "Part 1", "question": "Who?"}'))
    assert (both.question, both.metadata) == ("Who?", {"Question": "Part 1"})
