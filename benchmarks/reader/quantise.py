"""Make the files that ship: encoder and reading network in 8 bits, word vectors in 5.

    python -m benchmarks.reader.quantise [--network FILE] [--verifier FILE] [--encoder OUT] [--reader OUT]

Reads the published all-MiniLM-L6-v2 and the trained networks (``benchmarks/reader/network.safetensors`` and
``verifier.safetensors``). What the channels' ranges are is seen on the demo's documents and questions. The calibration
in the JSON file beside the reader's weights is kept; ``python -m benchmarks.reader.calibrate`` fits it anew. Seconds.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from benchmarks.reader.base import base_parameters, find_base
from benchmarks.reader.export import NETWORK, VERIFIER_NETWORK, describe
from benchmarks.reader.graphs import Largest, encoder, lower, upper
from shared_core.documents.load import load_document
from shared_core.reading.network import Network
from shared_core.reading.prepared import Beside
from shared_core.reading.weights import RARITY_STEPS, VERIFIER, WEIGHTS, Weights
from shared_core.retrieval import minilm
from shared_core.retrieval.graphs import Graph
from shared_core.retrieval.minilm import BITS, MiniLM

Array = NDArray[Any]
Inputs = Sequence[Mapping[str, Array]]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_ROOM = 380


def pack(words: Array) -> dict[str, Array]:
    """Quantise word vectors by row: ``words`` (rows, 5 D / 8) uint8 and ``scales`` (rows,) float16.

    Level ``c`` of 32 means ``(c - 15.5) · scale``; of several scales the one with the least squared error is taken.
    """
    middle = (2**BITS - 1) / 2
    widest = np.maximum(np.abs(words).max(1), 1e-6)
    best, scales, codes = np.full(len(words), np.inf), np.zeros(len(words), np.float16), np.zeros(words.shape, np.uint8)
    for share in np.linspace(0.5, 1.0, 11):
        scale = (share * widest / middle).astype(np.float16)
        step = scale.astype(np.float32)[:, None]
        code = np.clip(np.rint(words / step + middle), 0, 2**BITS - 1)
        error = (((code - middle) * step - words) ** 2).sum(1)
        better = error < best
        best[better], scales[better], codes[better] = error[better], scale[better], code[better].astype(np.uint8)
    bits = np.unpackbits(codes[..., None], axis=-1)[..., 8 - BITS :]
    return {"words": np.packbits(bits.reshape(len(words), -1), axis=1), "scales": scales}


def largest_of(model: bytes, inputs_of: Mapping[str, str], inputs: Inputs) -> Largest:
    """Run a float32 graph, and note the largest absolute value of every channel of its linear maps' inputs."""
    import onnx

    whole = onnx.load_from_string(model)
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(inputs_of.values()))
    graph = Graph({"graph": _array(whole.SerializeToString())}, "graph")
    names = list(dict.fromkeys(inputs_of.values()))
    found: dict[str, Array] = {}
    for one in inputs:
        for name, value in zip(names, graph(**one)):
            top = np.abs(value[0]).max(0)
            found[name] = np.maximum(found[name], top) if name in found else top
    return Largest({of: found[name] for of, name in inputs_of.items()})


def texts() -> list[str]:
    """Return the passages of the demo's documents."""
    found = [load_document(path) for path in sorted((EXAMPLES / "demo_docs").iterdir())]
    return [p for d in found for p in d.text.split("\n\n") if len(p) > 80]


def make_encoder(out: Path) -> MiniLM:
    """Write the encoder to ``out`` and load it."""
    p = {name: value.numpy() for name, value in base_parameters().items()}
    tokenizer = zlib.compress((find_base() / "tokenizer.json").read_bytes(), 9)
    parts = pack(p["words.w"]) | {"tokenizer": _array(tokenizer)}
    plain, inputs_of = encoder(p)
    save(out, parts | {"graph": _array(plain)})
    exact = MiniLM(out)
    ids = [[exact.cls, *e.ids[:_ROOM], exact.sep] for e in exact.tokenize(texts())]
    largest = largest_of(plain, inputs_of, [{"words": exact.words(i)} for i in ids])
    save(out, parts | {"graph": _array(encoder(p, largest)[0])})
    return MiniLM(out)


def make_reader(network: Path, words: MiniLM, out: Path) -> None:
    """Write a reading network to ``out``."""
    from safetensors.numpy import load_file

    p = {name: value if name == "rarity" else value.astype(np.float32) for name, value in load_file(network).items()}
    rest = {"rarity": p["rarity"], "weigh": p["weigh.w"][0, p["cheap.w"].shape[1] :], "cheap_scale": p["cheap_scale.w"]}
    (plain_lower, in_lower), (plain_upper, in_upper) = lower(p), upper(p)
    below, above = _read(words, rest | {"lower": _array(plain_lower), "upper": _array(plain_upper)})
    largest = largest_of(plain_lower, in_lower, below)
    parts = {"lower": _array(lower(p, largest)[0])}
    largest = largest_of(plain_upper, in_upper, above)
    save(out, rest | parts | {"upper": _array(upper(p, largest)[0])})


def _read(words: MiniLM, archive: Mapping[str, Array]) -> tuple[Inputs, Inputs]:
    """Read the demo's documents with its questions, in float32; returns the inputs of the two graphs."""
    below: list[dict[str, Array]] = []
    above: list[dict[str, Array]] = []

    def watched(graph: Callable[..., list[Array]], seen: list[dict[str, Array]]) -> Callable[..., list[Array]]:
        def run(**inputs: Array) -> list[Array]:
            seen.append(inputs)
            return graph(**inputs)

        return run

    network = Network(words, archive)
    network.lower, network.upper = watched(network.lower, below), watched(network.upper, above)
    asked = [json.loads(line) for line in (EXAMPLES / "demo_questions.jsonl").read_text("utf-8").splitlines()]
    passages = texts()
    rarity = archive["rarity"].astype(np.float32) / RARITY_STEPS
    known = cast(Weights, SimpleNamespace(network=network, rarity=rarity))
    for i, row in enumerate(asked):
        for claim in (False, True):
            Beside(known, row["question"], claim=claim).read(passages[i % len(passages)])
    return below, above


def save(out: Path, parts: Mapping[str, Array]) -> None:
    """Write an archive whose bytes depend on its parts only."""
    out.parent.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = dict(parts)
    np.savez(out, **arrays)


def _array(model: bytes) -> Array:
    return np.frombuffer(model, np.uint8)


def main() -> None:
    """Run the command line."""
    summary = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reader.quantise", description=summary)
    parser.add_argument("--network", type=Path, default=NETWORK, help="the trained network")
    parser.add_argument("--verifier", type=Path, default=VERIFIER_NETWORK, help="the one that verifies answers")
    parser.add_argument("--encoder", type=Path, default=minilm.WEIGHTS, help="file to write the encoder to")
    parser.add_argument("--reader", type=Path, default=WEIGHTS, help="file to write the reading network to")
    options = parser.parse_args()
    words, known = make_encoder(options.encoder), options.reader.with_suffix(".json")
    make_reader(options.network, words, options.reader)
    make_reader(options.verifier, words, options.reader.with_name(VERIFIER))
    describe(options.reader, json.loads(known.read_text("utf-8")) if known.exists() else {})


if __name__ == "__main__":
    main()
