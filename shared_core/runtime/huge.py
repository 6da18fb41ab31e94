"""Passages that are whole books: their beginning is read."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from functools import lru_cache

from shared_core.types import Decision, Passage

logger = logging.getLogger(__name__)
LONGEST = 100_000
"""Characters of a passage that are read (some 40 pages; passages usually have hundreds)."""
_CUT_FROM = "selfreflect_cut_from"


def cut_huge(passage: Passage) -> Passage:
    """Return the beginning of a passage that is longer than ``LONGEST``, with a note; another one as it is.

    Reading takes time by length, so one whole book would outlast every deadline. Offsets hold in its whole text.
    """
    length = len(passage.text)
    if length <= LONGEST:
        return passage
    # Not within a sentence, if one ends nearby.
    end = max(passage.text.rfind(sign, LONGEST - 2_000, LONGEST) for sign in ("\n", ". ", "。")) + 1 or LONGEST
    _warn(passage.id, length, end)
    metadata = {**passage.metadata, _CUT_FROM: length}
    start = metadata.get("start")
    if isinstance(start, int) and metadata.get("end") == start + length:
        metadata["end"] = start + end
    return dataclasses.replace(passage, text=passage.text[:end], metadata=metadata)


@lru_cache(maxsize=256)
def _warn(name: str, length: int, end: int) -> None:
    """Warn once of each passage."""
    logger.warning(
        "The passage %.100s has %s characters, of which the first %s are read. Split documents before indexing.",
        name,
        f"{length:,}",
        f"{end:,}",
    )


def note_huge(passages: Sequence[Passage]) -> tuple[Decision, ...]:
    """Return the trace's note on passages that were cut; none if there are none."""
    cut = [p for p in passages if _CUT_FROM in p.metadata]
    if not cut:
        return ()
    reason = f"of passages of more than {LONGEST:,} characters only the beginning is read: " + ", ".join(
        p.id for p in cut
    )
    return (Decision("passages", f"{len(cut)} cut", reason[:500], {"cut": len(cut), "longest": LONGEST}),)
