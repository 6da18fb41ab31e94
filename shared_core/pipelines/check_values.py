"""Check the values of a structured answer (``{"price": "£20"}``): do the passages support each of them?

A value states something only together with its name, so each is worded as a statement, in two ways: "price: £20", which
is judged together with the question, and "The price is £20.", which is judged alone. The judge knows only one of them
for many values, so the wording that the passages support better counts. A value of whole sentences is checked as they
are.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shared_core.abstention.statements import Statements, cut_statements
from shared_core.pipelines.check import conclude, gather_evidence, look_up
from shared_core.pipelines.check_claims import judge_statements
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.decision.wording import is_abstention
from shared_core.pipelines.evidence import Evidence
from shared_core.pipelines.json_passages import label_of
from shared_core.runtime.flow import Flow, Report
from shared_core.support.regex import lazy_regex
from shared_core.types import Answer, Claim, ClaimSealed, MetadataValue, Passage

FIELDS = "fields"
"""Key of the metadata that holds the verdict of each value."""
_ORDER = ("contradicted", "unsupported", "unknown", "supported")  # worst first: a value is as good as its worst claim
_SENTENCE = lazy_regex(r"\S+(?:\s+\S+){3,}[.!?…。！？]['\"”’)]*\s*\Z", re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True)
class WordedValue:
    """A value of a structured answer, worded as a statement.

    Attributes:
        path: its place (``plans.0.price``).
        asked: wording to be judged together with the question.
        alone: wording to be judged by itself; empty if the first needs no question.
    """

    path: str
    text: str
    asked: str
    alone: str = ""


def word_values(values: object, path: tuple[str, ...] = ()) -> Iterator[WordedValue]:
    """Word each value of nested mappings and lists; empty ones (``None``, ``""``) state nothing.

    >>> [worded.alone for worded in word_values({"price": "£20", "openOn": ["Monday"], "in_stock": False})]
    ['The price is £20.', 'The open on is Monday.', 'It is not in stock.']
    """
    if isinstance(values, Mapping):
        for name, value in values.items():
            yield from word_values(value, (*path, str(name)))
    elif isinstance(values, (list, tuple, set, frozenset)):
        for i, value in enumerate(values):
            yield from word_values(value, (*path, str(i)))
    elif values is not None and str(values).strip():
        yield _word(".".join(path), label_of(path), values)


def _word(path: str, label: str, value: object) -> WordedValue:
    if isinstance(value, bool):
        text = "yes" if value else "no"
        return WordedValue(path, text, f"{label}: {text}", f"It is {'' if value else 'not '}{label}.")
    # Documents write 30 where a parsed number is 30.0.
    text = f"{int(value)}" if isinstance(value, float) and value.is_integer() else str(value).strip()
    if _SENTENCE.match(text):
        return WordedValue(path, text, text)
    return WordedValue(path, text, f"{label}: {text}", f"The {label} is {text}{'' if text.endswith('.') else '.'}")


def check_values(
    values: Mapping[str, Any], question: str, passages: Sequence[Passage] | None, run: QuestionRun
) -> Flow[Answer]:
    """Check each value of a structured answer; arguments and result as of ``check``, with each value on a line.

    ``metadata["fields"]`` has the verdict of each value by its path (``plans.0.price``); a value without words to check
    has none.
    """
    worded = [w for w in word_values(values) if not is_abstention(w.text, run.settings)]
    asked, alone = [cut_statements(w.asked) for w in worded], [cut_statements(w.alone) for w in worded]
    yield run.note("split", f"{len(worded)} values", "each is worded as a statement", values=len(worded))
    if passages is None:
        passages, _ = yield from look_up([s for cut in asked for s in cut.found], question, run)
    evidence = yield from gather_evidence(passages, run)
    first = yield from _judge(asked, question, evidence, run)
    second = yield from _judge(alone, "", evidence, run)
    lines: list[str] = []
    claims: list[Claim] = []
    fields: dict[str, MetadataValue] = {}
    at = 0
    for value, with_question, by_itself in zip(worded, first, second, strict=True):
        better = bool(by_itself) and _least(by_itself) > _least(with_question)
        line, found = (value.alone, by_itself) if better else (value.asked, with_question)
        for claim in found:
            assert claim.start is not None, "a checked claim has its place"
            assert claim.end is not None
            claims.append(dataclasses.replace(claim, start=at + claim.start, end=at + claim.end))
            yield Report(ClaimSealed(claims[-1]))
        if found:
            fields[value.path] = min((c.verdict or "unknown" for c in found), key=_ORDER.index)
        lines.append(line)
        at += len(line) + 1
    checked = yield from conclude("\n".join(lines), question, claims, Statements((), ()), evidence, run)
    return dataclasses.replace(checked, metadata={**checked.metadata, FIELDS: fields})


def _judge(cuts: Sequence[Statements], question: str, evidence: Evidence, run: QuestionRun) -> Flow[list[list[Claim]]]:
    """Judge the statements of all values in one batch, and return the claims of each value."""
    batch = [(statement, ()) for cut in cuts for statement in cut.found]
    claims = iter((yield from judge_statements(batch, question, evidence, {}, run)) if batch else [])
    return [[next(claims) for _ in cut.found] for cut in cuts]


def _least(claims: Sequence[Claim]) -> float:
    """Return the support of the weakest claim; -1 if one is unknown, or there is none."""
    return min((-1.0 if c.support is None else c.support for c in claims), default=-1.0)
