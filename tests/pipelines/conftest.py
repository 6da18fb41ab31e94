"""What the pipelines' tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)  # the models are so small that threads only wait for each other
    yield
    torch.set_num_threads(before)
