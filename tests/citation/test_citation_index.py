from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.citation import AnswerFormat, CitationIndex
from shared_core.errors import InputError, PassageError
from shared_core.types import Citation, Passage


def places(citation: Citation | None) -> list[tuple[str, int, int]]:
    assert citation is not None
    return [(s.passage_id, s.start, s.end) for s in citation.spans]


def resolved(quote: str, index: CitationIndex | None = None) -> Citation:
    citation = (INDEX if index is None else index).resolve(quote)
    assert citation is not None
    return citation


A = Passage("a", "The cat sat.\r\nIt slept.  Dogs ran off.")
B = Passage("b", "Dogs ran off. The end? It slept.")
INDEX = CitationIndex([A, B])


def test_sentences_carry_offsets() -> None:
    assert [s.text for s in INDEX.sentences] == [
        *("The cat sat.", "It slept.", "Dogs ran off."),
        *("Dogs ran off.", "The end?", "It slept."),
    ]
    assert len(INDEX) == 6
    by_id = {"a": A, "b": B}
    assert all(by_id[s.passage_id].text[s.start : s.end] == s.text for s in INDEX.sentences)


def test_one_sentence_at_one_place() -> None:
    citation = resolved("The cat sat.")
    assert places(citation) == [("a", 0, 12)]
    assert (citation.match, citation.ambiguous, citation.quote) == ("verbatim", False, "The cat sat.")


def test_every_occurrence_is_reported_and_marked() -> None:
    citation = resolved("Dogs ran off.")
    assert places(citation) == [("a", 25, 38), ("b", 0, 13)]
    assert citation.ambiguous
    assert places(CitationIndex([Passage("x", "aaa")]).resolve("aa")) == [("x", 0, 2), ("x", 1, 3)]


def test_contiguous_text_stays_one_span_even_where_white_space_differs() -> None:
    assert places(INDEX.resolve("The cat sat.\r\nIt slept.")) == [("a", 0, 23)]
    citation = resolved("The cat sat. It slept. Dogs ran off.")
    assert places(citation) == [("a", 0, 38)]
    assert citation.quote == A.text


def test_sentences_of_several_places() -> None:
    citation = resolved("The end? The cat sat. It slept.")
    assert places(citation) == [("b", 14, 22), ("a", 0, 23)]
    assert not citation.ambiguous
    mixed = resolved("The cat sat. Dogs ran off.")
    assert mixed.ambiguous
    assert places(mixed) == [("a", 0, 12), ("a", 25, 38), ("b", 0, 13)]
    assert [s.text for s in mixed.primary] == ["The cat sat.", "Dogs ran off."]


def test_parts_of_sentences_resolve_alone_but_not_joined() -> None:
    assert places(INDEX.resolve("cat sat")) == [("a", 4, 11)]
    assert INDEX.resolve("cat sat The end?") is None


@pytest.mark.parametrize(
    "quote", ["", "  ", "The dog sat.", "the cat sat.", "The cat sat.It slept.", "<reference></reference>"]
)
def test_what_is_not_there_gives_none(quote: str) -> None:
    assert INDEX.resolve(quote) is None


def test_white_space_and_tags_around_a_quote_are_ignored() -> None:
    assert places(INDEX.resolve(" \n<reference> The cat sat. </reference> ")) == [("a", 0, 12)]
    tagged = CitationIndex([Passage("x", "See </reference> here.")])
    assert places(tagged.resolve("See </reference> here.")) == [("x", 0, 22)]
    assert places(tagged.resolve("See </reference>")) == [("x", 0, 16)]


def test_a_sentence_that_starts_another_takes_the_fewest_parts() -> None:
    def splitter(text: str) -> list[tuple[int, int]]:
        return [(0, 9), (10, 25), (26, 31)]

    index = CitationIndex([Passage("p", "It rains. It rains. Hard. Hard.")], splitter=splitter)
    assert [s.text for s in index.sentences] == ["It rains.", "It rains. Hard.", "Hard."]
    assert places(index.resolve("Hard. It rains. Hard.")) == [("p", 26, 31), ("p", 10, 25)]


def test_repeated_passages_count_once_and_contradictions_are_refused() -> None:
    assert len(CitationIndex([A, A, B])) == 6
    with pytest.raises(PassageError) as caught:
        CitationIndex([A, Passage("a", "Other.")])
    assert caught.value.hint
    with pytest.raises(PassageError):
        CitationIndex(["text"])  # type: ignore[list-item]


def test_splitters_are_checked_and_trimmed() -> None:
    for bad in ([(0, 99)], [(3, 3)], [(4, 8), (0, 3)], [(0, 5), (4, 8)]):
        with pytest.raises(InputError):
            CitationIndex([A], splitter=lambda _, bad=bad: bad)
    index = CitationIndex([Passage("p", " a b ")], splitter=lambda t: [(0, 3), (3, 5)])
    assert [(s.start, s.end) for s in index.sentences] == [(1, 2), (3, 4)]


def test_text_left_out_between_sentences_breaks_a_run() -> None:
    index = CitationIndex([Passage("p", "One. 12:30 Two.")], splitter=lambda t: [(0, 4), (11, 15)])
    assert places(index.resolve("One. Two.")) == [("p", 0, 4), ("p", 11, 15)]
    assert "12:30" not in index.grammar().lark


def test_an_answer_format_needs_its_parts() -> None:
    with pytest.raises(InputError):
        AnswerFormat(middle="")
    with pytest.raises(InputError):
        AnswerFormat(tags=("<a>", ""))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.text("ab.? \n。é\u0301🎉", max_size=25), min_size=1, max_size=3), st.data())
def test_any_choice_of_sentences_resolves_to_them(texts: list[str], data: st.DataObject) -> None:
    index = CitationIndex([Passage(f"p{i}", t) for i, t in enumerate(texts)])
    if not index.sentences:
        return
    chosen = data.draw(st.lists(st.sampled_from(index.sentences), min_size=1, max_size=4))
    citation = resolved(" ".join(s.text for s in chosen), index)
    for span in citation.spans:
        assert texts[int(span.passage_id[1:])][span.start : span.end] == span.text
    # Nothing but white space is lost or added on the way.
    squeezed = "".join("".join(s.text for s in chosen).split())
    assert all("".join(span.text.split()) in squeezed for span in citation.spans)
    assert set(squeezed) == set("".join("".join(s.text for s in citation.spans).split()))
