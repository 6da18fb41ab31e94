"""Measure questions for whole lists: are all steps below a heading quoted, or all items of what it names?

    python benchmarks/lists.py PATH… [--index FOLDER] [--number N] [--seed S] [--json FILE]

Questions are written for the headings of lists: "How do I install the client?" for "Install the client", "What are the
steps for resetting it?" for "Resetting it", and for the numbered list and the one called "Ingredients" in a document
"How do I make banana bread?" and "What are the ingredients of banana bread?". Each is asked again with one word
exchanged for another heading's, so that no passage has both. All files are in one index. A right answer begins with a
quote of that list, from its first item to the last one in the passage; ``part`` is a quote of less of it.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import command_line, write_figures
from shared_core import SelfReflectEngine
from shared_core.documents import DocumentIndex
from shared_core.reading.item_lists import lists_of
from shared_core.types import Passage, Span

IMPERATIVE = re.compile(
    r"(?:install|create|add|remove|set up|configure|update|upgrade|change|delete|enable|disable|run|start|stop|build"
    r"|reset|connect|open|close|check|test|write|register|request|submit|prepare|deploy|download|apply|choose|join"
    r"|publish|record|report|schedule|send|share|sign up|use) .+",
    re.IGNORECASE,
)
GERUND = re.compile(r"[A-Z][a-z]{2,}ing .+")
GENERIC = {"directions": "How do I make {}?", "ingredients": "What are the ingredients of {}?"}
_PLAIN = re.compile(r"[\w' -]{5,60}")
_WORD = re.compile(r"[^\W\d_]{4,}")


class Listed(NamedTuple):
    """A list: the question for it with a gap for its name, the name, and where it is."""

    form: str
    name: str
    source: str
    section: str


def lists_in(passages: Sequence[Passage]) -> list[Listed]:
    """Return the lists whose headings a question can be written for, each heading once."""
    found: dict[str, list[Listed]] = defaultdict(list)
    for passage in passages:
        section = str(passage.metadata.get("section") or "")
        heading = section.rpartition(" > ")[2]
        name, form = heading, ""
        if heading.lower() in GENERIC:
            name, form = passage.title, GENERIC[heading.lower()]
        elif GERUND.fullmatch(heading):
            form = "What are the steps for {}?"
        elif IMPERATIVE.fullmatch(heading):
            form = "How do I {}?"
        ordered = any(one.kind == "number" for one in lists_of(passage.text))
        if form and _PLAIN.fullmatch(name) and (ordered or heading.lower() == "ingredients"):
            name = name if heading.lower() in GENERIC else name[0].lower() + name[1:]
            found[form.format(name)].append(Listed(form, name, str(passage.metadata.get("source")), section))
    return [one[0] for one in found.values() if len({(x.source, x.section) for x in one}) == 1]


def questions(
    found: Sequence[Listed], texts: Sequence[str], number: int, seed: int
) -> Iterator[tuple[str, Listed | None]]:
    """Yield questions, each with the list that answers it, ``None`` if none does."""
    chosen = random.Random(seed)
    words = sorted({word for one in found for word in _WORD.findall(one.name)})
    for one in chosen.sample(found, min(number, len(found))):
        yield one.form.format(one.name), one
        own = _WORD.findall(one.name)
        if not own:
            continue
        for _ in range(100):
            old, new = own[-1], chosen.choice(words)
            kept = [word.lower()[:5] for word in own if word != old]
            if not any(new.lower()[:5] in text and all(word in text for word in kept) for text in texts):
                yield one.form.format(one.name.replace(old, new)), None
                break


def judge(quote: Span, passage: Passage, wanted: Listed) -> str:
    """Return ``right``, ``part`` or ``wrong``."""
    place = str(passage.metadata.get("source")), str(passage.metadata.get("section") or "")
    if place != (wanted.source, wanted.section):
        return "wrong"
    whole = any(quote.start <= one.start and one.end - 200 <= quote.end for one in lists_of(passage.text))
    return "right" if whole else "part"


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
    found = lists_in(passages)
    texts = [f"{p.title} {p.metadata.get('section')} {p.text}".lower() for p in passages]
    counts = Counter[str]()
    sure: list[float] = []
    for question, wanted in questions(found, texts, 20 if given.quick else given.number, given.seed):
        answer = engine.answer(question)
        shown = not answer.abstained and bool(answer.claims)
        if wanted is None:
            counts["unanswerable"] += 1
            counts["unanswerable_shown"] += shown
            if shown and given.verbose:
                print("unanswerable:", question, "→", answer.text[:150].replace("\n", " "))
            continue
        counts["answerable"] += 1
        quote = answer.claims[0].citations[0].spans[0] if shown else None
        verdict = judge(quote, answer.passage(quote.passage_id), wanted) if quote else "unsaid"
        counts[verdict] += 1
        if verdict != "right" and given.verbose:
            print(f"{verdict}:", question, "→", answer.text[:150].replace("\n", " ") if shown else "")
        if verdict in ("right", "wrong", "part"):
            sure.append(answer.claims[0].support or 0.0)
    print(f"{len(found)} lists; " + ", ".join(f"{name} {number}" for name, number in counts.items()))
    print(f"mean support of the quotes: {sum(sure) / max(1, len(sure)):.3f}")
    write_figures({name: float(number) for name, number in counts.items()}, given.json)


if __name__ == "__main__":
    main()
