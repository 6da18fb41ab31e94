"""PDF (pypdf) and DOCX (python-docx)."""

from __future__ import annotations

import io
import logging
import re
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from shared_core.errors import DocumentError, MissingDependencyError
from shared_core.retrieval.loaders.base import (
    Extracted,
    Heading,
    Part,
    Problem,
    first_line_title,
    one_line,
    without_surrogates,
)

_PAGE_BREAK = "\n\n"
_HEADING_STYLE = re.compile(r"heading (\d)$", re.IGNORECASE)
_UNPACKED_BYTES = 1 << 30
_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
# What programs write into the title field when nobody gave one.
_NO_TITLE = re.compile(
    r"^(untitled.*|microsoft (word|powerpoint) - .*|slide \d+|.*\.(docx?|pptx?|tex|dvi|indd))$", re.I
)


def load_pdf(data: bytes) -> Extracted:
    """A PDF with a text layer: pages apart, no passage crosses a page, ``page`` counts from 1.

    Raises:
        DocumentError: damaged, protected by a password, or without any text (a scan).
        MissingDependencyError: pypdf is not installed.
    """
    try:
        import pypdf
    except ImportError as error:
        raise MissingDependencyError("pypdf", extra="documents", purpose="Reading PDF files") from error
    with _quiet("pypdf"):
        try:
            reader = pypdf.PdfReader(io.BytesIO(data), strict=False)
            locked = reader.is_encrypted and not reader.decrypt("")
            pages = [] if locked else list(reader.pages)
        except Exception as error:  # pypdf raises nearly anything on a damaged file
            if "cryptography" in str(error):
                raise DocumentError(
                    "The PDF is encrypted with AES, which needs the package 'cryptography'.",
                    hint="pip install cryptography, or save the PDF without protection.",
                ) from error
            raise _damaged("PDF", error) from error
        if locked:
            raise DocumentError(
                "The PDF is protected by a password.",
                hint="Save a copy without the password (for example: qpdf --decrypt --password=… IN OUT).",
            )
        return _pdf_pages(pages, _pdf_title(reader))


def _pdf_pages(pages: list[Any], title: str) -> Extracted:
    pieces: list[str] = []
    parts: list[Part] = []
    problems: list[Problem] = []
    length = 0
    for number, page in enumerate(pages, 1):
        try:
            text = without_surrogates(page.extract_text()).replace("\x00", "\ufffd")
        except Exception as error:
            problems.append(
                Problem(f"page {number} cannot be read: {error or type(error).__name__}", "Print it to a new PDF.")
            )
            continue
        if not text.strip():
            continue
        if pieces:
            pieces.append(_PAGE_BREAK)
            length += len(_PAGE_BREAK)
        pieces.append(text)
        parts.append(Part(length, length + len(text), metadata={"page": number}))
        length += len(text)
    if not parts:
        why = f" ({problems[0].message})" if problems else ""
        raise DocumentError(
            f"The PDF holds no text on any of its {len(pages)} pages{why}.",
            hint="It may be a scan: run it through OCR first (for example: ocrmypdf IN OUT).",
        )
    text = "".join(pieces)
    return Extracted(text, title or first_line_title(text), parts=tuple(parts), problems=tuple(problems))


def _pdf_title(reader: Any) -> str:
    try:
        title = one_line(without_surrogates(str((reader.metadata and reader.metadata.title) or "")))
    except Exception:  # a damaged information dictionary must not cost the text
        return ""
    return "" if _NO_TITLE.match(title) else title


def load_docx(data: bytes) -> Extracted:
    """A Word document: paragraphs and tables of its body in order (cells by tab, rows by line), headings by style.

    Headers, footers, footnotes, comments and text boxes are not read.

    Raises:
        DocumentError: damaged, encrypted, of the old ``.doc`` kind, or expanding beyond 1 GiB.
        MissingDependencyError: python-docx is not installed.
    """
    try:
        import docx
    except ImportError as error:
        raise MissingDependencyError("python-docx", extra="documents", purpose="Reading DOCX files") from error
    if data.startswith(_OLD_OFFICE):
        raise DocumentError(
            "The file is an old .doc or a DOCX protected by a password.", hint="Save it as an unprotected .docx."
        )
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
        if unpacked > _UNPACKED_BYTES:
            raise DocumentError(
                f"The DOCX expands to {unpacked:,} bytes, more than {_UNPACKED_BYTES:,}.", hint="Split the document."
            )
        document = docx.Document(io.BytesIO(data))
        extracted = _docx_body(document)
        title = one_line(document.core_properties.title or "")
    except DocumentError:
        raise
    except Exception as error:  # zipfile, lxml and python-docx each have errors of their own
        raise _damaged("DOCX", error) from error
    if not title or _NO_TITLE.match(title):
        title = extracted.headings[0].label if extracted.headings else first_line_title(extracted.text)
    return Extracted(extracted.text, title, extracted.headings)


def _docx_body(document: Any) -> Extracted:
    pieces: list[str] = []
    headings: list[Heading] = []
    length = 0
    for text, level in _blocks(document.iter_inner_content()):
        if not text.strip():
            continue
        if pieces:
            pieces.append("\n\n")
            length += 2
        if level:
            headings.append(Heading(length, length + len(text), level, one_line(text)))
        pieces.append(text)
        length += len(text)
    return Extracted("".join(pieces), headings=tuple(headings))


def _blocks(items: Iterable[Any]) -> Iterator[tuple[str, int]]:
    """(text, heading level or 0) of each paragraph and table."""
    for item in items:
        if hasattr(item, "rows"):
            yield "\n".join(_row(row) for row in item.rows), 0
        else:
            yield item.text, _heading_level(item)


def _row(row: Any) -> str:
    cells: list[str] = []
    seen: list[Any] = []
    for cell in row.cells:  # a merged cell comes once for each column it spans
        if not any(cell._tc is other for other in seen):
            seen.append(cell._tc)
            cells.append(" ".join(text for text, _ in _blocks(cell.iter_inner_content()) if text.strip()))
    return "\t".join(cells)


def _heading_level(paragraph: Any) -> int:
    name = getattr(paragraph.style, "name", None) or ""
    if name.lower() == "title":
        return 1
    match = _HEADING_STYLE.match(name)
    return int(match.group(1)) if match else 0


def _damaged(kind: str, error: Exception) -> DocumentError:
    detail = one_line(str(error)) or type(error).__name__
    return DocumentError(
        f"The {kind} is damaged and cannot be read: {detail[:200]}",
        hint=f"Open it in the program that made it and save it as {kind} again.",
    )


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Silence a library's logging for a while: what matters comes as an error or a Problem."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
