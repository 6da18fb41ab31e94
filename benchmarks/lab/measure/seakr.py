"""SeaKR on the closed world: its retrieval gate, and its re-ranking by uncertainty."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from benchmarks.lab.measure.setting import Counts, Figures, Lab, as_asked, mean
from shared_core.calibration import Calibration
from shared_core.evaluation.fitting import fit
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lab.questions import Question
from shared_core.lab.setup import measure_answers
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.rerank import Ranked, rerank_by_rating, rerank_by_reading, rerank_by_uncertainty
from shared_core.runtime.flow import Flow, run
from shared_core.settings import SeakrSettings, SelfReflectSettings
from shared_core.types import Passage


def gate(lab: Lab, counts: Counts) -> Figures:
    """Measure the gate, calibrated on the tuning split: retrievals skipped on known facts, and accuracy lost."""
    engine = lab.engine(SelfReflectSettings())
    fitted = fit("gate", engine, as_asked(lab.singles(counts.fit, "tune"))).calibration
    assert isinstance(fitted, Calibration)
    threshold = fitted.threshold if fitted.threshold is not None else -math.inf
    questions = lab.singles(counts.gate, "test", "gate")
    known = sum(q.known for q in questions)  # these come first
    own = measure_answers(lab, questions)
    read = measure_answers(lab, questions, [lab.retriever.retrieve(q.text, 3) for q in questions])
    skipped = [m.values["gram"] <= threshold and bool(m.text) for m in own]
    always = [m.right for m in read]
    gated = [a.right if s else b.right for a, b, s in zip(own, read, skipped)]
    return {
        "gate_threshold": threshold,
        "retrievals_skipped_known": mean(skipped[:known]),
        "retrievals_skipped_unknown": mean(skipped[known:]),
        "accuracy_always": mean(always),
        "accuracy_gated": mean(gated),
        "accuracy_lost_by_gate": mean(always) - mean(gated),
    }


def rerank(lab: Lab, counts: Counts) -> Figures:
    """Measure how often each re-ranking puts first a passage that BM25 has among its first five, but not first.

    If another of the five states the fact differently (it is outdated or contradicts), a model answers from it as
    surely as from the right one, and no ranking can decide which is true. These cases are counted apart
    (``rerank_hit_disputed``).
    """
    engine = lab.engine(SelfReflectSettings())
    clear: list[_Case] = []
    disputed: list[_Case] = []
    for question in lab.questions(("single",), 20 * counts.rerank, "test", known=False, name="rerank"):
        found, gold = lab.retriever.retrieve(question.text, 5), set(question.passages[0])
        if not found or found[0].id in gold or not any(p.id in gold for p in found[1:]):
            continue
        stating = {s.passage for s in lab.world.statements(question.facts[0])}
        case = (question, found)
        (disputed if any(p.id in stating - gold for p in found) else clear).append(case)
        if len(clear) == counts.rerank:
            break
    by_words = lab.engine(SelfReflectSettings(seakr=SeakrSettings(estimator="perplexity")))
    figures: Figures = {
        "rerank_questions": float(len(clear)),
        "rerank_hit": _first_hits(rerank_by_uncertainty, engine, clear),
        "rerank_hit_perplexity": _first_hits(rerank_by_uncertainty, by_words, clear),
        "rerank_hit_critic": _first_hits(rerank_by_rating, engine, clear),
        "rerank_hit_reader": _first_hits(rerank_by_reading, engine, clear),
        "rerank_questions_disputed": float(len(disputed)),
        "rerank_hit_disputed": _first_hits(rerank_by_uncertainty, engine, disputed),
    }
    return figures


_Case = tuple[Question, list[Passage]]


def _first_hits(way: Callable[..., Flow[list[Ranked]]], engine: SelfReflectEngine, cases: Sequence[_Case]) -> float:
    """Return the share of cases in which a passage that answers is ranked first."""
    hits = []
    for question, found in cases:
        ranked = run(way(question.text, found, QuestionRun(engine.settings, engine.context)), engine.resources)
        hits.append(ranked[0].passage.id in set(question.passages[0]))
    return mean(hits)
