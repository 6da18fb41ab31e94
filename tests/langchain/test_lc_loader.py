"""``SelfReflectLoader``: files as passages of LangChain's vector stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from langchain_selfreflect import SelfReflectLoader
from langchain_selfreflect.documents import to_passages
from shared_core.documents import load_document
from shared_core.errors import DocumentError

FILES = Path(__file__).parents[1] / "documents" / "files"
MINUTES = FILES / "libreoffice_minutes.pdf"


def test_a_document_is_a_passage_with_its_place_in_the_file() -> None:
    text = load_document(MINUTES).text
    documents = SelfReflectLoader(str(MINUTES)).load()
    assert len({document.id for document in documents}) == len(documents) > 2
    for document in documents:
        assert text[document.metadata["start"] : document.metadata["end"]] == document.page_content
    (table,) = [document for document in documents if "Place: Entrance; March: 6.1 m" in document.page_content]
    assert table.metadata["section"] == "The dredger > Soundings"
    assert to_passages([table])[0].metadata["page"] == 1


def test_a_folder_is_read_lazily_and_bad_files_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The ferry leaves at nine.")
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.7 broken")
    documents = SelfReflectLoader(tmp_path).lazy_load()
    assert next(documents).page_content == "The ferry leaves at nine."
    with pytest.raises(DocumentError):
        next(documents)
    failures: list[str] = []
    assert len(SelfReflectLoader([tmp_path], on_failure=lambda f: failures.append(f.source)).load()) == 1
    assert failures == ["b.pdf"]
