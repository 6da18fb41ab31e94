"""The words kept in an index's file give what BM25 over the same passages in memory gives."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from shared_core.documents import DocumentIndex, lexical
from shared_core.documents.manifest import FileRecord, Manifest
from shared_core.documents.stored import StoredBM25
from shared_core.retrieval import BM25Retriever
from shared_core.types import Passage

WORDS = [
    "tide",
    "tides",
    "boat",
    "Boats",
    "mooring",
    "1,811",
    "U.S.",
    "café",
    "東京タワー",
    "don't",
    "the",
    "harbour",
    "of",
]
QUERIES = [
    "the tide",
    "boat mooring",
    "moorings of boats in the harbour",
    "1811",
    "東京",
    "café tide tide",
    "x",
    "",
    "the of",
]


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


@pytest.fixture(params=["in blocks", "in no block yet"])
def add_words(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(lexical, "BLOCK", 32)
    return bool(request.param == "in blocks")


def test_equal_to_bm25_through_changes(add_words: bool) -> None:
    manifest = Manifest.in_memory()
    chance = random.Random(0)
    for step in range(30):
        source = f"f{chance.randrange(8)}"
        if chance.random() < 0.2:
            manifest.remove(source)
        else:
            put(manifest, source, passages(source, chance.randrange(0, 60), step))
        if add_words:
            lexical.index_words(manifest)
            assert not manifest.rows("SELECT 1 FROM passages WHERE block IS NULL")
        if step % 3 == 0:
            check(manifest)
    check(manifest)


def test_blocks_stay_few_and_hold_little_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexical, "BLOCK", 32)
    manifest = Manifest.in_memory()
    for step in range(100):  # a hundred updates of a passage or two each
        put(manifest, f"f{step % 40}", passages(f"f{step % 40}", 2, step))
        lexical.index_words(manifest)
    blocks = [len(packed) // 8 for (packed,) in manifest.rows("SELECT rows FROM blocks")]
    assert len(blocks) < 16
    assert sum(blocks) <= 2 * manifest.counts()[1]
    check(manifest)


def test_other_words_of_another_version_are_made_anew() -> None:
    manifest = Manifest.in_memory()
    put(manifest, "a", passages("a", 20, 0))
    lexical.index_words(manifest)
    manifest.store("words", "of another version")
    with manifest.transaction() as connection:
        connection.execute("UPDATE postings SET word = 'zzz' || word")
    check(manifest)
    lexical.index_words(manifest)
    check(manifest)
    assert not manifest.rows("SELECT 1 FROM postings WHERE word LIKE 'zzz%'")


def test_a_long_text_is_read_in_pieces(tmp_path: Path) -> None:
    text = "\n\n".join(f"Buoy {i} lies at {i * 7} fathoms near the \U0001f30a cape." for i in range(4_000))
    (tmp_path / "long.txt").write_text(text)
    with DocumentIndex(None, dense=False) as index:
        index.update(tmp_path / "long.txt")
        found = index.retriever().retrieve("buoy 3999", 1)[0]
        start, end = int(str(found.metadata["start"])), int(str(found.metadata["end"]))
        assert found.text == text[start:end]
        assert "Buoy 3999" in found.text
        assert index.document_text("long.txt") == text
        assert [p.text for p in index.passages()] == [
            text[int(str(p.metadata["start"])) : int(str(p.metadata["end"]))] for p in index.passages()
        ]
