from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

from shared_core.lm._hf.cache import KeyValues, PrefixCache, Segment
from shared_core.lm._hf.plan import Cost, Row, common_length, plan_rows, row_tree, similar_lengths, waves

prompts = st.lists(st.lists(st.integers(0, 2), max_size=9), min_size=1, max_size=7)
COST = Cost(token=1e6, slot=1e3)


def arrays(lists: list[list[int]]) -> list[np.ndarray]:
    return [np.asarray(x, dtype=np.int64) for x in lists]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(prompts)
def test_a_tree_holds_every_prompt_and_each_common_stretch_once(lists: list[list[int]]) -> None:
    bodies = arrays(lists)
    start = common_length(bodies)
    assert all(np.array_equal(b[:start], bodies[0][:start]) for b in bodies)
    tree = row_tree(bodies, start)
    for body, path in zip(bodies, tree.paths):
        assert np.array_equal(tree.tokens[path], body[start:])
        assert np.array_equal(tree.positions[path], np.arange(start, len(body)))
    prefixes = {tuple(b[:n]) for b in bodies for n in range(start + 1, len(b) + 1)}
    assert len(tree.tokens) == len(prefixes)
    seen = tree.mask(0, len(tree.tokens))
    for path in tree.paths:
        for depth, node in enumerate(path):
            assert np.array_equal(np.flatnonzero(seen[node]), np.sort(path[: depth + 1]))
    middle = len(tree.tokens) // 2
    assert np.array_equal(np.concatenate([tree.mask(0, middle), tree.mask(middle, len(tree.tokens))]), seen)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(prompts, st.sampled_from([None, True, False]), st.integers(1, 60))
def test_plans_place_every_prompt_once_and_count_slots_right(
    lists: list[list[int]], join: bool | None, most: int
) -> None:
    bodies = arrays(lists)
    rows = plan_rows(bodies, [2] * len(bodies), [3] * len(bodies), COST, join=join)
    assert sorted(i for r in rows for i in r.members) == list(range(len(bodies)))
    for row in rows:
        start = common_length(bodies)
        nodes = len(row_tree([bodies[i] for i in row.members], start).tokens)
        assert (row.root, row.fresh, row.branches) == (start, nodes, 2 * len(row.members))
        if row.lanes == 1:
            assert row.slots == start + nodes + 6 * len(row.members)
        assert 1 <= row.lanes <= row.branches
        assert row.lanes * row.width >= row.branches
    if join is not None:
        assert len(rows) == (1 if join else len(bodies))
        assert {r.lanes for r in rows} == {1}
    cut = waves(rows, most, 100)
    assert [r for w in cut for r in w] == rows
    assert all(len(w) == 1 or held(w) <= most for w in cut)


def held(rows: list[Row]) -> int:
    """Slots of rows beside each other, each as long as the longest."""
    return sum(r.lanes for r in rows) * max(r.slots for r in rows)


@pytest.mark.parametrize("stems", [False, True])
def test_many_samples_of_a_short_prompt_are_an_ordinary_batch_and_those_of_a_long_one_share_it(stems: bool) -> None:
    cost = Cost(token=1e7, slot=4e3, stems=stems)
    short, long = np.arange(9), np.arange(2000)
    [row] = plan_rows([short], [256], [256], cost)
    assert row.width <= 4  # a sample met all the others' tokens, and masked them, if they shared one row
    [row] = plan_rows([long], [256], [8], cost)
    assert stems or row.lanes <= 32  # the prompt was fetched for each sample, if each had a row
    [row] = plan_rows([long], [1], [8], cost)
    assert row.lanes == 1


def test_a_plan_fits_into_the_memory_there_is_if_any_does() -> None:
    cost = Cost(token=1e7, slot=4e3)
    prompt = np.arange(500)
    [free] = plan_rows([prompt], [64], [200], cost)
    assert free.lanes * free.slots > 14_000
    [bound] = plan_rows([prompt], [64], [200], cost, max_slots=14_000)
    assert bound.lanes * bound.slots <= 14_000
    [least] = plan_rows([prompt], [64], [200], cost, max_slots=1)
    assert least.lanes == 1


def test_plans_share_where_it_pays() -> None:
    rng = np.random.default_rng(0)
    root = rng.integers(0, 9, 300)
    apart = [rng.integers(0, 9, 300) for _ in range(6)]
    assert len(plan_rows(apart, [1] * 6, [20] * 6, COST)) == 6
    alike = [np.concatenate([root, rng.integers(0, 9, 5)]) for _ in range(6)]
    assert len(plan_rows([*apart[:2], *alike], [1] * 8, [20] * 8, COST)) == 3


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=30))
def test_similar_lengths_bound_the_padding(lengths: list[int]) -> None:
    groups = similar_lengths(lengths)
    assert sorted(i for g in groups for i in g) == list(range(len(lengths)))
    for group in groups:
        longest = max(lengths[i] for i in group)
        assert all(lengths[i] >= 0.7 * longest - 32 for i in group)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=12))
def test_the_prefix_cache_finds_the_longest_beginning_within_its_bound(lists: list[list[int]]) -> None:
    import torch

    def states(ids: list[int]) -> KeyValues:
        values = torch.tensor(ids, dtype=torch.float32)[None, None, :, None]
        return {0: (values, -values)}

    large, small = PrefixCache(1 << 20), PrefixCache(100)
    for n, ids in enumerate(lists):
        wanted = np.asarray(ids, dtype=np.int64)
        length, found = large.match(wanted)
        assert length == max((common_length([wanted, np.asarray(x)]) for x in lists[:n]), default=0)
        if length:
            assert found[0][0][0, 0, :, 0].tolist() == ids[:length]
        assert large.match(wanted, side=1) == (0, {})  # of the other side of a switch
        half = len(ids) // 2
        pieces = [ids[:half], ids[half:]] if half else [ids]
        large.put(ids, [Segment.of(states(piece)) for piece in pieces])
        small.put(ids, [Segment.of(states(ids))])
        assert small.nbytes <= 100
