"""Where a quote stands, for people."""

from __future__ import annotations

from typing import Any

import pytest

from shared_core.citation import Place, find_place
from shared_core.documents.chunking import chunk_document
from shared_core.documents.load import Document
from shared_core.documents.loaders.extracted import Page
from shared_core.types import Passage


def place(metadata: dict[str, Any], start: int = 0, end: int = 4, **options: Any) -> Place:
    passage = Passage("p", "Text of a passage.", "Title", metadata)
    return find_place(passage, passage.span(start, end), **options)


def test_file_page_section_and_offsets() -> None:
    found = place({"source": "a.pdf", "page": 3, "page_label": "iii", "section": "One > Two", "start": 100})
    assert found == Place("a.pdf", "iii", "One > Two", 100, 104)
    assert (found.document, found.offsets) == ("a.pdf, p. iii", "100-104")


@pytest.mark.parametrize(("metadata", "document"), [
    ({}, "Title"), ({"source": "a.txt", "start": True}, "a.txt"), ({"source": "a.pdf", "page": 0}, "a.pdf, p. 0"),
    ({"source": "a.pdf", "page": None}, "a.pdf"), ({"source": "a.pdf", "page": "7"}, "a.pdf, p. 7"),
    ({"source": "a.pdf", "page": True}, "a.pdf"), ({"source": "a.pdf", "page_label": " "}, "a.pdf"),
])  # fmt: skip
def test_what_is_not_known_is_not_shown(metadata: dict[str, Any], document: str) -> None:
    found = place(metadata)
    assert (found.document, found.offsets) == (document, "")


def test_pages_counted_from_zero_by_other_loaders() -> None:
    assert place({"page": 0}, pages_from_zero=True).page == "1"
    assert place({"page": 0, "page_label": "i"}, pages_from_zero=True).page == "i"


def test_a_quote_is_on_the_page_where_it_stands() -> None:
    text = "First page here. It goes\nover the end of it."
    document = Document("a.pdf", text, pages=(Page(0, 4, "iv"), Page(25, 5)))
    (passage,) = chunk_document(document)
    first, over = passage.span(0, 16), passage.span(17, len(text))
    assert [find_place(passage, span).page for span in (first, over, passage.span(25, 29))] == ["iv", "iv–5", "5"]
    assert find_place(passage).document == "a.pdf, pp. iv–5"
