"""Judge one answer by the claims it shows, against the accepted answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from shared_core.errors import AbstainedError
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.metrics import confidence as ranking
from shared_core.evaluation.metrics.qa import (
    bare_golds,
    contains_answer,
    exact_match,
    f1,
    is_bare_answer,
    normalize_answer,
)
from shared_core.types import Answer, Claim

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
        abstained, reason: decision of the engine.
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
    quote = _quote(best)
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


def _quote(claim: Claim | None) -> str:
    return claim.citations[0].quote if claim is not None and claim.citations else ""


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


def holds_answer(question: Question, claim: Claim) -> bool | None:
    """Return whether a claim is a right answer; no claim about an unanswerable question is."""
    return is_right(question, claim.text, claim.short_answer)


def judge_of(question: Question) -> str:
    """Return the criterion for answers to this question."""
    if not question.answers or question.answerable is False:
        return NONE
    return CLOSED if all(normalize_answer(gold) in ("yes", "no") for gold in question.answers) else WORDS


_FIRST_WORD = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)


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
