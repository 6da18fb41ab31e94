"""SmolLM2-135M-Instruct, loaded once, and a few demo documents to ask it about."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shared_core.errors import ModelLoadError
from shared_core.retrieval import BM25Retriever
from shared_core.types import Passage

if TYPE_CHECKING:
    from shared_core.lm.transformers import TransformersLM

DOCS = Path(__file__).parents[2] / "examples" / "demo_docs"
SOURCES = ("overview_of_tavarrin.md", "first_settlement.md", "lighthouses.md", "tide_board_history.md", "flora.md")


@pytest.fixture(scope="session")
def smollm2() -> TransformersLM:
    """The packaged model; its tests are skipped where the package is missing (`make test-real` installs it)."""
    return _loaded("smollm2")


@pytest.fixture(scope="session")
def small() -> TransformersLM:
    """The same with the adapter that ships."""
    return _loaded("small")


def _loaded(name: str) -> TransformersLM:
    from shared_core.lm.transformers import TransformersLM

    try:
        return TransformersLM(name, device="cpu")
    except ModelLoadError as error:
        if "not installed" not in error.message and "lacks the adapter" not in error.message:
            raise
        pytest.skip(error.message)


@pytest.fixture(scope="session")
def retriever() -> BM25Retriever:
    found = BM25Retriever()
    for source in SOURCES:
        paragraphs = (DOCS / source).read_text(encoding="utf-8").split("\n\n")
        texts = [p.strip() for p in paragraphs if len(p) > 80]
        found.add([Passage(id=f"{source}#{i}", text=t, title=source) for i, t in enumerate(texts)])
    return found
