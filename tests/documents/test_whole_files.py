"""Whole files of each text format are read as ``files/whole/NAME.read`` says.

It holds the title and the format; problems; level, label and line of each heading; section (and title, if it is
another), first and last line of each passage; the text, if it is not the file as it is.
"""

from __future__ import annotations

import pytest

from shared_core.documents.chunking import chunk_document
from tests.documents.reading import FILES, read

WHOLE = FILES / "whole"
NAMES = sorted(path.name for path in WHOLE.iterdir() if path.suffix != ".read")


def shown(content: str, name: str) -> str:
    document = read(content, name)
    lines = [f"{document.title} ({document.format})", *(f"! {problem.message}" for problem in document.problems)]
    lines += [f"{h.level} {h.label} <- {' '.join(document.text[h.start : h.end].split())}" for h in document.headings]
    for passage in chunk_document(document):
        title = "" if passage.title == document.title else f" ({passage.title})"
        first, *more = passage.text.splitlines()
        lines.append(f"[{passage.metadata.get('section', '')}]{title} {' … '.join([first, *more[-1:]])}")
    return "\n".join([*lines, "", "the file as it is" if document.text == content else document.text])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_file_is_read_as_it_is_written_beside_it(name: str, end: str) -> None:
    content = (WHOLE / name).read_bytes().decode().replace("\n", end)
    assert shown(content, name).replace("\r\n", "\n") == (WHOLE / f"{name}.read").read_bytes().decode()
