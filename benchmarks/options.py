"""Ask the embedded default what commands and options do, of a command that has the option and of one that has not.

Run as ``python benchmarks/options.py /usr/share/man/man1 --pages 60``. The options and the wording of the questions are
drawn at random. Printed for both kinds: the questions, and those answered; for options that exist also those answered
from their own entry, those whose entry is quoted first, and the mean of its probability; for commands those answered,
from their own page, and by the line below NAME there.
"""

from __future__ import annotations

import argparse
import random
import string
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from pprint import pprint

from shared_core import Answer, SelfReflectEngine
from shared_core.documents import Document, DocumentIndex, load_document
from shared_core.errors import DocumentError
from shared_core.support.options import find_options

FORMS = (
    "What does {option} do in {command}?",
    "What does {command} {option} do?",
    "What is the {option} option of {command} for?",
    "What does the option {option} of {command} mean?",
)


def drawn(document: Document, chance: random.Random) -> list[tuple[str, bool]]:
    """Two options that a page explains, and one letter that it does not mention; each with whether it exists."""
    terms = [names for heading in document.headings if (names := find_options(heading.label))]
    if len(terms) < 3:
        return []
    known = {*find_options(document.text), *(name for names in terms for name in names)}
    free = [f"-{letter}" for letter in string.ascii_letters if f"-{letter}" not in known]
    real = [(chance.choice(names), True) for names in chance.sample(terms, 2)]
    return real + [(chance.choice(free), False)] * bool(free)


def from_its_entry(answer: Answer, command: str, option: str) -> bool:
    """Whether the first quote is of the option's section in the command's page."""
    sections = {p.id: (p.metadata.get("source"), str(p.metadata.get("section", ""))) for p in answer.passages}
    spans = [span for claim in answer.claims[:1] for citation in claim.citations for span in citation.spans]
    source, section = sections[spans[0].passage_id] if spans else ("", "")
    return str(source).split(".")[0] == command and option in find_options(section)


def ask_commands(engine: SelfReflectEngine, commands: Iterable[str]) -> Counter[str]:
    """Ask what each command does; the name of a page is its command's, with "_" or "-" for the spaces in it."""
    found: Counter[str] = Counter()
    for command in commands:
        answer = engine.answer(f"What does {command.replace('_', ' ')} do?")
        found["command_asked"] += 1
        if not answer.abstained:
            places = {p.id: p.metadata for p in answer.passages}
            place = places[answer.kept_claims[0].citations[0].spans[0].passage_id]
            own = str(place.get("source")).split(".")[0] == command
            by_name = own and str(place.get("section", "")).casefold() == "name"
            found.update(
                {"command_answered": 1, "command_answered_from_page": own, "command_answered_by_name": by_name}
            )
    return found


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pages", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    chance = random.Random(args.seed)
    files = sorted(args.folder.iterdir())
    chance.shuffle(files)
    asked: list[tuple[str, str, bool]] = []
    used: list[Path] = []
    for file in files:
        try:
            options = drawn(load_document(file), chance) if len(used) < args.pages else []
        except DocumentError:
            continue
        if options:
            used.append(file)
            asked += [(file.name.split(".")[0], option, real) for option, real in options]
    with tempfile.TemporaryDirectory() as folder, DocumentIndex(Path(folder) / "index") as index:
        index.update(used)
        engine = SelfReflectEngine(index.retriever())
        found: Counter[str] = Counter()
        total = 0.0
        for command, option, real in asked:
            answer = engine.answer(chance.choice(FORMS).format(option=option, command=command))
            kind, own = "real" if real else "absent", from_its_entry(answer, command, option)
            found.update({f"{kind}_asked": 1, f"{kind}_answered": not answer.abstained})
            if real:
                found.update({"real_answered_from_entry": own and not answer.abstained, "real_entry_first": own})
                total += (answer.claims[0].support or 0.0) if own else 0.0
        found |= ask_commands(engine, dict.fromkeys(command for command, _, _ in asked))
        pprint({**found, "real_mean_probability": round(total / max(1, found["real_entry_first"]), 3)})


if __name__ == "__main__":
    main()
