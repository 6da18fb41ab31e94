"""Values that loaders return, and what loaders share: joining texts, choosing a title, limits on time and memory.

Loaders check the time between their steps and bound memory through what it grows with: bytes unpacked, elements, cells.
Parsers that cannot be stopped from outside run in a helper process (``isolated.py``).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, NamedTuple, TypeVar

from shared_core.errors import DocumentError
from shared_core.support.regex import lazy_regex
from shared_core.types import MetadataValue

T = TypeVar("T")

TERM_LEVEL = 10
"""Level of the heading that a term of a definition list is; one more in a list within a definition."""

RAISED = str.maketrans("0123456789+-−–", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")
LOWERED = str.maketrans("0123456789+-−–", "₀₁₂₃₄₅₆₇₈₉₊₋₋₋")

SEPARATORS = ("", " ", "\t", "\n", "\n\n")  # the strongest one wins where several meet
SPACE_GAP, CELL_GAP, LINE_GAP, PARAGRAPH_GAP = 1, 2, 3, 4


class Heading(NamedTuple):
    """A heading: ``text[start:end]`` is its line (without line break), ``level`` counts from 1, the highest.

    One without a label ends what was open at its level: the definition of the last term of a list.
    """

    start: int
    end: int
    level: int
    label: str

    def moved(self, by: int) -> Heading:
        """Return the heading in a text with so many code points more before it."""
        return self._replace(start=self.start + by, end=self.end + by)


class Page(NamedTuple):
    """The start of a page in the text; its number counts from 1, its label (``iv``) is empty if that is its number."""

    start: int
    number: int
    label: str = ""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch ``[start, end)`` of the text whose ends no passage crosses, such as the row of a table.

    Attributes:
        start, end: code points in the extracted text.
        title: its own (from a row's title column); empty for the document's.
        metadata: added to each of its passages.
    """

    start: int
    end: int
    title: str = ""
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)

    def moved(self, by: int) -> Segment:
        """Return the segment in a text with so many code points more before it."""
        return replace(self, start=self.start + by, end=self.end + by)


class Problem(NamedTuple):
    """A line, page or row that could not be used while the rest of its file could, and what to do about it."""

    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Extracted:
    """The text of a file and its structure.

    Attributes:
        text: as extracted; all offsets count its code points.
        title: empty if the file has none.
        segments: in order, not overlapping; empty if the text is one segment. Text outside all segments (the front
            matter of a Markdown file) is kept but gets no passages.
        problems: what had to be left out.
        pages: where pages begin, in order; pages without text have none. A paragraph may run over a page's end.
    """

    text: str
    title: str = ""
    headings: tuple[Heading, ...] = ()
    segments: tuple[Segment, ...] = ()
    problems: tuple[Problem, ...] = ()
    pages: tuple[Page, ...] = ()


def join_texts(parts: Iterable[Extracted]) -> Extracted:
    """Join texts with their structure, but for their titles; an empty line is between them."""
    pieces: list[str] = []
    headings: list[Heading] = []
    segments: list[Segment] = []
    problems: list[Problem] = []
    pages: list[Page] = []
    length = 0
    for part in parts:
        headings += [heading.moved(length) for heading in part.headings]
        segments += [segment.moved(length) for segment in part.segments]
        problems += part.problems
        pages += [page._replace(start=page.start + length) for page in part.pages]
        pieces.append(part.text)
        length += len(part.text) + len(_PARTED)
    return Extracted(_PARTED.join(pieces), "", tuple(headings), tuple(segments), tuple(problems), tuple(pages))


def join_pages(parts: Iterable[Extracted]) -> Extracted:
    """Join slides, chapters or parts of a mail as pages, numbered from 1; those without text are left out."""
    numbered = enumerate(parts, 1)
    return join_texts(replace(part, pages=(Page(0, number),)) for number, part in numbered if part.text.strip())


# Its first line has a key, so that a rule at the top of a text begins none.
_FRONT_MATTER = lazy_regex(r"(---|\+\+\+)[ \t]*\r?\n(?:[ \t]*(?:#[^\n]*)?\r?\n)*(?=\[|[\"']?\w[\w-]*[\"']?[ \t]*[:=])")
_FRONT_TITLE = lazy_regex(r"^[\"']?title[\"']?[ \t]*[:=][ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
_PARTED = "\n\n"
_SURROGATE = lazy_regex("[\ud800-\udfff]")
_SENTENCE_ENDS = tuple(".?!;:,。？！؟")
_TITLE_CHARACTERS = 120
_NO_BREAK = lazy_regex(r"[^\r\n]")
_FIRST_LINE = lazy_regex(r"\s*(\S[^\r\n]*)(?>\r\n|\r|\n)[^\S\r\n]*[\r\n]")  # and an empty line below it


def front_matter(text: str) -> tuple[int, str]:
    """Return where a text begins after a block of YAML (``---``) or TOML (``+++``) at its top, and the title in that.

    >>> front_matter("---\\ntitle: Ropes\\n---\\nTar."), front_matter("Tar.")
    ((21, 'Ropes'), (0, ''))
    """
    mark = _FRONT_MATTER.match(text)
    if not mark:
        return 0, ""
    rule, sign = (r"(?:---|\.\.\.)", ":") if mark[1] == "---" else (r"\+\+\+", "=")
    end = re.compile(rf"^{rule}[ \t]*\r?(?:\n|\Z)", re.MULTILINE).search(text, mark.end())
    if not end or sign not in text[: end.start()]:
        return 0, ""
    title = _FRONT_TITLE.search(text, 0, end.start())
    return end.end(), one_line(title[1]).strip("\"'") if title else ""


# Titles that programs set when the author gave none.
_NO_TITLE = lazy_regex(
    r"^(untitled.*|microsoft (word|powerpoint) - .*|(slide|folie|diapositiv[ae]|スライド|幻灯片) \d+|no slide title"
    r"|powerpoint.?(presentation|präsentation|プレゼンテーション|演示文稿|프레젠테이션)|présentation powerpoint"
    r"|(presentación de|presentazione (standard di|di)) powerpoint|.*\.(docx?|odt|rtf|pptx?|tex|dvi|e?ps|pdf|indd))$",
    re.IGNORECASE,
)


def given_title(title: str) -> str:
    """Return the title among a document's properties on one line; empty if it is one that a program made up.

    >>> given_title("スライド 1"), given_title("Slide rules ")
    ('', 'Slide rules')
    """
    title = one_line(without_surrogates(title))
    return "" if _NO_TITLE.match(title) else title


def damaged(kind: str, error: Exception) -> DocumentError:
    """Return the error for a file that its parser cannot read."""
    detail = one_line(without_surrogates(str(error))) or type(error).__name__
    return DocumentError(
        f"The {kind} is damaged and cannot be read: {detail[:200]}",
        hint=f"Open it in the program that made it and save it as {kind} again.",
    )


def protected(kind: str) -> DocumentError:
    """Return the error for a file that needs a password."""
    return DocumentError(f"The {kind.upper()} is protected by a password.", hint="Save a copy without the password.")


def grouped(items: Iterable[T], joins: Callable[[list[T], T], bool]) -> list[list[T]]:
    """Group neighbours: each item joins the group before it if ``joins(group, item)``, else it begins one.

    >>> grouped([1, 2, 7, 8], lambda group, item: item - group[-1] < 3)
    [[1, 2], [7, 8]]
    """
    groups: list[list[T]] = []
    for item in items:
        if groups and joins(groups[-1], item):
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def without_surrogates(text: str) -> str:
    """Replace lone surrogates (broken escapes in JSON or PDF) by U+FFFD: they cannot be encoded as UTF-8."""
    return _SURROGATE.sub("\ufffd", text)


def blanked(text: str) -> str:
    """Replace everything but line breaks by spaces: what follows keeps its place."""
    return _NO_BREAK.sub(" ", text)


def one_line(text: str) -> str:
    """Replace each run of white space by one space."""
    return " ".join(text.split())


def titled(found: Extracted) -> Extracted:
    """Return a page titled by its first heading, if that is above all others; by its first line, if there are none."""
    if not found.headings:
        return replace(found, title=first_line_title(found.text))
    return replace(found, title=found.headings[0].label if first_is_highest(found.headings) else "")


def first_is_highest(headings: Sequence[Heading]) -> bool:
    """Return whether the first heading is above all others; False if there are none."""
    return bool(headings) and all(heading.level > headings[0].level for heading in headings[1:])


def first_line_title(text: str) -> str:
    """Return the first line if it is a paragraph of its own, short and not a sentence; else an empty string."""
    match = _FIRST_LINE.match(text)
    if match is None:
        return ""
    line = re.sub(r"[ \t]*-\*-[^\n]*-\*-", "", one_line(match.group(1)))  # an editor's mode
    return line if len(line) <= _TITLE_CHARACTERS and not line.endswith(_SENTENCE_ENDS) else ""


def title_of_text(found: Extracted) -> str:
    """Return a text's first line if it is a title by itself, else its first heading; empty if it has neither."""
    line = first_line_title(found.text)
    return found.headings[0].label if found.headings and not (line and found.headings[0].start) else line


def hidden_parts(number: int, name: str) -> tuple[Problem, ...]:
    """Return the report on the parts of a document (slides, sheets) that are hidden, if any are."""
    said = f"1 hidden {name} is" if number == 1 else f"{number} hidden {name}s are"
    return (Problem(f"{said} not read", "To have them read, show them."),) if number else ()


@dataclass(slots=True)
class TextRun:
    """A stretch of text within one block.

    Attributes:
        gap: the separator before it, an index into ``SEPARATORS``.
        text: with white space as shown.
        zone: number of the innermost zone around it.
        link: the target of the link around it; ``None`` outside links.
        level, heading: of the heading around it, and that heading's number on the page; 0 outside.
        preformatted: whether its white space counts.
        closes: level of the headings that do not hold from here on; 0 if all do.
    """

    gap: int
    text: str
    zone: int = 0
    link: str | None = None
    level: int = 0
    heading: int = 0
    preformatted: bool = False
    closes: int = 0


def join_runs(runs: Iterable[TextRun], kept: Iterable[bool]) -> tuple[str, list[Heading]]:
    """Return the text of the runs that are kept, and its headings."""
    pieces: list[str] = []
    headings: list[Heading] = []
    gap = closes = length = start = first = open_ = level = 0  # open_: number of the heading being written

    def end_heading() -> None:
        if open_ and (label := one_line("".join(pieces[first:]))):
            headings.append(Heading(start, length, level, label))

    for run, keep in zip(runs, kept, strict=True):
        gap = max(gap, run.gap)
        closes = min(closes or run.closes, run.closes or closes)
        if not keep:
            gap = max(gap, LINE_GAP)
            continue
        if run.heading != open_:
            end_heading()
            open_ = 0
        between = SEPARATORS[gap] if pieces else ""
        length += len(between)
        pieces.append(between)
        if closes and not run.heading:
            headings.append(Heading(length, length, closes, ""))
        if run.heading and not open_:
            open_, level, start, first = run.heading, run.level, length, len(pieces)
        pieces.append(run.text.lstrip("\r\n") if gap == PARAGRAPH_GAP else run.text)
        length += len(pieces[-1])
        gap = closes = 0
    end_heading()
    return "".join(pieces), headings


MAX_SECONDS = 120.0
"""For one file; the slowest ordinary ones (PDFs of a thousand pages) take a few seconds."""

MAX_UNPACKED_BYTES = 128 * 2**20
"""For what an archive (DOCX, EPUB …) unpacks to; counted while unpacking, because headers may state anything."""

CHUNK = 65_536  # bytes or characters passed to a parser between two checks of the time


class Budget:
    """The time a file may take, from the creation of this object.

    >>> Budget(120).remaining() > 119
    True
    """

    def __init__(self, seconds: float = MAX_SECONDS) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Return the seconds left; zero or less when the time is used up."""
        return self._end - time.monotonic()

    def check(self) -> None:
        """Raise DocumentError if the time is used up."""
        if self.remaining() <= 0:
            raise too_slow(self.seconds)


def too_slow(seconds: float) -> DocumentError:
    """Return the error for a file that takes too long to read."""
    return DocumentError(
        f"Reading it took longer than {seconds:g} seconds and was given up.",
        hint="Split the file, save it again from the program that made it, or allow more time (--max-file-seconds N).",
    )


def too_much(what: str, number: int, limit: int) -> DocumentError:
    """Return the error for a file with more of something (``what``) than is read into memory."""
    return DocumentError(f"It holds {number:,} {what}; at most {limit:,} are read.", hint="Split the file.")


def read_unpacked(stream: IO[bytes], budget: Budget, limit: int, *, before: int = 0) -> Iterator[bytes]:
    """Read a decompressing stream in chunks; the budget is checked after each.

    DocumentError if the time is used up, or more than ``limit`` bytes come out, with those ``before`` of others of its
    document.
    """
    total = before
    while chunk := stream.read(CHUNK):
        budget.check()
        total += len(chunk)
        if total > limit:
            raise DocumentError(
                f"It unpacks to more than {limit:,} bytes.",
                hint="Split the document; if it looks small when opened, save it again from the program that made it.",
            )
        yield chunk
