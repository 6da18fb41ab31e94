"""Count the automatic numbers of lists and headings, which are nowhere in the text of documents and pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shared_core.support.regex import lazy_regex

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


@dataclass(frozen=True, slots=True)
class Level:
    """A level of a list: its first number, how numbers are written, the text around them (``%1.%2``), its style."""

    start: int
    format: str
    text: str
    decimals: bool = False
    style: str = ""

    def write(self, number: int, decimals: bool) -> str:
        """Write a number as this level shows it, or in decimals."""
        kind = "decimal" if decimals or number < 1 else self.format
        if kind.endswith("Letter"):
            found = chr(ord("a") + (number - 1) % 26) * (1 + (number - 1) // 26)
        elif kind.endswith("Roman"):
            found = ""
            for letters, value in _ROMAN.items():
                found += letters * (number // value)
                number %= value
        else:
            found = f"{number:02}" if kind == "decimalZero" else str(number)
        return found.upper() if kind.startswith("upper") else found


_ROMAN = {
    "m": 1000, "cm": 900, "d": 500, "cd": 400, "c": 100, "xc": 90, "l": 50, "xl": 40, "x": 10, "ix": 9, "v": 5, "iv": 4,
    "i": 1,
}  # fmt: skip


class Counters:
    """The counts of lists, by the name of what is counted together.

    >>> numbered = {0: Level(1, "decimal", "%1."), 1: Level(1, "lowerLetter", "%1%2)")}
    >>> counters = Counters()
    >>> [counters.next("list", numbered, level) for level in (0, 1, 1, 0)]
    ['1.', '1a)', '1b)', '2.']
    """

    def __init__(self) -> None:
        self._counts: dict[str, dict[int, int]] = {}

    def next(self, counted: str, levels: Mapping[int, Level], level: int, start: int | None = None) -> str | None:
        """Count an item and return its number; ``None`` for a bullet, or if the list has no such level.

        Args:
            counted: the name of what is counted together.
            level: of the item, from 0.
            start: the item's number; ``None`` goes on counting.
        """
        if level not in levels:
            return None
        before = self._counts.get(counted, {})
        counts = {at: before.get(at, levels[at].start - (at == level)) for at in range(level + 1) if at in levels}
        counts[level] = counts[level] + 1 if start is None else start
        self._counts[counted] = counts  # without the levels below, which begin anew
        one = levels[level]
        if one.format == "bullet":
            return None

        def written(sign: re.Match[str]) -> str:
            at = int(sign[1]) - 1
            return levels[at].write(counts[at], one.decimals) if at in counts else ""

        return re.sub(r"%([1-9])", written, one.text).strip()


class WordNumbers:
    """The automatic numbers of a Word document, which stand nowhere in its text (ISO/IEC 29500-1, 17.9)."""

    def __init__(self, numbering: Element, styles: Element) -> None:
        self._lists: dict[str, tuple[str, dict[int, Level]]] = {}  # by numId; what is counted together has one name
        self._counters = Counters()
        abstract = {attribute(a, "abstractNumId"): a for a in numbering.iterfind("{*}abstractNum")}
        linked = {name: a for a in abstract.values() if (name := _value(a, "styleLink"))}
        for number in numbering.iterfind("{*}num"):
            name, counted = attribute(number, "numId"), _value(number, "abstractNumId")
            if (found := abstract.get(counted)) is None:
                continue
            levels = dict(_levels(linked.get(_value(found, "numStyleLink"), found)))
            for over in number.iterfind("{*}lvlOverride"):
                levels |= _levels(over)
                at, start = to_int(attribute(over, "ilvl")), _value(over, "startOverride")
                if start and at in levels:
                    levels[at] = replace(levels[at], start=to_int(start))
                    counted = f"{counted}, {name}"
            self._lists[name] = counted, levels
        self._styles: dict[str, tuple[str, int]] = {}
        known = {name: s for s in styles.iterfind("{*}style") if (name := attribute(s, "styleId"))}
        for name, style in known.items():
            based = [style]
            while (base := known.get(_value(based[-1], "basedOn"))) is not None and base not in based:
                based.append(base)
            list_ = next((found for s in based if (found := _value(s, "pPr/{*}numPr/{*}numId"))), "")
            level = next((found for s in based if (found := _value(s, "pPr/{*}numPr/{*}ilvl"))), "")
            own = (at for at, one in self._lists.get(list_, ("", {}))[1].items() if one.style == name)
            self._styles[name] = list_, next(own, to_int(level))

    def next(self, paragraph: Element) -> str | None:
        """Count a paragraph and return its number, "-" for a bullet; ``None`` if it has neither."""
        list_, level = self._styles.get(_value(paragraph, "pPr/{*}pStyle"), ("", 0))
        list_ = _value(paragraph, "pPr/{*}numPr/{*}numId") or list_
        level = to_int(_value(paragraph, "pPr/{*}numPr/{*}ilvl"), level)
        counted, levels = self._lists.get(list_, ("", {}))
        if not list_ or paragraph.find("{*}pPr/{*}rPr/{*}del") is not None:
            return None
        number = self._counters.next(counted, levels, level)
        return "-" if number is None and level in levels else number  # of the formats only a bullet has no number


def _levels(element: Element) -> Iterator[tuple[int, Level]]:
    for level in element.iterfind("{*}lvl"):
        kind = _value(level, "numFmt") or "decimal"
        text = "" if kind == "none" else _value(level, "lvlText")
        decimals = level.find("{*}isLgl") is not None
        yield (
            to_int(attribute(level, "ilvl")),
            Level(to_int(_value(level, "start")), kind, text, decimals, _value(level, "pStyle")),
        )


def attribute(element: Element, name: str) -> str:
    """Return an attribute by its name in any namespace; empty if there is none."""
    return next((str(value) for key, value in element.items() if str(key).rpartition("}")[2] == name), "")


def _value(element: Element, path: str) -> str:
    """Return the value of an element below; "" if there is none."""
    found = element.find(f"{{*}}{path}")
    return "" if found is None else attribute(found, "val")


def to_int(text: str, default: int = 0) -> int:
    """Return a number of at most eight digits; ``default`` for any other text."""
    return int(text) if text.isdecimal() and len(text) < 9 else default


def write_numbers(document: Element, numbering: WordNumbers) -> bytes:
    """Return the document with its automatic numbers as text, and their paragraphs as what they are without them."""
    from lxml import etree

    for paragraph in document.iter("{*}p"):
        number = numbering.next(paragraph)
        if number is None:
            continue
        space = paragraph.tag[: paragraph.tag.index("}") + 1]
        properties = paragraph.find(f"{space}pPr")  # there is one with the list, or with its style
        for given in properties.findall(f"{space}numPr"):
            properties.remove(given)
        none = etree.SubElement(etree.SubElement(properties, f"{space}numPr"), f"{space}numId")
        none.set(f"{space}val", "0")
        if number and "".join(paragraph.itertext()).strip():
            run = new_run(paragraph, f"{number} ")
            run[0].set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
            properties.addnext(run)
    return bytes(etree.tostring(document))


def new_run(beside: Element, text: str) -> Element:
    """Return a run of text in the namespace of another element."""
    space = beside.tag[: beside.tag.index("}") + 1]
    run = beside.makeelement(f"{space}r")
    run.append(beside.makeelement(f"{space}t"))
    run[0].text = text
    return run


LISTS = frozenset(("ol", "ul", "menu"))
_FORMATS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_OWN = lazy_regex(r"\s*(?:[(\[]?(?:\d{1,3}(?:\.\d{1,3})*|[A-Za-z]|[ivxIVX]{1,5})[.)\]]|[^\w\s\"'“‘«¿¡$€£<>/\\`~@#&]\s)")
_DEEPEST = 8


class ItemMarks:
    """The lists that are open and the mark of the item that began last.

    >>> marks = ItemMarks()
    >>> marks.enter("ol", {"start": "3"}), marks.begin({}), marks.write("Press."), marks.write("Then wait.")
    (None, None, '3. Press.', 'Then wait.')
    """

    def __init__(self) -> None:
        self._open: list[tuple[str, Level | None]] = []
        self._numbers: list[int] = []
        self._mark = ""

    def enter(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Open a list; a reversed one gets no numbers."""
        level = None
        if tag == "ol" and "reversed" not in attributes:
            form = _FORMATS.get(attributes.get("type") or "", "decimal")
            level = Level(to_int((attributes.get("start") or "").strip(), 1), form, "%1.")
        self._open.append((tag, level))
        self._numbers.append(level.start - 1 if level else 0)

    def leave(self) -> None:
        """Close the list that was opened last."""
        if self._open:
            self._open.pop()
            self._numbers.pop()
        self._mark = ""

    def begin(self, attributes: Mapping[str, str]) -> None:
        """Begin an item of the innermost list."""
        self._mark = ""
        if not self._open or len(self._open) > _DEEPEST:
            return
        tag, level = self._open[-1]
        self._numbers[-1] = to_int((attributes.get("value") or "").strip(), self._numbers[-1] + 1)
        indent = "  " * (len(self._open) - 1)
        if level:
            self._mark = f"{indent}{level.write(self._numbers[-1], False)}. "
        elif tag != "ol":
            self._mark = f"{indent}- "

    def end(self) -> None:
        """End an item; if it had no text, its mark is not shown."""
        self._mark = ""

    def write(self, text: str) -> str:
        """Put the mark before the first text of an item that does not begin with one of its own."""
        if not self._mark or not text.strip():
            return text
        mark, self._mark = self._mark, ""
        return text if _OWN.match(text) else mark + text.lstrip()
