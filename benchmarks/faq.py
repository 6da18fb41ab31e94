"""Measure questions that headings of documents ask, as in FAQs: is what stands below quoted?

    python benchmarks/faq.py PATH… [--index FOLDER] [--number N] [--seed S] [--json FILE]

Each heading that ends in a question mark is asked, and again with one word exchanged for another heading's, so that no
passage has both. All files are in one index. A right answer begins with a quote from that heading's section.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import command_line, write_figures
from benchmarks.lists import Listed, questions
from shared_core import SelfReflectEngine
from shared_core.documents import DocumentIndex
from shared_core.types import Passage

LEAST, MOST = 4, 20
"""Words of a heading."""


def questions_in(passages: Sequence[Passage]) -> list[Listed]:
    """Return the headings that ask something, each that occurs once."""
    found: dict[str, set[Listed]] = defaultdict(set)
    for passage in passages:
        section = str(passage.metadata.get("section") or "")
        heading = section.rpartition(" > ")[2]
        if heading.endswith("?") and LEAST <= len(heading.split()) <= MOST and "{" not in heading:
            found[heading].add(Listed("{}", heading, str(passage.metadata.get("source")), section))
    return sorted(min(some) for some in found.values() if len(some) == 1)


def main() -> None:
    parser = command_line(__doc__, quick="20 questions", data=False)
    parser.add_argument("paths", type=Path, nargs="+", help="files or folders")
    parser.add_argument("--index", type=Path, help="a folder to keep the index in")
    parser.add_argument("--number", type=int, default=100, help="of questions with an answer (default: 100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="print what is not right")
    given = parser.parse_args()
    index = DocumentIndex(given.index)
    index.update(given.paths)
    engine = SelfReflectEngine(index.retriever())
    passages = index.passages()
    found = questions_in(passages)
    texts = [f"{p.title} {p.metadata.get('section')} {p.text}".lower() for p in passages]
    counts = Counter[str]()
    for question, wanted in questions(found, texts, 20 if given.quick else given.number, given.seed):
        answer = engine.answer(question)
        shown = not answer.abstained and bool(answer.claims)
        verdict = "unsaid"
        if shown:
            passage = answer.passage(answer.claims[0].citations[0].spans[0].passage_id)
            place = str(passage.metadata.get("source")), str(passage.metadata.get("section") or "")
            verdict = "right" if wanted and place == (wanted.source, wanted.section) else "wrong"
        if wanted is None:
            counts["unanswerable"] += 1
            counts["unanswerable_shown"] += shown
        else:
            counts["answerable"] += 1
            counts[verdict] += 1
        if given.verbose and shown != (wanted is not None and verdict == "right"):
            print(f"{verdict}:", question, "→", answer.text[:150].replace("\n", " ") if shown else "")
    print(f"{len(found)} questions; " + ", ".join(f"{name} {number}" for name, number in counts.items()))
    write_figures({name: float(number) for name, number in counts.items()}, given.json)


if __name__ == "__main__":
    main()
