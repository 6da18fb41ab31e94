"""Fixtures of the tests of the LlamaIndex plug-in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]

from tests.llamaindex.li_fakes import Listener


@pytest.fixture
def listener() -> Iterator[Listener]:
    """Hears all events of the dispatcher while a test runs."""
    made = Listener(events=[])
    get_dispatcher().add_event_handler(made)
    yield made
    get_dispatcher().event_handlers.remove(made)
