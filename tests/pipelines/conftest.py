"""What the pipelines' tests share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _one_thread(one_thread: None) -> None:
    """Keep torch to one thread in all of these tests."""
