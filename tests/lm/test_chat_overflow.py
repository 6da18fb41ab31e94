"""Refusals for the context's length, in the words of many providers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shared_core.errors import ContextOverflowError
from shared_core.lm.chat.overflow import context_overflow, detail

_FILE = json.loads(Path(__file__).with_name("provider_words.json").read_text("utf-8"))
WORDS: list[tuple[int | None, int | None, Any]] = _FILE["overflows"]
"""Tokens needed and available, where they are told, and what a provider said."""


@pytest.mark.parametrize(("needed", "available", "said"), WORDS)
def test_an_overflow_is_known_with_its_figures_where_they_are_told(
    needed: int | None, available: int | None, said: Any
) -> None:
    found = context_overflow(said)
    assert isinstance(found, ContextOverflowError)
    assert (found.needed, found.available) == (needed, available)
    assert (found.excess > 0) == (needed is not None and available is not None)
    assert str(available) in found.message or available is None
    assert detail(said)[:200] in found.message or needed is not None  # without figures, the provider's own words
    assert "top_k" in found.hint


@pytest.mark.parametrize("said", [
    *_FILE["others"], None, "", {}, {"error": None}, [], 7, {"error": {"message": 7, "n_ctx": True}},
])  # fmt: skip
def test_another_refusal_and_what_says_nothing_are_none(said: Any) -> None:
    assert context_overflow(said) is None
    assert context_overflow({"error": {"message": said}}) is None
