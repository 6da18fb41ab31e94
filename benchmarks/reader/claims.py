"""Claims with evidence for training the critic: labelled by people, or made from questions with known answers.

A question about a paragraph is a person's paraphrase of one of its sentences. With the right answer it becomes a claim
that the sentence supports, with another answer of the same paragraph a claim that it does not.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.reader import forms
from benchmarks.reader.data import QuestionRow
from shared_core.citation.sentences import split_sentences
from shared_core.reading.network import REFUTED, SUPPORTED, UNSUPPORTED
from shared_core.types import Passage

NOT_SUPPORTED = -1
"""Label of a claim that is either UNSUPPORTED or REFUTED."""
_LABELS = {"supported": SUPPORTED, "not_supported": UNSUPPORTED, "unsupported": UNSUPPORTED, "refuted": REFUTED}
_AS_PAIR = 0.25  # share of claims written as question and answer
_SENTENCE = 0.5  # share whose evidence is the sentence with its neighbours instead of the paragraph


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A claim with a passage of the corpus (the deciding places are ``spans``) or with a text (``evidence``)."""

    claim: str
    label: int
    passage: str = ""
    evidence: str = ""
    title: str = ""
    spans: tuple[tuple[int, int], ...] = ()


def labelled_by_people(rows: Sequence[Mapping[str, Any]], sources: Sequence[str]) -> list[ClaimRow]:
    """Return the labelled pairs of these sources, without partial support."""
    return [
        ClaimRow(r["hypothesis"], _LABELS[r["label"]], evidence=r["premise"])
        for r in rows
        if r["source"] in sources and r["label"] in _LABELS
    ]


def from_questions(
    rows: Sequence[QuestionRow],
    changed: Sequence[QuestionRow],
    passages: Mapping[str, Passage],
    near: Mapping[str, list[str]],
    rng: random.Random,
) -> list[ClaimRow]:
    """Make a claim of each question; about half of them are supported.

    Args:
        rows: questions with their answers.
        changed: questions that were changed so that their paragraph no longer answers them.
        passages: paragraphs by id.
        near: ids of similar paragraphs by question.
        rng: source of randomness.
    """
    answers: dict[str, list[str]] = {}
    for row in rows:
        answers.setdefault(row.passage, []).extend(row.answers[:1])
    out = []
    for row in rows:
        passage = passages[row.passage]
        draw = rng.random()
        if draw < 0.55:
            out.append(_beside(_stated(row, row.answers[0], passage, rng), row, passage, SUPPORTED, rng))
        elif draw < 0.85:
            wrong = [a for a in answers[row.passage] if not _overlaps(a, row.answers)]
            if wrong:
                claim = _stated(row, rng.choice(wrong), passage, rng)
                out.append(_beside(claim, row, passage, NOT_SUPPORTED, rng))
        else:
            others = [p for p in near[row.question] if p != row.passage]
            if others:
                claim = _stated(row, row.answers[0], passage, rng)
                out.append(ClaimRow(claim, UNSUPPORTED, passage=rng.choice(others)))
    for row in changed:
        if row.passage in answers:
            answer = rng.choice(answers[row.passage])
            claim = _stated(row, answer, passages[row.passage], rng)
            out.append(ClaimRow(claim, NOT_SUPPORTED, passage=row.passage))
    return out


def from_pairs(
    rows: Sequence[Mapping[str, Any]], passages: Mapping[str, Passage], rng: random.Random
) -> list[ClaimRow]:
    """Make a claim of each question and its ``answer``, which is right only where ``right`` says so.

    The wrong ones are by people: an unanswerable question, and the answer that looks right in its paragraph.
    """
    out = []
    for r in rows:
        passage, answer, start = passages[r["passage_id"]], r["answer"], r["start"]
        row = QuestionRow(r["question"], passage.id, (answer,), ((start, start + len(answer)),))
        claim = _stated(row, answer, passage, rng)
        out.append(_beside(claim, row, passage, SUPPORTED if r["right"] else NOT_SUPPORTED, rng))
    return out


def as_written(
    rows: Sequence[Mapping[str, Any]], passages: Mapping[str, Passage], rng: random.Random
) -> list[ClaimRow]:
    """Make rows of claims as people wrote them, beside their ``evidence`` or the passage that holds it."""
    out = []
    for r in rows:
        passage, evidence, label = passages[r["passage_id"]], r["evidence"], _LABELS[r["label"]]
        if rng.random() < _SENTENCE:
            out.append(
                ClaimRow(r["claim"], label, evidence=evidence, title=passage.title if rng.random() < 0.5 else "")
            )
        else:
            start = passage.text.index(evidence)
            out.append(ClaimRow(r["claim"], label, passage=passage.id, spans=((start, start + len(evidence)),)))
    return out


def _stated(row: QuestionRow, answer: str, passage: Passage, rng: random.Random) -> str:
    if rng.random() < _AS_PAIR:
        return f"{row.question} {answer}"
    before = forms.preposition_before(passage.text, row.spans[0][0]) if row.spans else ""
    claim = forms.state(row.question, answer, before)
    return claim.lower() if rng.random() < 0.1 else claim


def _beside(claim: str, row: QuestionRow, passage: Passage, label: int, rng: random.Random) -> ClaimRow:
    if rng.random() >= _SENTENCE:
        return ClaimRow(claim, label, passage=row.passage, spans=row.spans)
    sentences = split_sentences(passage.text)
    at = next((i for i, (a, b) in enumerate(sentences) if a <= row.spans[0][0] < b), 0)
    first, last = max(0, at - rng.randint(0, 1)), min(len(sentences) - 1, at + rng.randint(0, 1))
    text = passage.text[sentences[first][0] : sentences[last][1]] if sentences else passage.text
    return ClaimRow(claim, label, evidence=text, title=passage.title if rng.random() < 0.5 else "")


def _overlaps(answer: str, others: Sequence[str]) -> bool:
    lower = answer.lower()
    return any(lower in o.lower() or o.lower() in lower for o in others)
