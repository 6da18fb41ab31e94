"""Passages: exact offsets, nothing lost, cuts where a reader would cut."""

from __future__ import annotations

from itertools import groupby, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.documents.chunking import Splitter, chunk_document, is_listing, is_single_word
from shared_core.documents.load import Document
from shared_core.documents.loaders.extracted import Heading, Page, Segment
from shared_core.errors import InputError
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
    """What holds for any document: exact slices, within the limit, in order, every non-space character held but for
    listings and lone words."""
    held = bytearray(len(document.text))
    for passage, (start, end) in zip(passages, places(passages), strict=True):
        assert document.text[start:end] == passage.text
        assert 0 < len(passage.text) <= max_chars
        assert passage.text == passage.text.strip()
        held[start:end] = b"\1" * (end - start)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(places(passages)))
    for lost, stretch in groupby(range(len(held)), key=lambda i: not held[i]):
        text = "".join(document.text[i] for i in stretch).strip() if lost else ""
        alone = is_single_word(text) or len(text.split()) <= len(document.pages)  # each page may be a lone word
        assert not text or alone or is_listing(text, titled=False), text
    assert len({p.id for p in passages}) == len(passages)


_PIECES = st.sampled_from(
    ["A short one. ", "They are:", "word ", "x" * 40, "\n\n", "\r\n\r\n", "\n", "水の都。", "e\u0301",
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


@pytest.mark.parametrize(
    ("before", "texts"),
    [
        ("It is kept.\n\nThey are:\n\n", ["It is kept.", "They are:\n\n- oil\n- a rag", "- a long steel rod"]),
        ("They are:\n\n", ["They are:\n\n- oil\n- a rag", "- a long steel rod"]),
        ("It is kept. They are:\n", ["It is kept.", "They are:\n- oil\n- a rag", "- a long steel rod"]),
        ("It is kept here now: yes\n\n", ["It is kept here now: yes", "- oil\n- a rag", "- a long steel rod"]),
    ],
)
def test_what_leads_in_a_list_stays_with_its_first_items(before: str, texts: list[str]) -> None:
    document = Document("a.md", f"{before}- oil\n- a rag\n- a long steel rod", format="markdown")
    assert [p.text for p in chunk_document(document, max_chars=26, overlap=0)] == texts


def test_keys_of_configuration_lead_in_nothing() -> None:
    text = "a: 1234567890123456789\n\nb:\n\nc: 1234567890123456789"
    pieces = [p.text for p in chunk_document(Document("a.yaml", text, format="code"), max_chars=30)]
    assert pieces == ["a: 1234567890123456789\n\nb:", "c: 1234567890123456789"]


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
    text = "Before all.\n# A\n\n## B\n\nUnder b.\n\n## C\nUnder c.\n\n# D\n"
    at = [(text.index(line), level, line) for line, level in (("# A", 1), ("## B", 2), ("## C", 2), ("# D", 1))]
    headings = tuple(Heading(start, start + len(line), level, line[-1]) for start, level, line in at)
    passages = chunk_document(Document("a.md", text, headings=headings), split_sentences=by_stops)
    assert [(p.text, p.metadata.get("section")) for p in passages] == [
        ("Before all.", None),
        ("# A\n\n## B\n\nUnder b.", "A > B"),
        ("## C\nUnder c.", "A > C"),
    ]
    assert [p.text for p in chunk_document(Document("b.md", "# D", headings=(Heading(0, 3, 1, "D"),)))] == ["# D"]


def test_parts_are_never_crossed_and_give_title_and_metadata() -> None:
    text = "Row one.\n\nRow two."
    segments = (Segment(0, 8, "First", {"row": 1, "year": 1841}), Segment(10, 18, "", {"row": 2}))
    passages = chunk_document(Document("t.csv", text, "Table", segments=segments), split_sentences=by_stops)
    assert [(p.text, p.title, p.metadata["row"], p.metadata.get("year")) for p in passages] == [
        ("Row one.", "First", 1, 1841),
        ("Row two.", "Table", 2, None),
    ]
    assert passages[1].metadata["source"] == "t.csv"


def test_listings_and_lone_words_are_no_passages() -> None:
    contents = "1 The lamps . . . . . . 3\n2 The fog signal ...... 17\nIndex …… xii"
    links = "- [One](#one)\n- [Two](#two)\n- [Three](#three)"
    text = f"Some words before.\n\n{contents}\n\nThe lamps burned oil.\n\n{links}\n\nEnd it is."
    passages = chunk_document(Document("a.md", text))
    assert [p.text for p in passages] == ["Some words before.", "The lamps burned oil.", "End it is."]
    kept = "It cost 3.\nHe paid 17.\nThey owed 12.\n\n- [One](https://one.example)\n- [Two](two.html)\n- [Three](x)"
    assert [p.text for p in chunk_document(Document("a.md", kept))] == [kept]


def test_under_a_heading_that_says_so_lines_with_page_numbers_are_a_listing() -> None:
    text = "Contents\nThe lamps\t3\nThe fog signal\t17\n\nThe lamps\nThey burned oil in 1871."
    headings = (
        Heading(0, 8, 1, "Contents"),
        Heading(text.rindex("The lamps"), text.rindex("They") - 1, 1, "The lamps"),
    )
    passages = chunk_document(Document("a.pdf", text, headings=headings))
    assert [p.text for p in passages] == ["The lamps\nThey burned oil in 1871."]


@pytest.mark.parametrize("text", ["Word", "1 One ..... 3", "水", "Москва"])
def test_a_document_of_nothing_else_is_kept(text: str) -> None:
    assert [p.text for p in chunk_document(Document("a.txt", text))] == [text]


def test_words_without_spaces_between_them_are_sentences() -> None:
    text = "# 都\n\n東京は日本の首都です。\n"
    document = Document("a.md", text, headings=(Heading(0, 3, 1, "都"), Heading(5, 6, 1, "x")))
    assert any("首都" in p.text for p in chunk_document(document))


def test_source_files_are_cut_between_lines() -> None:
    text = "".join(f"call(first. Second, {i})\n" for i in range(60))
    passages = chunk_document(Document("a.py", text, format="code"), max_chars=200, overlap=0)
    check(Document("a.py", text), passages, 200)
    assert all(p.text.startswith("call(") and p.text.endswith(")") for p in passages)


def test_pages_begin_passages_and_their_names_are_kept() -> None:
    text = "First page here.\n\nSecond page starts and\ngoes over. Third page then."
    pages = (Page(0, 1, "i"), Page(18, 2, "ii"), Page(text.index("goes"), 3))
    passages = chunk_document(Document("a.pdf", text, pages=pages), split_sentences=by_stops)
    assert [p.text for p in passages] == ["First page here.", "Second page starts and\ngoes over.", "Third page then."]
    assert [(p.metadata["page"], p.metadata.get("page_label"), p.metadata.get("page_end")) for p in passages] == [
        (1, "i", None),
        (2, "ii", 3),
        (3, "3", None),
    ]
    assert passages[1].text[int(str(passages[1].metadata["page_break"])) :] == "goes over."


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.lists(_PIECES, min_size=1, max_size=40).map("".join), st.lists(st.integers(0, 400), max_size=6, unique=True))
def test_pages_lose_nothing(text: str, starts: list[int]) -> None:
    at = sorted(start for start in starts if start < len(text))
    document = Document("a.pdf", text, pages=tuple(Page(start, i + 1) for i, start in enumerate(at)))
    passages = chunk_document(document, max_chars=60, split_sentences=by_stops)
    check(document, passages, 60)
    for passage in passages:
        start = int(str(passage.metadata["start"]))
        assert passage.metadata.get("page") == (sum(a <= start for a in at) or None)


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


@pytest.mark.parametrize("heading", ["SECTION C: FEES", "ABOUT US", "4.2 What we charge", "Part 3: Fees"])
def test_no_passage_ends_with_the_heading_of_what_follows(heading: str) -> None:
    text = f"The ferry is old. {'It sails. ' * 20}\n\n{heading}\n\nThe fare is two farthings. {'It is low. ' * 20}"
    first, second = chunk_document(Document("a.txt", text), max_chars=300)
    assert first.text.endswith("It sails.")
    assert second.text.startswith(f"{heading}\n\nThe fare")


@pytest.mark.parametrize("last", ["Ida Holm", "It sails at 9.", "NO SMOKING."])
def test_other_short_lines_stay(last: str) -> None:
    text = f"The ferry is old. {'It sails. ' * 20}\n\n{last}\n\nThe fare is two farthings. {'It is low. ' * 20}"
    first, _ = chunk_document(Document("a.txt", text), max_chars=300)
    assert first.text.endswith(last)
