"""Read Word documents and presentations of Office 97 to 2003 (DOC, PPT; through office-oxide), converted to HTML."""

from __future__ import annotations

import json
import re
import struct

from shared_core.documents.loaders.extracted import (
    Extracted,
    damaged,
    given_title,
    join_pages,
    protected,
    title_of_text,
)
from shared_core.documents.loaders.html import read_html
from shared_core.documents.loaders.limits import Budget
from shared_core.documents.loaders.office import NO_TEXT, SLIDE_ENDS
from shared_core.errors import DocumentError

# The header of a compound file (MS-CFB 2.2): after the magic number the size of sectors as a power of two, then how
# many sectors the table of sectors has; where and how long the list of these is, of which 109 are in the header.
_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_HEADER = struct.Struct("<8x22xH12xI20x2I")
_IN_HEADER = struct.Struct("<109I")
_SECTOR_SHIFTS = (9, 12)
_LAST_SECTOR = 0xFFFFFFFA  # larger numbers have meanings of their own
_LEFT_OUT = re.compile(
    r"<(header|footer)>.*?</\1>|<aside class=\"speaker-notes\">.*?</aside>"
    r"|<p><strong>comment:</strong></p>\n<p>.*?</p>",
    re.DOTALL,
)
_NUMBER_OF_SLIDE = re.compile(r"\s*<h2>Slide \d+</h2>")
_MASTER = re.compile(r"\s*<h2>Slide Master</h2>")
_SIGNS = str.maketrans({"\u2011": "-", "\xad": None, "\x0e": "\n", "\0": None})


def read_office97(kind: str, data: bytes, budget: Budget) -> Extracted:
    """Read a Word document (``doc``) or a presentation (``ppt``), whose slides are pages.

    Headers, footers, speaker notes and comments are left out; notes come last. Automatic numbers are not in the text of
    such a file, and which slides are hidden cannot be told.

    Raises:
        DocumentError: damaged, cut off, protected by a password, or not within the limits.
    """
    import office_oxide

    check_office97(kind, data)
    try:
        document = office_oxide.Document.from_bytes(data, kind)
        html, properties = document.to_html(), json.loads(document.to_ir_json())["metadata"]
    except office_oxide.OfficeOxideError as error:
        raise protected(kind) if "password" in str(error) else damaged(kind.upper(), error) from error
    slides = html.split(SLIDE_ENDS) if kind == "ppt" else [html]
    shown = (_NUMBER_OF_SLIDE.sub("", slide, count=1) for slide in slides if not _MASTER.match(slide))
    parts = (NO_TEXT.sub("", _LEFT_OUT.sub("", slide)).strip().translate(_SIGNS) for slide in shown)
    found = join_pages(read_html(f"<main>{part}</main>", budget, spaces=True) for part in parts)
    pages = found.pages if kind == "ppt" else ()
    title = given_title(properties.get("title") or "") or title_of_text(found)
    return Extracted(found.text, title, found.headings, pages=pages)


def check_office97(kind: str, data: bytes) -> None:
    """Refuse a file of Office 97 to 2003 that is damaged, cut off, or protected by a password.

    Raises:
        DocumentError: it is.
    """
    if "EncryptedPackage".encode("utf-16-le") in data:  # a newer document within such a file
        raise protected(kind)
    _check_whole(kind, data)


def _check_whole(kind: str, data: bytes) -> None:
    """Refuse a file of which sectors that are in use are missing: office-oxide would read what is left of it.

    Raises:
        DocumentError: cut off, or no compound file.
    """
    if not data.startswith(_MAGIC) or len(data) < 512:
        raise damaged(kind.upper(), ValueError("it does not begin as such a file"))
    shift, count, listed, lists = _HEADER.unpack_from(data)
    if shift not in _SECTOR_SHIFTS:
        raise damaged(kind.upper(), ValueError(f"it has sectors of 2^{shift} bytes"))
    size = 1 << shift
    sectors, numbers = len(data) // size, struct.Struct(f"<{size // 4}I")
    tables = [number for number in _IN_HEADER.unpack_from(data, 76) if number < _LAST_SECTOR]
    for _ in range(min(lists, sectors)):
        if (listed + 2) * size > len(data):
            raise cut_off(kind)
        *more, listed = numbers.unpack_from(data, (listed + 1) * size)
        tables += [number for number in more if number < _LAST_SECTOR]
    for table in tables[: min(count, sectors)]:
        if (table + 2) * size > len(data):
            raise cut_off(kind)
        # Each entry names the sector that follows; some programs mark those after the last one as ends.
        following = (number for number in numbers.unpack_from(data, (table + 1) * size) if number < _LAST_SECTOR)
        if (max(following, default=0) + 1) * size >= len(data):
            raise cut_off(kind)


def cut_off(kind: str) -> DocumentError:
    """Return the error for a file whose end is missing."""
    return damaged(kind.upper(), ValueError("its end is missing"))
