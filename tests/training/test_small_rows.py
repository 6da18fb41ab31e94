"""What selfreflect-small is trained on: prompts of the pipelines, and no question that is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.small import sources as sources_module
from benchmarks.small.rows import claim_of, make_rows
from benchmarks.small.sources import MEASURED, Sources, answering, read, same
from shared_core.training.rows import TrainingRow

DATA = Path(__file__).parents[2] / "../shared/data"


def test_the_sentence_and_the_answer_are_found() -> None:
    text = "The wall was begun in 1842. It was finished in 1850. In 1850 the ferry sailed."
    assert answering(text, ["1850"], "When was the wall finished?") == ("It was finished in 1850.", "1850")
    assert answering(text, ["1850"], "When did it sail?", start=text.rindex("1850"))[0] == "In 1850 the ferry sailed."
    assert answering(text, ["185", "42"], "When?") == ("", "")
    assert claim_of("The wall (of stone) was built by Ida Holm.", "Ida Holm") == "The wall was built by Ida Holm."
    assert claim_of("The wall (of stone) was built.", "of stone") == "The wall (of stone) was built."


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
    assert roles == {"reference", "claim", "short", "read", "numbered", "judge", "condense", "generator"}
