"""BM25 over an index's FTS5 table finds what BM25 over the same passages in memory finds."""

from __future__ import annotations

import random
import runpy
from pathlib import Path

import pytest
from file_vectors import place

from shared_core.documents import DocumentIndex
from shared_core.documents.manifest import FileRecord, Manifest
from shared_core.documents.stored import StoredBM25
from shared_core.retrieval import BM25Retriever, tokenizer
from shared_core.types import Passage

WORDS = [
    "tide", "tides", "boat", "Boats", "mooring", "1,811", "U.S.", "café", "東京タワー", "don't", "the", "harbour", "of",
    "flat", "tire", "loo", "return", "last", "admission",
]  # fmt: skip
QUERIES = [
    "the tide", "boat mooring", "moorings of boats in the harbour", "1811", "東京", "café tide tide", "x", "", "the of",
    "a flat tyre", "a restroom", "Do I give the boat back?", "the latest I can get in",
]  # fmt: skip


def passages(source: str, count: int, seed: int) -> list[Passage]:
    chance = random.Random(seed)
    out = []
    for n in range(count):
        text = " ".join(chance.choices(WORDS, k=chance.randrange(0, 30)))
        title = chance.choice(["", "Tide tables"])
        metadata = {"source": source, "start": 0, "end": len(text), "n": n % 3}
        out.append(Passage(f"{source}#{n}:{seed}", text, title, metadata))
    return out


def put(manifest: Manifest, source: str, items: list[Passage]) -> None:
    text, moved = "", []
    for p in items:
        at = {**p.metadata, "start": len(text), "end": len(text) + len(p.text)}
        moved.append(Passage(p.id, p.text, p.title, at))
        text += p.text + "\n"
    manifest.put(FileRecord(source, f"/{source}", "h", "c"), text, moved)


def ranked(retriever: BM25Retriever | StoredBM25, where: dict[str, int] | None = None) -> list[list[tuple[float, str]]]:
    """Scores with ids; those of equal scores sorted, since the two have their passages in another order."""
    found = retriever.retrieve_many(QUERIES, 1_000, where)
    return [sorted((-(p.score or 0), p.id) for p in one) for one in found]


def check(manifest: Manifest) -> None:
    plain = BM25Retriever(manifest.passages())
    stored = StoredBM25(manifest.snapshot())
    assert len(stored) == len(plain)
    assert ranked(stored) == ranked(plain)
    assert ranked(stored, {"n": 1}) == ranked(plain, {"n": 1})


def words_held(manifest: Manifest) -> int:
    return int(manifest.rows("SELECT count(*) FROM words")[0][0])


@pytest.mark.parametrize("tidied", [True, False])
def test_equal_to_bm25_through_changes(tidied: bool) -> None:
    manifest = Manifest.in_memory()
    chance = random.Random(0)
    for step in range(30):
        source = f"f{chance.randrange(8)}"
        if chance.random() < 0.2:
            manifest.remove(source)
        else:
            put(manifest, source, passages(source, chance.randrange(0, 30), step))
        if tidied:
            manifest.tidy_words()
            assert words_held(manifest) <= 2 * manifest.counts()[1]
        if step % 5 == 0:
            check(manifest)
    check(manifest)


def test_words_of_unchanged_passages_are_not_stored_again() -> None:
    manifest = Manifest.in_memory()
    same = passages("a", 20, 0)
    for step in range(5):
        put(manifest, "a", [*same, *passages("b", 1, step)])
    assert words_held(manifest) == 25
    check(manifest)


def test_a_passage_is_found_by_the_headings_above_it() -> None:
    parts = [("Winch 2.1 > Brake", "It stops."), ("Winch 2.0 > Brake", "It stops."), ("Winch 2.1", "Winch 2.1\n\nNew.")]
    items = [Passage(f"p{n}", text, "", {"source": "a", "section": s}) for n, (s, text) in enumerate(parts)]
    manifest = Manifest.in_memory()
    put(manifest, "a", items)
    for retriever in (BM25Retriever(items), StoredBM25(manifest.snapshot())):
        assert [p.id for p in retriever.retrieve("brake of 2.1")] == ["p0", "p2", "p1"]
        assert retriever.retrieve("winch 2.1")[0].id == "p2"  # which holds the heading
    check(manifest)


def test_words_of_an_earlier_version_are_made_anew() -> None:
    manifest = Manifest.in_memory()
    items = [Passage("p", "It stops.", "", {"source": "a", "section": "Winch"})]
    put(manifest, "a", items)
    manifest.put_vectors([("p", b"vectors")])
    with manifest.transaction() as connection:  # as when headings were not searched
        connection.execute("UPDATE passages SET words = 1")
    put(manifest, "a", items)
    assert words_held(manifest) == 2
    assert manifest.without_vectors() == set()
    check(manifest)


def test_words_of_any_script_come_back_unchanged() -> None:
    texts = [
        "हिन्दी में लिखा", "Ünïcödé ﬁancé ½", "ไทย ภาษา", "naïve café", "a_b c-d e.f", "\U0001d400lpha",
        "क्\u200dष ok", "-s sums up", "-S sorts by --block_size=K",
    ]  # fmt: skip
    manifest = Manifest.in_memory()
    put(manifest, "a", [Passage(f"p{n}", text, "", {"source": "a"}) for n, text in enumerate(texts)])
    stored, plain = StoredBM25(manifest.snapshot()), BM25Retriever(manifest.passages())
    for text in texts:
        found = [(p.id, p.score) for p in plain.retrieve(text)]
        assert found
        assert [(p.id, p.score) for p in stored.retrieve(text)] == found


def test_stop_words_are_read_once_however_many_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    run_path = runpy.run_path
    monkeypatch.setattr(runpy, "run_path", lambda path: read.append(path) or run_path(path))
    tokenizer._stop_words.cache_clear()
    manifest = Manifest.in_memory()
    put(manifest, "a", passages("a", 20, 0))
    stored, plain = StoredBM25(manifest.snapshot()), BM25Retriever(manifest.passages())
    for query in ("the harbour", "of the lamp", "a ferry"):
        stored.retrieve(query)
        plain.retrieve(query)
    assert len(read) <= 1


def test_a_long_text_is_read_in_pieces(tmp_path: Path) -> None:
    text = "\n\n".join(f"Buoy {i} lies at {i * 7} fathoms near the \U0001f30a cape." for i in range(4_000))
    (tmp_path / "long.txt").write_text(text)
    with DocumentIndex(None, dense=False) as index:
        index.update(tmp_path / "long.txt")
        found = index.retriever().retrieve("buoy 3999", 1)[0]
        assert found.text == text[place(found)]
        assert "Buoy 3999" in found.text
        assert index.document_text("long.txt") == text
        assert all(p.text == text[place(p)] for p in index.passages())
