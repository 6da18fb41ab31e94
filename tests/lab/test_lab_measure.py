"""All parts of ``benchmarks/lab.py`` run on the shipped model and a handful of questions, and give sane figures.

Whether the figures are good is for the benchmark to show: nothing here depends on the model's exact weights.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.lab.measure import estimating, tuning, writing
from benchmarks.lab.measure.estimating import JUDGED, cost, estimators, gram_by_state
from benchmarks.lab.measure.pipelines import Fitted, ask, outcome
from benchmarks.lab.measure.plots import draw
from benchmarks.lab.measure.quoting import reclaim
from benchmarks.lab.measure.seakr import gate, rerank
from benchmarks.lab.measure.setting import Counts, Figures, Lab, shown
from benchmarks.lab.measure.verdicts import attack, self_rag, verdicts
from benchmarks.lab.measure.writing import check, iterative_and_wide
from shared_core.lab.setup import lab_settings, measure_answers
from shared_core.settings import ResearchSettings
from shared_core.uncertainty import ESTIMATORS

TINY = Counts(
    fit=20, estimators=4, gate=4, rerank=2, verdicts=8, quotes=2, compare=4, unanswerable=5, attack=2, check=3,
    biographies=1, judged=2, cost=1, confidence=4, tuned=6,
)  # fmt: skip
SHARES = ("auroc_", "accuracy_", "lowered_", "answered_", "retrievals_", "rerank_hit", "verbatim", "cas", "verdict_")


def sane(figures: Figures) -> None:
    """Shares lie in [0, 1] or are NaN, nothing is infinite, and not all is unknown."""
    assert figures
    for name, value in figures.items():
        assert not math.isinf(value) or name == "gate_threshold", name
        if name.startswith(SHARES) and not math.isnan(value):
            low = -1 if name == "accuracy_lost_by_gate" else 0
            assert low <= value <= 1, name
    assert any(not math.isnan(value) for value in figures.values())


@pytest.mark.train
def test_every_estimator_is_measured_and_what_asks_for_meanings_twice(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(estimating, "JUDGED_SAMPLES", 3)  # the critic takes its time
    figures, closed, opened = estimators(lab, TINY)
    sane(figures)
    prefixes = ("auroc_", "auroc_answer_", "auroc_multihop_", "lowered_by_irrelevant_")
    for name in ESTIMATORS:
        assert {prefix + name for prefix in prefixes} <= figures.keys()
        if name in JUDGED and name != "ccp":
            assert {f"{prefix}{name}_by_embedder" for prefix in prefixes} <= figures.keys()
    assert [m.question.known for m in closed.rows] == [True] * 2 + [False] * 2
    assert [m.question.known for m in closed.judged] == [True, False]
    assert [m.question.kind for m in opened.rows] == ["single", "yes_no"] * 2
    assert [m.question.kind for m in opened.judged] == ["single", "yes_no"]
    known = [name for row in (*closed.rows, *closed.judged) for name, v in row.values.items() if math.isfinite(v)]
    unclear = {"verbalised", "sufficiency", "ccp"}  # a reply may be, and what a critic says of single words
    assert set(ESTIMATORS) - unclear <= set(known)
    if len({m.right for m in opened.rows}) == 2:  # else there is no curve to draw
        assert all(path.is_file() for path in draw(figures, opened, tmp_path))


def test_what_every_estimator_costs_is_measured(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    some = {n: ESTIMATORS[n] for n in ("perplexity", "gram", "p_true", "rauq", "ccp", "cocoa_ppl")}
    monkeypatch.setattr(estimating, "ESTIMATORS", some)
    monkeypatch.setattr(estimating, "JUDGED_SAMPLES", 3)
    figures = cost(lab, TINY)
    assert set(figures) == {f"{what}_{name}" for what in ("seconds", "tokens", "pairs") for name in some}
    assert all(value >= 0 and math.isfinite(value) for value in figures.values())
    assert figures["tokens_perplexity"] == figures["pairs_perplexity"] == figures["pairs_gram"] == 0
    assert figures["tokens_gram"] > figures["tokens_p_true"] > 0  # twenty samples, one short prompt
    assert figures["pairs_cocoa_ppl"] <= 4 * 3  # of the answer and three samples
    assert figures["tokens_ccp"] == 0


def test_a_question_of_its_own_for_each_prompt(lab: Lab) -> None:
    questions = lab.questions(("single",), 3, "test", name="test")
    together = measure_answers(lab, questions)
    assert [m.question for m in together] == questions
    alone = measure_answers(lab, questions[:1])
    assert alone[0].text == together[0].text
    assert alone[0].values["gram"] == pytest.approx(together[0].values["gram"], abs=1e-2)


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        (gram_by_state, {"auroc_gram_mlp_eos_3", "auroc_gram_residual_last_5"}),
        (verdicts, {"verdict_accuracy"}), (attack, {"spoof_success_safe", "spoof_success_unsafe"}),
        *[pytest.param(*more, marks=pytest.mark.train) for more in (
            (gate, {"retrievals_skipped_known", "accuracy_lost_by_gate", "gate_threshold"}),
            (rerank, {"rerank_hit", "rerank_hit_perplexity", "rerank_hit_critic", "rerank_hit_reader"}),
            (self_rag, set()), (reclaim, {"verbatim_share", "cas", "cas_unconstrained"}),
            (iterative_and_wide, {"utility_iterative", "utility_wide"}), (check, set()),
        )],
    ],
)  # fmt: skip
def test_every_other_part_runs(lab: Lab, monkeypatch: pytest.MonkeyPatch, measure: object, expected: set[str]) -> None:
    # The published prompts are long, and each of 24 candidates is written to its end.
    monkeypatch.setattr(writing, "ResearchSettings", lambda **o: ResearchSettings(**{**o, "max_tokens": 24}))
    assert callable(measure)
    figures = measure(lab, TINY)
    assert expected <= figures.keys()
    sane(figures)


@pytest.mark.train
def test_a_model_is_trained_on_its_own_searches(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("trl")
    monkeypatch.setattr(tuning, "SFT", {**tuning.SFT, "max_steps": 2, "batch_size": 2})
    monkeypatch.setattr(tuning, "DPO", {**tuning.DPO, "max_steps": 2, "batch_size": 2})
    monkeypatch.setattr(tuning, "fit", lambda lab, pipeline, counts: Fitted(lab_settings(pipeline), {}))
    figures = tuning.tuned(lab, TINY)
    assert {"utility_base", "utility_sft", "rows_abstaining", "searches_failed"} <= figures.keys()
    assert figures["searches_failed"] == 0
    sane(figures)


@pytest.mark.train
def test_a_pipeline_s_answers_are_counted(lab: Lab) -> None:
    questions = lab.mixture(TINY.compare, "test")
    answers = ask(lab, Fitted(lab_settings("composed"), {}), questions)
    figures = outcome("composed", [shown(a) for a in answers], questions)
    assert -1 <= figures["utility_composed"] <= 1


def test_the_script_writes_its_figures(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("langchain_core")
    pytest.importorskip("llama_index.core")
    script = importlib.import_module("benchmarks.lab.__main__")
    monkeypatch.setattr(script, "load_lab_model", lambda folder=None: lab.lm)
    monkeypatch.setattr(script, "World", lambda seed: lab.world)
    monkeypatch.setattr(Counts, "quick", classmethod(lambda cls: TINY))
    file = tmp_path / "figures.json"
    monkeypatch.setattr(sys, "argv", ["lab.py", "--quick", "--only", "attack", "--json", str(file)])
    script.main()
    figures = json.loads(file.read_text(encoding="utf-8"))
    assert 0 <= figures["spoof_success_safe"] <= 1


@pytest.mark.parametrize("command", [["benchmarks/lab.py"], ["-m", "benchmarks.lab"]])
def test_the_script_runs_from_the_project_s_root(command: list[str]) -> None:
    root = Path(__file__).parents[2]
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run([sys.executable, *command, "--help"], cwd=root, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--only" in done.stdout
