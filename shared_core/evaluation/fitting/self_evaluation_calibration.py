"""Calibrating what a model says of its own claims (ReSearch, closed book), on questions whose claims can be judged."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shared_core.errors import CalibrationError, InputError
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.fitting.asking import Progress, ask_each, digest_of
from shared_core.evaluation.fitting.claim_labels import ClaimLabels, Label, can_be_judged
from shared_core.evaluation.fitting.gauge_calibration import (
    FittedPurpose,
    Observation,
    fit_observations,
    raise_if_all,
    run_of,
)
from shared_core.evaluation.fitting.seen import digests_of
from shared_core.pipelines.research.evaluate import SELF_EVALUATION, evaluation_binding
from shared_core.pipelines.research.loop import searched
from shared_core.pipelines.research.search import Search
from shared_core.runtime import flow as flows
from shared_core.support.run_log import RunLog
from shared_core.types import Claim

if TYPE_CHECKING:
    from shared_core.facades.engine import SelfReflectEngine

TOGETHER = 8
"""Questions searched at once."""


@dataclasses.dataclass(frozen=True)
class FittedSelfEvaluation(FittedPurpose):
    """The calibration, and the claims whose probability could not be read."""

    missing: int = 0
    failed: int = 0

    def summary(self) -> str:
        """What was fitted and how good it is, in a line each."""
        lines = [super().summary()]
        if self.missing:
            lines.append(f"  {self.missing} of {len(self.rows)} claims: no probability could be read from the replies")
        return "\n".join([*lines, *([f"  {self.failed} questions failed"] if self.failed else [])])


def calibrate_self_evaluation(
    engine: SelfReflectEngine,
    questions: Sequence[Question],
    *,
    method: str = "auto",
    label: Label | None = None,
    progress: Progress | None = None,
    kept: RunLog | None = None,
) -> FittedSelfEvaluation:
    """Search every question once, judge every claim of every candidate, and fit P(right) to what the model said of it.

    A claim without a probability is left out and counted. All that candidates claim counts, not what would be chosen:
    the search chooses by these probabilities. Claims of one question are not independent: for the figures out of fold
    they are held out together.

    Args:
        engine: of the pipeline ``research``, closed book, verbalised or by logits.
        questions: with labelled claims, answers, or known as unanswerable; others are left out.
        method: ``isotonic``, ``platt``, or ``auto`` (isotonic from 200 claims on).
        label: whether a claim is right; by default the questions' labels, else whether it holds an accepted answer.
        progress: told after every batch.
        kept: what was searched before is taken from there, and what is found now is put there; claims are judged anew.

    Raises:
        InputError: another pipeline, or not closed book; labels that cannot be read.
        CalibrationError: no question can be judged, no probability could be read, too few claims, or all right, or all
            wrong.
        CapabilityError: the model cannot serve the evaluation.
    """
    settings = engine.settings
    if settings.pipeline != "research" or not settings.research.closed_book:
        raise InputError(
            "Self-evaluation is what closed-book ReSearch judges claims by.",
            hint="--pipeline research --set research.closed_book=true",
        )
    judge = label if label is not None else ClaimLabels(questions)
    known = [q for q in questions if can_be_judged(q)]
    rows: list[Observation] = []
    failed, last = 0, ""
    found = ask_each(
        known, lambda batch: _search(engine, batch), kept=kept or RunLog(),
        part=f"self evaluation {digest_of(engine)}", dump=_dump, load=_load, together=TOGETHER, progress=progress,
    )  # fmt: skip
    for question, claims in zip(known, found):
        if isinstance(claims, Exception):
            failed, last = failed + 1, str(claims)
            continue
        rows += [_observe(question, claim, judge) for claim in claims]
    if not rows:
        raise CalibrationError(
            f"Every question failed; the last one: {last}"
            if failed
            else "No question can be judged, or no claim made.",
            hint='Give rows with "answers", "answerable": false, or labelled "claims".',
        )
    missing = sum(not math.isfinite(row.score) for row in rows)
    if missing == len(rows):
        raise CalibrationError(
            f"No probability could be read from the model's replies about {missing} claims.",
            hint="Use research.published.evaluation=logits, or a model that states whole numbers from 0 to 100.",
        )
    bound = evaluation_binding(settings, engine.context)
    seen = digests_of(known)
    fitted = fit_observations(rows, bound, method, event="the claim is right", increasing=True, questions=seen)
    return FittedSelfEvaluation(SELF_EVALUATION, fitted, tuple(rows), missing=missing, failed=failed)


def _search(engine: SelfReflectEngine, batch: Sequence[Question]) -> list[list[Claim] | Exception]:
    """All that candidates claim about each question."""
    waiting = [searched(q.question, run_of(engine)) for q in batch]
    found: list[list[Claim] | Exception] = []
    for state in flows.run_many(waiting, engine.resources, deadline=engine.settings.deadline):
        if not isinstance(state, Search):
            raise_if_all(state)
        found.append(list(state.claims.values()) if isinstance(state, Search) else state)
    return found


def _dump(claims: list[Claim]) -> list[dict[str, Any]]:
    return [{"text": c.text, "support": c.support} for c in claims]


def _load(rows: list[dict[str, Any]]) -> list[Claim]:
    return [Claim(**row) for row in rows]


def _observe(question: Question, claim: Claim, label: Label) -> Observation:
    score = math.nan if claim.support is None else claim.support
    return Observation(question.id, score, label(question, claim), claim.text)
