"""Ask the embedded default what the terms mean that a document defines (`<dl>`, tables of terms), and what it does not.

Run as ``python benchmarks/terms.py FILE …`` with at least two files. Of each file, 25 terms drawn at random are asked
of it, and as many of the other files that it does not name. Printed: the questions, those answered; of terms that it
defines also those whose definition is quoted first.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from pathlib import Path
from pprint import pprint

from shared_core import Answer, SelfReflectEngine
from shared_core.documents import Document, chunk_document, load_document
from shared_core.documents.loaders.extracted import TERM_LEVEL
from shared_core.reading import ExtractiveReader
from shared_core.retrieval import HybridRetriever
from shared_core.types import Passage

FORMS = ("What is {term}?", "What does {term} mean?", "what is {term} used for")
SHORTEST = 15
"""Characters of a definition at least."""


def terms_of(document: Document) -> dict[str, tuple[int, int]]:
    """Terms that a document defines, each with where its definition begins and ends; options and questions left out."""
    ends = [heading.start for heading in document.headings[1:]] + [len(document.text)]
    return {
        heading.label: (heading.start, end)
        for heading, end in zip(document.headings, ends, strict=True)
        if heading.level >= TERM_LEVEL
        and 2 < len(heading.label) < 30
        and not heading.label.startswith("-")
        and not heading.label.endswith("?")
        and "(" not in heading.label
        and end - heading.end > SHORTEST
    }


def is_definition(answer: Answer, passages: dict[str, Passage], place: tuple[int, int]) -> bool:
    """Whether the first quote lies within a definition."""
    spans = [span for claim in answer.claims[:1] for citation in claim.citations for span in citation.spans]
    if answer.abstained or not spans:
        return False
    start = int(passages[spans[0].passage_id].metadata["start"]) + spans[0].start
    return place[0] <= start < place[1]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    documents = [load_document(file) for file in args.files]
    reader, chance, counts = ExtractiveReader(), random.Random(args.seed), Counter[str]()
    for document in documents:
        passages = {p.id: p for p in chunk_document(document)}
        engine = SelfReflectEngine(HybridRetriever(list(passages.values())), reader=reader)
        own = terms_of(document)
        for number, term in enumerate(chance.sample(sorted(own), min(25, len(own)))):
            answer = engine.answer(FORMS[number % len(FORMS)].format(term=term))
            counts["defined, asked"] += 1
            counts["defined, answered"] += not answer.abstained
            counts["defined, its definition first"] += is_definition(answer, passages, own[term])
        others = [t for other in documents for t in terms_of(other) if t.casefold() not in document.text.casefold()]
        for number, term in enumerate(chance.sample(sorted(others), min(25, len(others)))):
            answer = engine.answer(FORMS[number % len(FORMS)].format(term=term))
            counts["not named, asked"] += 1
            counts["not named, answered"] += not answer.abstained
    pprint(dict(counts), sort_dicts=False)


if __name__ == "__main__":
    main()
