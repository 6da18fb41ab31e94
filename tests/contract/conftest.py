"""The contract of both plug-ins (and of plain HTTP, where it applies): every test runs on each ``Side``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.facades import FACADES, Facades
from tests.contract.sides import SIDES, Side


@pytest.fixture(params=SIDES)
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    """Each side in turn."""
    made = SIDES[request.param]()
    yield made
    made.close()


@pytest.fixture(params=[name for name, kind in SIDES.items() if kind.raises])
def framework(request: pytest.FixtureRequest) -> Iterator[Side]:
    """Each framework in turn, without HTTP: a script's exceptions reach the adapter as they are."""
    made = SIDES[request.param]()
    yield made
    made.close()


@pytest.fixture(params=FACADES)
def facades(request: pytest.FixtureRequest) -> Facades:
    """Each plug-in's classes in turn."""
    return FACADES[request.param]()
