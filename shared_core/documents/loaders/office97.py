"""Read files of Office 97 to 2003: DOC and PPT through office-oxide, converted to HTML; XLS through xlrd, as tables."""

from __future__ import annotations

import io
import json
import re
import struct
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from shared_core.documents.loaders.extracted import (
    Budget,
    Extracted,
    damaged,
    given_title,
    join_pages,
    one_line,
    protected,
    title_of_text,
    without_surrogates,
)
from shared_core.documents.loaders.formats import COMPOUND
from shared_core.documents.loaders.html import read_html
from shared_core.documents.loaders.office import NO_TEXT, SLIDE_ENDS
from shared_core.documents.loaders.sheets import Sheet, moment, read_sheets
from shared_core.support.regex import lazy_regex

# The header of a compound file (MS-CFB 2.2): after the magic number the size of sectors as a power of two, then how
# many sectors the table of sectors has; where and how long the list of these is, of which 109 are in the header.
_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_HEADER = struct.Struct("<8x22xH12xI20x2I")
_IN_HEADER = struct.Struct("<109I")
_SECTOR_SHIFTS = (9, 12)
_LAST_SECTOR = 0xFFFFFFFA  # larger numbers have meanings of their own
_LEFT_OUT = lazy_regex(
    r"<(header|footer)>.*?</\1>|<aside class=\"speaker-notes\">.*?</aside>"
    r"|<p><strong>comment:</strong></p>\n<p>.*?</p>",
    re.DOTALL,
)
_NUMBER_OF_SLIDE = lazy_regex(r"\s*<h2>Slide \d+</h2>")
_MASTER = lazy_regex(r"\s*<h2>Slide Master</h2>")
# Of a number's format: literal text, a currency, what only takes up room, the digits, other signs.
_FORMAT = lazy_regex(r'"([^"]*)"|\\(.)|\[\$([^\]-]*)[^\]]*\]|(_.|\*.|\[[^\]]*\])|([#0?][#0?,.]*)|(.)')
_EMPTY = (0, 5, 6)  # cells of these types: empty, an error, blank
_PLACE = "\0"
_PLACES = lazy_regex(r"([#0?]*(?:,[#0?]+)?)(?:\.([0#?]*))?")
_SIGNS = str.maketrans({"\u2011": "-", "\xad": None, "\x0e": "\n", "\0": None})


def read_office97(kind: str, data: bytes, budget: Budget) -> Extracted:
    """Read a Word document (``doc``) or a presentation (``ppt``), whose slides are pages.

    Headers, footers, speaker notes and comments are left out; notes come last. Automatic numbers are not in the text of
    such a file, and which slides are hidden cannot be told. DocumentError if it is damaged, cut off, protected by a
    password, or beyond the limits.
    """
    import office_oxide

    _check(kind, data)
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


def read_xls(data: bytes, budget: Budget) -> Extracted:
    """Read a workbook as ``read_xlsx`` does; DocumentError if it is damaged, cut off, protected, or takes too long."""
    import xlrd

    if data.startswith(COMPOUND):
        _check("xls", data)
    try:
        book = xlrd.open_workbook(file_contents=data, formatting_info=True, logfile=io.StringIO())
    except MemoryError:
        raise
    except Exception as error:  # what xlrd raises for damaged files is not defined
        raise protected("xls") if "encrypted" in str(error) else damaged("XLS", error) from error
    sheets = [Sheet(sheet.name, bool(sheet.visibility), list(_rows(book, sheet, budget))) for sheet in book.sheets()]
    return read_sheets(sheets, budget)


def _rows(book: Any, sheet: Any, budget: Budget) -> Iterator[list[str]]:
    for number in range(sheet.nrows):
        budget.check()
        filled = [i for i, kind in enumerate(sheet.row_types(number)) if kind not in _EMPTY]
        row = [""] * (filled[-1] + 1 if filled else 0)
        for i in filled:
            row[i] = one_line(without_surrogates(_shown(book, sheet.cell(number, i))))
        yield row


def _shown(book: Any, cell: Any) -> str:
    """Return what a cell shows."""
    import xlrd

    if cell.ctype == xlrd.XL_CELL_TEXT:
        return str(cell.value)
    if cell.ctype == xlrd.XL_CELL_BOOLEAN:
        return "TRUE" if cell.value else "FALSE"
    shown = str(book.format_map[book.xf_list[cell.xf_index].format_key].format_str)
    if cell.ctype == xlrd.XL_CELL_NUMBER:
        return _number(float(cell.value), shown)
    began = xlrd.xldate.epoch_1904 if book.datemode else xlrd.xldate.epoch_1900_minus_1
    try:
        date = (began + timedelta(days=float(cell.value))).date().isoformat()
    except OverflowError:
        return f"{cell.value:.15g}"
    return moment(date, float(cell.value), shown)


def _number(value: float, shown: str) -> str:
    """Return a number as its format shows it: decimals, thousands, percent and currency signs.

    >>> [_number(1234.5, shown) for shown in ("General", "#,##0.00", "0%", '[$€-407] #,##0.00', '0.0" km"')]
    ['1234.5', '1,234.50', '123450%', '€ 1,234.50', '1234.5 km']
    """
    positive, *others = shown.split(";")
    form, sign = (others[0], "") if others and others[0] and value < 0 else (positive, "-" if value < 0 else "")
    written: list[str] = []
    digits, percent = "", False
    for quoted, escaped, currency, room, placeholders, other in _FORMAT.findall(form):
        if (placeholders and digits) or other.isalpha() or other in ("/", "@"):
            return f"{value:.15g}"  # fractions, exponents, words of Excel's own such as "General"
        percent = percent or other == "%"
        digits = digits or placeholders
        written.append(_PLACE if placeholders else "" if room else quoted or escaped or currency or other)
    if (match := _PLACES.fullmatch(digits)) is None or not digits:
        return f"{value:.15g}"
    size = abs(value) * (100 if percent else 1)
    number = f"{size:{',' if ',' in match[1] else ''}.{len(match[2] or '')}f}"
    return "".join(written).replace(_PLACE, f"{sign}{number}").strip()


def _check(kind: str, data: bytes) -> None:
    """Refuse a file that is protected, or cut off: office-oxide would read what is left of it."""
    if "EncryptedPackage".encode("utf-16-le") in data:  # a newer document within such a file
        raise protected(kind)
    cut_off = damaged(kind.upper(), ValueError("its end is missing"))
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
            raise cut_off
        *more, listed = numbers.unpack_from(data, (listed + 1) * size)
        tables += [number for number in more if number < _LAST_SECTOR]
    for table in tables[: min(count, sectors)]:
        if (table + 2) * size > len(data):
            raise cut_off
        # Each entry names the sector that follows; some programs mark those after the last one as ends.
        following = (number for number in numbers.unpack_from(data, (table + 1) * size) if number < _LAST_SECTOR)
        if (max(following, default=0) + 1) * size >= len(data):
            raise cut_off
