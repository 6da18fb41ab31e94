"""Write the encoder and the reading network as ONNX graphs, in float32 or in 8 bits.

The graphs are those of ``bert`` and ``network`` for one text (or pair) without padding. Weights are quantised by output
channel. The input of a product is quantised as a whole when the graph runs (``DynamicQuantizeMatMul``), so a few
channels of large values would leave few levels to all others: such inputs are first divided by a factor for each
channel, by which the weights are multiplied (SmoothQuant: Xiao et al., ICML 2023, sec. 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.reader.bert import HEADS
from benchmarks.reader.network import LAYERS, LOWER
from shared_core.reading.features import QUESTION_FEATURES, TOKEN_FEATURES

Array = NDArray[Any]
ALPHA = 0.7
"""Share of the difficulty of quantising that is moved from inputs to weights; .7 was best of .5 to 1 (cosine .998)."""
MOST = 384
"""Most word pieces of a text; the published model has 512 positions."""
_STEPS = 127
_SMALL = 64
_EPSILON = 1e-12  # of BERT's layer norms
_FUSED = "com.microsoft"


class Largest(NamedTuple):
    """The largest absolute value of each channel of the input of a linear map, by its name; for smoothing."""

    values: Mapping[str, Array]


class GraphWriter:
    """A graph under construction.

    Args:
        parameters: float32, named as in ``bert`` and ``network``.
        largest: of the inputs of the linear maps to quantise; ``None`` writes all in float32.
        quick: take the nodes that are fastest on a CPU, a fifth less time in all. They round differently, which 8 bits
            amplify to what quantising costs anyway: fit probabilities of the outputs anew after a change.
    """

    def __init__(self, parameters: Mapping[str, Array], largest: Largest | None = None, *, quick: bool = False) -> None:
        self._p = parameters
        self._largest = largest
        self._quick = quick
        self._nodes: list[Any] = []
        self._constants: dict[str, Array] = {}
        self.inputs_of: dict[str, str] = {}
        """The input of each linear map of the layers, by the map's name."""

    def op(self, kind: str, *inputs: str | Array, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        """Add a node; returns the name of its output, or a list of several."""
        from onnx import helper

        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        made = [f"{kind}_{len(self._nodes)}_{i}" for i in range(outputs)]
        self._nodes.append(helper.make_node(kind, names, made, domain=domain, **attributes))
        return made[0] if outputs == 1 else made

    def linear(self, names: str | Sequence[str], x: str) -> str:
        """Map ``x`` by one linear map, or by several side by side, in float32."""
        weight, bias = self._weights([names] if isinstance(names, str) else names)
        out: str = self.op("Add", self.op("MatMul", x, weight.T), bias)
        return out

    def quantised(self, names: str | Sequence[str], x: str, *, smooth: bool = True) -> str:
        """Map ``x`` as ``linear``, in 8 bits if this graph is quantised."""
        several = [names] if isinstance(names, str) else names
        self.inputs_of[several[0]] = x
        if self._largest is None:
            return self.linear(several, x)
        weight, bias = self._weights(several)
        if smooth:
            factors = _factors(self._largest.values[several[0]], weight)
            x, weight = self.op("Mul", x, 1 / factors), weight * factors
        scale = (np.abs(weight).max(1) / _STEPS).astype(np.float32)
        rounded = np.rint(weight / scale[:, None]).astype(np.int8).T
        zero = np.zeros(len(scale), np.int8)
        out: str = self.op("DynamicQuantizeMatMul", x, rounded, scale, zero, bias, domain=_FUSED)
        return out

    def embed(self, words: str) -> str:
        """Add positions and types to word vectors (1, n, D), and normalise."""
        places = self._p["positions.w"][:MOST] + self._p["types.w"][0]
        scale = np.abs(places).max(1) / _STEPS
        rounded = np.rint(places / scale[:, None]).astype(np.int8)
        length = self.op("Shape", words, start=1, end=2)
        zero, first = np.array([0]), np.array([0])
        some = self.op("Cast", self.op("Slice", rounded, zero, length, first), to=1)
        scales = self.op("Slice", scale.astype(np.float32)[:, None], zero, length, first)
        return self._norm("embed_norm", self.op("Add", words, self.op("Mul", some, scales)))

    def layers(self, h: str, numbers: Sequence[int]) -> str:
        """Run some of the layers on (1, n, D)."""
        for i in numbers:
            name = f"layer{i}"
            mapped = self.quantised([f"{name}.query", f"{name}.key", f"{name}.value"], h)
            q, k, v = self.op("Split", mapped, np.array([self.width] * 3), outputs=3, axis=-1)
            mixed = self.op("MultiHeadAttention", q, k, v, domain=_FUSED, num_heads=HEADS)
            h = self._norm(f"{name}.mix_norm", self.quantised(f"{name}.mix", mixed, smooth=False), h)
            fed = self.op("FastGelu" if self._quick else "Gelu", self.quantised(f"{name}.up", h), domain=_FUSED)
            h = self._norm(f"{name}.down_norm", self.quantised(f"{name}.down", fed), h)
        return h

    @property
    def width(self) -> int:
        """Numbers of a token's vector."""
        return int(self._p["embed_norm.w"].shape[0])

    def parameter(self, name: str) -> Array:
        """A parameter in float32."""
        return self._p[name].astype(np.float32)

    def write(self, inputs: Mapping[str, tuple[int, Sequence[Any]]], outputs: Mapping[str, str]) -> bytes:
        """Serialise the graph.

        Args:
            inputs: element type (of ONNX) and shape of each.
            outputs: its names for outputs of nodes.
        """
        from onnx import helper, numpy_helper

        named = [helper.make_node("Identity", [value], [name]) for name, value in outputs.items()]
        graph = helper.make_graph(
            [*self._nodes, *named],
            "network",
            [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
            [helper.make_tensor_value_info(name, 1, None) for name in outputs],
            [numpy_helper.from_array(np.asarray(value, order="C"), name) for name, value in self._constants.items()],
        )
        versions = [helper.make_opsetid("", 18), helper.make_opsetid(_FUSED, 1)]
        model: bytes = helper.make_model(graph, opset_imports=versions, ir_version=9).SerializeToString()
        return model

    def _weights(self, names: Sequence[str]) -> tuple[Array, Array]:
        """(out, in) and (out,) of linear maps side by side."""
        weights, biases = (np.concatenate([self.parameter(f"{n}.{part}") for n in names]) for part in "wb")
        return weights, biases

    def _norm(self, name: str, x: str, skip: str | None = None) -> str:
        weight, bias = self.parameter(f"{name}.w"), self.parameter(f"{name}.b")
        if skip is not None and self._quick:  # a sixth of the time; of "Add" onnxruntime would make the node below
            x, skip = self.op("Sum", x, skip), None
        if skip is None:
            out: str = self.op("LayerNormalization", x, weight, bias, axis=-1, epsilon=_EPSILON)
        else:
            out = self.op("SkipLayerNormalization", x, skip, weight, bias, domain=_FUSED, epsilon=_EPSILON)
        return out

    def _constant(self, value: Array) -> str:
        name = f"constant_{len(self._constants)}"
        if value.dtype != np.float32 or value.size < _SMALL:
            self._constants[name] = value
            return name
        self._constants[name] = value.astype(np.float16)  # half the file; widened once, when the graph is loaded
        out: str = self.op("Cast", name, to=1)
        return out


def _factors(largest: Array, weight: Array) -> Array:
    """Return by what to divide each channel of an input: (in,), of geometric mean 1."""
    held = np.abs(weight).max(0)
    logs = ALPHA * np.log(np.maximum(largest, 1e-5)) - (1 - ALPHA) * np.log(np.maximum(held, 1e-5))
    return np.asarray(np.exp(logs - logs.mean()), np.float32)


def encoder(p: Mapping[str, Array], largest: Largest | None = None) -> tuple[bytes, dict[str, str]]:
    """Write the graph ``words`` (1, n, D) → ``states`` (1, n, D), with the inputs of its linear maps."""
    graph = GraphWriter(p, largest, quick=True)
    out = {"states": graph.layers(graph.embed("words"), range(LAYERS))}
    return graph.write({"words": (1, [1, "n", graph.width])}, out), graph.inputs_of


def lower(p: Mapping[str, Array], largest: Largest | None = None) -> tuple[bytes, dict[str, str]]:
    """Write the lower layers: ``words`` → ``states``, ``near`` and ``weight`` (``shared_core.reading.network``)."""
    graph = GraphWriter(p, largest)
    states = graph.layers(graph.embed("words"), range(LOWER))
    near = graph.op("LpNormalization", graph.linear("cheap", states), axis=-1, p=2)
    row, bias = graph.parameter("weigh.w")[0, : graph.width], graph.parameter("weigh.b")
    weight = graph.op("Add", graph.op("MatMul", states, row), bias)
    out = {"states": states, "near": near, "weight": weight}
    return graph.write({"words": (1, [1, "n", graph.width])}, out), graph.inputs_of


def upper(p: Mapping[str, Array], largest: Largest | None = None) -> tuple[bytes, dict[str, str]]:
    """Write the upper layers over a question or claim and a window, with the heads (``network.forward``)."""
    graph = GraphWriter(p, largest)
    sides = graph.parameter("sides.w")
    side = graph.op("Gather", sides[:2], "side", axis=0)
    asked = graph.op("Add", graph.op("Add", "question", side), graph.linear("asked", "question_features"))
    held = graph.op("Add", graph.op("Add", "window", sides[2]), graph.linear("token", "window_features"))
    h = graph.layers(graph.op("Concat", asked, held, axis=1), range(LOWER, LAYERS))
    first = graph.op("Gather", h, np.array(0), axis=1)
    pooled = graph.op("Gelu", graph.linear("pool", first), domain=_FUSED)
    verdict = graph.linear("verdict", pooled)
    asked_length = graph.op("Shape", "question", start=1, end=2)
    rest = graph.op("Slice", h, asked_length, np.array([np.iinfo(np.int64).max]), np.array([1]))
    logits = graph.op("Add", graph.linear("heads", rest), verdict)
    inputs: dict[str, tuple[int, Sequence[Any]]] = {
        "question": (1, [1, "m", graph.width]),
        "window": (1, [1, "n", graph.width]),
        "question_features": (1, [1, "m", QUESTION_FEATURES]),
        "window_features": (1, [1, "n", TOKEN_FEATURES]),
        "side": (7, [1]),
    }
    out = {"logits": logits, "verdict": verdict, "support": graph.linear("support", pooled)}
    return graph.write(inputs, out), graph.inputs_of
