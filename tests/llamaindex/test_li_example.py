"""The example runs as it stands, but with parts that need no weights."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shared_core.reading.base import Reading, ReadResult

EXAMPLE = Path(__file__).parents[2] / "examples" / "llamaindex_swap.py"


class Hashes:
    """Counts words by their hash."""

    name = "hashes"

    def embed(self, texts: Any) -> Any:
        vectors = np.full((len(texts), 256), 1e-6, dtype=np.float32)
        for row, text in zip(vectors, texts):
            # the framework puts the file's path before the text: where the project lies must not matter
            for word in (w for w in text.lower().split() if "/" not in w):
                row[sum(word.encode()) * len(word) % 256] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class LastWord:
    """Quotes the question's last word where a passage holds it."""

    name = "last-word"

    def read(self, requests: Any) -> Any:

        results = []
        for request in requests:
            word = request.question.split()[-1].strip("?.")
            found: list[Reading] = []
            for passage in request.passages:
                start = passage.text.find(word)
                if start >= 0:
                    found.append(Reading(passage.span(start, start + len(word)), 0.9, -float(len(found))))
            results.append(ReadResult(tuple(found[: request.limit]), 0.9 if found else 0.1))
        return results


def test_the_example_runs_offline(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import llamaindex_selfreflect
    from llamaindex_selfreflect import MiniLMEmbedding
    from shared_core.facades import assembly as parts

    monkeypatch.setattr(llamaindex_selfreflect, "MiniLMEmbedding", lambda: MiniLMEmbedding(Hashes()))
    monkeypatch.setattr(parts, "default_reader", LastWord)
    main = runpy.run_path(str(EXAMPLE))["main"]
    main(["What is Tavarrin?", "Who was zyxxy?"])
    said = capsys.readouterr().out
    assert "reflected: Tavarrin [1]" in said
    assert "“Tavarrin”" in said
    assert "abstained: passages do not answer" in said
    assert said.count("the sentence that answers best") == 1  # the first line of the re-ranked passages


@pytest.mark.slow
def test_the_example_runs_with_what_we_ship(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE))["main"](["Why was the Ellisk Race project cancelled?"])
    said = capsys.readouterr().out
    assert "grey seals" in said
    assert "[1]" in said
