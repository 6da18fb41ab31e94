"""Measure what a model's replies are worth beside the reader's quotes: purpose ``replies`` of ``fit``.

Questions with known answers are asked of the model and of the reader. How often each kind of reply goes with the
reader's being right, and how much oftener the model's own claims are right than those of models in general, is what
``ModelTrust`` starts from. For users without labelled questions the package has some: ``built_in_questions``.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shared_core.calibration.replies import REPLIES, FittedReplies, Reply, ReplyRates
from shared_core.citation.facts import compare_claim
from shared_core.errors import CalibrationInputError
from shared_core.evaluation.dataset import Question, read_questions
from shared_core.evaluation.fitting.asking import BATCH, GIVE, FitJob, Observation, Observed, require_some
from shared_core.evaluation.judging import is_right
from shared_core.evaluation.runner import digests_of
from shared_core.pipelines.confidence import in_general
from shared_core.pipelines.decision.trust import TYPES, ModelTrust
from shared_core.pipelines.evidence import quote_of
from shared_core.types import Answer

if TYPE_CHECKING:
    from shared_core.retrieval.base import Retriever

BUILT_IN_DOCUMENTS = Path(__file__).parents[1] / "office/documents"
"""Everyday documents, invented for this: a policy, a manual, minutes, recipes, tables, …"""
BUILT_IN_QUESTIONS = BUILT_IN_DOCUMENTS.with_name("questions.jsonl")
"""96 questions about them; a third of these they do not answer."""
LEAST_OF_EACH = 5
"""Fewest questions whose best quote is right, and fewest whose best quote is wrong."""
_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
_BEFORE = 4.0  # replies that the rates of types in general count as
_SHIFT = 1.0  # variance of the normal prior of the shift
_MOST = 4.0  # log odds: the shift is looked for between this and its negative


@contextmanager
def built_in_questions() -> Iterator[tuple[Retriever, list[Question]]]:
    """Open the documents that the package brings along, in memory, with the questions about them.

    >>> with built_in_questions() as (retriever, questions):
    ...     found = retriever.retrieve("Who leads the walk through the valley?", k=3)
    >>> len(questions), any("Moira Steen" in passage.text for passage in found)
    (96, True)
    """
    from shared_core.documents import DocumentIndex

    with DocumentIndex(None) as index:
        index.update(BUILT_IN_DOCUMENTS)
        yield index.retriever(), read_questions(BUILT_IN_QUESTIONS)


@dataclasses.dataclass(frozen=True, slots=True)
class Reaction:
    """One question with the reply to it.

    Attributes:
        probability: of the reader's best quote, before the model was asked.
        reply: of the model, compared with it.
        right: the quote holds a right answer.
        own_right: what the model claims does; ``None`` if it claims nothing.
        own_probability: of its best claim, for models in general; ``None`` if unknown, or if the quote refutes it.
    """

    probability: float
    reply: Reply
    right: bool
    own_right: bool | None = None
    own_probability: float | None = None


class _Unknown(ModelTrust):
    """Trust that learns nothing, so that no question's answer depends on those asked before."""

    def observe(self, probability: float, reply: Reply, question: str) -> None:
        """Learn nothing."""


def observe_replies(job: FitJob) -> Observed:
    """Observe the reader's probability and the model's reply for each question that can be judged.

    A row's ``score`` is the reader's probability, ``held`` whether its quote is right, ``text`` the reply, and
    ``signals`` are ``own_right`` (0 or 1) and ``own_probability`` of ``Reaction``.
    """
    engine = job.engine
    assert engine.resources.retriever is not None, "an engine has a retriever"
    alone = engine.over(engine.resources.retriever, calibrations={})
    # Whatever is known of the model is left out: it would decide what the model is asked.
    alone.context = dataclasses.replace(alone.context, trust=_Unknown())
    job = dataclasses.replace(job, engine=alone)
    known = [q for q in job.questions if q.judgeable]

    def dump(answer: Answer) -> dict[str, object]:
        return dataclasses.replace(answer, passages=()).to_dict()

    found = job.ask("replies", known, job.answers, dump=dump, load=Answer.from_dict, together=BATCH)
    rows = [
        _row(q, reaction)
        for q, answer in zip(known, found, strict=True)
        if isinstance(answer, Answer) and (reaction := _react(q, answer)) is not None
    ]
    return Observed(tuple(rows), digests_of(known), require_some(found))


def _react(question: Question, answer: Answer) -> Reaction | None:
    """Return how the model's reply went with the reader's quote; ``None`` if they were not compared."""
    compared = next((d for d in answer.trace if d.kind == "compare"), None)
    if compared is None:
        return None
    reply: Reply = next(name for name in REPLIES if compared.outcome == f"the model {name}")
    if compared.values.get("same_quote"):
        reply = "agrees"  # as far as that quote is concerned: see `compare`
    p, quote = float(str(compared.values["reader"])), str(compared.values["quote"])
    # The reader's own quotes are among the claims too; nobody compared these with themselves.
    own = [c for c in answer.claims if c.signals.trusted is not None]
    rated = [
        (is_right(question, c.text), in_general(c.signals))
        for c in own
        if not compare_claim(c.text, quote_of(c)).refuted
    ]
    # One fact is asked for: further claims are right or wrong with the one that gives it.
    best = max(rated, key=lambda pair: (pair[0], pair[1] or 0.0), default=(False, None))
    return Reaction(p, reply, is_right(question, quote), best[0] if own else None, best[1])


def _row(question: Question, r: Reaction) -> Observation:
    own = None if r.own_right is None else float(r.own_right)
    return Observation(question.question, r.probability, r.right, r.reply, (own, r.own_probability))


def _reaction(row: Observation) -> Reaction:
    own, probability = row.signals
    reply: Reply = next(name for name in REPLIES if row.text == name)
    return Reaction(row.score, reply, bool(row.held), None if own is None else own > 0, probability)


def fit_replies(
    rows: Sequence[Observation], *, bound_to: Mapping[str, str | int | float | bool | None], digests: Sequence[str] = ()
) -> FittedReplies:
    """Fit rates and shift to rows of ``observe_replies``.

    CalibrationInputError if nearly all of the reader's quotes are right, or wrong: a rate is then unknown.
    """
    reactions = [_reaction(row) for row in rows]
    right = sum(r.right for r in reactions)
    if min(right, len(reactions) - right) < LEAST_OF_EACH:
        raise CalibrationInputError(
            f"Of {len(reactions)} quotes by the reader {right} are right: too few of one kind to measure replies.",
            hint=f"{GIVE} At least {LEAST_OF_EACH} of the reader's best quotes must be right, and as many wrong.",
        )
    claimed = [r for r in reactions if r.own_right is not None]
    return FittedReplies(
        {name: {reply: round(p, 4) for reply, p in row.items()} for name, row in fit_rates(reactions).items()},
        shift=round(fit_shift(reactions), 3),
        n=len(reactions),
        positives=right,
        claims=len(claimed),
        claims_right=sum(bool(r.own_right) for r in claimed),
        bound_to=bound_to,
        questions=tuple(digests),
    )


def fit_rates(reactions: Sequence[Reaction]) -> ReplyRates:
    """Return the rates, their ratios raised to the power under which the replies tell most of the reader's being right.

    Replies depend on the reader's probability beyond its being right, so the ratios as counted would count twice.
    """
    counts = Counter((r.right, r.reply) for r in reactions)
    counted = {right: _smoothed(right, counts) for right in (True, False)}

    def tempered(share: float) -> dict[bool, dict[str, float]]:
        out: dict[bool, dict[str, float]] = {}
        for right, sign in ((True, 1), (False, -1)):
            row: dict[str, float] = {
                n: math.sqrt(counted[True][n] * counted[False][n])
                * (counted[True][n] / counted[False][n]) ** (sign * share / 2)
                for n in REPLIES
            }
            out[right] = {n: value / sum(row.values()) for n, value in row.items()}
        return out

    def loss(rates: Mapping[bool, Mapping[str, float]]) -> float:
        total = 0.0
        for r in reactions:
            p = min(max(r.probability, 0.01), 0.99)
            if_right, if_wrong = p * rates[True][r.reply], (1 - p) * rates[False][r.reply]
            total -= math.log((if_right if r.right else if_wrong) / (if_right + if_wrong))
        return total

    best = tempered(min(_SHARES, key=lambda share: loss(tempered(share))))
    apart = [r for r in reactions if r.reply in ("differs", "contradicts")]
    own = (sum(bool(r.own_right) for r in apart) + 0.5) / (len(apart) + 1)
    return {"right": best[True], "wrong": best[False], "own": {"differs": own, "contradicts": own}}


def _smoothed(right: bool, counts: Mapping[tuple[bool, Reply], int]) -> dict[Reply, float]:
    """Return the share of each reply, after ``_BEFORE`` more as the types of models give them, by their priors."""
    priors = np.array([prior for prior, _, _ in TYPES.values()])
    rates = np.array([if_right if right else if_wrong for _, if_right, if_wrong in TYPES.values()])
    before = priors @ rates / priors.sum()  # (types,) @ (types, replies) → (replies,)
    total = sum(counts[right, name] for name in REPLIES) + _BEFORE
    return {name: float(counts[right, name] + _BEFORE * before[at]) / total for at, name in enumerate(REPLIES)}


def fit_shift(reactions: Sequence[Reaction]) -> float:
    """Return the log odds by which this model's claims are right oftener than those of models in general.

    The most probable shift, given a normal prior around 0, of a logistic regression whose offset is what the shipped
    stack says: the correction of a classifier for another base rate (Saerens et al. 2002, eq. 2.4).
    """
    offsets = [
        (math.log(p) - math.log1p(-p), bool(r.own_right))
        for r in reactions
        if (p := r.own_probability) is not None and 0 < p < 1
    ]

    def slope(shift: float) -> float:
        errors = (right - 1 / (1 + math.exp(-(offset + shift))) for offset, right in offsets)
        return math.fsum(errors) - shift / _SHIFT

    low, high = -_MOST, _MOST
    for _ in range(40):  # the slope falls with the shift
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return (low + high) / 2
