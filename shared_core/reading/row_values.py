"""Choose rows of a table by the values of a column: the team with the most points, courses for less than £120."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from shared_core.citation.facts.quantities import UNITS, quantities_of
from shared_core.reading.bands import Band, read_band
from shared_core.reading.cells import Chosen, Range
from shared_core.reading.language import phrase_groups, word_list
from shared_core.reading.people_rows import columns_of_verbs, is_of_people
from shared_core.reading.places import above
from shared_core.reading.questions import asks_who, content_stems, words
from shared_core.reading.row_cells import (
    OF_ANY_ROW,
    Amount,
    Columns,
    amounts_by_column,
    kind_of,
    known_above,
    mark_of,
    place_of_row,
    rows_asked,
    text_at,
    ticks_asked,
    with_ticks,
    words_wanted,
)
from shared_core.reading.tables import Row, Table, find_tables
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

_EXTREMES: Mapping[str, tuple[tuple[int, str], ...]] = {
    word: tuple((1 if column.startswith("+") else -1, column[1:]) for column in columns)
    for word, *columns in phrase_groups("extremes")
}
_EXTREME = lazy_regex(rf"\b({'|'.join(sorted(_EXTREMES, key=len, reverse=True))})\b", re.IGNORECASE)
_AT_END = lazy_regex(r"(\w*) (?:first|last)\W*$", re.IGNORECASE)
_NEGATES = lazy_regex(r"\b(?:not|no|without|free (?:of|from))\b|n['’]t\b", re.IGNORECASE)
_NOT_MORE = lazy_regex(r"\b(?:no|not) (?:\w+ )?than\b", re.IGNORECASE)
_COMPARES_OTHERWISE = lazy_regex(
    r"\b(?:than|except|but|ever|second|third|next|top|at (?:the )?(?:least|most|latest|earliest)|or|why"
    r"|should|must|if)\b",
    re.IGNORECASE,
)
_ASKS_ROW = lazy_regex(r"\W*(?:which|who|whose|where)\b|\W*what\b(?!['’]s\b| (?:is|are|was|were)\b)", re.IGNORECASE)
_ASKS_ROWS = lazy_regex(
    r"\W*(?:which|what (?!(?:is|are|was|were|does|do|did)\b)|who|(?:is|are) there)\b", re.IGNORECASE
)
_ASKS_VALUE = lazy_regex(r"\W*(?:how|when)\b", re.IGNORECASE)
_TOTAL = lazy_regex(r"\W*(?:grand |sub-?)?(?:totals?|sum|overall|average|mean)\b", re.IGNORECASE)
_COMPARATIVES = {stem for word in word_list("comparatives") for stem in content_stems(word)}
_ASKS_PERSON = lazy_regex(r"\W*who\b(?!['’]s\b)", re.IGNORECASE)
_BARRED = {
    "from": frozenset(("to", "destination", "arrival", "arrives at")),
    "to": frozenset(("from", "origin", "start", "departure", "departs from")),
}
"""Columns that are not meant by what stands behind "from" and "to" in a question."""
_SYMBOL = 3  # letters of a unit's name that is no symbol, at least


def choose_extreme(question: str, passages: Sequence[Passage]) -> Chosen | None:
    """Return the rows with the highest or lowest value of the column that a question asks for.

    ``None`` where it asks for none, where a row of the table was not read or has no value, where it is not certain
    which table or column is meant, and where a word of the question is known neither from the table nor from the
    headings above it.

    >>> table = Passage("t", "Peak: Varo; Height: 3,412 m\\nPeak: Nera; Height: 3,298 m\\nPeak: Alba; Height: 2,987 m")
    >>> ((_, start, end),) = choose_extreme("Which is the lowest peak?", [table]).lines
    >>> table.text[start:end]
    'Peak: Alba; Height: 2,987 m'
    """
    word = _extreme_asked(question)
    if word is None:
        return None
    found = [chosen for table in find_tables(passages) if (chosen := _choose(question, word, table, passages))]
    return found[0] if len(found) == 1 else None


def choose_compared(question: str, passages: Sequence[Passage]) -> Chosen | None:
    """Return the rows whose value in a column is in the range that a question names: "less than £120".

    ``None`` as ``choose_extreme``. There may be none, if a table is whole and no row of it has such a value.

    >>> table = Passage("t", "Peak: Varo; Height: 3,412 m\\nPeak: Nera; Height: 3,298 m\\nPeak: Alba; Height: 2,987 m")
    >>> len(choose_compared("Which peaks are higher than 3000 m?", [table]).lines)
    2
    """
    limit = _limit_asked(question)
    if limit is None:
        return None
    found = [chosen for table in find_tables(passages) if (chosen := _compare(limit, table, passages))]
    return found[0] if len(found) == 1 else None


def choose_holding(question: str, passages: Sequence[Passage]) -> Chosen | None:
    """Return the rows with what a question names in their cells, or with yes in the column that it names.

    Behind "no" and "not" it is those without.

    ``None`` as ``choose_extreme``, and where no row or every row does. There may be none, if the only ones have it in
    a column that is not meant: of a bus to the airport, asked for one from there.

    >>> table = Passage("t", "Dish: Pie; Vegan: no; From: Leeds\\nDish: Dal; Vegan: yes; From: York")
    >>> [table.text[start:end] for _, start, end in choose_holding("Which dishes are vegan?", [table]).lines]
    ['Dish: Dal; Vegan: yes; From: York']
    """
    tables = [table for table in find_tables(passages) if table.is_whole and _asks_rows(question, table, passages)]
    found = [chosen for table in tables if (chosen := _choose_holding(question, table, passages))]
    return found[0] if len(found) == 1 else None


def query_for_rows(question: str, passages: Sequence[Passage], best: int) -> tuple[str, int]:
    """Return a query for the other rows of the table of which a passage holds some, if its values are to be compared.

    Also return the number of such a passage: the best one, or one of a table that has all that the question names.

    Args:
        best: number of the passage with the best quote.
    """
    extreme = _extreme_asked(question) is not None
    if not (extreme or _ASKS_ROWS.match(question)):
        return "", best
    tables = [table for table in find_tables(passages) if not table.is_whole]
    tables.sort(key=lambda table: all(row.passage != best for row in table.rows))
    for table in tables:
        is_best = any(row.passage == best for row in table.rows)
        if (is_best and (extreme or not asks_who(question))) or _names_rows(question, table, passages):
            number = best if is_best else table.rows[0].passage
            return f"{above(passages[number])} {' '.join(table.columns)}", number
    return "", best


def _names_rows(question: str, table: Table, passages: Sequence[Passage]) -> bool:
    """Return whether a question chooses among the rows of a table that were read, or one of them has all it names."""
    read = replace(table, is_whole=True)
    if (word := _extreme_asked(question)) is not None:
        return _choose(question, word, read, passages) is not None
    if (limit := _limit_asked(question)) is not None:
        return _compare(limit, read, passages) is not None
    if not _asks_rows(question, table, passages):
        return False
    asked = _NEGATES.split(question)[0]
    stems = content_stems(asked)
    named = bool(words_wanted(stems, table.rows, table, passages)) or bool(ticks_asked(stems, table, passages))
    return named and bool(_holding(asked, table.rows, table, passages))


def _asks_rows(question: str, table: Table, passages: Sequence[Passage]) -> bool:
    """Return whether a question asks for rows of a table by their cells; "who" for those of a table of people."""
    if not _ASKS_ROWS.match(question):
        return False
    if asks_who(question) and not (_ASKS_PERSON.match(question) and is_of_people(table, passages)):
        return False
    for name in table.columns:  # "first aiders" are no extreme
        question = re.sub(rf"\b{re.escape(name)}s?\b", " ", question, flags=re.IGNORECASE)
    return not (_EXTREME.search(question) or _COMPARES_OTHERWISE.search(question))


def _extreme_asked(question: str) -> str | None:
    """Return the only word of a question that asks for an extreme."""
    found = {match[1].casefold() for match in _EXTREME.finditer(question)}
    if found & {"first", "last"} and not _AT_END.search(question):
        return None  # "the first game" is a thing's name or number
    if len(found) != 1 or _COMPARES_OTHERWISE.search(question) or _NEGATES.search(question):
        return None
    return found.pop()


class _Limit(NamedTuple):
    """The range of values that rows are asked for, the unit that the question gives, and its other words."""

    band: Band
    unit: str
    words: str


def _limit_asked(question: str) -> _Limit | None:
    """Return the only range of values that a question asks rows for; numbers without one are words like others."""
    if not _ASKS_ROWS.match(question) or _EXTREME.search(question) or _NEGATES.search(_NOT_MORE.sub("", question)):
        return None
    numbers = [q for q in quantities_of(question) if not q.ordinal]
    limits = [q for q in numbers if q.hedge in ("above", "below")]
    if len(limits) == 1:
        before = [q.end for q in numbers if q.end <= limits[0].start]
        first, last = max(before, default=0), limits[0].end
    elif len(numbers) == 2:
        first, last = numbers[0].start, numbers[1].end
    else:
        return None
    band = read_band(question[first:last])
    start = limits[0].start if limits else first
    return _Limit(band, numbers[-1].unit, f"{question[:start]} {question[last:]}") if band is not None else None


def _compare(limit: _Limit, table: Table, passages: Sequence[Passage]) -> Chosen | None:
    if not table.is_whole:
        return None
    rows = [row for row in table.rows if not _TOTAL.match(text_at(row.key, row, passages))]
    asked = content_stems(limit.words)
    column, factor = _column_limited(limit, asked, amounts_by_column(rows, passages))
    among = rows_asked(asked, _COMPARATIVES, rows, table, passages)
    if not column or among is None:
        return None
    return _chosen({row: row.key for row in among if limit.band.holds(column[row][1][0] * factor)}, table)


def _column_limited(limit: _Limit, asked: set[str], columns: Columns) -> tuple[Mapping[Row, Amount], float]:
    """Return the amounts that a limit is about, and what makes them values of its unit; none where it is not certain.

    The unit is the column's name in "more than 7 weeks".
    """
    unit = content_stems(limit.unit)
    fits = {name: amounts for name, amounts in columns.items() if kind_of(amounts) == limit.band.dimension}
    factor = 1.0
    if not fits and limit.unit:
        fits = {n: amounts for n, amounts in columns.items() if not kind_of(amounts) and unit & content_stems(n)}
        factor = UNITS[limit.unit].factor
    held = {name: len(asked & content_stems(name)) for name in fits}
    most = max(held.values(), default=0)
    best = [name for name in fits if held[name] == most]
    return (fits[best[0]], factor) if len(best) == 1 and (most or limit.unit) else ({}, 1.0)


def _choose(question: str, word: str, table: Table, passages: Sequence[Passage]) -> Chosen | None:
    if not table.is_whole:
        return None
    rows = [row for row in table.rows if not _TOTAL.match(text_at(row.key, row, passages))]
    columns = amounts_by_column(rows, passages)
    stems = content_stems(_EXTREME.sub(" ", question))
    done = _AT_END.search(question)  # "Who joined first?"
    anywhere = not _EXTREMES[word][0][1] or done is not None
    name, sign = _column_asked(word, stems if anywhere else content_stems(_behind(question, word)), columns)
    if name is None:
        return None
    verb = content_stems(done[1] if done else "")
    beside = _stems_of(_EXTREMES[word]) | verb
    if verb and not verb & content_stems(name) and not stems - beside - OF_ANY_ROW:
        return None  # neither the verb nor another word says that the table is meant
    asked = rows_asked(stems, beside, rows, table, passages)
    if asked is None:
        return None
    values = {row: columns[name][row][1] for row in asked}
    best = (max if sign > 0 else min)(values.values(), default=None)
    chosen = [row for row in asked if values[row] == best]
    of_row = _asks_row(question, word, name)
    return _chosen({row: row.key if of_row else row.cells[name] for row in chosen}, table)


def _choose_holding(question: str, table: Table, passages: Sequence[Passage]) -> Chosen | None:
    asked, *denied = _NEGATES.split(question)
    held = _holding(asked, table.rows, table, passages)
    if held is None or len(denied) > 1:
        return None
    chosen = held
    if denied:
        without = _holding(denied[0], table.rows, table, passages)
        if not without or len(without) == len(table.rows):
            return None
        chosen = [row for row in held if row not in without]
    elif len(held) == len(table.rows):
        return None
    kind = content_stems(" ".join(question.split()[1:2]))  # "Which operator runs line 14?"
    cell = next((name for name in table.columns if kind and content_stems(name) == kind), "")
    if _has_only_marks(chosen, passages):
        return _chosen(dict.fromkeys(chosen), table)  # the name of a column answers
    return _chosen({row: row.cells.get(cell, row.key) for row in chosen}, table)


def _has_only_marks(rows: Sequence[Row], passages: Sequence[Passage]) -> bool:
    """Return whether rows have nothing but yes and no beside what they are called."""
    cells = [(row, name) for row in rows for name, at in row.cells.items() if at != row.key]
    return all(mark_of(name, row, passages) is not None for row, name in cells)


def _holding(asked: str, rows: Sequence[Row], table: Table, passages: Sequence[Passage]) -> list[Row] | None:
    """Return the rows with all that a part of a question names; ``None`` if no row has it, in whatever columns."""
    stems = content_stems(asked)
    wanted = words_wanted(stems, rows, table, passages)
    barred = {stem: _BARRED.get(_word_before(asked, stem), frozenset()) for stem in wanted}
    verbs = columns_of_verbs(stems - known_above(rows, table, passages), table, passages)
    meant = [name for columns in verbs.values() for name in columns]
    if not any(_has_cells(dict.fromkeys(wanted, frozenset()), row, passages) for row in rows):
        return None
    held = [row for row in with_ticks(stems, rows, table, passages) if _has_cells(barred, row, passages)]
    return [row for row in held if not meant or any(_has_any(wanted, name, row, passages) for name in meant)]


def _has_any(stems: set[str], name: str, row: Row, passages: Sequence[Passage]) -> bool:
    """Return whether a cell of a row has one of some stems."""
    return name in row.cells and not stems.isdisjoint(content_stems(text_at(row.cells[name], row, passages)))


def _has_cells(barred: Mapping[str, Collection[str]], row: Row, passages: Sequence[Passage]) -> bool:
    """Return whether each of some stems is in a cell of a row, of a column that is not barred for it."""
    cells = {name.casefold(): content_stems(text_at(at, row, passages)) for name, at in row.cells.items()}
    return all(any(stem in held for name, held in cells.items() if name not in out) for stem, out in barred.items())


def _word_before(question: str, wanted: str) -> str:
    """Return the word "from" or "to" before the first word with a stem; "" if there is none."""
    before = ""
    for word in words(question):
        if wanted in content_stems(word):
            return before
        if word in _BARRED or content_stems(word):
            before = word if word in _BARRED else ""
    return ""


def _chosen(rows: Mapping[Row, Range | None], table: Table) -> Chosen:
    """Choose rows of a whole table, each with its short answer, if that is known."""
    lines = {place_of_row(row): cell for row, cell in rows.items()}
    return Chosen(lines, [place_of_row(row) for row in table.rows if row not in rows], is_whole=True)


def _column_asked(word: str, asked: set[str], columns: Columns) -> tuple[str | None, int]:
    """Return the column that a question compares by, and 1 for its highest, -1 for its lowest value.

    Args:
        word: that asks for an extreme.
        asked: stems of the words that may name the column.
        columns: of the table.
    """
    signs = _EXTREMES[word]
    held = {name: len(asked & content_stems(name)) for name in columns}
    most = max(held.values(), default=0)
    if most:
        named = [name for name in columns if held[name] == most]
        own = {noun: sign for sign, noun in signs}
        return (named[0] if len(named) == 1 else None), own.get(named[0].casefold(), signs[0][0])
    for sign, noun in signs:
        fits = [name for name, amounts in columns.items() if _is_of(noun, name, amounts)]
        if fits:
            return (fits[0] if len(fits) == 1 else None), sign
    return None, 0


def _is_of(noun: str, name: str, amounts: Mapping[Row, Amount]) -> bool:
    """Return whether a column is called by a noun, or has values of the kind of a unit."""
    if noun in UNITS and len(noun) < _SYMBOL:
        return any(kind == UNITS[noun].dimension for kind, _ in amounts.values())
    return bool(noun) and (noun == name.casefold() or not content_stems(noun).isdisjoint(content_stems(name)))


def _stems_of(signs: Sequence[tuple[int, str]]) -> set[str]:
    return {stem for _, noun in signs for stem in content_stems(noun)}


def _asks_row(question: str, word: str, column: str) -> bool:
    """Return whether a question asks for what the row is, rather than for the value: "What is the highest price?"."""
    if _ASKS_VALUE.match(question):
        return False
    return bool(_ASKS_ROW.match(question)) or not content_stems(_behind(question, word)) & content_stems(column)


def _behind(question: str, word: str) -> str:
    """Return what stands behind a word of a question."""
    return re.split(rf"\b{word}\b", question, maxsplit=1, flags=re.IGNORECASE)[1]
