"""Measure questions for the defaults of settings in a project's documentation: how many are answered, how many wrongly.

    python benchmarks/defaults.py PATH… [--index FOLDER] [--number N] [--seed S] [--json FILE]

For headings and terms with underscores, below which a line states a default ("Default: 180"), questions are written
with four templates, with the name as it is and as words. Each is asked again with one part of the name exchanged for
that of another, so that no file has it. All files are in one index. A right answer quotes a statement of a default that
stands below that name.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import command_line, write_figures
from shared_core import SelfReflectEngine
from shared_core.documents import DocumentIndex
from shared_core.types import Passage

TEMPLATES = (
    "What is the default value of {name}?",
    "What is {name} by default?",
    "What is the default of {words}?",
    "What is the default {words}?",
)
_NAME = re.compile(r"[`\"']?([A-Za-z][A-Za-z\d]*(?:_[A-Za-z\d]+)+)[`\"']?")
_STATED = re.compile(r"^\W*defaults?(?: value)?[*_`]*(?::| to| is)[*_`]* *\S.{0,80}$", re.IGNORECASE | re.MULTILINE)


def defaults_in(passages: list[Passage]) -> dict[str, set[str]]:
    """Map the names of settings to what states their defaults."""
    found: dict[str, set[str]] = {}
    for passage in passages:
        name = _NAME.fullmatch(str(passage.metadata.get("section", "")).rpartition(" > ")[2])
        if name and (stated := [m[0].strip() for m in _STATED.finditer(passage.text)]):
            found.setdefault(name[1], set()).update(stated)
    return found


def questions(found: dict[str, set[str]], text: str, number: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield questions with the name that answers each, "" if nothing does."""
    chosen = random.Random(seed)
    names = sorted(found)
    for name in chosen.sample(names, min(number, len(names))):
        template = chosen.choice(TEMPLATES)
        yield template.format(name=name, words=name.replace("_", " ").lower()), name
        for _ in range(100):
            parts, others = name.split("_"), chosen.choice(names).split("_")
            parts[-1] = others[-1].upper() if name.isupper() else others[-1].lower()
            if "_".join(parts).lower() not in text and " ".join(parts).lower() not in text:
                yield template.format(name="_".join(parts), words=" ".join(parts).lower()), ""
                break


def main() -> None:
    parser = command_line(__doc__, quick="20 questions", data=False)
    parser.add_argument("paths", type=Path, nargs="+", help="files or folders")
    parser.add_argument("--index", type=Path, help="a folder to keep the index in")
    parser.add_argument("--number", type=int, default=100, help="of questions with an answer (default: 100)")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    index = DocumentIndex(given.index)
    index.update(given.paths)
    engine = SelfReflectEngine(index.retriever())
    passages = index.passages()
    found = defaults_in(passages)
    text = "\n".join(p.text for p in passages).lower()
    counts = Counter[str]()
    for question, name in questions(found, text, 20 if given.quick else given.number, given.seed):
        answer = engine.answer(question)
        shown = answer.claims[0].text if not answer.abstained and answer.claims else ""
        if not name:
            counts["unanswerable"] += 1
            counts["unanswerable_shown"] += bool(shown)
        else:
            counts["answerable"] += 1
            right = any(shown in stated or stated in shown for stated in found[name]) if shown else False
            counts["right" if right else "wrong" if shown else "unsaid"] += 1
    print(f"{len(found)} settings; " + ", ".join(f"{name} {number}" for name, number in counts.items()))
    write_figures({name: float(number) for name, number in counts.items()}, given.json)


if __name__ == "__main__":
    main()
