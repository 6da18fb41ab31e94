"""Leave out what is about another row of a table, or another label of a list, than the question."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared_core.reading.candidates import Candidate
from shared_core.reading.cells import EMPTY, LETTERS, LONGEST, Range, cells_at
from shared_core.reading.features import CAPITAL, RARITY_BUCKETS, Words, is_among, is_of_kind, words_of
from shared_core.reading.measures import asks_measure, gives_measure
from shared_core.reading.places import above, innermost, place_of, source_of
from shared_core.reading.prepared import Asked, Prepared
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

_ROW = lazy_regex(r"[ \t]*\|[^\n]*\|[ \t]*$", re.MULTILINE)
_BRACKETS = lazy_regex(r"\([^()]*\)")
_COMPOUND = lazy_regex(r"[^\W_]+(?:[-_.][^\W_]+)+")
_OF_TOTAL = lazy_regex(r"(?:\bof|%)[ ](?:the[ ])?total\b", re.IGNORECASE)
_TOTALS = "total sum altogether overall combined average"
YES = frozenset(("yes", "y", "x", "✓", "✔", "✔️", "✅", "●", "•", "true", "included", "available"))
NO = frozenset(("", "no", "n", "–", "-", "—", "✗", "✘", "✕", "×", "❌", "○", "false", "none", "not included"))
_CHOOSES = lazy_regex(r"\W*(?:which|what)\b", re.IGNORECASE)
_ITEM = lazy_regex(r"[ \t\xa0]*(?:([-*•+])[ \t]+|(?=[^\W_]))([^\n:|]{2,60}):[ \t]+([^\n:|]{1,60})$", re.MULTILINE)
_NUMBER = lazy_regex(r"\d|\bfree\b", re.IGNORECASE)
_TIMED = lazy_regex(
    r"[ \t\xa0]*(?:[-*+•][ \t]+)?[*_]{0,3}(?:\d{1,2}[:.h]\d{2}\b|\d{1,2} ?[ap]\.?m\b|\d{1,4}[-./]\d{1,2}[-./]\d{1,4}\b"
    r"|(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\b,? (?:\d|[a-z]{3,9} \d))[^\n]*",
    re.IGNORECASE,
)
_PRICED = lazy_regex(
    r"[ \t\xa0]*(?:(?:[-*+•]|\w{1,3}[.)])[ \t]+)?[^\W_][^\n]{1,100}?[ \t.:–—-]"
    r"(?:[£$€]\s?\d[\d.,]*|\d[\d.,]*\s?(?:[€£$]|(?:EUR|USD|GBP|kr)\b))[ \t*_]*(?=\n|\Z)"
)
_LONGEST_PRICED = 120
_CELLS = lazy_regex(r"[^\t\n]*?\S(?:\t+| {3,})(?=\S)([^\n]*)")
_GAP = lazy_regex(r"\S(?:\t| {3,})\S")
_COMPARES = lazy_regex(
    r"\b(?:more|most|less|least|fewer|fewest|than|not|no|without|other|else|except|between|before|after|until|since"
    r"|all|each|every|both|or|why|how (?!many\b|much\b|\w+ (?:is|are|was|were|does|do|did|has|have)\b)|\w+n['’]t)\b",
    re.IGNORECASE,
)
_ASKS_WHICH = lazy_regex(r"what\b|which\b|who\b|tell me\b", re.IGNORECASE)
_OF_ANY_CELL = "many much number amount value figure"
"""Words of questions for any cell, but for function words."""
_LABELS_OF_ANYTHING = "name", "type", "kind"
"""Function words that are labels."""
NO_STEMS = np.zeros(0, np.int64)
_LONGEST_VALUE = 40
"""Characters of what stands behind a label at most, if it is no prose."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A candidate with its passage, as it is and as prepared."""

    passage: Passage
    prepared: Prepared
    candidate: Candidate

    @property
    def text(self) -> str:
        """The candidate's sentence."""
        return self.passage.text[self.candidate.start : self.candidate.end]

    @property
    def place(self) -> tuple[str, str]:
        """The document and the section that hold it."""
        return place_of(self.passage)


class _Row(NamedTuple):
    """A row of a table with named cells.

    Attributes:
        named: whether the question has the whole first cell, a name.
        coded: whether the first cell has a word of the question with a hyphen or a dot within, such as "login-ai".
        cells: the names of those that are filled.
        values: of each word of the question whether it is in the values; ``all``: or in the names.
        heading: or in the innermost heading, such as the name of the row's group.
    """

    named: bool
    coded: bool
    cells: frozenset[str]
    values: NDArray[np.bool_]
    all: NDArray[np.bool_]
    heading: NDArray[np.bool_]


@lru_cache(maxsize=4096)
def stems_of(name: str) -> NDArray[np.int64]:
    """Return the codes of the stems of a name's content words."""
    return words_of(name, np.zeros(RARITY_BUCKETS, np.float32)).content


def of_named_rows(asked: Asked, entries: Sequence[Entry], kept: Sequence[int]) -> tuple[list[int], list[int]]:
    """Leave out a row that holds only some of the question's words that another row of the table holds.

    Values count before the names of columns, which all rows have: of "last counted in Hull" it is Hull that tells rows
    apart. Also return those of which the question asks for a cell that is empty, and all rows of a table if it asks for
    a cell of something whose name no passage has, or for a total that is not given.
    """
    tables: dict[object, list[dict[int, _Row]]] = defaultdict(list)
    codes = "|".join(map(re.escape, _COMPOUND.findall(asked.text)))
    code = re.compile(rf"(?<![\w-])(?:{codes})(?![\w-])", re.IGNORECASE) if codes else None
    for i in kept:
        passage = entries[i].passage
        if (row := _row_of(entries[i], asked.words, code)) is not None:
            found = tables[source_of(passage), place_of(passage)[1].rpartition(" > ")[0]]
            alike = [rows for rows in found if any(_have_most_columns(row, other) for other in rows.values())]
            if not alike:
                found.append({})
            (alike or found[-1:])[0][i] = row
    poorer: set[int] = set()
    empty: list[int] = []
    for rows in chain.from_iterable(tables.values()):
        fullest, without = _of_table(asked.words, rows, entries)
        poorer |= rows.keys() - set(fullest)
        empty += without
    return [i for i in kept if i not in poorer], empty


def _have_most_columns(one: _Row, other: _Row) -> bool:
    """Return whether two rows may be of one table: that of the opening times may share "Museum" with that of prices."""
    return 2 * len(one.cells & other.cells) > min(len(one.cells), len(other.cells))


def _of_table(question: Words, rows: dict[int, _Row], entries: Sequence[Entry]) -> tuple[list[int], list[int]]:
    """Return the rows of one table that may be asked about, and those of them that have no answer."""
    everywhere = np.logical_and.reduce([row.heading for row in rows.values()])
    for i, row in rows.items():
        apart = row.heading & ~everywhere
        rows[i] = row._replace(values=row.values | apart, all=row.all | apart)
    fullest = [i for i, row in rows.items() if row.named] or [i for i, row in rows.items() if row.coded] or [*rows]
    fullest = find_fullest({i: rows[i].values for i in fullest})
    fullest = find_fullest({i: rows[i].all for i in fullest})
    wanted = _names_asked(question, frozenset().union(*(row.cells for row in rows.values())))
    if any(row.values.any() for row in rows.values()):
        return fullest, [i for i in fullest if rows[i].values.any() and not wanted <= rows[i].cells]
    # nothing tells the rows apart
    unknown = bool(wanted) and _names_unknown(question, entries)
    return fullest, fullest if unknown or _lacks_total(question, [entries[i].passage for i in rows]) else []


def _row_of(entry: Entry, question: Words, code: re.Pattern[str] | None) -> _Row | None:
    """Return a candidate as a row of named cells; ``None`` if it is none, or holds prose."""
    text, start, end = entry.passage.text, entry.candidate.start, entry.candidate.end
    found = cells_at(entry.passage, entry.candidate.start, entry.candidate.end)
    if found is None:
        return None
    key, named_cells = found
    first = text[slice(*key)]
    cells = frozenset(text[slice(*a)] for a, b in named_cells if not EMPTY.fullmatch(text[slice(*b)].strip()))
    words = entry.prepared.words
    named = words.within(start, end) & np.logical_or.reduce([words.within(*name) for name, _ in named_cells])
    held = is_among(question.content, words.stem[words.within(start, end) & ~named])
    coded = code is not None and code.search(first) is not None
    heading = is_among(question.content, stems_of(innermost(entry.passage)))
    return _Row(
        _holds(question, first), coded, cells, held, held | is_among(question.content, words.stem[named]), heading
    )


def _holds(question: Words, name: str) -> bool:
    """Return whether a question holds a name whole."""
    stems = stems_of(name) if LETTERS.search(name) else NO_STEMS
    return len(stems) > 0 and bool(is_among(stems, question.content).all())


def of_cells_asked(asked: Asked, entries: Sequence[Entry], kept: Sequence[int]) -> list[int]:
    """Return the rows with the very cell that a question asks for: "What is the range of Ostrand?".

    It has the whole first cell of the row and words of one column's name, and every other word of it is in that name,
    another cell of the row, or a heading above. What compares, or asks for another kind of thing, is no such question.
    """
    content = asked.words.content
    if not len(content) or _COMPARES.search(asked.text):
        return []
    return [i for i in kept if _is_cell_asked(asked, entries[i])]


def _is_cell_asked(asked: Asked, entry: Entry) -> bool:
    content, words, text = asked.words.content, entry.prepared.words, entry.passage.text
    found = cells_at(entry.passage, entry.candidate.start, entry.candidate.end)
    if found is None or not _holds(asked.words, text[slice(*found[0])]):
        return False
    key, cells = found

    def is_in(place: Range) -> NDArray[np.bool_]:
        return is_among(content, words.stem[words.within(*place)])

    of_row = np.logical_or.reduce([is_in(value) for _, value in cells] + [is_in(key)])
    filled = [
        (is_in(name), value)
        for name, value in cells
        if value[1] != key[1] and not EMPTY.fullmatch(text[slice(*value)].strip())
    ]
    named = [(held & ~of_row, value) for held, value in filled]
    best = find_fullest({i: held for i, (held, _) in enumerate(named)})
    if len(best) != 1 or not (named[best[0]][0].any() or len(filled) == 1):
        return False
    held, value = named[best[0]]
    told = held | of_row | is_among(content, stems_of(f"{above(entry.passage)}\n{_OF_ANY_CELL}"))
    return bool(told.all()) and is_of_kind(asked.kind, words, text, *value) > 0


def answer_in_row(asked: Asked, entry: Entry) -> Range | None:
    """Return the cell of a row whose column's name a question has, as its short answer; ``None`` if it is not told.

    In a row of nothing but yes and no it is the name of the only column with yes. Empty where the short answer that was
    found has a column's name in it.
    """
    found = cells_at(entry.passage, entry.candidate.start, entry.candidate.end)
    if found is None:
        return None
    text, start = entry.passage.text, entry.candidate.answer[0]
    key, cells = found
    marks = {name: text[slice(*value)].strip("; \n").casefold() for name, value in cells if value != key}
    if len(marks) > 1 and all(m in YES or m in NO for m in marks.values()) and _CHOOSES.match(asked.text):
        ticked = [name for name, mark in marks.items() if mark in YES]
        return ticked[0] if len(ticked) == 1 else (start, start)
    values = {text[slice(*name)]: value for name, value in cells if value != key}
    wanted = [values[name] for name in _names_asked(asked.words, values)]
    if len(wanted) == 1:
        first, last = wanted[0]
        value = text[first:last].rstrip("; \n")
        first += len(value) - len(value.lstrip())
        return (first, first + len(value.strip())) if not EMPTY.fullmatch(value.strip()) else None
    if asks_measure(asked.text):
        given = [value for name, value in cells if gives_measure(asked.text, text[slice(*name)], text[slice(*value)])]
        if not any(first <= start < last for first, last in given):  # of a year, a place or a number in a list
            return (start, start)
    return (start, start) if any(name[0] <= start < name[1] for name, _ in cells) else None


def _names_asked(question: Words, names: Collection[str]) -> set[str]:
    """Return the names that a question holds as a whole, but for units in brackets, and not as a part of another."""
    stems = {name: frozenset(stems_of(_BRACKETS.sub("", name)).tolist()) for name in names}
    asked = {name: found for name, found in stems.items() if found and found <= {*question.content.tolist()}}
    return {name for name, found in asked.items() if not any(found < other for other in asked.values())}


def _lacks_total(question: Words, passages: Sequence[Passage]) -> bool:
    """Whether a question asks for a total or a mean of several rows, and no passage that holds them speaks of one."""
    asked = question.content[is_among(question.content, stems_of(_TOTALS))]
    told = {f"{above(passage)}\n{passage.text}" for passage in passages} if len(asked) and len(passages) > 1 else set()
    return bool(told) and not any(is_among(asked, stems_of(_OF_TOTAL.sub("", text))).any() for text in told)


def _names_unknown(question: Words, entries: Sequence[Entry]) -> bool:
    """Whether a question has a name that is in no passage: a word with a capital letter, but for its first one."""
    named = (question.static[:, CAPITAL] > 0) & ~question.stop & (np.arange(len(question)) > 0)
    known = [np.concatenate([entry.prepared.words.stem, entry.prepared.title]) for entry in entries]
    return not is_among(question.stem[named], np.concatenate(known)).all()


def of_rows(question: Words, entries: Sequence[Entry], kept: Sequence[int]) -> list[int]:
    """Leave out a row that holds only some of the question's words that another row of the table holds.

    Of a list of labels with their values ("- Adults: 5 crowns"), the labels count, where they hold such words; among
    values in numbers, also where they hold none. A line with cells is a row as well, but not the head above them, and
    so is one that begins with a time or date ("- 13:00–13:30: Opening"), or ends in a price ("- Lemon tart £6.50").
    """
    tables: dict[tuple[object, ...], dict[int, NDArray[np.bool_]]] = defaultdict(dict)
    for i in kept:
        passage, words = entries[i].passage, entries[i].prepared.words
        start = passage.text.rfind("\n", 0, entries[i].candidate.start) + 1
        place = place_of(passage)
        row, item = _ROW.match(passage.text, start), _item_at(passage.text, start)
        timed, priced = _TIMED.match(passage.text, start), _PRICED.match(passage.text, start)
        if row is not None and row.end() - start <= LONGEST:
            tables[(*place, "a row")][i] = is_among(question.content, words.stem[words.within(start, row.end())])
        elif timed is not None and timed.end() - start <= LONGEST:
            tables[(*place, "a time")][i] = is_among(question.content, words.stem[words.within(start, timed.end())])
        elif (cells := _cells_at(passage.text, start)) is not None:
            tables[(*place, "cells")][i] = is_among(question.content, words.stem[words.within(*cells)])
        elif item is not None and entries[i].candidate.end <= item.end():
            held = is_among(question.content, words.stem[words.within(*item.span(2))])
            if held.any():
                tables[(*place, "a label")][i] = held
            value = words.stem[words.within(*item.span(3))]
            if _NUMBER.search(item[3]) and not is_among(question.content, value).any():
                tables[(*place, "a number")][i] = held
        elif priced is not None and priced.end() - start <= _LONGEST_PRICED:
            held = is_among(question.content, words.stem[words.within(start, priced.end())])
            owner = stems_of(re.sub(r"[/._-]", " ", f"{passage.title} {source_of(passage)}"))
            tables[(*place, "a price")][i] = held
            # "Heidi's Special" is not asked for by "How much is the tart at Heidi's?"
            tables[(*place, "a price of its own")][i] = held & ~is_among(question.content, owner)
    poorer = {i for rows in tables.values() for i in rows.keys() - find_fullest(rows)}
    return [i for i in kept if i not in poorer]


def of_labels(asked: Asked, entries: Sequence[Entry], kept: Sequence[int]) -> list[int]:
    """Leave out items of other labels where a question asks for the value of one: "What is the default of max_size?".

    Items with a word of the question stay, and those of lists without this label, unless the lists are alike.
    """
    items: dict[int, re.Match[str]] = {}
    for i in kept:
        text = entries[i].passage.text
        item = _item_at(text, text.rfind("\n", 0, entries[i].candidate.start) + 1)
        if item is not None and entries[i].candidate.end <= item.end():
            items[i] = item
    lists: dict[object, set[frozenset[str]]] = defaultdict(set)
    for passage in (entry.passage for entry in entries if items):
        lists[source_of(passage)].add(_labels(passage.text))
    others: set[int] = set()
    for i, item in items.items():
        passage, words = entries[i].passage, entries[i].prepared.words
        own = _labels(passage.text)
        alike = [one for one in lists[source_of(passage)] if not own.isdisjoint(one)]
        if any(_asks_value(asked, label) for label in frozenset().union(*alike)):
            told = words.stem[words.within(item.start(2), item.end(3))]
            if not (_asks_value(asked, item[2]) or is_among(asked.words.content, told).any()):
                others.add(i)
    return [i for i in kept if i not in others]


@lru_cache(maxsize=256)
def _labels(text: str) -> frozenset[str]:
    """Return the labels of the items in a text."""
    starts = [0, *(line.end() for line in re.finditer("\n", text))]
    return frozenset(item[2] for start in starts if (item := _item_at(text, start)) is not None)


def _asks_value(asked: Asked, label: str) -> bool:
    """Whether a question begins with a label, but for what, which and function words behind them."""
    named, words = words_of(label, np.zeros(RARITY_BUCKETS, np.float32)), asked.words
    if not (len(named.content) or label.casefold() in _LABELS_OF_ANYTHING):
        return False
    for at in range(len(words) - len(named) + 1):
        if (words.stem[at : at + len(named)] == named.stem).all():
            return at == 0 or _ASKS_WHICH.match(asked.text) is not None
        if not words.stop[at]:
            break
    return False


def _item_at(text: str, start: int) -> re.Match[str] | None:
    """Return the match of a line that is an item of a list of labels; one without a bullet has another beside it."""
    item = _ITEM.match(text, start)
    if item is None or item[1]:
        return item
    before = text.rfind("\n", 0, max(0, start - 1)) + 1
    beside = (_ITEM.match(text, before) if start else None, _ITEM.match(text, item.end() + 1))
    return item if any(beside) else None


def _cells_at(text: str, start: int) -> tuple[int, int] | None:
    """Return the range of a line of cells side by side, parted by tabs or wide gaps.

    ``None`` for a table's head, and for a label with prose behind it, which may speak of what other labels name.
    """
    cells = _CELLS.match(text, start)
    if cells is None or cells.end() - start > LONGEST:
        return None
    above = text[text.rfind("\n", 0, max(0, start - 1)) + 1 : max(0, start - 1)]
    single = not _GAP.search(cells[1])
    is_head = not single and not _GAP.search(above)
    return None if is_head or (single and len(cells[1]) > _LONGEST_VALUE) else cells.span()


def find_fullest(held: Mapping[int, NDArray[np.bool_]]) -> list[int]:
    """Return the numbers of those that hold more than a part of what another one holds."""
    return [i for i, one in held.items() if not any((o >= one).all() and (o > one).any() for o in held.values())]
