"""Write the numbers and bullets that a browser shows before the items of a page's lists."""

from __future__ import annotations

from collections.abc import Mapping

from shared_core.documents.loaders.numbering import Level, to_int
from shared_core.support.regex import lazy_regex

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
        if tag == "ol":
            form = _FORMATS.get(attributes.get("type") or "", "decimal")
            level = (
                Level(to_int((attributes.get("start") or "").strip(), 1), form, "%1.")
                if "reversed" not in attributes
                else None
            )
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
