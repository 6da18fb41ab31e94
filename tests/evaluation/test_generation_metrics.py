from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from shared_core.errors import InputError
from shared_core.evaluation import rouge_lsum

CASES = json.loads((Path(__file__).parents[1] / "parity" / "rouge.json").read_text())["cases"]


def by_stops(text: str) -> list[tuple[int, int]]:
    """The parity file's sentences."""
    return [m.span() for m in re.finditer(r"\S.*?(?:[.!?](?=\s|$)|$)", text, re.DOTALL)]


def references(item: dict[str, Any]) -> list[str]:
    if "annotations" in item:
        return [a["long_answer"] for a in item["annotations"]]
    return [item["answer"]]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
def test_parity(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    if "data" in given:
        scores = [rouge_lsum(i["output"], references(i), splitter=by_stops) for i in given["data"]]
        assert scores == pytest.approx(expected["per_item_max_f"], abs=1e-6)
        # ALCE prints the median of bootstrap samples; ours is averaged plainly.
        mean = 100 * sum(scores) / len(scores)
        assert mean == pytest.approx(expected["plain_mean_of_max_f_x100"], abs=1e-6)
        return
    for name, stemmer in (("stemmed_p_r_f", True), ("unstemmed_p_r_f", False)):
        ours = rouge_lsum(given["hypothesis"], given["reference"], stemmer=stemmer, splitter=by_stops)
        assert ours == pytest.approx(expected[name]["rougeLsum"][2], abs=1e-6)


def test_our_sentences_and_bad_input() -> None:
    assert rouge_lsum("Mira built it. It opened.", ["It opened. Mira built it."]) == 1.0
    with pytest.raises(InputError):
        rouge_lsum("x", [])
