"""Read the rules (drawn lines and edges of boxes) on a PDF's pages, from which the cells of tables are known."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared_core.documents.loaders.extracted import grouped

if TYPE_CHECKING:
    import pypdfium2

Point = tuple[float, float]

_MOST_PATHS, _MOST_POINTS = 4_000, 400  # of a page, of a path: maps and diagrams have more, and no tables
_MOST_PAIRS = 250_000  # of rules that may cross: half a second
_THICKEST = 3.0  # points; a thicker line is a box
_SHORTEST = 4.0  # points
_STRAIGHT = 0.6  # points that the ends of an upright line may differ
_SAME = 2.0  # points between rules that are one
_FORMS = 3  # levels of forms within forms


@dataclass(frozen=True, slots=True)
class Rule:
    """A drawn line in points: at ``at`` across its direction, from ``start`` to ``end`` along it."""

    at: float
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a page: horizontal ones by their height, vertical ones by their place from left to right."""

    horizontal: Sequence[Rule] = ()
    vertical: Sequence[Rule] = ()

    def turned(self, quarters: int) -> Rules:
        """Return them as seen with text upright that is turned by so many quarters on the page."""
        if quarters == 0:
            return self
        lying = [Rule(-rule.at, rule.start, rule.end) for rule in self.vertical]
        upright = [Rule(rule.at, -rule.end, -rule.start) for rule in self.horizontal]
        return Rules(lying, upright).turned(quarters - 1)


def page_rules(page: pypdfium2.PdfPage) -> Rules:
    """Return the rules of a page, pieces of one line joined; none of a page with thousands of drawings."""
    horizontal: list[Rule] = []
    vertical: list[Rule] = []
    for number, ((x0, y0), (x1, y1)) in enumerate(_strokes(page)):
        if number > _MOST_PATHS * 4:
            return Rules()
        if abs(y1 - y0) <= _STRAIGHT and abs(x1 - x0) >= _SHORTEST:
            horizontal.append(Rule((y0 + y1) / 2, min(x0, x1), max(x0, x1)))
        elif abs(x1 - x0) <= _STRAIGHT and abs(y1 - y0) >= _SHORTEST:
            vertical.append(Rule((x0 + x1) / 2, min(y0, y1), max(y0, y1)))
    return Rules(_merged(horizontal), _merged(vertical))


def _strokes(page: pypdfium2.PdfPage) -> Iterator[tuple[Point, Point]]:
    """Yield the straight lines of a page; a thin box is one line, another one its four edges."""
    for shape in itertools.islice(_shapes(page), _MOST_PATHS):
        xs, ys = [x for x, _ in shape], [y for _, y in shape]
        left, right, bottom, top = min(xs), max(xs), min(ys), max(ys)
        closed = len(shape) >= 4
        if closed and top - bottom <= _THICKEST < right - left:
            yield (left, (bottom + top) / 2), (right, (bottom + top) / 2)
        elif closed and right - left <= _THICKEST < top - bottom:
            yield ((left + right) / 2, bottom), ((left + right) / 2, top)
        else:
            yield from itertools.pairwise(shape)


def _shapes(page: pypdfium2.PdfPage) -> Iterator[list[Point]]:
    """Yield the corners of each straight part of what is drawn, in the coordinates of the page."""
    import pypdfium2
    import pypdfium2.raw as raw

    def walk(number: int, get: Callable[[int], Any], outer: pypdfium2.PdfMatrix, level: int) -> Iterator[list[Point]]:
        for i in range(number):
            item = get(i)
            kind = raw.FPDFPageObj_GetType(item)
            if kind not in (raw.FPDF_PAGEOBJ_PATH, raw.FPDF_PAGEOBJ_FORM):
                continue
            own = raw.FS_MATRIX()
            raw.FPDFPageObj_GetMatrix(item, own)
            matrix = pypdfium2.PdfMatrix.from_raw(own).multiply(outer)
            if kind == raw.FPDF_PAGEOBJ_PATH:
                yield from _corners(raw, item, matrix)
            elif level < _FORMS:
                count = raw.FPDFFormObj_CountObjects(item)
                yield from walk(count, functools.partial(raw.FPDFFormObj_GetObject, item), matrix, level + 1)

    count = raw.FPDFPage_CountObjects(page.raw)
    yield from walk(count, functools.partial(raw.FPDFPage_GetObject, page.raw), pypdfium2.PdfMatrix(), 0)


def _corners(raw: Any, path: Any, matrix: pypdfium2.PdfMatrix) -> Iterator[list[Point]]:
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    raw.FPDFPath_GetDrawMode(path, fill, stroke)
    count = raw.FPDFPath_CountSegments(path)
    if not (fill.value or stroke.value) or not 1 < count <= _MOST_POINTS:
        return
    x, y = ctypes.c_float(), ctypes.c_float()
    shape: list[Point] = []
    for i in range(count):
        segment = raw.FPDFPath_GetPathSegment(path, i)
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        point = matrix.on_point(x.value, y.value)
        if raw.FPDFPathSegment_GetType(segment) == raw.FPDF_SEGMENT_LINETO and shape:
            shape.append(point)
            if raw.FPDFPathSegment_GetClose(segment):
                shape.append(shape[0])
            continue
        if len(shape) > 1:
            yield shape
        shape = [point]  # the end of a curve begins what is straight behind it
    if len(shape) > 1:
        yield shape


def _merged(rules: Sequence[Rule]) -> list[Rule]:
    """Join rules at the same place that overlap or touch."""
    ordered = sorted(rules, key=lambda rule: rule.at)
    found: list[Rule] = []
    for place in grouped(ordered, lambda place, rule: rule.at - place[0].at <= _SAME):
        at = sum(rule.at for rule in place) / len(place)
        start, end = float("inf"), float("-inf")
        for rule in sorted(place, key=lambda rule: rule.start):
            if rule.start > end + _SAME:
                if end > start:
                    found.append(Rule(at, start, end))
                start, end = rule.start, rule.end
            end = max(end, rule.end)
        found.append(Rule(at, start, end))
    return found


def grids(rules: Rules) -> Iterator[Rules]:
    """Yield the rules of each grid: those that touch one another, of at least two rows and two columns."""
    if len(rules.horizontal) * len(rules.vertical) > _MOST_PAIRS:
        return
    nodes = [(rule, True) for rule in rules.horizontal] + [(rule, False) for rule in rules.vertical]
    parents = list(range(len(nodes)))

    def root(i: int) -> int:
        while parents[i] != i:
            parents[i] = parents[parents[i]]
            i = parents[i]
        return i

    for i, across in enumerate(rules.horizontal):
        for j, down in enumerate(rules.vertical, len(rules.horizontal)):
            if _touch(across, down):
                parents[root(i)] = root(j)
    groups: dict[int, tuple[list[Rule], list[Rule]]] = defaultdict(lambda: ([], []))
    for i, (rule, lies) in enumerate(nodes):
        groups[root(i)][0 if lies else 1].append(rule)
    for horizontal, vertical in groups.values():
        if len(horizontal) > 1 and vertical:
            yield Rules(horizontal, vertical)


def _touch(across: Rule, down: Rule) -> bool:
    return across.start - _SAME <= down.at <= across.end + _SAME and down.start - _SAME <= across.at <= down.end + _SAME
