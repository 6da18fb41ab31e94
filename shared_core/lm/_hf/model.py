"""Run a model of transformers, and tap it for hidden states."""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from shared_core.errors import CapabilityError, DeadlineError, GenerationError, InputError, LanguageModelError
from shared_core.lm._hf.cache import stop_if_given_up
from shared_core.lm._hf.plan import Cost
from shared_core.lm.requests import middle_layer

Tap = tuple[int, str]
"""Layer index and kind (``residual`` or ``mlp``) of a hidden state."""

_MLP_NAMES = ("mlp", "feed_forward", "ffn", "block_sparse_moe", "moe", "feedforward")
_LAYER_LISTS = ("layers", "h", "blocks", "block")


# --- running -------------------------------------------------------------------------------------------------------


class Runner:
    """Forward passes of one model, with logits only where they are needed and hidden states where tapped."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.config = model.config.get_text_config()
        self.device = _input_device(model)
        self.dtype = model.dtype
        self.layers = int(self.config.num_hidden_layers)
        self.forwards = 0
        names = set(inspect.signature(model.forward).parameters)
        self.cache_name = next((n for n in ("past_key_values", "cache_params") if n in names), None)
        self.takes_positions = "position_ids" in names
        self.stems = False
        """Whether forward passes may grow from a stem (``attention.installed``)."""
        self.grows = False
        """Whether rotary frequencies grow with the longest sequence seen (dynamic scaling)."""
        self._keeps = "logits_to_keep" in names  # else the whole (rows, width, vocabulary) is computed and cut
        self._shape = (0, 0)  # (rows, width) of the pass under way, by which hooks know their layer's output
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
        """Run one forward pass.

        Args:
            ids: (rows, width) token ids.
            positions: (rows, width), or ``None`` for 0, 1, 2, …
            cache: to read and to append to; ``None`` runs without one.
            mask: (rows, width of the cache and of ids), 1 for tokens that count; or (rows, 1, width, slots) to be
                added to attention; ``None`` for plain causal attention.
            columns: those whose logits are wanted.

        Returns:
            Logits (rows, len(columns), vocabulary); (rows, 1, vocabulary) of any column if none is wanted.

        Raises:
            GenerationError: the model failed, in whatever way.
            DeadlineError: nobody waits for the result any more.
        """
        keep = list(columns) or [0]  # a prefill wants none, but the output layer takes at least one
        everything = len(keep) == ids.shape[1] and bool(columns)
        arguments: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "use_cache": cache is not None}
        if positions is not None and self.takes_positions:
            arguments["position_ids"] = positions
        if cache is not None and self.cache_name is not None:
            arguments[self.cache_name] = cache
        if self._keeps and not everything:
            # An integer cuts before the output layer as a view; a tensor of columns copies hidden states first.
            last = keep == [ids.shape[1] - 1] or not columns
            arguments["logits_to_keep"] = 1 if last else torch.tensor(keep, device=ids.device)
        logits = self.run(**arguments)
        return logits if self._keeps or everything else logits[:, keep]

    def run(self, **arguments: Any) -> torch.Tensor:
        """Return the model's logits for its own arguments; GenerationError whatever it raises."""
        stop_if_given_up()
        self.forwards += 1
        self._shape = tuple(arguments["input_ids"].shape)
        try:
            logits: torch.Tensor = self.model(**arguments).logits
            return logits
        except (LanguageModelError, DeadlineError):  # of our own hooks and cache
            raise
        except Exception as error:
            raise GenerationError(
                f"The model failed: {type(error).__name__}: {error}",
                hint="If memory ran out: fewer or shorter prompts at once, a smaller n, or a smaller dtype.",
            ) from error

    def settle(self) -> None:
        """Reset rotary frequencies that have grown; only a short forward pass does that."""
        if self.grows:
            # One token is shorter than any trained length: the model goes back to its original frequencies.
            self.run(input_ids=torch.zeros((1, 1), dtype=torch.long, device=self.device))

    def stamp(self) -> object:
        """Return a value that changes when the weights do, so that cached states are known to be stale.

        torch counts the writes to each tensor, and gives it another address when it is replaced. Writes through
        ``tensor.data`` are not counted. Adapters change what is computed without writing at all: they say which of
        them are active, merged, or switched off.
        """
        weights = tuple((p.data_ptr(), 0 if p.is_inference() else p._version) for p in self.model.parameters())
        adapters = tuple(
            (m.disable_adapters, tuple(m.active_adapters), tuple(m.merged_adapters), tuple(m.scaling.items()))
            for m in self.model.modules()
            if hasattr(m, "merged_adapters") and hasattr(m, "scaling")
        )
        return weights, adapters

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Switch dropout and the like off; afterwards every module's training mode is as before."""
        # One by one: model.train() afterwards would also switch on modules that the owner had frozen in eval mode.
        training = [m for m in self.model.modules() if m.training]
        for module in training:
            module.training = False
        try:
            yield
        finally:
            for module in training:
                module.training = True

    def collect(
        self,
        width: int,
        chunk: int,
        wanted: Sequence[tuple[int, int]],
        last: Sequence[tuple[int, int]],
        step: Callable[[int, int, list[int]], torch.Tensor],
    ) -> torch.Tensor:
        """Run ``step`` over chunks of columns and gather the requested logits and states.

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
                # (rows, columns, vocabulary) -> one row for each wanted place; float32, since sums of exp need it.
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
        """Tap layers with one forward hook each, which keeps only the last output."""
        self._watched = tuple(dict.fromkeys(taps))
        handles = [self._module(tap).register_forward_hook(self._hook(tap)) for tap in self._watched]
        try:
            yield
        finally:
            for handle in handles:  # a hook that stays would keep the last states of a call alive
                handle.remove()
            self._watched, self._taps, self.hidden = (), {}, {}

    def _hook(self, tap: Tap) -> Callable[[Any, Any, Any], None]:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            states = output[0] if isinstance(output, (tuple, list)) else output  # others: weights, router logits
            rows, width = self._shape
            # Experts take the tokens of all rows as one list, (rows * width, d), and some give that back.
            if isinstance(states, torch.Tensor) and states.dim() == 2 and states.shape[0] == rows * width:
                states = states.view(rows, width, -1)
            if not isinstance(states, torch.Tensor) or states.dim() != 3 or tuple(states.shape[:2]) != (rows, width):
                raise CapabilityError(
                    "hidden_states",
                    type(self.model).__name__,
                    hint=f"Its {type(module).__name__} gives no vector for each token: use kind='residual'.",
                )
            self._taps[tap] = states

        return hook

    def tap(self, layer: int | None, kind: str) -> Tap:
        """Return the tap of a layer (``None``: the middle one); CapabilityError if it or its MLP cannot be found."""
        index = middle_layer(self.layers) if layer is None else layer
        if not 0 <= index < self.layers:
            raise CapabilityError(
                "hidden_states", f"layer {index}", hint=f"The model has the layers 0 to {self.layers - 1}."
            )
        self._module((index, kind))
        return index, kind

    def _module(self, tap: Tap) -> torch.nn.Module:
        layer = self._layer_list()[tap[0]]
        if tap[1] == "residual":
            return layer
        mlp = next((m for n in _MLP_NAMES if isinstance(m := getattr(layer, n, None), torch.nn.Module)), None)
        if mlp is not None and "residual" in inspect.signature(mlp.forward).parameters:
            # It adds the residual itself (Bloom, MPT): its output before that is its last projection's.
            mlp = next((m for m in reversed(list(mlp.children())) if isinstance(m, torch.nn.Linear)), None)
        if mlp is None:
            raise CapabilityError(
                "hidden_states",
                type(self.model).__name__,
                hint="Its layers have no MLP of a known name: use kind='residual'.",
            )
        return mlp

    def _layer_list(self) -> torch.nn.ModuleList:
        for name, module in self.model.named_modules():
            if not isinstance(module, torch.nn.ModuleList) or len(module) != self.layers:
                continue
            if name.rsplit(".", 1)[-1] in _LAYER_LISTS:
                return module
        raise CapabilityError("hidden_states", type(self.model).__name__, hint="Its list of layers has no known name.")

    @property
    def slot_bytes(self) -> int:
        """Return the bytes of keys and values of one token."""
        heads = getattr(self.config, "num_attention_heads", None) or 1
        width = getattr(self.config, "head_dim", None) or getattr(self.config, "hidden_size", 1024) // heads
        pairs = getattr(self.config, "num_key_value_heads", None) or heads
        # Keys and values of every layer; grouped-query attention holds them for `pairs` heads only.
        return max(1, 2 * self.layers * int(pairs) * int(width) * int(self.dtype.itemsize))

    @property
    def cost(self) -> Cost:
        """Estimate the cost of a token and of a query-slot pair, for planning."""
        parameters = sum(p.numel() for p in self.model.parameters())
        width = getattr(self.config, "hidden_size", 1024)
        vocabulary = getattr(self.config, "vocab_size", 0) * width
        # Measured on a CPU, with caches larger than the processor's own: fetching a slot takes .95 ns for each of its
        # numbers, a query that meets it .038 ns more. An accelerator computes faster still, compared to its memory.
        cpu = self.device.type == "cpu"
        return Cost(
            token=2.0 * max(parameters - vocabulary, 1),  # a multiply and an add for each weight
            slot=4.0 * width * self.layers,
            read=25.0 if cpu else 64.0,
            fill=12 if cpu else 256,
            stems=self.stems,
        )


def _input_device(model: Any) -> torch.device:
    """Return the device for token ids: a model spread over devices takes them on its first."""
    spread = getattr(model, "hf_device_map", None)
    placed = [torch.device(d) for d in spread.values() if str(d) not in {"cpu", "disk"}] if spread else []
    device: torch.device = model.device
    return placed[0] if placed and device.type in {"meta", "cpu"} else device


def _merged(pieces: list[tuple[list[int], torch.Tensor]]) -> torch.Tensor:
    """Merge rows, at least one piece of them, back into their order."""
    if len(pieces) == 1:
        return pieces[0][1]
    # Chunks come in order of columns; the caller's order of (row, column) pairs is restored here.
    order = torch.tensor([i for indices, _ in pieces for i in indices])
    rows = torch.cat([r for _, r in pieces])
    return rows[order.argsort().to(rows.device)]


_THEIRS = "transformers.utils.output_capturing"
_INSTALLED = "_output_capturing_hooks_installed"


def remove_capturing_hooks(model: torch.nn.Module) -> None:
    """Remove transformers' hooks that collect states and attention: closures, which cannot be pickled.

    transformers adds them again when it needs them.
    """
    for module in model.modules():
        hooks = module._forward_hooks
        for key in [key for key, hook in hooks.items() if getattr(hook, "__module__", "") == _THEIRS]:
            del hooks[key]
        if getattr(module, _INSTALLED, False):
            setattr(module, _INSTALLED, False)


_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
_locks_lock = threading.Lock()


class Adapters:
    """The adapter that a backend runs a model with, and the lock of that model.

    Attributes:
        base: the model to run; of a ``PeftModel`` the one that its adapters were put into.
        name: of the adapter; ``None`` without one.
        lock: shared by all backends over the same model: hooks and the active adapter belong to the model.

    Raises:
        InputError: the model has no adapter of that name.
    """

    def __init__(self, model: Any, adapter: str | None) -> None:
        known = getattr(model, "peft_config", None)
        self._peft = model if isinstance(known, dict) and hasattr(model, "get_base_model") else None
        if adapter is not None and (self._peft is None or adapter not in (known or {})):
            raise InputError(
                f"The model has no adapter {adapter!r}.",
                hint=f"It has: {', '.join(known)}." if known else "Load it as a PeftModel (peft).",
            )
        active = getattr(model, "active_adapter", None) if self._peft is not None else None
        self.name = adapter if adapter is not None else active if isinstance(active, str) else None
        self.base = self._peft.get_base_model() if self._peft is not None else model
        with _locks_lock:
            self.lock = _locks.setdefault(self.base, threading.RLock())

    def switch(self) -> None:
        """Activate the adapter; call it with the lock held."""
        if self._peft is not None and self.name is not None and self._peft.active_adapter != self.name:
            self._peft.set_adapter(self.name)
