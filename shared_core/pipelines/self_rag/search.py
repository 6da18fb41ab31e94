"""The search for the best path: which passages it is tried with, and what of it is settled. It knows no model.

At every step each open path says what comes next. The continuations of all of them are one batch; the hard constraint
and the width then decide which paths live on. What all living paths share is settled: it is sealed and can be shown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from shared_core.errors import ContextOverflowError, LimitError
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.self_rag.segments import Job, Move, Step, Writer, Written, WrittenPath, WrittenSegment
from shared_core.reflection import Beam, Path
from shared_core.runtime.flow import Flow, Report, Retrieve, Together
from shared_core.types import Passage, Retrieved

_BY_MODE: dict[str, dict[Move, Move]] = {
    "adaptive": {},
    "always": {"none": "retrieve"},
    "never": {"retrieve": "none", "continue": "none"},
}


@dataclass(slots=True)
class Shelf:
    """The passages found for one question, by query.

    Attributes:
        passages: by id, in the order in which they were found.
        written: segments that were written, whether kept or not.
    """

    question: str
    run: QuestionRun
    passages: dict[str, Passage] = field(default_factory=dict)
    written: int = 0
    _found: dict[str, tuple[Passage, ...]] = field(default_factory=dict)

    @property
    def searched(self) -> bool:
        """Whether anything was looked up, with whatever result."""
        return bool(self._found)

    def query(self, path: WrittenPath) -> str:
        """The question, and for a later segment the segment before it."""
        if not path.segments or not self.run.settings.self_rag.published.retrieve_again:
            return self.question
        return f"{self.question} {path.segments[-1].payload.text}"

    def look_up(self, paths: Sequence[WrittenPath]) -> Flow[None]:
        """Retrieve for the paths whatever was not looked up before, in one batch."""
        settings = self.run.settings
        queries = [q for q in dict.fromkeys(map(self.query, paths)) if q not in self._found]
        results = yield Together(tuple(Retrieve(q, settings.top_k, settings.where) for q in queries))
        for query, found in zip(queries, results):
            self._found[query] = found
            self.passages |= {p.id: p for p in found if p.id not in self.passages}
            yield Report(Retrieved(query, found))

    def of(self, path: WrittenPath) -> tuple[Passage, ...]:
        """The passages found for a path."""
        return self._found.get(self.query(path), ())


def search(
    shelf: Shelf, writer: Writer, width: int, max_depth: int, seal: Callable[[WrittenSegment], Flow[None]] | None
) -> Flow[tuple[WrittenPath, ...]]:
    """The best paths, best first; none with segments if nothing could be written.

    A limit of the settings ends the search with what it has. The trace holds ``retrieve`` for the first decision and
    ``segment`` for each step. ``seal`` gets each segment as soon as it is settled.
    """
    run, options = shelf.run, shelf.run.settings.self_rag
    rank: Literal["sum", "mean"] = options.published.compare
    # As published, answers of the short form compete by their scores alone: in a closed set each adds to its answer's.
    hard = options.published.hard_constraint and options.form == "long"
    beam: Beam[Written] = Beam((Path(),), width, max_depth, hard, rank)
    sealed = 0
    depth = 0
    # One iteration is one segment on every open path: two batches (decide, write) whatever the width.
    while beam.open and run.trace.limit is None:
        growing = beam.open
        steps = yield from _steps(growing, writer, run)
        groups = yield from _continue(growing, steps, shelf, writer)
        beam = beam.advance(groups)
        depth += 1
        yield run.note(
            "segment",
            f"{len(beam.paths)} paths kept",
            "",
            depth=depth,
            continuations=sum(map(len, groups)),
            pruned=beam.pruned,
            ended=len(beam.paths) - len(beam.open),
            best_score=beam.best.mean_score if beam.best.segments else None,
            passage=beam.best.segments[-1].passage_id if beam.best.segments else None,
        )
        # A common prefix only grows as the beam advances, so what was sealed is never taken back.
        settled = shared(beam.paths)
        if seal is not None:
            for segment in settled[sealed:]:
                yield from seal(segment)
        sealed = max(sealed, len(settled))
    return beam.paths


def shared(paths: Sequence[WrittenPath]) -> tuple[WrittenSegment, ...]:
    """The segments that all paths begin with: no later step can take them back."""
    common: list[WrittenSegment] = []
    for segments in zip(*(p.segments for p in paths)):
        # By identity: two paths may have written the same words from different passages.
        if any(s.payload is not segments[0].payload for s in segments):
            break
        common.append(segments[0])
    return tuple(common)


def _steps(growing: Sequence[WrittenPath], writer: Writer, run: QuestionRun) -> Flow[list[Step]]:
    """Choose the next step on each path, by the mode of the settings."""
    mode = run.settings.self_rag.mode
    # All open paths have the same depth: at the root there is one path, and one decision for it.
    if growing[0].segments:
        steps = yield from writer.ask_next(growing)
    elif mode == "adaptive":
        steps = [(yield from writer.begin())]
    else:
        steps = [Step("retrieve" if mode == "always" else "none", None, f"mode {mode}")]
    # Swapped afterwards, so that "end" is still the model's decision in every mode.
    swaps = _BY_MODE[mode]
    steps = [dataclasses.replace(s, move=swaps.get(s.move, s.move)) for s in steps]
    if not growing[0].segments:
        yield run.note("retrieve", steps[0].move, steps[0].reason, probability=steps[0].probability)
    return steps


def _continue(
    growing: Sequence[WrittenPath], steps: Sequence[Step], shelf: Shelf, writer: Writer
) -> Flow[list[list[WrittenSegment]]]:
    """The continuations of each path, all written in one batch; none where a limit was reached."""
    try:
        yield from shelf.look_up([p for p, s in zip(growing, steps) if s.move == "retrieve"])
    except LimitError as error:
        yield shelf.run.stop(error)
        return [[] for _ in growing]  # the beam then closes each path as it is
    jobs = [job for path, step in zip(growing, steps) for job in _jobs(path, step.move, shelf)]
    written: Sequence[WrittenSegment | None] = [None] * len(jobs)
    try:
        written = (yield from writer.write(jobs)) if jobs else []
    except ContextOverflowError as error:
        if not growing[0].segments or shelf.run.settings.on_overflow == "raise":
            raise
        yield shelf.run.note("context", "the answer ends here", error.message)  # no path can grow
    shelf.written += sum(segment is not None for segment in written)
    # By identity, because paths with equal texts are still different paths of the beam.
    groups: dict[int, list[WrittenSegment]] = {id(path): [] for path in growing}
    for job, segment in zip(jobs, written):
        if segment is not None and not _repeats(job.path, segment):
            groups[id(job.path)].append(segment)
    return [groups[id(path)] for path in growing]


def _jobs(path: WrittenPath, move: Move, shelf: Shelf) -> list[Job]:
    if move == "end":
        return []
    if move == "retrieve":
        # Nothing found, no job: the path ends, and does not go on from memory.
        return [Job(path, move, passage) for passage in shelf.of(path)]
    last = path.segments[-1].payload.passage if path.segments else None
    # Without a passage there is none to continue with; the model then writes from memory.
    if move == "continue" and last is not None:
        return [Job(path, move, last)]
    return [Job(path, "none")]


def _repeats(path: WrittenPath, segment: WrittenSegment) -> bool:
    """Whether the path says that already: a model that loops has come to its end."""
    said = {_plain(s.payload.text) for s in path.segments}
    return _plain(segment.payload.text) in said


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
