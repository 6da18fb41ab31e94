"""A calibration that a team can afford: few questions help and none harm, and what is asked stays within a budget."""

from __future__ import annotations

import json
import logging
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from shared_core.calibration import Stack, fit_stack
from shared_core.calibration.held_out import auroc
from shared_core.errors import CalibrationInputError, InputError
from shared_core.evaluation.dataset import Question, read_questions
from shared_core.evaluation.fitting import Budget, ClaimLabels, FitOptions, Prices, estimate, fit
from shared_core.evaluation.fitting.asking import FitJob
from shared_core.evaluation.fitting.budget import wilson_interval
from shared_core.evaluation.fitting.observe import claims_to_label
from shared_core.lm.scripted import ScriptedLM
from shared_core.support.run_log import RunLog
from shared_core.types import Usage
from tests.calibration import test_fit_claims as lamps
from tests.calibration import test_fit_gate as items
from tests.calibration.test_fit_gate import QUESTIONS
from tests.command import selfreflect

NAMES = ("general", "entailed", "certain")
START = Stack(("sufficient",), (1.0,), (0.0,), 0.0, n=1000)


def simulated(rng: random.Random, n: int, *, hidden: float = 0.0) -> tuple[list[list[float | None]], list[bool]]:
    """Draw claims: the first signal ranks them well and is too doubtful; the others are noise, or know more."""
    signals: list[list[float | None]] = []
    right = []
    for _ in range(n):
        known, more = rng.gauss(0, 1.5), rng.gauss(0, 1.5)
        right.append(rng.random() < 1 / (1 + np.exp(-known - hidden * more)))
        first = 1 / (1 + np.exp(-0.6 * known + 1.5))
        signals.append([first, 1 / (1 + np.exp(-more)), rng.random() if rng.random() < 0.7 else None])
    return signals, right


def figures(stack: Stack, signals: list[list[float | None]], right: list[bool]) -> tuple[float, float, float, float]:
    """AUROC and Brier score of the stack, then of the first signal."""
    y = np.array(right, float)
    p = np.array([stack.combine(row) or 0.0 for row in signals])
    first = np.array([row[0] for row in signals], float)
    return auroc(p, y), float(np.mean((p - y) ** 2)), auroc(first, y), float(np.mean((first - y) ** 2))


def test_thirty_claims_help_and_none_harm() -> None:
    gained = []
    for seed in range(60):
        rng = random.Random(seed)
        stack = fit_stack(NAMES, *simulated(rng, 30), start=START)
        area, brier, area_before, brier_before = figures(stack, *simulated(rng, 1000))
        assert area >= area_before - 0.01
        gained.append(brier_before - brier)
    assert np.mean(gained) > 0.02
    assert min(gained) > 0


def test_many_claims_weigh_what_the_start_does_not_know() -> None:
    rng = random.Random(1)
    stack = fit_stack(NAMES, *simulated(rng, 400, hidden=1.0), start=START)
    area, _, before, _ = figures(stack, *simulated(rng, 2000, hidden=1.0))
    assert area > before + 0.05
    noise = fit_stack(NAMES, *simulated(rng, 400), start=START)
    assert noise.weights[1:] == (0.0, 0.0)


def test_a_start_that_is_unknown_is_none() -> None:
    signals, right = simulated(random.Random(2), 60, hidden=1.0)
    stack = fit_stack(NAMES, [[None, *row[1:]] for row in signals], right, start=START)
    assert stack.before == 0
    assert stack.weights[1] > 0


def test_claims_of_one_kind_teach_nothing() -> None:
    signals, _ = simulated(random.Random(3), 60)
    for right in ([True] * 60, [False] * 60):
        with pytest.raises(CalibrationInputError, match="too few to calibrate claims"):
            fit_stack(NAMES, signals, right, start=START)


# --- budgets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("texts", "prices", "message"), [
    (["many"], None, "a positive number and a unit"), (["0calls"], None, "a positive number and a unit"),
    (["-5calls"], None, "a positive number and a unit"), (["5calls", "6 calls"], None, "two budgets in calls"),
    (["1min", "1h"], None, "two budgets in seconds"), (["2USD"], None, "needs the prices"),
])  # fmt: skip
def test_a_budget_that_cannot_be_read_is_refused(texts: list[str], prices: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Budget.parse(texts, prices)


def test_prices_and_units() -> None:
    budget = Budget.parse(["2.5€", "3M tokens", "1.5h"], Prices.parse("1,4"))
    assert (budget.money, budget.tokens, budget.seconds) == (2.5, 3e6, 5400)
    assert budget.affordable(Usage(prompt_tokens=500_000, generated_tokens=250_000), 10) == 6  # 0.15 a question
    for bad in ("1", "a,b", "1,-1", "nan,1"):
        with pytest.raises(InputError, match="two prices"):
            Prices.parse(bad)
    low, high = wilson_interval(8, 10)
    assert (round(low, 3), round(high, 3)) == (0.490, 0.943)


def options(*texts: str, interval: float | None = None) -> FitOptions:
    return FitOptions(budget=Budget.parse(texts, interval=interval))


def asked(engine: Any) -> int:
    lm = engine.resources.models["default"]
    assert isinstance(lm, ScriptedLM)
    return len(lm.requests)


def test_a_budget_in_calls_is_kept_and_told() -> None:
    engine = lamps.engine()
    fitted = fit("claims", engine, lamps.QUESTIONS, options("45calls"))
    assert asked(engine) <= fitted.usage.calls <= 45
    assert 20 <= fitted.calibration.n < len(lamps.QUESTIONS)
    assert "of 60 questions were asked: the budget is spent" in fitted.summary()
    assert len(fitted.calibration.questions) == fitted.calibration.n


def test_a_budget_too_small_for_a_fit_keeps_what_it_bought(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "rows")
    with pytest.raises(CalibrationInputError):
        fit("claims", lamps.engine(), lamps.QUESTIONS, options("12calls"), kept=log)
    bought = len(RunLog(tmp_path / "rows").rows)
    assert bought
    again = lamps.engine()
    fit("claims", again, lamps.QUESTIONS, kept=log)
    whole = lamps.engine()
    fit("claims", whole, lamps.QUESTIONS)
    assert asked(again) < asked(whole)


def test_it_stops_when_the_interval_is_narrow_enough() -> None:
    engine = lamps.engine()
    fitted = fit("claims", engine, lamps.QUESTIONS, options(interval=0.15))
    right, shown = fitted.shown
    low, high = wilson_interval(right, shown)
    assert high - low <= 0.3
    assert "questions were asked: the interval is narrow enough" in fitted.summary()
    assert f"{right} of {shown} right" in fitted.summary()


def test_an_estimate_asks_no_model_anything() -> None:
    engine = lamps.engine()
    least = estimate("claims", engine, lamps.QUESTIONS)
    assert asked(engine) == 0
    assert least.calls == len(lamps.QUESTIONS)  # one request each before the first reply
    assert fit("claims", engine, lamps.QUESTIONS).usage.calls >= least.calls
    assert least.prompt_tokens > 10 * least.calls


def test_the_command_tells_estimate_cost_and_budget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    limits = ("--budget", "900calls", "--price", "1,2")
    done = items.invoke(monkeypatch, tmp_path, "gate", "--model", "x", "-o", file, *limits)
    assert done.exit_code == 0, done.output
    least = 2 * len(QUESTIONS)  # an answer and samples
    assert f"{len(QUESTIONS)} questions take at least {least} calls" in " ".join(done.output.split())
    assert file.exists()
    assert not Path(f"{file}.rows").exists()
    for budget, goes_on in (("90calls", False), ("900calls", True)):
        part = items.invoke(monkeypatch, tmp_path, "gate", "--model", "x", "-o", file, "--budget", budget)
        assert part.exit_code == 0, part.output
        assert ("of a run that did not end" in part.output) is goes_on
        assert Path(f"{file}.rows").exists() is not goes_on
    refused = items.invoke(monkeypatch, tmp_path, "gate", "--model", "x", "-o", file, "--budget", "3EUR")
    assert refused.exit_code == 2
    assert "needs the prices" in refused.output


# --- labels of the user's own --------------------------------------------------------------------------------------


def label(monkeypatch: pytest.MonkeyPatch, folder: Path, replies: str, engine: Any) -> Any:
    """Run the labelling command over three questions without answers; replies as typed."""
    questions = folder / "q.jsonl"
    questions.write_text("\n".join(json.dumps({"question": q.question}) for q in lamps.QUESTIONS[1:4]))
    monkeypatch.setattr("shared_core.cli.options.DocumentOptions.build", lambda *_: SimpleNamespace(engine=engine))
    command = ["calibrate", "label", questions, "-o", folder / "c.json", "--model", "x"]
    return selfreflect(*command, "--labelled", folder / "labelled.jsonl", input=replies)


def test_claims_are_labelled_in_the_terminal_and_resumed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine = lamps.engine()
    first = label(monkeypatch, tmp_path, "y\nwhat\ns\nq\n", engine)
    assert first.exit_code == 0, first.output
    assert "claim: It was in 1801." in first.output
    assert "quote (p1): Lamp 1 was lit in 1801." in first.output
    before = asked(engine)
    second = label(monkeypatch, tmp_path, "n\ny\n", engine)
    assert "lamp 1 lit" not in second.output  # it has its label
    assert asked(engine) == before  # nothing is asked twice
    rows = read_questions(tmp_path / "labelled.jsonl")
    assert [[one["label"] for one in q.metadata["claims"]] for q in rows] == [[True], [False], [True]]
    (tmp_path / "labelled.jsonl").write_text('{"id": "1", "question": "Another one?", "claims": []}\n')
    assert "holds another question '1'" in label(monkeypatch, tmp_path, "", engine).output


def test_questions_that_cannot_be_judged_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    some = [Question(q.id, q.question) if i < 20 else q for i, q in enumerate(lamps.QUESTIONS)]
    with caplog.at_level(logging.WARNING, "shared_core"):
        fit("claims", lamps.engine(), lamps.QUESTIONS)
        assert "cannot be judged" not in caplog.text
        fit("claims", lamps.engine(), some)
        fit("guarantee", lamps.engine(), some)
    assert 'claims: 20 of 60 questions cannot be judged and are not asked. Give rows with "answers"' in caplog.text
    assert "guarantee: 20 of 60 questions cannot be judged and are not asked." in caplog.text


@pytest.mark.parametrize(("kind", "needed"), [("conformal_factuality", 9), ("learn_then_test", 4)])
def test_too_few_questions_for_a_guarantee_are_refused_before_any_is_asked(kind: Any, needed: int) -> None:
    engine = lamps.engine()
    some = [*lamps.QUESTIONS[: needed - 1], Question("x", "Which cannot be judged?")]
    with pytest.raises(CalibrationInputError, match=f"{needed - 1} questions are too few .* at least {needed} are"):
        fit("guarantee", engine, some, FitOptions(guarantee=kind))
    assert asked(engine) == 0


def test_a_fit_takes_the_users_labels_and_asks_nothing_again(tmp_path: Path) -> None:
    log, engine = RunLog(tmp_path / "rows"), lamps.engine()
    bare = [Question(q.id, q.question) for q in lamps.QUESTIONS]
    with pytest.raises(CalibrationInputError, match="None of 60 questions can be judged"):
        fit("claims", engine, bare, kept=log)
    job = FitJob(engine, bare, FitOptions(), log)
    labelled = [
        Question(
            q.id, q.question, metadata={"claims": [{"claim": c.text, "label": "lit" in q.question} for c in claims]}
        )
        for q, claims in claims_to_label(job)
    ]
    before = asked(engine)
    mine = fit("claims", engine, labelled, kept=log).calibration
    assert asked(engine) == before
    assert mine.weights == fit("claims", lamps.engine(), lamps.QUESTIONS).calibration.weights


def test_passages_label_claims_too() -> None:
    named = [
        Question(q.id, q.question, metadata={"passage_ids": [f"p{i}" if q.answers else "elsewhere"]})
        for i, q in enumerate(lamps.QUESTIONS)
    ]
    labels = ClaimLabels(named)
    fitted = fit("claims", lamps.engine(), named, FitOptions(label=labels))
    assert (fitted.calibration.n, fitted.calibration.positives) == (60, 40)
    assert labels.summary() == "labels: 60 by the passages that answer"
