"""Ask the questions of a calibration and log the results, so that no purpose and no later run asks them again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from shared_core.evaluation.dataset import Question
from shared_core.support.run_log import Batches, Progress, RunLog, digest_of_values

if TYPE_CHECKING:
    from shared_core.facades.engine import SelfReflectEngine

__all__ = ["Progress", "ask_each", "digest_of"]

T = TypeVar("T")


def digest_of(engine: SelfReflectEngine, more: Mapping[str, Any] | None = None) -> str:
    """Hash everything that an engine's answers depend on: models, parts, settings, calibrations; and ``more``."""
    values = {
        "binding": engine.claims_binding,
        "settings": engine.settings.model_dump(mode="json", exclude={"calibration"}),
        "calibrations": {n: c.to_dict() for n, c in engine.context.every_calibration.items()},
        "more": more,
    }
    return digest_of_values(values)[:16]


def ask_each(
    questions: Sequence[Question],
    ask: Callable[[Sequence[Question]], Sequence[T | Exception]],
    *,
    kept: RunLog,
    part: str,
    dump: Callable[[T], Any],
    load: Callable[[Any], T],
    together: int,
    progress: Progress | None = None,
) -> list[T | Exception]:
    """Ask every question that the log does not hold yet, in batches, and return what came of each.

    Args:
        questions: to ask.
        ask: gives a result or an error for each question of a batch; errors are not logged.
        kept: log of the results.
        part: names what is asked and of which configuration (``digest_of``), so that no other row is taken for it.
        dump, load: to plain values and back.
        together: questions of a batch.
        progress: called after every batch.

    Raises:
        InputError: the log cannot be written, or another process is writing to it.
    """
    keys = [digest_of_values([part, q.question, q.answers, q.answerable is False])[:24] for q in questions]
    by_key = dict(zip(keys, questions))
    made: dict[str, T | Exception] = {}

    def work(batches: Batches) -> Generator[tuple[dict[str, Any], dict[str, Exception]], None, None]:
        for batch in batches:
            found = dict(zip(batch, ask([by_key[key] for key in batch]), strict=True))
            made.update(found)
            failed = {key: result for key, result in found.items() if isinstance(result, Exception)}
            yield {key: dump(r) for key, r in found.items() if not isinstance(r, Exception)}, failed

    kept.fill(keys, work, batch_size=together, progress=progress)
    return [made[key] if key in made else load(kept.rows.get(key)) for key in keys]
