"""Everything public of both plug-ins goes to other processes, and can be copied."""

from __future__ import annotations

import copy
import importlib
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from tests.contract.facades import FACADES, QUESTION, Facades

TWINS: dict[str, Callable[[Any], Any]] = {"pickle": lambda x: pickle.loads(pickle.dumps(x)), "deepcopy": copy.deepcopy}


def test_every_public_class_is_tried(facades: Facades) -> None:
    assert sorted(facades.public()) == sorted(importlib.import_module(facades.name).__all__)


@pytest.mark.parametrize("twin", TWINS.values(), ids=list(TWINS))
def test_a_copy_works_as_the_original(facades: Facades, twin: Callable[[Any], Any]) -> None:
    for name, (made, attempt) in facades.public().items():
        before = copy.deepcopy(made)  # a stream is used up by looking at it
        assert attempt(twin(before)) == attempt(made), name


@pytest.mark.parametrize("twin", TWINS.values(), ids=list(TWINS))
def test_one_that_has_worked_can_be_copied_too(facades: Facades, twin: Callable[[Any], Any]) -> None:
    engine = facades.engine(reader=None).warm_up()
    expected = facades.ask(engine, QUESTION)
    assert facades.ask(twin(engine), QUESTION) == expected
    reranker = facades.reranker().warm_up()
    assert facades.rank(twin(reranker), QUESTION) == facades.rank(reranker, QUESTION)


def _work_there(name: str, packed: bytes) -> dict[str, Any]:
    attempts = FACADES[name]().public()
    return {kind: attempts[kind][1](made) for kind, made in pickle.loads(packed).items()}


def test_they_work_in_another_process(facades: Facades) -> None:
    made = facades.public()
    expected = {kind: attempt(thing) for kind, (thing, attempt) in facades.public().items()}
    packed = pickle.dumps({kind: thing for kind, (thing, _) in made.items()})
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        there = pool.submit(_work_there, facades.name, packed).result(timeout=120)
    assert there == expected


def test_what_cannot_be_pickled_says_so_and_is_not_left_out(facades: Facades) -> None:
    reader = facades.reader()
    reader.name = lambda: "no reader's name"  # type: ignore[assignment]
    for made in (facades.engine(reader=reader), facades.reranker(reader=reader)):
        with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
            pickle.dumps(made)
