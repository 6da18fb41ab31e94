"""Name the columns in each row of a table, if its header cells (``<th>``) or its first row give the names.

"Flag: -v; Meaning: verbose" can be found, read and quoted alone, so a cell that spans several rows is written in each
of them. Office documents and many pages do not mark header rows. A first row is taken for one if all rows are as wide
as it is, at least three columns; its cells are short, differ and are no values (but years above other values); and some
column has digits in each row below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from shared_core.documents.loaders.extracted import (
    CELL_GAP,
    LINE_GAP,
    SPACE_GAP,
    TERM_LEVEL,
    Heading,
    TextRun,
    join_runs,
    one_line,
)
from shared_core.documents.loaders.table_cells import (
    first_of_group,
    group_names,
    have_numbers,
    is_value,
    is_year,
    join_heads,
)
from shared_core.support.regex import lazy_regex

CELLS = frozenset(("td", "th"))
_CELL_LETTERS = 600  # a longer cell belongs to the page's layout rather than to a table
_LONGEST_NAME, _LONGEST_MARKED = 40, 120  # characters of a column's name; of one in cells marked as a head
_LONGEST_REPEATED, _MOST_REPEATED = 80, 8  # letters of a cell that spans rows; such cells in a row
_LEAST_COLUMNS, _LEAST_ROWS = 2, 2
_MOST_HEADS, _MOST_COLUMNS = 3, 100  # rows of names; columns that they name
_LEAST_UNMARKED = 3  # columns, and rows, of a table whose header row is not marked
_SENTENCE = lazy_regex(r"[.!?](?:\s|$)")
_DIGIT = lazy_regex(r"\d")
_BOLD = lazy_regex(r"(\*\*|__)[^*_]+\1")


def flatten_cell(runs: Sequence[TextRun], first: int, gap: int) -> bool:
    """Put a short cell on one line, whatever blocks are in it; a long one is layout and keeps them.

    The runs from ``first`` on are the cell's; ``gap`` is the separator due before it, 0 if there is none.
    """
    if first == len(runs) or not _is_plain(runs, first, len(runs)):
        return False
    runs[first].gap = min(runs[first].gap, gap) if gap else runs[first].gap
    for run in runs[first + 1 :]:
        run.gap = min(run.gap, SPACE_GAP)
    return True


def _is_plain(runs: Sequence[TextRun], first: int, end: int) -> bool:
    letters = 0
    for i in range(first, end):  # a cell may hold half the page, and each of the cells around it as well
        letters += len(runs[i].text)
        if letters > _CELL_LETTERS or runs[i].level or runs[i].preformatted:
            return False
    return True


@dataclass(slots=True)
class _Cell:
    """A cell with the runs ``runs[first:end]``; ``repeated`` if it began in a row above and spans this one, too.

    ``nested`` if a table is in it.
    """

    first: int
    end: int
    header: bool
    columns: int
    rows: int
    repeated: bool = False
    nested: bool = False


@dataclass(slots=True)
class Table:
    """A table whose first run is ``runs[first]``.

    The last one of several rows within it begins at ``runs[inner]``, -1 if there is none.
    """

    first: int
    inner: int = -1
    rows: list[list[_Cell]] = field(default_factory=list)

    def start_cell(self, tag: str, attributes: Mapping[str, str], at: int) -> None:
        """Begin a cell of the last row, before the run ``at``; the first may lack one, as in ``<thead><th>``."""
        if not self.rows:
            self.rows.append([])
        columns, rows = _spanned(attributes.get("colspan")), _spanned(attributes.get("rowspan"))
        self.rows[-1].append(_Cell(at, at, tag == "th", columns, rows))

    def end_cell(self, at: int) -> None:
        """End the last cell."""
        if self.rows and self.rows[-1]:
            self.rows[-1][-1].end = at

    def nest(self) -> None:
        """Note that a table begins in the last cell."""
        if self.rows and self.rows[-1]:
            self.rows[-1][-1].nested = True

    def named(self, runs: Sequence[TextRun], level: int, number: int) -> list[TextRun]:
        """Return the table's runs with the names of the columns in its rows; none if nothing is to change.

        If the rows hold prose, the first cell of each heads a section of this level, as a term does, and so does a
        name alone in a row above others ("Pool"); headings are numbered from ``number`` on. Of two columns of which
        only the first has a name, the rows are labels and values.
        """
        rows = _with_spanning(self.rows, runs)
        rows = [row for row in rows if any(cell.end > cell.first and not cell.repeated for cell in row)]
        rows, again = _with_one_head(rows, runs)
        # A first row of one cell across all columns, above a row of several, is a caption.
        captioned = len(rows) > 1 and len(rows[0]) == 1 and rows[0][0].columns == _width(rows[1]) > 1
        rows = rows[captioned:]
        names, heads = _column_names(rows, runs)
        if not names:
            return []
        head, body = rows[:heads], rows[heads:]
        groups = _groups(body, len(names), runs)
        fitting = [i for i, row in enumerate(body) if i not in groups and _can_name(row, len(names), runs)]
        known = {*fitting, *groups}
        whole = all(i in known or _fills(row, len(names)) for i, row in enumerate(body))
        # Tables with tables in them are most often a page's layout, but not if those fill rows between named ones.
        nested = any(cell.nested for row in rows for cell in row)
        if not fitting or (nested and not (whole and all(cell.header for row in head for cell in row))):
            return []
        prose = all(row[0].end > row[0].first and any(map(_SENTENCE.search, _texts(row[1:], runs))) for row in body)
        # "Info" above labels, and nothing above their values, is the table's title.
        labels = not prose and len(names) == _LEAST_COLUMNS and not names[1]
        for count, i in enumerate(sorted(groups), 1):
            _make_heading(body[i][0], runs, level, number + count)
        writer = _RowWriter(["", ""] if labels else names, ": " if labels else "; ", runs)
        writer.leave_out(cell for i in groups for cell in body[i][1:])
        sharing = first_of_group([_texts(body[i], runs) for i in fitting])
        for row, first in zip((body[i] for i in fitting), (body[fitting[i]][0] for i in sharing)):
            writer.add(row, first)
            if prose and not row[0].repeated:
                _make_heading(row[0], runs, level, number + len(writer.prefixes))
        start, stop = head[0][0].first, max(cell.end for row in head for cell in row)
        # If some row could not take the names, the rows of names stay, so that nothing is lost.
        dropped = range(start, stop) if whole and not labels else range(0)
        writer.leave_out(cell for row in again for cell in row if dropped)
        if dropped and stop < len(runs):
            runs[stop].gap = max(runs[stop].gap, runs[start].gap)
        return writer.written(self.first, dropped)


def _make_heading(cell: _Cell, runs: Sequence[TextRun], level: int, number: int) -> None:
    for run in runs[cell.first : cell.end]:
        run.level, run.heading = level, number


class _RowWriter:
    """Puts ``prefixes`` before runs: names of columns before cells of rows, or signs between a label and its value."""

    def __init__(self, names: Sequence[str], joint: str, runs: Sequence[TextRun]) -> None:
        self._names, self._joint, self._runs = names, joint, runs
        self._blank: set[int] = set()  # runs of cells with nothing but spaces that do not break
        self.prefixes: dict[int, str] = {}

    def leave_out(self, cells: Iterable[_Cell]) -> None:
        """Leave out the runs of cells without text."""
        self._blank.update(place for cell in cells for place in range(cell.first, cell.end))

    def add(self, row: Sequence[_Cell], first: _Cell) -> None:
        """Name the cells of a row that belongs to a group of rows with this first cell."""
        texts = _texts(row, self._runs)
        filled = [(f"{name}: " * bool(name), cell) for name, cell, text in zip(self._names, row, texts) if text]
        self.leave_out(cell for cell, text in zip(row, texts) if not text)
        for _, cell in filled:
            _strip_end(self._runs[cell.first : cell.end])
        if first is not row[0] and first.end > first.first:
            filled.insert(0, (f"{self._names[0]}: " * bool(self._names[0]), replace(first, repeated=True)))
        above = "".join(f"{name}{_text(cell, self._runs)}; " for name, cell in filled if cell.repeated)
        own = [(name, cell.first) for name, cell in filled if not cell.repeated]
        self.prefixes |= {at: (self._joint if i else above) + name for i, (name, at) in enumerate(own)}

    def written(self, first: int, dropped: range) -> list[TextRun]:
        """Return the runs from ``first`` on as they are written, without those in ``dropped``."""
        out = []
        due = 0
        for i in range(first, len(self._runs)):
            run = self._runs[i]
            if i in self._blank:
                due = max(due, run.gap)
                continue
            run.gap, due = max(run.gap, due), 0
            if text := self.prefixes.get(i):
                gap = 0 if text.startswith(self._joint) else run.gap
                out.append(TextRun(gap, text, run.zone, level=run.level, heading=run.heading))
                run.gap = 0
            if i not in dropped:
                out.append(run)
        return out


def _strip_end(runs: Sequence[TextRun]) -> None:
    for run in reversed(runs):
        run.text = run.text.rstrip()
        if run.text:
            return


def _spanned(number: str | None) -> int:
    """Return how many rows or columns a cell spans; 0 stands for all that follow."""
    number = (number or "").strip()
    return (int(number) or 10**5) if number.isdecimal() and len(number) < 6 else 1


def _with_spanning(rows: Sequence[Sequence[_Cell]], runs: Sequence[TextRun]) -> list[list[_Cell]]:
    """Return the rows, in each also the cells that began above and span it, if they are few; long ones are empty."""
    found: list[list[_Cell]] = []
    spanning: dict[int, tuple[_Cell, int]] = {}  # by column: a cell, and the rows below that it spans
    for row in rows:
        own, full, column = list(reversed(row)), [], 0
        below = {at: (cell, left - 1) for at, (cell, left) in spanning.items() if left > 1}
        while own or column in spanning:
            if column in spanning:
                cell = spanning[column][0]
            else:
                cell = own.pop()
                if cell.rows > 1:
                    short = sum(len(run.text) for run in runs[cell.first : cell.end]) <= _LONGEST_REPEATED
                    end = cell.end if short else cell.first
                    below[column] = replace(cell, end=end, repeated=True), cell.rows - 1
            full.append(cell)
            column += cell.columns
        found.append(full)
        spanning = below if len(below) <= _MOST_REPEATED else {}
    return found


def _with_one_head(rows: list[list[_Cell]], runs: Sequence[TextRun]) -> tuple[list[list[_Cell]], list[list[_Cell]]]:
    """Return the rows with a head that is repeated for each group of rows once, above all; and the other such heads.

    A head that is not marked stands below the name of each group, a cell alone in its row.
    """
    at = next((i for i, row in enumerate(rows) if len(row) > 1), len(rows))
    names = _texts(rows[at], runs) if at < len(rows) else []
    rows = [part for row in rows for part in _parted(row, names, runs)]
    alike = (i for i in range(at + 1, len(rows)) if len(rows[i]) == len(names))
    again = [i for i in alike if _are_same_names(names, _texts(rows[i], runs))]
    if not again or len(set(names)) < len(names) or not all(names):
        return rows, []
    others = [_widened(row, len(names)) for i, row in enumerate(rows) if i != at and i not in again]
    marked = all(cell.header for i in (at, *again) for cell in rows[i])
    grouped = at > 0 and all(len(rows[i - 1]) == 1 for i in again) and not any(map(_DIGIT.search, names))
    if not marked and not (grouped and _names_columns(names, [row for row in others if len(row) > 1], runs)):
        return rows, []
    return [[replace(cell, header=True) for cell in rows[at]], *others], [rows[i] for i in again]


def _parted(row: list[_Cell], names: Sequence[str], runs: Sequence[TextRun]) -> list[list[_Cell]]:
    """Return a row as two if it begins with the names and has more cells: a page may lack the tag between them."""
    width = len(names)
    if not 0 < width < len(row) or not _are_same_names(names, _texts(row[:width], runs)):
        return [row]
    return [row[:width], row[width:]]


def _widened(row: Sequence[_Cell], columns: int) -> list[_Cell]:
    """Return a row with as many columns: a lone cell is across all, and cells that are missing at its end are empty."""
    if len(row) == 1:
        return [replace(row[0], columns=max(row[0].columns, columns))]
    end = row[-1].end
    return [*row, *(_Cell(end, end, False, 1, 1) for _ in range(columns - _width(row)))]


def _are_same_names(names: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether names are the same, or shortened: "Freq." and "Frequency"."""
    pairs = [(a.casefold().rstrip("."), b.casefold().rstrip(".")) for a, b in zip(names, others)]
    alike = all(b and (a.startswith(b) or b.startswith(a)) for a, b in pairs)
    return alike and any(a == b for a, b in pairs)


def _width(row: Sequence[_Cell]) -> int:
    return sum(cell.columns for cell in row)


def _column_names(rows: Sequence[Sequence[_Cell]], runs: Sequence[TextRun]) -> tuple[list[str], int]:
    """Return the names of the columns and how many rows give them; no names if the first rows are none of names.

    In a head of two or three rows, some cell above the last row spans columns; a column's name is what stands above
    it, from the top: "Return window Guests".
    """
    body = next((i for i, row in enumerate(rows) if not all(cell.header for cell in row)), len(rows))
    while body > 1 and len(rows[body - 1]) == 1 and len(rows[body - 2]) > 1:
        body -= 1  # the name of the first group of rows
    heads = max(1, body)
    if len(rows) <= heads or heads > _MOST_HEADS or len(rows[0]) < _LEAST_COLUMNS:
        return [], 0
    if body == 1 and (names := _names_of_two_rows(rows, runs)):
        return names, 2
    widths = {_width(row) for row in rows[: heads + 1 if heads > 1 else 1]}
    wide = any(cell.columns > 1 for row in rows[: heads - 1] for cell in row)
    if len(widths) > 1 or wide != (heads > 1) or max(widths) > (_MOST_COLUMNS if wide else len(rows[0])):
        return [], 0
    columns = zip(*(_by_column(row, runs) for row in rows[:heads]))
    names = [" ".join(dict.fromkeys(filter(None, column))).rstrip(" :") for column in columns]
    if not body:
        groups = _groups(rows[1:], len(names), runs)
        if not _names_columns(names, [row for i, row in enumerate(rows[1:]) if i not in groups], runs):
            return [], 0
    given = [name for name in names if name]
    fit = given and len(set(given)) == len(given) and all(_is_short(name, marked=body > 0) for name in given)
    return (names, heads) if fit else ([], 0)


def _names_of_two_rows(rows: Sequence[Sequence[_Cell]], runs: Sequence[TextRun]) -> list[str]:
    """Return the names of columns if the first of the other rows goes on with a marked head, as in tables of Markdown.

    There columns that a name spans have no name, or a wide cell; below it each has one, above numbers.
    """
    second, width = rows[1], _width(rows[0])
    if len(second) != width or any(cell.columns > 1 or cell.rows > 1 for cell in second) or width > _MOST_COLUMNS:
        return []
    header = [t for cell, text in zip(rows[0], _texts(rows[0], runs)) for t in (text, *[""] * (cell.columns - 1))]
    below, others = _texts(second, runs), [_texts(row, runs) for row in rows[2:] if len(row) == width]
    spanned = [i for i, name in enumerate(header) if not name and any(row[i] for row in others)]
    names = join_heads(header, below, spanned, others) if have_numbers(others, spanned) else []
    given = [name for name in names if name]
    return names if len(set(given)) == len(given) and all(_is_short(name, marked=True) for name in given) else []


def _is_short(name: str, *, marked: bool) -> bool:
    """Return whether a name of a column is no longer than people read before each value; a sentence is prose."""
    return len(name) <= _LONGEST_NAME or (marked and len(name) <= _LONGEST_MARKED and not name.endswith("."))


def _by_column(row: Sequence[_Cell], runs: Sequence[TextRun]) -> list[str]:
    """Return the text above each column: that of a wide cell above each that it spans."""
    return [text for cell, text in zip(row, _texts(row, runs)) for _ in range(cell.columns)]


def _names_columns(names: Sequence[str], body: Sequence[Sequence[_Cell]], runs: Sequence[TextRun]) -> bool:
    """Return whether an unmarked first row is one of names."""
    if len(names) < _LEAST_UNMARKED or len(body) + 1 < _LEAST_UNMARKED or any(len(r) != len(names) for r in body):
        return False
    texts = [_texts(row, runs) for row in body]
    for name, column in zip(names, zip(*texts)):
        if is_value(name) and not (is_year(name) and not any(map(is_year, column))):
            return False
    return "" not in names[1:] and any(all(map(_DIGIT.search, column)) for column in zip(*texts))


def _texts(row: Sequence[_Cell], runs: Sequence[TextRun]) -> list[str]:
    return [_text(cell, runs) for cell in row]


def _text(cell: _Cell, runs: Sequence[TextRun]) -> str:
    """Return the text of a cell on one line; only its beginning if tables are in it: all around hold that, too."""
    end = cell.end
    if cell.nested:
        letters = accumulate(len(runs[i].text) for i in range(cell.first, cell.end))
        end = next((i + 1 for i, n in enumerate(letters, cell.first) if n > _CELL_LETTERS), end)
    return one_line("".join(run.text for run in runs[cell.first : end]))


def _can_name(row: Sequence[_Cell], columns: int, runs: Sequence[TextRun]) -> bool:
    """Return whether a row has one plain cell for each column."""
    return len(row) == columns and all(c.columns == 1 and not c.nested and _is_plain(runs, c.first, c.end) for c in row)


def _fills(row: Sequence[_Cell], columns: int) -> bool:
    """Return whether one cell spans all columns."""
    return len(row) == 1 and _width(row) >= columns > 1


def _groups(body: Sequence[Sequence[_Cell]], columns: int, runs: Sequence[TextRun]) -> set[int]:
    """Return which rows below a head name the rows below them: a cell across all columns, or the only filled one."""
    texts = [_texts(row, runs) for row in body]
    lone = [
        _can_head(row[0], runs) and (_fills(row, columns) or _is_bold(some, texts)) for row, some in zip(body, texts)
    ]
    full = [sum(map(bool, some)) > 1 for some in texts]
    found = {i for i, (one, below) in enumerate(zip(lone, [*full[1:], False])) if one and below}
    if found or any(len(row) != columns for row in body):
        return found
    return {i for i in group_names(texts) if _can_head(body[i][0], runs)}


def _is_bold(row: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a row's only filled cell is bold in Markdown, as no first cell of a row of several is."""
    if any(row[1:]) or not _BOLD.fullmatch(row[0]):
        return False
    return not any(_BOLD.fullmatch(other[0]) for other in rows if any(other[1:]))


def _can_head(cell: _Cell, runs: Sequence[TextRun]) -> bool:
    """Return whether a cell can name the rows below."""
    (text,) = _texts([cell], runs)
    named = 0 < len(text) <= _LONGEST_NAME and not _SENTENCE.search(text) and (is_year(text) or not is_value(text))
    return named and not cell.nested and _is_plain(runs, cell.first, cell.end)


def replace_tables(
    text: str, found: Iterable[re.Match[str]], rows_of: Callable[[re.Match[str]], Sequence[Sequence[str]]]
) -> tuple[str, list[Heading]]:
    """Return the text with named rows in place of tables, and the headings that rows of prose have.

    Args:
        found: tables, each with the line break behind it, if there is one.
        rows_of: returns the rows of cells of such a table, the names of its columns first; none to leave it as it is.
    """
    pieces: list[str] = []
    terms: list[Heading] = []
    length = last = 0
    for match in found:
        named, headings = _name_rows(rows_of(match))
        if not named:
            continue
        before = text[last : match.start()]
        before += "\n" if before.strip() and not before.endswith(("\n\n", "\n\r\n")) else ""
        length += len(before)
        terms += [h.moved(length)._replace(label=h.label.strip("*_ ")) for h in headings]
        named += "\n" * match[0].endswith("\n")
        length, last = length + len(named), match.end()
        terms += [Heading(length, length, TERM_LEVEL, "")] if headings else []
        pieces += before, named
    return "".join(pieces) + text[last:], terms


def _name_rows(rows: Sequence[Sequence[str]]) -> tuple[str, list[Heading]]:
    """Return rows of cells with the names in the first, and their headings; nothing if they cannot be named."""
    if len(rows) < _LEAST_ROWS or max(map(len, rows)) > len(rows[0]):
        return "", []
    if len(rows[0]) == 2 and not any(rows[0]):
        return _label_values(rows[1:]), []
    runs: list[TextRun] = []
    table = Table(0)
    for number, row in enumerate(rows):
        table.rows.append([])
        begins = len(runs)
        for cell in [*row, *[""] * (len(rows[0]) - len(row))]:
            table.start_cell("td" if number else "th", {}, len(runs))
            if cell:
                runs.append(TextRun(LINE_GAP if len(runs) == begins else CELL_GAP, cell))
            table.end_cell(len(runs))
    named = table.named(runs, TERM_LEVEL, 0)
    return join_runs(named, [True] * len(named))


def _label_values(rows: Sequence[Sequence[str]]) -> str:
    """Return "label: value" for each row of a table whose columns have no names; nothing if the first are no labels."""
    labels = [row[0].strip("*_ ") for row in rows]
    if not all(label and len(label) <= _LONGEST_NAME and not is_value(label) for label in labels):
        return ""
    return "\n".join(": ".join([label, *filter(None, row[1:])]) for label, row in zip(labels, rows))
