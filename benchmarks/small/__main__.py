"""Rebuild the adapter that ships: ``python -m benchmarks.small train``, then ``pack``, then ``replies``.

On a GPU: ``shards``, then ``on_gpu`` there, then ``pack --parts``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import ROOT
from benchmarks.small.replies import write_rates
from benchmarks.small.shards import export
from benchmarks.small.train import STEPS, pack, pack_parts, run


def main() -> None:
    """Run one stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", choices=["train", "shards", "pack", "replies"])
    parser.add_argument("--data", type=Path, default=ROOT / "../shared/data")
    parser.add_argument(
        "--made", type=Path, help="further questions: the folder that benchmarks.reader.questions writes"
    )
    parser.add_argument("--work", type=Path, default=ROOT / ".small", help="folder of the training")
    parser.add_argument("--steps", type=int, default=STEPS, help="of the optimiser, four trees each")
    parser.add_argument("--seed", type=int, default=0, help="of the rows and their order")
    parser.add_argument(
        "--start", "--adapter", dest="start", type=Path, help="earlier adapter to go on from: file or folder"
    )
    parser.add_argument("--file", type=Path, default=ROOT / "shared_core/lm/weights/small.safetensors", help="of pack")
    parser.add_argument("--parts", type=Path, help="folder that on_gpu wrote, to pack")
    parser.add_argument("--each", type=int, default=60, help="questions of each set, of replies")
    given = parser.parse_args()
    if given.stage == "shards" and given.made is None:
        parser.error("shards needs --made: the folder that benchmarks.reader.questions writes")
    if given.stage == "train":
        print(run(given.data, given.work, given.steps, given.seed, given.start, given.made).output)
    elif given.stage == "shards":
        print(export(given.data, given.made, given.work / "shards"))
    elif given.parts is not None:
        print(pack_parts(given.parts, given.work, given.file))
    elif given.stage == "replies":
        print(write_rates(given.data, given.file, given.each))
    else:
        print(pack(given.data, given.work, given.file, given.made))


if __name__ == "__main__":
    main()
