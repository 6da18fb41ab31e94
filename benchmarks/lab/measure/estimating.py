"""Separation of known from unknown facts and of right from wrong answers by each estimator, and its cost."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.lab.measure.setting import Counts, Figures, Lab, mean
from shared_core.evaluation.metrics.confidence import auroc
from shared_core.lab.questions import Question
from shared_core.lab.setup import TOKENS, MeasuredAnswer, measure_answers, short_prompt
from shared_core.pipelines.gating.choose import choose_estimator
from shared_core.pipelines.gating.measure import Measurement, measure
from shared_core.pipelines.gating.prompts import ANSWER_STOPS
from shared_core.runtime.budget import Meter
from shared_core.runtime.flow import Flow, Judge, Request, intercept, leaves_of, run
from shared_core.settings import SeakrSettings, SelfReflectSettings
from shared_core.types import Passage
from shared_core.uncertainty import ESTIMATORS

_MEANT = {"entailment", "agreement", "answer_similarity", "answer_agreement", "inference"}
JUDGED = tuple(n for n, e in ESTIMATORS.items() if e.needs & _MEANT)
"""Estimators that compare meanings: measured with the shipped critic, and with an embedder if possible."""

JUDGED_SAMPLES = 8
"""Samples of a question if the critic compares all pairs: 56 pairs at most, where 20 samples have 380."""

_BY_EMBEDDER = "_by_embedder"


@dataclass(frozen=True, slots=True)
class Answered:
    """Answers to the questions of one kind, with their uncertainty.

    Attributes:
        rows: all questions, by the estimators that need no judge and, with an embedder, by the others
            (``…_by_embedder``).
        judged: the first questions, by the estimators that the critic judges for.
    """

    rows: list[MeasuredAnswer]
    judged: list[MeasuredAnswer] = field(default_factory=list)

    def auroc(self, labels: Sequence[bool], labels_judged: Sequence[bool]) -> dict[str, float]:
        """Return by estimator the AUROC of low uncertainty for the labels; NaN if they are all alike."""
        found = {name: _auroc(self.rows, name, labels) for name in _names(self.rows)}
        return found | {name: _auroc(self.judged, name, labels_judged) for name in _names(self.judged)}


def estimators(lab: Lab, counts: Counts) -> tuple[Figures, Answered, Answered]:
    """Compute the AUROC of every estimator.

    Facts that the model was trained on against others, answered from memory; right against wrong answers from passages,
    to questions of one fact (and yes/no questions) and, step by step, of two. Also the share of questions about unknown
    facts whose uncertainty falls beside an irrelevant passage though the model still answers.

    Returns:
        Figures, answers from memory, answers from passages.
    """
    half, some = counts.estimators // 2, counts.judged // 2
    known = lab.questions(("single",), half, "test", known=True)
    strange = lab.questions(("single",), half, "test", known=False)
    first, second = _answered(lab, known, None, some), _answered(lab, strange, None, some)
    closed = Answered(first.rows + second.rows, first.judged + second.judged)
    kinds = [lab.questions((kind,), half, "test", known=False, name="read") for kind in ("single", "yes_no")]
    single = [question for pair in zip(*kinds) for question in pair]  # by turns: the critic judges the first ones
    opened = _answered(lab, single, [lab.retriever.retrieve(q.text, 3) for q in single], counts.judged)
    double = lab.questions(("two_hop",), half, "test", name="read")
    hops = _answered(lab, double, [_with_both_hops(lab, q) for q in double], some, stepwise=True)
    trained = closed.auroc(*([m.question.known for m in rows] for rows in (closed.rows, closed.judged)))
    figures = {f"auroc_{name}": value for name, value in trained.items()}
    for prefix, rows in (("auroc_answer_", opened), ("auroc_multihop_", hops)):
        right = rows.auroc(*([m.right for m in part] for part in (rows.rows, rows.judged)))
        figures |= {f"{prefix}{name}": value for name, value in right.items()}
    figures["accuracy_known_closed_book"] = mean(m.right for m in first.rows)
    figures["accuracy_unknown_closed_book"] = mean(m.right for m in second.rows)
    figures["accuracy_three_passages"] = mean(m.right for m in opened.rows)
    figures["accuracy_multihop"] = mean(m.right for m in hops.rows)
    figures["questions_judged"] = float(len(closed.judged))
    return figures | _beside_the_point(lab, second), closed, opened


def _answered(
    lab: Lab,
    questions: Sequence[Question],
    passages: Sequence[Sequence[Passage]] | None,
    judged: int,
    *,
    stepwise: bool = False,
) -> Answered:
    names = [n for n, e in ESTIMATORS.items() if "inference" not in e.needs]
    plain = measure_answers(lab, questions, passages, names, stepwise=stepwise)
    rows = [MeasuredAnswer(m.question, m.text, {_renamed(n): v for n, v in m.values.items()}) for m in plain]
    read = passages[:judged] if passages is not None else None
    # One estimator is set, the others are computed from the same samples and the same comparisons.
    by_critic = _judged_by_critic(JUDGED[0])
    return Answered(rows, measure_answers(lab, questions[:judged], read, JUDGED[1:], by_critic, stepwise=stepwise))


def _judged_by_critic(name: str) -> SeakrSettings:
    return SeakrSettings(estimator=name, samples=JUDGED_SAMPLES, meanings="critic", allow_fallback=False)


def _renamed(name: str) -> str:
    """Name the figures of estimators whose meanings the embedder compared, the default without a judge."""
    return name + _BY_EMBEDDER if name in JUDGED else name


def _with_both_hops(lab: Lab, question: Question) -> list[Passage]:
    """Return a passage for each fact, as a search hop by hop finds them, and the best ones for the question itself."""
    gold = lab.gold(question)
    known = {p.id for p in gold}
    return [*gold, *(p for p in lab.retriever.retrieve(question.text, 3) if p.id not in known)][:3]


def _names(rows: Sequence[MeasuredAnswer]) -> Iterable[str]:
    return rows[0].values if rows else ()


def _auroc(rows: Sequence[MeasuredAnswer], name: str, labels: Sequence[bool]) -> float:
    """Return the AUROC of low uncertainty; NaN if the labels are all alike."""
    if len(set(labels)) < 2:
        return math.nan
    return auroc(-np.array([m.values[name] for m in rows]), np.array(labels, dtype=float))


def gram_by_state(lab: Lab, counts: Counts) -> Figures:
    """Compute ``auroc_gram_KIND_POSITION_LAYER``: known against unknown facts by Gram on different hidden states.

    The middle layer was chosen for large models; a small one may hold its answers elsewhere.
    """
    questions = lab.singles(counts.estimators // 2, "tune")
    figures: Figures = {}
    for kind, position in (("mlp", "eos"), ("mlp", "last"), ("residual", "last")):
        for layer in (2, 3, 5):
            options = SeakrSettings(published={"layer": layer, "hidden": kind, "position": position})
            rows = measure_answers(lab, questions, options=options)
            figures[f"auroc_gram_{kind}_{position}_{layer}"] = _auroc(rows, "gram", [m.question.known for m in rows])
    return figures


def _beside_the_point(lab: Lab, strange: Answered) -> Figures:
    """Compare uncertainty beside an irrelevant passage with that from memory."""
    some, judged = strange.rows[: max(20, len(strange.rows) // 2)], (len(strange.judged) + 1) // 2
    others = [lab.gold(m.question) for m in [*some[1:], *some[:1]]]
    with_one = _answered(lab, [m.question for m in some], others, judged)
    # Where the model declines beside the passage, there is no answer whose uncertainty could mislead.
    pairs = [(a, b) for a, b in zip(some, with_one.rows) if b.text]
    beside = [(a, b) for a, b in zip(strange.judged, with_one.judged) if b.text]
    lowered = {n: mean(b.values[n] < a.values[n] for a, b in pairs) for n in _names(with_one.rows)}
    lowered |= {n: mean(b.values[n] < a.values[n] for a, b in beside) for n in _names(with_one.judged)}
    return {
        "answered_beside_the_point": len(pairs) / len(some) if some else math.nan,
        **{f"lowered_by_irrelevant_{n}": share for n, share in lowered.items()},
    }


# --- cost ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Cost:
    """Cost of measuring.

    Attributes:
        seconds: wall-clock seconds.
        tokens: tokens that the model read and wrote.
        pairs: pairs of texts that the critic compared.
    """

    seconds: float = 0.0
    tokens: int = 0
    pairs: int = 0


def cost(lab: Lab, counts: Counts) -> Figures:
    """Measure the cost of each estimator for one question, beyond the greedy answer.

    ``seconds_ESTIMATOR``, ``tokens_ESTIMATOR`` that the model reads and writes, ``pairs_ESTIMATOR`` that the critic
    compares; with 20 samples, or ``JUDGED_SAMPLES`` if the critic compares them. Tokens in the prefix cache do not
    count. The questions are about facts the model does not know: their samples differ most and take longest to compare.
    """
    questions = lab.questions(("single",), counts.cost, "test", known=False, name="cost")
    figures: Figures = {}
    for first in (None, JUDGED[0]):  # warm up: one-time costs, loading above all, do not count
        _spent(lab, questions[:1], first)
    plain = _spent(lab, questions, None)
    for name in ESTIMATORS:
        taken = _spent(lab, questions, name)
        share = max(len(questions), 1)
        figures[f"seconds_{name}"] = max(taken.seconds - plain.seconds, 0.0) / share
        figures[f"tokens_{name}"] = max(taken.tokens - plain.tokens, 0) / share
        figures[f"pairs_{name}"] = taken.pairs / share
    return figures


def _spent(lab: Lab, questions: Sequence[Question], name: str | None) -> _Cost:
    """Measure the cost of an estimator with the greedy answers, or without a name of the answers alone."""
    options = _judged_by_critic(name) if name in JUDGED and name is not None else SeakrSettings(allow_fallback=False)
    settings = SelfReflectSettings(seakr=options.replace(estimator=name or options.estimator))
    engine = lab.engine(settings)
    chosen = choose_estimator(engine.settings, engine.context)
    found = _Cost()
    for question in questions:
        meter = Meter(settings)
        flow = measure([short_prompt(question)], chosen, stop=ANSWER_STOPS, max_tokens=TOKENS, draft_only=name is None)
        start = time.perf_counter()
        run(_counted(meter.watch(flow), found), engine.resources)
        found.seconds += time.perf_counter() - start
        usage = meter.usage
        found.tokens += usage.prompt_tokens - usage.cached_tokens + usage.generated_tokens
    return found


def _counted(flow: Flow[list[Measurement]], spent: _Cost) -> Flow[list[Measurement]]:
    """Count the pairs of texts that a flow compares."""

    def count(request: Request) -> Request:
        spent.pairs += sum(len(leaf.pairs) for leaf in leaves_of(request) if isinstance(leaf, Judge))
        return request

    return intercept(flow, count)
