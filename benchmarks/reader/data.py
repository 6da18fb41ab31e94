"""Questions for training the extractive reader, with passages that answer them and passages that do not.

There are three kinds, all from public data (see ``reading/weights/network.json``): questions of SQuAD 1.1 with their
paragraph and similar paragraphs of other questions; the same questions with a name, number, direction or another word
changed, so that their paragraph no longer answers them (after the adversarial questions of SQuAD 2.0: Rajpurkar et
al., ACL 2018, sec. 3); and SQuAD 2.0's own with their retrieved passages.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from shared_core.citation.sentences import split_sentences
from shared_core.evaluation.metrics.qa import contains_answer
from shared_core.reading.features import RARITY_BUCKETS, Tokens, Words, words_of
from shared_core.reading.network import Pieces, PieceTokenizer
from shared_core.types import Passage

_NAME = re.compile(r"(?<![.?!]\s)(?<!^)\b(?!I\b)[A-Z][\w'’.-]*(?:\s+(?:of\s+|the\s+|de\s+)?[A-Z][\w'’.-]*)*")
_NUMBER = re.compile(r"\b\d[\d,.]*\d\b|\b\d\b")
_VERB = re.compile(r"\b(was|were|is|are|did|does|do|can|could|has|had)\b")
_OPPOSITES = (
    "first last;north south;east west;northern southern;eastern western;highest lowest;largest smallest;most least;"
    "more less;before after;increase decrease;increased decreased;early late;oldest youngest;longest shortest;"
    "major minor;beginning end;began ended;started ended;won lost;male female;men women;higher lower;greater smaller;"
    "best worst;inside outside;above below;older newer;father mother;son daughter;king queen;public private;"
    "add remove;support oppose;supported opposed;legal illegal;rich poor;hot cold;summer winter;entered left;"
    "created destroyed;win lose;joined left;allow prohibit;allowed prohibited;cause prevent;caused prevented;"
    "large small;strong weak;fast slow;upper lower;positive negative;buy sell;bought sold;modern ancient;"
    "popular unpopular;common rare;always never;accept reject;accepted rejected"
)
_PAIRS = [(pair.split()[0], pair.split()[1]) for pair in _OPPOSITES.split(";")]
OPPOSITE: Mapping[str, str] = dict(_PAIRS) | {b: a for a, b in _PAIRS}
_PIECE = re.compile(r"\w+|[^\w\s]")
_FUNCTION_WORD = re.compile(
    "been|being|does|have|what|which|whom|whose|when|where|many|much|that|this|these|those|into|than|their|they|there|"
    "could|would|will|shall|should|might|with|from|were|name|called|type|kind|following|some|other"
)
_NEGATED = 0.06  # share of swapped questions that are negated instead
_FROM_PASSAGE = 0.5  # share of swaps that take the new name from the paragraph itself


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question with its paragraph; ``spans`` are code points of right answers there, empty if it has no answer."""

    question: str
    passage: str
    answers: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Text:
    """A passage prepared for the network: words, stems of the title, windows with their tokens, sentences."""

    words: Words
    title: NDArray[np.int64]
    windows: list[tuple[Pieces, Tokens]]
    sentences: list[tuple[int, int]]


@dataclass(slots=True)
class Corpus:
    """Passages by id, prepared when first needed."""

    tokenizer: PieceTokenizer
    rarity: NDArray[np.float32]
    passages: Mapping[str, Passage]
    known: dict[str, Text] = field(default_factory=dict)

    def __getitem__(self, passage_id: str) -> Text:
        """Return the prepared passage."""
        if passage_id not in self.known:
            p = self.passages[passage_id]
            self.known[passage_id] = self.cut(p.text, p.title)
        return self.known[passage_id]

    def cut(self, text: str, title: str = "") -> Text:
        """Prepare any text."""
        sentences = split_sentences(text)
        words = words_of(text, self.rarity)
        pieces = self.tokenizer.windows(text, title, sentences)
        windows = [(p, Tokens.of(words, p.body_ids, p.starts, sentences)) for p in pieces]
        return Text(words, words_of(title, self.rarity).content, windows, sentences)

    def prepare(self, passage_ids: Iterable[str]) -> None:
        """Prepare these now, with a progress bar, so that training does not have to."""
        for passage_id in track(list(passage_ids), "preparing passages"):
            _ = self[passage_id]

    def holds(self, passage_id: str, answers: Sequence[str]) -> bool:
        """Return whether the passage holds one of the answers."""
        return contains_answer(self.passages[passage_id].text, answers)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a gzipped JSON-lines file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a gzipped JSON-lines file, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def read_passages(path: Path) -> dict[str, Passage]:
    """Read the passages of a gzipped JSON-lines file, by id."""
    return {r["id"]: Passage(r["id"], r["text"], r.get("title", "")) for r in read_lines(path)}


def rows_of(data: Sequence[Mapping[str, Any]], passages: Mapping[str, Passage]) -> list[QuestionRow]:
    """Make rows of the questions whose answers occur in their paragraph, and of those without an answer."""
    out = []
    for r in data:
        if not r["answerable"]:
            out.append(QuestionRow(r["question"], r["passage_id"], (), ()))
            continue
        text = passages[r["passage_id"]].text
        if "starts" in r:  # the first occurrence is the annotated one
            spans = [(s[0], s[0] + len(a)) for a, s in zip(r["answers"], r["starts"]) if s]
        else:
            found = [(text.find(a), a) for a in dict.fromkeys(r["answers"])]
            spans = [(i, i + len(a)) for i, a in found if i >= 0]
        if spans:
            out.append(QuestionRow(r["question"], r["passage_id"], tuple(r["answers"]), tuple(spans)))
    return out


def rarities(texts: Sequence[str]) -> NDArray[np.float32]:
    """Compute (RARITY_BUCKETS,) ln((N + 1) / texts with the stem) / 10, in [0, 1.2]; 0.5 texts for unseen stems."""
    counts = np.full(RARITY_BUCKETS, 0.5)
    table: dict[int, int] = {}
    zeros = np.zeros(RARITY_BUCKETS, np.float32)
    for text in texts:
        for code in np.unique(words_of(text, zeros).stem):
            table[int(code)] = table.get(int(code), 0) + 1
    for code, count in table.items():
        counts[code % RARITY_BUCKETS] = max(counts[code % RARITY_BUCKETS], count)
    return np.clip(np.log((len(texts) + 1) / counts) / 10, 0, 1.2).astype(np.float32)


def swapped(
    rows: Sequence[QuestionRow], passages: Mapping[str, Passage], limit: int, rng: random.Random
) -> list[QuestionRow]:
    """Change a name, number or direction in up to ``limit`` questions, so that their paragraph does not answer them."""
    names: dict[str, list[str]] = {}
    numbers: dict[str, list[str]] = {}
    for row in rows:
        title = passages[row.passage].title
        names.setdefault(title, []).extend(_NAME.findall(row.question))
        numbers.setdefault(title, []).extend(_NUMBER.findall(row.question))
    out: list[QuestionRow] = []
    for row in rng.sample(list(rows), len(rows)):
        if len(out) >= limit:
            break
        title = passages[row.passage].title
        changed = _swap(row, passages[row.passage].text, names[title], numbers[title], rng)
        if changed:
            out.append(QuestionRow(changed, row.passage, (), ()))
    return out


def replaced(
    rows: Sequence[QuestionRow], passages: Mapping[str, Passage], limit: int, rng: random.Random
) -> list[QuestionRow]:
    """Replace one word in up to ``limit`` questions, so that their paragraph does not answer them.

    The new word has the same two neighbours in another question, and occurs in the paragraph or in questions about its
    article: "Which painters left the island" for "Which sailors". A few new words are synonyms, which is noise.
    """
    slots: dict[tuple[str, str], dict[str, set[str]]] = {}
    for row in rows:
        title = passages[row.passage].title
        for before, word, after in _triples(row.question):
            slot = slots.setdefault((before.group().lower(), after.group().lower()), {})
            slot.setdefault(word.group(), set()).add(title)
    known: dict[str, set[str]] = {}
    out: list[QuestionRow] = []
    for row in rng.sample(list(rows), len(rows)):
        if len(out) >= limit:
            break
        passage = passages[row.passage]
        here = known.setdefault(row.passage, {w.lower() for w in _PIECE.findall(passage.text)})
        options = [
            (match, new)
            for before, match, after in _triples(row.question)
            for new, titles in slots[before.group().lower(), after.group().lower()].items()
            if new[:4] != match.group()[:4]
            and (new in here or passage.title in titles)
            and not any(new in answer.lower() for answer in row.answers)
        ]
        if options:
            match, new = rng.choice(sorted(options, key=lambda option: (option[0].start(), option[1])))
            out.append(
                QuestionRow(row.question[: match.start()] + new + row.question[match.end() :], row.passage, (), ())
            )
    return out


def _triples(question: str) -> list[tuple[re.Match[str], re.Match[str], re.Match[str]]]:
    """Return the words that may be replaced, with their neighbours."""
    pieces = list(_PIECE.finditer(question))
    return [(a, w, b) for a, w, b in zip(pieces, pieces[1:], pieces[2:]) if _is_content(w.group())]


def _is_content(word: str) -> bool:
    return word.islower() and word.isalpha() and len(word) > 3 and not _FUNCTION_WORD.fullmatch(word)


def _swap(row: QuestionRow, text: str, names: list[str], numbers: list[str], rng: random.Random) -> str | None:
    question = row.question
    verb = _VERB.search(question)
    if verb and rng.random() < _NEGATED:
        return question[: verb.end()] + rng.choice((" not", " never")) + question[verb.end() :]
    places = [(_NAME, names, m) for m in _NAME.finditer(question)]
    places += [(_NUMBER, numbers, m) for m in _NUMBER.finditer(question)]
    turns = [m for m in re.finditer(r"\b[a-z]+\b", question) if m.group() in OPPOSITE]
    # Words with an opposite are rarer than names and numbers, so each counts twice.
    at = rng.randrange(len(places) + 2 * len(turns)) if places or turns else -1
    if at < 0:
        return None
    if at >= len(places):
        match = turns[(at - len(places)) // 2]
        new = OPPOSITE[match.group()]
    else:
        pattern, others, match = places[at]
        pool = pattern.findall(text) if rng.random() < _FROM_PASSAGE else others
        fitting = [
            x
            for x in pool
            if x.lower() not in question.lower()
            and match.group().lower() not in x.lower()
            and not any(x in a or a in x for a in row.answers)
        ]
        if not fitting:
            return None
        new = rng.choice(fitting)
    return question[: match.start()] + new + question[match.end() :]
