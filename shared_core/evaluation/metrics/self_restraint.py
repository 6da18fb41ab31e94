"""ReSearch's metrics: how many claims answers make, how many are true, and their utility."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from shared_core.abstention import realised_utility
from shared_core.errors import InputError


class SelfRestraint(NamedTuple):
    """Result of ``self_restraint`` over N answers with C claims in all, N_a of the answers abstentions.

    >>> self_restraint([[True, True, False], None]).utility  # (2 - 1) / 2
    0.5

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
    """Compute accuracy, claims per answer, abstention rate and utility.

    At ρ* = 0.5 utility = claims_per_answer · (2·accuracy - 1) exactly, with the micro accuracy (not with the macro
    accuracy that tables usually show); claims_per_answer = (1 - abstention_rate) · claims_per_given_answer.

    Source: Piché et al., section 5 and equation 1.

    Args:
        labels: truth of each answer's claims; ``None`` or an empty list is an abstention.
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


def _label(value: Any) -> bool:
    if value not in (0, 1):  # also True, False and numpy's
        raise InputError(f"A claim is true or false, not {value!r}.", hint="Leave out claims that were not judged.")
    return bool(value)
