"""Tables of people, and the columns that verbs ask for there: "Who speaks Welsh?" asks for the languages."""

from __future__ import annotations

from collections.abc import Sequence

from shared_core.reading.language import phrase_groups, word_list
from shared_core.reading.questions import content_stems
from shared_core.reading.tables import Table
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

_OF_VERBS = tuple(
    (content_stems(verbs), content_stems(columns) | {*columns.split()})
    for verbs, columns in phrase_groups("columns_of_verbs")
)
_OF_NAMES = {stem for word in word_list("columns_of_names") for stem in content_stems(word)}
_PERSON = lazy_regex(r"[A-Z][\w'’.-]*(?: (?:[a-z]{2,3} )?[A-Z][\w'’.-]*){1,3}")


def is_of_people(table: Table, passages: Sequence[Passage]) -> bool:
    """Return whether the rows of a table are called by the names of people."""
    columns = [name for row in table.rows for name, at in row.cells.items() if at == row.key]
    named = [_PERSON.fullmatch(passages[row.passage].text[slice(*row.key)]) is not None for row in table.rows]
    of_names = all(name.casefold() == "name" or content_stems(name) & _OF_NAMES for name in columns)
    return bool(columns) and of_names and 2 * sum(named) > len(named)


def columns_of_verbs(asked: set[str], table: Table, passages: Sequence[Passage]) -> dict[str, list[str]]:
    """Return the verbs of a question that no cell has, each with the columns of a table of people that it is for.

    Args:
        asked: stems of the question, but for those of names of columns.
        table: of people, or none is for any.
        passages: that hold it.
    """
    columns = {name: content_stems(name) | {name.casefold()} for name in table.columns}
    found = {
        stem: [name for name, stems in columns.items() if nouns & stems]
        for verbs, nouns in _OF_VERBS
        for stem in verbs & asked
    }
    if not any(found.values()) or not is_of_people(table, passages):
        return {}
    told = {s for row in table.rows for s in content_stems(passages[row.passage].text[row.start : row.end])}
    return {stem: names for stem, names in found.items() if names and stem not in told}
