"""Read PDFs with pypdfium2."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shared_core.documents.loaders.extracted import (
    Budget,
    Extracted,
    Problem,
    damaged,
    given_title,
    one_line,
    without_surrogates,
)
from shared_core.documents.loaders.pdf_headings import Bookmark
from shared_core.documents.loaders.pdf_lines import Line, page_lines
from shared_core.documents.loaders.pdf_rules import Rules, page_rules
from shared_core.documents.loaders.pdf_text import assemble
from shared_core.errors import DocumentError
from shared_core.support.regex import lazy_regex

if TYPE_CHECKING:
    import pypdfium2

_SELDOM = (
    (lazy_regex("[\u3400-\u4dbf]"), 0.2),  # CJK Extension A
    (lazy_regex("(?![§©«®°·»])[\u00a1-\u024f]"), 0.35),  # Latin beyond ASCII, but for what is drawn in lines
)
"""Ranges of characters, and their largest share on a page that can be read."""
_FEW_LETTERS = 40
_USUAL = frozenset("aeinorst")
"""Letters of which nearly all are among the most frequent characters of a page in any language in Latin letters."""
_MOST_FREQUENT, _LEAST_USUAL, _FEW_USUAL = 12, 6, 3
_SOME_LETTERS, _ODD_SHARE, _LATIN_SHARE = 200, 0.015, 0.9
_OCR = "It may be a scan: run it through OCR first (for example: ocrmypdf IN OUT)."
_NAME = lazy_regex(r"(?:https?://\S+|(?:arxiv|doi):.*|\w[\w.-]*_[\w.-]*)\Z", re.IGNORECASE)  # of a file
_TAG = lazy_regex(r"</?[a-zA-Z][^<>]{0,40}>")  # as publishers set titles
_NO_TABLE = "a font has no table of characters"
_FORCE_OCR = "Run it through OCR (for example: ocrmypdf --force-ocr IN OUT)."
_UNREADABLE_SHARE = 0.3
_MOST_BOOKMARKS = 5_000
_SHOWN_PAGES = 8


def read_pdf(data: bytes, budget: Budget) -> Extracted:
    """Read a PDF with a text layer: columns in reading order, divided words joined, running heads left out.

    Headings come from the outline and from font sizes. Where each page begins is kept apart from the text, because a
    sentence may run over a page's end. Time is checked between pages only, and neither memory nor crashes are bounded
    here: ``isolated.read_isolated`` calls it in a process of its own. DocumentError if it is damaged, protected by a
    password, or without any text (a scan).
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower() or "security" in str(error).lower():
            raise DocumentError(
                "The PDF is protected by a password.",
                hint="Save a copy without the password (for example: qpdf --decrypt --password=… IN OUT).",
            ) from error
        raise damaged("PDF", error) from error
    try:
        return _read(document, budget)
    finally:
        document.close()


def _read(document: pypdfium2.PdfDocument, budget: Budget) -> Extracted:
    import pypdfium2

    pages: list[list[Line]] = []
    rules: list[Rules] = []
    labels: list[str] = []
    problems: list[Problem] = []
    pictures: list[int] = []
    unreadable: list[int] = []
    for number in range(1, len(document) + 1):
        budget.check()
        lines: list[Line] = []
        drawn = Rules()
        try:
            page = document[number - 1]
            drawn = page_rules(page)
            lines = page_lines(page, drawn)
            if not lines and _has_picture(page):
                pictures.append(number)
            page.close()
        except pypdfium2.PdfiumError as error:
            problems.append(Problem(f"page {number} cannot be read: {one_line(str(error))}", "Print it to a new PDF."))
        if _is_unreadable(lines):
            unreadable.append(number)
        pages.append(lines)
        rules.append(drawn)
        labels.append(_label(document, number))
    counted = [said for lines in pages if (said := _is_counted(lines)) is not None]
    if 2 * sum(counted) > len(counted):  # formulas look like it on a page, but not on most
        unreadable = [number for number, lines in enumerate(pages, 1) if lines]
    for number in unreadable:
        pages[number - 1] = []
    if unreadable and not any(pages):
        raise DocumentError(f"The PDF's {len(pages)} pages cannot be read: {_NO_TABLE}.", hint=_FORCE_OCR)
    if unreadable:
        problems.append(Problem(f"{_listed(unreadable)} cannot be read: {_NO_TABLE}", _FORCE_OCR))
    if not any(pages):
        why = f" ({problems[0].message})" if problems else ""
        raise DocumentError(
            f"The PDF contains no text on any of its {len(pages)} pages{why}.",
            hint=problems[0].hint if problems else _OCR,
        )
    if pictures:
        what = "is a picture" if len(pictures) == 1 else "are pictures"
        problems.append(Problem(f"{_listed(pictures)} {what} without text", "Run it through OCR (ocrmypdf IN OUT)."))
    found = assemble(pages, rules, labels, _bookmarks(document, budget), _title(document))
    return replace(found, problems=tuple(problems))


def _listed(pages: Sequence[int]) -> str:
    """Return page numbers as in a sentence: "page 3", "12 pages (1, 2, 3, …)"."""
    if len(pages) == 1:
        return f"page {pages[0]}"
    shown = ", ".join(map(str, pages[:_SHOWN_PAGES])) + (", …" if len(pages) > _SHOWN_PAGES else "")
    return f"{len(pages)} pages ({shown})"


def _has_picture(page: pypdfium2.PdfPage) -> bool:
    import pypdfium2.raw as raw

    return any(True for _ in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=2))


def _is_unreadable(lines: Sequence[Line]) -> bool:
    """Return whether the letters come from a font that the file does not map to characters."""
    text = "".join(line.text for line in lines)
    if _odd(text) > _UNREADABLE_SHARE * len(text):
        return True
    # Numbers of shapes taken for characters: ASCII lands together in a range of which no language has so many.
    shown = text.replace(" ", "")
    return any(len(some.findall(shown)) > share * max(len(shown), _FEW_LETTERS) for some, share in _SELDOM)


def _odd(text: str) -> int:
    """Return how many characters no text has."""
    return sum(
        letter < " " or "\x7f" <= letter < "\xa0" or "\ue000" <= letter <= "\uf8ff" or letter == "\ufffd"
        for letter in text
    )


def _is_counted(lines: Sequence[Line]) -> bool | None:
    """Return whether a page's shapes seem to be counted from the first, as they are in some old files.

    Other letters than a language's are the frequent ones, and some are no letters. ``None`` if too little tells it.
    """
    shown = [c for line in lines for c in line.text.casefold() if c > " " and not c.isdigit()]
    if len(shown) < _SOME_LETTERS or sum(letter < "\u0250" for letter in shown) < _LATIN_SHARE * len(shown):
        return None
    frequent = {letter for letter, _ in Counter(shown).most_common(_MOST_FREQUENT)}
    usual, odd = len(frequent & _USUAL), sum(_odd(line.text) for line in lines)
    return usual < _FEW_USUAL or (usual < _LEAST_USUAL and odd > _ODD_SHARE * len(shown))


def _label(document: pypdfium2.PdfDocument, number: int) -> str:
    label = one_line(without_surrogates(document.get_page_label(number - 1) or ""))
    return "" if label == str(number) else label[:20]


def _bookmarks(document: pypdfium2.PdfDocument, budget: Budget) -> list[Bookmark]:
    import pypdfium2

    found: list[Bookmark] = []
    try:
        for entry in itertools.islice(document.get_toc(max_depth=6), _MOST_BOOKMARKS):
            budget.check()
            target = entry.get_dest()
            page = target.get_index() if target is not None else None
            title = one_line(without_surrogates(entry.get_title()))
            if title and page is not None:
                found.append(Bookmark(title, entry.level + 1, page))
    except DocumentError:
        raise
    except (pypdfium2.PdfiumError, ValueError, RecursionError):  # a damaged outline must not cost the text
        return found
    return found


def _title(document: pypdfium2.PdfDocument) -> str:
    title = given_title(_TAG.sub("", document.get_metadata_dict().get("Title", "")))
    return "" if _NAME.match(title) else title
