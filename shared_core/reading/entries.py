"""Leave out what is about another entry than the question: another option, code or row of a table.

To the network ``-s`` is as ``-w``, ``E4`` as ``E1``, and a row of a table as its neighbour.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared_core.reading.candidates import Candidate
from shared_core.reading.features import Words, is_among
from shared_core.reading.prepared import Asked, Prepared
from shared_core.support.options import find_codes, find_options, find_variables, is_of_another, names_explained
from shared_core.types import Passage

_ROW = re.compile(r"[ \t]*(?:\|[^\n]*\||([^\W\d_][^:;|\n]{0,39}): [^;\n]*; [^\n]*)[ \t]*$", re.MULTILINE)
_LONGEST = 240
"""Characters of a table's row at most; longer ones hold prose, which may speak of a thing without its name."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A candidate with its passage, as it is and as prepared."""

    passage: Passage
    prepared: Prepared
    candidate: Candidate


def of_entries_asked(asked: Asked, entries: Sequence[Entry]) -> list[int]:
    """Return the numbers of the candidates that may be about what is asked; all where nothing tells them apart."""
    kept = _of_names(asked, entries, range(len(entries)))
    kept = _of_codes(asked.text, entries, kept)
    return _of_rows(asked.words, entries, kept)


def _of_names(asked: Asked, entries: Sequence[Entry], kept: Sequence[int]) -> Sequence[int]:
    """Keep the entries of an option or variable of the question, if there are any.

    "See -s" explains no option, and "-s" of another command is another one, if titles tell. What only mentions a
    variable may answer as well as its entry does.
    """
    options, variables = {*find_options(asked.text)}, {*find_variables(asked.text)}
    if not options and not variables:
        return kept
    explained, named = [], []
    for i in kept:
        passage, c = entries[i].passage, entries[i].candidate
        above = f"{passage.title} {passage.metadata.get('section', '')}"
        found = {*names_explained(passage.text, c.start), *find_options(above), *find_variables(above)}
        sentence = passage.text[c.start : c.end]
        if not found.isdisjoint(options | variables):
            explained.append(i)
        elif not (options | variables).isdisjoint(find_options(sentence) + find_variables(sentence)):
            named.append(i)
    if not options:
        return sorted(explained + named) if explained else kept
    titles = {i: is_among(asked.words.content, entries[i].prepared.title) for i in explained or named}
    return _fullest(titles) or kept


def _of_codes(question: str, entries: Sequence[Entry], kept: Sequence[int]) -> Sequence[int]:
    """Leave out the entries of other codes than the question's, if a passage has that."""
    wanted = set(find_codes(question))
    if not any(not wanted.isdisjoint(find_codes(entries[i].passage.text)) for i in kept):
        return kept
    places = [(i, entries[i].passage.text, entries[i].candidate) for i in kept]
    return [i for i, text, c in places if not is_of_another(wanted, text, c.start, c.end)] or kept


def _of_rows(question: Words, entries: Sequence[Entry], kept: Sequence[int]) -> list[int]:
    """Leave out a row that holds only some of the question's words that another row of the table holds."""
    tables: dict[tuple[object, ...], dict[int, NDArray[np.bool_]]] = defaultdict(dict)
    for i in kept:
        passage, words = entries[i].passage, entries[i].prepared.words
        start = passage.text.rfind("\n", 0, entries[i].candidate.start) + 1
        row = _ROW.match(passage.text, start)
        if row is not None and row.end() - start <= _LONGEST:
            table = passage.metadata.get("source", passage.id), passage.metadata.get("section"), row[1]
            tables[table][i] = is_among(question.content, words.stem[words.within(start, row.end())])
    poorer = {i for rows in tables.values() for i in rows.keys() - _fullest(rows)}
    return [i for i in kept if i not in poorer]


def _fullest(held: Mapping[int, NDArray[np.bool_]]) -> list[int]:
    """Return the numbers of those that hold more than a part of what another one holds."""
    return [i for i, one in held.items() if not any((o >= one).all() and (o > one).any() for o in held.values())]
