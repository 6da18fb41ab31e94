"""What a comparison says, and what its files hold."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest

from shared_core.errors import InputError
from shared_core.evaluation import Comparison, Question, compare, evaluate
from shared_core.evaluation.compare import ComparisonRow, Estimate
from shared_core.evaluation.compare.outcomes import figures
from shared_core.evaluation.compare.page import headline, show_figure
from shared_core.types import Answer
from tests.evaluation.systems import Dice, questions


@pytest.fixture(scope="module")
def found() -> Comparison:
    systems = {"good": Dice(0.9, "g"), "bad": Dice(0.3, "b", fails=lambda q: "7" in q), "same": Dice(0.9, "g")}
    return compare(systems, questions(60), resamples=200)


def test_figures_are_those_of_a_single_evaluation(found: Comparison) -> None:
    alone = evaluate(Dice(0.9, "g"), questions(60)).metrics
    for name, value in alone.items():
        if name != "seconds_per_question":
            assert found.figures["good"][name].value == pytest.approx(value, nan_ok=True), name


def test_intervals_and_differences(found: Comparison) -> None:
    good, bad = found.figures["good"]["exact_match"], found.figures["bad"]["exact_match"]
    assert good.low is not None
    assert good.high is not None
    assert good.low < good.value < good.high
    against = found.differences[("bad", "good")]["exact_match"]
    assert against.value == pytest.approx(bad.value - good.value)
    assert against.differs
    same = found.differences[("same", "good")]["exact_match"]
    assert (same.value, same.low, same.differs) == (0.0, None, False)
    assert set(found.differences) == {("bad", "good"), ("same", "good"), ("same", "bad")}
    assert "questions" not in found.differences[("bad", "good")]


def test_the_baseline_may_be_named() -> None:
    systems = {"good": Dice(0.9, "g"), "bad": Dice(0.3, "b")}
    found = compare(systems, questions(12), resamples=10, baseline="bad")
    assert set(found.differences) == {("good", "bad")}


def test_seeds_make_the_intervals() -> None:
    def low(seed: int) -> float | None:
        return compare({"a": Dice(0.5)}, questions(30), resamples=50, seed=seed).figures["a"]["f1"].low

    assert low(1) == low(1)
    assert len({low(seed) for seed in range(5)}) > 1


def test_utility_pays_for_right_answers_and_takes_for_wrong_ones() -> None:
    class Fixed:
        def answer_many(self, asked: Any, /) -> list[Answer | Exception]:
            return [
                Answer("a", "Rome", confidence=0.9),
                Answer("b", "Paris", confidence=0.9),
                Answer("c", "No.", abstained=True, reason="support below target", confidence=0.1),
                ValueError("broken"),
                Answer("e", "Rome", confidence=0.9),
            ]

    asked = [Question(i, i, ("Rome",), True) for i in "abcd"] + [Question("e", "e", (), False)]
    values = compare({"fixed": Fixed()}, asked, resamples=0, targets=(0.5, 0.8)).figures["fixed"]
    assert values["utility_0.5"].value == pytest.approx((1 - 1 + 0 + 0 - 1) / 5)
    assert values["utility_0.8"].value == pytest.approx((1 - 4 + 0 + 0 - 4) / 5)
    assert values["utility_0.8"].over == 5
    assert values["utility_0.8"].low is None


def test_figures_say_over_how_many(found: Comparison) -> None:
    rows = found.rows["bad"]
    failed = sum(bool(r.record.error) for r in rows)
    answered = sum(not r.record.abstained and not r.record.error for r in rows)
    told = {name: e.over for name, e in found.figures["bad"].items()}
    assert told["exact_match"] == told["utility_0.5"] == told["coverage"] == told["coverage_0.7"] == 60
    assert told["f1_answerable"] == 45
    assert told["accuracy"] == answered
    assert told["auroc_correct"] == told["ece"] == 60 - failed
    above = [r for r in rows if not r.record.error and not r.record.abstained and (r.record.confidence or 0) > 0.7]
    assert told["kept_accuracy_0.7"] == len(above)
    assert told["recall"] == 0
    assert None not in told.values()


def test_no_rows_have_no_figures() -> None:
    assert all((math.isnan(value) or value == 0) and over == 0 for value, over in figures([], (0.5,)).values())


def test_a_row_survives_being_written(found: Comparison) -> None:
    for row in found.rows["bad"]:
        assert ComparisonRow.from_dict(json.loads(json.dumps(row.to_dict()))) == row


def test_files(found: Comparison, tmp_path: Path) -> None:
    written = {p.name: p for p in found.save(tmp_path / "deep")}
    assert set(written) == {
        "comparison.json", "figures.csv", "answers.csv", "report.html",
        "utility.png", "risk_coverage.png", "reliability.png", "cost.png",
    }  # fmt: skip
    data = json.loads(written["comparison.json"].read_text())
    assert data["configurations"]["bad"]["errors"]
    assert data["intervals"]["seed"] == 0
    assert data["configurations"]["good"]["figures"]["recall"]["value"] is None
    with written["answers.csv"].open(newline="") as file:
        answers = list(csv.DictReader(file))
    assert len(answers) == 3 * 60
    assert {a["configuration"] for a in answers} == {"good", "bad", "same"}
    failed = [a for a in answers if a["error"]]
    assert len(failed) == sum(map(len, found.errors("bad").values()))
    assert failed[0]["calls"] == ""
    with written["figures.csv"].open(newline="") as file:
        lines = {(f["figure"], f["configuration"]): f for f in csv.DictReader(file)}
    line = lines["f1", "bad"]
    assert float(line["value"]) == found.figures["bad"]["f1"].value
    assert float(line["difference_low"]) < 0
    for name in ("utility.png", "risk_coverage.png", "reliability.png", "cost.png"):
        assert written[name].read_bytes().startswith(b"\x89PNG")


def test_the_page(tmp_path: Path) -> None:
    class Evil(Dice):
        def answer_many(self, asked: Any, /) -> list[Answer | Exception]:
            return [Answer(q, "<script>alert(1)</script>\x1b[2J", confidence=0.5) for q in asked]

    found = compare({"good": Dice(0.9, "g"), "<b>evil</b>": Evil(0)}, questions(20), resamples=20)
    page = next(p for p in found.save(tmp_path) if p.suffix == ".html").read_text()
    assert "<script" not in page
    assert "<b>evil" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;" in page
    assert page.count("data:image/png;base64,") == 4
    assert 'src="http' not in page
    assert "same 20 questions" in page
    assert "seed 0" in page


def test_without_truth_nothing_is_drawn_or_claimed(tmp_path: Path) -> None:
    asked = [Question(str(i), f"Q{i}?") for i in range(5)]
    found = compare({"a": Dice(0.5), "b": Dice(0.2, "b")}, asked, resamples=20)
    assert found.plot(tmp_path) == []
    assert math.isnan(found.figures["a"]["utility_0.5"].value)
    assert "utility_0.5" not in headline(found)
    assert "coverage" in headline(found)
    assert found.save(tmp_path)


def test_costs_of_models_are_shown_where_one_was_asked(found: Comparison) -> None:
    class Free(Dice):
        def _answer(self, question: str) -> Answer | Exception:
            return Answer(question, "Rome", confidence=0.5)

    assert "calls" in headline(found)
    assert "calls" not in headline(compare({"free": Free(1)}, questions(4), resamples=0))


@pytest.mark.parametrize(("estimate", "signed", "shown"), [
    (Estimate(0.61234, 0.5, 0.7), False, "0.612 [0.500, 0.700]"),
    (Estimate(0.25, -0.0, 0.5), True, "+0.250 [+0.000, +0.500]"), (Estimate(0.00123), False, "0.0012"),
    (Estimate(412.26), False, "412.3"), (Estimate(math.nan), False, "–"), (None, False, "–"),
])  # fmt: skip
def test_a_figure_as_shown(estimate: Estimate | None, signed: bool, shown: str) -> None:
    assert show_figure(estimate, signed=signed) == shown


def test_a_file_that_cannot_be_written_is_bad_input(found: Comparison, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        found.write(tmp_path)
