"""What a calibration says of itself holds for questions that it was not fitted on: figures, plots, warnings."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.calibration import io as calibration_io
from shared_core.calibration.binding import question_digest
from shared_core.calibration.calibration import Calibration, fit_calibration, held_out
from shared_core.calibration.held_out import deal_folds
from shared_core.calibration.stack import fit_stack, log_odds_of
from shared_core.evaluation import plots
from shared_core.evaluation.compare.run import compare
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.fitting import FitOptions, Fitted, fit
from shared_core.evaluation.fitting.asking import Observation, Observed
from shared_core.evaluation.metrics.confidence import expected_calibration_error
from shared_core.evaluation.runner import evaluate
from shared_core.lm.scripted import ScriptedLM
from tests.engine.test_confidence_everywhere import QUESTIONS, SMALL, Lamps, lamp_model, lamps
from tests.fakes import FirstSentenceReader


class Doubting(FirstSentenceReader):
    """As sure as a passage's number says, whatever is right."""

    def _one(self, request: Any) -> Any:
        self.probabilities = tuple((int(p.id[1:]) * 7 % 60) / 60 for p in request.passages)
        return super()._one(request)


def quoting() -> SelfReflectEngine:
    settings = SelfReflectSettings(target_accuracy=0.05, **SMALL)
    return SelfReflectEngine(Lamps(), settings=settings, reader=Doubting(answerable=0.9))


def closed_book() -> SelfReflectEngine:
    """A model that states any probability of its claims, about lamps of which it knows every second."""

    def reply(request: Any) -> str:
        number = int(request.prompt.text.rsplit("lamp ", 1)[-1].split()[0].strip(".?”"))
        if request.model == "judge":
            return str(number * 7 % 60 + 20)
        return f"The lamp {number} was lit in {1800 + number if number % 2 else 1700}."

    options = {**SMALL["research"], "closed_book": True}
    settings = SelfReflectSettings(pipeline="research", target_accuracy=0.05, research=options)
    return SelfReflectEngine(Lamps(), ScriptedLM(reply, name="closed"), settings)


def fitted(purpose: str) -> Any:
    if purpose == "confidence":
        return fit("confidence", quoting(), QUESTIONS, FitOptions(method="isotonic"))
    if purpose == "self_evaluation":
        return fit("self_evaluation", closed_book(), QUESTIONS, FitOptions(method="isotonic"))
    if purpose == "support":
        rows = [(f"Lamp {i}", f"It was {'sold' if i % 4 else 'lit'} {i}.", i % 3 > 0) for i in range(40)]
        return fit(
            "support", lamps("composed", lamp_model("text-only")), options=FitOptions(claims=rows, method="isotonic")
        )
    pipeline, _, name = purpose.partition(" ")
    if name == "claims":
        return fit("claims", lamps(pipeline, lamp_model("text-only")), QUESTIONS)
    return fit(name, lamps(pipeline, lamp_model("white-box")), QUESTIONS, FitOptions(method="isotonic"))


def test_log_odds_are_clipped_and_missing_signals_count_as_even_odds() -> None:
    found = log_odds_of((0.5, 0.9, 1.0, 0.0, None))
    assert found == pytest.approx([0.0, math.log(9), 6.0, -6.0, 0.0, 0, 0, 0, 0, 1])


PURPOSES = [
    "confidence", "self_evaluation", "support",
    *(f"{p} claims" for p in ("composed", "reclaim", "seakr", "self_rag", "research")),
    *(f"{p} {name}" for p in ("composed", "seakr") for name in ("gate", "answer")),
]  # fmt: skip


@pytest.mark.parametrize("purpose", PURPOSES)
def test_what_is_drawn_is_what_is_printed(purpose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[Any, Any, str]] = []

    def draw(judged: Any, path: Path, *, title: str) -> Path:
        drawn.append((*judged[""], title))
        return path

    monkeypatch.setattr(plots, "reliability", draw)
    run = fitted(purpose)
    assert run.plot(tmp_path)
    ((sure, right, title),) = drawn
    printed = run.calibration.metrics["ece"]
    assert expected_calibration_error(sure, right) == pytest.approx(printed, abs=1e-9)
    assert "out of fold" in title
    assert f"ece: {printed:.3f}" in run.summary().replace(" (out of fold)", "")


def test_a_fit_without_meaning_looks_as_bad_as_it_is() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=200), rng.random(200) < 0.5
    rows = tuple(Observation(str(i), float(x), bool(y)) for i, (x, y) in enumerate(zip(scores, labels)))
    made = fit_calibration(scores, labels, bound_to={}, method="isotonic")
    run = Fitted("gate", made, Observed(rows))
    own = [made.probability(r.score) or 0.0 for r in rows]
    held = run.held_out()
    assert held is not None
    right = [float(y) for _, y in held]
    assert expected_calibration_error(own, right) < 0.02  # as it was drawn
    assert expected_calibration_error([p for p, _ in held], right) > 0.06  # as it is


def test_claims_of_a_question_are_held_out_together() -> None:
    """Six questions of ten claims each, whose figure tells the question apart and nothing else."""
    claims = [
        Observation(f"q{q}", 0.5, q in (0, 3, 4), f"{q} {i}", (0.05 + 0.15 * q, None, None, None, None, None))
        for q in range(6)
        for i in range(10)
    ]
    stack = fit_stack(
        tuple("abcdef"), [c.signals for c in claims], [bool(c.held) for c in claims], groups=[c.id for c in claims]
    )
    run = Fitted("claims", stack, Observed(tuple(claims)))
    held = run.held_out()
    assert held is not None
    of = {c.id: {round(p or 0.0, 9) for (p, _), k in zip(held, claims) if k.id == c.id} for c in claims}
    assert all(len(values) == 1 for values in of.values())  # one fit, which knew none of them
    fold = deal_folds([bool(c.held) for c in claims], [c.id for c in claims])
    assert fold is not None
    assert all(len(set(fold[10 * q : 10 * q + 10])) == 1 for q in range(6))


def test_what_cannot_be_held_out_is_not_drawn_as_if_it_were(tmp_path: Path) -> None:
    """All rows where the event held belong to one question: without it there is nothing to fit."""
    rows = tuple(Observation("one" if i < 8 else str(i), float(i), i < 8) for i in range(40))
    made = fit_calibration(range(40), [i < 8 for i in range(40)], bound_to={}, groups=[r.id for r in rows])
    run = Fitted("gate", made, Observed(rows))
    assert run.held_out() is None
    assert run.plot(tmp_path) == []
    assert not {"ece", "brier"} & set(run.calibration.metrics)


def test_rows_of_unknown_score_stay_in_their_places() -> None:
    scores = [float("nan"), *range(20), float("inf"), *range(20)]
    labels = [True, *([True] * 10 + [False] * 10), False, *([True] * 9 + [False] * 11)]
    found = held_out(scores, labels, method="platt")
    assert found is not None
    assert [p is None for p in found] == [not np.isfinite(s) for s in scores]


# --- questions that were fitted on ----------------------------------------------------------------------------------

OTHERS = [Question(f"o{i}", f"In which year was lamp {i} lit?", answers=(str(1800 + i),)) for i in range(60)]


def calibrated(tmp_path: Path, questions: Sequence[Question] = QUESTIONS) -> SelfReflectEngine:
    file = tmp_path / "c.json"
    calibration_io.save(
        file, {"claims": fit("claims", lamps("reclaim", lamp_model("text-only")), questions).calibration}
    )
    return lamps("reclaim", lamp_model("text-only"), calibration=file)


def test_a_file_remembers_its_questions_but_not_their_words(tmp_path: Path) -> None:
    calibrated(tmp_path)
    text = (tmp_path / "c.json").read_text()
    assert "When was lamp" not in text
    known = json.loads(text)["calibrations"]["claims"]["questions"]
    assert question_digest("  when was LAMP 1   lit?") in known
    assert question_digest("When was lamp 61 lit?") not in known
    assert len(known) == len(QUESTIONS)


def test_a_file_without_them_is_read_and_hashed_as_before() -> None:
    made = fit_calibration(np.arange(40.0), np.arange(40) % 3 == 0, bound_to={"k": 2})
    plain = made.to_dict()
    assert "questions" not in plain
    assert Calibration.from_dict(plain) == made
    known = fit_calibration(np.arange(40.0), np.arange(40) % 3 == 0, bound_to={"k": 2}, questions=["a", "b", "a"])
    assert Calibration.from_dict(json.loads(json.dumps(known.to_dict()))).questions == ("a", "b")


def test_an_evaluation_on_the_calibrations_own_questions_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = calibrated(tmp_path)
    with caplog.at_level(logging.WARNING, "shared_core.evaluation"):
        result = evaluate(engine, [*QUESTIONS[:10], *OTHERS[:5]])
    assert result.to_dict()["fitted_on"] == {"claims": 10}
    assert "claims: 10 of 15" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "shared_core.evaluation"):
        other = evaluate(engine, OTHERS[:5])
    assert other.to_dict()["fitted_on"] == {}
    assert not caplog.text


def test_a_comparison_says_of_whom(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    systems = {"mine": calibrated(tmp_path), "raw": lamps("reclaim", lamp_model("text-only"))}
    with caplog.at_level(logging.WARNING, "shared_core.evaluation"):
        found = compare(systems, QUESTIONS[:6], resamples=0)
    assert found.to_dict()["sessions"][0]["fitted_on"] == {"mine": {"claims": 6}, "raw": {}}
    assert "mine: Calibrations were fitted on" in caplog.text
    assert "raw" not in caplog.text


def test_a_guarantee_on_the_scores_own_questions_is_in_doubt(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = calibrated(tmp_path)
    with caplog.at_level(logging.WARNING, "shared_core.evaluation"):
        made = fit("guarantee", engine, QUESTIONS, FitOptions(guarantee="conformal_risk_control")).calibration
    assert made.reused == len(QUESTIONS)
    assert "in doubt" in caplog.text
    assert made.describe()["text"].startswith("In doubt")
    caplog.clear()
    sound = fit("guarantee", engine, OTHERS, FitOptions(guarantee="conformal_risk_control")).calibration
    assert (sound.reused, caplog.text) == (0, "")
    assert "doubt" not in sound.describe()["text"]
    calibration_io.save(tmp_path / "g.json", {"guarantee": made})
    assert calibration_io.load(tmp_path / "g.json")["guarantee"] == made


def test_answers_say_that_their_gate_was_chosen_on_the_same_questions() -> None:
    engine = lamps("seakr", lamp_model("white-box"))
    gate = fit("gate", engine, QUESTIONS).calibration
    assert "60 of these questions" in fit("answer", engine, QUESTIONS, FitOptions(gate=gate)).summary()
    assert "of these questions" not in fit("answer", engine, QUESTIONS).summary()
