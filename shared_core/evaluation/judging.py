"""Judge answers by the claims they show, and label claims: by the user's rows, accepted answers or gold passages.

A question may carry labels of claims that answers to it make, ``"claims": [{"claim": "…", "label": true}, …]``, with
``null`` for an unknown label. Claims are matched by their words (``claim_key``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared_core.abstention import claim_key
from shared_core.errors import AbstainedError, DocumentError, InputError
from shared_core.evaluation.dataset import Question, line_rows, read_text
from shared_core.evaluation.metrics import confidence as ranking
from shared_core.evaluation.metrics.qa import (
    bare_golds,
    contains_answer,
    exact_match,
    f1,
    is_bare_answer,
    normalize_answer,
)
from shared_core.support.regex import lazy_regex
from shared_core.types import Answer, Claim, iter_spans

WORDS, CLOSED, NONE = "contains an accepted answer", "yes or no", "no answer is right"
"""Criteria: the text contains an accepted answer as whole normalised words; it begins with the right one of yes and no;
nothing can be right."""


@dataclass(frozen=True, slots=True)
class Record:
    """Judged answer to one question.

    Attributes:
        id, question, answers, answerable: as in the file.
        prediction: short answer of the kept claims, or the claim's text if there is none; ``""`` for an abstention.
        quote: first quote of the best claim, kept or dropped, whatever the target accuracy.
        confidence: confidence of the answer, else the support of its best claim; ``None`` if unknown.
        em, f1: SQuAD's scores of ``prediction``, where "" is right only if there is no answer; ``None`` if unjudged.
        correct: whether the claims shown, or the nearest claim of an abstention, are a right answer; never for an
            unanswerable question; ``None`` if unjudged.
        judged_by: criterion (``WORDS``, ``CLOSED``, ``NONE``); empty if unjudged.
        quote_correct: whether ``quote`` contains an accepted answer: the quality of retrieval and reading alone.
        recall: share of the gold passages (``passage_id`` or ``passage_ids`` of the row) that were read.
        offsets_exact: whether every cited span equals its passage's text there; ``None`` without citations.
        target_accuracy: ρ* that the answer was made for; ``None`` if unknown.
        claims: number of kept claims.
        error: error instead of an answer; empty otherwise.
        seconds: share of its batch's time.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    answerable: bool | None
    prediction: str = ""
    quote: str = ""
    abstained: bool = False
    reason: str = ""
    confidence: float | None = None
    em: float | None = None
    f1: float | None = None
    correct: bool | None = None
    judged_by: str = ""
    quote_correct: bool | None = None
    recall: float | None = None
    offsets_exact: bool | None = None
    target_accuracy: float | None = None
    claims: int = 0
    error: str = ""
    seconds: float = 0.0


def judge(question: Question, answer: Answer | Exception, seconds: float = 0.0) -> Record:
    """Judge one answer; an ``AbstainedError`` counts as the abstention it carries."""
    base: dict[str, Any] = {
        "id": question.id,
        "question": question.question,
        "answers": question.answers,
        "answerable": question.answerable,
        "seconds": seconds,
    }
    if isinstance(answer, AbstainedError):
        answer = answer.answer
    if isinstance(answer, Exception):
        wrong: dict[str, Any] = (
            {"em": 0.0, "f1": 0.0, "correct": False, "quote_correct": False} if question.judgeable else {}
        )
        return Record(**base, **wrong, error=f"{type(answer).__name__}: {answer}")
    best, prediction = _best_claim(answer), _prediction(answer)
    quote = best.citations[0].quote if best is not None and best.citations else ""
    judged: dict[str, Any] = {}
    if question.judgeable:
        em, overlap = _match(prediction, question.answers)
        judged = {
            "em": em,
            "f1": overlap,
            "correct": any(is_right(question, *said) for said in _shown(answer, best)),
            "judged_by": judge_of(question),
            "quote_correct": bool(question.answers) and contains_answer(quote, question.answers),
        }
    return Record(
        **base,
        **judged,
        prediction=prediction,
        quote=quote,
        abstained=answer.abstained,
        reason=answer.reason,
        confidence=answer.confidence if answer.confidence is not None or best is None else best.support,
        recall=_recall(question, answer),
        offsets_exact=_offsets_exact(answer),
        target_accuracy=answer.metadata.get("target_accuracy"),
        claims=len(answer.kept_claims) if not answer.abstained else 0,
    )


def _best_claim(answer: Answer) -> Claim | None:
    """Return the first kept claim, or the best supported dropped one if none was kept."""
    if answer.kept_claims:
        return answer.kept_claims[0]
    return max(answer.claims, key=lambda c: -1.0 if c.support is None else c.support, default=None)


def _prediction(answer: Answer) -> str:
    if answer.abstained:
        return ""
    claim = next((c for c in answer.kept_claims if c.short_answer), None) or next(iter(answer.kept_claims), None)
    return answer.text if claim is None else (claim.short_answer or claim.text)


def _match(prediction: str, golds: tuple[str, ...]) -> tuple[float, float]:
    """Return SQuAD's exact match and F1; symbols, of which normalisation leaves nothing, are compared as written."""
    bare = bare_golds(golds)
    same = float(any(is_bare_answer(prediction, gold) for gold in bare))
    if bare and len(bare) == len(golds):  # to SQuAD these are questions without an answer
        return same, same
    return max(same, exact_match(prediction, golds)), max(same, f1(prediction, golds))


def _shown(answer: Answer, nearest: Claim | None) -> list[tuple[str, str | None]]:
    """Return (text, short answer) of each claim shown, or of an abstention's nearest claim."""
    if answer.abstained:
        return [(nearest.text, nearest.short_answer)] if nearest is not None else []
    kept = answer.kept_claims
    return [(c.text, c.short_answer) for c in kept] if kept else [(answer.text, None)]


def is_right(question: Question, text: str, short: str | None = None) -> bool:
    """Return whether a statement or its short answer is right, by the criterion of ``judge_of``."""
    judge = judge_of(question)
    if judge == CLOSED:
        said = next(filter(None, (_polarity(short), _polarity(text))), None)
        return said is not None and said in {_polarity(gold) for gold in question.answers}
    return judge == WORDS and (contains_answer(text, question.answers) or contains_answer(short, question.answers))


def judge_of(question: Question) -> str:
    """Return the criterion for answers to this question."""
    if not question.answers or question.answerable is False:
        return NONE
    return CLOSED if all(normalize_answer(gold) in ("yes", "no") for gold in question.answers) else WORDS


_FIRST_WORD = lazy_regex(r"\W*(yes|no)\b", re.IGNORECASE)


def _polarity(text: str | None) -> str | None:
    """Return ``yes`` or ``no`` if the text begins with it; a later "no" ("there is no …") denies something else."""
    found = _FIRST_WORD.match(text or "")
    return found[1].lower() if found else None


def gold_passages(question: Question) -> tuple[str, ...]:
    """Return the ids of the passages that the question's row names (``passage_id`` or ``passage_ids``)."""
    gold = question.metadata.get("passage_ids", question.metadata.get("passage_id"))
    gold = [gold] if isinstance(gold, str) else gold
    return tuple(gold) if isinstance(gold, (list, tuple)) and question.answerable is not False else ()


def _recall(question: Question, answer: Answer) -> float | None:
    gold = gold_passages(question)
    if not gold:
        return None
    return ranking.recall_at_k([p.id for p in answer.passages], gold, max(1, len(answer.passages)))


def _offsets_exact(answer: Answer) -> bool | None:
    spans = [s for claim in answer.claims for citation in claim.citations for s in citation.spans]
    texts = {p.id: p.text for p in answer.passages}
    return all(texts.get(s.passage_id, "")[s.start : s.end] == s.text for s in spans) if spans else None


# --- labels of claims ------------------------------------------------------------------------------------------------


CLAIMS_FIELD = "claims"
_SHAPE = '{"question": "…", "claims": [{"claim": "…", "label": true}]}; null for an unknown label.'
_CLAIM_SHAPE = 'One JSON object a line, {"quote": "…", "claim": "…", "label": true}; or CSV with these columns.'
_TRUE = ("true", "1", "yes", "supported", "entailment")
_FALSE = ("false", "0", "no", "unsupported", "not supported", "contradiction", "neutral")

Label = Callable[[Question, Claim], bool | None]
"""Judge of a claim: right, wrong, or ``None`` if unknown. Unknown claims are left out of a fit."""


def labels_of(question: Question) -> dict[str, bool | None]:
    """Return the labels in a question's row by ``claim_key``; InputError for other shapes, or two labels of a claim."""
    given = question.metadata.get(CLAIMS_FIELD)
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
    return {**question.metadata, **own, CLAIMS_FIELD: claims}


def can_be_judged(question: Question) -> bool:
    """Return whether a question has answers, is known to be unanswerable, or has labelled claims or passages."""
    return question.judgeable or bool(question.metadata.get(CLAIMS_FIELD)) or bool(gold_passages(question))


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

    Attributes:
        seen: labelled claims by question id and ``claim_key``, each with its label and the label's source: ``you``,
            ``answer``, ``passage`` (it quotes one that the question's row names) or ``unknown``.

    Raises:
        InputError: see ``labels_of``.
    """

    questions: Sequence[Question]
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
            label, source = is_right(question, claim.text, claim.short_answer), "answer"
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
