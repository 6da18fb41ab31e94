"""Ask several systems the same questions, batch by batch, in shards, resumable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict, Unpack

from shared_core.errors import InputError, SettingsError
from shared_core.evaluation.compare.outcomes import ComparisonRow, Measure, row_of
from shared_core.evaluation.compare.page import Comparison
from shared_core.evaluation.compare.run_folder import Known, Run, continue_run, describe, read_run, versions, write_run
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.judging import Record
from shared_core.evaluation.runner import AnswersMany, ask_batch, warn_fitted_on, warn_no_recall
from shared_core.support.run_log import Progress, digest_of_values, require_same

Shard = tuple[int, int]
"""Number of the shard from 1, and how many there are."""


class FigureOptions(TypedDict, total=False):
    """Options of the figures of a comparison.

    >>> options: FigureOptions = {"targets": (0.5, 0.9), "resamples": 200}

    Attributes:
        targets: target accuracies ρ* at which accuracy, coverage and utility are given; by default 0.5, 0.7, 0.8, 0.9
            and those of the systems.
        baseline: configuration that the others are compared with; by default the first.
        resamples, level, seed: of the bootstrap; 1,000 draws, 95 % and 0 by default. No intervals with 0 draws.
    """

    targets: Sequence[float]
    baseline: str
    resamples: int
    level: float
    seed: int


_Write = Callable[[Sequence[ComparisonRow]], None]
_Batch = list[tuple[int, Question]]


def compare(
    systems: Mapping[str, AnswersMany],
    questions: Sequence[Question],
    *,
    folder: str | Path | None = None,
    batch_size: int = 16,
    shard: Shard | None = None,
    measures: Mapping[str, Measure] | None = None,
    made_with: Mapping[str, Mapping[str, Any]] | None = None,
    about: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    **options: Unpack[FigureOptions],
) -> Comparison:
    """Ask every system every question, judge the answers, and compare.

    All systems are asked one batch before the next begins, with another one first each time, so that shared resources
    (cached vectors, a warm model) favour none. With a ``folder`` every answer is on disk before more is asked, and its
    earlier answers of the same configuration are reused; failed questions are asked again. Questions that a system's
    calibration was fitted on draw a warning; each session records how many there were (``fitted_on``).

    Args:
        systems: engines, or anything that answers a batch, by name.
        questions: with distinct ids (``read_questions``).
        folder: of this run, made if missing, or of an earlier one to continue. ``save`` adds files to it.
        shard: (i, n) asks every n-th question, beginning with the i-th; ``merge`` combines shards.
        measures: custom figures by name.
        made_with: descriptions by name, for systems that ``describe`` does not know.
        about: more facts for ``run.json``.
        progress: called as ``progress(done, total)`` at the start and after every batch of every system.
        options: targets, baseline and bootstrap, see ``FigureOptions``.

    Raises:
        InputError: no systems, no questions, ids that are not distinct, an unknown shard, or a system that does not
            answer each question; a folder of other files, another configuration, or other questions of the same ids.
        SettingsError: a batch size below 1, or a target, level or number of draws out of range.
        DocumentError: the folder cannot be used.
    """
    chosen = _choose(questions, shard)
    if not systems or not all(systems):
        raise InputError("There is nothing to compare: name at least one system.")
    if batch_size < 1:
        raise SettingsError(f"batch_size must be at least 1, not {batch_size!r}.")
    known: Known = {}
    described = {n: (made_with or {}).get(n) or describe(system, known) for n, system in systems.items()}
    # Invalid arguments are refused before anything is asked.
    Comparison(Run(described, (), [ComparisonRow(name, 0, Record("", "", (), None)) for name in described]), **options)
    several = len(systems) > 1
    seen = {n: warn_fitted_on(system, [q for _, q in chosen], n if several else "") for n, system in systems.items()}
    session = _session(questions, shard, batch_size, {"fitted_on": seen, **(about or {})})
    rows: list[ComparisonRow] = []
    unkept: tuple[Run, _Write] = Run(described, [session], ()), lambda rows: None
    with nullcontext(unkept) if folder is None else continue_run(folder, described, session) as (before, write):
        done = _done(before, systems, chosen)
        total = len(systems) * len(chosen)
        if progress is not None:
            progress(len(done), total)
        if len(done) < total:
            _warm_up(systems)
        for name, todo in _plan(tuple(systems), chosen, batch_size, done):
            answers, seconds = ask_batch(name, systems[name], [q for _, q in todo])
            made = [row_of(name, at, q, a, seconds, measures or {}) for (at, q), a in zip(todo, answers)]
            write(made)
            rows += made
            if progress is not None:
                progress(len(done) + len(rows), total)
    warn_no_recall(row.record for row in rows)
    run = Run(before.configurations, before.sessions, [*before.rows, *rows])
    return Comparison(run, only=frozenset(q.id for _, q in chosen), **options)


def merge(
    folders: Sequence[str | Path], output: str | Path | None = None, **options: Unpack[FigureOptions]
) -> Comparison:
    """Merge shards of one evaluation, or evaluations of other configurations on the same questions.

    Args:
        folders: of runs; a single one is read again.
        output: folder for all their answers; by default none is written.
        options: targets, baseline and bootstrap, see ``FigureOptions``.

    Raises:
        InputError: no folders, a folder that is not a run's, different configurations of one name, or one id for
            different questions.
        DocumentError: a folder cannot be read or written.
    """
    if not folders:
        raise InputError("There is nothing to merge: name the folders of runs.")
    runs = [read_run(folder) for folder in folders]
    configurations: dict[str, Mapping[str, Any]] = {}
    asked: dict[str, ComparisonRow] = {}
    kept: dict[tuple[str, str], ComparisonRow] = {}
    for folder, run in zip(folders, runs):
        require_same(configurations, run.configurations, str(folder))
        configurations.update(run.configurations)
        for row in run.rows:
            first = asked.setdefault(row.record.id, row)
            if not row.is_of(first.record):
                raise InputError(f"In {folder} the question {row.record.id!r} is another than in {folders[0]}.")
            if row.key not in kept or kept[row.key].record.error or not row.record.error:
                kept[row.key] = row
    order = {name: number for number, name in enumerate(configurations)}
    rows = sorted(kept.values(), key=lambda row: (row.position, row.record.id, order[row.configuration]))
    merged = Run(configurations, [session for run in runs for session in run.sessions], rows)
    found = Comparison(merged, **options)
    if output is not None and [Path(f).resolve() for f in folders] != [Path(output).resolve()]:
        write_run(output, merged)
    return found


def missing_shards(sessions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the shards, as ``2/4``, that no session asked although a sibling was; none if one asked everything."""
    seen = {session.get("shard") for session in sessions}
    if None in seen:
        return []
    counts = {int(str(shard).partition("/")[2]) for shard in seen}
    return [f"{i}/{n}" for n in sorted(counts) for i in range(1, n + 1) if f"{i}/{n}" not in seen]


def _choose(questions: Sequence[Question], shard: Shard | None) -> _Batch:
    if not questions:
        raise InputError("There are no questions to ask.")
    if len({q.id for q in questions}) < len(questions):
        raise InputError("Two questions have the same id.", hint="Ids tell which questions are done.")
    numbered = list(enumerate(questions))
    if shard is None:
        return numbered
    number, count = shard
    if not 1 <= number <= count:
        raise InputError(f"There is no shard {number} of {count}.", hint="1/4, 2/4, 3/4, 4/4")
    if len(numbered) < number:
        raise InputError(f"Shard {number} of {count} has no questions: there are {len(numbered)}.")
    return numbered[number - 1 :: count]


def _session(
    questions: Sequence[Question], shard: Shard | None, batch_size: int, about: Mapping[str, Any]
) -> dict[str, Any]:
    known = [[q.id, q.question, q.answers, q.answerable] for q in questions]
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "questions": {"count": len(questions), "sha256": digest_of_values(known)},
        "shard": None if shard is None else f"{shard[0]}/{shard[1]}",
        "batch_size": batch_size,
        "versions": versions(),
        **about,
    }


def _done(before: Run, systems: Mapping[str, AnswersMany], chosen: _Batch) -> set[tuple[str, str]]:
    """Return the (configuration, question) pairs that are answered already."""
    by_id = {q.id: q for _, q in chosen}
    done = set()
    for row in before.rows:
        question = by_id.get(row.record.id)
        if question is None:
            continue
        if not row.is_of(question):
            raise InputError(
                f"The question {question.id!r} or its answers differ from those that were asked here before.",
                hint="Give a folder of its own.",
            )
        if row.configuration in systems and not row.record.error:
            done.add(row.key)
    return done


def _plan(
    names: tuple[str, ...], chosen: _Batch, batch_size: int, done: set[tuple[str, str]]
) -> Iterator[tuple[str, _Batch]]:
    """Yield each system with its next batch; batches are cut as if nothing was done yet, so that they stay the same."""
    for number, start in enumerate(range(0, len(chosen), batch_size)):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            todo = [(at, q) for at, q in chosen[start : start + batch_size] if (name, q.id) not in done]
            if todo:
                yield name, todo


def _warm_up(systems: Mapping[str, AnswersMany]) -> None:
    """Load everything now; otherwise the first system asked would pay for it in seconds."""
    for system in systems.values():
        warm_up = getattr(system, "warm_up", None)
        if callable(warm_up):
            warm_up()
