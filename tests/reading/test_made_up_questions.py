"""Questions made for training: presupposed things, cells of invented tables, labelled lines, opinions of reviews."""

from __future__ import annotations

import random
import re

import pytest

pytest.importorskip("torch")
from benchmarks.reader import labels, opinions, presupposed, tables
from benchmarks.reader.data import QuestionRow
from shared_core.types import Passage

NAMES = "The boat went to " + ", to ".join(
    f"{a}{b}"
    for a in ("Ell", "Mar", "Low", "Tor", "Gan", "Hus")
    for b in ("isk", "ford", "en", "holm", "wick", "dal", "by")
)


def _passage(key: str, text: str) -> Passage:
    return Passage(key, text, "Harbour")


def _asked(question: str, passage: Passage, answer: str) -> QuestionRow:
    at = passage.text.index(answer)
    return QuestionRow(question, passage.id, (answer,), ((at, at + len(answer)),))


def _make_often(passage: Passage, rows: list[QuestionRow]) -> list[presupposed.Made]:
    return [presupposed.make({passage.id: passage}, rows, random.Random(seed)) for seed in range(60)]


def test_answers_stand_where_the_rows_say_and_open_questions_have_none() -> None:
    passage = _passage(
        "p",
        "The pier was built in 1887. The pier was closed to boats because the piles had rotted. "
        "The harbour was named after a local squire, who kept the light.",
    )
    rows = [
        _asked("When was the pier built?", passage, "1887"),
        _asked("Who kept the light?", passage, "a local squire"),
    ]
    kinds = set()
    for made in _make_often(passage, rows):
        texts = {p.id: p.text for p in made.passages}
        for row in made.questions:
            kinds.add((row.question, bool(row.spans)))
            assert all(texts[row.passage][a:b] == answer for (a, b), answer in zip(row.spans, row.answers, strict=True))
    # People's question is answered by the paragraph as it was, and open where the year was taken out.
    assert {("When was the pier built?", True), ("When was the pier built?", False)} <= kinds
    assert ("Why was the pier closed to boats?", True) in kinds
    assert ("Why was the pier closed to boats?", False) not in kinds


def test_what_was_taken_out_is_nowhere_in_the_paragraph() -> None:
    passage = _passage("p", "The pier was built in 1887. The lamp was lit in 1890, by Ada Byng. In 1887 it rained.")
    rows = [_asked("When was the pier built?", passage, "1887"), _asked("When was the lamp lit?", passage, "1890")]
    for made in _make_often(passage, rows):
        for row in made.questions:
            if row.question == "When was the lamp lit?" and not row.spans:
                assert "1890" not in made.passages[0].text
            assert (row.question, row.spans) != ("When was the pier built?", ())  # the year occurs twice


def test_a_statement_without_a_reason_is_asked_for_it() -> None:
    told = _passage("a", "The lock must be opened by hand, since the motor was stolen. The key is kept in the shed.")
    plain = _passage("b", "The lock must be opened by hand. The key is kept in the shed.")
    asked = "Why must the lock be opened by hand?"
    assert all(row.question != asked for made in _make_often(told, []) for row in made.questions if not row.spans)
    assert any(row.question == asked for made in _make_often(plain, []) for row in made.questions if not row.spans)


def test_what_is_asked_in_other_words_is_not_asked_for_as_missing() -> None:
    passage = _passage("p", "The choir met Ada Byng: Ellisk. She sang.")
    rows = [_asked("In which town did the choir meet Ada Byng?", passage, "Ellisk")]
    asked = {row.question for made in _make_often(passage, rows) for row in made.questions if not row.spans}
    assert "Why did the choir meet Ada Byng?" in asked
    assert "Where did the choir meet Ada Byng?" not in asked


def test_cells_are_where_the_rows_say_and_what_is_missing_is_missing() -> None:
    made = tables.make({"n": _passage("n", NAMES)}, 200, random.Random(0))
    texts = {p.id: p.text for p in made.passages}
    for row in made.questions:
        assert all(texts[row.passage][a:b] == answer for (a, b), answer in zip(row.spans, row.answers, strict=True))
        year = re.search(r"\b(19|20)\d\d\b(?=\??$)", row.question)
        if not row.spans and year and ": " in texts[row.passage]:
            names = [name for name in re.findall(r"[A-Z][a-z]+", row.question) if name in NAMES]
            assert year.group() not in texts[row.passage] or not any(
                f": {name};" in texts[row.passage] for name in names
            )
    shares = sum(not row.spans for row in made.questions) / len(made.questions)
    assert 0.3 < shares < 0.5


def test_no_tables_without_names() -> None:
    assert tables.make({}, 3, random.Random(0)).passages == []


def test_values_of_labels_are_where_the_rows_say_and_what_is_missing_is_missing() -> None:
    names = tables.names_in({"n": _passage("n", NAMES)})
    made = labels.make(names, 200, random.Random(0))
    texts = {p.id: p for p in made.passages}
    forms = {
        label: re.compile("|".join(re.escape(f).replace(r"\{x\}", ".+") for f in of[1].split(";")))
        for label, of in labels.LABELS.items()
    }
    for row in made.questions:
        passage = texts[row.passage]
        assert all(passage.text[a:b] == answer for (a, b), answer in zip(row.spans, row.answers, strict=True))
        asked = {label for label, form in forms.items() if form.fullmatch(row.question)}
        (name,) = [name for name in names if name in row.question]
        lines = (passage.title or "") + "\n" + passage.text
        own = lines.partition(name)[2].partition("\n\n")[0]
        if row.spans:
            (label,) = re.findall(r"([\w ]+):\**\s*$", passage.text[: row.spans[0][0]])
            assert name in lines
            assert not asked or label.strip() in asked
        else:
            assert not any(f"{label}:" in own for label in asked)
    assert 0.3 < sum(not row.spans for row in made.questions) / len(made.questions) < 0.5


def test_opinions_are_where_the_rows_say_and_what_is_only_named_has_none() -> None:
    says = ["The zoom is a bit slow.", "It has a great zoom.", "The zoom was fine, and the strap looks cheap."]
    reviews = [Passage(f"r{i}", text) for i, text in enumerate(says)]
    reviews += [
        Passage("named", "I carry it by the strap. The zoom goes to ten."),
        Passage("none", "It came on Monday."),
    ]
    reviews += [Passage(f"s{i}", "The strap is soft.") for i in range(3)]
    found: dict[str, set[tuple[str, tuple[str, ...]]]] = {p.id: set() for p in reviews}
    texts = {p.id: p.text for p in reviews}
    for seed in range(40):
        for row in opinions.make(reviews, random.Random(seed)).questions:
            assert all(texts[row.passage][a:b] == answer for (a, b), answer in zip(row.spans, row.answers, strict=True))
            (thing,) = re.findall("zoom|strap", row.question)
            found[row.passage].add((thing, row.answers))
    assert found["r0"] == {("zoom", ("a bit slow",)), ("strap", ())}
    assert ("zoom", ("great zoom",)) in found["r1"]
    assert {("zoom", ("fine",)), ("strap", ("cheap",))} <= found["r2"]
    assert found["named"] == {("zoom", ()), ("strap", ())}
    assert not found["none"]
