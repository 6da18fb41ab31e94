"""Questions with their passages, from the training splits only, without any question that is measured elsewhere."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.reader.data import replaced, rows_of, swapped
from shared_core.citation import split_sentences
from shared_core.types import Passage

MEASURED = (
    "rag/squad2_tune.jsonl.gz",
    "rag/squad2_test.jsonl.gz",
    "rag/nq_gold_passage.jsonl.gz",
    "ood/subjqa_questions.jsonl.gz",
    "ood/policyqa_questions.jsonl.gz",
    "ood/covidqa_questions.jsonl.gz",
    "ood/twowiki_questions.jsonl.gz",
    "ood/xquad_de.jsonl.gz",
)
"""Files whose questions are measured; none of them is trained on."""
SUPPORT_SOURCES = ("fool_me_twice", "begin_v1")
"""Sources of support/train whose licence allows weights to be published."""
MADE = ("pairs", "natural", "files")
"""Folders of ``benchmarks.reader.questions`` that have unanswerable questions beside answerable ones."""
_GOLD, _OTHER = 900, 260  # characters of the paragraph that is asked about, and of the beginnings beside it
_BESIDE = {"nothing": 48, "beginnings": 34, "paragraphs": 18}
"""Percent of the groups: a paragraph alone, with the beginnings of one to five others, with four whole others."""
_split = lru_cache(16)(split_sentences)  # the questions on a text come one after another
_WRONG = 0.8  # unanswerable questions for one answerable: trained on halves, it declined too often


@dataclass(frozen=True, slots=True)
class Asked:
    """A question; the sentence of its passage that answers it, and the answer (both empty: unanswerable)."""

    question: str
    sentence: str = ""
    answer: str = ""
    passage: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Questions on the same passages."""

    id: str
    passages: tuple[Passage, ...]
    asked: tuple[Asked, ...]


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a compressed file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def same(question: str) -> str:
    """Normalise a question, to find it again: its words in lower case."""
    return " ".join(re.findall(r"\w+", question.casefold()))


def measured(data: Path) -> set[str]:
    """Return the questions that are measured, as ``same`` writes them."""
    return {same(row["question"]) for name in MEASURED if (data / name).exists() for row in read(data / name)}


def answering(text: str, answers: Sequence[str], question: str, start: int | None = None) -> tuple[str, str]:
    """Return the sentence of a text that answers, and the answer as it stands there; ("", "") if there is none.

    Args:
        text: of the passage.
        answers: right ones; the shortest that a sentence holds is taken.
        question: its words decide between several sentences.
        start: offset of the answer, where it is known.
    """
    sentences = [(a, b, text[a:b]) for a, b in _split(text)]
    for answer in sorted(answers, key=len):
        if start is not None:
            found = [s for a, b, s in sentences if a <= start and start + len(answer) <= b]
        else:
            found = [s for _, _, s in sentences if re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", s)]
        if found:
            asked = set(same(question).split())
            return max(found, key=lambda s: len(asked & set(same(s).split()))), answer
    return "", ""


class Sources:
    """SQuAD's paragraphs and questions, grouped; deterministic for a seed.

    Args:
        data: folder of the data.
        seed: of every choice.
        made: what ``benchmarks.reader.questions`` wrote; without it there are no groups of ``MADE``.
        longest: characters of a paragraph that is asked about.
        fewest: questions that a paragraph of SQuAD 1.1 must have.
    """

    def __init__(
        self, data: Path, seed: int = 0, made: Path | None = None, *, longest: int = _GOLD, fewest: int = 3
    ) -> None:
        self.data, self.rng = data, random.Random(seed)
        self.longest, self.fewest = longest, fewest
        self.measured = measured(data)
        self.squad1 = {
            p["id"]: Passage(p["id"], p["text"], p["title"]) for p in self.read("reading/squad1_train_passages")
        }
        every = {p["id"]: Passage(p["id"], p["text"], p["title"]) for p in self.read("rag/corpus")}
        taught = {every[row["passage_id"]].title for row in self.read("rag/squad2_train")}
        self.squad2 = {i: p for i, p in every.items() if i.startswith("squad2/") and p.title in taught}
        self.by_title: dict[str, list[Passage]] = defaultdict(list)
        for passage in self.squad1.values():
            self.by_title[passage.title].append(passage)
        self.asked: dict[str, list[Asked]] = defaultdict(list)
        rows = list(self._questions("reading/squad1_train"))
        for row in rows:
            first = next((starts[0] for starts in row["starts"] if starts), None)
            self._add(row, self.squad1[row["passage_id"]], row["answers"][:1], first)
        self.changed: dict[str, list[Asked]] = defaultdict(list)
        some = rows_of(rows, self.squad1)
        for make, limit in ((swapped, 20_000), (replaced, 10_000)):
            for changed in make(some, self.squad1, limit, self.rng):
                if same(changed.question) not in self.measured:
                    self.changed[changed.passage].append(Asked(changed.question.strip()))
        self.asked2: dict[str, list[Asked]] = defaultdict(list)
        for row in self._questions("rag/squad2_train"):
            passage = self.squad2[row["passage_id"]]
            if row["answerable"]:
                sentence, answer = answering(passage.text, row["answers"], row["question"])
                if sentence:
                    self.asked2[passage.id].append(Asked(row["question"].strip(), sentence, answer, passage.id))
            else:
                self.asked2[passage.id].append(Asked(row["question"].strip(), passage=passage.id))
        self.further = {} if made is None else {name: self._read_made(made / name) for name in MADE}
        self.misleading = {
            passage.text: [Asked(a.question) for a in asked if not a.answer]
            for passage, asked in self.further.get("pairs", [])
        }

    def _read_made(self, folder: Path, *, mixed: bool = True) -> list[tuple[Passage, list[Asked]]]:
        """Return short paragraphs with their questions; ``mixed``: those that have answerable and unanswerable ones."""
        passages = {p["id"]: Passage(p["id"], p["text"], p["title"]) for p in read(folder / "passages.jsonl.gz")}
        found: dict[str, list[Asked]] = defaultdict(list)
        for row in read(folder / "questions.jsonl.gz"):
            passage, question = passages[row["passage_id"]], row["question"].strip()
            if same(question) in self.measured or len(passage.text) > self.longest:
                continue
            if not row["answerable"]:
                found[passage.id].append(Asked(question, passage=passage.id))
                continue
            start = next((starts[0] for starts in row["starts"] if starts), None)
            sentence, answer = answering(passage.text, row["answers"][:1], question, start)
            if sentence and len(sentence) < 400:
                found[passage.id].append(Asked(question, sentence, answer, passage.id))
        kept = {i: some for i, some in found.items() if not mixed or len({bool(a.answer) for a in some}) == 2}
        return [(passages[i], some) for i, some in kept.items()]

    def read(self, name: str) -> Iterator[dict[str, Any]]:
        return read(self.data / f"{name}.jsonl.gz")

    def _questions(self, name: str) -> Iterator[dict[str, Any]]:
        return (row for row in self.read(name) if same(row["question"]) not in self.measured)

    def _add(self, row: dict[str, Any], passage: Passage, answers: Sequence[str], start: int | None) -> None:
        sentence, answer = answering(passage.text, answers, row["question"], start)
        if sentence and len(sentence) < 400:
            self.asked[passage.id].append(Asked(row["question"].strip(), sentence, answer, passage.id))

    def groups1(self, count: int, each: int) -> list[Group]:
        """Group questions of SQuAD 1.1 with questions of other paragraphs, and with some that were changed.

        Args:
            count: number of groups.
            each: questions of a group at most.
        """
        groups = []
        fits = {i for i, p in self.squad1.items() if len(p.text) <= self.longest}
        ids = [i for i, some in self.asked.items() if len(some) >= self.fewest and i in fits]
        for gold_id in self.rng.sample(ids, min(count, len(ids))):
            gold = self.squad1[gold_id]
            others = [p for p in self.by_title[gold.title] if p.id != gold_id and self.asked.get(p.id)]
            absent = self.rng.sample(others, min(3, len(others)))
            beside = [p for p in others if p not in absent]
            passages = self._beside(gold, beside, self.squad1)
            shown = same(" ".join(f"{p.title} {p.text}" for p in passages))
            foreign = [a for p in absent for a in self.asked[p.id] if f" {same(a.answer)} " not in f" {shown} "]
            changed = self.rng.sample(self.changed[gold_id], min(2, len(self.changed[gold_id])))
            foreign = self.rng.sample(foreign, min(len(foreign), 2)) + changed
            groups.append(self._group(gold, passages, self.asked[gold_id], foreign, each))
        return groups

    def groups2(self, count: int, each: int) -> list[Group]:
        """Group questions of SQuAD 2.0, about half of them written to have no answer; arguments as ``groups1``."""
        groups = []
        ids = [i for i, some in self.asked2.items() if len(some) >= 3]
        self.rng.shuffle(ids)
        for gold_id in [ids[n % len(ids)] for n in range(count)]:
            gold, some = self.squad2[gold_id], self.asked2[gold_id]
            beside = [p for p in self.squad2.values() if p.title == gold.title and p.id != gold_id]
            passages = self._beside(gold, beside, self.squad2)
            absent = [Asked(a.question) for a in some if not a.answer]
            groups.append(self._group(gold, passages, [a for a in some if a.answer], absent, each))
        return groups

    def made_groups(self, name: str, count: int, each: int) -> list[Group]:
        """Group questions of one folder of ``made``: answerable ones beside the like that are not.

        Args:
            name: ``pairs``, ``natural`` or ``files``.
            count: number of groups; fewer where the folder has fewer.
            each: questions of a group at most.
        """
        some = self.further.get(name, [])
        return [
            self._group(
                gold,
                self._beside(gold, self.by_title[gold.title], self.squad1) if name == "pairs" else (gold,),
                [a for a in asked if a.answer],
                [a for a in asked if not a.answer],
                each,
            )
            for gold, asked in self.rng.sample(some, min(count, len(some)))
        ]

    def whole_groups1(self, each: int) -> list[Group]:
        """Group every paragraph of SQuAD 1.1 as ``groups1`` does, with misleading questions where people wrote some."""
        groups = []
        for group in self.groups1(len(self.asked), each):
            right, wrong = ([a for a in group.asked if bool(a.answer) is answered] for answered in (True, False))
            misleading = self.misleading.get(self.squad1[group.id].text, [])
            if misleading:
                count = max(1, round(_WRONG * len(right)))
                wrong = (self.rng.sample(misleading, min(count, len(misleading))) + wrong)[:count]
            groups.append(Group(group.id, group.passages, (*right, *wrong)))
        return groups

    def lone_groups(self, folder: Path) -> list[Group]:
        """Group paragraphs whose questions all have answers with a question on another one, four times of five."""
        some = self._read_made(folder, mixed=False)
        every = {p.id: p for p, _ in some}
        groups = []
        for gold, asked in some:
            passages = self._beside(gold, (), every)
            text = f" {same(' '.join(p.text for p in passages))} "
            other = self.rng.choice(self.rng.choice(some)[1])
            foreign = self.rng.random() < _WRONG and f" {same(other.answer)} " not in text
            groups.append(Group(gold.id, passages, (*asked[:3], *([Asked(other.question)] if foreign else []))))
        return groups

    def held_groups(self, name: str, count: int, each: int) -> list[Group]:
        """Group questions of a measured file of SQuAD 2.0 with their paragraphs, to report the loss on.

        Args:
            name: of the file, for instance ``rag/squad2_tune``.
            count, each: as of ``groups1``.
        """
        rows = list(self.read(name))
        gold = {row["passage_id"] for row in rows}
        corpus = (p for p in self.read("rag/corpus") if p["id"] in gold)
        passages = {p["id"]: Passage(p["id"], p["text"], p["title"]) for p in corpus}
        asked: dict[str, list[Asked]] = defaultdict(list)
        for row in rows:
            passage, question = passages[row["passage_id"]], row["question"].strip()
            found = answering(passage.text, row["answers"], question) if row["answerable"] else ("", "")
            if found[0] or not row["answerable"]:
                asked[passage.id].append(Asked(question, *found, passage.id))
        ids = self.rng.sample(sorted(asked), min(count, len(asked)))
        groups = []
        for i in ids:
            right, wrong = ([a for a in asked[i] if bool(a.answer) is answered] for answered in (True, False))
            groups.append(self._group(passages[i], (passages[i],), right, wrong, each))
        return groups

    def _beside(self, gold: Passage, beside: Sequence[Passage], all_of: dict[str, Passage]) -> tuple[Passage, ...]:
        """Put a paragraph among others of its article and of any, whole or their beginnings, or leave it alone."""
        kind = self.rng.choices(list(_BESIDE), list(_BESIDE.values()))[0]
        if kind == "nothing":
            return (gold,)
        whole = kind == "paragraphs"
        near = self.rng.sample(list(beside), min(len(beside), self.rng.choice((3, 4) if whole else (1, 1, 2, 2, 3))))
        count = 4 - len(near) if whole else self.rng.choice((0, 1, 1, 2))
        far = [all_of[i] for i in self.rng.sample(list(all_of), count)]
        most = _GOLD if whole else _OTHER
        cut = [Passage(p.id, _beginning(p.text, most), p.title) for p in [*near, *far] if p.id != gold.id]
        some = [gold, *{p.id: p for p in cut}.values()]
        self.rng.shuffle(some)
        return tuple(some)

    def _group(
        self, gold: Passage, passages: tuple[Passage, ...], some: Sequence[Asked], absent: Sequence[Asked], each: int
    ) -> Group:
        right = self.rng.sample(list(some), min(len(some), 6 * each // 10))
        count = max(1, round(_WRONG * len(right)))
        wrong = [Asked(a.question) for a in self.rng.sample(list(absent), min(len(absent), count))]
        return Group(gold.id, passages, tuple(right + wrong))


def _beginning(text: str, most: int) -> str:
    """Return the first sentences of a text, as many as fit, at least one."""
    ends = [end for _, end in split_sentences(text)]
    return text[: max([ends[0], *(e for e in ends if e <= most)])] if ends else text[:most]
