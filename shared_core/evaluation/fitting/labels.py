"""Labels of claims: from the user's own rows where there are any, else from accepted answers, else from passages.

A question may carry labels of claims that answers to it make, ``"claims": [{"claim": "…", "label": true}, …]``, with
``null`` for an unknown label. Claims are matched by their words (``claim_key``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared_core.abstention import claim_key
from shared_core.errors import DocumentError, InputError
from shared_core.evaluation.dataset import Question, line_rows, read_text
from shared_core.evaluation.judging import gold_passages, holds_answer
from shared_core.types import Claim, iter_spans

FIELD = "claims"
_SHAPE = '{"question": "…", "claims": [{"claim": "…", "label": true}]}; null for an unknown label.'
_CLAIM_SHAPE = 'One JSON object a line, {"quote": "…", "claim": "…", "label": true}; or CSV with these columns.'
_TRUE = ("true", "1", "yes", "supported", "entailment")
_FALSE = ("false", "0", "no", "unsupported", "not supported", "contradiction", "neutral")

Label = Callable[[Question, Claim], bool | None]
"""Judge of a claim: right, wrong, or ``None`` if unknown. Unknown claims are left out of a fit."""


def labels_of(question: Question) -> dict[str, bool | None]:
    """Return the labels in a question's row by ``claim_key``.

    Raises:
        InputError: the labels have another shape, or one claim has two labels.
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
            raise InputError(f"Question {question.id!r}: {one!r} is not a labelled claim.", hint=_SHAPE)
        if found.setdefault(claim_key(text), label) is not label:
            raise InputError(f"Question {question.id!r}: two labels for the claim {text!r}.", hint=_SHAPE)
    return found


def row_of(question: Question, claims: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of a question with its labelled claims, in the form that ``read_questions`` reads."""
    known = {"answers": list(question.answers)} if question.answers else {}
    answerable = {"answerable": question.answerable} if question.answerable is not None else {}
    own = {"id": question.id, "question": question.question, **known, **answerable}
    return {**question.metadata, **own, FIELD: claims}


def can_be_judged(question: Question) -> bool:
    """Return whether a question has answers, is known to be unanswerable, or has labelled claims or passages."""
    return question.judgeable or bool(question.metadata.get(FIELD)) or bool(gold_passages(question))


@dataclass
class ClaimLabels:
    """Labeller of claims that also records every label and its source.

    >>> labels = ClaimLabels([Question("1", "Who built it?", ("Mira",))])
    >>> labels(labels.questions[0], Claim("Mira built it."))
    True
    >>> labels.summary()
    'labels: 1 by the accepted answers'

    Args:
        questions: questions whose labels are read and checked at once.
        otherwise: judge of claims without a label of their own.

    Attributes:
        seen: labelled claims by question id and ``claim_key``, each with its label and the label's source: ``you``,
            ``answer``, ``passage`` (it quotes one that the question's row names) or ``unknown``.

    Raises:
        InputError: see ``labels_of``.
    """

    questions: Sequence[Question]
    otherwise: Label = holds_answer
    seen: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    _own: dict[str, dict[str, bool | None]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._own = {q.id: labels_of(q) for q in self.questions}

    def __call__(self, question: Question, claim: Claim) -> bool | None:
        """Label a claim; ``None`` if it cannot be judged."""
        own, key = self._own.get(question.id, {}), claim_key(claim.text)
        label: bool | None = None
        source = "unknown"
        if key in own:
            label, source = own[key], "you"
        elif question.judgeable:
            label, source = self.otherwise(question, claim), "answer"
        elif gold := gold_passages(question):
            label, source = any(span.passage_id in gold for span in iter_spans((claim,))), "passage"
        source = "unknown" if label is None else source
        self.seen.setdefault(question.id, {})[key] = {"claim": claim.text, "label": label, "by": source}
        return label

    @property
    def by(self) -> Counter[str]:
        """Number of claims by the source of their label."""
        return Counter(one["by"] for claims in self.seen.values() for one in claims.values())

    def summary(self) -> str:
        """Count the labels by source, in one line."""
        named = {"you": "by your labels", "answer": "by the accepted answers", "passage": "by the passages that answer"}
        by, named = self.by, {**named, "unknown": "left out as unknown"}
        counts = ", ".join(f"{by[source]} {words}" for source, words in named.items() if by[source])
        return f"labels: {counts or '0'}"

    def rows(self) -> list[dict[str, Any]]:
        """Return the questions with their claims, to be corrected and given as the questions file of the next run."""
        return [row_of(q, list(self.seen.get(q.id, {}).values())) for q in self.questions]


def read_labelled_claims(path: str | Path) -> list[tuple[str, str, bool]]:
    """Read (quote, claim, label) rows from a jsonl, csv or tsv file (``.gz`` too).

    Labels are booleans, 0/1, yes/no, supported/unsupported, or NLI's entailment/neutral/contradiction.

    Raises:
        DocumentError: the file cannot be read, or has an unknown format.
        InputError: a row cannot be used; the message names the line.
    """
    path = Path(path)
    kind = next((s.lower().lstrip(".") for s in reversed(path.suffixes) if s.lower() != ".gz"), "")
    if kind not in ("jsonl", "ndjson", "csv", "tsv"):
        raise DocumentError(f"{path}: labelled claims must be a jsonl, csv or tsv file.", hint=_CLAIM_SHAPE)
    text = read_text(path, _CLAIM_SHAPE)
    rows = [_labelled(f"{path}, {where}", row) for where, row in line_rows(path, text, kind, _CLAIM_SHAPE)]
    if not rows:
        raise InputError(f"{path} has no labelled claims.", hint=_CLAIM_SHAPE)
    return rows


def _labelled(where: str, row: Any) -> tuple[str, str, bool]:
    if not isinstance(row, Mapping):
        raise InputError(f"{where}: not an object with fields.", hint=_CLAIM_SHAPE)
    quote, claim = row.get("quote"), row.get("claim")
    if not all(isinstance(t, str) and t.strip() for t in (quote, claim)):
        raise InputError(f"{where}: quote and claim must be texts.", hint=_CLAIM_SHAPE)
    word = str(row.get("label")).strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise InputError(f"{where}: label must be true or false, not {row.get('label')!r}.", hint=_CLAIM_SHAPE)
    return str(quote), str(claim), word in _TRUE
