"""Leave out what is about another entry than the question: another option, code or row of a table.

To the network ``-s`` is as ``-w``, ``E4`` as ``E1``, and a row of a table as its neighbour.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared_core.reading.candidates import Candidate
from shared_core.reading.features import Words, is_among
from shared_core.reading.prepared import Asked
from shared_core.support.options import find_codes, find_options, is_of_another, options_described
from shared_core.types import Passage

_ROW = re.compile(r"[ \t]*(?:\|[^\n]*\||([^\W\d_][^:;|\n]{0,39}): [^;\n]*; [^\n]*)[ \t]*$", re.MULTILINE)
_LONGEST = 240
"""Characters of a table's row at most; longer ones hold prose, which may speak of a thing without its name."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A candidate, its passage, and the words of that."""

    passage: Passage
    words: Words
    candidate: Candidate


def of_entries_asked(asked: Asked, entries: Sequence[Entry]) -> list[int]:
    """Return the numbers of the candidates that may be about what is asked; all where nothing tells them apart."""
    kept = _of_options(asked.text, entries, range(len(entries)))
    kept = _of_codes(asked.text, entries, kept)
    return _of_rows(asked.words, entries, kept)


def _of_options(question: str, entries: Sequence[Entry], kept: Sequence[int]) -> Sequence[int]:
    """Keep the candidates that describe an option of the question, if any do."""
    wanted = set(find_options(question))
    if not wanted:
        return kept

    def describes(entry: Entry) -> bool:
        passage, c = entry.passage, entry.candidate
        above = f"{passage.title} {passage.metadata.get('section', '')}"
        return not wanted.isdisjoint({*options_described(passage.text, c.start, c.end), *find_options(above)})

    return [i for i in kept if describes(entries[i])] or kept


def _of_codes(question: str, entries: Sequence[Entry], kept: Sequence[int]) -> Sequence[int]:
    """Leave out the entries of other codes than the question's, if a passage has that."""
    wanted = set(find_codes(question))
    if not any(not wanted.isdisjoint(find_codes(entries[i].passage.text)) for i in kept):
        return kept
    places = [(i, entries[i].passage.text, entries[i].candidate) for i in kept]
    return [i for i, text, c in places if not is_of_another(wanted, text, c.start, c.end)] or kept


def _of_rows(question: Words, entries: Sequence[Entry], kept: Sequence[int]) -> list[int]:
    """Leave out a row that holds only some of the question's words that another row of the table holds."""
    tables: dict[tuple[str, str], dict[int, NDArray[np.bool_]]] = defaultdict(dict)
    for i in kept:
        entry = entries[i]
        start = entry.passage.text.rfind("\n", 0, entry.candidate.start) + 1
        row = _ROW.match(entry.passage.text, start)
        if row is not None and row.end() - start <= _LONGEST:
            inside = entry.words.within(start, row.end())
            tables[entry.passage.id, row[1] or ""][i] = is_among(question.content, entry.words.stem[inside])
    poorer = {
        i
        for rows in tables.values()
        for i, held in rows.items()
        if any((other >= held).all() and (other > held).any() for other in rows.values())
    }
    return [i for i in kept if i not in poorer]
