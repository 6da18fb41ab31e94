"""Read AsciiDoc as the page that Asciidoctor makes of it: blocks and inline marks become HTML, which is then read.

Files that are included are read by themselves. What a page shows depends on attributes that may be set elsewhere, so of
a condition on an attribute that the file does not set both sides are kept, but for those of other places and formats.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from shared_core.documents.loaders.adoc_parts import CHARACTERS, FORMULAS, Table, inline, table_html
from shared_core.documents.loaders.extracted import Budget, Extracted, front_matter, titled
from shared_core.documents.loaders.html import read_html
from shared_core.support.regex import lazy_regex

_CONDITION = lazy_regex(r"(ifdef|ifndef|ifeval|endif)::([^\[]*)\[(.*)\]\s*")
_ELSEWHERE = lazy_regex(r"env-|backend-(?!html)|basebackend-(?!html)|doctype-manpage|safe-mode-")
_DEFINED = frozenset(("backend-html5", "basebackend-html", "backend", "asciidoctor", "doctype-article"))
_ESCAPED = lazy_regex(r"^\\(?=(?:include|ifdef|ifndef|ifeval|endif)::)")
_INCLUDE = lazy_regex(r"include::\S[^\[]*\[.*\]\s*")
_ATTRIBUTE = lazy_regex(r":(!?)([\w][\w-]*)(!?):(?:[ \t]+(.*))?")
_BLOCK_ATTRIBUTES = lazy_regex(r"\[(?:\[[^\[\]]*\]|(?:(?!\d)\w|[.#%,\"'{])[^\n]*)?\]\s*")
_TITLE = lazy_regex(r"\.([^\s.][^\n]*)")
_SECTION = lazy_regex(r"(={1,6}|#{1,6})[ \t]+(\S.*?)(?:[ \t]+\1)?\s*")
_UNDERLINES = {"=": 1, "-": 2, "~": 3, "^": 4, "+": 5}
_DELIMITER = lazy_regex(r"(?:-{4,}|\.{4,}|={4,}|\*{4,}|_{4,}|\+{4,}|/{4,}|`{3,}[^`]*|--|[|,:!]={3,})\s*")
_BREAK = lazy_regex(r"(?:'{3,}|<{3,}|---|\*\*\*|- - -|\* \* \*)\s*")
_MACRO = lazy_regex(r"(?!include::)([a-z][\w-]*)::(\S*?)\[(.*)\]\s*")
_BULLET = lazy_regex(r"[ \t]*(-|\*{1,5}|•)[ \t]+(?:\[[ xX*]\][ \t]+)?(\S.*)")
_NUMBERED = lazy_regex(r"[ \t]*(\.{1,5}|\d{1,3}\.|[a-zA-Z]\.|[ivxIVX]{1,6}\))[ \t]+(\S.*)")
_TERM = lazy_regex(r"[ \t]*((?!//)\S.{0,300}?)(:{2,4}|;;)(?:[ \t]+(\S.*))?\s*")
_CALLOUT = lazy_regex(r"<(\d+|\.)>[ \t]+(\S.*)")
_CALLOUT_IN_CODE = lazy_regex(
    r"[ \t]*(?://|#|--|;;)?[ \t]*(?:<!--)?<(\d+|\.)>(?:-->)?(?=[ \t]*(?:<\d+>[ \t]*)*$)", re.MULTILINE
)
_ADMONITION = lazy_regex(r"(NOTE|TIP|IMPORTANT|WARNING|CAUTION):[ \t]+")
_ADMONITIONS = frozenset(("NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION"))
_CODE = frozenset(("source", "listing", "literal"))
_TAG = lazy_regex(r"<[^<>]*>")
_DEPTH = 8  # of blocks within blocks; what is deeper is text
_CHECKED = 500  # blocks between two looks at the time


def load_adoc(text: str, budget: Budget) -> Extracted:
    """Read an AsciiDoc file: headings, definitions, tables, admonitions, code; DocumentError if it takes too long."""
    attributes = dict(CHARACTERS)
    text = text.replace("\r\n", "\n")
    lines = _preprocess(text[front_matter(text)[0] :].split("\n"))
    body = _Blocks(lines, attributes, budget).read()
    return titled(read_html(f"<html><body><main>{body}</main></body></html>", budget))


def _preprocess(lines: Sequence[str]) -> list[str]:
    """Take out includes, and what conditions exclude."""
    out: list[str] = []
    defined = set(_DEFINED)
    shown = [True]
    for line in lines:
        condition = _CONDITION.fullmatch(line)
        if condition is None:
            if shown[-1] and not _INCLUDE.fullmatch(line):
                out.append(_ESCAPED.sub("", line))
                if match := _ATTRIBUTE.fullmatch(line):
                    (defined.discard if match[1] or match[3] else defined.add)(match[2])
            continue
        kind, names, content = condition.groups()
        if kind == "endif":
            if len(shown) > 1:
                shown.pop()
            continue
        holds = shown[-1] and (kind == "ifeval" or _holds(kind, re.split(r"[,+]", names), defined))
        if content and kind != "ifeval":
            out += [content] if holds else []
        else:
            shown.append(holds)
    return out


def _holds(kind: str, names: Sequence[str], defined: set[str]) -> bool:
    if kind == "ifndef":
        return not all(name in defined for name in names)
    return any(name in defined or not _ELSEWHERE.match(name) for name in names)


@dataclass(slots=True)
class _Attributes:
    """The attribute lines and the title above a block."""

    style: str = ""
    named: str = ""
    title: str = ""

    def add(self, line: str) -> None:
        """Add a line in square brackets."""
        inner = line.strip()[1:-1]
        if not inner.startswith("["):
            self.style = re.split(r"[,.#%]", inner)[0].strip() or self.style
            self.named += "," + inner


@dataclass(slots=True)
class _Blocks:
    """A reader of lines; ``place`` is the next one."""

    lines: Sequence[str]
    attributes: dict[str, str]
    budget: Budget
    depth: int = 0
    place: int = 0
    count: int = 0

    def read(self) -> str:
        """Return the HTML of all blocks."""
        out = []
        while self.place < len(self.lines):
            out.append(self.block())
        return "\n".join(out)

    def block(self, markers: tuple[str, ...] = ()) -> str:
        """Return the HTML of the next block; empty if it shows nothing, or if there is none."""
        self.count += 1
        if self.count % _CHECKED == 0:
            self.budget.check()
        above = _Attributes()
        while self.place < len(self.lines):
            line = self.lines[self.place]
            if not line.strip() or _is_comment(line):
                self.place += 1
            elif match := _ATTRIBUTE.fullmatch(line):
                self._set(match)
            elif _BLOCK_ATTRIBUTES.fullmatch(line):
                above.add(line)
                self.place += 1
            elif (match := _TITLE.fullmatch(line)) and not _DELIMITER.fullmatch(line) and not _NUMBERED.fullmatch(line):
                above.title = match[1]
                self.place += 1
            else:
                return self._shown(line, above, markers)
        return self._titled(above, "")

    def _set(self, match: re.Match[str]) -> None:
        value = match[4] or ""
        self.place += 1
        while value.endswith(" \\") and self.place < len(self.lines):
            value = value[:-1] + self.lines[self.place].strip()
            self.place += 1
        if match[1] or match[3]:
            self.attributes.pop(match[2].lower(), None)
        else:
            self.attributes[match[2].lower()] = value

    def _shown(self, line: str, above: _Attributes, markers: tuple[str, ...]) -> str:
        if _DELIMITER.fullmatch(line) and self.depth < _DEPTH:
            return self._delimited(line.rstrip(), above)
        if match := _SECTION.fullmatch(line):
            self.place += 1
            return self._heading(len(match[1]), match[2])
        if level := self._underlined(line):
            self.place += 2
            return self._heading(level, line)
        if _BREAK.fullmatch(line):
            self.place += 1
            return ""
        if match := _MACRO.fullmatch(line):
            self.place += 1
            known = match[1] in ("image", "video", "audio", "toc", "icon")
            return self._titled(above, "" if known or not match[3] else f"<p>{self._inline(match[3])}</p>")
        if item := _item(line):
            return self._titled(above, self._list(item, markers))
        return self._paragraph(above)

    def _inline(self, text: str) -> str:
        return inline(text, self.attributes)

    def _heading(self, level: int, text: str) -> str:
        """Return a heading; below a document's title authors, dates and attributes follow without an empty line."""
        head: list[str] = []
        while level == 1 and (line := self._peek(self.place)).strip():
            if match := _ATTRIBUTE.fullmatch(line):
                self._set(match)
                continue
            head += [] if line.startswith("//") else [line]
            self.place += 1
        below = f"<p>{self._inline(chr(10).join(head))}</p>" if head else ""
        return f"<h{level}>{self._inline(text)}</h{level}>{below}"

    def _underlined(self, line: str) -> int:
        """Return the level of a title with a line below it as long as itself; 0 for others."""
        under = self._peek(self.place + 1).rstrip()
        if len(set(under)) != 1 or len(under) < 3 or not re.search(r"\w", line) or line[0] in " \t":
            return 0
        return _UNDERLINES.get(under[0], 0) if abs(len(under) - len(line.rstrip())) < 3 else 0

    def _titled(self, above: _Attributes, body: str) -> str:
        return f"<p>{self._inline(above.title)}</p>\n{body}" if above.title else body

    def _inner(self, lines: Sequence[str]) -> str:
        """Return the HTML of lines within a block."""
        return _Blocks(lines, self.attributes, self.budget, self.depth + 1).read()

    def _delimited(self, mark: str, above: _Attributes) -> str:
        self.place += 1
        start = self.place
        closing = "```" if mark.startswith("```") else mark
        while self.place < len(self.lines) and self.lines[self.place].rstrip() != closing:
            self.place += 1
        inside = self.lines[start : self.place]
        self.place += 1
        kind = mark[0]
        if kind == "/" or above.style == "comment":
            return ""
        if mark[1:].startswith("==") and kind in "|,:!":
            return table_html(Table(mark, inside, above.named, above.title), self._inline, self._inner)
        if kind == "+":
            text = "\n".join(inside)
            text = text if above.style in FORMULAS else _TAG.sub(" ", text)
            return self._titled(above, f"<p>{html.escape(html.unescape(text))}</p>")
        if kind in "`." or (kind == "-" and mark != "--") or above.style in _CODE:
            return self._titled(above, _code(inside))
        if above.style == "verse":
            return self._titled(above, f"<p>{'<br>'.join(map(self._inline, inside))}</p>")
        return self._titled(above, self._labelled(above.style, self._inner(inside)))

    def _labelled(self, style: str, body: str) -> str:
        if style not in _ADMONITIONS:
            return body
        label = f"{style.capitalize()}: "
        return body.replace("<p>", f"<p>{label}", 1) if body.startswith("<p>") else f"<p>{label}</p>{body}"

    def _paragraph(self, above: _Attributes) -> str:
        start = self.place
        self.place += 1
        while self._continues(self._peek(self.place)):
            self.place += 1
        some = [line for line in self.lines[start : self.place] if not _is_comment(line)]
        if above.style in _CODE or (some and some[0][0] in " \t" and above.style != "normal"):
            return self._titled(above, _code(some))
        text = "\n".join(line.strip() for line in some)
        style = above.style
        if match := _ADMONITION.match(text):
            style, text = match[1], text[match.end() :]
        shown = "<br>".join(map(self._inline, text.split("\n"))) if style == "verse" else self._inline(text)
        return self._titled(above, self._labelled(style, f"<p>{shown}</p>"))

    def _continues(self, line: str) -> bool:
        """Return whether a line goes on with a paragraph."""
        within = bool(line.strip()) and line.rstrip() != "+"
        return within and not (_DELIMITER.fullmatch(line) or _BLOCK_ATTRIBUTES.fullmatch(line))

    def _next(self) -> int:
        """Return the place of the next line that is neither empty, a comment, nor attributes of a list's items."""
        place = self.place
        while place < len(self.lines) and (
            not self.lines[place].strip()
            or _is_comment(self.lines[place])
            or (_BLOCK_ATTRIBUTES.fullmatch(self.lines[place]) and not self.lines[place].startswith("[["))
        ):
            place += 1
        return place

    def _list(self, item: _Item, markers: tuple[str, ...]) -> str:
        """Return a list whose items have the same marker; others that are not open begin lists within an item."""
        kind, opened = item.kind, (*markers, item.marker)
        out: list[str] = []
        number = int(item.label) - 1 if kind == "ol" and item.label else 0
        while True:
            number += 1
            self.place += 1
            if kind == "dl":
                terms = f"<dt>{self._inline(item.label)}</dt>"
                body = self._item_body(item.text, opened)
                out.append(f"{terms}<dd>{body}</dd>" if body.strip() else terms)
            else:
                mark = number if item.label == "." else item.label
                label = {"ol": f"{number}. ", "co": f"({mark}) "}.get(kind, "")
                out.append(f"<li>{label}{self._item_body(item.text, opened)}</li>")
            place = self._next()
            following = _item(self._peek(place))
            if following is None or following.marker != item.marker:
                break
            self.place, item = place, following
        tag = "dl" if kind == "dl" else "ul"
        return f"<{tag}>{''.join(out)}</{tag}>"

    def _item_body(self, text: str, markers: tuple[str, ...]) -> str:
        """Return the HTML of an item: its first lines, then what is attached, and lists within it."""
        first = [text] if text else []
        attached: list[str] = []
        if not text and _is_text(self._peek(self._next())):
            self.place = self._next()  # a definition may begin below an empty line
        while self._continues(line := self._peek(self.place)) and not _item(line):
            if not line.startswith("//"):
                first.append(line.strip())
            self.place += 1
        while True:
            place = self._next()
            line = self._peek(place)
            item = _item(line)
            if self._peek(self.place).rstrip() == "+" or line.rstrip() == "+":
                self.place = place + 1 if line.rstrip() == "+" else self.place + 1
                following = _item(self._peek(self._next()))
                if following is None or following.marker not in markers:
                    attached.append(self.block(markers))
            elif item and item.marker not in markers and self.depth + len(markers) < _DEPTH:
                self.place = place
                attached.append(self._list(item, markers))
            elif not item and line[:1] in (" ", "\t") and place > self.place:
                self.place = place
                attached.append(self._paragraph(_Attributes()))
            else:
                break
        return self._inline("\n".join(first)) + "".join(attached)

    def _peek(self, place: int) -> str:
        """Return a line; empty behind the last one."""
        return self.lines[place] if place < len(self.lines) else ""


@dataclass(frozen=True, slots=True)
class _Item:
    """The first line of an item: ``kind`` is dl, ol, ul, or co for what explains a mark in code."""

    kind: str
    marker: str
    text: str
    label: str = ""


def _is_comment(line: str) -> bool:
    return line.startswith("//") and not line.startswith("///")


def _item(line: str) -> _Item | None:
    if match := _BULLET.fullmatch(line):
        return _Item("ul", match[1], match[2])
    if match := _NUMBERED.fullmatch(line):
        number = match[1].removesuffix(".")
        return _Item("ol", match[1] if match[1][0] == "." else "1.", match[2], number if number.isdecimal() else "")
    if match := _CALLOUT.fullmatch(line):
        return _Item("co", "<1>", match[2], match[1])
    if (match := _TERM.fullmatch(line)) and not _MACRO.fullmatch(line):
        return _Item("dl", match[2], match[3] or "", match[1])
    return None


def _is_text(line: str) -> bool:
    return bool(line.strip()) and not _item(line) and not _DELIMITER.fullmatch(line) and line.rstrip() != "+"


def _code(lines: Sequence[str]) -> str:
    code = _CALLOUT_IN_CODE.sub(r" (\1)", "\n".join(lines))
    return f"<pre>{html.escape(code)}</pre>"
