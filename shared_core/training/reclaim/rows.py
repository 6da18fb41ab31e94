"""Training rows for ReClaim's reference, claim and unified models (Xia et al. 2024, training data).

Source answers → segments → cited sentences for each (labels, or a model's selection) → two filters (every cited
sentence is found verbatim in the passages; an NLI model judges reference ⇒ clause) → rows. Prompts come from the
functions that the pipeline uses, and every reference is one that its grammar can write, so a row is what the pipeline
sends and receives. Whatever is left out is kept as a ``Drop`` with its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field, model_validator

from shared_core.errors import SelfReflectError
from shared_core.pipelines.reclaim.prompts import (
    CLAIM_END,
    PAIR_GAP,
    REFERENCE_END,
    REFERENCE_LEAD,
    WrittenPair,
    claim_prompt,
    reference_prompt,
    render_pairs,
)
from shared_core.runtime.flow import Flow, Judge, Resources, Together, run_many
from shared_core.settings import Settings
from shared_core.training.reclaim.cite import (
    Cited,
    Found,
    SentenceBook,
    citable_claim,
    cite,
    read_labels,
    select_citations,
)
from shared_core.training.reclaim.sources import Segment, SourceAnswer, segment_answer
from shared_core.training.rows import TrainingRow

RowRole = Literal["reference", "claim", "unified"]
_TOGETHER = 64  # sources whose requests to a model or judge go out together
Stage = Literal["source", "selection", "string match", "claim", "entailment", "policy", "rows"]


class RowSettings(Settings):
    """Settings of ReClaim's rows."""

    segments: Literal["sentence", "clause"] = Field("clause", description="What becomes one claim.")
    mode: Literal["sentence", "span"] = Field("sentence", description="What may be cited, as in ReclaimSettings.")
    min_sentences: int = Field(1, ge=1, description="Sentences per reference.")
    max_sentences: int = Field(3, ge=1)
    nli_threshold: float = Field(0.5, gt=0, le=1, description="A clause is kept if its support is at least this.")
    on_drop: Literal["skip", "truncate", "discard"] = Field(
        "skip",
        description="When a segment is dropped: go on without it, end the answer's rows before it, or leave the whole "
        "answer out. No end is taught behind an answer that lost a segment: there was more to say.",
    )
    max_pairs: int | None = Field(None, ge=1, description="Pairs of an answer; later ones are left out, and no end.")
    max_claim_chars: int = Field(600, ge=1, description="The unified grammar writes no longer claims.")
    roles: tuple[RowRole, ...] = Field(("reference", "claim", "unified"), min_length=1)
    seed: int | None = Field(0, description="Of the selecting model.")

    @model_validator(mode="after")
    def _consistent(self) -> RowSettings:
        if self.min_sentences > self.max_sentences:
            raise ValueError("min_sentences is above max_sentences")
        return self


@dataclass(frozen=True, slots=True)
class Drop:
    """A segment, answer or row that was left out, with the reason.

    Attributes:
        stage: where: ``source``, ``selection``, ``string match``, ``claim``, ``entailment``, ``policy``, ``rows``.
        reason: a short phrase, the same for all of a kind.
        text: of the segment (of the answer, for ``source``; of the completion, for ``rows``).
        segment: its number in the answer from 0; ``None`` for whole answers and for rows.
        detail: the quote that was not found, the model's reply, the probability, …
    """

    source: str
    stage: Stage
    reason: str
    text: str
    segment: int | None = None
    detail: str = ""


@dataclass(frozen=True)
class RowReport:
    """Counts; ``segments == pairs + dropped segments``, always.

    Attributes:
        sources: answers given; ``answers`` those with at least one row.
        segments: of all usable answers; ``pairs`` those that became a pair.
        rows: by role; ``ends`` of them teach where to end, ``declines`` to write nothing at all.
        dropped: stage → reason → count.
        selector, judge: names of what selected and what judged; ``None`` if nothing did.
    """

    sources: int
    answers: int
    segments: int
    pairs: int
    rows: dict[str, int]
    ends: int
    declines: int
    dropped: dict[str, dict[str, int]]
    selector: str | None = None
    judge: str | None = None

    def summary(self) -> str:
        """Summarise the counts for people, one per line."""
        lines = [
            f"{self.sources} answers: {self.segments} segments, {self.pairs} pairs of {self.answers} answers",
            f"rows: {', '.join(f'{n} {role}' for role, n in self.rows.items()) or 'none'}; {self.ends} teach the end, "
            f"{self.declines} of them to decline",
            f"citations: labels{f', selected by {self.selector}' if self.selector else ''}",
            f"entailment: {f'judged by {self.judge}' if self.judge else 'NOT FILTERED (no judge given)'}",
        ]
        lines += [f"dropped, {s}: {n} {r}" for s, reasons in self.dropped.items() for r, n in reasons.items()]
        return "\n".join(lines)


@dataclass(frozen=True)
class RowSet:
    """Rows in the order of their sources, everything left out, and the counts."""

    rows: tuple[TrainingRow, ...]
    drops: tuple[Drop, ...]
    report: RowReport


@dataclass
class _Work:
    """State of one answer while its rows are made."""

    source: SourceAnswer
    segments: int = 0
    kept: list[tuple[int, Cited, str]] = field(default_factory=list)
    drops: list[Drop] = field(default_factory=list)
    complete: bool = True

    def drop(self, stage: Stage, reason: str, text: str, segment: int | None, detail: str = "") -> None:
        self.drops.append(Drop(self.source.id, stage, reason, text, segment, detail))


def build_rows(
    sources: Iterable[SourceAnswer],
    settings: RowSettings | None = None,
    resources: Resources | None = None,
    *,
    progress: Callable[[int], None] | None = None,
) -> RowSet:
    """Make rows, drops and report of all sources. Deterministic, up to the models asked.

    A failure of a model or judge on a segment drops that segment.

    Args:
        sources: answers to learn from; the same answer twice counts once.
        resources: ``models["selection"]`` (or ``default``) selects citations for segments without labels; without one
            those are dropped. ``judge`` is the NLI filter; without one nothing is filtered, and the report says so.
        progress: called with the number of sources done.
    """
    settings, resources = settings or RowSettings(), resources or Resources()
    model = resources.models.get("selection") or resources.models.get("default")
    done: list[_Work] = []
    given = list(sources)
    for start in range(0, len(given), _TOGETHER):
        some = given[start : start + _TOGETHER]
        flows = [_pairs(s, settings, model is not None, resources.judge is not None) for s in some]
        done += [_settle(s, r) for s, r in zip(some, run_many(flows, resources))]
        if progress is not None:
            progress(len(done))
    rows, drops = _collect(_drop_repeats(done), settings)
    selected = any(s.sentences is None for work in done for s in work.source.segments)
    selected = selected or any(not work.source.segments and not work.source.declines for work in done)
    return RowSet(
        tuple(rows),
        tuple(drops),
        _report(
            done,
            rows,
            drops,
            selector=model.name if model is not None and selected else None,
            judge=resources.judge.name if resources.judge is not None else None,
        ),
    )


def _settle(source: SourceAnswer, result: _Work | Exception) -> _Work:
    if isinstance(result, _Work):
        return result
    if not isinstance(result, SelfReflectError):
        raise result
    work = _Work(source)  # its passages share an id, a setting of its cannot be held, …
    work.drop("source", type(result).__name__, source.answer, None, result.message)
    return work


# --- one answer ----------------------------------------------------------------------------------------------------


def _pairs(source: SourceAnswer, settings: RowSettings, can_select: bool, can_judge: bool) -> Flow[_Work]:
    """Cut an answer into segments, cite, filter, and apply the policy for dropped segments."""
    work = _Work(source)
    if source.declines:
        return work
    segments = source.segments or tuple(segment_answer(source.answer, settings.segments))
    work.segments = len(segments)
    book = SentenceBook(source.passages)
    chosen: dict[int, Found] = {}
    unlabelled = []
    for i, segment in enumerate(segments):
        problem = citable_claim(segment.text, settings.max_claim_chars)
        if problem:
            work.drop("claim", problem, segment.text, i)
        elif segment.sentences is not None:
            chosen[i] = read_labels(book, segment)
        else:
            unlabelled.append(i)
    chosen |= yield from _select(work, book, {i: segments[i] for i in unlabelled}, can_select, settings)
    cited: list[tuple[int, Cited, str]] = []
    for i, found in sorted(chosen.items()):
        if not found.problem:
            found = cite(book, found.spans, settings.mode, settings.min_sentences, settings.max_sentences)
        if found.cited is not None:
            cited.append((i, found.cited, segments[i].text))
        else:
            work.drop(found.stage, found.problem, segments[i].text, i, found.detail)
    work.kept = (yield from _check_entailment(work, cited, settings)) if can_judge else cited
    _apply_policy(work, settings)
    return work


def _select(
    work: _Work, book: SentenceBook, asked: Mapping[int, Segment], can_select: bool, settings: RowSettings
) -> Flow[dict[int, Found]]:
    """Ask the model for citations of each segment; drop segments that have nothing to choose from."""
    clauses, numbers = [], []
    for i, segment in asked.items():
        unknown = [n for n in segment.passages if not 1 <= n <= len(work.source.passages)]
        choices = book.sentences_of(segment.passages)
        if unknown:
            work.drop("selection", "unknown passage", segment.text, i, f"[{unknown[0]}]")
        elif not can_select:
            work.drop("selection", "no label and no model to select", segment.text, i)
        elif not choices:
            work.drop("selection", "no sentence to select from", segment.text, i)
        else:
            clauses.append((segment.text, choices))
            numbers.append(i)
    if not clauses:
        return {}
    found = yield from select_citations(work.source.question, clauses, work.source.passages, seed=settings.seed)
    return dict(zip(numbers, found))


def _check_entailment(
    work: _Work, cited: Sequence[tuple[int, Cited, str]], settings: RowSettings
) -> Flow[list[tuple[int, Cited, str]]]:
    """Keep the clauses that their references entail; an unknown score counts as not entailed."""
    if not cited:
        return []
    pairs = tuple((c.reference, text) for _, c, text in cited)
    (answer,) = yield Together((Judge(pairs),), return_errors=True)
    failure = ""
    scores: Sequence[float | None] = [None] * len(cited)
    if isinstance(answer, SelfReflectError):
        failure = f"{type(answer).__name__}: {answer.message}"
    elif isinstance(answer, Exception):
        raise answer
    else:
        scores = answer
    kept = []
    for (i, c, text), score in zip(cited, scores, strict=True):
        if score is None or not 0 <= score <= 1:  # NaN too
            work.drop("entailment", "entailment unknown", text, i, failure or str(score))
        elif score < settings.nli_threshold:
            work.drop("entailment", "not entailed", text, i, f"{score:.3f}: {c.reference}")
        else:
            kept.append((i, c, text))
    return kept


def _apply_policy(work: _Work, settings: RowSettings) -> None:
    lost = [d.segment for d in work.drops if d.segment is not None]
    work.complete = work.complete and not lost
    if lost and settings.on_drop == "discard":
        _leave_out(work, 0, "a segment of the answer was dropped")
    elif lost and settings.on_drop == "truncate":
        before = [k for k, (i, _, _) in enumerate(work.kept) if i > min(lost)]
        _leave_out(work, before[0] if before else len(work.kept), "after a dropped segment")
    if settings.max_pairs is not None and len(work.kept) > settings.max_pairs:
        work.complete = False
        _leave_out(work, settings.max_pairs, "beyond max_pairs")


def _leave_out(work: _Work, start: int, reason: str) -> None:
    for i, _, text in work.kept[start:]:
        work.drop("policy", reason, text, i)
    del work.kept[start:]


# --- rows ----------------------------------------------------------------------------------------------------------


def _rows(work: _Work, settings: RowSettings) -> Iterator[TrainingRow]:
    source = work.source
    question, passages, name = source.question.strip(), source.passages, source.id
    history: list[WrittenPair] = []
    for _, cited, claim in work.kept:
        if "reference" in settings.roles:
            target = (PAIR_GAP if history else "") + REFERENCE_LEAD + cited.quote + REFERENCE_END
            yield TrainingRow("reference", reference_prompt(question, passages, history), target, source=name)
        if "claim" in settings.roles:
            yield TrainingRow("claim", claim_prompt(history, cited.reference), f" {claim}{CLAIM_END}", source=name)
        history.append(WrittenPair(cited.reference, claim))
    if (history and work.complete) or source.declines:  # what declines ends before it began
        if "reference" in settings.roles:
            yield TrainingRow("reference", reference_prompt(question, passages, history), "", ends=True, source=name)
        if "unified" in settings.roles:
            whole = render_pairs([WrittenPair(cited.quote, claim) for _, cited, claim in work.kept]).text
            yield TrainingRow("unified", reference_prompt(question, passages, ()), whole, ends=True, source=name)


def _drop_repeats(works: Sequence[_Work]) -> Iterator[_Work]:
    """Yield the answers, and drop the segments of those that occurred before."""
    seen: dict[Any, str] = {}
    for work in works:
        s = work.source
        shown = tuple((p.id, p.title, p.text) for p in s.passages)
        key = (s.question.strip(), shown, s.answer, s.segments, s.declines)
        first = seen.setdefault(key, s.id)
        if first != s.id:
            reason = "the same answer again"
            work.drops = []
            work.drop("source", reason, s.answer, None, f"as {first}")
            work.kept, work.segments = [], 0
        yield work


def _collect(works: Iterable[_Work], settings: RowSettings) -> tuple[list[TrainingRow], list[Drop]]:
    rows: dict[Any, TrainingRow] = {}
    drops: list[Drop] = []
    for work in works:
        drops += work.drops
        for row in _rows(work, settings):
            first = rows.setdefault(row.key, row)
            if first is not row:
                drops.append(Drop(work.source.id, "rows", "the same row again", row.completion, None, first.source))
        if work.kept and not work.complete and "unified" in settings.roles:
            text = work.kept[-1][2]
            drops.append(Drop(work.source.id, "rows", "unified row of an answer that is not whole", text))
    return list(rows.values()), drops


def _report(
    works: Sequence[_Work],
    rows: Sequence[TrainingRow],
    drops: Sequence[Drop],
    *,
    selector: str | None,
    judge: str | None,
) -> RowReport:
    dropped: dict[str, Counter[str]] = {}
    for drop in drops:
        dropped.setdefault(drop.stage, Counter())[drop.reason] += 1
    declining = {w.source.id for w in works if w.source.declines}
    return RowReport(
        sources=len(works),
        answers=len({r.source for r in rows}),
        segments=sum(w.segments for w in works),
        pairs=sum(len(w.kept) for w in works),
        rows=dict(sorted(Counter(r.role for r in rows).items())),
        ends=sum(r.ends for r in rows),
        declines=sum(r.ends and not r.completion and r.source in declining for r in rows),
        dropped={stage: dict(sorted(reasons.items())) for stage, reasons in sorted(dropped.items())},
        selector=selector,
        judge=judge,
    )
