"""Write rows of tables as text with the names of their columns.

A table's text column becomes the text, row by row, with the other columns as metadata. Where these tell what the text
is about (reviews of products), or there are no texts (prices, people, stock), rows are written out: "article: Hammer;
price: 17.50". A row with a long text has the name of its thing as title, for the parts that the text is cut into.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from shared_core.documents.loaders.extracted import (
    TERM_LEVEL,
    Extracted,
    Heading,
    Problem,
    Segment,
    join_texts,
    one_line,
    without_surrogates,
)
from shared_core.errors import DocumentError
from shared_core.support.regex import lazy_regex
from shared_core.types import MetadataValue

TEXT_COLUMNS = tuple(
    """text content body passage paragraph document context article page_content description abstract summary answer
    message comment review""".split()
)
"""Names of columns that hold the text (case does not matter): the first one with long values, else the first one."""

TITLE_COLUMNS = ("title", "name", "heading", "headline", "subject", "question")
RESERVED = frozenset("source start end page page_end page_label page_end_label page_break row rows section cut".split())
"""Metadata names of our own: a column of that name becomes ``column_NAME``."""

MAX_CELLS = 5_000_000
SHORT = 80
"""Characters: if the median value of a column is shorter, its values are cells rather than texts."""

_PASSAGES = frozenset("text content body passage paragraph context page_content".split())
"""Names of columns whose texts can stand alone; the others tell of something that other columns name."""
_TELLS_NOTHING = lazy_regex(
    r"(?:.*[ _-])?(?:ids?|uuid|guid|hash|index|url|uri|link|href|source|path|file|filename|lang|language|locale|split|"
    r"embeddings?|vector)|docid|.*ids",
    re.IGNORECASE,
)
"""Names of columns for programs rather than readers."""
_ADDRESS = lazy_regex(r"\w+://|www\.|[\w.+-]+@[\w-]+\.|[./~\\]?[\w.-]*[/\\]\S*$|[0-9a-f-]{16,}$", re.IGNORECASE)
_NAME = lazy_regex(r"(?=[^\W\d_])(?:[^\W_]*[^\W\d_a-zß-öø-ÿ]|.*\s)")
"""Values that name something: with a capital in the first word, or several words."""
_SEVERAL_WORDS = lazy_regex(r"\S+\s+\S")
_SAME = frozenset("yes no true false none unknown n/a".split())
_MANY_NAMES = 10  # so many values of one word each are no classes, such as "Open", however many rows there are
_TITLES = 2  # columns
_STORE_PREFIXES = ("chroma:", "selfreflect:")  # reserved by vector stores
_ROW_BREAK = "\n\n"
_MAX_INTEGER = 2**63
_MAX_PROBLEMS = 20
_TITLE_CHARACTERS = 200

Row = tuple[int, Mapping[str, Any]]
"""Number (CSV: of the data row; JSON Lines: of the line) and values."""


def as_text(
    rows: Sequence[Row],
    columns: Sequence[str],
    text_column: str | None,
    problems: list[Problem],
    unit: str,
    written: Mapping[int, Sequence[str]] | None = None,
    groups: Mapping[int, str] | None = None,
) -> Extracted:
    """Return the text of a table's text column, row by row; whole rows if it has no such column.

    Args:
        rows: numbers and values.
        columns: names in the order of the file.
        text_column: named by the user; ``None`` looks for one of ``TEXT_COLUMNS``.
        unit: what a row's number counts (``row``, ``line``, ``entry``).
        written: the cells of each row as the file has them, by the row's number, in the order of ``columns``.
        groups: names of groups of rows, by the number of the first row.

    Raises:
        DocumentError: no rows, neither a text column nor words anywhere, or no text in the column.
    """
    if not rows:
        raise DocumentError("The table holds no rows.", hint="It needs a header with a text column, and rows.")
    layout = _layout_of(rows, columns, text_column)
    column = layout.text
    pieces: list[str] = []
    headings: list[Heading] = []
    segments: list[Segment] = []
    without: list[int] = []
    length = 0
    for number, values in rows:
        if group := (groups or {}).get(number):
            headings.append(Heading(length, length + len(group), TERM_LEVEL, group))
            pieces.append(group)
            length += len(group) + len(_ROW_BREAK)
        cells = dict(zip(columns, written[number])) if written and number in written else values
        text = without_surrogates(value) if column and isinstance(value := values.get(column), str) else ""
        if column is None or layout.beside:
            told = row_text({name: cells.get(name) for name in layout.beside} if column else cells)
            text = "; ".join(filter(None, (told, f"{column}: {text.strip()}" if told and text.strip() else text)))
        if not text.strip():
            without.append(number)
            continue
        title = _row_title(values, layout.title)
        left_out = {column, *(layout.title if title and not layout.beside else ())} if column is not None else set()
        metadata = {**_metadata(values, left_out), "row": number}
        segments.append(Segment(length, length + len(text), title, metadata))
        pieces.append(text)
        length += len(text) + len(_ROW_BREAK)
    if column is not None and not segments:
        raise DocumentError(f"Column {column!r} holds no text in any row.", hint="Name another: --text-column NAME.")
    if column is not None and without:
        what = f"{len(without)} rows have no text in column {column!r} (the first: {unit} {without[0]})"
        problems.append(Problem(what, "Fill it."))
    if column is None or layout.beside:  # whoever compares rows has to know whether there are more
        segments = [replace(s, metadata={**s.metadata, "rows": len(segments)}) for s in segments]
    text = _ROW_BREAK.join(pieces)
    if headings:
        headings.append(Heading(len(text), len(text), TERM_LEVEL, ""))
    return Extracted(text, "", tuple(headings), tuple(segments), _shortened(problems))


@dataclass(frozen=True, slots=True)
class _Layout:
    """The columns that become a row's text and its title.

    Attributes:
        text: the column with the text; ``None`` where rows are written out with all their cells, none of them long.
        beside: columns that are written before the text; empty where it stands alone.
        title: columns whose values are the row's title.
    """

    text: str | None
    beside: tuple[str, ...] = ()
    title: tuple[str, ...] = ()


def _layout_of(rows: Sequence[Row], columns: Sequence[str], wanted: str | None) -> _Layout:
    """Choose the column with the text, and whether the other cells of its row belong to the text too."""
    known = [c for name in TEXT_COLUMNS for c in columns if c.lower() == name]
    filled = {c: sorted(len(v) for v in _texts(rows, c)) for c in known}
    filled = {c: lengths for c, lengths in filled.items() if 2 * len(lengths) >= len(rows)}
    long = [c for c, lengths in filled.items() if lengths[len(lengths) // 2] >= SHORT]
    if wanted is not None or not (known or has_words(rows)):
        column = _find_text_column(columns, wanted)
    elif not known or (len(columns) > 1 and not filled):  # then what the rows say is in their other cells
        return _Layout(None, title=_named(columns))
    else:
        column = (long or [*filled, *known])[0]
    others = [c for c in columns if c and c != column]
    title = _named(others)
    beside = [c for c in others if c not in title and not _TELLS_NOTHING.fullmatch(c) and _is_told(rows, c)]
    named = [c for c in beside if any(any(map(str.isalpha, v)) for v in _texts(rows, c))]
    if wanted is not None or column in long:
        alone = {*_PASSAGES, "answer"}  # an answer has its question as title
        told = named and not title if column.lower() in alone else beside
        names = title or tuple(islice((c for c in named if _names_something(rows, c)), _TITLES))
        return _Layout(column, (*title, *beside) if told and wanted is None else (), names)
    if len(columns) > 1 and (column.lower() not in _PASSAGES or (named and not title)):
        return _Layout(None, title=title)
    return _Layout(column, title=title)


def _named(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the column with a title, if there is one."""
    return tuple(filter(None, (_first_named(columns, TITLE_COLUMNS),)))


def _texts(rows: Sequence[Row], column: str) -> Iterator[str]:
    return (v for _, values in rows if isinstance(v := values.get(column), str) and v.strip())


def _is_told(rows: Sequence[Row], column: str) -> bool:
    """Return whether a reader could ask for a column's values: mostly short ones, and no addresses or lists."""
    values = [v for _, row in rows if (v := row.get(column)) is not None and v != ""]
    fit = [v for v in values if not isinstance(v, str) or (len(v) < SHORT and not _ADDRESS.match(v.strip()))]
    return 2 * sum(not isinstance(v, dict | list) for v in fit) > len(values)


def _names_something(rows: Sequence[Row], column: str) -> bool:
    """Return whether a column names what its row is about: "Lumen headlamp", but no class such as "Open" or "Yes"."""
    values = list(_texts(rows, column))
    names = [v for v in values if _NAME.match(v.strip()) and v.strip().lower() not in _SAME]
    different = len(set(names))
    if 2 * len(names) <= len(rows) or (different == 1 and len(rows) > 1):
        return False
    several = sum(_SEVERAL_WORDS.match(v.strip()) is not None for v in names)
    return 2 * several > len(names) or different >= _MANY_NAMES or different**2 >= len(rows)


def has_words(rows: Sequence[Row]) -> bool:
    """Return whether a value of some row holds words, so that it makes sense written out."""
    return any(any(map(str.isalpha, v)) for _, row in rows for v in row.values() if isinstance(v, str))


def _first_named(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the column with the first of these names that one has; case does not matter."""
    return next((column for name in names for column in columns if column.lower() == name), None)


def _find_text_column(columns: Sequence[str], wanted: str | None) -> str:
    if wanted is not None and wanted in columns:
        return wanted
    if (found := _first_named(columns, (wanted.lower(),) if wanted else TEXT_COLUMNS)) is not None:
        return found
    shown = ", ".join(repr(c) for c in columns[:20]) or "none"
    raise DocumentError(
        f"There is no text column{f' {wanted!r}' if wanted else ''}; the columns are: {shown}.",
        hint="Name the column that holds the text: --text-column NAME.",
    )


def row_text(cells: Mapping[str, Any]) -> str:
    """Write a row as "name: value; name: value", without the empty ones; no name ends in a colon of its own."""
    flat = {name: _flat(value) for name, value in cells.items() if name}
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in flat.items()}
    lines = {name: one_line(value) for name, value in texts.items() if flat[name] is not None}
    return "; ".join(
        f"{without_surrogates(name.rstrip(' :') or name)}: {value}" for name, value in lines.items() if value
    )


def _row_title(values: Mapping[str, Any], columns: Sequence[str]) -> str:
    titles = (one_line(without_surrogates(str(v))) for c in columns if (v := values.get(c)) is not None)
    return ", ".join(filter(None, titles))[:_TITLE_CHARACTERS]


def _shortened(problems: list[Problem]) -> tuple[Problem, ...]:
    if len(problems) <= _MAX_PROBLEMS:
        return tuple(problems)
    more = Problem(f"… and {len(problems) - _MAX_PROBLEMS} more problems like these", problems[-1].hint)
    return (*problems[:_MAX_PROBLEMS], more)


def _metadata(values: Mapping[str, Any], left_out: Collection[str]) -> dict[str, MetadataValue]:
    result: dict[str, MetadataValue] = {}
    for name, value in values.items():
        flat = _flat(value) if name and name not in left_out else None
        if flat is not None and flat != "":
            key = without_surrogates(name)
            result[f"column_{key}" if key in RESERVED or key.startswith(_STORE_PREFIXES) else key] = flat
    return result


def _flat(value: Any) -> MetadataValue:
    """Convert a value for a vector store: nested ones to JSON, numbers beyond 64 bits to text, NaN to ``None``."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if -_MAX_INTEGER <= value < _MAX_INTEGER else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return without_surrogates(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def below(text: str, table: Extracted) -> Extracted:
    """Return a table with a text above it."""
    return join_texts((Extracted(text, segments=(Segment(0, len(text)),)), table)) if text else table
