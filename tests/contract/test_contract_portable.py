"""Everything public of both plug-ins goes to other processes, and can be copied."""

from __future__ import annotations

import copy
import importlib
import multiprocessing
import pickle
import threading
from collections.abc import Callable, Iterator
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


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[ProcessPoolExecutor]:
    """Another process, which imports both frameworks once."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def test_they_work_in_another_process(facades: Facades, elsewhere: ProcessPoolExecutor) -> None:
    made = facades.public()
    expected = {kind: attempt(thing) for kind, (thing, attempt) in facades.public().items()}
    packed = pickle.dumps({kind: thing for kind, (thing, _) in made.items()})
    assert elsewhere.submit(_work_there, facades.name, packed).result(timeout=120) == expected


def test_what_cannot_be_pickled_says_so_and_is_not_left_out(facades: Facades) -> None:
    reader = facades.reader()
    reader.name = lambda: "no reader's name"  # type: ignore[assignment]
    for made in (facades.engine(reader=reader), facades.reranker(reader=reader)):
        with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
            pickle.dumps(made)


class _Client:
    """Of a provider: has a lock, and says how it is pickled."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def __reduce__(self) -> Any:
        return (_Client, ())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self.lock)  # as pydantic does, which asks each of its parts


class _Stuck(_Client):
    def __reduce__(self) -> Any:
        return (_Stuck, (self.lock,))


def _with_client(facades: Facades, client: _Client) -> Any:
    llm = facades.llm()
    object.__setattr__(llm, "client", client)
    return llm


@pytest.mark.parametrize("twin", TWINS.values(), ids=list(TWINS))
def test_a_model_whose_client_has_a_lock_is_copied_as_it_is_pickled(
    facades: Facades, twin: Callable[[Any], Any]
) -> None:
    engine = facades.engine(llm=_with_client(facades, _Client()))
    facades.ask(engine, QUESTION)
    assert facades.ask(twin(engine), QUESTION).question == QUESTION


def test_what_can_be_neither_pickled_nor_copied_is_named(facades: Facades) -> None:
    llm = _with_client(facades, _Stuck())
    if pickles(llm):
        pytest.skip("this framework leaves it out")
    with pytest.raises(TypeError, match=type(llm).__name__):
        copy.deepcopy(facades.engine(llm=llm))


def pickles(thing: object) -> bool:
    try:
        pickle.dumps(thing)
    except TypeError:
        return False
    return True
