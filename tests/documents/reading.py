"""What the tests of the loaders share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shared_core.documents.load import Document, LoadOptions, load_document, parse_document
from shared_core.errors import DocumentError

FILES = Path(__file__).parent / "files"


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(data: str | bytes, name: str, **options: Any) -> Document:
    """The document of a file of that name and content."""
    content = data.encode() if isinstance(data, str) else data
    return parse_document(content, name, LoadOptions(**options), file_name=name)


def made_by(name: str) -> Document:
    """One of the documents made by other programs."""
    return load_document(FILES / name)


def refused(path: Path, **options: Any) -> DocumentError:
    """The error of a file that must be refused, with a hint."""
    with pytest.raises(DocumentError) as caught:
        load_document(path, **options)
    assert caught.value.hint
    return caught.value


def refuses(data: str | bytes, name: str, **options: Any) -> DocumentError:
    """The same of bytes."""
    with pytest.raises(DocumentError) as caught:
        read(data, name, **options)
    assert caught.value.hint
    return caught.value


def headings(document: Document) -> list[tuple[int, str]]:
    """Levels and labels; also that each heading's range is its line."""
    for heading in document.headings:
        assert " ".join(document.text[heading.start : heading.end].split()) == heading.label
    return [(heading.level, heading.label) for heading in document.headings]
