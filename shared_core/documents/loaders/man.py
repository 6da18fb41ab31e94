"""Read manual pages, in roff's markup (man(7), and mdoc(7) as far as it resembles running text) or set as text.

Sections become headings. A term of an option list (``.TP``, ``.IP``, ``.It``) begins a paragraph and is followed by its
definition on the next line, and heads a section, so that the two are not separated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from shared_core.documents.loaders.extracted import TERM_LEVEL, Budget, Extracted, Heading, join_texts, one_line
from shared_core.support.regex import lazy_regex

_ROFF = lazy_regex(r"""\s*(?:[.']?\\"|\.(?:TH|Dd|ig|de|if|ie|so|nh|SH|Sh|tr|ds|EX)\b)""")
_ESCAPE = lazy_regex(  # bounded repetitions, so that brackets never closed are not searched for to the end of the file
    r"""\\(?:
      ["\#].*                                                                      # a comment
    | [fFkgmMYV](?:\(..|\[[^\]]{0,40}\]|.)                                         # a font, a register, a colour
    | s[-+]?(?:\(\d\d|\[[-+]?\d+\]|'[^']{0,9}'|\d\d?)                              # a font size
    | [nR*](?P<string>\(..|\[[^\]]{0,40}\]|.)                                      # a string: \*(lq
    | (?P<character>\(..|\[[^\]]{0,40}\])                                          # a character: \(em, \[u2014]
    | (?P<gap>h'[^']{0,80}') | [vwlLDXZbo]'[^']{0,80}' | N'(?P<code>\d{1,7})'      # a motion, a drawing, a code point
    | (?P<one>.) | $                                                               # \-, \e, \&
    )""",
    re.VERBOSE,
)
_CHARACTERS = {
    "em": "—", "en": "–", "hy": "-", "mi": "−", "bu": "•", "co": "©", "rg": "®", "tm": "™", "aq": "'", "oq": "‘",
    "cq": "’", "lq": "“", "rq": "”", "dq": '"', "Aq": "'", "ti": "~", "ha": "^", "rs": "\\", "bs": "\\", "ga": "`",
    "aa": "´", "ba": "|", "sl": "/", "at": "@", "sh": "#", "Do": "$", "lB": "[", "rB": "]", "lC": "{", "rC": "}",
    "<=": "≤", ">=": "≥", "!=": "≠", "->": "→", "<-": "←", "mu": "×", "de": "°", "+-": "±", "la": "⟨", "ra": "⟩",
    "Fo": "«", "Fc": "»", "12": "½", "14": "¼", "34": "¾", "ss": "ß", "eu": "€", "Po": "£", "sc": "§", "..": "…",
}  # fmt: skip
_SINGLE = {"-": "-", " ": " ", "~": " ", "0": " ", "e": "\\", "'": "'", "`": "`", "t": "\t", ".": ".", "\\": "\\"}
_ARGUMENT = lazy_regex(r'"((?:[^"]|"")*)"?|((?:\\ |[^\s"])\S*)')
_TERM = 300  # characters of the longest term
_ALTERNATING = frozenset("BR RB BI IB IR RI".split())
_FONTS = frozenset("B I SB SM R MT UR".split())
_VERBATIM, _FILLED = frozenset("nf EX Vb Bd".split()), frozenset("fi EE Ve Ed".split())
_ENDS_DEFINITION = frozenset("PP P LP HP SH SS Sh Ss El".split())
_PARAGRAPHS = _VERBATIM | _FILLED | frozenset("PP P LP HP Pp sp RE Bl El YS".split())
_IGNORED = frozenset(
    """ad hy nh na ne in ti ds nr rr rm tr ft ps vs ll PD lf so UE ME DT UC AT IX Dd Os Bk Ek bp pl mk rt fam ss
    cs""".split()
)
_CALLABLE = "Ar|Op|Oo|Oc|Nm|Pa|Xr|Cm|Ic|Ev|Dv|Va|Vt|Fa|Fn|Ft|Em|Sy|Li|Ql|Dq|Sq|Pq|Ns|Ad|An|Er|No|Tn|Aq|Bq|Brq|Qq|Fl"
_MDOC = lazy_regex(rf"(?:^|(?<= ))(?:{_CALLABLE})(?: |$)")  # macros of mdoc within a line


def is_roff(source: str) -> bool:
    """Return whether a text begins as manual pages do, with a comment or macro of roff."""
    return _ROFF.match(source) is not None


def load_man(source: str, budget: Budget) -> Extracted | None:
    """Read a manual page; ``None`` if the text is not written in roff. DocumentError if the time is used up."""
    if not is_roff(source):
        return None
    page = _Page()
    for number, line in enumerate(_outside_definitions(source.splitlines())):
        if number % 1000 == 0:
            budget.check()
        page.line(line)
    return page.result()


def _outside_definitions(lines: list[str]) -> list[str]:
    """Leave out macro definitions, comments and conditional blocks (the preamble of generated pages)."""
    kept: list[str] = []
    until, depth = "", 0
    for line in lines:
        if until:
            until = "" if line.rstrip() == until else until
        elif depth or re.match(r"[.']\s*(?:if|ie|el|while)\b", line):
            depth = max(0, depth + line.count(r"\{") - line.count(r"\}"))
        elif match := re.match(r"[.']\s*(?:de1?|am|ig)\b(?:\s+\S+)?\s*(\S*)", line):
            until = f".{match.group(1) or '.'}"
        elif not re.match(r"[.']?\s*\\\"|[.']\s*(?:\\}.*)?$", line):
            kept.append(line)
    return kept


class _Page:
    def __init__(self) -> None:
        self._blocks: list[Extracted] = []
        self._lines: list[list[str]] = []  # of the open paragraph, each in pieces
        self._title = self._name = ""
        self._next = ""  # the next line of text is a heading or a term
        self._filled = True
        self._fresh = False  # the next text begins a line of its own
        self._term = False  # the open paragraph begins with a term
        self._long_term = False  # lines belong to the term until Xc
        self._definition = ""  # open: paragraphs belong to the last term; ended: they no longer do

    def line(self, line: str) -> None:
        """Read a line of the source."""
        if line[:1] not in (".", "'"):
            self._text(_plain(line)) if line.strip() else self._blank()
            return
        name, _, rest = line[1:].strip().partition(" ")
        words = [_plain(quoted.replace('""', '"') or bare) for quoted, bare in _ARGUMENT.findall(rest)]
        if name in _ENDS_DEFINITION:
            self._close()
            self._definition = "ended" if self._definition and name[0] != "S" else ""
        if name in ("TH", "Dt"):
            self._title = f"{words[0].lower()}({words[1]})" if len(words) > 1 else "".join(words)
        elif name in ("SH", "SS", "Sh", "Ss"):
            self._next = "1" if name[1] in "Hh" else "2"
            if words:
                self._text(" ".join(words))
        elif name == "Xc":
            self._long_term = False
        elif name in ("TP", "TQ", "IP", "It"):
            self._long_term = name == "It" and words[:1] == ["Xo"]
            words = words[self._long_term :]
            if name != "TQ" and not (name == "IP" and not words and self._lines and not self._fresh):
                self._close()
            self._next = "term" if name in ("TP", "TQ") else ""
            if name in ("IP", "It") and words:
                self._next = "term"
                self._text(words[0] if name == "IP" else _mdoc(" ".join(words)))
        elif name == "RS" and self._is_term():
            self._fresh = self._term = True  # generated pages indent a definition below its term
        elif name in _PARAGRAPHS or name == "RS":
            self._close()
            self._filled = name not in _VERBATIM and (self._filled or name in _FILLED)
        elif name == "br":
            self._fresh = True
        elif name in _ALTERNATING:
            self._text("".join(words))
        elif name == "Nm":
            self._name = self._name or " ".join(words)
            self._text(_mdoc(" ".join(words)) or self._name)
        elif name == "Nd":
            self._text("- " + " ".join(words))
        elif name == "Op":
            self._text(f"[{_mdoc(' '.join(words))}]")
        elif name in ("D1", "Dl"):
            self._fresh = True
            self._text(f"({_mdoc(' '.join(words[1:]))})" if words[:1] == ["Pq"] else _mdoc(" ".join(words)))
            self._fresh = True
        elif name in _FONTS:
            self._text(" ".join(words))
        elif name not in _IGNORED:
            self._text(_mdoc(f"{name} {' '.join(words)}"))

    def result(self) -> Extracted:
        """Return the page."""
        self._close()
        return replace(join_texts(self._blocks), title=self._title)

    def _text(self, text: str) -> None:
        if not text.strip():
            return
        if self._long_term and self._term and self._lines:
            self._lines[-1].append(text.strip())
        elif self._next in ("1", "2"):
            label = one_line(text)
            self._blocks.append(Extracted(label, headings=(Heading(0, len(label), int(self._next), label),)))
            self._next = ""
        elif self._next == "term" or not self._filled or self._fresh or not self._lines:
            self._lines.append([text.strip() if self._filled else text.rstrip()])
            # A bullet or a number is no term: its text goes on in its line.
            self._fresh = self._next == "term" and any(map(str.isalpha, text))
            self._term = self._term or self._fresh
            self._next = ""
        else:
            self._lines[-1].append(text.strip())

    def _is_term(self) -> bool:
        """Return whether the open paragraph can be the term of a definition that follows indented."""
        term = " ".join(self._lines[0]) if len(self._lines) == 1 and len(self._lines[0]) < 10 else ""
        return 0 < len(term) <= _TERM and term[-1] not in ".:"

    def _blank(self) -> None:
        if self._filled:
            self._close()
        elif self._lines:
            self._lines.append([])

    def _close(self) -> None:
        text = "\n".join(" ".join(line) for line in self._lines).strip("\n")
        if text:
            first = text.split("\n", 1)[0] if self._term else ""
            heading = Heading(0, len(first), TERM_LEVEL, one_line(first))
            headed = self._term or self._definition == "ended"
            self._blocks.append(Extracted(text, headings=(heading,) if headed else ()))
            self._definition = "open" if self._term else self._definition.removeprefix("ended")
        self._lines, self._fresh, self._term = [], False, False


def _plain(text: str) -> str:
    """Replace roff's escapes by the characters they stand for."""

    def character(match: re.Match[str]) -> str:
        if match["code"]:
            return chr(int(match["code"]) % 0x110000)
        if match["gap"]:
            return "" if match["gap"].startswith("h'-") else " "
        name = (match["character"] or match["string"] or "").strip("([]")
        if name:
            return chr(int(name[1:], 16)) if re.fullmatch(r"u[0-9A-F]{4,5}", name) else _CHARACTERS.get(name, "")
        return _SINGLE.get(match["one"] or "", "")

    return _ESCAPE.sub(character, text)


def _mdoc(text: str) -> str:
    """Drop the names of mdoc's macros from the words of a line; options get their hyphen."""
    text = re.sub(r"(?:^|(?<= ))Fl (?=\S)", "-", text)
    return re.sub(r" (?=[.,;:)\]](?: |$))", "", _MDOC.sub("", text)).strip()


_HEAD = lazy_regex(
    r"\s*(\w[\w.:+@-]*\(\d\w*\))(?:[ \t]+(?:\S[^\n]*[ \t])?\1[ \t\r]*\n|[ \t\r]*\n\s*(?=NAME[ \t\r]*\n))", re.IGNORECASE
)
_OVERSTRUCK = lazy_regex(r"[^\n]\x08|\x1b\[[0-9;]*m")  # bold and underlined letters, as on a line printer
_HYPHEN = lazy_regex(r"(?<=[^\W\d_])‐\n([ ]+)(\S+)[ ]*")  # a word set on two lines
_HEADING_LINE = lazy_regex(r"^ {0,3}\S[^\n]*\n(?=[ ]*\S)", re.MULTILINE)
_CAPITAL = lazy_regex(r"[A-Z]{2}")
_SHORT_TERM = lazy_regex(r"(--?[A-Za-z0-9?](?:\S| (?! ))*)[ ]{2,}\S")  # with its definition in the same line
_NO_TERM = lazy_regex(r"(?:[•·*+$#>%]|\(?\w{1,2}[.)])[ ]|\W+$")  # an item, or a command to type
_LONGEST_TERM = 62  # of a line of its own
_USUAL_WIDTH = 7  # columns of a term in front of its definition
_SUBSECTION = 3  # columns


class _Line(NamedTuple):
    start: int
    indent: int  # in columns; 0 also if the line is empty
    text: str

    def is_heading(self) -> bool:
        named = self.indent or _CAPITAL.search(self.text) or self.text.istitle()
        return bool(self.text) and self.indent <= _SUBSECTION and bool(named)


_NONE = _Line(0, 0, "")


def is_manual_text(text: str) -> bool:
    """Return whether a text begins with a manual page's head.

    >>> is_manual_text("WINCH(1)      Dock Manual      WINCH(1)\\n\\nNAME\\n       winch - haul a rope\\n")
    True
    >>> is_manual_text("WINCH(1) is a manual page.\\n")
    False
    """
    return _HEAD.match(_OVERSTRUCK.sub("", text[:1000])) is not None


def load_manual_text(text: str) -> Extracted:
    """Read a manual page as ``man winch`` prints it; tabs become spaces, and words set on two lines are joined.

    Lines at the margin and at column 3 are headings. A line with a more indented one directly below it is a term, and
    heads what is indented below it.
    """
    text = _OVERSTRUCK.sub("", text).replace("\r\n", "\n").expandtabs()
    head = _HEAD.match(text)
    name = head[1].lower() if head else ""
    text = text[head.end() if head else 0 :].strip("\n")
    body, _, foot = text.rpartition("\n")
    if name and foot.rstrip().lower().endswith(name):
        text = body
    text = _HEADING_LINE.sub(r"\g<0>\n", _HYPHEN.sub(r"\2\n\1", text.rstrip() + "\n"))
    return Extracted(text, name, tuple(_headings(list(_lines(text)))))


def _lines(text: str) -> Iterator[_Line]:
    position = 0
    for line in text.splitlines(keepends=True):
        yield _Line(position, len(line) - len(line.lstrip(" ")) if line.strip() else 0, line.rstrip().lstrip(" "))
        position += len(line)


def _headings(lines: list[_Line]) -> Iterator[Heading]:
    """Yield headings and terms; a heading without a label where the definition of a list's last term ends."""
    terms: list[int] = []  # the indents of the terms whose definitions are open
    section, last = "", -1  # last: the line of the last term
    for at, line in enumerate(lines):
        start = line.start + line.indent
        if line.is_heading():
            yield Heading(start, start + len(line.text), 2 if line.indent else 1, one_line(line.text))
            terms, section = [], line.text.upper()
        elif line.text and section != "SYNOPSIS":
            was_open = bool(terms)
            terms = [indent for indent in terms if indent < line.indent]
            above, below = lines[at - 1] if at else _NONE, lines[at + 1] if at + 1 < len(lines) else _NONE
            named = last == at - 1 and above.indent == line.indent
            begins = not above.text or above.is_heading() or above.indent > line.indent or named
            if begins and (term := _term(line, below, named=named)):
                yield Heading(start, start + len(term), TERM_LEVEL + min(len(terms), 1), one_line(term))
                terms.append(line.indent)
                last = at
            elif was_open and not terms:
                yield Heading(start, start, TERM_LEVEL, "")


def _term(line: _Line, below: _Line, *, named: bool) -> str:
    """Return the term that a line begins with or consists of; empty if there is none.

    Its definition is indented more: it is in the same line (``-x     Do not …``), in those below, or in both.

    Args:
        named: the line above is a term, of which this one can be another name.
    """
    text, column = line.text, below.indent - line.indent if below.text else 0
    if _NO_TERM.match(text):
        return ""
    if short := _SHORT_TERM.match(text):
        return short[1]
    for width in (column, _USUAL_WIDTH):  # in front of its definition
        term, apart = text[:width].rstrip(), text[max(width - 2, 0) : width].isspace()
        tight = width >= _USUAL_WIDTH and text[width - 1 : width] == " " and text[width : width + 1].isupper()
        if any(map(str.isalnum, term)) and " " not in term and (apart or tight) and text[width : width + 1].strip():
            return term
    ends = text.endswith("...") or text[-1] not in ".:;,"
    alone = column > 1 and len(text) <= _LONGEST_TERM and "  " not in text
    return text if alone and ends and (not named or text[0] == "-") else ""
