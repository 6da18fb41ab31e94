"""Read the named cells of a table's row: "Team: Ashford; Played: 14; Points: 29"."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from shared_core.citation.facts.quantities import Quantity
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

Range = tuple[int, int]
"""Where something begins and ends in a passage's text."""
Place = tuple[int, int, int]
"""The number of a passage, and where something begins and ends in its text."""

LETTERS = lazy_regex(r"[^\W\d_]{2}")
EMPTY = lazy_regex(
    r"[-–—?]*|n/?a|tb[adc]|(?:to be|not yet) (?:decided|announced|confirmed|determined|known)|coming soon",
    re.IGNORECASE,
)
"""The whole text of a cell that gives nothing."""
LONGEST = 240
"""Characters of a table's row at most, if one of its cells is long: then it holds prose, which may speak of a thing
without its name."""
_LONGEST_CELL = 80
_NAME = lazy_regex(r"(?:^[ \t]*|; )([^:;|\n]{1,80}+): ", re.MULTILINE)
_ORDINAL = lazy_regex(r"\(?\d{1,3}[.)]\s+(?=[^\W\d])")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows of tables, and lines of lists, that answer a question by their values.

    Attributes:
        lines: those that do, with the cell that is the short answer, if that is known.
        others: lines beside them that do not.
        value: the question's, which they need not have as it is written.
        is_whole: all rows of their table were compared, so that no other is left: twice the log-odds of a definition.
    """

    lines: Mapping[Place, Range | None] = field(default_factory=dict)
    others: Collection[Place] = ()
    value: Quantity | None = None
    is_whole: bool = False

    def line_of(self, place: Place) -> Place | None:
        """Return the chosen line that something in a passage shares characters with."""
        return next((line for line in self.lines if _share(line, place)), None)

    def leaves_out(self, place: Place) -> bool:
        """Return whether something in a passage shares characters only with lines that do not answer."""
        return self.line_of(place) is None and any(_share(line, place) for line in self.others)


def _share(one: Place, other: Place) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


def is_named_row(passage: Passage) -> bool:
    """Return whether a passage is a row of a table with the names of its columns, rather than the text of one."""
    return "row" in passage.metadata and len(_NAME.findall(passage.text)) > 2


def cells_at(passage: Passage, start: int, end: int) -> tuple[Range, list[tuple[Range, Range]]] | None:
    """Return what names a row, and the name and the value of each cell; ``None`` if it is none, or holds prose.

    Its first cell names it, which is one of the others if its column has a name; the second, if the first is a number.

    >>> (key, cells) = cells_at(p := Passage("p", "Team: Ashford; Won: 9"), 0, 21)
    >>> p.text[slice(*key)], [(p.text[slice(*name)], p.text[slice(*value)]) for name, value in cells]
    ('Ashford', [('Team', 'Ashford'), ('Won', '9')])
    """
    text = passage.text
    names = list(_NAME.finditer(text, start, end))
    if "\n" in text[start:end] and (end - start < len(text.strip()) or "row" not in passage.metadata):
        return None
    if not names or names[-1].start() == start:  # there is a name behind the first cell
        return None
    ends = [*(name.start() for name in names[1:]), end]
    values = (text[a.end() : b].strip("; \n") for a, b in zip(names, ends))
    if end - start > LONGEST and any(len(value) > _LONGEST_CELL and " " in value for value in values):
        return None  # but not because of a link
    cells = [(name.span(1), (name.end(), b)) for name, b in zip(names, ends)]
    key = (start, names[0].start()) if names[0].start() > start else cells[0][1]
    if not LETTERS.search(text, *key):
        after = next((value for _, value in cells if value != key), key)
        key = after if LETTERS.search(text, *after) else key
    number = _ORDINAL.match(text, *key)
    return (number.end() if number else key[0], key[1]), cells
