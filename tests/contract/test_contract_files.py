"""Files as passages of each framework's own indexes."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared_core.documents import load_document
from shared_core.errors import DocumentError
from tests.contract.facades import Facades

MINUTES = Path(__file__).parents[1] / "documents" / "files" / "libreoffice_minutes.pdf"


def test_a_document_is_a_passage_with_its_place_in_the_file(facades: Facades) -> None:
    whole = load_document(MINUTES).text
    found = list(facades.load(MINUTES))
    assert len({id_ for id_, _, _ in found}) == len(found) > 2
    for _, text, metadata in found:
        assert whole[metadata["start"] : metadata["end"]] == text
    (table,) = [metadata for _, text, metadata in found if "Place: Entrance; March: 6.1 m; June: 5.6 m" in text]
    assert (table["section"], table["page"]) == ("The dredger > Soundings", 1)


def test_a_folder_is_read_lazily_and_bad_files_are_told(facades: Facades, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The ferry leaves at nine.")
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.7 broken")
    found = facades.load(tmp_path)
    assert next(found)[1] == "The ferry leaves at nine."
    with pytest.raises(DocumentError):
        next(found)
    failures: list[str] = []
    assert len(list(facades.load(tmp_path, on_failure=lambda failure: failures.append(failure.source)))) == 1
    assert failures == ["b.pdf"]
