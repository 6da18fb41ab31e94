"""Questions about documents of many kinds with their retrieved passages, to fit probabilities on and to report.

Every set has a half to fit on and a half to report, which share no article, policy or document. For a share of the
questions (``REMOVED``) the passages that answer are removed; near misses ask about another name or number; strangers
ask about other subjects than the documents'.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from benchmarks.reader.data import QuestionRow, read_lines, read_passages, swapped
from benchmarks.reader.documents import documents
from shared_core.documents.chunking import chunk_document
from shared_core.documents.load import Document
from shared_core.reading.base import Rate
from shared_core.types import Passage

SMALL_DOCUMENTS = Path(__file__).resolve().parents[1] / "small_documents.jsonl"
Half = Literal["fit", "report"]
Kind = Literal["answerable", "removed", "adversarial", "near miss", "stranger"]
REMOVED = 0.25
READ = 10
"""Passages retrieved for a question and read."""


class Retrieves(Protocol):
    """A retriever of passages for many questions."""

    def retrieve_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the best ``k`` passages for each query."""
        ...


@dataclass(frozen=True, slots=True)
class Case:
    """A question with what was retrieved for it.

    Attributes:
        question: the question.
        answers: right answers; empty if the documents hold none.
        passages: retrieved passages, best first.
        kind: whether it is answerable, or why not.
        gold: ids of the passages that hold the answer, or would.
    """

    question: str
    answers: tuple[str, ...]
    passages: tuple[Passage, ...]
    kind: Kind
    gold: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question before retrieval; ``group`` keeps halves apart."""

    question: str
    answers: tuple[str, ...]
    gold: tuple[str, ...]
    group: str


def share(text: str, salt: str = "") -> float:
    """Hash a text to a number in [0, 1)."""
    return int.from_bytes(hashlib.sha256(f"{salt}|{text}".encode()).digest()[:4], "big") / 2**32


def half_of(asked: Sequence[AskedQuestion], half: Half) -> list[AskedQuestion]:
    """Return the questions whose group belongs to this half."""
    return [a for a in asked if (share(a.group, "half") < 0.5) == (half == "fit")]


def cases(asked: Sequence[AskedQuestion], retriever: Retrieves, *, removed: float = REMOVED) -> list[Case]:
    """Retrieve for each question; for a share ``removed``, leave out the passages that answer."""
    most = max((len(a.gold) for a in asked), default=0)
    found = retriever.retrieve_many([a.question for a in asked], k=READ + most)
    out = []
    for a, passages in zip(asked, found):
        if not a.answers:
            out.append(Case(a.question, (), tuple(passages[:READ]), "adversarial", a.gold))
        elif share(a.question, "removed") < removed:
            rest = [p for p in passages if p.id not in a.gold][:READ]
            out.append(Case(a.question, (), tuple(rest), "removed", a.gold))
        else:
            out.append(Case(a.question, a.answers, tuple(passages[:READ]), "answerable", a.gold))
    return out


def near_misses(
    asked: Sequence[AskedQuestion], passages: Mapping[str, Passage], retriever: Retrieves, n: int
) -> list[Case]:
    """Make questions with a changed name or number, whose retrieved passages are about something similar."""
    rows = [QuestionRow(a.question, a.gold[0], a.answers, ()) for a in asked if a.answers and a.gold[0] in passages]
    changed = [r.question for r in swapped(rows, passages, n, random.Random(3))]
    found = retriever.retrieve_many(changed, k=READ)
    return [Case(q, (), tuple(p), "near miss") for q, p in zip(changed, found)]


def strangers(questions: Sequence[str], retriever: Retrieves, n: int) -> list[Case]:
    """Make cases of questions that were asked about other documents."""
    some = random.Random(4).sample(list(questions), min(n, len(questions)))
    found = retriever.retrieve_many(some, k=READ)
    return [Case(q, (), tuple(p), "stranger") for q, p in zip(some, found) if p]


# --- the sets --------------------------------------------------------------------------------------------------------


def wikipedia(data: Path) -> list[Passage]:
    """Load the corpus of the Wikipedia sets."""
    return list(read_passages(data / "rag/corpus.jsonl.gz").values())


def squad2(data: Path, half: Half) -> list[AskedQuestion]:
    """Load SQuAD 2.0: its tune part to fit on, its test part to report; half is unanswerable, written to mislead."""
    rows = read_lines(data / f"rag/squad2_{'tune' if half == 'fit' else 'test'}.jsonl.gz")
    return [AskedQuestion(r["question"], tuple(r["answers"]), (r["passage_id"],), "") for r in rows]


def natural_questions(data: Path, half: Half) -> tuple[list[AskedQuestion], list[Passage]]:
    """Load Natural Questions, and the passages to add to the corpus for them."""
    rows = read_lines(data / "rag/nq_gold_passage.jsonl.gz")
    asked = [AskedQuestion(r["question"], tuple(r["answers"]), (r["id"],), r["id"]) for r in rows]
    return half_of(asked, half), [Passage(r["id"], r["passage"], r["title"]) for r in rows]


def policies(data: Path, half: Half) -> dict[str, tuple[list[AskedQuestion], list[Passage]]]:
    """Load PolicyQA: by policy, its questions with the answers of all annotators, and its passages."""
    rows = [r for r in read_lines(data / "ood/policyqa_questions.jsonl.gz") if r["split"] == "tune"]
    texts = read_lines(data / "ood/policyqa_passages.jsonl.gz")
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for r in rows:
        grouped.setdefault((r["policy"], r["question"]), []).append(r)
    out: dict[str, tuple[list[AskedQuestion], list[Passage]]] = {}
    for policy in sorted({r["policy"] for r in rows}):
        asked = [
            AskedQuestion(
                question,
                tuple(dict.fromkeys(a for r in some for a in r["answers"])),
                tuple(dict.fromkeys(r["passage_id"] for r in some)),
                policy,
            )
            for (where, question), some in grouped.items()
            if where == policy
        ]
        if asked := half_of(asked, half):
            passages = [Passage(t["id"], t["text"], t["title"]) for t in texts if t["id"].rpartition("#")[0] == policy]
            out[policy] = asked, passages
    return out


def articles(data: Path, half: Half) -> tuple[list[AskedQuestion], list[Passage]]:
    """Load COVID-QA: questions on long biomedical articles, and the articles' chunks, without a share of articles."""
    documents = read_lines(data / "ood/covidqa_documents.jsonl.gz")
    mine = {d["id"] for d in documents if (share(d["id"], "half") < 0.5) == (half == "fit")}
    gone = {d for d in mine if share(d, "removed") < REMOVED}
    passages = [
        passage
        for d in documents
        if d["id"] in mine - gone
        for passage in chunk_document(Document(d["id"], d["text"], title=d["title"]))
    ]
    asked = []
    for r in read_lines(data / "ood/covidqa_questions.jsonl.gz"):
        if r["document_id"] in mine:
            answers = () if r["document_id"] in gone else tuple(r["answers"])
            gold = tuple(
                p.id for p in passages if p.id.startswith(f"{r['document_id']}#") and any(a in p.text for a in answers)
            )
            asked.append(AskedQuestion(r["question"], answers, gold, r["document_id"]))
    return asked, passages


def reviews(data: Path, half: Half) -> list[Case]:
    """Load SubjQA: questions on one review each; a share of them gets another review of its domain."""
    part = "train" if half == "fit" else "tune"
    rows = [r for r in read_lines(data / "ood/subjqa_questions.jsonl.gz") if r["split"] == part and r["answerable"]]
    texts = {r["id"]: r for r in read_lines(data / "ood/subjqa_reviews.jsonl.gz")}
    alike: dict[str, list[str]] = {}
    for r in rows:
        alike.setdefault(r["domain"], []).append(r["review_id"])
    out = []
    for r in rows:
        gone = share(r["id"], "removed") < REMOVED
        others = [i for i in alike[r["domain"]] if i != r["review_id"]]
        review = random.Random(r["id"]).choice(others) if gone else r["review_id"]
        chunks = chunk_document(Document(review, texts[review]["text"]))[:READ]
        answers = () if gone else tuple(r["answers"])
        out.append(Case(r["question"], answers, tuple(chunks), "removed" if gone else "answerable"))
    return out


def small_documents(data: Path, half: Half) -> list[Case]:
    """Load questions on made-up everyday documents, each beside its document; six in ten are near misses.

    To fit on: part "fit" of ``benchmarks/small_documents.jsonl``, and what no network was trained on of ``documents``.
    To report: the former's part "test".
    """
    part = "fit" if half == "fit" else "test"
    rows = [json.loads(line) for line in SMALL_DOCUMENTS.read_text("utf-8").splitlines()]
    rows = [row for row in rows if row["part"] == part]
    if half == "fit":
        rows += documents(data, held_out=True)
    out = []
    for number, row in enumerate(rows):
        passages = tuple(chunk_document(Document(f"small/{number}", row["text"], title=row["title"])))[:READ]
        for asked in row["questions"]:
            held = "answer" in asked
            answers = (asked["answer"],) if held else ()
            out.append(Case(asked["question"], answers, passages, "answerable" if held else "near miss"))
    return out


def hops(data: Path, half: Half) -> list[Case]:
    """Load 2WikiMultiHopQA: two-hop questions with ten paragraphs; a share of them lacks a necessary one."""
    out = []
    for r in read_lines(data / "ood/twowiki_questions.jsonl.gz"):
        if (share(r["id"], "half") < 0.5) != (half == "fit"):
            continue
        drop = share(r["id"], "removed") < REMOVED
        passages = [
            Passage(f"{r['id']}#{i}", p["text"], p["title"])
            for i, p in enumerate(r["paragraphs"])
            if not (drop and i == r["contrast_drop"])
        ]
        out.append(
            Case(
                r["question"], () if drop else tuple(r["answers"]), tuple(passages), "removed" if drop else "answerable"
            )
        )
    return out


def multi_hop(data: Path, name: str) -> list[AskedQuestion]:
    """Load the 100 questions of ``hotpotqa`` or ``musique``; gold passages are found by their text in the corpus."""
    by_text = {_key(p.title, p.text): p.id for p in reversed(wikipedia(data))}  # the first of equal ones
    out = []
    for r in json.loads((data / f"rag/{name}_train.json").read_text("utf-8")):
        if name == "hotpotqa":
            titles = {title for title, _ in r["supporting_facts"]}
            gold = [by_text.get(_key(t, "".join(parts))) for t, parts in r["context"] if t in titles]
        else:
            gold = [by_text.get(_key(p["title"], p["paragraph_text"])) for p in r["paragraphs"] if p["is_supporting"]]
        known = tuple(dict.fromkeys(g for g in gold if g))
        if known:
            out.append(AskedQuestion(r["question"], (r["answer"], *r.get("answer_aliases", ())), known, r["question"]))
    return out


def _key(title: str, text: str) -> str:
    return "".join(f"{title}|{text}".split())


def sentences_to_rate(path: Path, most: int) -> tuple[list[Rate], list[bool]]:
    """Load WikiQA's questions that have a relevant sentence, and whether each of the sentences is relevant."""
    asked: dict[str, list[dict[str, Any]]] = {}
    for r in read_lines(path):
        asked.setdefault(r["question"], []).append(r)
    mixed = [some for some in asked.values() if any(r["relevant"] for r in some)][:most]
    requests = [Rate(s[0]["question"], tuple(Passage(str(i), r["sentence"]) for i, r in enumerate(s))) for s in mixed]
    return requests, [bool(r["relevant"]) for some in mixed for r in some]
