"""Fitting a guarantee to an engine's answers, on questions with known answers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shared_core.calibration import FittedGuarantee, fit_guarantee
from shared_core.errors import AbstainedError, CalibrationError, InputError
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.fitting.asking import Progress, ask_each, digest_of
from shared_core.evaluation.fitting.claim_labels import ClaimLabels, Label, can_be_judged
from shared_core.evaluation.fitting.seen import digests_of
from shared_core.pipelines.decision.guarantees import signals_of
from shared_core.settings import GuaranteeName
from shared_core.support.run_log import RunLog
from shared_core.types import Answer

if TYPE_CHECKING:
    from shared_core.facades.engine import SelfReflectEngine

_LOG = logging.getLogger(__name__)
TOGETHER = 8
"""Questions asked at once."""


@dataclass(frozen=True)
class FittedAnswers:
    """A guarantee and how it was come by; ``failed``: questions without an answer to judge."""

    calibration: FittedGuarantee
    failed: int = 0

    def summary(self) -> str:
        """What was fitted and what it is worth, in a line each."""
        c = self.calibration
        lines = [
            f"guarantee: {c.kind} on {c.n} answers ({c.needed_n} needed), {c.claims} claims, {c.right} of them right",
            f"  keeps the claims that score above {c.bar:.4g}: {c.kept} of {c.claims} ({c.kept_share:.0%})",
            f"  {c.describe()['text']}",
        ]
        return "\n".join([*lines, *([f"  {self.failed} questions failed"] if self.failed else [])])


def calibrate_guarantee(
    engine: SelfReflectEngine,
    questions: Sequence[Question],
    kind: GuaranteeName,
    *,
    label: Label | None = None,
    progress: Progress | None = None,
    kept: RunLog | None = None,
) -> FittedAnswers:
    """Answer every question once, judge every claim, and fit the threshold at which the promise holds.

    The scores must be fixed before: whatever else is calibrated, calibrate it on other questions, and give the engine
    those calibrations. Questions that they were fitted on draw a warning, and the guarantee says that it is in
    doubt. Ask questions of the kind that will be asked, those that the documents do not answer included.

    Args:
        engine: in the configuration that the guarantee is for (target accuracy and ``guarantee_alpha`` too), without
            one applied.
        questions: with answers, known as unanswerable, or with labelled claims; others are left out.
        kind: of the guarantee.
        label: whether a claim is right; by default the questions' labels, else whether it holds an accepted answer.
        progress: told after every batch.
        kept: what was asked before is taken from there, and what is asked now is put there; claims are judged anew.

    Raises:
        InputError: the engine applies a guarantee.
        CalibrationError: fewer judged answers than the promise needs, or every question failed.
        MissingDependencyError: learn then test without MAPIE.
    """
    settings = engine.settings
    if settings.guarantee is not None:
        raise InputError("This engine applies a guarantee already.", hint="Calibrate with guarantee=None.")
    judge = label if label is not None else ClaimLabels(questions)
    known = [q for q in questions if can_be_judged(q)]
    before = {digest for c in engine.context.every_calibration.values() for digest in c.questions}
    again = before.intersection(digests_of(known))
    if again:
        _LOG.warning(
            "Calibrations of this engine were fitted on %d of these %d questions: the guarantee is in doubt.",
            len(again),
            len(known),
        )
    scores: list[list[float | None]] = []
    labels: list[list[bool]] = []
    seen: list[dict[str, float]] = []
    failed, last = 0, ""
    found = ask_each(
        known, lambda batch: _ask(engine, batch), kept=kept or RunLog(), part=f"guarantee {digest_of(engine)}",
        dump=_dump, load=Answer.from_dict, together=TOGETHER, progress=progress,
    )  # fmt: skip
    for question, answer in zip(known, found):
        if isinstance(answer, Exception):
            failed, last = failed + 1, str(answer)
            continue
        judged = [(s, judge(question, c)) for s, c in zip(answer.metadata["claim_scores"], answer.claims)]
        scores.append([s for s, right in judged if right is not None])
        labels.append([right for _, right in judged if right is not None])
        supports = [c.support for c in answer.claims]
        seen.append(signals_of(question.question, supports, answer.metadata["answerable"]))
    if not scores:
        raise CalibrationError(
            f"Every question failed; the last one: {last}" if failed else "No question can be judged.",
            hint='Give rows with "answers", "answerable": false, or labelled "claims".',
        )
    fitted = fit_guarantee(
        kind,
        scores,
        labels,
        target_accuracy=settings.target_accuracy,
        alpha=settings.guarantee_alpha,
        signals={name: [one[name] for one in seen] for name in seen[0]},
        bound_to=engine.guarantee_binding(kind),
        questions=digests_of(known),
        reused=len(again),
    )
    return FittedAnswers(fitted, failed)


def _ask(engine: SelfReflectEngine, batch: Sequence[Question]) -> list[Answer | Exception]:
    """The answers; one that an engine raises as an abstention is what it carries."""
    found = engine.answer_many([q.question for q in batch])
    return [r.answer if isinstance(r, AbstainedError) else r for r in found]


def _dump(answer: Answer) -> dict[str, Any]:
    return replace(answer, passages=(), trace=()).to_dict()
