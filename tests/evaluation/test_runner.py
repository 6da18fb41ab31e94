from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from shared_core.errors import AbstainedError, InputError, MissingDependencyError, RetrievalError, SettingsError
from shared_core.evaluation import Question, evaluate, plots
from shared_core.types import Answer, Citation, Claim, Passage
from tests.evaluation.systems import Short

PASSAGE = Passage("p", "The bridge was built by Mira Dorn. It opened in 1841.")
MIRA = PASSAGE.span(0, 34)
YEAR = PASSAGE.span(35, 53)


def claim(span: Any, support: float | None, short: str | None = None, **more: Any) -> Claim:
    return Claim(span.text, support, (Citation((span,)),), short_answer=short, **more)


def said(text: str, confidence: float | None, *claims: Claim) -> Answer:
    return Answer("q", text, claims, (PASSAGE,), confidence=confidence)


def abstained(*claims: Claim, confidence: float | None = None) -> Answer:
    return Answer("q", "No.", claims, (PASSAGE,), abstained=True, reason="support below target", confidence=confidence)


class Canned:
    """Answers from a table; counts what it is asked at once."""

    def __init__(self, answers: dict[str, Answer | Exception]) -> None:
        self.answers = answers
        self.batches: list[int] = []

    def answer_many(self, questions: Sequence[str]) -> list[Answer | Exception]:
        self.batches.append(len(questions))
        return [self.answers[q] for q in questions]


QUESTIONS = [
    Question("right", "right", ("Mira Dorn",), True, {"passage_id": "p"}),
    Question("wrong", "wrong", ("Orm",), True, {"passage_ids": ["p", "q"]}), Question("shy", "shy", ("1841",), True),
    Question("none", "none", (), False), Question("error", "error", ("x",), True), Question("unknown", "unknown"),
]  # fmt: skip
ENGINE: dict[str, Answer | Exception] = {
    "right": said("Mira Dorn built it.", 0.9, claim(MIRA, 0.9, "Mira Dorn"), claim(YEAR, 0.8)),
    "wrong": said("It opened in 1841.", None, claim(YEAR, 0.6)),
    "shy": AbstainedError(abstained(claim(MIRA, 0.1, status="dropped"), claim(YEAR, 0.4, "1841", status="dropped"))),
    "none": abstained(confidence=0.1),
    "error": RetrievalError("The index is gone.", hint="Make it again."),
    "unknown": said("Perhaps.", 0.7),
}


@pytest.mark.parametrize(("ids", "warned"), [(("x", "y", "z"), True), (("x", "y", "p"), False), (("x", "y"), False)])
def test_passage_ids_that_the_index_does_not_have_draw_a_warning(
    ids: tuple[str, ...], warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    asked = [Question(i, "right", ("Mira Dorn",), True, {"passage_id": i}) for i in ids]
    evaluate(Canned(ENGINE), asked)
    assert ("recall is 0" in caplog.text) == warned


def test_the_table() -> None:
    engine, seen = Canned(ENGINE), []
    result = evaluate(engine, QUESTIONS, batch_size=4, progress=lambda done, total: seen.append((done, total)))
    assert engine.batches == [4, 2]
    assert seen == [(4, 6), (6, 6)]
    m = result.metrics
    assert (m["questions"], m["errors"]) == (6, 1)
    assert m["exact_match"] == pytest.approx(2 / 5)  # right, and the abstention where there is no answer
    assert m["exact_match_answerable"] == pytest.approx(1 / 4)
    assert m["first_quote"] == pytest.approx(2 / 4)  # right, and what was withheld
    assert m["coverage"] == pytest.approx(3 / 6)
    assert m["accuracy"] == pytest.approx(1 / 2)
    assert m["recall"] == pytest.approx(3 / 4)
    assert m["offsets_exact"] == 1.0
    # .9 right, .6 (of the claim) wrong, .4 right, .1 wrong
    assert m["auroc_correct"] == pytest.approx(3 / 4)
    # of all six, three were answered with more than .5 (of one nobody knows whether it is right), one with more than .7
    assert (m["kept_accuracy_0.5"], m["coverage_0.5"]) == (0.5, 0.5)
    assert (m["kept_accuracy_0.7"], m["coverage_0.7"]) == (1.0, pytest.approx(1 / 6))
    assert math.isnan(m["kept_accuracy_0.9"])
    assert m["auroc_answerable"] == 1.0
    assert (m["abstention_precision"], m["abstention_recall"]) == (0.5, 1.0)
    assert m["seconds_per_question"] > 0


def test_records() -> None:
    records = {r.id: r for r in evaluate(Canned(ENGINE), QUESTIONS).records}
    assert (records["right"].prediction, records["right"].quote) == ("Mira Dorn", MIRA.text)
    assert (records["shy"].prediction, records["shy"].quote, records["shy"].abstained) == ("", YEAR.text, True)
    assert records["shy"].confidence == 0.4
    assert records["error"].error == "RetrievalError: The index is gone.\nHint: Make it again."
    assert (records["unknown"].em, records["unknown"].correct) == (None, None)


@pytest.mark.parametrize(
    ("text", "short", "golds", "right", "of_quote"),
    [
        ("It was built by Orm Vale.", None, ("Mira Dorn",), False, True),  # a wrong claim beside a quote that has it
        ("Dorn, Mira's daughter, did.", "Vale", ("Vale",), True, False),  # the short answer is shown
        ("It was finished in the forties.", None, ("in the forties",), True, False),  # the quote lacks it
        ("No, it was built by Mira Dorn.", None, ("no",), True, False),
        ("Yes.", None, ("no",), False, False),
        ("There is no doubt that she did.", None, ("no",), False, False),  # it says yes
        ("no", None, ("No", "no."), True, False),
    ],
)
def test_what_is_shown_is_judged_and_its_quote_apart(
    text: str, short: str | None, golds: tuple[str, ...], right: bool, of_quote: bool
) -> None:
    answer = said(text, 0.9, Claim(text, 0.9, (Citation((MIRA,)),), short_answer=short))
    (record,) = evaluate(Canned({"q": answer}), [Question("q", "q", golds)]).records
    assert (record.correct, record.quote_correct) == (right, of_quote)
    assert record.judged_by == ("yes or no" if golds[0].lower() == "no" else "contains an accepted answer")


@pytest.mark.parametrize("golds", [("#",), ("#", "hash")])
def test_a_symbol_is_right_where_it_is_said_and_only_there(golds: tuple[str, ...]) -> None:
    answers = {"is": said("#", 0.9, claim(YEAR, 0.9, short="#")), "other": said("%", 0.9), "none": abstained()}
    records = evaluate(Canned(answers), [Question(i, i, golds, True) for i in answers]).records
    assert [(r.em, r.f1, r.correct) for r in records] == [(1.0, 1.0, True), (0.0, 0.0, False), (0.0, 0.0, False)]


def test_any_claim_shown_may_give_the_answer_and_a_dropped_one_may_not() -> None:
    two = said("…", 0.5, claim(YEAR, 0.9), claim(MIRA, 0.5))
    dropped = said("…", 0.9, claim(YEAR, 0.9), claim(MIRA, 0.5, status="dropped"))
    records = evaluate(Canned({"a": two, "b": dropped}), [Question(i, i, ("Mira Dorn",)) for i in "ab"]).records
    assert [r.correct for r in records] == [True, False]


def test_what_a_run_withheld_is_not_counted_as_if_it_had_been_shown() -> None:
    answer = dataclasses.replace(
        abstained(claim(MIRA, 0.6, status="dropped"), confidence=0.6), metadata={"target_accuracy": 0.8}
    )
    m = evaluate(Canned({"right": answer}), QUESTIONS[:1]).metrics
    assert (m["coverage"], m["coverage_0.8"]) == (0.0, 0.0)
    assert math.isnan(m["coverage_0.5"])  # at .5 it would have been shown


def test_wrong_offsets_are_seen() -> None:
    other = Passage("p", "Something else, as long as the sentence that was cited.")
    answer = Answer("q", MIRA.text, (claim(MIRA, 0.9),), (other,), confidence=0.9)
    assert evaluate(Canned({"right": answer}), QUESTIONS[:1]).metrics["offsets_exact"] == 0.0


def test_without_truth_or_confidence_nothing_is_claimed(tmp_path: Path) -> None:
    result = evaluate(Canned(ENGINE), [QUESTIONS[-1]])
    assert math.isnan(result.metrics["exact_match"])
    assert math.isnan(result.metrics["ece"])
    assert result.plot(tmp_path) == []
    silent = Canned({"right": said("Mira Dorn.", None), "none": abstained()})
    metrics = evaluate(silent, [QUESTIONS[0], QUESTIONS[3]]).metrics
    for name in ("auroc_correct", "ece", "aurc", "brier", "prr", "coverage_0.5", "auroc_answerable"):
        assert math.isnan(metrics[name]), name
    assert metrics["exact_match"] == 1.0


def test_json_and_plots(tmp_path: Path) -> None:
    result = evaluate(Canned(ENGINE), QUESTIONS)
    data = json.loads(result.write(tmp_path / "deep" / "eval.json").read_text())
    assert data["metrics"]["kept_accuracy_0.9"] is None
    assert [r["id"] for r in data["records"]] == [q.id for q in QUESTIONS]
    assert not list((tmp_path / "deep").glob("*.part"))
    paths = result.plot(tmp_path / "plots")
    assert len(paths) == 3
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in paths)
    with pytest.raises(InputError):
        result.write(tmp_path / "deep")  # a folder


def test_bad_input() -> None:
    engine = Canned(ENGINE)
    for answering, questions in ((engine, []), (Short(), QUESTIONS)):
        with pytest.raises(InputError):
            evaluate(answering, questions)
    with pytest.raises(SettingsError):
        evaluate(engine, QUESTIONS, batch_size=0)
    with pytest.raises(SettingsError):
        evaluate(engine, QUESTIONS, targets=[1.0])


def test_plots_refuse_what_they_cannot_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def risk_coverage(sure: list[float], right: list[int], path: Path) -> Path:
        return plots.risk_coverage({"": (sure, right)}, path)

    def reliability(sure: list[float], right: list[int], path: Path) -> Path:
        return plots.reliability({"ours": (sure, right)}, path)

    for draw in (risk_coverage, reliability, plots.target_accuracy):
        with pytest.raises(InputError):
            draw([], [], tmp_path / "x.png")
        with pytest.raises(InputError):
            draw([0.2], [1], tmp_path / "x.nonsense")
        assert draw([0.2, math.nan], [1, 0], tmp_path / f"{draw.__name__}.svg").read_text().startswith("<?xml")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError):
        reliability([0.2], [1], tmp_path / "x.png")
