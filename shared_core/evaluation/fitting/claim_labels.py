"""Which claims are right: by your own labels where there are some, else by the accepted answers.

A row of questions may bring labels of the claims that answers to it make: ``"claims": [{"claim": "…", "label": true},
…]``; ``null`` where nobody can tell. Claims are known again by their words (``claim_key``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared_core.abstention import claim_key
from shared_core.errors import InputError
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.metrics.answers import contains_answer
from shared_core.types import Claim

FIELD = "claims"
_SHAPE = '{"question": "…", "claims": [{"claim": "…", "label": true}]}; null where nobody can tell.'

Label = Callable[[Question, Claim], bool | None]
"""Whether a claim is right; ``None`` where nobody can tell: then it is left out, as a claim that is never shown."""


def holds_answer(question: Question, claim: Claim) -> bool | None:
    """Whether an accepted answer stands in the claim; no claim about an unanswerable question is right."""
    return question.answerable is not False and contains_answer(claim.text, question.answers)


def labels_of(question: Question) -> dict[str, bool | None]:
    """The labels that a question's row brings, by ``claim_key``.

    Raises:
        InputError: they have another shape, or one claim has two labels.
    """
    given = question.metadata.get(FIELD)
    if given is None:
        return {}
    if not isinstance(given, list):
        raise InputError(f"Question {question.id!r}: claims must be a list.", hint=_SHAPE)
    found: dict[str, bool | None] = {}
    for one in given:
        text, label = (one.get("claim"), one.get("label")) if isinstance(one, Mapping) else (None, None)
        if not isinstance(text, str) or not claim_key(text) or not (label is None or isinstance(label, bool)):
            raise InputError(f"Question {question.id!r}: {one!r} is no labelled claim.", hint=_SHAPE)
        if found.setdefault(claim_key(text), label) is not label:
            raise InputError(f"Question {question.id!r}: two labels for the claim {text!r}.", hint=_SHAPE)
    return found


def can_be_judged(question: Question) -> bool:
    """Answers are known, or that there is none, or claims are labelled."""
    return question.judgeable or bool(question.metadata.get(FIELD))


@dataclass
class ClaimLabels:
    """Labels claims, and keeps what was labelled and how.

    Args:
        questions: whose labels are read and checked at once.
        otherwise: labels what has no label of its own.

    Attributes:
        by: how many claims were labelled ``by you``, ``by answer``, or not (``unknown``).
        seen: for each question's id the claims that were labelled, with label and how it was come by.

    Raises:
        InputError: as ``labels_of``.
    """

    questions: Sequence[Question]
    otherwise: Label = holds_answer
    by: Counter[str] = field(default_factory=Counter)
    seen: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _own: dict[str, dict[str, bool | None]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._own = {q.id: labels_of(q) for q in self.questions}

    def __call__(self, question: Question, claim: Claim) -> bool | None:
        """Whether it is right; ``None`` where nobody can tell."""
        own, key = self._own.get(question.id, {}), claim_key(claim.text)
        label: bool | None = None
        if key in own:
            label, how = own[key], "you"
        elif question.judgeable:
            label, how = self.otherwise(question, claim), "answer"
        how = "unknown" if label is None else how
        self.by[how] += 1
        self.seen.setdefault(question.id, []).append({"claim": claim.text, "label": label, "by": how})
        return label

    def summary(self) -> str:
        """How the claims were labelled, in a line."""
        named = {"you": "by your labels", "answer": "by the accepted answers", "unknown": "left out: nobody can tell"}
        return "labels: " + (
            ", ".join(f"{self.by[how]} {words}" for how, words in named.items() if self.by[how]) or "0"
        )

    def rows(self) -> list[dict[str, Any]]:
        """The questions as rows with their claims, to be corrected and given as the file of questions."""
        return [
            {
                "id": q.id,
                "question": q.question,
                "answers": list(q.answers),
                **({"answerable": q.answerable} if q.answerable is not None else {}),
                FIELD: self.seen.get(q.id, []),
            }
            for q in self.questions
        ]
