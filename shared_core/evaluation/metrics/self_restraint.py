"""How much is said, how much of it is true, and what that is worth (ReSearch's metrics)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from shared_core.abstention import keep_claims, realised_utility
from shared_core.errors import InputError


class SelfRestraint(NamedTuple):
    """``self_restraint`` over N answers of which N_a are abstentions, with C claims in all.

    Attributes:
        accuracy: micro: share of all claims that are true; NaN without claims.
        macro_accuracy: mean over given answers of the share of their claims that are true; NaN if all abstained.
        claims_per_answer: C / N, an abstention being 0 claims.
        claims_per_given_answer: C / (N - N_a); NaN if all abstained.
        abstention_rate: N_a / N.
        utility: mean of #true - λ·#false over all answers.
        answers: N.
    """

    accuracy: float
    macro_accuracy: float
    claims_per_answer: float
    claims_per_given_answer: float
    abstention_rate: float
    utility: float
    answers: int


def self_restraint(labels: Iterable[Sequence[bool] | None], target_accuracy: float = 0.5) -> SelfRestraint:
    """Accuracy, claims per answer, abstention rate and utility.

    At ρ* = 0.5 utility = claims_per_answer · (2·accuracy - 1) exactly, with the micro accuracy (not with the macro
    accuracy that tables usually show); claims_per_answer = (1 - abstention_rate) · claims_per_given_answer.

    Source: Piché et al., section 5 and equation 1.

    Args:
        labels: for each answer whether its claims are true; ``None`` or an empty list is an abstention.
        target_accuracy: ρ*, in (0, 1).

    Raises:
        SettingsError: ρ* is not in (0, 1).
        InputError: no answers, or a label that is neither true nor false.
    """
    answers = [[_label(value) for value in (answer if answer is not None else ())] for answer in labels]
    if not answers:
        raise InputError("There are no answers to score.")
    given = [answer for answer in answers if answer]
    true, claims = sum(map(sum, given)), sum(map(len, given))
    shares = [sum(answer) / len(answer) for answer in given]
    return SelfRestraint(
        accuracy=true / claims if claims else math.nan,
        macro_accuracy=math.fsum(shares) / len(shares) if shares else math.nan,
        claims_per_answer=claims / len(answers),
        claims_per_given_answer=claims / len(given) if given else math.nan,
        abstention_rate=1 - len(given) / len(answers),
        utility=realised_utility(true, claims - true, target_accuracy) / len(answers),
        answers=len(answers),
    )


def self_restraint_by(
    tiers: Sequence[str], labels: Sequence[Sequence[bool] | None], target_accuracy: float = 0.5
) -> dict[str, SelfRestraint]:
    """``self_restraint`` of the answers of each tier (popular, obscure, invented, …), in order of first occurrence.

    Args:
        tiers: (N,) of each answer.
        labels, target_accuracy: as there.

    Raises:
        InputError: lengths differ; also as there.
    """
    if len(tiers) != len(labels):
        raise InputError(f"There are {len(tiers)} tiers and {len(labels)} answers.")
    return {
        tier: self_restraint([one for at, one in zip(tiers, labels) if at == tier], target_accuracy)
        for tier in dict.fromkeys(tiers)
    }


def over_targets(
    probabilities: Sequence[Sequence[float | None]],
    labels: Sequence[Sequence[bool]],
    targets: Sequence[float],
) -> list[SelfRestraint]:
    """What ρ* trades on the same answers: at each target the claims of a probability above it are shown.

    The utility is that at the target. (Searching at each target anew, as ``benchmarks/research.py`` does, finds other
    answers too.)

    Args:
        probabilities: for each answer those of its claims; unknown ones are never shown.
        labels: whether each of these claims is true.
        targets: ρ*, each in (0, 1).

    Raises:
        InputError: the two do not have the same shape, or there are no answers.
        SettingsError: a target is not in (0, 1).
    """
    if [len(p) for p in probabilities] != [len(t) for t in labels]:
        raise InputError("Every claim needs a probability (or None) and a label.")
    return [
        self_restraint([[t[i] for i in keep_claims(p, target)] for p, t in zip(probabilities, labels)], target)
        for target in targets
    ]


def _label(value: Any) -> bool:
    if value not in (0, 1):  # also True, False and numpy's
        raise InputError(f"A claim is true or false, not {value!r}.", hint="Leave claims out that nobody judged.")
    return bool(value)
