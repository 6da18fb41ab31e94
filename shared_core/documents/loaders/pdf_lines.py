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
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shared_core.documents.loaders.extracted import LOWERED, RAISED
from shared_core.documents.loaders.pdf_rules import Rules
from shared_core.support.regex import lazy_regex

if TYPE_CHECKING:
    import pypdfium2

_BROKEN_WORD = "\ufffe\x02"  # PDFium's marks for a hyphen that divides a word at the end of a line
_BOLD = lazy_regex(r"bold|black|heavy|demi|-bd|cm(ss|tt|c)?bx|[se]fbx", re.IGNORECASE)
_BOLD_WEIGHT = 600
_NAMED = lazy_regex(  # TeX's, and others that say that they are plain, whatever weight a file gives them
    r"(?:[A-Z]{6}\+)?(?:(?:cm|ec|sf|lm)[a-z]{1,8}\d{1,4}|(?:helvetica|courier)(?:-oblique)?|times-italic|symbol"
    r"|[\w-]+-(?:roman|regular|light))",
    re.IGNORECASE,
)
_FIXED_WIDTH = 1  # flag in a font's descriptor
_FIXED = lazy_regex(r"mono|courier|typewriter|consol|cmtt|[se]ftt", re.IGNORECASE)
_WIDE_GAP = 0.9  # in font sizes: wider than the space between words, even of justified text
CELL_GAP = 0.45  # in font sizes: cells of a narrow table may be so close, and so may words of a justified line
_OTHER_LINE = 0.8  # in font sizes between base lines; raised digits are nearer
_FAR_BACK = -12.0  # font sizes from the end of a line to what begins further left and is none of it
_VALUE_GAP = 0.35  # in font sizes: between numbers, the same
_NUMBERS = lazy_regex(r"\d[%)]? (?:%|[-+\u2212(]?\d)")
_SPACE = 0.18  # in font sizes: a gap this wide is a space, whether the file has one or not
_NO_SPACE = 0.04  # in font sizes: a space in the file that cannot be seen on the page
_SPACED_OUT = 0.4  # of the gaps in a word: more wide ones are letter-spacing
_STRETCHED = 1.8  # spaces of a justified line are seldom so many times as wide as its others
_STRETCHED_TO = 2.2  # in font sizes: spaces of a badly filled line grow up to this
_SMALL = 0.85  # of the font size: smaller digits are raised or lowered
_SHIFTED = 0.1  # in font sizes: how far such digits are at least from the base line
_RAISED_IN_WORD = lazy_regex(r"(?<=\d)[\d+\-−–]|(?<![^\W\d_])[^\W\d_]\d|(?<=\d)[^\W\d_]|[^\W\d_][A-Z]{3}")
_LOWERED_WORD = lazy_regex(r"[^\W\d_]{3,}")
LONE_LETTER = lazy_regex(r"(?<![^\W\d_])[^\W\d_]\Z")
ORDINAL = lazy_regex(r"(?:st|nd|rd|th|TM|SM)\b")
_FONT_NAME_BYTES = 128
MIDDLE = 0.3  # of the font size: how far the middle of letters is above the base line
_RULE_SLACK = 0.15  # of the font size: how far letters may stand over a rule
_UNSEEN = {ord(c): None for c in "\xad\u200b\ufeff\x00"}
_WIDTHLESS = frozenset("\u200b\ufeff\x00")
_SHOWN_HYPHEN = lazy_regex("(?<=\\w)\xad(?=\\w)")
"""A soft hyphen within a line, which is drawn there: some programs give each hyphen of a font out as one."""
_LEAST_SIZE = 2.0  # points: fonts of pictures (Type 3, as of old TeX) have sizes in units of their own
_HEIGHTS = {  # in font sizes, of letters in Computer Modern and most other fonts
    **dict.fromkeys("acemnorsuvwxz", 0.44),
    **dict.fromkeys("bdfhklABCDEFGHIJKLMNPRSTUVWXYZ0123456789", 0.69),
}
_LIGATURES = ("\v\f\r\x0e\x0f", "\x1b\x1c\x1d\x1e\x1f")
"""Codes of ff, fi, fl, ffi and ffl in TeX's two encodings, given out as they are by fonts without names of letters."""
_FEW = 3
_CONTROL = lazy_regex(r"[\x01\x03-\x08\v\f\x0e-\x1f]|\r(?!\n)")


@dataclass(frozen=True, slots=True)
class Line:
    """A stretch of text on one line of a page; coordinates in points, as if upright: x to the right, y upwards.

    Attributes:
        text: without white space around it.
        y: of its base line.
        size: of its font (the median of a few letters).
        turned: its rotation on the page, in quarter turns (0: upright).
        broken: whether it ends in a hyphen that divides a word, or seems to.
        table: the number of the table of which it is a row; negative for a label above rows, 0 for other lines.
        gaps: within it that are wider than most spaces: how many words are before each, and where it begins and ends.
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
    table: int = 0
    gaps: tuple[tuple[int, float, float], ...] = ()


def page_lines(page: pypdfium2.PdfPage, rules: Rules) -> list[Line]:
    """Return the lines of a page in the order of the file, text in the page's usual direction first.

    They are cut where one of the ``rules`` drawn on it runs across them.
    """
    textpage = page.get_textpage()
    try:
        lines = list(_Reader(textpage, rules).lines())
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

    def __init__(self, textpage: Any, rules: Rules) -> None:
        import pypdfium2.raw as raw

        self._raw: Any = raw
        self._columns = [rules.turned(turned).vertical for turned in range(4)]
        self._page: Any = textpage.raw
        count = textpage.count_chars()
        text = textpage.get_text_range() if count else ""
        # Characters beyond 16 bits and unprintable ones can shift the text against PDFium's indices.
        self._text = _with_ligatures(text if len(text) == count else "".join(map(self._letter, range(count))))
        self._x, self._y = ctypes.c_double(), ctypes.c_double()
        self._matrix, self._box = raw.FS_MATRIX(), raw.FS_RECTF()
        self._name, self._flags = ctypes.create_string_buffer(_FONT_NAME_BYTES), ctypes.c_int()
        self._seen_sizes: dict[int, float] | None = None  # of fonts without a size in points

    def lines(self) -> Iterator[Line]:
        """Yield lines, cut at wide gaps."""
        start = 0
        for i, letter in enumerate(self._text):
            if letter in _BROKEN_WORD or letter in "\r\n\u2028\u2029":
                yield from self._level(start, i, broken=letter in _BROKEN_WORD)
                start = i + 1
        yield from self._level(start, len(self._text), broken=False)

    def _level(self, start: int, end: int, *, broken: bool) -> Iterator[Line]:
        """Yield the lines of the characters ``[start, end)``, of which some may run up the page, and others not."""
        seen = self._seen(start, end)
        if seen and self._font(seen[0])[1] != self._font(seen[-1])[1]:
            for a, b in itertools.pairwise(seen):
                if self._font(a)[1] != self._font(b)[1]:
                    yield from self._one_way(start, b, broken=False)
                    start = b
        yield from self._one_way(start, end, broken=broken)

    def _one_way(self, start: int, end: int, *, broken: bool) -> Iterator[Line]:
        """Yield the lines of characters that run one way: PDFium may join a short line to the one below it."""
        if seen := self._seen(start, end):
            size, turned = self._font(seen[0])
            if abs(self._place(seen[0], turned)[1] - self._place(seen[-1], turned)[1]) > _OTHER_LINE * size:
                for (_, (x0, y0)), (b, (x1, y1)) in itertools.pairwise((i, self._place(i, turned)) for i in seen):
                    if x1 < x0 - _SPACE * size and abs(y1 - y0) > _OTHER_LINE * size:
                        yield from self._cut(start, b, broken=False)
                        start = b
        yield from self._cut(start, end, broken=broken)

    def _seen(self, start: int, end: int) -> list[int]:
        """Return which of the characters ``[start, end)`` are not white space."""
        return [i for i in range(start, end) if not self._text[i].isspace()]

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
        words, gaps = self._spaced(words, size, turned)
        first = 0
        cuts = {*_wide_gaps(gaps, size), *(i for i, gap in enumerate(gaps) if gap < _FAR_BACK * size)}
        if self._columns[turned]:
            cuts |= self._between_columns(words, turned)
        for i in sorted(cuts):
            yield self._line(words[first : i + 1], gaps[first:i], broken=False)
            first = i + 1
        yield self._line(words[first:], gaps[first:], broken=broken)

    def _between_columns(self, words: list[tuple[int, int]], turned: int) -> set[int]:
        """Return the gaps in a line through which a rule runs."""
        size, y = self._font(words[0][0])[0], self._place(words[0][0], turned)[1]
        middle = y + MIDDLE * size
        rules = [rule.at for rule in self._columns[turned] if rule.start <= middle <= rule.end]
        if not rules or len(words) < 2:
            return set()
        ends = [(self._ends(a, turned)[0], self._ends(b - 1, turned)[1]) for a, b in words]
        slack = _RULE_SLACK * size
        return {
            i
            for i, ((_, left), (right, _)) in enumerate(itertools.pairwise(ends))
            if any(left - slack <= at <= right + slack for at in rules)
        }

    def _spaced(
        self, words: list[tuple[int, int]], size: float, turned: int
    ) -> tuple[list[tuple[int, int]], list[float]]:
        """Return the words of a line as seen on the page, and the gaps between them.

        Some programs place each letter by itself; their spaces have no width, and gaps contain no space.
        """
        boxes = [self._boxes(a, b, turned) for a, b in words]
        gaps = [after[0][0] - before[-1][1] for before, after in itertools.pairwise(boxes)]
        if turned:  # PDFium knows their spaces better than their widths
            return words, gaps
        spaced = bool(gaps) and statistics.median(gaps) > _SPACE * size
        result: list[tuple[int, int]] = []
        between: list[float] = []
        for n, ((a, b), letters) in enumerate(zip(words, boxes, strict=True)):
            joins = spaced and n > 0 and _FAR_BACK * size < gaps[n - 1] < _NO_SPACE * size and self._text[a - 1] == " "
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

    def _line(self, words: list[tuple[int, int]], gaps: list[float], *, broken: bool) -> Line:
        start, last = words[0][0], words[-1][1] - 1
        written = [_SHOWN_HYPHEN.sub("-", self._word(a, b)).translate(_UNSEEN) for a, b in words]
        _, turned = self._font(start)
        named = [word for word in words if any(map(str.isalnum, self._text[slice(*word)]))] or words[:1]
        some = named[0], named[len(named) // 2], named[-1]  # not marks and symbols; a raised mark may begin a word
        size = statistics.median(max(self._font(a)[0], self._font((a + b) // 2)[0]) for a, b in some)
        letters = itertools.chain.from_iterable(itertools.starmap(range, words[:2]))
        base = next((i for i in letters if self._font(i)[0] > _SMALL * size), start)  # not a raised letter before it
        x0, y = self._place(start, turned)[0], self._place(base, turned)[1]
        x1 = max(self._ends(last, turned)[1], x0)
        broken = broken or self._text[last] == "\xad"
        bold, fixed = self._face(start)
        shown = [self._text[a:b] for a, b in words]
        wide = [
            i
            for i, gap in enumerate(gaps)
            if gap > CELL_GAP * size or (gap > _VALUE_GAP * size and _NUMBERS.search(f"{shown[i]} {shown[i + 1]}"))
        ]
        behind = [*itertools.accumulate(1 + word.count(" ") for word in written)]
        between = tuple(
            (behind[i], self._ends(words[i][1] - 1, turned)[1], self._ends(words[i + 1][0], turned)[0]) for i in wide
        )
        text = " ".join(written)
        return Line(text, x0, x1, y, size, bold and self._face(last)[0], fixed, turned, broken, gaps=between)

    def _word(self, start: int, end: int) -> str:
        """Return a word with what is raised in it told apart: 10⁶ is not 106, n² is not n2, and 2^n is not 2n.

        A lowered word is one of its own: the large model is "BERT LARGE".
        """
        text = self._text
        if not _RAISED_IN_WORD.search(text[start:end]):
            return text[start:end].replace(" ", "")
        letters = list(text[start:end].replace(" ", "\x00"))
        base = start
        for i in range(start + 1, end):
            size, turned = self._font(i)
            usual = self._font(base)[0]
            shift = self._place(i, turned)[1] - self._place(base, turned)[1]
            if size > _SMALL * usual or abs(shift) < _SHIFTED * usual:
                base = i
            elif shift < 0 and i == base + 1 and text[base].isalpha() and _LOWERED_WORD.match(text, i, end):
                letters[i - start] = f" {text[i]}"
            elif text[base].isdigit() or (shift > 0 and LONE_LETTER.search(text, start, base + 1)):
                letters[i - start] = text[i].translate(RAISED if shift > 0 else LOWERED)
                if shift > 0 and i == base + 1 and text[i].isalpha() and not ORDINAL.match(text, i, end):
                    letters[i - start] = f"^{text[i]}"
        return "".join(letters)

    def _font(self, i: int) -> tuple[float, int]:
        """Return a character's font size in points as seen on the page, and its quarter turns."""
        self._raw.FPDFText_GetMatrix(self._page, i, self._matrix)
        m = self._matrix
        size = float(self._raw.FPDFText_GetFontSize(self._page, i) * math.hypot(m.c, m.d))
        turned = round(math.atan2(m.b, m.a) / (math.pi / 2)) % 4
        return size if size >= _LEAST_SIZE else max(self._seen_size(i), 0.1), turned

    def _seen_size(self, i: int) -> float:
        """Return the font size of a character as its font's letters tell by their heights; 0 if none does."""
        if self._seen_sizes is None:
            heights: dict[int, list[float]] = defaultdict(list)
            for at, letter in enumerate(self._text):
                if letter in _HEIGHTS:
                    heights[self._font_of(at)].append(self._height(at) / _HEIGHTS[letter])
            self._seen_sizes = {font: statistics.median(found) for font, found in heights.items()}
            every = [height for found in heights.values() for height in found]
            self._seen_sizes[0] = statistics.median(every) if every else 0.0
        return self._seen_sizes.get(self._font_of(i), self._seen_sizes[0])

    def _font_of(self, i: int) -> int:
        """Return a number for the font of a character on this page; 0 for one that PDFium added."""
        drawn = self._raw.FPDFText_GetTextObject(self._page, i)
        font = self._raw.FPDFTextObj_GetFont(drawn) if drawn else None
        return ctypes.cast(font, ctypes.c_void_p).value or 0 if font else 0

    def _height(self, i: int) -> float:
        """Return how high a character's shape is, in points, if it is upright or upside down."""
        left, right, bottom, top = (ctypes.c_double() for _ in range(4))
        self._raw.FPDFText_GetCharBox(self._page, i, left, right, bottom, top)
        return abs(top.value - bottom.value)

    def _place(self, i: int, turned: int) -> tuple[float, float]:
        self._raw.FPDFText_GetCharOrigin(self._page, i, self._x, self._y)
        return _upright(self._x.value, self._y.value, turned)

    def _ends(self, i: int, turned: int) -> tuple[float, float]:
        """Return where a character, with its own space, begins and ends along its line."""
        self._raw.FPDFText_GetLooseCharBox(self._page, i, self._box)
        box = self._box
        a, b = _upright(box.left, box.bottom, turned)[0], _upright(box.right, box.top, turned)[0]
        return min(a, b), max(a, b)

    def _boxes(self, start: int, end: int, turned: int) -> list[tuple[float, float]]:
        """Return where each of the characters ``[start, end)`` begins and ends along its line."""
        if turned:
            return [self._ends(i, turned) for i in range(start, end)]
        # Called for each letter of a document, so attributes are looked up once.
        read, page, box = self._raw.FPDFText_GetLooseCharBox, self._page, self._box
        found = list[tuple[float, float]]()
        for i in range(start, end):
            read(page, i, box)
            # what has no width may stand where a space is seen: it ends where the letter before it does
            widthless = found and self._text[i] in _WIDTHLESS
            found.append((found[-1][1], found[-1][1]) if widthless else (box.left, box.right))
        return found

    def _is_stroked(self, i: int) -> bool:
        """Return whether a character is filled and its outline drawn, too: so programs make a font bold that is not."""
        drawn = self._raw.FPDFText_GetTextObject(self._page, i)
        return (
            bool(drawn) and self._raw.FPDFTextObj_GetTextRenderMode(drawn) == self._raw.FPDF_TEXTRENDERMODE_FILL_STROKE
        )

    def _face(self, i: int) -> tuple[bool, bool]:
        """Return whether a character is bold, and whether it is monospaced."""
        self._raw.FPDFText_GetFontInfo(self._page, i, self._name, _FONT_NAME_BYTES, self._flags)
        name = self._name.value.decode("latin-1")
        heavy = self._raw.FPDFText_GetFontWeight(self._page, i) >= _BOLD_WEIGHT and not _NAMED.fullmatch(name)
        bold = heavy or _BOLD.search(name) is not None or self._is_stroked(i)
        return bold, bool(self._flags.value & _FIXED_WIDTH) or _FIXED.search(name) is not None


def _with_ligatures(text: str) -> str:
    """Return the text with the codes of TeX's ligatures as Unicode's; as it is if its control characters are others."""
    codes = Counter(_CONTROL.findall(text))
    for known in _LIGATURES:
        ligatures = dict(zip(known, "\ufb00\ufb01\ufb02\ufb03\ufb04", strict=True))
        # "fi" is the most frequent by far, unless the codes are a font's own.
        if codes.keys() <= ligatures.keys() and (
            codes[known[1]] == max(codes.values(), default=0) or codes.total() <= _FEW
        ):
            return _CONTROL.sub(lambda found: ligatures[found[0]], text)  # noqa: B023
    return text


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


def joined(lines: Sequence[Line], gap: str) -> Line:
    """Join pieces of one line side by side."""
    return replace(
        lines[0], text=gap.join(line.text for line in lines), x1=lines[-1].x1, broken=lines[-1].broken,
        bold=all(line.bold for line in lines),
    )  # fmt: skip
