"""Find groups of labelled lines below names: opening hours of a pool and a gym, contacts of several people.

"Monday: 9:00–17:00" stands below "Pool" and below "Gym", "Phone: 555 0123" below each name. If such names are no
headings in the file, they become terms, so that each line is read with its own. They are recognised by what is below
them: lines with the same labels as below another one. So are records, whose first lines have the same label.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from shared_core.documents.loaders.extracted import TERM_LEVEL, Extracted, Heading, one_line
from shared_core.support.regex import lazy_regex

_BULLET = lazy_regex(r"(?:[-*+•◦▪·]|\d{1,2}[.)]|[a-z][.)])[ \t]+")
_MARKS = lazy_regex(r"\*\*|__|`")
_FENCES = ("```", "~~~")
_LABELLED = lazy_regex(  # "Phone: 555 0123"; "Monday  9:00", "Monday – closed"; "Monday 9:00", "Adults €5"
    r"([^\W_][^:\t\n]{0,39}?)(?:\s?:\s(?=\s*\S)|\t|[ ]{2}|\s[–—-]\s(?=\S)|\.{3}|\s(?=[^\w\s]{0,2}\d))"
)
_NAME = lazy_regex(r"[^\W\d_][^:;!?\t\n]{0,39}(?<![.,]):?")  # not a street's, with its number
_OF_CODE = lazy_regex(r"[a-z0-9_.\-]+:")
_ENDS = (".", "!", "?", ":")
_LONGEST = 120  # characters of a labelled line
_SHORT = 60  # and of one without a sign behind its label
_MOST_WORDS = 6  # of a name or label
_MOST_OTHERS = 3  # lines below a group that have no labels
_LEAST_SHARED = 2  # labels that some groups share with others
_LEAST_RECORD = 3  # lines of records with no empty line between them


@dataclass(frozen=True, slots=True)
class _Line:
    """A line with text: its range, how far it is indented, its text without marks, its label ("" if it has none).

    ``signed`` if a sign parts the label from the rest, ``apart`` if an empty line is above.
    """

    start: int
    end: int
    indent: int
    bullet: bool
    text: str
    label: str
    signed: bool
    apart: bool

    @property
    def is_name(self) -> bool:
        """Whether it may be a name alone, such as "Pool:"."""
        fits = _NAME.fullmatch(self.text) and not _OF_CODE.fullmatch(self.text)
        return bool(fits) and not self.label and len(self.text.split()) <= _MOST_WORDS

    def heads(self, below: _Line) -> bool:
        """Return whether it may be the name of labelled lines of which the first is ``below``."""
        return self.is_name and bool(below.label) and (not self.bullet or below.indent > self.indent)


@dataclass(slots=True)
class _Group:
    """A line that may head labelled lines, and these, in a list of their own behind each empty line."""

    head: _Line
    rows: list[_Line]

    @property
    def end(self) -> int:
        """The end of its last line."""
        return self.rows[-1].end if self.rows else self.head.end

    @property
    def labels(self) -> list[str]:
        """The labels of its lines, of a record also that of its head."""
        return [row.label for row in (self.head, *self.rows) if row.label]


def with_groups(extracted: Extracted) -> Extracted:
    """Add the names of groups of labelled lines to the headings of a text.

    >>> text = "Pool\\nMonday: 9:00\\nSunday: 10:00\\n\\nGym\\nMonday: 8:00\\nSunday: closed\\n"
    >>> [heading.label for heading in with_groups(Extracted(text)).headings]
    ['Pool', 'Gym', '']
    """
    found: list[Heading] = []
    for run in _runs(extracted):
        groups = _named(run) or _records(run)
        if groups:
            level = _level_at(extracted.headings, groups[0].head.start)
            found += [Heading(g.head.start, g.head.end, level, g.head.text.rstrip(": ")) for g in groups]
            found.append(Heading(groups[-1].end, groups[-1].end, level, ""))
    if not found:
        return extracted
    return replace(extracted, headings=tuple(sorted([*extracted.headings, *found], key=lambda h: (h.start, h.end))))


def _level_at(headings: Sequence[Heading], place: int) -> int:
    """Return the level below all that is open at a place, that of terms or deeper."""
    above = headings[: bisect_right(headings, place, key=lambda h: h.start)]
    return max(TERM_LEVEL, above[-1].level + bool(above[-1].label)) if above else TERM_LEVEL


def _runs(extracted: Extracted) -> Iterator[list[_Group]]:
    """Yield groups that follow each other with no heading or longer text between them.

    A labelled line below none is the head of a group, too: of a record.
    """
    headings = {heading.start for heading in extracted.headings}
    run: list[_Group] = []
    others = 0
    lines = _with_first_words(list(_lines(extracted.text)))
    for line, below in itertools.pairwise([*lines, _Line(0, 0, 0, False, "", "", False, True)]):
        apart = line.start in headings or len(line.text) > _LONGEST
        if apart or others > _MOST_OTHERS:
            yield run
            run, others = [], 0
        if apart:
            continue
        if line.heads(below) or (line.label and (not run or others)):
            run.append(_Group(line, []))
            others = 0
        elif line.label:
            continues = not line.apart or line.bullet or not run[-1].rows
            run[-1].rows.append(line) if continues else run.append(_Group(line, []))
        elif run:
            others += 1
    yield run


def _named(run: Sequence[_Group]) -> list[_Group]:
    """Return the groups below names, of which some have the same labels; none if names or groups do not fit."""
    groups: list[_Group] = []
    for group in run:
        if not group.head.label:
            groups.append(_Group(group.head, list(group.rows)))
        elif groups:
            groups[-1].rows += [group.head, *group.rows]
    names = {group.head.text.casefold() for group in groups}
    shared = _shared(groups)
    alike = [group for group in groups if 2 * len(shared.intersection(group.labels)) >= len(set(group.labels))]
    fits = len(names) == len(groups) and len(shared) >= _LEAST_SHARED and len(alike) > 1 and names.isdisjoint(shared)
    return groups if fits else []


def _records(run: Sequence[_Group]) -> list[_Group]:
    """Return records: groups of lines whose first has the same label, and other values, and no label is there twice."""
    lines = [line for group in run for line in (group.head, *group.rows)]
    if lines and not lines[0].label:
        lines = lines[1:]  # the title of all
    if not lines or not all(line.signed for line in lines):
        return []
    groups: list[_Group] = []
    for line in lines:
        if line.label == lines[0].label:
            groups.append(_Group(line, []))
        else:
            groups[-1].rows.append(line)
    names = {group.head.text.casefold() for group in groups}
    if len(groups) < 2 or len(names) < len(groups) or any(name.endswith(_ENDS) for name in names):
        return []
    parted = all(group.head.apart for group in groups[1:])
    least = 2 if parted else _LEAST_RECORD
    whole = all(len(group.labels) == len(set(group.labels)) >= least for group in groups)
    talk = any(row.apart and not row.bullet for group in groups for row in group.rows)
    return groups if whole and not talk and len(_shared(groups)) >= _LEAST_SHARED else []


def _shared(groups: Sequence[_Group]) -> set[str]:
    """Return the labels that several groups have."""
    found = Counter(label for group in groups for label in set(group.labels))
    return {label for label, times in found.items() if times > 1}


def _lines(text: str) -> Iterator[_Line]:
    """Yield the lines with text, those of blocks of code without their labels."""
    fenced = apart = False
    start = 0
    for line in text.splitlines(keepends=True):
        content = line.strip()
        begin = start + len(line) - len(line.lstrip())
        start += len(line)
        if not content:
            apart = True
            continue
        fenced ^= content.startswith(_FENCES)
        indent = len(line[: len(line) - len(line.lstrip())].expandtabs())
        bullet = _BULLET.match(content)
        plain = "" if fenced else _MARKS.sub("", content[bullet.end() if bullet else 0 :][: 2 * _LONGEST])
        label, signed = _label(plain) if len(content) <= _LONGEST else ("", False)
        shown = one_line(plain) if len(content) <= _LONGEST else content
        yield _Line(begin, begin + len(content), indent, bullet is not None, shown, label, signed, apart)
        apart = False


def _with_first_words(lines: list[_Line]) -> list[_Line]:
    """Return the lines, short ones without a sign behind their label with their first word if that recurs.

    "Phone 555 0123" is set in two styles on the page.
    """
    firsts = [_first_word(line) for line in lines]
    times = Counter(firsts)
    return [
        replace(line, label=first.casefold()) if first and times[first] > 1 else line
        for line, first in zip(lines, firsts)
    ]


def _first_word(line: _Line) -> str:
    first, _, rest = line.text.partition(" ")
    short = len(line.text) <= _SHORT and not line.text.endswith(_ENDS) and bool(rest)
    return first if short and not line.label and first[:1].isupper() and first.isalpha() and len(first) > 2 else ""


def _label(line: str) -> tuple[str, bool]:
    """Return the label of a line and whether a sign is behind it."""
    found = _LABELLED.match(line)
    if found is None or len(found[1].split()) > _MOST_WORDS or _OF_CODE.match(line):
        return "", False
    return found[1].strip().casefold(), bool(found[0][len(found[1]) :].strip() or "\t" in found[0] or "  " in found[0])
