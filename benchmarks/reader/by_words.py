"""Fit how sentences of other languages than English are ranked and judged, by shared words and the network's scores.

    python -m benchmarks.reader.by_words --data DIR --sources FOLDER [--each 300] [--kept FILE] [--indexes FOLDER]

Writes ``shared_core/reading/weights/by_words.json``.

- XQuAD (Artetxe et al. 2020) in German, Spanish and Chinese: of ``each`` questions in each language a fourth have their
  passage removed, and a third as many more have a number or a name changed.
- Those questions are long, and as near to their sentences as translations are. Everyday ones are those of the sets of
  ``FIT`` in ``benchmarks/strangers.py`` (FOLDER as there), in a language that nobody knows: English with its vowels and
  its consonants exchanged, in question and passages alike.

Prints what each language gets from the model of the others, then fits all. Reading takes half a second a question and
core; ``--kept`` keeps what was found.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.progress import track
from scipy.optimize import minimize

from benchmarks.strangers import FIT, index_files, read_questions
from shared_core.evaluation.metrics.confidence import accuracy_at, auroc, expected_calibration_error
from shared_core.evaluation.metrics.qa import contains_answer
from shared_core.reading.by_words import BY_WORDS, JUDGED, RANKED, ByWords, describe, first_of
from shared_core.reading.confidence import USUAL_SHARE, Logistic
from shared_core.reading.extractive import ExtractiveReader
from shared_core.retrieval import HybridRetriever
from shared_core.types import Passage

LANGUAGES = ("de", "es", "zh")
FILES = "files"
SHARES = {"de": 0.2, "es": 0.2, "zh": 0.1, FILES: 0.5}
"""Of the languages in what is fitted on. Chinese counts less: its questions find few sentences."""
READ = 10
ANSWERABLE = 0.6
"""Share of answerable questions in the mixture; near misses and questions without their passage share the rest.

The model counts as fitted with the usual share all the same, so its probabilities are not raised to that: in a small
folder few sentences show which words are common, and fewer answers were right than the mixture says."""
TARGETS = (0.5, 0.7, 0.8, 0.9)
_NAME = re.compile(r"(?<=\S )[^\W\d_a-z][^\W\d_]{2,}")


@dataclass(frozen=True)
class Asked:
    """A question of a language; ``answers`` is empty if nothing answers it, ``without`` is a passage left out."""

    language: str
    question: str
    answers: tuple[str, ...]
    without: str = ""
    kind: str = "answerable"


@dataclass(frozen=True)
class Seen:
    """A question as read: figures (candidates, 8), whether each is right, the question's kind and language."""

    figures: NDArray[np.float64]
    right: NDArray[np.bool_]
    kind: str
    language: str


def questions_of(data: Path, language: str, each: int) -> list[Asked]:
    """Draw the questions of a language, with those that lost their passage and those that were changed."""
    with gzip.open(data / "ood" / f"xquad_{language}.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    rng = random.Random(0)
    rng.shuffle(rows)
    out = []
    for number, row in enumerate(rows[:each]):
        removed = number % 4 == 0
        answers = () if removed else tuple(row["answers"])
        kind = "removed" if removed else "answerable"
        out.append(Asked(language, row["question"], answers, row["passage"] if removed else "", kind))
    names = [name for row in rows for name in _NAME.findall(row["question"])]
    changed = (changed_question(row["question"], names, rng) for row in rows[each:])
    return out + [Asked(language, q, (), kind="near miss") for q in filter(None, changed)][: each // 3]


def changed_question(question: str, names: Sequence[str], rng: random.Random) -> str:
    """Return a question with another number or name; "" if it has none."""
    if number := re.search(r"\d+", question):
        other = str(int(number[0]) + rng.choice((-7, -3, 2, 4, 11)))
        return question[: number.start()] + other + question[number.end() :]
    found = list(_NAME.finditer(question))
    if not found or not names:
        return ""
    name = rng.choice(found)
    other = rng.choice([n for n in names if n not in question] or [""])
    return question[: name.start()] + other + question[name.end() :] if other else ""


@lru_cache(maxsize=1)
def _reader() -> ExtractiveReader:
    return ExtractiveReader(cache_passages=1024)


@lru_cache(maxsize=3)
def _retriever(data: Path, language: str) -> HybridRetriever:
    with gzip.open(data / "ood" / f"xquad_{language}.jsonl.gz", "rt", encoding="utf-8") as file:
        texts = dict.fromkeys(json.loads(line)["passage"] for line in file)
    return HybridRetriever([Passage(str(i), text) for i, text in enumerate(texts)])


def see(item: tuple[Path, Asked]) -> Seen | None:
    """Retrieve, read, and describe the sentences found; ``None`` if there are none."""
    data, asked = item
    found = _retriever(data, asked.language).retrieve(asked.question, READ + 1)
    passages = [p for p in found if p.text != asked.without][:READ]
    candidates = _reader().candidates(asked.question, passages)
    if not candidates:
        return None
    texts = [passages[c.passage].text[c.start : c.end] for c in candidates]
    right = np.array([contains_answer(text, asked.answers) for text in texts], dtype=bool)
    return Seen(describe(asked.question, passages, candidates), right, asked.kind, asked.language)


_VOWELS, _CONSONANTS = "aeiou", "bcdfghjklmnpqrstvwxyz"
_LETTERS = str.maketrans(
    _VOWELS + _CONSONANTS + (_VOWELS + _CONSONANTS).upper(),
    (turned := _VOWELS[2:] + _VOWELS[:2] + _CONSONANTS[5:] + _CONSONANTS[:5]) + turned.upper(),
)


def disguised(passage: Passage) -> Passage:
    """Return a passage with its letters exchanged; what is at an offset stays there."""
    section = str(passage.metadata.get("section", ""))
    return replace(
        passage,
        text=passage.text.translate(_LETTERS),
        title=passage.title.translate(_LETTERS),
        metadata={**passage.metadata, "section": section.translate(_LETTERS)},
    )


def see_files(item: tuple[Path, Path, str]) -> list[Seen]:
    """Read the questions of a set on strangers' files, all of it disguised."""
    sources, indexes, name = item
    retriever = index_files(sources / name, indexes / name)
    out = []
    for question in read_questions()[name]:
        passages = retriever.retrieve(question.text, READ)
        hidden, asked = [disguised(p) for p in passages], question.text.translate(_LETTERS)
        candidates = _reader().candidates(asked, hidden)
        if not candidates:
            continue
        right = [question.is_answered_by(passages[c.passage].text[c.start : c.end]) for c in candidates]
        kind = "answerable" if question.answers else "unanswerable"
        out.append(Seen(describe(asked, hidden, candidates), np.array(right, dtype=bool), kind, FILES))
    return out


def fit(seen: Sequence[Seen]) -> ByWords:
    """Fit the ranking on questions with a right sentence, and the probability of the first one on all."""
    rank = fit_rank([s for s in seen if s.right.any()])
    rows = np.array([first_of(s.figures, rank)[1] for s in seen])
    right = np.array([s.right[first_of(s.figures, rank)[0][0]] for s in seen])
    return ByWords(rank, fit_right(rows, right, weights_of(seen)), USUAL_SHARE)


def fit_rank(seen: Sequence[Seen]) -> NDArray[np.float64]:
    """Fit the weights by which right sentences have the highest probability among all (softmax)."""
    tables = [s.figures[:, : len(RANKED)] for s in seen]

    def loss(rank: NDArray[np.float64]) -> float:
        total = 0.0
        for table, s in zip(tables, seen, strict=True):
            scores = table @ rank
            total += float(np.logaddexp.reduce(scores) - np.logaddexp.reduce(scores[s.right]))
        return total / len(seen) + 0.001 * float(rank @ rank)

    return np.asarray(minimize(loss, np.array([1.0, 1.0, 0.1, 0.1])).x, dtype=np.float64)


def fit_right(rows: NDArray[np.float64], right: NDArray[np.bool_], weights: NDArray[np.float64]) -> Logistic:
    """Fit a logistic model without products, whose figures are clipped to what was seen."""
    from sklearn.linear_model import LogisticRegression

    low, high = np.quantile(rows, 0.005, axis=0), np.quantile(rows, 0.995, axis=0)
    clipped = np.clip(rows, low, high)
    mean, scale = clipped.mean(axis=0), np.maximum(clipped.std(axis=0), 1e-3)
    model = LogisticRegression(C=0.3).fit((clipped - mean) / scale, right, sample_weight=weights)
    none = np.zeros((len(JUDGED), len(JUDGED)))
    return Logistic(JUDGED, mean, scale, low, high, model.coef_[0], float(model.intercept_[0]), none)


def weights_of(seen: Sequence[Seen]) -> NDArray[np.float64]:
    """Weight the questions so that each language, and each kind in it, has its share; files' kinds are as they come."""
    kinds = {"answerable": ANSWERABLE, "removed": (1 - ANSWERABLE) / 2, "near miss": (1 - ANSWERABLE) / 2}
    counts = Counter((s.language, s.kind) for s in seen)
    sizes = Counter(s.language for s in seen)

    def weight(s: Seen) -> float:
        one_of = 1 / sizes[FILES] if s.language == FILES else kinds[s.kind] / counts[s.language, s.kind]
        return SHARES[s.language] * one_of

    weights: NDArray[np.float64] = np.array([weight(s) for s in seen])
    return np.asarray(weights * len(seen) / weights.sum(), dtype=np.float64)


def report(model: ByWords, seen: Sequence[Seen]) -> Iterator[str]:
    """Yield the figures of a model on questions that it was not fitted on."""
    orders = [first_of(s.figures, model.rank) for s in seen]
    chances = [p or 0.0 for p in model.right.probability(np.array([row for _, row in orders]), JUDGED)]
    right = [bool(s.right[order[0]]) for s, (order, _) in zip(seen, orders, strict=True)]
    held = [r for r, s in zip(right, seen, strict=True) if s.kind == "answerable"]
    yield f"first right {np.mean(held):.3f} of {len(held)}; AUROC {auroc(chances, right):.3f}"
    yield f"calibration error {expected_calibration_error(chances, right):.3f}"
    for target in TARGETS:
        accuracy, coverage = accuracy_at(chances, right, target)
        without = [p > target for p, s in zip(chances, seen, strict=True) if s.kind != "answerable"]
        shown = f"{np.mean(without):.3f} of those without an answer"
        yield f"above {target}: accuracy {accuracy:.3f}, coverage {coverage:.3f}; {shown}"


def gather(data: Path, each: int, sources: Path, indexes: Path) -> list[Seen]:
    """Read all questions, on all cores."""
    items = [(data, asked) for language in LANGUAGES for asked in questions_of(data, language, each)]
    sets = [(sources, indexes, name) for name in FIT]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        files = [s for some in track(pool.map(see_files, sets), "reading files", total=len(sets)) for s in some]
        found = track(pool.map(see, items, chunksize=8), "reading", total=len(items))
        return [*(s for s in found if s is not None), *files]


def load(kept: Path) -> list[Seen]:
    """Return what ``save`` wrote."""
    rows = json.loads(kept.read_text("utf-8"))
    return [Seen(np.array(f), np.array(r, dtype=bool), kind, language) for f, r, kind, language in rows]


def save(seen: Sequence[Seen], kept: Path) -> None:
    """Keep what was read for further fits."""
    kept.write_text(json.dumps([(s.figures.tolist(), s.right.tolist(), s.kind, s.language) for s in seen]), "utf-8")


def main() -> None:
    """Run the command line."""
    summary = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reader.by_words", description=summary)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--each", type=int, default=300, help="questions of each language")
    parser.add_argument("--sources", type=Path, required=True, help="folder of the files, a folder for each set")
    parser.add_argument("--kept", type=Path, help="file that keeps what was read between runs")
    parser.add_argument(
        "--indexes", type=Path, default=Path(".demo/files"), help="folder that keeps the files' indexes"
    )
    options = parser.parse_args()
    if options.kept is not None and options.kept.exists():
        seen = load(options.kept)
    else:
        seen = gather(options.data, options.each, options.sources, options.indexes)
        if options.kept is not None:
            save(seen, options.kept)
    for language in SHARES:
        others, own = ([s for s in seen if (s.language == language) == same] for same in (False, True))
        print(f"{language}, by the others' model: " + "\n    ".join(report(fit(others), own)), flush=True)
    model = fit(seen)
    BY_WORDS.write_text(json.dumps(model.to_dict(), indent=1) + "\n", "utf-8")
    print(f"{BY_WORDS} written, fitted on {len(seen)} questions; weights {model.rank.round(2).tolist()}")


if __name__ == "__main__":
    main()
