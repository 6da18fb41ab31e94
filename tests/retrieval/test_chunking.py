"""Passages: exact offsets, nothing lost, cuts where a reader would cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.errors import InputError
from shared_core.retrieval.chunking import Splitter, chunk_document
from shared_core.retrieval.documents import Document
from shared_core.retrieval.loaders.base import Heading, Part
from shared_core.types import Passage


def by_stops(text: str) -> list[tuple[int, int]]:
    """Sentences end at a full stop: a splitter simple enough to see through."""
    ranges, start = [], 0
    for piece in text.split("."):
        end = min(start + len(piece) + 1, len(text))
        stripped = text[start:end].strip()
        if stripped:
            first = start + text[start:end].index(stripped)
            ranges.append((first, first + len(stripped)))
        start = end
    return ranges


def places(passages: list[Passage]) -> list[tuple[int, int]]:
    return [(int(str(p.metadata["start"])), int(str(p.metadata["end"]))) for p in passages]


def check(document: Document, passages: list[Passage], max_chars: int) -> None:
    """What holds for any document: exact slices, within the limit, in order, every non-space character held."""
    held = bytearray(len(document.text))
    for passage, (start, end) in zip(passages, places(passages), strict=True):
        assert document.text[start:end] == passage.text
        assert 0 < len(passage.text) <= max_chars
        assert passage.text == passage.text.strip()
        held[start:end] = b"\1" * (end - start)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(places(passages)))
    assert all(h or c.isspace() for h, c in zip(held, document.text, strict=True))
    assert len({p.id for p in passages}) == len(passages)


_PIECES = st.sampled_from(
    ["A short one. ", "word ", "x" * 40, "\n\n", "\r\n\r\n", "\n", "水の都。", "e\u0301",
     "\U0001f468\u200d\U0001f469", "Dr. ", "? "]
)  # fmt: skip
_TEXTS = st.one_of(st.text(max_size=300), st.lists(_PIECES, max_size=80).map("".join))


def ragged(text: str) -> list[tuple[int, int]]:
    """A bad splitter: leaves words out, overlaps, goes beyond the end."""
    return [(3, 5), (4, 9), (12, 11), (20, len(text) + 7), (25, min(30, len(text)))]


@settings(deadline=None, derandomize=True, max_examples=300)
@given(
    _TEXTS.filter(lambda t: not any("\ud800" <= c <= "\udfff" for c in t)),
    st.integers(16, 120),
    st.integers(0, 4),
    st.sampled_from([None, by_stops, ragged]),
)
def test_every_word_is_held_at_its_place(text: str, max_chars: int, overlap: int, splitter: Splitter | None) -> None:
    document = Document("a.txt", text)
    check(document, chunk_document(document, max_chars=max_chars, overlap=overlap, split_sentences=splitter), max_chars)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.lists(_PIECES, min_size=1, max_size=60), st.lists(st.integers(0, 59), max_size=6, unique=True))
def test_headings_lose_nothing(pieces: list[str], at: list[int]) -> None:
    text, headings = "", []
    for i, piece in enumerate(pieces):
        if i in at:
            headings.append(Heading(len(text), len(text) + 5, 1 + i % 3, f"H{i}"))
            text += f"H {i:03}"[:5] + "\n"
        text += piece
    document = Document("a.md", text, headings=tuple(headings))
    check(document, chunk_document(document, max_chars=50, split_sentences=by_stops), 50)


def test_paragraphs_are_kept_whole_where_they_fit() -> None:
    document = Document("a.txt", "One one. One two.\n\nTwo one.\n \nThree one. Three two. Three three.")
    passages = chunk_document(document, max_chars=40, split_sentences=by_stops)
    assert [p.text for p in passages] == ["One one. One two.\n\nTwo one.", "Three one. Three two. Three three."]


def test_long_paragraphs_overlap_by_sentences() -> None:
    text = "Aaaa aa. Bbbb bb. Cccc cc. Dddd dd. Eeee ee."
    cut = [
        [p.text for p in chunk_document(Document("a", text), max_chars=27, overlap=n, split_sentences=by_stops)]
        for n in range(4)
    ]
    assert cut[0] == ["Aaaa aa. Bbbb bb. Cccc cc.", "Dddd dd. Eeee ee."]
    assert cut[1] == ["Aaaa aa. Bbbb bb. Cccc cc.", "Cccc cc. Dddd dd. Eeee ee."]
    assert cut[2] == ["Aaaa aa. Bbbb bb. Cccc cc.", "Bbbb bb. Cccc cc. Dddd dd.", "Cccc cc. Dddd dd. Eeee ee."]
    assert cut[3] == cut[2]  # three would leave no room for a new sentence


def test_a_long_sentence_is_cut_between_words_and_a_long_word_between_clusters() -> None:
    words = chunk_document(Document("a", "alpha beta gamma delta epsilon."), max_chars=16, split_sentences=by_stops)
    assert [p.text for p in words] == ["alpha beta gamma", "delta epsilon."]
    clusters = chunk_document(Document("a", "e\u0301" * 17), max_chars=17, split_sentences=by_stops)
    assert [p.text for p in clusters] == ["e\u0301" * 8, "e\u0301" * 8, "e\u0301"]


def test_headings_open_sections_and_stay_with_them() -> None:
    text = "Before.\n# A\n\n## B\n\nUnder b.\n\n## C\nUnder c.\n\n# D\n"
    at = [(text.index(line), level, line) for line, level in (("# A", 1), ("## B", 2), ("## C", 2), ("# D", 1))]
    headings = tuple(Heading(start, start + len(line), level, line[-1]) for start, level, line in at)
    passages = chunk_document(Document("a.md", text, headings=headings), split_sentences=by_stops)
    assert [(p.text, p.metadata.get("section")) for p in passages] == [
        ("Before.", None),
        ("# A\n\n## B\n\nUnder b.", "A > B"),
        ("## C\nUnder c.", "A > C"),
        ("# D", "D"),
    ]


def test_parts_are_never_crossed_and_give_title_and_metadata() -> None:
    text = "Row one.\n\nRow two."
    parts = (Part(0, 8, "First", {"row": 1, "year": 1841}), Part(10, 18, "", {"row": 2}))
    passages = chunk_document(Document("t.csv", text, "Table", parts=parts), split_sentences=by_stops)
    assert [(p.text, p.title, p.metadata["row"], p.metadata.get("year")) for p in passages] == [
        ("Row one.", "First", 1, 1841),
        ("Row two.", "Table", 2, None),
    ]
    assert passages[1].metadata["source"] == "t.csv"


def test_ids_are_of_the_content() -> None:
    def ids(text: str, title: str = "T") -> list[str]:
        return [p.id for p in chunk_document(Document("a.txt", text, title), max_chars=16, split_sentences=by_stops)]

    first = ids("One one one.\n\nTwo two two.")
    assert first == ids("One one one.\n\nTwo two two.")
    changed = ids("One one one.\n\nTwo two six.")
    assert (first[0] == changed[0], first[1] == changed[1]) == (True, False)
    assert not set(first) & set(ids("One one one.\n\nTwo two two.", "Other"))


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InputError):
        chunk_document(Document("a", "x"), max_chars=15)
    with pytest.raises(InputError):
        chunk_document(Document("a", "x"), overlap=-1)


@pytest.mark.parametrize("unit", ["A tide came. It went.\n\n", "lone ", "x", "Wrapped text goes\non. And on. "])
def test_cutting_takes_work_in_proportion_to_the_text(unit: str) -> None:
    """Counted, not timed: characters handed to the splitter, and passages, grow with the text and no faster."""
    work = {}
    for size in (100_000, 400_000):
        seen: list[int] = []

        def counting(text: str, seen: list[int] = seen) -> list[tuple[int, int]]:
            seen.append(len(text))
            return by_stops(text)

        text = unit * (size // len(unit))
        passages = chunk_document(Document("a.txt", text), split_sentences=counting)
        assert sum(seen) <= len(text)
        work[size] = len(passages)
    assert work[400_000] <= 4.1 * work[100_000]
    assert work[400_000] * 900 <= 2 * 400_000
