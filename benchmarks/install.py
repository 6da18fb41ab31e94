"""Measure the extra `default` in a fresh environment: size on disk, time to install, start-up, first answer, indexing.

    python benchmarks/install.py [--json FILE] [--keep DIR] [--constraint constraints.txt]

`installed_mb`: growth of a new virtual environment by `pip install '.[default]'`. `help_cpu_s`: `selfreflect --help`;
`ask_cpu_s`: `selfreflect ask` with one question on a ready index of the demo's documents; both in CPU seconds of a
process of their own, the median of five. `index_cpu_ms_per_passage`: `selfreflect index` of the demo's documents,
start-up taken off. `packages`: number of installed packages. Needs a package index.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks import ROOT, command_line, write_figures

QUESTION = "Who founded the Tide Museum?"


def megabytes(folder: Path) -> float:
    """Return the disk space of a folder's files, as `du` counts it."""
    return sum(f.lstat().st_blocks * 512 for f in folder.rglob("*") if not f.is_symlink()) / 1e6


def cpu_seconds(arguments: Sequence[str | Path]) -> float:
    """Return the CPU time of a process; raises CalledProcessError if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(a) for a in arguments], check=True, capture_output=True, cwd=ROOT / "examples")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(folder: Path, constraint: Path | None) -> dict[str, float]:
    """Install into ``folder``, and measure."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    empty, start = megabytes(folder), time.perf_counter()
    limits = ["--constraint", str(constraint)] if constraint else []
    subprocess.run([*pip, "install", "--quiet", *limits, f"{ROOT}[default]"], check=True)
    figures = {"install_s": time.perf_counter() - start, "installed_mb": megabytes(folder) - empty}
    listed = subprocess.run([*pip, "list", "--format", "json"], check=True, capture_output=True, text=True)
    figures["packages"] = float(len(json.loads(listed.stdout)))
    program = folder / "bin" / "selfreflect"
    with tempfile.TemporaryDirectory() as place:
        index = Path(place) / "index"
        cpu_seconds([program, "index", ROOT / "examples/demo_docs", "--index", Path(place) / "first"])  # bytecode
        figures["help_cpu_s"] = statistics.median(cpu_seconds([program, "--help"]) for _ in range(5))
        spent = cpu_seconds([program, "index", ROOT / "examples/demo_docs", "--index", index])
        ask = [program, "ask", QUESTION, "--index", index]
        figures["ask_cpu_s"] = statistics.median(cpu_seconds(ask) for _ in range(5))
        count = (
            "import sys; from shared_core.documents import DocumentIndex as I; print(len(I(sys.argv[1]).passages()))"
        )
        python = str(folder / "bin" / "python")
        counted = subprocess.run([python, "-c", count, str(index)], check=True, capture_output=True, text=True)
        figures["index_cpu_ms_per_passage"] = 1000 * (spent - figures["help_cpu_s"]) / int(counted.stdout)
    return figures


def main() -> None:
    parser = command_line(__doc__, data=False)
    parser.add_argument("--keep", type=Path, help="folder for the environment; by default a temporary one")
    parser.add_argument("--constraint", type=Path, help="file of versions to install")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        figures = run(options.keep or Path(place) / "venv", options.constraint)
    Console().print({name: round(value, 3) for name, value in figures.items()})
    write_figures(figures, options.json)


if __name__ == "__main__":
    main()
