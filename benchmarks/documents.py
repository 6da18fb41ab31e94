"""Measure the time and memory of loading each document format, ordinary and hostile.

    python benchmarks/documents.py [--quick] [--json FILE] [--pdfs FOLDER] [--workbooks FOLDER]

The files are generated. Each is read in its own process, whose CPU time and memory growth are measured; for office
documents the helper process counts too. ``--pdfs`` also reads the PDFs of a folder with our loader, with PDFium's own
text extraction and, if installed, with pypdf. ``--workbooks`` counts the cells of a folder's workbooks that have no
better name than "column 7".
"""

from __future__ import annotations

import importlib.util
import io
import logging
import re
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import ROOT, command_line, write_figures
from shared_core.documents.load import LoadOptions, load_document, parse_document
from shared_core.errors import DocumentError

_NAMELESS = re.compile(r"\bcolumn \d+: ")
SCHEMAS = "http://schemas.openxmlformats.org"
MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{SCHEMAS}/package/2006/content-types"><Default Extension="rels" ContentType='
    '"application/vnd.openxmlformats-package.relationships+xml"/>'
    f'<Override PartName="/word/document.xml" ContentType="{MAIN}"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{SCHEMAS}/package/2006/relationships"><Relationship Id="r" Type='
    f'"{SCHEMAS}/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>',
}
CHILD = """
import resource, sys
from shared_core.errors import DocumentError
from shared_core.documents.load import LoadOptions, parse_document
from shared_core.documents.loaders import isolated
name, warm = sys.argv[1], "warm." + sys.argv[1].split(".", 1)[1]
data = sys.stdin.buffer.read()
first, data = data[: int(sys.argv[2])], data[int(sys.argv[2]) :]
parse_document(first, warm, LoadOptions(), file_name=warm)
before, length = resource.getrusage(resource.RUSAGE_SELF), -1
try:
    length = len(parse_document(data, name, LoadOptions(), file_name=name).text)
except DocumentError as error:
    print(error.message, file=sys.stderr)
after = resource.getrusage(resource.RUSAGE_SELF)
isolated._helper.close()  # its usage, start included, is known once it has ended
helper = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime + helper.ru_utime + helper.ru_stime
print(length, seconds, max(after.ru_maxrss - before.ru_maxrss, helper.ru_maxrss))
"""


def docx(body: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in PARTS.items():
            archive.writestr(name, content)
        word = f"{SCHEMAS}/wordprocessingml/2006/main"
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{word}"><w:body>{body}</w:body></w:document>')
    return buffer.getvalue()


def files(scale: float) -> dict[str, tuple[str, bytes, bytes]]:
    """Generate the files: figure → (file name, a small file of the same kind, the file)."""

    def many(text: str, count: int) -> str:
        return text * int(count * scale)

    page, run = "<p>warm up here</p>", "<w:r><w:rPr><w:b/></w:rPr><w:t>a </w:t></w:r>"
    small = docx("<w:p><w:r><w:t>warm up</w:t></w:r></w:p>")
    html = {
        "html_plain": many("<p>Some words of a paragraph, with a <a href='x'>link</a>.</p>\n", 200_000),
        "html_svg": many("<svg>", 300_000),
        "html_comments": many("<!--", 1_000_000),
        "html_divs": many("<div>", 300_000),
        "html_unmatched": many("<div>", 20_000) + many("</span>", 20_000),
    }
    made = {name: ("a.html", page.encode(), f"<p>text</p>{content}".encode()) for name, content in html.items()}
    made["docx_20mb"] = ("a.docx", small, docx(many(f"<w:p>{run * 40}</w:p>", 11_000)))
    table = "".join(f'{i},"Some ""quoted"" text of row {i}",{i / 7}\n' for i in range(int(200_000 * scale)))
    made["csv"] = ("a.csv", b"id,text,n\n1,warm up,2\n", f"id,text,n\n{table}".encode())
    quotes = many('"x\n', 50_000)
    made["csv_broken"] = ("a.csv", b"id,text,n\n1,warm up,2\n", f"id,text,n\n{quotes}1,a b,2\n".encode())
    return made


def measure(scale: float) -> dict[str, float]:
    found: dict[str, float] = {}
    for figure, (name, warm, data) in files(scale).items():
        command = [sys.executable, "-c", CHILD, name, str(len(warm))]
        run = subprocess.run(command, input=warm + data, capture_output=True, cwd=ROOT, check=True)
        length, seconds, kilobytes = map(float, run.stdout.split())
        found |= {f"{figure}_seconds": round(seconds, 3), f"{figure}_mb": round(kilobytes / 1024, 1)}
        said = run.stderr.decode().strip()
        size = len(data) / 1e6
        print(
            f"{figure:16} {size:7.2f} MB {length:10.0f} letters {seconds:6.2f} s {kilobytes / 1024:6.1f} MB more {said}"
        )
    return found


def ours(path: Path) -> str:
    return parse_document(path.read_bytes(), path.name, LoadOptions(), file_name=path.name).text


def pdfium(path: Path) -> str:
    import pypdfium2

    document = pypdfium2.PdfDocument(path)
    return "\n".join(page.get_textpage().get_text_range() for page in document)


def pypdf(path: Path) -> str:
    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    return "\n".join(page.extract_text() for page in PdfReader(path).pages)


def compare_pdfs(folder: Path, quick: bool) -> dict[str, float]:
    """Compare wall-clock seconds file by file, and the share of letters in words longer than 18 (lost spaces)."""
    paths = sorted(folder.glob("*.pdf"))[:: 10 if quick else 1]
    readers: dict[str, Callable[[Path], str]] = {"ours": ours, "pdfium": pdfium}
    if importlib.util.find_spec("pypdf") is not None:
        readers["pypdf"] = pypdf
    seconds, letters, long, failed = (dict.fromkeys(readers, 0.0) for _ in range(4))
    ours(paths[0])  # starts the helper process
    for path in paths:
        for name, read in readers.items():
            start = time.perf_counter()
            try:
                text = read(path)
            except Exception:  # each reader raises its own errors; only the number of lost files is compared
                failed[name] += 1
                continue
            seconds[name] += time.perf_counter() - start
            words = [len(word) for word in re.findall(r"[^\W\d_]+", text)]
            letters[name] += sum(words)
            long[name] += sum(length for length in words if length > 18)
    found: dict[str, float] = {}
    for name in readers:
        share = long[name] / max(1, letters[name])
        found |= {f"pdf_{name}_seconds": round(seconds[name], 2), f"pdf_{name}_long_words": round(share, 4)}
        print(
            f"{name:8} {len(paths)} files, {failed[name]:.0f} not read, {seconds[name]:.1f} s, {share:.2%} long words"
        )
    return found


def count_nameless(folder: Path) -> dict[str, float]:
    """Read the workbooks of a folder (XLSX up to 400 kB) and count rows and the cells whose column has no name."""
    counts: Counter[str] = Counter()
    for path in sorted(folder.rglob("*.xlsx")):
        if path.stat().st_size > 400_000:
            continue
        try:
            document = load_document(path)
        except DocumentError:
            counts["not read"] += 1
            continue
        counts["read"] += 1
        counts["passages"] += len(document.segments)
        counts["cells without a name"] += len(_NAMELESS.findall(document.text))
    print("workbooks: " + ", ".join(f"{number:,} {what}" for what, number in counts.items()))
    return {f"workbooks, {what}": float(number) for what, number in counts.items()}


def main() -> None:
    parser = command_line(__doc__, quick="files of a tenth of the size", data=False)
    parser.add_argument("--pdfs", type=Path, help="a folder of PDFs to read")
    parser.add_argument("--workbooks", type=Path, help="a folder of workbooks to read")
    given = parser.parse_args()
    figures = measure(0.1 if given.quick else 1.0)
    if given.pdfs is not None:
        figures |= compare_pdfs(given.pdfs, given.quick)
    if given.workbooks is not None:
        figures |= count_nameless(given.workbooks)
    write_figures(figures, given.json)


if __name__ == "__main__":
    main()
