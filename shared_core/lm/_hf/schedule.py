"""Group requests into batches, decode each in the way that suits it, and recover when a batch fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from shared_core.errors import GenerationError, GrammarError, LanguageModelError
from shared_core.lm._hf.cache import PrefixCache
from shared_core.lm._hf.decode import Decoder, Job, Session
from shared_core.lm._hf.forest import Forest
from shared_core.lm._hf.model import Runner
from shared_core.lm._hf.plan import Row, plan_rows, waves
from shared_core.lm._hf.probe import Suits, Way
from shared_core.lm._hf.repeated import Repeated

logger = logging.getLogger(__name__)

_LOGITS = 1 << 29  # bytes of one step's logits at most


@dataclass(frozen=True, slots=True)
class Wave:
    """A batch that fits in memory: a session of a suitable kind, and rows of job indices."""

    session: Session
    rows: list[Row]


class Scheduler:
    """Runner of jobs over one model, one call at a time; the caller holds the lock and is in inference mode.

    Attributes:
        peak_bytes: the most bytes of keys and values that a batch of the last call held.
    """

    def __init__(
        self,
        runner: Runner,
        suits: Suits,
        decoder: Callable[[Session], Decoder],
        *,
        layout: str,
        outputs: int,
        cache_bytes: int,
        prefix_bytes: int,
        name: str,
    ) -> None:
        """``outputs`` is the size of the vocabulary; ``name`` is the model's, for the log."""
        self._runner, self._suits, self._decoder, self._layout = runner, suits, decoder, layout
        self._max_slots = max(1, cache_bytes // runner.slot_bytes)
        self._max_branches = max(1, _LOGITS // (4 * outputs))  # float32 logits, one row for each branch
        self._cost, self._name = runner.cost, name
        self._warned = False  # of the window, of which there is one at most
        self.prefixes = PrefixCache(prefix_bytes)
        self.peak_bytes = 0

    def run(self, jobs: Sequence[Job]) -> None:
        """Carry out the jobs; afterwards each holds its branches or its error."""
        self.peak_bytes = 0
        self.prefixes.belong_to(self._runner.stamp())
        for wave in self.waves(jobs):
            self._run_wave(wave, jobs)

    def _run_wave(self, wave: Wave, jobs: Sequence[Job]) -> None:
        chosen = sorted({i for row in wave.rows for i in row.members})
        self._attempt(wave, [jobs[i] for i in chosen], [[chosen.index(i) for i in r.members] for r in wave.rows])
        # One bad request must not fail its neighbours (and a batch may be too large for the memory there is): what
        # failed in company is tried again in two halves.
        failed = [jobs[i] for i in chosen if jobs[i].error and not isinstance(jobs[i].error, GrammarError)]
        if len(chosen) == 1 or not failed:
            return
        middle = (len(failed) + 1) // 2
        for half in (failed[:middle], failed[middle:]):
            for job in half:
                job.error = None
            for again in self.waves(half):
                self._run_wave(again, half)

    def _attempt(self, wave: Wave, jobs: list[Job], rows: list[list[int]]) -> None:
        decoder = self._decoder(wave.session)
        try:
            self._runner.settle()
            with self._runner.tapped([j.tap for j in jobs if j.tap is not None]):
                decoder.run(jobs, rows, [r.lanes for r in wave.rows])
        except LanguageModelError as error:  # of the model, in whatever way it failed
            self._fail(jobs, error)
        except (RuntimeError, MemoryError) as error:  # torch's, outside the model: mostly memory
            failure = GenerationError(
                f"Decoding failed: {type(error).__name__}: {error}",
                hint="If memory ran out: fewer or shorter prompts at once, a smaller n, or a smaller dtype.",
            )
            failure.__cause__ = error
            self._fail(jobs, failure)
        self.peak_bytes = max(self.peak_bytes, decoder.peak_bytes, wave.session.cache_bytes)

    def _fail(self, jobs: Sequence[Job], error: LanguageModelError) -> None:
        logger.debug("A batch of %d requests failed.", len(jobs), exc_info=error)
        for job in jobs:
            job.error = job.error or error

    # --- which way ---------------------------------------------------------------------------------------------

    def waves(self, jobs: Sequence[Job]) -> list[Wave]:
        """Cut the jobs into batches that fit in memory, each decoded in the way that suits it."""
        switch = self._suits.traits.switch
        trees: dict[bool, list[int]] = {}
        batches: dict[tuple[Way, bool, int], list[int]] = {}
        for i, job in enumerate(jobs):
            # Where frequencies switch, a forward pass must not hold both short sequences and long ones.
            short = switch is None or job.reach <= switch.length
            long = switch is not None and switch.kind == "longrope" and len(job.ids) > switch.length
            if self._in_tree(job) and (short or long):
                trees.setdefault(long, []).append(i)
                continue
            try:
                way: Way = self._suits.way(job.reach)
            except LanguageModelError as error:
                job.error = error
                continue
            grows = not short and len(job.ids) - 1 <= (switch.length if switch else 0)
            if not short and switch is not None and switch.kind == "dynamic":
                way = "whole"  # every length has frequencies of its own
            even = way != "padded" or grows
            batches.setdefault((way, short, len(job.ids) if even else 0), []).append(i)
        found: list[Wave] = []
        for long, members in trees.items():
            anchor = switch.length if long and switch is not None else None
            for rows in self._tree_rows(jobs, members):
                found.append(Wave(Forest(self._runner, self.prefixes, anchor), rows))
        # Prompts of a batch are of one length where padding would change logits: the length is part of the key.
        for (way, short, _), members in batches.items():
            rebuilt = None if short or switch is None else switch.length
            for rows in self._plain_rows(jobs, members):
                found.append(Wave(Repeated(self._runner, cached=way != "whole", switch=rebuilt), rows))
        return found

    def _in_tree(self, job: Job) -> bool:
        if self._suits.obstacle:
            return False
        window = self._suits.traits.window
        if window is None or job.reach <= window.length:
            return True
        if not self._warned:
            self._warned = True
            logger.warning(
                "%s: sequences longer than its %s of %s tokens are decoded as a plain batch, not as trees.",
                self._name,
                window.name.replace("_", " "),
                window.length,
            )
        return False

    def _tree_rows(self, jobs: Sequence[Job], members: Sequence[int]) -> list[list[Row]]:
        chosen = [jobs[i] for i in members]
        rows = plan_rows(
            [j.ids[:-1] for j in chosen],
            [j.width for j in chosen],
            [j.steps for j in chosen],
            self._cost,
            join={"tree": True, "rows": False}.get(self._layout),
            max_slots=self._max_slots,
        )
        of_jobs = [replace(r, members=tuple(members[i] for i in r.members)) for r in rows]
        return waves(of_jobs, self._max_slots, self._max_branches)

    def _plain_rows(self, jobs: Sequence[Job], members: Sequence[int]) -> list[list[Row]]:
        rows = [
            Row((i,), 0, 0, len(jobs[i].ids), len(jobs[i].ids), jobs[i].width, jobs[i].steps, jobs[i].width)
            for i in sorted(members, key=lambda i: len(jobs[i].ids))  # neighbours need little padding
        ]
        return waves(rows, self._max_slots, self._max_branches)
