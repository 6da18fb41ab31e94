"""Average networks of which each was trained on from the first; the average reads better than any of them.

    python -m benchmarks.reader.average NETWORK NETWORK … --out FILE

Source: Wortsman et al. 2022, "Model soups", section 2 (uniform soup). Never average networks of different starts.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.reader.export import read, read_rarity, write
from shared_core.errors import InputError
from shared_core.reading.weights import RARITY_STEPS

if TYPE_CHECKING:
    from torch import Tensor


def average(networks: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of each parameter.

    Raises:
        InputError: there are none, or their parameters differ in name or shape.
    """
    shapes = [{name: value.shape for name, value in network.items()} for network in networks]
    if not shapes or any(s != shapes[0] for s in shapes):
        raise InputError(
            "These networks cannot be averaged: their parameters differ.", hint="Give networks of one training."
        )
    import torch

    return {name: torch.stack([network[name] for network in networks]).mean(0) for name in networks[0]}


def main() -> None:
    """Run the command line."""
    summary = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reader.average", description=summary)
    parser.add_argument("networks", type=Path, nargs="+", help="files of python -m benchmarks.reader")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rarities = [read_rarity(file, RARITY_STEPS) for file in options.networks]
    if any(not np.array_equal(r, rarities[0]) for r in rarities):
        raise InputError("These networks count rare words differently.", hint="Give networks of one training.")
    write(options.out, average([read(file) for file in options.networks]), rarities[0], RARITY_STEPS)


if __name__ == "__main__":
    main()
