"""What selfreflect-small is trained on: prompts of the pipelines, and no question that is measured."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.small import sources as sources_module
from benchmarks.small.rows import SegmentRow, claim_of, make_rows
from benchmarks.small.sources import MADE, MEASURED, Sources, answering, read, same
from shared_core.lm.encoding import Encoder
from shared_core.training.rows import TrainingRow
from shared_core.training.self_rag.recipe import add_reflection_tokens
from shared_core.training.self_rag.rows import GeneratorRow

DATA = Path(__file__).parents[2] / "../shared/data"


def test_the_sentence_and_the_answer_are_found() -> None:
    text = "The wall was begun in 1842. It was finished in 1850. In 1850 the ferry sailed."
    assert answering(text, ["1850"], "When was the wall finished?") == ("It was finished in 1850.", "1850")
    assert answering(text, ["1850"], "When did it sail?", start=text.rindex("1850"))[0] == "In 1850 the ferry sailed."
    assert answering(text, ["185", "42"], "When?") == ("", "")
    assert claim_of("The wall (of stone) was built by Ida Holm.", "Ida Holm") == "The wall was built by Ida Holm."
    assert claim_of("The wall (of stone) was built.", "of stone") == "The wall (of stone) was built."


@pytest.mark.parametrize(
    ("judged", "learnt"),
    [(False, "[Relevant]1842.[Fully supported][Utility:5]</s>"), (True, "[Fully supported][Utility:5]</s>")],
)
def test_the_first_token_learnt_of_a_segment_is_its_verdict(
    judged: bool, learnt: str, tiny_model: Any, tiny_tokenizer: Any
) -> None:
    tokenizer = copy.deepcopy(tiny_tokenizer)
    add_reflection_tokens(copy.deepcopy(tiny_model), tokenizer)
    said = "[Retrieval]<paragraph>Wall\nBegun in 1842, [Relevant] or not.</paragraph>[Relevant]1842.[Fully supported]"
    whole = GeneratorRow("When was it begun?", f"{said}[Utility:5]", "a")
    ids, labels = SegmentRow(whole, judged).encode(Encoder(tokenizer))
    assert ids == whole.encode(Encoder(tokenizer))[0]
    assert all(label in (-100, i) for i, label in zip(ids, labels, strict=True))
    assert tokenizer.decode([label for label in labels if label != -100]).replace(" ", "") == learnt.replace(" ", "")


@pytest.mark.train
@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason="the development data are not here")
def test_no_question_that_is_measured_is_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fewer(make: Any) -> Any:
        return lambda rows, passages, limit, rng: make(rows, passages, limit // 10, rng)

    monkeypatch.setattr(sources_module, "swapped", fewer(sources_module.swapped))
    monkeypatch.setattr(sources_module, "replaced", fewer(sources_module.replaced))
    measured = {same(row["question"]) for name in MEASURED for row in read(DATA / name)}
    sources = Sources(DATA)
    rows = make_rows(sources, share=0.05)
    asked = {a.question for some in (*sources.asked.values(), *sources.asked2.values()) for a in some}
    assert len(asked) > 50_000
    assert not {same(question) for question in asked} & measured
    prompts = [same(row.prompt.text) for row in rows if isinstance(row, TrainingRow)]
    assert len(prompts) > 300
    test = {tuple(q.split()) for q in measured if len(q.split()) > 5}
    shown = {tuple(words[i : i + 6]) for words in map(str.split, prompts) for i in range(len(words))}
    begun = [" ".join(q) for q in test if q[:6] in shown]  # of ten thousand, the few worth looking for
    assert not [q for q in begun if any(f" {q} " in f" {text} " for text in prompts)]
    whole = [row for row in rows if row.role in ("reference", "short")]
    declining = [row for row in whole if isinstance(row, TrainingRow) and row.completion in ("", "I do not know.")]
    assert 0.25 < len(declining) / len(whole) < 0.75
    roles = {row.role for row in rows}
    assert roles == {"reference", "claim", "short", "read", "numbered", "judge", "condense", "generator", "segment"}


def _write(folder: Path, passages: list[dict[str, Any]], questions: list[dict[str, Any]]) -> None:
    folder.mkdir(parents=True)
    for name, rows in (("passages", passages), ("questions", questions)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.mark.train
@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason="the development data are not here")
def test_further_questions_stand_beside_their_twins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for make in ("swapped", "replaced"):
        monkeypatch.setattr(sources_module, make, lambda *_: [])
    known = next(row["question"] for row in read(DATA / MEASURED[0]))
    text = "The wall was begun in 1842. It was finished in 1850."
    asked = {"When was the wall begun?": "1842", "When was the wall painted?": "", known: ""}
    rows = [
        {"question": q, "passage_id": "a", "answers": [a] * bool(a), "starts": [[22]] * bool(a), "answerable": bool(a)}
        for q, a in asked.items()
    ]
    alone = [{**rows[0], "passage_id": "b"}]  # no unanswerable one beside it: not taken
    passages = [{"id": i, "text": text, "title": "Wall"} for i in ("a", "b")]
    for name in MADE:
        _write(tmp_path / name, passages, [*rows, *alone])
    (group,) = Sources(DATA, made=tmp_path).made_groups("natural", 5, 10)
    assert group.passages[0].text == text
    assert {a.question: a.answer for a in group.asked} == {q: a for q, a in asked.items() if q != known}
    assert group.asked[0].sentence == "The wall was begun in 1842."
