"""Calibrating what the witnesses say of a model's claims, on questions with known answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared_core.calibration.stack import Stack, fit_stack, held_out_of_stack
from shared_core.errors import CalibrationError, InputError
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.fitting.asking import Progress, ask_each, digest_of
from shared_core.evaluation.fitting.calibration import HeldOut, draw_held_out
from shared_core.evaluation.fitting.enough import require_enough
from shared_core.evaluation.fitting.seen import digests_of
from shared_core.evaluation.judging import holds_answer
from shared_core.pipelines.confidence import SIGNALS
from shared_core.support.run_log import RunLog
from shared_core.types import Answer, Claim

if TYPE_CHECKING:
    from shared_core.facades.engine import SelfReflectEngine

TOGETHER = 8
"""Questions asked at once."""


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """A claim of the engine's and whether it is a right answer; ``said`` in the order of ``SIGNALS``."""

    question: str
    text: str
    said: tuple[float | None, ...]
    right: bool


@dataclass(frozen=True)
class FittedClaims:
    """A stack of witnesses and the claims it was fitted on."""

    calibration: Stack
    rows: tuple[JudgedClaim, ...]
    failed: int = 0

    def summary(self) -> str:
        """What was fitted and how good it is, in a line each."""
        c = self.calibration
        lines = [f"claims: a stack of witnesses on {c.n} claims, {c.positives} of them right answers"]
        lines += [f"  {self.failed} questions failed"] if self.failed else []
        lines += [f"  {name} (out of fold): {c.metrics[name]:.3f}" for name in sorted(c.metrics)]
        for i, name in enumerate(c.names):
            heard = sum(row.said[i] is not None for row in self.rows)
            lines.append(f"  {name}: heard for {heard} claims, weight {c.weights[i]:.2f}")
        return "\n".join(lines)

    def plot(self, folder: str | Path) -> list[Path]:
        """Reliability and risk–coverage of the claims, each held out of the stack that rates it."""
        return draw_held_out(self.held_out(), Path(folder), "claims")

    def held_out(self) -> HeldOut | None:
        """(probability, whether it is right) of each claim by a stack fitted without the claims of its question.

        The probability is ``None`` where no witness said anything; ``None`` for all where none can be held out.
        """
        found = held_out_of_stack(
            [r.said for r in self.rows], [r.right for r in self.rows], groups=[r.question for r in self.rows]
        )
        return None if found is None else [(p, r.right) for p, r in zip(found, self.rows, strict=True)]


def calibrate_claims(
    engine: SelfReflectEngine,
    questions: Sequence[Question],
    *,
    progress: Progress | None = None,
    kept: RunLog | None = None,
) -> FittedClaims:
    """Answer every question once, judge each claim, and fit how far each witness is to be believed.

    A claim is right if an accepted answer stands in it; every claim about an unanswerable question is wrong. All
    claims count, those that were not shown too. Ask questions that the documents do not answer among them: without
    any, the fit cannot learn to abstain.

    Args:
        engine: with a language model, on any pipeline that cites; not calibrated on claims yet.
        questions: answerable ones with answers, and unanswerable ones.
        progress: told after every batch.
        kept: what was asked before is taken from there, and what is asked now is put there.

    Raises:
        InputError: the engine has such a calibration already, or has no model.
        CalibrationInputError: too few questions can be judged; too few claims, or nearly all right or wrong.
        CalibrationError: every call failed.
    """
    if engine.context.stack is not None:
        raise InputError("This engine's claims are calibrated already.", hint="Calibrate with settings without it.")
    if not engine.resources.models:
        raise InputError("Without a language model there are no claims to judge.", hint="Calibrate the confidence.")
    require_enough("claims", questions)
    known = [q for q in questions if q.judgeable]

    def ask(batch: Sequence[Question]) -> list[list[JudgedClaim] | Exception]:
        return [
            [_judge(question, claim) for claim in answer.claims if claim.citations]
            if isinstance(answer, Answer)
            else answer
            for question, answer in zip(batch, engine.answer_many([q.question for q in batch]), strict=True)
        ]

    found = ask_each(
        known, ask, kept=kept or RunLog(), part=f"claims {digest_of(engine)}", dump=_dump, load=_load,
        together=TOGETHER, progress=progress,
    )  # fmt: skip
    errors = [f for f in found if isinstance(f, Exception)]
    if len(errors) == len(known):
        raise CalibrationError(f"Every question failed; the last one: {errors[-1]}")
    rows = [row for f in found if not isinstance(f, Exception) for row in f]
    bound = engine.claims_binding
    stack = fit_stack(
        SIGNALS,
        [r.said for r in rows],
        [r.right for r in rows],
        bound_to=bound,
        groups=[r.question for r in rows],
        questions=digests_of(known),
    )
    return FittedClaims(stack, tuple(rows), len(errors))


def _dump(claims: list[JudgedClaim]) -> list[dict[str, Any]]:
    return [asdict(c) for c in claims]


def _load(rows: list[dict[str, Any]]) -> list[JudgedClaim]:
    return [JudgedClaim(**{**row, "said": tuple(row["said"])}) for row in rows]


def _judge(question: Question, claim: Claim) -> JudgedClaim:
    said = tuple(getattr(claim.signals, name) for name in SIGNALS)
    return JudgedClaim(question.question, claim.text, said, holds_answer(question, claim))
