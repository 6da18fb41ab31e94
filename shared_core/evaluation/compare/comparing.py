"""Asking several systems the same questions: resumable, in shards, batch by batch."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shared_core.errors import InputError, SettingsError
from shared_core.evaluation.compare.comparison import Comparison
from shared_core.evaluation.compare.provenance import Known, describe, hash_of_questions, versions
from shared_core.evaluation.compare.rows import Measure, Row, row_of
from shared_core.evaluation.compare.run_folder import Run, continue_run, read_run, write_run
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.fitting.seen import warn_fitted_on
from shared_core.evaluation.runner import AnswersMany, Progress, Record
from shared_core.support.run_log import require_same

Shard = tuple[int, int]
"""(number from 1, of how many)."""
_Write = Callable[[Sequence[Row]], None]
_Batch = list[tuple[int, Question]]


def compare(
    systems: Mapping[str, AnswersMany],
    questions: Sequence[Question],
    *,
    folder: str | Path | None = None,
    batch_size: int = 16,
    shard: Shard | None = None,
    targets: Sequence[float] = (),
    baseline: str = "",
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    measures: Mapping[str, Measure] | None = None,
    made_with: Mapping[str, Mapping[str, Any]] | None = None,
    about: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Ask every system every question, judge the answers, and compare.

    All systems are asked one batch before the next begins, another one first each time, so that what they share (kept
    vectors, a warm model) favours none. With a ``folder`` every answer is on the disk before more is asked, and what
    was asked there before, of the same configuration, is not asked again; a question that failed is. Questions that a
    system's calibration was fitted on draw a warning; each session notes how many there were (``fitted_on``).

    Args:
        systems: engines, or whatever answers a batch, by the name that they are to have.
        questions: of distinct ids (``read_questions``).
        folder: of this run, made if it is not there, or of an earlier one that is to go on. ``save`` adds files to it.
        batch_size: questions asked at once.
        shard: (i, n) asks every n-th question only, beginning with the i-th; ``merge`` puts shards together.
        targets: target accuracies ρ* at which accuracy, coverage and utility are given; if none are, 0.5, 0.7, 0.8, 0.9
            and those that the systems are set to.
        baseline: whom the others are compared with; the first if not named.
        resamples, level, seed: of the bootstrap; no intervals with 0 resamples.
        measures: figures of one's own, by name.
        made_with: descriptions by name, where ``describe`` does not know what a system's answers depend on.
        about: further facts for ``run.json``.
        progress: told (done, all) answers, at the start and after every batch of every system.

    Raises:
        InputError: no systems, no questions, ids that are not distinct, a shard that there is not, a system that does
            not answer each question; a folder of other files, another configuration or other questions of those ids.
        SettingsError: a batch size below 1, a target, level or number of draws out of range.
        DocumentError: the folder cannot be used.
    """
    chosen = _choose(questions, shard)
    if not systems or not all(systems):
        raise InputError("There is nothing to compare: name at least one system.")
    if batch_size < 1:
        raise SettingsError(f"batch_size must be at least 1, not {batch_size!r}.")
    if resamples < 0:
        raise SettingsError(f"resamples must be at least 0, not {resamples!r}.")
    known: Known = {}
    described = {n: (made_with or {}).get(n) or describe(system, known) for n, system in systems.items()}
    compared = functools.partial(
        Comparison, targets=targets, baseline=baseline, resamples=resamples, level=level, seed=seed
    )
    # What it refuses is refused before anything is asked.
    compared(Run(described, (), [Row(name, 0, Record("", "", (), None)) for name in described]))
    several = len(systems) > 1
    seen = {n: warn_fitted_on(system, [q for _, q in chosen], n if several else "") for n, system in systems.items()}
    session = _session(questions, shard, batch_size, {"fitted_on": seen, **(about or {})})
    rows: list[Row] = []
    with _kept(folder, described, session) as (before, write):
        done = _done(before, systems, chosen)
        total = len(systems) * len(chosen)
        if progress is not None:
            progress(len(done), total)
        if len(done) < total:
            _warm_up(systems)
        for name, todo in _plan(tuple(systems), chosen, batch_size, done):
            made = _ask(name, systems[name], todo, measures or {})
            write(made)
            rows += made
            if progress is not None:
                progress(len(done) + len(rows), total)
    run = Run(before.configurations, before.sessions, [*before.rows, *rows])
    return compared(run, only=frozenset(q.id for _, q in chosen))


def merge(folders: Sequence[str | Path], output: str | Path | None = None, **options: Any) -> Comparison:
    """Shards of one evaluation, or evaluations of other configurations with the same questions, as one.

    Args:
        folders: of runs. One alone is read anew.
        output: a folder for all of their answers; none is written if it is not given.
        options: as of ``Comparison``.

    Raises:
        InputError: none, a folder that is no run's, configurations of one name that are not the same, or one id for
            different questions.
        DocumentError: a folder cannot be read or written.
    """
    if not folders:
        raise InputError("There is nothing to merge: name the folders of runs.")
    runs = [read_run(folder) for folder in folders]
    configurations: dict[str, Mapping[str, Any]] = {}
    asked: dict[str, Row] = {}
    kept: dict[tuple[str, str], Row] = {}
    for folder, run in zip(folders, runs):
        require_same(configurations, run.configurations, str(folder))
        configurations.update(run.configurations)
        for row in run.rows:
            first = asked.setdefault(row.record.id, row)
            if not row.is_of(_question_of(first)):
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
    """Shards, as ``2/4``, that no session worked on although others of as many did; none where one asked everything."""
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
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "questions": {"count": len(questions), "sha256": hash_of_questions(questions)},
        "shard": None if shard is None else f"{shard[0]}/{shard[1]}",
        "batch_size": batch_size,
        "versions": versions(),
        **about,
    }


@contextmanager
def _kept(
    folder: str | Path | None, described: Mapping[str, Mapping[str, Any]], session: Mapping[str, Any]
) -> Iterator[tuple[Run, _Write]]:
    if folder is None:
        yield Run(described, [session], ()), lambda rows: None
        return
    with continue_run(folder, described, session) as found:
        yield found


def _done(before: Run, systems: Mapping[str, AnswersMany], chosen: _Batch) -> set[tuple[str, str]]:
    """(configuration, question) of what need not be asked again."""
    by_id = {q.id: q for _, q in chosen}
    done = set()
    for row in before.rows:
        question = by_id.get(row.record.id)
        if question is None:
            continue
        if not row.is_of(question):
            raise InputError(
                f"The question {question.id!r} or its answers are not those that were asked here before.",
                hint="Give a folder of its own.",
            )
        if row.configuration in systems and not row.record.error:
            done.add(row.key)
    return done


def _plan(
    names: tuple[str, ...], chosen: _Batch, batch_size: int, done: set[tuple[str, str]]
) -> Iterator[tuple[str, _Batch]]:
    """What to ask of whom, in order. Batches begin where they would if nothing was done yet: they are the same ones."""
    for number, start in enumerate(range(0, len(chosen), batch_size)):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            todo = [(at, q) for at, q in chosen[start : start + batch_size] if (name, q.id) not in done]
            if todo:
                yield name, todo


def _warm_up(systems: Mapping[str, AnswersMany]) -> None:
    """Have what is loaded at first need loaded now, or its seconds would be those of whoever is asked first."""
    for system in systems.values():
        warm_up = getattr(system, "warm_up", None)
        if callable(warm_up):
            warm_up()


def _ask(name: str, system: AnswersMany, batch: _Batch, measures: Mapping[str, Measure]) -> list[Row]:
    began = time.perf_counter()
    answers = system.answer_many([q.question for _, q in batch])
    seconds = (time.perf_counter() - began) / len(batch)
    if len(answers) != len(batch):
        raise InputError(f"{name} gave {len(answers)} answers to {len(batch)} questions.")
    return [row_of(name, at, q, answer, seconds, measures) for (at, q), answer in zip(batch, answers)]


def _question_of(row: Row) -> Question:
    return Question(row.record.id, row.record.question, row.record.answers, row.record.answerable)
