"""Capture hidden states inside vLLM's workers with a forward hook, controlled over ``collective_rpc``.

vLLM mixes this class into its worker (``worker_extension_cls``) and nothing of vLLM is replaced. It reads from the
runner which rows of a step are which request, which the V1 runner keeps in ``input_batch`` and ``query_start_loc``.
Run on vLLM 0.32.0 (CPU build, eager mode, one worker).
"""

from __future__ import annotations

from typing import Any


class HiddenStateWorker:
    """Worker methods for ``shared_core.lm.vllm``; names must not collide with the worker's own."""

    model_runner: Any

    def selfreflect_layers(self) -> int:
        """Count the decoder layers that can be tapped; 0 if this runner does not show what is needed."""
        runner = self.model_runner
        shown = hasattr(runner, "query_start_loc") and hasattr(getattr(runner, "input_batch", None), "token_ids_cpu")
        return len(_layers(runner)) if shown and runner.model_config.enforce_eager else 0

    def selfreflect_tap(self, layer: int, kind: str) -> bool:
        """Start keeping the state of each prompt's last token; ``False`` if the layer is in another worker."""
        self.selfreflect_untap()
        module = _layers(self.model_runner)[layer]
        target = getattr(module, "mlp", None) if kind == "mlp" else module
        if target is None:
            return False
        states: dict[str, bytes] = {}

        def keep(_module: Any, _inputs: Any, output: Any) -> None:
            _keep(self.model_runner, output, states)

        self._selfreflect_states = states
        self._selfreflect_hook = target.register_forward_hook(keep)
        return True

    def selfreflect_untap(self) -> dict[str, bytes]:
        """Stop, and return the states: float32 bytes by the prompt's ids (int32 bytes in hex)."""
        hook = getattr(self, "_selfreflect_hook", None)
        if hook is not None:
            hook.remove()
        states: dict[str, bytes] = getattr(self, "_selfreflect_states", {})
        self._selfreflect_hook, self._selfreflect_states = None, {}
        return states


def _layers(runner: Any) -> Any:
    model = runner.get_model() if hasattr(runner, "get_model") else runner.model
    for path in ("model", "transformer", "model.decoder", "language_model.model", "backbone"):
        found = model
        for name in path.split("."):
            found = getattr(found, name, None)
        for name in ("layers", "h", "blocks"):
            layers = getattr(found, name, None)
            if layers is not None:
                return layers
    return ()


def _keep(runner: Any, output: Any, states: dict[str, bytes]) -> None:
    """Keep the rows of this step that are the last of a prompt."""
    batch, starts = runner.input_batch, runner.query_start_loc.np
    # A layer gives (MLP output, residual), of which the next layer's norm takes the sum, in place.
    hidden = output[0] + output[1] if isinstance(output, tuple) and output[1] is not None else output
    hidden = hidden[0] if isinstance(hidden, tuple) else hidden
    for i in range(batch.num_reqs):
        length = int(batch.num_prompt_tokens[i])
        seen = int(batch.num_computed_tokens_cpu[i]) + int(starts[i + 1] - starts[i])
        if seen == length:
            key = batch.token_ids_cpu[i, :length].astype("int32").tobytes().hex()
            states[key] = hidden[int(starts[i + 1]) - 1].float().cpu().numpy().tobytes()
