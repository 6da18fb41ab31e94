"""Read the cells of a table's rows: amounts, yes and no, and the words by which a question tells rows apart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from shared_core.citation.facts.dates import dates_of
from shared_core.citation.facts.quantities import UNITS, quantities_of
from shared_core.reading.cells import Place, Range
from shared_core.reading.comparisons import read_how_much, read_when
from shared_core.reading.language import word_list
from shared_core.reading.people_rows import columns_of_verbs
from shared_core.reading.places import above, source_of
from shared_core.reading.questions import content_stems
from shared_core.reading.rows import NO, YES
from shared_core.reading.tables import Row, Table
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

_BRACKETS = lazy_regex(r"\s*\([^()]*\)")
OF_ANY_ROW = {stem for word in word_list("of_any_row") for stem in content_stems(word)}
_FREE = lazy_regex(r"free(?: of charge)?|no charge", re.IGNORECASE)
_MONEY = frozenset(UNITS[sign].dimension for sign in "£$€")

Amount = tuple[str, tuple[float, ...]]
"""The kind of a cell's value, and the value: a number in its base unit, or year, month and day."""
Columns = Mapping[str, Mapping[Row, Amount]]


def kind_of(amounts: Mapping[Row, Amount]) -> str:
    """Return the kind of the amounts of a column."""
    return next(iter(amounts.values()))[0]


def words_wanted(asked: set[str], rows: Sequence[Row], table: Table, passages: Sequence[Passage]) -> set[str]:
    """Return the stems that the cells of a row must have: none of those of headings, no verb that is for a column."""
    asked = asked - known_above(rows, table, passages)
    return asked - OF_ANY_ROW - columns_of_verbs(asked, table, passages).keys()


def with_ticks(asked: set[str], rows: Sequence[Row], table: Table, passages: Sequence[Passage]) -> list[Row]:
    """Return the rows with yes in all columns of yes and no that a question names."""
    ticks = ticks_asked(asked, table, passages)
    return [row for row in rows if all(mark_of(name, row, passages) for name in ticks)]


def ticks_asked(asked: set[str], table: Table, passages: Sequence[Passage]) -> list[str]:
    """Return the columns of yes and no that a question names."""
    named = [name for name in table.columns if content_stems(name) and content_stems(name) <= asked]
    return [name for name in named if _is_of_marks(name, table, passages)]


def _is_of_marks(name: str, table: Table, passages: Sequence[Passage]) -> bool:
    """Return whether most cells of a column say yes or no, or are empty; others, such as "on request", are no yes."""
    marks = [mark_of(name, row, passages) for row in table.rows]
    written = any(mark is not None and name in row.cells for mark, row in zip(marks, table.rows))
    return written and 2 * marks.count(None) < len(marks)


def mark_of(name: str, row: Row, passages: Sequence[Passage]) -> bool | None:
    """Return whether a cell says yes or no; ``None`` for any other value. An empty one says no."""
    value = text_at(row.cells[name], row, passages).casefold() if name in row.cells else ""
    return True if value in YES else False if value in NO else None


def rows_asked(
    asked: set[str], beside: set[str], rows: Sequence[Row], table: Table, passages: Sequence[Passage]
) -> list[Row] | None:
    """Return the rows with all of a question's words, but for those of headings, of columns, and ``beside``.

    They have yes in a column of yes and no that it names. ``None`` if no row has these words, so that the question is
    not about the table.
    """
    apart = words_wanted(asked, rows, table, passages) - beside
    held = [row for row in rows if apart <= content_stems(text_at((row.start, row.end), row, passages))]
    return with_ticks(asked, held, table, passages) if held else None


def known_above(rows: Sequence[Row], table: Table, passages: Sequence[Passage]) -> set[str]:
    """Return the stems of the names of a table's columns and of the headings above it."""
    known = {stem for name in table.columns for stem in content_stems(name)}
    for row in rows:
        known |= content_stems(f"{above(passages[row.passage])} {source_of(passages[row.passage])}")
    return known


def place_of_row(row: Row) -> Place:
    """Return the place of a row."""
    return row.passage, row.start, row.end


def text_at(place: Range, row: Row, passages: Sequence[Passage]) -> str:
    """Return the text of a cell, or of all the row."""
    return passages[row.passage].text[slice(*place)]


def amounts_by_column(rows: Sequence[Row], passages: Sequence[Passage]) -> Columns:
    """Return the amounts of each column in which all rows have one, of one kind."""
    columns: dict[str, dict[Row, Amount]] = {}
    for name in dict.fromkeys(name for row in rows for name in row.cells):
        texts = {row: text_at(row.cells[name], row, passages) for row in rows if name in row.cells}
        amounts = {row: amount for row, text in texts.items() if (amount := _amount(text)) is not None}
        kinds = {kind for kind, _ in amounts.values()}
        if kinds and kinds <= _MONEY:
            amounts |= {row: (min(kinds), (0.0,)) for row, text in texts.items() if _FREE.fullmatch(text)}
        if len(amounts) == len(rows) and len(kinds) == 1:
            columns[name] = amounts
    return columns


def _amount(text: str) -> Amount | None:
    """Return the only number or date of a cell; ``None`` for a range, and for none."""
    text = _BRACKETS.sub("", text)
    if any(date.month for date in dates_of(text)):
        return read_when(text)
    return read_how_much(text) if len(quantities_of(text)) == 1 else None
