"""The search's bookkeeping, each test beside a defect of the published code."""

from __future__ import annotations

import itertools
import math

import pytest

from shared_core.errors import InputError
from shared_core.reflection import Beam, Segment


def segment(text: str, score: float, *, bad: bool = False, last: bool = False) -> Segment[None]:
    return Segment(text, score, None, contradicted=bad, last=last)


def test_scores_add_so_that_a_negative_one_does_not_flip_the_order() -> None:
    beam: Beam[None] = Beam(width=2).advance([[segment("a", -1.0), segment("b", -0.5)]])
    assert [p.text for p in beam.paths] == ["b", "a"]
    beam = beam.advance([[segment("x", -1.0)], [segment("y", -2.0)]])
    assert [(p.text, p.score) for p in beam.paths] == [("bx", -1.5), ("ay", -3.0)]  # products: 0.5 and 2.0


def test_finished_paths_stay_and_compete() -> None:
    beam: Beam[None] = Beam(width=2).advance([[segment("done", 3.0, last=True), segment("on", 1.0)]])
    assert [p.text for p in beam.open] == ["on"]
    beam = beam.advance([[segment("+", 1.0, last=True)]])
    assert beam.best.text == "done"
    assert not beam.open


def test_hard_constraint_prunes_while_searching() -> None:
    first = [segment("bad", 9.0, bad=True), segment("good", 1.0)]
    beam: Beam[None] = Beam(width=1).advance([first])
    assert (beam.best.text, beam.pruned) == ("good", 1)
    soft: Beam[None] = Beam(width=1, hard_constraint=False).advance([first])
    assert soft.best.text == "bad"


def test_a_dead_end_keeps_what_was_written() -> None:
    beam: Beam[None] = Beam(width=2).advance([[segment("a", 1.0)]])
    beam = beam.advance([[segment("b", 5.0, bad=True)]])
    assert (beam.best.text, beam.best.finished, beam.open) == ("a", True, ())
    nothing: Beam[None] = Beam().advance([[segment("b", 5.0, bad=True)]])
    assert nothing.best.segments == ()
    assert not nothing.open


def test_no_text_of_siblings() -> None:
    beam: Beam[None] = Beam(width=2).advance([[segment("a ", 1.0), segment("b ", 0.9)]])
    beam = beam.advance([[segment("c", 1.0)], [segment("d", 1.0)]])
    assert [p.text for p in beam.paths] == ["a c", "b d"]


def test_depth_ends_and_unknown_scores_lose() -> None:
    beam: Beam[None] = Beam(width=3, max_depth=1).advance([[segment("nan", math.nan), segment("a", -5.0)]])
    assert [p.text for p in beam.paths] == ["a", "nan"]
    assert not beam.open
    assert [p.text for p in beam.advance([]).paths] == ["a", "nan"]


def test_mean_rank_does_not_favour_length() -> None:
    rows = [[segment("short", 1.5, last=True), segment("l", 1.0)]]
    for rank, best in (("sum", "long"), ("mean", "short")):
        beam: Beam[None] = Beam(width=2, rank=rank).advance(rows).advance([[segment("ong", 1.0, last=True)]])  # type: ignore[arg-type]
        assert beam.best.text == best


def test_wide_beam_finds_the_best_of_all_paths() -> None:
    values = {"a": 0.3, "b": -0.2, "c": 0.7}
    beam: Beam[None] = Beam(width=9, max_depth=2)
    beam = beam.advance([[segment(k, v) for k, v in values.items()]])
    beam = beam.advance([[segment(k, v * len(p.text)) for k, v in values.items()] for p in beam.open])
    scores = sorted((values[x] + values[y] for x, y in itertools.product(values, repeat=2)), reverse=True)
    assert [p.score for p in beam.paths] == pytest.approx(scores)


def test_refusals() -> None:
    with pytest.raises(InputError):
        Beam(width=0)
    with pytest.raises(InputError):
        Beam().advance([])
