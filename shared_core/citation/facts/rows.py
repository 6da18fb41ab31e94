"""Find rows of tables and lists of keys and values, and values that a claim takes from another row than its own.

Rows are lines: fields ("Region: South; Sales: 95"), cells between bars, columns, or items ("Ann Moor: chair"). The
first cell names a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from shared_core.citation.facts.arithmetic import equal_quantity
from shared_core.citation.facts.quantities import Quantity, quantities_of
from shared_core.citation.facts.tokens import Found, Sentence, telling_keys_of
from shared_core.support.regex import lazy_regex

_LINE = lazy_regex(r"[^\n]*\S[^\n]*")
_BULLET = lazy_regex(r"[-*•–+][ \t]+|\(?\d{1,2}[.)][ \t]+")
_ITEM = lazy_regex(r"([^\W_][^:;|\n]{0,59}): +(\S[^\n]{0,159})")
_FIELD = lazy_regex(r"([^:;\n]{1,40}): (.*)")
_COLUMN = lazy_regex(r"[ \t]*\t[ \t]*| {3,}")
_RULE = lazy_regex(r"[ \t|:=+-]+")
_KEY_WORDS = 6  # of an item's key; more are a sentence
_COMPARED = lazy_regex(r"\b(?:than|over|under|above|below)\s+[^\w\s]?\Z")  # 5 kg, with which something is compared
_PART = 0.5  # of a long value's words that tell where a claim has it from


class Row(NamedTuple):
    """A row: its place in the text, and its cells as (label, value); the value of the first one names it."""

    start: int
    end: int
    cells: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one kind, one below the other.

    Attributes:
        rows: at least two.
        head: place of the line that names the columns; ``None`` without one.
    """

    rows: tuple[Row, ...]
    head: tuple[int, int] | None = None

    def named(self, words: frozenset[str]) -> list[Row]:
        """Return the rows that a claim of these words names: it has all words of the key that not every row has."""
        found = [(own, row) for row in self.rows if (own := self.telling(row)) and own <= words]
        return [row for own, row in found if not any(own < other for other, _ in found)]  # the longer name is meant

    def telling(self, row: Row) -> frozenset[str]:
        """Return the words of a row's key that not every row has."""
        return telling_keys_of(row.cells[0][1]) - frozenset.intersection(
            *(telling_keys_of(r.cells[0][1]) for r in self.rows)
        )


_Kind = Literal["fields", "bars", "columns", "item"]


class _Line(NamedTuple):
    row: Row
    kind: _Kind
    indent: int
    bulleted: bool


@lru_cache(maxsize=256)
def blocks_of(text: str) -> tuple[Block, ...]:
    """Find the tables of a text, and its lists of keys and values.

    >>> [[row.cells[0][1] for row in b.rows] for b in blocks_of("- Ann Moor: chair\\n- Ben Hart: clerk\\nThey met.")]
    [['Ann Moor', 'Ben Hart']]
    """
    groups: list[list[_Line]] = []
    last = 0
    for match in _LINE.finditer(text):
        if _RULE.fullmatch(match.group()) and groups and groups[-1][0].kind == "bars":
            last = match.end()
            continue
        line = _line(match)
        if line is None:
            continue
        near = bool(groups) and text.count("\n", last, line.row.start) < 2 and not text[last : line.row.start].strip()
        if near and _continues(groups[-1][-1], line):
            groups[-1].append(line)
        else:
            groups.append([line])
        last = line.row.end
    return tuple(block for group in groups if (block := _block(group)) is not None)


def _line(match: re.Match[str]) -> _Line | None:
    """Read a line as a row; ``None`` if it is none."""
    text = match.group()
    bare = text.strip()
    start = match.start() + len(text) - len(text.lstrip())
    place, indent = (start, start + len(bare)), start - match.start()
    bullet = _BULLET.match(bare)
    if bare.startswith("|"):
        cells = [c.strip() for c in bare.strip("|").split("|")]
        return _Line(Row(*place, tuple((str(i), c) for i, c in enumerate(cells))), "bars", indent, False)
    if bullet is None and (fields := _fields(bare)):
        return _Line(Row(*place, fields), "fields", indent, False)
    if len(cells := _COLUMN.split(bare)) > 1:
        return _Line(Row(*place, tuple((str(i), c) for i, c in enumerate(cells))), "columns", indent, False)
    item = _ITEM.fullmatch(bare, bullet.end() if bullet else 0)
    if item is None or len(item[1].split()) > _KEY_WORDS:
        return None
    return _Line(Row(*place, (("0", item[1]), ("1", item[2]))), "item", indent, bullet is not None)


def _fields(line: str) -> tuple[tuple[str, str], ...]:
    """Cells of "Region: South; Sales: 95", or "Adults; 2020: 598; 2021: 641"; none if the line is no such row."""
    cells: list[tuple[str, str]] = []
    for i, part in enumerate(line.split("; ")):
        if field := _FIELD.fullmatch(part):
            cells.append((field[1], field[2].strip()))
        elif i:
            cells[-1] = (cells[-1][0], f"{cells[-1][1]}; {part}")
        else:
            cells.append(("", part))
    return tuple(cells) if sum(bool(label) for label, _ in cells) > 1 else ()


def _continues(one: _Line, other: _Line) -> bool:
    same = one.kind == other.kind and one.indent == other.indent and one.bulleted == other.bulleted
    return same and (one.kind in ("fields", "item") or len(one.row.cells) == len(other.row.cells))


def _block(group: Sequence[_Line]) -> Block | None:
    rows = tuple(line.row for line in group)
    if group[0].kind in ("bars", "columns"):
        head, rows = rows[0], rows[1:]
        return Block(rows, (head.start, head.end)) if len(rows) > 1 else None
    return Block(rows) if len(rows) > 1 else None


# --- values of another row -----------------------------------------------------------------------------------------


class _Value(NamedTuple):
    """A value of the claim: where it ends, the rows that have it, and the column."""

    end: int
    rows: tuple[Row, ...]
    label: str


def of_other_row(claim: Sentence, evidence: str) -> Found:
    """Find a value that the evidence gives in another row than the one that the claim names.

    "Cora is the clerk" where a list has "Ben: clerk" and "Cora: chair"; also two values that no row has together. What
    the evidence also says outside its rows may be said of anything.
    """
    if claim.is_negated:
        return None
    for block in blocks_of(evidence):
        named = block.named(claim.keys)
        values = list(_values(claim, block, named, evidence))
        if named:
            pairs = list(_paired(claim, block, named, values))
        elif len(values) == 2 and values[0].label != values[1].label:
            pairs = [(values[1], values[0].rows)]  # two values of different columns that no row has together
        else:
            continue
        for value, rows in pairs:
            if not {*rows} & {*value.rows}:
                return claim.text.strip(), evidence[rows[0].start : rows[0].end]
    return None


def _paired(
    claim: Sentence, block: Block, named: Sequence[Row], values: Sequence[_Value]
) -> Iterator[tuple[_Value, Sequence[Row]]]:
    """Pair each value with the rows that it may be of: the one named before it where names and values take turns."""
    places = []
    for row in named:
        own = block.telling(row)
        places.append((max(t.end for t in claim.tokens if t.key in own), row))
    marks = sorted([(end, 0) for end, _ in places] + [(v.end, 1) for v in values])
    turns = len(named) == len(values) > 1 and [kind for _, kind in marks] == [0, 1] * len(named)
    in_order = [row for _, row in sorted(places, key=lambda place: place[0])]
    for i, value in enumerate(sorted(values)):
        yield value, [in_order[i]] if turns else named


def _values(claim: Sentence, block: Block, named: Sequence[Row], evidence: str) -> Iterator[_Value]:
    """Values of the block's rows that the claim has, and the evidence nowhere else."""
    names = {k for row in named for k in telling_keys_of(row.cells[0][1])}
    outside = _outside(evidence)
    said, known = quantities_of(claim.text), quantities_of(outside)
    numbers = [
        q
        for q in said
        if not telling_keys_of(claim.text[q.start : q.end]) <= names
        and not _COMPARED.search(claim.text[: q.start])
        and not any(equal_quantity(q, k) for k in known)
    ]
    words = claim.keys - names - telling_keys_of(outside)
    seen: set[tuple[str, int | str]] = set()
    for row in block.rows:
        for label, value in row.cells[1:]:
            held = quantities_of(value)
            for number in numbers:
                if any(equal_quantity(number, q) for q in held) and (label, number.start) not in seen:
                    seen.add((label, number.start))
                    yield _Value(number.end, _rows_with(block, number), label)
            every = telling_keys_of(value)
            keys = every & words
            if (
                not held
                and keys
                and (keys == every or (len(keys) > 1 and len(keys) >= _PART * len(every)))
                and (label, value) not in seen
            ):
                seen.add((label, value))
                rows = tuple(r for r in block.rows if any(telling_keys_of(v) >= keys for _, v in r.cells))
                yield _Value(max(t.end for t in claim.tokens if t.key in keys), rows, label)


def _rows_with(block: Block, number: Quantity) -> tuple[Row, ...]:
    return tuple(r for r in block.rows if any(equal_quantity(number, q) for _, v in r.cells for q in quantities_of(v)))


@lru_cache(maxsize=256)
def _outside(evidence: str) -> str:
    """Return the evidence without its rows."""
    places = sorted((row.start, row.end) for block in blocks_of(evidence) for row in block.rows)
    edges = [(0, 0), *places, (len(evidence), len(evidence))]
    return "\n".join(evidence[a:b] for (_, a), (b, _) in pairwise(edges))


def of_other_column(claim: Sentence, evidence: str) -> Found:
    """Find a number that a row of fields gives for another column than the one that the claim names.

    "The Plus is installed for €1,950" where the row has "Installation Basic: €1,950; Installation Plus: €2,450". Names
    and numbers are paired in their order, so there must be as many. Columns of one kind have a word in common, or stand
    in a row whose first cell has no label: there columns are things, and the row is an attribute of theirs.
    """
    rows = [line.row for m in _LINE.finditer(evidence) if (line := _line(m)) is not None and line.kind == "fields"]
    if claim.is_negated or not rows:
        return None
    own = [row for row in rows if telling_keys_of(row.cells[0][1]) <= claim.keys]
    if len(own) != 1 and len(rows) > 1:
        return None
    for alike in _columns_alike((own or rows)[0]):
        shared = frozenset.intersection(*(telling_keys_of(label) for label, _ in alike))
        named = [(max(places), column) for column in alike if (places := _places(claim, column[0], shared))]
        having = [(q, [c for c in alike if _has(c[1], q)]) for q in quantities_of(claim.text)]
        said = [(q, owners[0]) for q, owners in having if len(owners) == 1]
        if len(named) != len(said):
            continue
        for (quantity, owner), (_, column) in zip(said, sorted(named), strict=True):
            if owner != column:
                return claim.text[quantity.start : quantity.end], f"{column[0]}: {column[1]}"
    return None


def _columns_alike(row: Row) -> Iterator[list[tuple[str, str]]]:
    """Group the columns of a row that hold numbers of one unit and have a word in common, or are names of things."""
    groups: dict[str | None, list[tuple[str, str]]] = {}
    for label, value in row.cells[1:]:
        numbers = quantities_of(value)
        if len(numbers) == 1 and label:
            groups.setdefault(numbers[0].dimension, []).append((label, value))
    for group in groups.values():
        words = [telling_keys_of(label) for label, _ in group]
        if len(group) > 1 and (not row.cells[0][0] or frozenset.intersection(*words)):
            yield group


def _places(claim: Sentence, label: str, shared: frozenset[str]) -> list[int]:
    """Return the places of the words of a column's name that others lack, if the claim has all of them."""
    words = telling_keys_of(label) - shared
    return [t.end for t in claim.tokens if t.key in words] if words and words <= claim.keys else []


def _has(value: str, number: Quantity) -> bool:
    return any(equal_quantity(number, q) for q in quantities_of(value))


def row_subject(sentence: Sentence) -> frozenset[str]:
    """Return the words that name what a row of fields is about; none of other sentences.

    >>> from shared_core.citation.facts.tokens import sentences_of
    >>> sorted(row_subject(sentences_of("Service: Cradle hire; Price: £6 per week")[0]))
    ['cradl', 'hire']
    """
    fields = _fields(sentence.text.strip())
    return telling_keys_of(fields[0][1]) if fields else frozenset()
