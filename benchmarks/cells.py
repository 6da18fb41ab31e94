"""Measure questions for single cells of the tables in files: how many are answered, and how many wrongly.

    python benchmarks/cells.py PATH… [--number N] [--seed S] [--json FILE]

For rows that have names for their columns, questions are written with four templates ("What is the COLUMN of ROW?").
Each is asked again with the row of a file that has no such column: nothing answers that. All files are in one index. A
right answer quotes the row and its value; a row is left out if another of its file is named alike.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import command_line, write_figures
from shared_core import SelfReflectEngine
from shared_core.documents import DocumentIndex
from shared_core.types import Passage

TEMPLATES = "What is the {column} of {row}?", "What was {row}'s {column}?", "{column} of {row}", "What is the {column} for {row}?"  # fmt: skip # noqa: E501
_CELL = re.compile(r"(?:^|; )([^:;\n]{2,60}): ([^;\n]*)")
_WORD = re.compile(r"[^\W\d_]{3}")
_LONGEST = 50  # characters of what names a row
_LEAST_ROWS = 3  # of a file


class Row(NamedTuple):
    """A row: its file, what names it, and the cells with values by the names of their columns."""

    source: str
    name: str
    cells: dict[str, str]


def rows_of(passages: list[Passage]) -> Iterator[Row]:
    for passage in passages:
        for line in passage.text.split("\n"):
            found = list(_CELL.finditer(line))
            if len(found) < 2:
                continue
            first = found[0].start() == 0
            name = found[0][2] if first else line[: found[0].start()]
            cells = {m[1].strip(): m[2].strip() for m in found[first:]}
            cells = {k: v for k, v in cells.items() if _WORD.search(k) and len(v) < 20 and any(map(str.isdigit, v))}
            if cells and _WORD.search(name) and len(name) <= _LONGEST:
                yield Row(str(passage.metadata["source"]), name.strip(), cells)


def questions(rows: list[Row], number: int, seed: int) -> Iterator[tuple[str, Row, str | None]]:
    """Yield a question, the row it names, and the value that answers it, ``None`` if nothing does."""
    chosen = random.Random(seed)
    by_source: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_source[row.source].append(row)
    sources = sorted(source for source, found in by_source.items() if len(found) >= _LEAST_ROWS)
    columns = {source: {column for row in by_source[source] for column in row.cells} for source in sources}
    asked: set[str] = set()
    for _ in range(100 * number):
        if len(asked) >= number or not sources:
            return
        row = chosen.choice(by_source[chosen.choice(sources)])
        column = chosen.choice(sorted(row.cells))
        other = chosen.choice(by_source[chosen.choice(sources)])
        template = chosen.choice(TEMPLATES)
        question = template.format(column=column, row=row.name)
        alike = [r for r in by_source[row.source] if r.name == row.name]
        answered = any(r.name == other.name and column in r.cells for r in rows)
        if len(alike) > 1 or answered or column in columns[other.source] or question in asked:
            continue
        asked.add(question)
        yield question, row, row.cells[column]
        yield template.format(column=column, row=other.name), other, None


def main() -> None:
    parser = command_line(__doc__, quick="20 questions", data=False)
    parser.add_argument("paths", type=Path, nargs="+", help="files or folders")
    parser.add_argument("--number", type=int, default=100, help="of questions with an answer (default: 100)")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    index = DocumentIndex(None)
    index.update(given.paths)
    engine = SelfReflectEngine(index.retriever())
    counts = Counter[str]()
    rows = list(rows_of(index.passages()))
    for question, row, value in questions(rows, 20 if given.quick else given.number, given.seed):
        answer = engine.answer(question)
        shown = answer.claims[0].text if not answer.abstained and answer.claims else ""
        if value is None:
            counts["unanswerable"] += 1
            counts["unanswerable_shown"] += bool(shown)
        else:
            counts["answerable"] += 1
            counts["right" if value in shown and row.name in shown else "wrong" if shown else "unsaid"] += 1
    print(f"{len(rows)} rows; " + ", ".join(f"{name} {number}" for name, number in counts.items()))
    write_figures({name: float(number) for name, number in counts.items()}, given.json)


if __name__ == "__main__":
    main()
