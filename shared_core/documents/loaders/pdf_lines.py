"""Read the lines of text on a PDF's pages, with their position and font, through pypdfium2.

PDFium finds the ends of words and lines (PDFs place letters and seldom contain spaces). A line is cut at gaps wider
than a space, which separates columns and cells side by side.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shared_core.documents.loaders.extracted import LOWERED, RAISED

if TYPE_CHECKING:
    import pypdfium2

_BROKEN_WORD = "\ufffe\x02"  # PDFium's marks for a hyphen that divides a word at the end of a line
_BOLD = re.compile(r"bold|black|heavy|demi|-bd|cm(ss|tt|c)?bx|[se]fbx", re.IGNORECASE)
_BOLD_WEIGHT = 600
_FIXED_WIDTH = 1  # flag in a font's descriptor
_FIXED = re.compile(r"mono|courier|typewriter|consol|cmtt|[se]ftt", re.IGNORECASE)
_WIDE_GAP = 0.9  # in font sizes: wider than the space between words, even of justified text
_SPACE = 0.18  # in font sizes: a gap this wide is a space, whether the file has one or not
_NO_SPACE = 0.04  # in font sizes: a space in the file that cannot be seen on the page
_SPACED_OUT = 0.4  # of the gaps in a word: more wide ones are letter-spacing
_STRETCHED = 1.8  # spaces of a justified line are seldom so many times as wide as its others
_STRETCHED_TO = 2.2  # in font sizes: spaces of a badly filled line grow up to this
_SMALL = 0.85  # of the font size: smaller digits are raised or lowered
_SHIFTED = 0.1  # in font sizes: how far such digits are at least from the base line
_RAISED_IN_WORD = re.compile(r"(?<=\d)[\d+\-−–]")
_FONT_NAME_BYTES = 128
_UNSEEN = {ord(c): None for c in "\xad\u200b\ufeff\x00"}


@dataclass(frozen=True, slots=True)
class Line:
    """A stretch of text on one line of a page; coordinates in points, as if upright: x to the right, y upwards.

    Attributes:
        text: without white space around it.
        x0, x1: its left and right ends.
        y: of its base line.
        size: of its font (the median of a few letters).
        bold: whether its letters are bold.
        fixed: whether its font is monospaced.
        turned: its rotation on the page, in quarter turns (0: upright).
        broken: whether it ends in a hyphen that divides a word, or seems to.
    """

    text: str
    x0: float
    x1: float
    y: float
    size: float
    bold: bool = False
    fixed: bool = False
    turned: int = 0
    broken: bool = False


def page_lines(page: pypdfium2.PdfPage) -> list[Line]:
    """Return the lines of a page in the order of the file, text in the page's usual direction first."""
    textpage = page.get_textpage()
    try:
        lines = list(_Reader(textpage).lines())
    finally:
        textpage.close()
    if not lines:
        return []
    turns: Counter[int] = Counter()
    for line in lines:
        turns[line.turned] += len(line.text)
    usual = turns.most_common(1)[0][0]
    return sorted(lines, key=lambda line: line.turned != usual)  # stable: stamps along the margin go last


class _Reader:
    """Reads one text page; character indices are PDFium's."""

    def __init__(self, textpage: Any) -> None:
        import pypdfium2.raw as raw

        self._raw: Any = raw
        self._page: Any = textpage.raw
        count = textpage.count_chars()
        text = textpage.get_text_range() if count else ""
        # Characters beyond 16 bits and unprintable ones can shift the text against PDFium's indices.
        self._text = text if len(text) == count else "".join(self._letter(i) for i in range(count))
        self._x, self._y = ctypes.c_double(), ctypes.c_double()
        self._matrix, self._box = raw.FS_MATRIX(), raw.FS_RECTF()
        self._name, self._flags = ctypes.create_string_buffer(_FONT_NAME_BYTES), ctypes.c_int()

    def lines(self) -> Iterator[Line]:
        """Yield lines, cut at wide gaps."""
        start = 0
        for i, letter in enumerate(self._text):
            if letter in _BROKEN_WORD or letter in "\r\n\u2028\u2029":
                yield from self._cut(start, i, broken=letter in _BROKEN_WORD)
                start = i + 1
        yield from self._cut(start, len(self._text), broken=False)

    def _letter(self, i: int) -> str:
        code = int(self._raw.FPDFText_GetUnicode(self._page, i))
        return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"

    def _cut(self, start: int, end: int, *, broken: bool) -> Iterator[Line]:
        """Yield the line of the characters ``[start, end)`` in pieces, cut at wide gaps."""
        text = self._text
        words = [(start + m.start(), start + m.end()) for m in re.finditer(r"\S+", text[start:end])]
        words = [(a, b) for a, b in words if text[a:b].translate(_UNSEEN)]
        if not words:
            return
        size, turned = self._font(words[0][0])
        gaps = [0.0] * (len(words) - 1)
        if not turned:
            words, gaps = self._spaced(words, size)
        first = 0
        for i in _wide_gaps(gaps, size):
            yield self._line(words[first : i + 1], broken=False)
            first = i + 1
        yield self._line(words[first:], broken=broken)

    def _spaced(self, words: list[tuple[int, int]], size: float) -> tuple[list[tuple[int, int]], list[float]]:
        """Return the words of an upright line as seen on the page, and the gaps between them.

        Some programs place each letter by itself; their spaces have no width, and gaps contain no space.
        """
        boxes = [self._boxes(a, b) for a, b in words]
        gaps = [after[0][0] - before[-1][1] for before, after in itertools.pairwise(boxes)]
        spaced = bool(gaps) and statistics.median(gaps) > _SPACE * size
        result: list[tuple[int, int]] = []
        between: list[float] = []
        for n, ((a, b), letters) in enumerate(zip(words, boxes, strict=True)):
            joins = spaced and n > 0 and gaps[n - 1] < _NO_SPACE * size and self._text[a - 1] == " "
            inner = [right[0] - left[1] for left, right in itertools.pairwise(letters)]
            cuts = [i + 1 for i, gap in enumerate(inner) if gap > _SPACE * size]
            if len(cuts) > _SPACED_OUT * len(inner):  # letter-spacing
                cuts = []
            edges = [a, *(a + cut for cut in cuts), b]
            pieces = list(itertools.pairwise(edges))
            if n and not joins:
                between.append(gaps[n - 1])
            if joins:
                pieces[0] = (result.pop()[0], pieces[0][1])
            result += pieces
            between += [inner[cut - 1] for cut in cuts]
        return result, between

    def _line(self, words: list[tuple[int, int]], *, broken: bool) -> Line:
        start, last = words[0][0], words[-1][1] - 1
        text = " ".join(self._word(a, b).replace(" ", "").translate(_UNSEEN) for a, b in words)
        fonts = [self._font(a) for a, _ in (words[0], words[len(words) // 2], words[-1])]
        size, turned = statistics.median(size for size, _ in fonts), fonts[0][1]
        x0, y = self._place(start, turned)
        x1 = max(self._ends(last, turned)[1], x0)
        broken = broken or self._text[last] == "\xad"
        bold, fixed = self._face(start)
        return Line(text, x0, x1, y, size, bold and self._face(last)[0], fixed, turned, broken)

    def _word(self, start: int, end: int) -> str:
        """Return a word, in which what is raised or lowered behind a digit is in Unicode's digits: 10⁶ is not 106."""
        text = self._text
        if not _RAISED_IN_WORD.search(text[start:end]):
            return text[start:end]
        letters = list(text[start:end])
        base = start
        for i in range(start + 1, end):
            size, turned = self._font(i)
            usual = self._font(base)[0]
            shift = self._place(i, turned)[1] - self._place(base, turned)[1]
            if size > _SMALL * usual or abs(shift) < _SHIFTED * usual:
                base = i
            elif text[base].isdigit():
                letters[i - start] = text[i].translate(RAISED if shift > 0 else LOWERED)
        return "".join(letters)

    def _font(self, i: int) -> tuple[float, int]:
        """Return a character's font size in points as seen on the page, and its quarter turns."""
        self._raw.FPDFText_GetMatrix(self._page, i, self._matrix)
        m = self._matrix
        size = self._raw.FPDFText_GetFontSize(self._page, i) * math.hypot(m.c, m.d)
        return max(float(size), 0.1), round(math.atan2(m.b, m.a) / (math.pi / 2)) % 4

    def _place(self, i: int, turned: int) -> tuple[float, float]:
        self._raw.FPDFText_GetCharOrigin(self._page, i, self._x, self._y)
        return _upright(self._x.value, self._y.value, turned)

    def _ends(self, i: int, turned: int) -> tuple[float, float]:
        """Return where a character, with its own space, begins and ends along its line."""
        self._raw.FPDFText_GetLooseCharBox(self._page, i, self._box)
        box = self._box
        a, b = _upright(box.left, box.bottom, turned)[0], _upright(box.right, box.top, turned)[0]
        return min(a, b), max(a, b)

    def _boxes(self, start: int, end: int) -> list[tuple[float, float]]:
        """Return where each of the upright characters ``[start, end)`` begins and ends."""
        # Called for each letter of a document, so attributes are looked up once.
        read, page, box = self._raw.FPDFText_GetLooseCharBox, self._page, self._box
        found = []
        for i in range(start, end):
            read(page, i, box)
            found.append((box.left, box.right))
        return found

    def _face(self, i: int) -> tuple[bool, bool]:
        """Return whether a character's font is bold, and whether it is monospaced."""
        self._raw.FPDFText_GetFontInfo(self._page, i, self._name, _FONT_NAME_BYTES, self._flags)
        name = self._name.value.decode("latin-1")
        bold = self._raw.FPDFText_GetFontWeight(self._page, i) >= _BOLD_WEIGHT or _BOLD.search(name) is not None
        return bold, bool(self._flags.value & _FIXED_WIDTH) or _FIXED.search(name) is not None


def _wide_gaps(gaps: list[float], size: float) -> list[int]:
    """Return the gaps of a line that separate columns or cells, rather than being stretched to fill the line."""
    wide = [i for i, gap in enumerate(gaps) if gap > _WIDE_GAP * size]
    if not wide:
        return []
    usual = statistics.median_low(gaps)
    beyond = [i for i in wide if gaps[i] > _STRETCHED * usual]
    if len(wide) <= len(gaps) / 2 or (beyond and usual < _STRETCHED * size):
        return beyond
    return [] if len(gaps) > 1 and max(gaps) < _STRETCHED_TO * size else wide


def _upright(x: float, y: float, turned: int) -> tuple[float, float]:
    """Rotate a point of the page so that text of so many quarter turns runs to the right."""
    return ((x, y), (y, -x), (-x, -y), (-y, x))[turned]


def joined(lines: list[Line], gap: str) -> Line:
    """Join pieces of one line side by side."""
    return replace(
        lines[0], text=gap.join(line.text for line in lines), x1=lines[-1].x1, broken=lines[-1].broken,
        bold=all(line.bold for line in lines),
    )  # fmt: skip
