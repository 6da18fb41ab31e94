from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.errors import InputError
from shared_core.retrieval.base import absent
from shared_core.retrieval.filters import compile_filter, normalise

pytest.importorskip("chromadb")

scalars = st.one_of(
    st.sampled_from(["", "a", "b", "1", "True"]),
    st.integers(-3, 3),
    st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.5]),
    st.booleans(),
)
keys = st.sampled_from(["x", "y", "z"])
metadatas = st.dictionaries(keys, st.one_of(scalars, st.none(), st.just(float("inf"))), max_size=3)
operations = st.one_of(
    scalars,
    st.builds(lambda op, v: {op: v}, st.sampled_from(["$eq", "$ne"]), scalars),
    st.builds(
        lambda op, v: {op: v},
        st.sampled_from(["$gt", "$gte", "$lt", "$lte"]),
        st.one_of(st.integers(-3, 3), st.sampled_from([-0.5, 0.0, 1.0, 2.5])),
    ),
    st.builds(lambda op, v: {op: v}, st.sampled_from(["$in", "$nin"]), st.lists(scalars, min_size=1, max_size=4)),
    st.just({"$gte": -1, "$lt": 2}),
)
filters: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.dictionaries(keys, operations, min_size=1, max_size=2),
    lambda inner: st.builds(
        lambda kind, parts: {kind: parts}, st.sampled_from(["$and", "$or"]), st.lists(inner, min_size=1, max_size=3)
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def client() -> Any:
    import chromadb
    from chromadb.config import Settings

    return chromadb.EphemeralClient(Settings(anonymized_telemetry=False))


@settings(deadline=None, derandomize=True, max_examples=40)
@given(rows=st.lists(metadatas, min_size=1, max_size=12), wheres=st.lists(filters, min_size=4, max_size=8))
def test_means_what_it_means_in_chroma(client: Any, rows: list[dict[str, Any]], wheres: list[dict[str, Any]]) -> None:
    name = uuid.uuid4().hex
    collection = client.create_collection(name, embedding_function=None)
    stored = [{"_": 0, **{k: v for k, v in row.items() if not absent(v)}} for row in rows]
    ids = [str(i) for i in range(len(rows))]
    collection.add(ids=ids, embeddings=np.eye(len(rows), 16, dtype=np.float32), metadatas=stored)
    try:
        for where in wheres:
            predicate = compile_filter(where)
            assert predicate is not None
            expected = set(collection.get(where=normalise(where), include=[])["ids"])
            assert {i for i, row in zip(ids, rows) if predicate(row)} == expected, where
    finally:
        client.delete_collection(name)


def test_no_filter_is_none() -> None:
    assert normalise(None) is None
    assert normalise({}) is None
    assert compile_filter({}) is None


@pytest.mark.parametrize("where", [
    "lang=en", {"lang": None}, {"lang": ["en"]}, {"lang": {}}, {"lang": {"$like": "e"}}, {"year": {"$gt": "1990"}},
    {"year": {"$gt": True}}, {"year": {"$in": []}}, {"year": {"$in": "abc"}}, {"year": float("nan")}, {"$and": []},
    {"$or": [{}]}, {"$not": [{"a": 1}]}, {"#document": "x"}, {"selfreflect:id": "a"}, {"": 1}, {3: 1},
])  # fmt: skip
def test_what_cannot_be_understood_is_refused(where: Any) -> None:
    with pytest.raises(InputError) as caught:
        compile_filter(where)
    assert "$gte" in caught.value.hint
