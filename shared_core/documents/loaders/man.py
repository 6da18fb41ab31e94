r"""Read manual pages (man(7), and mdoc(7) as far as it resembles running text) without roff's markup.

Sections become headings. A term of an option list (``.TP``, ``.IP``, ``.It``) begins a paragraph and is followed by its
definition on the next line, and heads a section, so that the two are not separated.
"""

from __future__ import annotations

import re
from dataclasses import replace

from shared_core.documents.loaders.extracted import TERM_LEVEL, Extracted, Heading, join_texts, one_line
from shared_core.documents.loaders.limits import Budget
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
