"""Compare the rows of an answer's table with the tables of the passages, cell by cell.

A judge reads a row as a heap of words: that the prices of two seasons changed places, it does not see. A cell of the
answer is looked up by the names of its row and column, in whichever of the two directions a passage has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from shared_core.abstention.statements import Statement
from shared_core.citation.facts import REFUTED_AT_MOST
from shared_core.citation.facts.arithmetic import same_quantity
from shared_core.citation.facts.quantities import measured, quantities_of
from shared_core.citation.facts.rows import blocks_of
from shared_core.citation.facts.tokens import telling_keys_of, tokens_of
from shared_core.pipelines.deciding import Judged
from shared_core.types import Passage, Span

__all__ = ["judge_row"]


@dataclass(frozen=True, slots=True)
class _Cell:
    """A cell of a passage's table: the words of the names of its row and column, its text, and its row's place."""

    names: frozenset[frozenset[str]]
    value: str
    start: int
    end: int


def judge_row(statement: Statement, passages: Sequence[Passage], judged: Judged) -> Judged:
    """Return the judgement of a row by the cells of the passages' tables; ``judged`` where they do not decide.

    A cell that differs contradicts the row, unless another table has it so. If all cells are as in a table, the row is
    supported.
    """
    if len(statement.cells) < 2:
        return judged
    (_, row), *others = statement.cells
    agreeing: list[Span] = []
    differing: list[Span] = []
    for column, value in others:
        found = list(_looked_up(row, column, passages))
        same = [span for held, span in found if _same(value, held)]
        if same:
            agreeing.append(same[0])
        else:
            differing += [span for held, span in found if _differ(value, held)]
    if differing:
        return Judged(REFUTED_AT_MOST, 1 - REFUTED_AT_MOST, (differing[0],))
    if len(agreeing) < len(others):
        return judged
    spans = tuple(sorted({(s.start, s.end): s for s in agreeing if s.passage_id == agreeing[0].passage_id}.values(),
                         key=lambda s: s.start))[:2]  # fmt: skip
    return Judged(max(judged.supported or 0.0, 1 - REFUTED_AT_MOST), None, spans)


def _looked_up(row: str, column: str, passages: Iterable[Passage]) -> Iterator[tuple[str, Span]]:
    names = frozenset((telling_keys_of(row), telling_keys_of(column)))
    if len(names) < 2 or frozenset() in names:
        return
    for passage in passages:
        for cell in _cells_of(passage.text):
            if cell.names == names:
                yield cell.value, passage.span(cell.start, cell.end)


@lru_cache(maxsize=64)
def _cells_of(text: str) -> tuple[_Cell, ...]:
    """Cells of the tables of a text; of a name that two rows have, none."""
    found: list[_Cell] = []
    for block in blocks_of(text):
        head = () if block.head is None else tuple(text[slice(*block.head)].strip().strip("|").split("|"))
        for row in block.rows:
            labels = head if len(head) == len(row.cells) else tuple(label for label, _ in row.cells)
            name = telling_keys_of(row.cells[0][1])
            for label, (_, value) in zip(labels[1:], row.cells[1:], strict=False):
                names = frozenset((name, telling_keys_of(label)))
                if value and len(names) == 2 and frozenset() not in names:
                    found.append(_Cell(names, value, row.start, row.end))
    return tuple(found)


def _words(text: str) -> str:
    return " ".join(t.key for t in tokens_of(text))


def _same(claimed: str, held: str) -> bool:
    """Whether two cells say the same: in the same words, or by numbers that are equal."""
    if _words(claimed) == _words(held) and claimed.strip("*_ ")[:1] == held.strip("*_ ")[:1]:
        return True
    own, other = quantities_of(claimed), quantities_of(held)
    rest = telling_keys_of(claimed) <= telling_keys_of(held) or not _has_words(claimed)
    return len(own) == len(other) > 0 and rest and all(map(same_quantity, own, other))


def _has_words(text: str) -> bool:
    """Whether a cell has words besides its numbers and units."""
    taken = measured(text)
    return any(t.is_content and t.start not in taken for t in tokens_of(text))


def _differ(claimed: str, held: str) -> bool:
    """Whether two cells differ by their numbers; words may be others for the same."""
    own, other = quantities_of(claimed), quantities_of(held)
    return len(own) == len(other) > 0 and not any(same_quantity(a, b) for a in own for b in other)
