"""Run the closed-world benchmark: ``python benchmarks/lab.py --help``, the same as ``python -m benchmarks.lab``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # before this folder, in which `lab` would be found twice

from benchmarks.lab.__main__ import main

if __name__ == "__main__":
    main()
