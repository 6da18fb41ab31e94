"""Ask the embedded default what four made-up texts answer, and what they answer only nearly.

    python benchmarks/near_misses.py [--texts FILE] [--json FILE]

The texts (`near_misses.json`) are a service desk's notice, a club's page, a library's guide and the notes of an API.
Each unanswerable question asks for another value, thing or day than the text tells of. For each text: `right`: share
of the answerable questions whose first quote is shown and holds the answer; `wrong`: share of them that show another
first; `answered`: share of the unanswerable ones that are answered. Conflicts were built after the first three texts
were looked at, so their figures flatter; nothing was changed for the fourth.

`--texts benchmarks/ranges.json`: nine texts with rules for ranges, and questions about single values. How a value is
read as its range was built for the first five. Of the 16 questions that the others answer 1 was answered before that,
and 8 before they were looked at.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import command_line, write_figures
from shared_core.documents import chunk_document, load_document
from shared_core.facades.engine import SelfReflectEngine
from shared_core.retrieval import HybridRetriever


def first_quotes(text: str, questions: list[str]) -> list[str]:
    """Return the first quote shown for each question asked of a text in Markdown; empty if the engine abstains."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "text.md"
        file.write_text(text, encoding="utf-8")
        engine = SelfReflectEngine(HybridRetriever(chunk_document(load_document(file))))
    answers = [engine.answer(question) for question in questions]
    return ["" if a.abstained or not a.claims else a.claims[0].text for a in answers]


def figures_of(text: dict[str, Any]) -> dict[str, float]:
    """Return the figures of one text."""
    held: dict[str, str] = text["answerable"]
    shown = first_quotes(text["text"], [*held])
    others = first_quotes(text["text"], text["unanswerable"])
    right = [words in quote for words, quote in zip(held.values(), shown, strict=True)]
    return {
        "right": sum(right) / len(held),
        "wrong": sum(bool(quote) and not r for quote, r in zip(shown, right)) / len(held),
        "answered": sum(map(bool, others)) / len(others),
    }


def run(file: Path) -> dict[str, float]:
    texts = json.loads(file.read_text(encoding="utf-8"))
    out = {f"{text['name']}_{key}": value for text in texts for key, value in figures_of(text).items()}
    Console().print(out)
    return out


def main() -> None:
    parser = command_line(__doc__, data=False)
    parser.add_argument("--texts", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    write_figures(run(options.texts), options.json)


if __name__ == "__main__":
    main()
