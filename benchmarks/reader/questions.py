"""Our own questions on public files, as folders that ``python -m benchmarks.reader --more`` trains on.

    python -m benchmarks.reader.questions --data DIR --sources FOLDER --out FOLDER

``questions.jsonl.gz`` has the questions with their answers, and a hash of the passage that each was written on, but no
passages: those belong to others. ``--sources`` is a folder with a checkout of every repository of ``SOURCES`` (of
what is behind a colon, only that folder) in a folder named like its key; ``man`` is a copy of a system's manual pages.
``--out`` gets nine folders:

- ``files``: questions as users type them on handbooks, by-laws, minutes, terms, recipes and manuals, two in five of
  which their passage does not answer, though it has a plausible wrong answer;
- ``adversarial``: questions on SQuAD 1.1's paragraphs, reviews and forum comments that these do not answer, written
  after SQuAD 2.0's unanswerable questions (Rajpurkar et al., ACL 2018);
- ``shifts``: SQuADShifts' questions on reviews, comments and Wikipedia (Miller et al., ICML 2020), as published;
- ``pairs``: 17,400 unanswerable questions of SQuAD 2.0's train set, each with the answerable one that it resembles, as
  paired by Zhu et al. ("Learning to Ask Unanswerable Questions", ACL 2019), on SQuAD 1.1's paragraphs. What they call
  their test part is left out: it is of the development set, which others are measured with. ``claims.jsonl.gz`` there
  has every question with the answer of the answerable one, which looks right for the other;
- ``natural``: 6,654 questions of Natural Questions' train set with the paragraph that answers them, as chosen for QED
  (Lamm et al., TACL 2021), and some of them with a name, number or word changed, so that it does not; beside SQuAD
  1.1's paragraphs, which may look as if they answered;
- ``presupposed``: questions whose passage says only what they presuppose, made of all these (see ``presupposed.py``);
- ``tables``: questions on the cells of tables made up at random (see ``tables.py``);
- ``labels``: questions on things described by labelled lines, made up at random (see ``labels.py``);
- ``opinions``: questions for an opinion on SQuADShifts' reviews and comments (see ``opinions.py``).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.reader import labels, opinions, presupposed, tables
from benchmarks.reader.data import read_lines, replaced, rows_of, swapped, write_lines
from shared_core.documents import DocumentIndex
from shared_core.errors import InputError
from shared_core.reading.features import STOP_WORDS
from shared_core.types import Passage

FILE = Path(__file__).with_name("questions.jsonl.gz")
SOURCES: Mapping[str, str] = {
    "gov": "18F/handbook@1e495563",
    "clef": "clef/handbook@a9a576eb",
    "suncoast": "suncoast-devs/handbook@67cd56c6",
    "carp": "carpentries/docs.carpentries.org@0051f423",
    "borg": "borgbackup/borg@fc74d5f6:docs",
    "restic": "restic/restic@a80be147:doc",
    "pack": "pypa/packaging.python.org@ab499485:source",
    "prom": "prometheus/docs@c105550a",
    "tsc": "nodejs/TSC@0e35767c",
    "cook": "LukeSmithxyz/based.cooking@2d8642ec:content",
    "noise": "noisebridge/bureaucracy@5870c6e1",
    "legal": "mozilla/legal-docs@f098c175:en",
    "pubcode": "publiccodenet/standard@d7c76d39",
    "marlin": "MarlinFirmware/MarlinDocumentation@9ceeb6e4",
    "octo": "OctoPrint/OctoPrint@744c8359:docs",
    "man": "manual pages of Debian 12, as /usr/share/man",
    "shifts": "albertvillanova/squadshifts-website@b7cc4d50",
    "pairs": "haichao592/UnAnsQ@2400c753",
    "natural": "google-research-datasets/QED@71e19e08",
}
"""Where the passages come from: GitHub repositories at a commit."""
SHIFTS = ("amazon_reviews", "reddit", "new_wiki")
_ADVERSARIAL = ("squad1", "shifts")
_LEAST = 150  # characters of a passage
_PAIRS = ("train", "dev")
_NOT_PASSAGES = ("shifts", "pairs", "natural")
_QED = tuple(f"nq-train-{part:02}-qed.jsonlines" for part in range(6))
_MOST = 4000  # characters of a paragraph; longer ones are tables
_LONGEST = 120  # characters of an answer
_TABLES = 2500
_LABELS = 2000
_SWAPS, _REPLACEMENTS = 2000, 2500  # of Natural Questions' at most
_WORD = re.compile(r"[^\W\d_]+")
_JOINED = (  # undo the tokenization of public questions and paragraphs
    (re.compile(r"`` ?| ?''"), '"'),
    (re.compile(r" -- "), " – "),
    (re.compile(r"(?<=\d) , (?=\d{3}\b)"), ","),
    (re.compile(r"(?<=\w) ([-–/]) (?=\w)"), r"\1"),
    (re.compile(r" (?=[?.,!;:%)\]]|n['’]t\b|['’](?:s|re|ve|ll|d|m)\b)"), ""),
    (re.compile(r"(?<=[(\[$£€]) "), ""),
)


def fingerprint(text: str) -> str:
    """Hash a passage's text to 12 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def passages_of(folder: Path, names: Collection[str]) -> dict[str, dict[str, str]]:
    """Index the files of these names below ``folder``; returns the passages by ``fingerprint``."""
    files = sorted(p for p in folder.rglob("*") if p.name in names and p.is_file())
    index = DocumentIndex(None, dense=False)
    index.update([str(f) for f in files])
    found = {}
    for p in index.passages():
        if len(p.text) > _LEAST:
            key = fingerprint(p.text)
            found[key] = {"id": f"{folder.name}/{key}", "title": p.title, "text": p.text}
    return found


def shifts_of(folder: Path) -> tuple[dict[str, dict[str, str]], list[dict[str, Any]]]:
    """Read SQuADShifts; returns the passages by ``fingerprint``, and the questions with the answers found in place."""
    passages: dict[str, dict[str, str]] = {}
    questions = []
    for name in SHIFTS:
        for article in json.loads(_shifts_file(folder, name).read_text("utf-8"))["data"]:
            for paragraph in article["paragraphs"]:
                text = paragraph["context"]
                title = article["title"].replace("_", " ") if name == "new_wiki" else ""
                key = fingerprint(text)
                passages[key] = {"id": f"shifts/{key}", "title": title, "text": text}
                for asked in paragraph["qas"]:
                    spans = dict.fromkeys((a["text"], int(a["answer_start"])) for a in asked["answers"])
                    held = [(a, at) for a, at in spans if text.startswith(a, at)]
                    if held:
                        questions.append(_row(asked["question"].strip(), f"shifts/{key}", held))
    return passages, questions


def pairs_of(
    folder: Path, asked: Sequence[Mapping[str, Any]], passages: Mapping[str, Mapping[str, str]]
) -> list[dict[str, Any]]:
    """Pair unanswerable questions with those of SQuAD 1.1 that they resemble; both get the latter's paragraph.

    Args:
        folder: a checkout of the pairs.
        asked: SQuAD 1.1's questions. A pair whose answerable question is not among them, or is asked of several
            paragraphs, is left out.
        passages: SQuAD 1.1's paragraphs by id.
    """
    everywhere = _spellings(p["text"] for p in passages.values())
    by_letters: dict[str, list[Mapping[str, Any]]] = {}
    for row in asked:
        by_letters.setdefault(_letters(row["question"]), []).append(row)
    rows = []
    for part in _PAIRS:
        sides = (_pair_file(folder, part, kind).read_text("utf-8").splitlines() for kind in ("", "un"))
        for answerable, unanswerable in zip(*sides, strict=True):
            found = by_letters.get(_letters(answerable.split("\t")[1]), [])
            if len(found) == 1:
                row = dict(found[0])
                here = _spellings([passages[row["passage_id"]]["text"], row["question"]])
                question = _joined(unanswerable.split("\t")[1], everywhere | here)
                rows += [row, _row(question, row["passage_id"], [])]
    return rows


def natural_of(folder: Path, asked: Collection[str]) -> tuple[dict[str, dict[str, str]], list[dict[str, Any]]]:
    """Read QED's questions of Natural Questions' train set; returns the passages by ``fingerprint``, and the questions.

    Args:
        folder: a checkout of QED.
        asked: questions to leave out, since they are measured with.
    """
    passages: dict[str, dict[str, str]] = {}
    questions = []
    left_out = {_letters(question) for question in asked}
    for name in _QED:
        for line in (folder / name).read_text("utf-8").splitlines():
            row = json.loads(line)
            whole = row["paragraph_text"]
            text = _untokenized(whole)
            answers = [(_untokenized(whole[a:b].lstrip(" .,;:")), a / len(whole)) for a, b in row["answer_spans"]]
            spans = [(answer, _nearest(text, answer, share)) for answer, share in answers]
            usable = len(text) <= _MOST and all(at >= 0 and len(answer) <= _LONGEST for answer, at in spans)
            if not usable or _letters(row["question_text"]) in left_out:
                continue
            key = fingerprint(text)
            passages[key] = {"id": f"natural/{key}", "title": row["title_text"], "text": text}
            questions.append(_row(row["question_text"], f"natural/{key}", spans))
    return passages, [*questions, *_changed(questions, passages)]


def _changed(questions: Sequence[Mapping[str, Any]], passages: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    """Change a name, number or word of some questions, so that their paragraphs do not answer them."""
    texts = {p["id"]: Passage(p["id"], p["text"], p["title"]) for p in passages.values()}
    rows = rows_of(questions, texts)
    made = swapped(rows, texts, _SWAPS, random.Random(1)) + replaced(rows, texts, _REPLACEMENTS, random.Random(2))
    return [_row(row.question, row.passage, []) for row in made]


def make(data: Path, sources: Path, out: Path) -> dict[str, tuple[int, int]]:
    """Write the folders; returns, for each, the questions written and those whose passage was not found.

    Raises:
        InputError: a folder or file of a source is missing.
    """
    needed = [sources / name for name in SOURCES if name not in _NOT_PASSAGES]
    needed += [_shifts_file(sources / "shifts", name) for name in SHIFTS]
    needed += [_pair_file(sources / "pairs", part, kind) for part in _PAIRS for kind in ("", "un")]
    needed += [sources / "natural" / name for name in _QED]
    missing = [str(path) for path in needed if not path.exists()]
    if missing:
        raise InputError(
            f"{', '.join(missing)}: no such file or folder.",
            hint="Check out the repositories of SOURCES in benchmarks/reader/questions.py.",
        )
    squad = {r["id"]: r for r in read_lines(data / "reading/squad1_train_passages.jsonl.gz")}
    of_shifts, shifts = shifts_of(sources / "shifts")
    asked = read_lines(FILE)
    known = {
        name: passages_of(sources / name, {r["file"] for r in asked if r["of"] == name})
        for name in SOURCES
        if name not in _NOT_PASSAGES
    }
    known |= {"shifts": of_shifts, "squad1": squad}
    pairs = pairs_of(sources / "pairs", read_lines(data / "reading/squad1_train.jsonl.gz"), squad)
    measured = [r["question"] for r in read_lines(data / "rag/nq_gold_passage.jsonl.gz")]
    of_natural, natural = natural_of(sources / "natural", measured)
    rows: dict[str, list[dict[str, Any]]] = {"files": [], "adversarial": []}
    rows |= {"shifts": shifts, "pairs": pairs, "natural": natural}
    lost = dict.fromkeys(rows, 0)
    for row in asked:
        passage = known[row["of"]].get(row["passage"])
        folder = "adversarial" if row["of"] in _ADVERSARIAL else "files"
        if passage is None:
            lost[folder] += 1
            continue
        answer = row["answer"]
        spans = [(answer, passage["text"].index(answer))] if answer else []
        rows[folder].append(_row(row["question"], passage["id"], spans))

    def used(name: str) -> list[dict[str, str]]:
        ids = {r["passage_id"] for r in rows[name]}
        return [p for some in (squad, of_shifts) for p in some.values() if p["id"] in ids]

    passages: dict[str, list[dict[str, str]]] = {
        "files": [p for name, some in known.items() if name not in _ADVERSARIAL for p in some.values()],
        "adversarial": used("adversarial"),
        "shifts": list(of_shifts.values()),
        "pairs": used("pairs"),
        "natural": [*of_natural.values(), *squad.values()],
    }
    people = [*read_lines(data / "reading/squad1_train.jsonl.gz"), *(row for some in rows.values() for row in some)]
    people = list({(row["question"], row["passage_id"]): row for row in people if row["answerable"]}.values())
    every = {p["id"]: Passage(p["id"], p["text"], p["title"]) for some in passages.values() for p in some}
    for name, made in {
        "presupposed": presupposed.make(every, rows_of(people, every), random.Random(5)),
        "tables": tables.make(every, _TABLES, random.Random(4)),
        "labels": labels.make(tables.names_in(every), _LABELS, random.Random(6)),
        "opinions": opinions.make([every[p["id"]] for p in of_shifts.values() if not p["title"]], random.Random(7)),
    }.items():
        passages[name] = [{"id": p.id, "title": p.title, "text": p.text} for p in made.passages]
        rows[name] = [
            _row(q.question, q.passage, [(a, at) for a, (at, _) in zip(q.answers, q.spans)]) for q in made.questions
        ]
    for name, questions in rows.items():
        write_lines(out / name / "passages.jsonl.gz", passages[name])
        write_lines(out / name / "questions.jsonl.gz", questions)
    write_lines(out / "pairs/claims.jsonl.gz", _claims(pairs))
    return {name: (len(questions), lost.get(name, 0)) for name, questions in rows.items()}


def _shifts_file(folder: Path, name: str) -> Path:
    return folder / f"datasets/{name}_v1.0.json"


def _pair_file(folder: Path, part: str, kind: str) -> Path:
    return folder / f"QG/{part}-{kind}answerable-questions.txt"


def _letters(question: str) -> str:
    return re.sub(r"[\W_]+", "", question.lower())


def _claims(pairs: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Give both questions of a pair the answerable one's answer."""
    for held, other in zip(pairs[::2], pairs[1::2], strict=True):
        answer = {"passage_id": held["passage_id"], "answer": held["answers"][0], "start": held["starts"][0][0]}
        for row in (held, other):
            yield {"question": row["question"], **answer, "right": row is held}


def _spellings(texts: Iterable[str]) -> dict[str, str]:
    """Map each word in lower case to the form it occurs in most often; the questions' capitals are lost."""
    counts: dict[str, Counter[str]] = {}
    for text in texts:
        for word in _WORD.findall(text):
            counts.setdefault(word.lower(), Counter())[word] += 1
    return {word: word if word in STOP_WORDS else forms.most_common(1)[0][0] for word, forms in counts.items()}


def _untokenized(text: str) -> str:
    for pattern, new in _JOINED:
        text = pattern.sub(new, text)
    return text.strip()


def _nearest(text: str, answer: str, share: float) -> int:
    """Return where the answer begins, nearest to this share of the text; -1 if the text lacks it."""
    places = [m.start() for m in re.finditer(re.escape(answer), text)] if answer else []
    return min(places, key=lambda at: abs(at - share * len(text)), default=-1)


def _joined(question: str, spellings: Mapping[str, str]) -> str:
    question = _WORD.sub(lambda word: spellings.get(word.group(), word.group()), _untokenized(question))
    return question[:1].upper() + question[1:]


def _row(question: str, passage: str, spans: Sequence[tuple[str, int]]) -> dict[str, Any]:
    return {
        "question": question,
        "passage_id": passage,
        "answers": [a for a, _ in spans],
        "starts": [[at] for _, at in spans],
        "answerable": bool(spans),
    }


def main() -> None:
    """Run the command line."""
    summary = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reader.questions", description=summary)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    for name, (n, lost) in make(options.data, options.sources, options.out).items():
        print(f"{name}: {n} questions" + (f", {lost} left out, since their passages are not there" if lost else ""))


if __name__ == "__main__":
    main()
