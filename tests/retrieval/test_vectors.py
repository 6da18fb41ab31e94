"""Vectors of one byte a number: near enough to the true ones, and the same ranking however they are searched."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shared_core.retrieval.vectors import Coded, VectorTable, encode

D = 48


def unit(rows: int, seed: int = 0) -> NDArray[np.float32]:
    vectors = np.random.default_rng(seed).standard_normal((rows, D)).astype(np.float32)
    found: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return found


def table(*groups: NDArray[np.float32]) -> VectorTable[str]:
    made: VectorTable[str] = VectorTable(D)
    made.put((f"p{i}", encode(group)) for i, group in enumerate(groups))
    return made


def test_codes_are_near_and_of_unit_norm() -> None:
    vectors = unit(200)
    coded = encode(vectors * 7)
    back = coded.codes * coded.scales[:, None]
    assert np.linalg.norm(back, axis=1) == pytest.approx(np.ones(200), abs=1e-6)
    assert (back * vectors).sum(axis=1).min() > 0.9999
    zeros = encode(np.zeros((1, D), np.float32))
    assert not zeros.codes.any()
    assert not zeros.scales.any()


def test_bytes_and_back() -> None:
    coded = encode(unit(5))
    again = Coded.from_bytes(coded.to_bytes(), D)
    assert (again.codes == coded.codes).all()
    assert (again.scales == coded.scales).all()
    for data in (b"", coded.to_bytes()[:-1]):
        with pytest.raises(ValueError):
            Coded.from_bytes(data, D)


def test_the_nearest_vector_of_a_passage_counts() -> None:
    one, other = unit(4), unit(6, seed=1)
    found = table(one, other).nearest(np.stack([one[3], other[0]]), 2)
    assert [key for key, _ in found[0]] == ["p0", "p1"]
    assert found[0][0][1] == pytest.approx(1, abs=1e-6)
    assert found[0][1][1] == pytest.approx(float((other @ one[3]).max()), abs=0.01)
    assert found[1][0][0] == "p1"


def test_a_query_alone_and_among_others_finds_the_same_to_the_last_bit() -> None:
    made = table(*(unit(n % 5 + 1, seed=n) for n in range(300)))
    queries = unit(70, seed=999)
    together = made.nearest(queries, 50)
    assert together == [made.nearest(query[None], 50)[0] for query in queries]


def test_equal_vectors_come_in_the_order_they_were_added() -> None:
    made = table(*[unit(1)] * 9)
    assert [key for key, _ in made.nearest(unit(1), 5)[0]] == [f"p{i}" for i in range(5)]


def test_filter_and_bounds() -> None:
    made = table(unit(2), unit(2, 1), unit(2, 2))
    assert {key for key, _ in made.nearest(unit(1), None, {"p0", "p2", "nobody"})[0]} == {"p0", "p2"}
    assert made.nearest(unit(1), 5, set()) == [[]]
    assert made.nearest(unit(0), 5) == []
    made.discard(["p0", "p1", "p2", "nobody"])
    assert made.nearest(unit(1), 5) == [[]]
    assert len(made) == 0


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4)), max_size=60))
def test_any_changes_leave_what_a_fresh_table_holds(changes: list[tuple[int, int]]) -> None:
    made: VectorTable[int] = VectorTable(D)
    expected: dict[int, NDArray[np.float32]] = {}
    for step, (key, rows) in enumerate(changes):
        if rows:
            expected[key] = unit(rows, seed=step)
            made.put([(key, encode(expected[key]))])
        else:
            expected.pop(key, None)
            made.discard([key])
        assert len(made) == len(expected)
    fresh: VectorTable[int] = VectorTable(D)
    fresh.put((key, encode(vectors)) for key, vectors in expected.items())
    query = unit(1, seed=77)
    assert sorted(made.nearest(query, None)[0]) == sorted(fresh.nearest(query, None)[0])
