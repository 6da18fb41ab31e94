"""Write weights and the JSON file beside them, also for an unfinished run; average networks.

python -m benchmarks.reader.export NETWORK NETWORK… --out FILE    # the mean of their weights
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.reader.confidence import identity
from shared_core.errors import InputError
from shared_core.reading.weights import VERIFIER

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor


NETWORK = Path(__file__).parent / "network.safetensors"
"""The trained network in half precision, of which ``quantise`` makes the file that ships."""
VERIFIER_NETWORK = NETWORK.with_name("verifier.safetensors")
"""The one that verifies answers."""
LICENCE = "CC-BY-SA-4.0"
SOURCES = [
    "all-MiniLM-L6-v2 (Apache-2.0): the layers are trained on from its own",
    "SQuAD 1.1, train part (Rajpurkar et al. 2016; CC BY-SA 4.0)",
    "SQuAD 2.0, train and tune parts of its dev set, and 17,400 unanswerable questions of its train set, as paired "
    "with answerable ones by Zhu et al. 2019 (Rajpurkar et al. 2018; CC BY-SA 4.0)",
    "PolicyQA, parts of its questions (Ahmad et al. 2020; MIT)",
    "BEGIN (Dziri et al. 2022; Apache-2.0), FoolMeTwice (Eisenschlos et al. 2021; Apache-2.0)",
    "6,654 questions of Natural Questions' train set with their paragraphs, as published with QED (Kwiatkowski et al. "
    "2019, Lamm et al. 2021; CC BY-SA 3.0)",
    "SQuADShifts' reviews, comments and Wikipedia (Miller et al. 2020; CC BY 4.0)",
    "questions of our own on those, on SQuAD 1.1's paragraphs and on files of 16 public sources, listed with their "
    "licences in NOTICE (benchmarks/reader/questions.jsonl.gz)",
    "calibration only: 2WikiMultiHopQA (Apache-2.0), Natural Questions (CC BY-SA 3.0), COVID-QA (Apache-2.0), SubjQA, "
    "SciTail, Climate-FEVER, RTE and WikiQA (research), SNLI (CC BY-SA 4.0), plain-text Wikipedia (CC BY-SA 3.0)",
    "calibration only: 747 questions of our own on files of others (benchmarks/reader/files.json), and on made-up "
    'documents (benchmarks/small_documents.jsonl, part "fit"; benchmarks/reader/documents.jsonl.gz, part "fit")',
    "the verifier also: questions and claims of our own on made-up documents and SQuAD 1.1's paragraphs "
    '(benchmarks/reader/documents.jsonl.gz, part "train")',
]
SETTINGS: dict[str, float] = {"span_share": 0.3, "rank_prior": 0.5, "together": 6}


def write(out: Path, parameters: Mapping[str, Tensor], rarity: NDArray[np.float32], steps: int) -> None:
    """Write the parameters to ``out`` in half precision."""
    import torch
    from safetensors.torch import save_file

    tensors = {name: value.half().contiguous() for name, value in parameters.items()}
    tensors["rarity"] = torch.from_numpy(np.round(rarity * steps).astype(np.uint8))
    save_file(tensors, out)


def read(file: Path) -> dict[str, Tensor]:
    """Read the parameters that ``write`` wrote, in single precision."""
    from safetensors.torch import load_file

    return {name: value.float() for name, value in load_file(file).items() if name != "rarity"}


def describe(out: Path, about: Mapping[str, Any]) -> None:
    """Write the JSON file beside ``out``: sources, settings and calibration, with neutral values for missing ones."""
    digest, verifier = hashlib.sha256(out.read_bytes()).hexdigest(), out.with_name(VERIFIER)
    beside = hashlib.sha256(verifier.read_bytes()).hexdigest() if verifier.exists() else ""
    whole = {
        "version": "3",
        "licence": LICENCE,
        "sources": SOURCES,
        "sha256": digest,
        **SETTINGS,
        **identity(),
        **about,
    } | {"sha256": digest, "verifier": beside}
    out.with_suffix(".json").write_text(json.dumps(whole, indent=1) + "\n", "utf-8")


def average(files: Sequence[Path], out: Path) -> None:
    """Write the mean of networks' weights to ``out``: of one before and after a further training, for example.

    Source: Wortsman et al., "Model soups", ICML 2022. The table of rarities is the first one's.

    Raises:
        InputError: they have different shapes.
    """
    import torch
    from safetensors.torch import load_file

    networks = [read(file) for file in files]
    shapes = [{name: value.shape for name, value in network.items()} for network in networks]
    if any(shape != shapes[0] for shape in shapes):
        raise InputError(f"{', '.join(map(str, files))} are networks of different shapes.", hint="Average alike ones.")
    mean = {name: torch.stack([network[name] for network in networks]).mean(0) for name in networks[0]}
    write(out, mean, load_file(files[0])["rarity"].numpy().astype(np.float32), 1)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reader.export", description=average.__doc__)
    parser.add_argument("networks", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    average(options.networks, options.out)


if __name__ == "__main__":
    main()
