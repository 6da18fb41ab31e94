"""A transformers model examined, run, and tapped for hidden states.

Imported by ``lm/transformers.py`` inside functions only (it needs torch).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from shared_core.errors import CapabilityError
from shared_core.lm._hf.plan import Cost

Tap = tuple[int, str]
"""Layer index and kind (``residual`` or ``mlp``) of a hidden state."""

_MLP_NAMES = ("mlp", "feed_forward", "ffn", "block_sparse_moe", "moe", "feedforward")
_LAYER_LISTS = ("layers", "h", "blocks", "block")


# --- running -------------------------------------------------------------------------------------------------------


class Runner:
    """Forward passes of one model, with logits only where they are wanted and hidden states where tapped."""

    def __init__(self, model: Any) -> None:
        self.model = model.eval()
        self.config = model.config.get_text_config()
        self.device = model.device
        self.dtype = model.dtype
        self.layers = int(self.config.num_hidden_layers)
        self.forwards = 0
        names = set(inspect.signature(model.forward).parameters)
        self.cache_name = next((n for n in ("past_key_values", "cache_params") if n in names), None)
        self._keeps = "logits_to_keep" in names
        self._positions = "position_ids" in names
        self._taps: dict[Tap, torch.Tensor] = {}
        self.hidden: dict[Tap, torch.Tensor] = {}
        """For each tap the states at the last token of each feed, (feeds, d), of the last ``collect``."""

    def forward(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor | None,
        cache: Any,
        mask: torch.Tensor | None,
        columns: Sequence[int],
    ) -> torch.Tensor:
        """Logits (rows, len(columns), vocabulary) at those columns, after one forward pass."""
        keep = list(columns) or [0]
        everything = len(keep) == ids.shape[1] and bool(columns)
        arguments: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "use_cache": cache is not None}
        if positions is not None and self._positions:
            arguments["position_ids"] = positions
        if cache is not None and self.cache_name is not None:
            arguments[self.cache_name] = cache
        if self._keeps and not everything:
            last = keep == [ids.shape[1] - 1] or not columns
            arguments["logits_to_keep"] = 1 if last else torch.tensor(keep, device=ids.device)
        self.forwards += 1
        logits: torch.Tensor = self.model(**arguments).logits
        return logits if self._keeps or everything else logits[:, keep]

    def collect(
        self,
        width: int,
        chunk: int,
        wanted: Sequence[tuple[int, int]],
        last: Sequence[tuple[int, int]],
        step: Callable[[int, int, list[int]], torch.Tensor],
    ) -> torch.Tensor:
        """Run ``step`` over chunks of columns and gather what is wanted.

        Args:
            width, chunk: number of columns, and how many of them at once.
            wanted: (row, column) of the logits to return.
            last: (row, column) of the hidden states to keep, for the taps that are set.
            step: runs columns [a, b) and gives logits at the listed columns (counted from a).

        Returns:
            (len(wanted), vocabulary) float32.
        """
        pieces: list[tuple[list[int], torch.Tensor]] = []
        states: dict[Tap, list[tuple[list[int], torch.Tensor]]] = {tap: [] for tap in self._watched}
        for start in range(0, width, chunk):
            end = min(start + chunk, width)
            here = [i for i, (_, c) in enumerate(wanted) if start <= c < end]
            columns = sorted({wanted[i][1] - start for i in here})
            logits = step(start, end, columns)
            if here:
                at = {c: j for j, c in enumerate(columns)}
                rows = torch.tensor([wanted[i][0] for i in here], device=logits.device)
                places = torch.tensor([at[wanted[i][1] - start] for i in here], device=logits.device)
                pieces.append((here, logits[rows, places].float()))
            ends = [i for i, (_, c) in enumerate(last) if start <= c < end]
            for tap, output in self._taps.items() if ends else ():
                picked = [[last[i][0] for i in ends], [last[i][1] - start for i in ends]]
                states[tap].append((ends, output[picked[0], picked[1]].float()))
        self.hidden = {tap: _merged(found) for tap, found in states.items()}
        return _merged(pieces)

    # --- hidden states -----------------------------------------------------------------------------------------

    _watched: tuple[Tap, ...] = ()

    @contextmanager
    def tapped(self, taps: Sequence[Tap]) -> Iterator[None]:
        """Watch layers: one forward hook each, which keeps nothing but the last output."""
        self._watched = tuple(dict.fromkeys(taps))
        handles = [self._module(tap).register_forward_hook(self._hook(tap)) for tap in self._watched]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            self._watched, self._taps, self.hidden = (), {}, {}

    def _hook(self, tap: Tap) -> Callable[[Any, Any, Any], None]:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            self._taps[tap] = output[0] if isinstance(output, tuple) else output

        return hook

    def tap(self, layer: int | None, kind: str) -> Tap:
        """The tap of a layer, ``None`` being the middle one.

        Raises:
            CapabilityError: there is no such layer, or its MLP cannot be found.
        """
        index = self.layers // 2 if layer is None else layer
        if not 0 <= index < self.layers:
            raise CapabilityError(
                "hidden_states", f"layer {index}", hint=f"The model has the layers 0 to {self.layers - 1}."
            )
        self._module((index, kind))
        return index, kind

    def _module(self, tap: Tap) -> Any:
        layer = self._layer_list()[tap[0]]
        if tap[1] == "residual":
            return layer
        for name in _MLP_NAMES:
            if isinstance(getattr(layer, name, None), torch.nn.Module):
                return getattr(layer, name)
        raise CapabilityError(
            "hidden_states",
            type(self.model).__name__,
            hint="Its layers have no MLP of a known name: use kind='residual'.",
        )

    def _layer_list(self) -> Any:
        for name, module in self.model.named_modules():
            is_list = isinstance(module, torch.nn.ModuleList) and len(module) == self.layers
            if is_list and name.rsplit(".", 1)[-1] in _LAYER_LISTS:
                return module
        raise CapabilityError("hidden_states", type(self.model).__name__, hint="Its list of layers has no known name.")

    @property
    def slot_bytes(self) -> int:
        """Bytes of keys and values of one token."""
        heads = getattr(self.config, "num_attention_heads", None) or 1
        width = getattr(self.config, "head_dim", None) or getattr(self.config, "hidden_size", 1024) // heads
        pairs = getattr(self.config, "num_key_value_heads", None) or heads
        return max(1, 2 * self.layers * int(pairs) * int(width) * int(self.dtype.itemsize))

    @property
    def cost(self) -> Cost:
        """Rough costs of a token and of a query-slot pair, for planning."""
        parameters = sum(p.numel() for p in self.model.parameters())
        width = getattr(self.config, "hidden_size", 1024)
        vocabulary = getattr(self.config, "vocab_size", 0) * width
        return Cost(
            token=2.0 * max(parameters - vocabulary, 1),
            slot=4.0 * width * self.layers,
            read=8.0 if self.device.type == "cpu" else 64.0,
        )


def _merged(pieces: list[tuple[list[int], torch.Tensor]]) -> torch.Tensor:
    """Rows put back in order."""
    if not pieces:
        return torch.zeros(0, 0)
    if len(pieces) == 1:
        return pieces[0][1]
    order = torch.tensor([i for indices, _ in pieces for i in indices])
    rows = torch.cat([r for _, r in pieces])
    return rows[order.argsort().to(rows.device)]


# --- what a model can take -----------------------------------------------------------------------------------------


def context_length(config: Any) -> int | None:
    """In tokens; ``None`` if the configuration does not say."""
    for name in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx"):
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return None


def tree_obstacle(runner: Runner) -> str:
    """Why tree decoding cannot be used with this model, or an empty string.

    The configuration tells of windows and recurrent layers; beyond that the model is tried: two branches decoded as a
    tree must give the logits of two plain sequences, whatever the configuration claims.
    """
    config = runner.config
    if getattr(runner.model, "_is_stateful", False) or runner.cache_name != "past_key_values":
        return "it keeps a recurrent state"
    if not runner._positions:
        return "it takes no position ids"
    kinds = set(getattr(config, "layer_types", None) or ())
    if kinds - {"full_attention", "sliding_attention"}:
        return f"its layers are {', '.join(sorted(kinds))}"
    implementation = getattr(config, "_attn_implementation", "eager")
    if implementation not in {"eager", "sdpa", None}:
        return f"its attention implementation {implementation!r} takes no arbitrary mask"
    try:
        error = _probe(runner)
    except Exception as failure:
        return f"it refused a masked forward pass ({type(failure).__name__}: {failure})"
    tolerance = 1e-3 if runner.dtype == torch.float32 else 0.1
    return "" if error <= tolerance else f"its logits in a tree are off by {error:.2g}"


def window(config: Any) -> int | None:
    """Length of the sliding window, if any layer has one."""
    kinds = getattr(config, "layer_types", None)
    size = getattr(config, "sliding_window", None)
    if kinds is not None and "sliding_attention" not in kinds:
        return None
    if getattr(config, "use_sliding_window", True) is False:
        return None
    return int(size) if size else None


def _probe(runner: Runner) -> float:
    """The largest difference between logits in a tree and of plain sequences, relative to their spread."""
    from shared_core.lm._hf.cache import PrefixCache
    from shared_core.lm._hf.forest import Forest

    generator = torch.Generator().manual_seed(0)
    size = min(int(getattr(runner.config, "vocab_size", 1000)), int(runner.model.get_input_embeddings().num_embeddings))
    ids = torch.randint(0, size, (14,), generator=generator)
    tails = [ids[8:11], ids[11:14]]
    session = Forest(runner, PrefixCache(0))
    session.open([ids[:7].numpy()], [[0]])
    session.feed([(0, [int(ids[7])])], [False])
    session.fork([2])
    for i in range(3):
        logits = session.feed([(b, [int(t[i])]) for b, t in enumerate(tails)], [False, False])
    worst = 0.0
    for b, tail in enumerate(tails):
        sequence = torch.cat([ids[:8], tail])[None].to(runner.device)
        plain = runner.model(input_ids=sequence).logits[0, -1].float()
        worst = max(worst, float((plain - logits[b]).abs().max() / plain.std().clamp(min=1e-6)))
    return worst
