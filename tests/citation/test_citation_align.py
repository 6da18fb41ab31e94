from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.citation import align_quote
from shared_core.citation.align import _closest, _normalise
from shared_core.errors import InputError, PassageError
from shared_core.types import Citation, Passage

A = Passage(
    "a",
    "He said “It’s a well–known fact” about cafe\u0301 culture. The  quick\nbrown fox jumps over the lazy dog, daily.",
)
B = Passage("b", "Straße ﬁnished №5 in ＦＵＬＬ width. Soft\u00adhyphens and zero\u200bwidth marks. 한국어 문장.")
PASSAGES = [A, B]


def aligned(quote: str, passages: list[Passage] = PASSAGES) -> Citation:
    citation = align_quote(quote, passages)
    assert citation is not None
    return citation


@pytest.mark.parametrize(
    ("quote", "match", "found"),
    [
        ("It’s a well–known fact", "verbatim", "It’s a well–known fact"),
        ("  brown fox \n", "verbatim", "brown fox"),
        ('"about cafe\u0301 culture."', "verbatim", "about cafe\u0301 culture."),
        ("It's a well-known fact", "normalised", "It’s a well–known fact"),
        ("CAFÉ culture", "normalised", "cafe\u0301 culture"),
        ("The quick brown fox jumps", "normalised", "The  quick\nbrown fox jumps"),
        ("strasse finished", "normalised", "Straße ﬁnished"),
        ("FULL WIDTH", "normalised", "ＦＵＬＬ width"),
        ("softhyphens and zerowidth marks", "normalised", "Soft\u00adhyphens and zero\u200bwidth marks"),
        (unicodedata.normalize("NFD", "한국어 문장"), "normalised", "한국어 문장"),
        (
            "The quick brown fox jumped over a lazy dog, daily.",
            "fuzzy",
            "The  quick\nbrown fox jumps over the lazy dog, daily.",
        ),
        ("quick brown fox jumps over the lazzy dog", "fuzzy", "quick\nbrown fox jumps over the lazy dog"),
    ],
)
def test_the_ladder(quote: str, match: str, found: str) -> None:
    citation = aligned(quote)
    assert (citation.match, [s.text for s in citation.spans]) == (match, [found])
    if match != "verbatim":
        assert citation.quote == quote.strip()


@pytest.mark.parametrize("quote", [
    "", "   ", "...", "“”", "cafe culture is dead and gone", "A slow red cat sleeps under the eager bird.", "brwn fix",
])  # fmt: skip
def test_not_found(quote: str) -> None:
    assert align_quote(quote, PASSAGES) is None


def test_half_a_letter_does_not_match() -> None:
    assert align_quote("Stras", PASSAGES) is None  # half of the ß
    assert align_quote("CAFE", PASSAGES) is None  # the accent belongs to the letter


def test_parts_are_found_one_by_one_or_not_at_all() -> None:
    citation = aligned("It’s a well–known fact … over the lazy dog")
    assert (citation.match, citation.ambiguous) == ("verbatim", False)
    assert [s.text for s in citation.spans] == ["It’s a well–known fact", "over the lazy dog"]
    worse = aligned("it's a WELL-known fact [...] over the lazy dog")
    assert worse.match == "normalised"
    assert align_quote("It’s a well–known fact … over the moon we went", PASSAGES) is None


def test_parts_prefer_one_passage() -> None:
    passages = [Passage("x", "Red house."), Passage("y", "Red  house. Blue door.")]
    citation = aligned("red house … blue door", passages)
    assert {s.passage_id for s in citation.spans} == {"y"}


def test_all_places_of_equal_quality() -> None:
    passages = [Passage("x", "It is “so”. Yes. It is “so”."), Passage("y", "it is 'so'")]
    citation = aligned('It is "so"', passages)
    assert citation.ambiguous
    assert [(s.passage_id, s.start) for s in citation.spans] == [("x", 0), ("x", 17)]


@pytest.mark.parametrize("threshold", [0, -1, 1.01, float("nan")])
def test_bad_thresholds(threshold: float) -> None:
    with pytest.raises(InputError):
        align_quote("x", PASSAGES, threshold=threshold)


def test_contradicting_passages() -> None:
    with pytest.raises(PassageError):
        align_quote("x", [A, Passage("a", "other")])


def test_the_threshold_decides() -> None:
    quote = "The quick brown fox leaps over the lazy dog, daily."
    assert align_quote(quote, PASSAGES, threshold=0.9) is not None
    assert align_quote(quote, PASSAGES, threshold=0.99) is None


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(max_size=60))
def test_normalised_offsets_map_back(text: str) -> None:
    normal = _normalise(text)
    for i in range(len(normal.text)):
        start = normal.start(i)
        ends = [j for j in range(i + 1, len(normal.text) + 1) if normal.end(j) is not None]
        if start is None:
            continue
        end = normal.end(ends[0])
        assert end is not None
        assert 0 <= start < end <= len(text)
        # What the slice normalises to by itself is what stands there.
        assert _normalise(text[start:end]).text == normal.text[i : ends[0]]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text("abc", min_size=1, max_size=12), st.text("abc", max_size=25))
def test_the_closest_stretch_has_the_fewest_edits(needle: str, hay: str) -> None:
    def distance(a: str, b: str) -> int:
        row = list(range(len(b) + 1))
        for i, x in enumerate(a, 1):
            last, row[0] = row[0], i
            for j, y in enumerate(b, 1):
                last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
        return row[-1]

    edits, start, end = _closest(needle, hay)
    assert edits == distance(needle, hay[start:end])
    assert edits == min(distance(needle, hay[i:j]) for i in range(len(hay) + 1) for j in range(i, len(hay) + 1))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(st.text(max_size=60), max_size=4), st.text(max_size=40), st.data())
def test_offsets_always_hold(texts: list[str], quote: str, data: st.DataObject) -> None:
    passages = [Passage(f"p{i}", t) for i, t in enumerate(texts)]
    if texts and len(quote) % 2:
        text = data.draw(st.sampled_from(texts))
        cut = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        quote = text[cut[0] : cut[1]]
    citation = align_quote(quote, passages, threshold=0.6)
    if quote.strip() and any(quote.strip() in t for t in texts):
        assert citation is not None
        assert citation.match == "verbatim"
    if citation:
        for span in citation.spans:
            assert span.text
            assert texts[int(span.passage_id[1:])][span.start : span.end] == span.text


def test_large_passages_and_awkward_text() -> None:
    # Would not end within the run if it were quadratic.
    large = Passage("l", "".join(f"Sentence number {i} says {i * 7919 % 1000} things. " for i in range(5000)))
    citation = aligned("Sentence numbr 4321 say 199 thinks.", [large])
    assert citation.match == "fuzzy"
    assert align_quote("zz " * 600, [large]) is None
    assert align_quote("b" + "a" * 1500, [Passage("a", "a" * 200_000)]) is not None
