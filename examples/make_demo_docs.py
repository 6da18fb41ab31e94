"""Make the PDF and Word files of the demo corpus from their text sources.

    python examples/make_demo_docs.py [--out FOLDER]

Reads ``examples/demo_sources/NAME.pdf.md`` and ``NAME.docx.md`` and writes ``NAME.pdf`` and ``NAME.docx`` (by default
into ``examples/demo_docs``). The same sources give the same bytes (of Word files: with the same python-docx).

The sources know four kinds of block, an empty line apart: ``# title``, ``## heading``, a paragraph on one line, and a
table of lines ``|cell|cell|`` (Word only).
"""

from __future__ import annotations

import argparse
import io
import zipfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "demo_sources"
OUT = HERE / "demo_docs"
MADE = datetime(2011, 9, 9)  # fixed, so that making the files again changes nothing

PAGE_WIDTH, PAGE_HEIGHT, MARGIN = 595.0, 842.0, 72.0
# Widths of the characters 32 to 126 in Helvetica, in thousandths of the font size (Adobe's metrics of the base fonts).
HELVETICA = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
    556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833,
    722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556,
    556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334,
    260, 334, 584,
]  # fmt: skip


class Block(NamedTuple):
    """A title (level 1), a heading (2), a paragraph (0) or a table (0, with rows)."""

    level: int
    text: str
    rows: tuple[tuple[str, ...], ...] = ()


class Line(NamedTuple):
    """A line of a PDF: font (F1 plain, F2 bold), size and text, and its distance from the line above."""

    font: str
    size: float
    text: str
    leading: float


def read_blocks(source: str) -> list[Block]:
    """The blocks of a source, in order."""
    blocks: list[Block] = []
    for chunk in source.split("\n\n"):
        chunk = chunk.strip()
        if chunk.startswith("|"):
            rows = tuple(tuple(line.strip().strip("|").split("|")) for line in chunk.splitlines())
            blocks.append(Block(0, "", rows))
        elif chunk:
            level = len(chunk) - len(chunk.lstrip("#"))
            blocks.append(Block(level, chunk[level:].strip()))
    return blocks


def wrap(text: str, size: float, width: float) -> Iterator[str]:
    """Lines of ``text`` no wider than ``width`` points. Raises ValueError for text that is not plain ASCII."""
    if not (text.isascii() and text.isprintable()):
        raise ValueError(f"PDF sources are plain ASCII, and this is not: {text[:60]!r}")
    line = ""
    for word in text.split():
        longer = f"{line} {word}" if line else word
        if line and sum(HELVETICA[ord(c) - 32] for c in longer) * size / 1000 > width:
            yield line
            line = word
        else:
            line = longer
    yield line


def block_lines(block: Block) -> list[Line]:
    """A block as lines, after an empty one (a space), by which readers of the text layer tell paragraphs apart."""
    if block.rows:
        raise ValueError("tables are not supported in PDF sources")
    # Bold is wider than the metrics above say: headings keep a tenth of the width in reserve.
    font, size, width = {1: ("F2", 18.0, 0.9), 2: ("F2", 13.0, 0.9)}.get(block.level, ("F1", 12.0, 1.0))
    room = (PAGE_WIDTH - 2 * MARGIN) * width
    return [Line("F1", 10.5, " ", 10.0), *(Line(font, size, text, 1.4 * size) for text in wrap(block.text, size, room))]


def paginate(blocks: Sequence[Block]) -> list[list[Line]]:
    """Pages of whole blocks; a heading stays with the paragraph below it."""
    groups: list[list[Line]] = []
    joined = False
    for block in blocks:
        if joined:
            groups[-1] += block_lines(block)
        else:
            groups.append(block_lines(block))
        joined = block.level > 0
    pages: list[list[Line]] = [[]]
    for group in groups:
        if sum(line.leading for line in pages[-1] + group) > PAGE_HEIGHT - 2 * MARGIN and pages[-1]:
            pages.append([])
        pages[-1] += group
    return pages


def page_stream(lines: Sequence[Line]) -> bytes:
    """The drawing commands of a page: every line at its place, top to bottom."""
    commands: list[bytes] = [b"BT"]
    y = PAGE_HEIGHT - MARGIN
    for line in lines:
        y -= line.leading
        text = line.text.encode("cp1252")
        for mark in (b"\\", b"(", b")"):
            text = text.replace(mark, b"\\" + mark)
        commands.append(b"/%b %.1f Tf 1 0 0 1 %.1f %.1f Tm (%b) Tj" % (line.font.encode(), line.size, MARGIN, y, text))
    commands.append(b"ET")
    return b"\n".join(commands)


def make_pdf(blocks: Sequence[Block]) -> bytes:
    """A PDF 1.4 with the two base fonts it needs and an uncompressed text layer."""
    pages = paginate(blocks)
    kids = b" ".join(b"%d 0 R" % (6 + 2 * i) for i in range(len(pages)))
    title = blocks[0].text.encode("cp1252").replace(b"(", b"\\(").replace(b")", b"\\)")
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /%b /Encoding /WinAnsiEncoding >>"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%b] /Count %d >>" % (kids, len(pages)),
        font % b"Helvetica",
        font % b"Helvetica-Bold",
        b"<< /Title (%b) /CreationDate (D:%b) >>" % (title, MADE.strftime("%Y%m%d%H%M%S").encode()),
    ]
    for i, lines in enumerate(pages):
        stream = page_stream(lines)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> >>" % (PAGE_WIDTH, PAGE_HEIGHT, 7 + 2 * i)
        )
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(stream), stream))
    out = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    offsets: list[int] = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R /Info 5 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)


def make_docx(blocks: Sequence[Block]) -> bytes:
    """A Word file in python-docx's default template."""
    import docx

    document = docx.Document()
    properties = document.core_properties
    properties.title, properties.author, properties.comments = blocks[0].text, "", ""
    properties.created = properties.modified = MADE
    for block in blocks:
        if block.rows:
            table = document.add_table(rows=0, cols=len(block.rows[0]))
            for row in block.rows:
                for cell, text in zip(table.add_row().cells, row, strict=True):
                    cell.text = text
        elif block.level:
            document.add_heading(block.text, level=block.level - 1)
        else:
            document.add_paragraph(block.text)
    raw = io.BytesIO()
    document.save(raw)
    return _without_times(raw.getvalue())


def _without_times(data: bytes) -> bytes:
    """The same zip archive with every entry dated alike."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            new.writestr(zipfile.ZipInfo(entry.filename, MADE.timetuple()[:6]), old.read(entry), zipfile.ZIP_DEFLATED)
    return out.getvalue()


def make_all(out: Path = OUT) -> list[Path]:
    """Write every PDF and Word file; returns their paths."""
    out.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for source in sorted(SOURCES.glob("*.*.md")):
        target = out / source.stem
        make = {".pdf": make_pdf, ".docx": make_docx}[target.suffix]
        target.write_bytes(make(read_blocks(source.read_text(encoding="utf-8"))))
        written.append(target)
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the PDF and Word files of the demo corpus.")
    parser.add_argument("--out", type=Path, default=OUT, help="folder to write to (default: examples/demo_docs)")
    for path in make_all(parser.parse_args().out):
        print(f"{path}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
