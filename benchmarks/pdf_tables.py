"""Measure how well the cells of tables in PDFs are found, against tables marked by people.

    python benchmarks/pdf_tables.py FOLDER [--json FILE]

FOLDER holds the data of the ICDAR 2013 table competition (Göbel et al., ICDAR 2013): ``NAME.pdf`` with
``NAME-str.xml``; tabula-java's tests have a copy. As there, each pair of neighbouring cells counts, side by side or one
above the other: a pair is found if both texts (letters, digits and signs of amounts) and the direction are as marked.
Tables found elsewhere count as wrong. pdfplumber and pdf-oxide, if installed, read the same files, one after the other.
"""

from __future__ import annotations

import importlib.util
import itertools
import operator
import re
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import command_line, write_figures
from shared_core.documents.loaders.pdf_lines import page_lines
from shared_core.documents.loaders.pdf_rules import page_rules
from shared_core.documents.loaders.pdf_tables import find_tables, join_heads
from shared_core.documents.loaders.pdf_text import clean_lines

Pairs = Counter[tuple[str, str, str]]
_NOT_COMPARED = re.compile(r"[^0-9a-z%$€£.,()+-]")


class Cell(NamedTuple):
    """A cell of a table, from row and column to row and column."""

    top: int
    left: int
    bottom: int
    right: int
    text: str


def marked(path: Path) -> Iterator[list[Cell]]:
    """The tables in a file of the competition, a table on two pages as two."""
    for region in ET.parse(path).getroot().iter("region"):
        cells = []
        for cell in region.iter("cell"):
            top, left = int(cell.get("start-row", 0)), int(cell.get("start-col", 0))
            bottom, right = int(cell.get("end-row") or top), int(cell.get("end-col") or left)
            content = cell.find("content")
            cells.append(Cell(top, left, bottom, right, "".join(content.itertext()) if content is not None else ""))
        yield cells


def pairs_of(cells: Iterable[Cell]) -> Pairs:
    """Pairs of neighbouring cells with text, empty ones between them skipped."""
    filled = [cell._replace(text=_NOT_COMPARED.sub("", cell.text.lower())) for cell in cells]
    filled = [cell for cell in filled if cell.text]
    grid = {
        (row, column): i
        for i, cell in enumerate(filled)
        for row in range(cell.top, cell.bottom + 1)
        for column in range(cell.left, cell.right + 1)
    }
    found: set[tuple[int, int, str]] = set()
    for axis, direction in ((0, "beside"), (1, "below")):
        order = sorted(grid, key=operator.itemgetter(axis, 1 - axis))
        for _, line in itertools.groupby(order, operator.itemgetter(axis)):
            numbers = [grid[at] for at in line]
            found |= {(a, b, direction) for a, b in itertools.pairwise(numbers) if a != b}
    return Counter((filled[a].text, filled[b].text, direction) for a, b, direction in found)


def ours(path: Path) -> Iterator[list[Cell]]:
    import pypdfium2

    for page in pypdfium2.PdfDocument(path):
        rules = page_rules(page)
        for table in join_heads(find_tables(clean_lines(page_lines(page, rules)), rules)):
            yield [
                Cell(row, cell.column, row, cell.column + cell.columns - 1, cell.text)
                for row, cells in enumerate(table.rows)
                for cell in cells
            ]


def pdfplumber(path: Path) -> Iterator[list[Cell]]:
    import pdfplumber

    with pdfplumber.open(path) as document:
        for page in document.pages:
            for table in page.extract_tables():
                yield [Cell(i, j, i, j, text or "") for i, row in enumerate(table) for j, text in enumerate(row)]


def pdf_oxide(path: Path) -> Iterator[list[Cell]]:
    import pdf_oxide

    document = pdf_oxide.PdfDocument(str(path))
    for page in range(document.page_count()):
        for table in document.extract_tables(page):
            rows = [row["cells"] for row in table["rows"]]
            yield [Cell(i, j, i, j, cell["text"]) for i, row in enumerate(rows) for j, cell in enumerate(row)]


def main() -> None:
    parser = command_line(__doc__, quick="every fifth file", data=False)
    parser.add_argument("folder", type=Path, help="with NAME.pdf and NAME-str.xml")
    given = parser.parse_args()
    files = [(path.with_name(path.name.replace("-str.xml", ".pdf")), path) for path in given.folder.glob("*-str.xml")]
    files = sorted((pdf, xml) for pdf, xml in files if pdf.exists())[:: 5 if given.quick else 1]
    readers: dict[str, Callable[[Path], Iterator[list[Cell]]]] = {"ours": ours}
    others = {"pdfplumber": pdfplumber, "pdf_oxide": pdf_oxide}
    readers |= {name: read for name, read in others.items() if importlib.util.find_spec(name) is not None}
    right, given_, wanted = Counter[str](), Counter[str](), 0
    seconds = Counter[str]()
    for pdf, xml in files:
        truth = sum(map(pairs_of, marked(xml)), Pairs())
        wanted += truth.total()
        for name, read in readers.items():
            start = time.process_time()
            found = sum(map(pairs_of, read(pdf)), Pairs())
            seconds[name] += round(1000 * (time.process_time() - start))
            right[name] += (truth & found).total()
            given_[name] += found.total()
    figures: dict[str, float] = {"files": len(files)}
    for name in readers:
        precision, recall = right[name] / max(1, given_[name]), right[name] / max(1, wanted)
        f1 = 2 * precision * recall / max(1e-9, precision + recall)
        figures |= {f"{name}_precision": precision, f"{name}_recall": recall, f"{name}_f1": f1}
        print(
            f"{name:10} precision {precision:.3f} recall {recall:.3f} F1 {f1:.3f}, {seconds[name] / 1000:.1f} s of CPU"
        )
    write_figures({name: round(value, 4) for name, value in figures.items()}, given.json)


if __name__ == "__main__":
    main()
