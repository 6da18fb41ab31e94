"""Rules that decide on a claim after its judges: rows of tables, "yes" and "no", passages that contradict each other.

A judge reads one claim beside one window, and cannot see any of these.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

from shared_core.abstention.asserting import asserts
from shared_core.abstention.lookalikes import mixed_words
from shared_core.abstention.polarity import opening_of, turns_opening
from shared_core.abstention.statements import Statement
from shared_core.citation.facts import REFUTED_AT_MOST, compare_claim
from shared_core.citation.facts.quantities import measured
from shared_core.citation.facts.tokens import tokens_of
from shared_core.pipelines.check_tables import judge_row
from shared_core.pipelines.deciding import Judged, are_of_one, verdict_of
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.evidence import Window
from shared_core.reading.disagreements import tells_another
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage, Span

__all__ = ["settle"]

_ALIKE = 0.9  # of the words of two sentences, either way: they differ in a fact or two
_ORDER = lazy_regex(
    r"\b(?:then|again|next|finally|afterwards?|before|after|meanwhile|once|step|until)\b", re.IGNORECASE
)
_PAST = lazy_regex(r"\b(?:was|were|had|did|\w{2,}ed)\b", re.IGNORECASE)
_LONGEST = 600  # code points of a sentence that is compared with others


def settle(
    statements: Sequence[Statement],
    windows: Sequence[Sequence[Window]],
    judged: Sequence[Judged],
    question: str,
    run: QuestionRun,
) -> list[Judged]:
    """Return the judgements with what these rules make of them."""
    return [
        _settle(statement, some, one, question, run)
        for statement, some, one in zip(statements, windows, judged, strict=True)
    ]


def _settle(statement: Statement, windows: Sequence[Window], judged: Judged, question: str, run: QuestionRun) -> Judged:
    if strange := mixed_words(statement.plain):
        texts = [w.text for w in windows]
        if not all(any(word in text for text in texts) for word in strange):
            return Judged(spans=judged.spans)  # nobody can say what is meant
    judged = judge_row(statement, list({w.passage.id: w.passage for w in windows}.values()), judged)
    if verdict_of(judged, run) != "supported":
        return judged
    if turns_opening(question, statement.opening, opening_of(statement.plain)[1]):
        return _contradicted(judged.spans)
    against = None if statement.cells else _contradicting(judged.spans, windows)
    return judged if against is None else dataclasses.replace(_contradicted((against,)), disputed=True)


def _contradicted(spans: tuple[Span, ...]) -> Judged:
    return Judged(REFUTED_AT_MOST, 1 - REFUTED_AT_MOST, spans)


def _contradicting(shown: Sequence[Span], windows: Sequence[Window]) -> Span | None:
    """Return a sentence of the windows that says something else than the one shown, and of the same thing."""
    if len(shown) != 1 or len(shown[0].text) > _LONGEST:
        return None
    (own,) = shown
    home = next((w.passage for w in windows if w.passage.id == own.passage_id), None)
    if home is None:
        return None
    keys = _matter(own.text)
    for passage, other in _others(own, windows):
        if not _alike(keys, _matter(other.text)) or tells_another(own.text, other.text):
            continue
        if not (_are_together(own, other, home) if passage.id == home.id else are_of_one(home, passage)):
            continue
        found = compare_claim(own.text, other.text)
        if found.refuted and found.same_subject and not any(m.kind == "name" for m in found.mismatches):
            return other
    return None


def _others(own: Span, windows: Sequence[Window]) -> Iterator[tuple[Passage, Span]]:
    seen = {(own.passage_id, own.start)}
    for window in windows:
        for span in window.quotable:
            if (span.passage_id, span.start) not in seen and len(span.text) <= _LONGEST:
                seen.add((span.passage_id, span.start))
                yield window.passage, span


def _matter(text: str) -> frozenset[str]:
    """Words with content, but for numbers and their units."""
    taken = measured(text)
    return frozenset(t.key for t in tokens_of(text) if t.is_content and t.start not in taken)


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    both = len(one & other)
    return both > 1 and both >= _ALIKE * max(len(one), len(other))


def _are_together(one: Span, other: Span, passage: Passage) -> bool:
    """Return whether two sentences of one passage cannot both hold: general statements of one section, not steps."""
    first, last = sorted((one, other), key=lambda s: s.start)
    between = passage.text[first.end : last.start]
    general = all(asserts(s.text) and not _PAST.search(s.text) and not _ORDER.search(s.text) for s in (one, other))
    # A row or item beside another, or a heading between them, speaks of something else.
    return general and re.search(r"^\s{0,3}(?:#|[-*•|]|\d+[.)]|[^\n.!?]{1,80}\n\s*\n)", f"{between}", re.M) is None
