"""PDFs written by hand: text at given places, and files that keep a parser busy."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

At = tuple[float, float, float, str]  # x, y, font size, text


def pdf(pages: Sequence[Sequence[At]], *, title: str = "") -> bytes:
    """A PDF with text in Helvetica at given places of each page (points from the lower left corner)."""
    return from_streams(list(map(stream, pages)), title=title)


def lines(texts: Sequence[str], *, x: float = 60, top: float = 700, size: float = 11) -> list[At]:
    """Lines of one paragraph, from the top."""
    return [(x, top - 1.2 * size * i, size, text) for i, text in enumerate(texts)]


def from_streams(
    streams: Sequence[bytes],
    *,
    title: str = "",
    rotate: int = 0,
    objects: Sequence[bytes] = (),
    extra: bytes = b"",
    fonts: bytes = b"",
    catalog: bytes = b"",
) -> bytes:
    """A PDF of content streams.

    ``objects`` are numbered from 5 on, ``extra`` goes into the pages' resources, ``fonts`` into their fonts,
    ``catalog`` into the document's.
    """
    first = 5 + len(objects)
    kids = b" ".join(b"%d 0 R" % (first + 2 * i) for i in range(len(streams)))
    numbered = [
        b"<< /Type /Catalog /Pages 2 0 R %s >>" % catalog,
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(streams)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< /Title (%s) >>" % _escaped(title).encode("cp1252"),
        *objects,
    ]
    for i, stream in enumerate(streams):
        numbered.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Rotate %d /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R %s >> %s >> >>" % (rotate, first + 2 * i + 1, fonts, extra)
        )
        numbered.append(b"<< /Length %d >> stream\n%s\nendstream" % (len(stream), stream))
    body, places = b"%PDF-1.7\n", []
    for number, content in enumerate(numbered, 1):
        places.append(len(body))
        body += b"%d 0 obj %s endobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"<< /Size %d /Root 1 0 R /Info 4 0 R >>" % (len(numbered) + 1)
    return body + b"xref\n0 %d\n0000000000 65535 f \n%strailer %s\nstartxref\n%d\n%%%%EOF" % (
        len(numbered) + 1, table, trailer, len(body),
    )  # fmt: skip


def outlined(texts: Sequence[At], entries: Sequence[str]) -> bytes:
    """A PDF of one page whose outline leads to that page."""
    page, last = 6 + len(entries), 5 + len(entries)
    objects = [b"<< /Type /Outlines /First 6 0 R /Last %d 0 R /Count %d >>" % (last, len(entries))]
    for number, entry in enumerate(entries, 6):
        following = b"/Next %d 0 R" % (number + 1) if number < last else b""
        title = _escaped(entry).encode("cp1252")
        objects.append(b"<< /Title (%s) /Parent 5 0 R /Dest [%d 0 R /Fit] %s >>" % (title, page, following))
    return from_streams([stream(texts)], objects=objects, catalog=b"/Outlines 5 0 R")


_DRAWN = 0.12  # points of a unit: of shapes drawn for 600 dots an inch
_HIGH = dict.fromkeys(map(ord, "bdfhklABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"), 0.69)


def drawn(pages: Sequence[Sequence[At]], *, kerned: str = "") -> bytes:
    """A PDF whose letters are pictures, as dvips makes them: a font (Type 3) for each size, all said to be of size 1.

    A character's code is its number, so that names of letters are missing. Each word is placed by itself, and there are
    no spaces. After ``kerned`` letters a little room is left.
    """
    sizes = sorted({size for page in pages for _, _, size, _ in page})
    codes = sorted({ord(c) for page in pages for *_, text in page for c in text if c != " "})
    shapes, objects = {}, []
    for size in sizes:
        for code in codes:
            width, height = 0.5 * size / _DRAWN, _HIGH.get(code, 0.44) * size / _DRAWN
            shape = b"%d 0 0 0 %d %d d1 0 0 %d %d re f" % (width, width, height, width, height)
            objects.append(b"<< /Length %d >> stream\n%s\nendstream" % (len(shape), shape))
            shapes[size, code] = 4 + len(objects)
    names = b" ".join(b"%d /a%d" % (code, code) for code in codes)
    for size in sizes:
        procedures = b" ".join(b"/a%d %d 0 R" % (code, shapes[size, code]) for code in codes)
        widths = b" ".join(b"%d" % (0.5 * size / _DRAWN) for _ in range(codes[0], codes[-1] + 1))
        objects.append(
            b"<< /Type /Font /Subtype /Type3 /FontMatrix [1 0 0 1 0 0] /FontBBox [0 0 0 0] /FirstChar %d /LastChar %d "
            b"/Widths [%s] /Encoding << /Type /Encoding /Differences [%s] >> /CharProcs << %s >> >>"
            % (codes[0], codes[-1], widths, names, procedures)
        )
    first = 5 + len(shapes)
    fonts = b" ".join(b"/T%d %d 0 R" % (i, first + i) for i in range(len(sizes)))
    streams = [b"\n".join(_drawn_line(at, sizes.index(at[2]), kerned) for at in page) for page in pages]
    return from_streams(streams, objects=objects, fonts=fonts)


def _drawn_line(at: At, font: int, kerned: str) -> bytes:
    x, y, size, text = at
    parts = []
    for word in text.split(" "):
        start = x
        for letter in word:
            parts.append(b"%.3f 0 0 %.3f %.2f %.2f Tm <%02x> Tj" % (_DRAWN, _DRAWN, x, y, ord(letter)))
            x += (0.5 + 0.03 * (letter in kerned)) * size
        x += 0.33 * size if x > start else 0
    return b"BT /T%d 1 Tf %s ET" % (font, b" ".join(parts))


def endless() -> bytes:
    """Forms that draw ten others each, ten levels deep: as many letters as no computer will ever read."""
    objects = []
    for level in range(10):
        stream = b"BT /F1 9 Tf (x) Tj ET" if level == 9 else b"/Fm%d Do " % (level + 1) * 10
        following = b"/XObject << /Fm%d %d 0 R >>" % (level + 1, 6 + level) if level < 9 else b""
        objects.append(
            b"<< /Type /XObject /Subtype /Form /BBox [0 0 600 800] /Resources << /Font << /F1 3 0 R >> %s >> "
            b"/Length %d >> stream\n%s\nendstream" % (following, len(stream), stream)
        )
    return from_streams([b"/Fm0 Do"], objects=objects, extra=b"/XObject << /Fm0 5 0 R >>")


def huge(operations: int) -> bytes:
    """A page of so many pieces of text, packed twice into a few hundred bytes."""
    content = b"BT /F1 12 Tf " + b"1 0 0 1 10 10 Tm (ab cd) Tj " * operations + b"ET"
    packed = zlib.compress(zlib.compress(content, 9), 9)
    plain = from_streams([b"STREAM"])
    stream = b"<< /Filter [/FlateDecode /FlateDecode] /Length %d >> stream\n%s\nendstream" % (len(packed), packed)
    return plain.replace(b"<< /Length 6 >> stream\nSTREAM\nendstream", stream)


Rule = tuple[float, float, float, float]  # from x, y to x, y


def stream(texts: Sequence[At], rules: Sequence[Rule] = ()) -> bytes:
    """A page's content: drawn rules, and text at places."""
    drawn = [f"{x0} {y0} m {x1} {y1} l S" for x0, y0, x1, y1 in rules]
    written = [f"BT /F1 {size} Tf 1 0 0 1 {x} {y} Tm ({_escaped(text)}) Tj ET" for x, y, size, text in texts]
    return "\n".join([*drawn, *written]).encode("cp1252")


def grid(xs: Sequence[float], ys: Sequence[float]) -> list[Rule]:
    """The rules of a table whose columns and rows begin and end at these places, ``ys`` from the top."""
    return [(xs[0], y, xs[-1], y) for y in ys] + [(x, ys[-1], x, ys[0]) for x in xs]


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
