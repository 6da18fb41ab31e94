"""Read Rich Text Format (RTF 1.9.1, Microsoft 2008): control words become HTML, which is then read as web pages are.

Left out are headers and footers, comments, pictures, and deleted, struck-out and hidden text; notes come last.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from shared_core.documents.loaders.extracted import Budget, Extracted, damaged, given_title, title_of_text, too_much
from shared_core.documents.loaders.html import read_html
from shared_core.support.regex import lazy_regex

_TOKEN = lazy_regex(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n\0]+|([^\\{}\r\n\0]+)|\\"
)
_MAX_DEPTH = 10_000
_CHECKED = 20_000  # tokens between two looks at the time
_SIGNS = {
    "tab": "\t", "line": "\n", "lbr": "\n", "emdash": "—", "endash": "–", "emspace": " ", "enspace": " ",
    "qmspace": " ", "bullet": "•", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”",
}  # fmt: skip
_SYMBOLS = {b"~": "\xa0", b"_": "-", b"\t": "\t", b"\\": "\\", b"{": "{", b"}": "}"}
_UNREAD = frozenset(
    """colortbl pict header headerl headerr headerf footer footerl footerr footerf ftnsep ftnsepc ftncn aftnsep aftnsepc
    aftncn fldinst sp shprslt nonesttables annotation atnid atnauthor atntime atnicn atnref atndate atnparent objdata
    objclass filetbl revtbl rsidtbl generator xe tc tcn rxe bkmkstart bkmkend datafield themedata template""".split()
)
_READ_AFTER_STAR = frozenset(("footnote", "shpinst", "nesttableprops"))  # the others with \* are for programs
_PAGES_OF_CHARSETS = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 134: "cp936", 136: "cp950", 161: "cp1253", 162: "cp1254",
    163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250",
}  # fmt: skip
_PAGES = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850"}
_HEADING_STYLE = lazy_regex(r"heading (\d)\b", re.IGNORECASE)
_REPEATED = 60  # letters at most of a cell that is repeated in the rows it spans
_BULLET = lazy_regex(r"[^\w]*\t?")


def read_rtf(data: bytes, budget: Budget) -> Extracted:
    """Read an RTF file; headings are paragraphs with an outline level or of such a style.

    DocumentError if it is no RTF, was cut off, is nested too deeply, or takes too long.
    """
    if not data.lstrip().startswith(b"{\\rtf"):
        raise damaged("RTF", ValueError("it does not begin as such a file"))
    reader = _Reader(budget)
    reader.read(data)
    blocks = "".join((*reader.blocks, *reader.notes))
    found = read_html(f"<main>{blocks}</main>", budget, spaces=True)
    return replace(found, title=reader.title or title_of_text(found))


@dataclass(slots=True)
class _State:
    """The formatting that a group inherits, and where its text goes."""

    into: str = "body"
    skipped: int = 1  # characters after each \\u, for programs that do not know it
    font: int = -1
    unseen: frozenset[str] = frozenset()
    raised: str = ""


@dataclass(slots=True)
class _Paragraph:
    """The properties of a paragraph and its inline HTML so far."""

    style: int = 0
    outline: int = -1
    in_table: bool = False
    pieces: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Row:
    """A row of a table: its cells as HTML, and of each its right edge and whether it goes on from the left or above."""

    cells: list[str] = field(default_factory=list)
    edges: list[tuple[int, bool, bool]] = field(default_factory=list)
    header: bool = False
    left: bool = False
    above: bool = False


class _Reader:
    """Follow the control words of a file and collect the HTML of its text."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.title = ""
        self._state, self._stack = _State(), list[_State]()
        self._page, self._fonts, self._levels = "cp1252", dict[int, str](), dict[int, int]()
        self._bytes, self._skip = bytearray(), 0
        self._begun = self._starred = False  # a group has just begun; it begins with a star
        self._style = 0
        self._own, self._note = _Paragraph(), _Paragraph()
        self.blocks, self._cell, self.notes = list[str](), list[str](), list[str]()
        self._row, self._table, self._above = _Row(), list[str](), dict[int, str]()
        self._pending: dict[str, str] = {}
        self._words: dict[str, Callable[[int | None], None]] = {
            "par": lambda _: self._end_paragraph(), "sect": lambda _: self._end_paragraph(),
            "pard": lambda _: self._reset_paragraph(), "plain": lambda _: self._reset_text(),
            "cell": lambda _: self._end_cell(), "row": lambda _: self._end_row(),
            "nestcell": lambda _: self._put("\t"), "nestrow": lambda _: self._put("\n"),
            "trowd": lambda _: self._begin_row(), "cellx": self._end_edge, "u": self._put_unicode,
        }  # fmt: skip

    def read(self, data: bytes) -> None:
        """Read the whole file."""
        at, count, end = 0, 0, len(data)
        while at < end:
            match = _TOKEN.match(data, at)
            assert match is not None
            at, count = match.end(), count + 1
            if count % _CHECKED == 0:
                self._budget.check()
            word, number, byte, symbol, brace, text = match.groups()
            if brace == b"{":
                self._open()
            elif brace:
                self._close()
                if not self._stack:
                    break
            elif word:
                if word == b"bin":  # raw bytes follow
                    at += max(0, int(number or 0))
                else:
                    self._word(word.decode(), int(number) if number else None)
            elif byte:
                self._literal(bytes((int(byte, 16),)))
            elif symbol:
                self._symbol(symbol)
            elif text:
                self._literal(text)
            self._begun = brace == b"{"
        self._flush()
        if self._stack:
            raise damaged("RTF", ValueError("it ends within a group; the rest is missing"))
        self._end_paragraph()
        self._end_table()

    def _open(self) -> None:
        self._flush()
        if len(self._stack) >= _MAX_DEPTH:
            raise too_much("groups within groups", len(self._stack) + 1, _MAX_DEPTH)
        self._stack.append(self._state)
        self._state = replace(self._state)
        self._begun, self._starred, self._skip = True, False, 0

    def _close(self) -> None:
        self._flush()
        closed, self._skip = self._state, 0
        if not self._stack:
            return
        self._state = self._stack.pop()
        if closed.into == self._state.into:
            return
        if closed.into == "note":
            self.notes.append(self._written(self._note))
        elif closed.into in self._pending:
            text = self._pending.pop(closed.into)
            if closed.into == "title":
                self.title = given_title(text)
            elif closed.into == "number" and not _BULLET.fullmatch(text):  # of a list, as programs show it
                self._put(f"{text.strip()} ")

    def _word(self, word: str, number: int | None) -> None:
        self._flush()
        state, starred = self._state, self._starred
        self._starred = False
        if state.into == "nothing":
            return
        if word in _UNREAD or (starred and word not in _READ_AFTER_STAR):
            state.into = "nothing"
        elif word in ("fonttbl", "stylesheet", "info"):
            state.into = word
        elif word == "title" and state.into == "info":
            state.into, self._pending["title"] = "title", ""
        elif word in ("listtext", "pntext"):
            state.into, self._pending["number"] = "number", ""
        elif word == "footnote":
            state.into, state.raised, self._note = "note", "", _Paragraph()
        elif word in _SIGNS:
            self._put(_SIGNS[word])
        elif word in self._words:
            self._words[word](number)
        else:
            self._format(word, number)

    def _format(self, word: str, number: int | None) -> None:
        """Follow a control word that says how text looks, or of what style or encoding it is."""
        state = self._state
        if word in ("v", "deleted", "strike", "striked"):
            state.unseen = state.unseen - {word} if number == 0 else state.unseen | {word}
        elif word in ("super", "sub", "nosupersub"):
            state.raised = "" if number == 0 else {"super": "sup", "sub": "sub"}.get(word, "")
        elif word in ("up", "dn"):  # by half points; 0 is the line itself
            state.raised = "" if number == 0 else {"up": "sup", "dn": "sub"}[word]
        elif word == "uc":
            state.skipped = max(0, number or 0)
        elif word == "f":
            state.font = number or 0
        elif word == "fcharset" and state.into == "fonttbl":
            self._fonts[state.font] = _PAGES_OF_CHARSETS.get(number or 0, "")
        elif word == "ansicpg":
            self._page = f"cp{number}"
        elif word in _PAGES:
            self._page = _PAGES[word]
        elif word == "s" and state.into == "stylesheet":
            self._style = number or 0
        elif word == "s":
            self._paragraph().style = number or 0
        elif word == "outlinelevel" and state.into == "stylesheet":
            self._levels[self._style] = number or 0
        elif word == "outlinelevel":
            self._paragraph().outline = number or 0
        elif word == "intbl":
            self._paragraph().in_table = True
        elif word == "trhdr":
            self._row.header = True
        elif word == "clmrg":
            self._row.left = True
        elif word == "clvmrg":
            self._row.above = True

    def _symbol(self, symbol: bytes) -> None:
        self._flush()
        if symbol == b"*":  # within a group it says nothing: old StarOffice wrote it before a style
            self._starred = self._begun
        elif symbol in b"\r\n":
            self._end_paragraph()
        elif symbol in _SYMBOLS:
            self._put(_SYMBOLS[symbol])

    def _literal(self, text: bytes) -> None:
        """Take bytes of text: those of one run are decoded together, for letters of two bytes."""
        if self._skip:
            text, self._skip = text[self._skip :], max(0, self._skip - len(text))
        if text and self._state.into != "nothing":
            self._bytes += text

    def _flush(self) -> None:
        if not self._bytes:
            return
        page = self._fonts.get(self._state.font) or self._page
        data = bytes(self._bytes)
        self._bytes.clear()
        try:
            text = data.decode(page, "replace")
        except LookupError:
            text = data.decode("cp1252", "replace")
        self._put(text)

    def _put_unicode(self, number: int | None) -> None:
        self._put(chr((number or 0) % 0x10000))
        self._skip = self._state.skipped

    def _put(self, text: str) -> None:
        """Add text to what its group belongs to."""
        state = self._state
        if state.into in self._pending:
            self._pending[state.into] += text
        elif state.into == "stylesheet":
            if match := _HEADING_STYLE.match(text.strip()):
                self._levels.setdefault(self._style, int(match[1]) - 1)
        elif state.into in ("body", "note") and not state.unseen:
            written = html.escape(text, quote=False).replace("\n", "<br />")
            if state.raised and text.strip():
                written = f"<{state.raised}>{written}</{state.raised}>"
            self._paragraph().pieces.append(written)

    def _paragraph(self) -> _Paragraph:
        return self._note if self._state.into == "note" else self._own

    def _reset_text(self) -> None:
        self._state.unseen, self._state.raised = frozenset(), ""

    def _reset_paragraph(self) -> None:
        if self._state.into in ("body", "note"):
            paragraph = self._paragraph()
            paragraph.style, paragraph.outline, paragraph.in_table = 0, -1, False

    def _written(self, paragraph: _Paragraph) -> str:
        """Return a paragraph as HTML and empty it; the properties last until they are changed."""
        # Halves of characters beyond the first 65,536 come one by one.
        text = "".join(paragraph.pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace").strip()
        paragraph.pieces.clear()
        level = paragraph.outline if paragraph.outline >= 0 else self._levels.get(paragraph.style, -1)
        tag = f"h{min(level, 5) + 1}" if 0 <= level < 9 and not paragraph.in_table else "p"
        return f"<{tag}>{text}</{tag}>" if text else ""

    def _end_paragraph(self) -> None:
        if self._state.into == "note":
            self.notes.append(self._written(self._note))
        elif self._state.into == "body":
            inside, written = self._own.in_table, self._written(self._own)
            if inside:
                self._cell.append(written)
            else:
                self._end_table()
                self.blocks.append(written)

    def _begin_row(self) -> None:
        if not self._own.in_table or not self._row.cells:  # else the same row is described again at its end
            self._row = _Row()
        self._row.edges, self._row.left, self._row.above = [], False, False

    def _end_edge(self, number: int | None) -> None:
        row = self._row
        row.edges.append((number or 0, row.left, row.above))
        row.left = row.above = False

    def _end_cell(self) -> None:
        if self._state.into == "body":
            self._cell.append(self._written(self._own))
            self._row.cells.append("".join(self._cell))
            self._cell.clear()

    def _end_row(self) -> None:
        if self._state.into != "body":
            return
        row, tag = self._row, "th" if self._row.header else "td"
        edges = row.edges + [(-1, False, False)] * (len(row.cells) - len(row.edges))
        written: list[tuple[str, int]] = []
        above: dict[int, str] = {}
        for cell, (edge, from_left, from_above) in zip(row.cells, edges, strict=False):
            if from_left and written:
                written[-1] = written[-1][0] + cell, written[-1][1] + 1
                continue
            kept = self._above.get(edge, "") if from_above and not cell else cell
            above[edge] = kept if len(kept) <= _REPEATED else ""
            written.append((kept, 1))
        self._above = above
        cells = "".join(f'<{tag} colspan="{span}">{cell}</{tag}>' for cell, span in written)
        self._table.append(f"<tr>{cells}</tr>")
        self._row = _Row(edges=row.edges, header=row.header)

    def _end_table(self) -> None:
        if self._table:
            self.blocks.append(f"<table>{''.join(self._table)}</table>")
        self._table, self._above = [], {}
