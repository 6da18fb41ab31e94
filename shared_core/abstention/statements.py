"""Cut a written answer into the statements that can be checked.

Answers of chat models are Markdown with marks of citations in it. Statements are separated from everything else
(code, headings, questions, lists of sources, refusals), and from the marks around and in them. What only looks like
these and states something ("## Entry is free", "Did you know that …?") is a statement. Nothing is lost silently: the
rest is ``left_out``. Linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from shared_core.abstention.asserting import asserts, is_prose, is_source, stated_in_question
from shared_core.abstention.claims import ClaimSpan, split_claims
from shared_core.abstention.lookalikes import written_plainly
from shared_core.abstention.polarity import opening_of
from shared_core.abstention.refusals import only_refuses
from shared_core.errors import InputError
from shared_core.support.regex import lazy_regex

__all__ = ["Statement", "Statements", "cut_statements"]

MARK = (
    r"(?:\[\^?\d{1,3}(?:\s?[,;–-]\s?\^?\d{1,3}){0,20}\](?:\([^()\s]{0,500}\))?|【[^】\n]{1,60}】"
    r"|\[citation needed\]|\(unsupported\))"
)
"""Pattern of what models put behind a statement: marks of citations."""
_ITEM = r"(?:[-*+•‣◦▪●○–—·\u2460-\u24ff\u2776-\u2793]|\(?(?:\d{1,3}|[A-Za-z]|[ivx]{1,5})[.)])[ \t\u00a0]++"
_LINE_START = lazy_regex(rf"(?>(?:[ \t\u00a0]|>|#{{1,6}}[ \t]|{_ITEM}|\[[ xX]\][ \t]|\|)*)")
_MARKS_BEFORE = lazy_regex(rf"(?>(?:\s*{MARK})*)\s*+")
_MARKS_AFTER = lazy_regex(rf"\s*{MARK}")
_LONGEST_MARK = 600
_LISTED = lazy_regex(rf"[ \t\u00a0>]*+{_ITEM}")
_FENCE = lazy_regex(r"[ \t>]{0,12}(`{3,}|~{3,})")
_PROSE = ("", "text", "txt", "md", "markdown", "plain", "plaintext")
_BREAKS = "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_DEFINITION = lazy_regex(r"[ \t]{0,3}\[[^\]\n]{1,60}\]:[ \t]")
_SOURCES = lazy_regex(
    r"[ \t#*_]*+(?:sources?|references?|citations?|bibliography|works cited|further reading)"
    r"[ \t]*+:?[ \t*_]*+:?[ \t]*+\Z",
    re.IGNORECASE,
)
_SOURCE = lazy_regex(rf"[ \t]*(?:{_ITEM}|{MARK}|https?://)")
_RULE = lazy_regex(r"(?=[^\n]*---)[ \t|:=*_-]++\Z")
_HEADING = lazy_regex(
    r"[ \t]{0,3}#{1,6}[ \t]|[ \t]*\*\*[^*\n]+\*\*:?[ \t]*\Z|[^\n]*\n[ \t]{0,3}(?:={3,}|-{3,})[ \t]*\Z"
)
_HEADING_WORDS = 8
"""A heading of more words is taken for a statement, as one that states something is."""
_ASKS = ("?", "？", "؟")
_LEAD_WORDS = 6
"""What ends in a colon and has more words is a statement, unless a list follows, whose items are judged with it."""
_LONGEST = 1500
"""Code points of one statement; a longer sentence is judged in parts. Comparing takes the square of it."""
_FRAGMENT_WORDS = 4
"""What has fewer words cannot be judged without what it answers."""

_PLAIN: tuple[tuple[re.Pattern[str], str], ...] = (
    (lazy_regex(rf"\s*{MARK}"), ""),
    (lazy_regex(r"!?\[([^\]\n]{1,300})\]\([^)\s]{0,500}(?:\s[\"'][^\"'\n]{0,200}[\"'])?\)"), r"\1"),
    (lazy_regex(r"\s*\|\s*"), ", "),
    (lazy_regex(r"(?<!\w)(?:\*{1,3}|_{1,3}|~~)(?=\S)|(?<=\S)(?:\*{1,3}|_{1,3}|~~)(?!\w)|`+"), ""),
    (lazy_regex(r"</?[a-zA-Z][^<>\n]{0,100}>"), ""),
    (lazy_regex(r"\n[ \t]*>+[ \t]?"), " "),
    (lazy_regex(r"\s+"), " "),
)
_MORE = r"(?:\s+(?:if|should|when|whenever)\s+(?:you|there)\b[^.!;:\d]{0,100})?"
"""An offer to say more, which goes on behind courtesies."""
_ASIDE = lazy_regex(
    r"(?:sure|certainly|of course|yes|no|hello|hi|thanks?|thank you|i'm sorry|sorry|no problem|no worries|my pleasure|"
    r"(?:you're|you are) (?:very |most )?welcome|goodbye|bye|take care|see you(?: soon| later)?|good (?:luck|bye)|"
    r"i (?:do not|don't) know(?: the answer)?|(?:i )?hope (?:this|that|it) helps|"
    r"have a (?:nice|good|great|lovely) (?:day|one|evening|weekend)|"
    r"(?:(?:i'm|i am) )?(?:so |very |always )?(?:glad|happy|pleased) (?:to (?:help|assist|be of (?:help|service))|"
    r"i could help|(?:that |this |it )(?:helps|helped|(?:was|is) (?:useful|helpful))|to hear (?:that|it))(?: you)?"
    rf"(?: with that)?{_MORE}|(?:please |just )?let me know{_MORE}|"
    r"(?:please )?(?:feel free to|(?:do not|don't) hesitate to) (?:ask(?: me)?|reach out|contact me|let me know)"
    rf"(?: (?:again|any ?time|more questions|further questions))?{_MORE})[.!,]*\Z",
    re.IGNORECASE,
)
LEANING = lazy_regex(
    r"(?:(?:and|but|so|then|also|however|therefore|thus)\b,?\s+)?"
    r"(?:he|she|it|they|his|her|hers|its|their|theirs|this|these|those|that|such|both|the former|the latter)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement at its place in a text: ``source[start:end] == text``.

    Attributes:
        text: as written, without the marks of lists and citations around it.
        start, end: code points of the text it was cut from.
        plain: what is to be judged: without Markdown and marks, on one line.
        context: what was said before and is needed to understand it (the line that a list item completes, the
            statement before one that begins with "She"); empty if it stands alone.
        fragment: too short to state anything without its context.
        written: on one line, with its backticks and links.
        cells: of the row of a table, each with the name of its column; the first one names the row.
        opening: the "yes" or "no" before it, in it or as a sentence of its own.
    """

    text: str
    start: int
    end: int
    plain: str
    context: str = ""
    fragment: bool = False
    written: str = ""
    cells: tuple[tuple[str, str], ...] = ()
    opening: str = ""


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of a text, in its order, and the ranges with letters or digits that are none.

    Attributes:
        left_out: all other ranges.
        declines: among these are sentences that decline to answer.
        code: lines of code among these.
    """

    found: tuple[Statement, ...]
    left_out: tuple[tuple[int, int], ...]
    declines: bool = False
    code: tuple[tuple[int, int], ...] = ()


def cut_statements(text: str) -> Statements:
    """Cut a written answer into what can be checked; InputError if it is not a string.

    >>> cut = cut_statements("The lamp was lit in 1871. I don't know who lit it.")
    >>> [s.text for s in cut.found], cut.left_out, cut.declines
    (['The lamp was lit in 1871.'], ((26, 50),), True)
    """
    if not isinstance(text, str):
        raise InputError(f"An answer to cut into statements must be text, not {type(text).__name__}.")
    masked, left_out, code = _mask(text)
    found: list[Statement] = []
    lead = ""  # the line with a colon that the list items here complete
    head: tuple[str, ...] = ()  # the names of the columns of the rows here
    opening = ""  # the "Yes." before
    sentences, declines = _short_enough(split_claims(masked)), False
    for i, sentence in enumerate(sentences):
        start, end = _trim(masked, sentence.start, sentence.end)
        line = masked[sentence.start : sentence.end]
        row = _begins_line(masked, sentence.start) and line.lstrip().startswith("|")
        listed = row or (_begins_line(masked, sentence.start) and _LISTED.match(line) is not None)
        plain = _plain(text[start:end])
        if plain.endswith(_ASKS):
            plain = stated_in_question(plain) or plain
        follows = i + 1 < len(sentences) and _LISTED.match(masked, sentences[i + 1].start) is not None
        if not listed and _begins_line(masked, sentence.start):
            lead = ""
        head = head if row else ()
        refuses = only_refuses(plain)
        declines = declines or refuses
        if refuses or _states_nothing(masked, sentence.start, sentence.end, plain, follows):
            left_out.append((sentence.start, sentence.end))
            lead = plain if follows and plain.endswith(":") else lead
            head = _cells(line) if row else ()
            opening = opening_of(plain)[0]
            continue
        before = found[-1].plain if found else ""
        made = _row(text, start, end, head, _cells(line)) or _statement(text, start, end, plain, lead, before)
        found.append(replace(made, opening=opening_of(plain)[0] or opening))
        opening = ""
    return Statements(tuple(found), tuple(sorted(left_out)), declines, tuple(code))


def _short_enough(sentences: Sequence[ClaimSpan]) -> list[ClaimSpan]:
    """Cut what is too long to be judged at once at its commas and semicolons, else between words."""
    out: list[ClaimSpan] = []
    for sentence in sentences:
        at, text = 0, sentence.text
        while len(text) - at > _LONGEST:
            part = text[at : at + _LONGEST]
            cut = max(part.rfind(mark, _LONGEST // 2) for mark in (", ", "; ", " – "))
            cut = cut if cut > 0 else max(part.rfind(" "), part.rfind("\n"))
            end = at + cut + 1 if cut > 0 else at + _LONGEST
            out.append(ClaimSpan(text[at:end], sentence.start + at, sentence.start + end))
            at = end
        out.append(ClaimSpan(text[at:], sentence.start + at, sentence.end))
    return [s for s in out if any(c.isalnum() for c in s.text)]


def _row(text: str, start: int, end: int, head: Sequence[str], cells: Sequence[str]) -> Statement | None:
    """Word a row of a table by the names of its columns; ``None`` without these."""
    if not head or len(head) != len(cells) or not any(cells):
        return None
    named = tuple((name, value) for name, value in zip(head, cells, strict=True) if value)
    plain = "; ".join(f"{name}: {value}" if name else value for name, value in named)
    written = " ".join(text[start:end].split())
    return Statement(text[start:end], start, end, plain, written=written, cells=named if cells[0] else ())


def _cells(line: str) -> tuple[str, ...]:
    """Cells of a line between bars, without Markdown."""
    return tuple(_plain(cell) for cell in line.strip().strip("|").split("|"))


def _statement(text: str, start: int, end: int, plain: str, lead: str, before: str) -> Statement:
    leans = LEANING.match(plain) is not None
    completes = bool(lead) and plain[:1].islower()  # "The ship: - sailed in 1871"
    fragment = completes or (len(plain.split()) < _FRAGMENT_WORDS and not leans)
    context = lead if (fragment or leans) and lead else before if leans else ""
    written = " ".join(text[start:end].split())
    return Statement(text[start:end], start, end, plain, context, fragment, written)


def _states_nothing(text: str, start: int, end: int, plain: str, list_follows: bool) -> bool:
    words = len(plain.split())
    if plain.endswith(_ASKS) or _ASIDE.match(plain.replace("’", "'")) or not any(c.isalnum() for c in plain):
        return True
    if plain.endswith((":", "：")):
        return list_follows or words <= _LEAD_WORDS
    heading = _begins_line(text, start) and _HEADING.match(text, start, end)
    if heading and words <= _HEADING_WORDS and not plain.endswith((".", "!", "。")) and not asserts(plain):
        return True
    return text[start:end].lstrip().startswith("|") and _is_table_head(text, end)


def _is_table_head(text: str, end: int) -> bool:
    """The row before a table's rule."""
    at = text.find("\n", end)
    if at < 0 or text[end:at].strip():
        return False
    following = text.find("\n", at + 1)
    line = text[at + 1 : following if following >= 0 else len(text)]
    return "-" in line and _RULE.match(line) is not None


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """The range without what only marks it: bullets, numbers and quote signs before, citations before and after."""
    if _begins_line(text, start):
        start = _end_of(_LINE_START, text, start, end)
    start = _end_of(_MARKS_BEFORE, text, start, end)
    low = end
    while True:  # from the right: each mark is short
        near = _MARKS_AFTER.finditer(text, max(start, low - _LONGEST_MARK), low)
        found = next((m for m in near if m.end() == low), None)
        if found is None:
            break
        low = found.start()
    while low > start and (text[low - 1].isspace() or text[low - 1] == "|"):
        low -= 1
    return (start, low) if any(c.isalnum() for c in text[start:low]) else (start, end)


def _end_of(pattern: re.Pattern[str], text: str, start: int, end: int) -> int:
    match = pattern.match(text, start, end)
    return match.end() if match else start


def _begins_line(text: str, at: int) -> bool:
    """Nothing but white space stands before it in its line."""
    line = text.rfind("\n", max(0, at - 200), at) + 1
    return not text[max(line, at - 200) : at].strip() and (at <= 200 or line > 0)


def _plain(text: str) -> str:
    text = written_plainly(text)
    for pattern, replacement in _PLAIN:
        text = pattern.sub(replacement, text)
    return text.strip(" ,")


def _mask(text: str) -> tuple[str, list[tuple[int, int]], list[tuple[int, int]]]:
    """The text with code blocks, definitions of links and lists of sources blanked; where these are; lines of code."""
    lines = text.splitlines(keepends=True)
    fenced = _fenced(lines)
    kept: list[str] = []
    ranges: list[tuple[int, int]] = []
    code: list[tuple[int, int]] = []
    at, sources = 0, False
    for number, line in enumerate(lines):
        content = line.rstrip(_BREAKS)
        hidden = number in fenced
        if hidden:
            if fenced[number] and content.strip():
                code.append((at, at + len(content)))
        elif _SOURCES.match(content):
            sources, hidden = True, True
        elif sources and content.strip():
            sources = _SOURCE.match(content) is not None
            hidden = sources and is_source(content[_end_of(_LINE_START, content, 0, len(content)) :])
        hidden = hidden or _DEFINITION.match(content) is not None
        if hidden and any(c.isalnum() for c in content):
            _extend(ranges, at, at + len(content))
        kept.append(" " * len(content) + line[len(content) :] if hidden else line)
        at += len(line)
    return "".join(kept), ranges, code


def _fenced(lines: Sequence[str]) -> dict[int, bool]:
    """Find the lines of code blocks by their numbers: ``False`` for their fences, and no lines of prose in them."""
    found: dict[int, bool] = {}
    first, fence, language = 0, "", ""
    for number, line in enumerate([*lines, ""]):
        mark = _FENCE.match(line)
        if fence:
            closing = mark is not None and mark[1].startswith(fence) and not line[mark.end() :].strip("`~ \t\r\n\v\f")
            if not (closing or number == len(lines)):
                continue
            found |= {first: False, number: False}
            if not (language in _PROSE and is_prose(lines[first + 1 : number])):
                found |= dict.fromkeys(range(first + 1, number), True)
            fence = ""
        elif mark is not None:
            first, fence, language = number, mark[1], line[mark.end() :].strip().lower()
    return found


def _extend(ranges: list[tuple[int, int]], start: int, end: int) -> None:
    """Add a range; one that adjoins the last makes it longer."""
    if ranges and start - ranges[-1][1] <= 2:
        start = ranges.pop()[0]
    ranges.append((start, end))


def joined(parts: Sequence[str]) -> str:
    """The parts that are not empty, with spaces between."""
    return " ".join(part for part in parts if part)
