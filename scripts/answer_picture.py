"""Draw `docs/answer.png`: the report of two questions about the demo documents, as a browser shows it.

    make demo && .venv/bin/python scripts/answer_picture.py [--index DIR] [--browser chromium]

Needs a Chromium or Chrome; what it shows is what `selfreflect ask --html` wrote, unchanged.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
QUESTIONS = ("On what date was the Lowen Gut station opened?", "Who developed the vaccine against the grey fever?")
SIZE = (1000, 1180)


def main() -> None:
    """Ask, and have the page drawn."""
    parser = argparse.ArgumentParser(description="Draw docs/answer.png.")
    parser.add_argument("--index", type=Path, default=ROOT / ".demo/index", help="made by `make demo`")
    parser.add_argument("--browser", default="chromium")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/answer.png")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "answers.html"
        ask = [sys.executable, "-m", "shared_core.cli", "ask", "--index", str(options.index), "--html", str(page)]
        asked = subprocess.run([*ask, *QUESTIONS], cwd=ROOT, check=False)
        if asked.returncode not in (0, 3):
            raise SystemExit(asked.returncode)
        size = "--window-size={},{}".format(*SIZE)
        draw = [options.browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", size]
        draw += [f"--screenshot={options.output.resolve()}", page.as_uri()]
        drawn = subprocess.run(draw, capture_output=True, text=True, check=False)  # it has much to say of itself
        if drawn.returncode:
            raise SystemExit(drawn.stderr)


if __name__ == "__main__":
    main()
