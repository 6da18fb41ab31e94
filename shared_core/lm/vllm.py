"""Backend for vLLM in this process.

Run on vLLM 0.32.0 (the CPU build, V1 runner, transformers 5.19, torch 2.13) by ``make test-vllm``. The generation
side uses only documented parameters; hidden states look into the V1 runner (``HiddenStateWorker``) and are offered only
where what they need is there.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from shared_core.errors import CapabilityError, GenerationError, InputError, LanguageModelError
from shared_core.lm._vllm.engine import Engine, Job, engine_options, import_vllm
from shared_core.lm._vllm.read import OutputReader, read_logprob, read_scores, read_usage
from shared_core.lm.base import (
    BaseLanguageModel,
    Capabilities,
    Generate,
    GenerateResult,
    Generation,
    HiddenKind,
    HiddenStates,
    SamplingParams,
    Score,
    ScoreResult,
    States,
    StatesResult,
    as_result,
)
from shared_core.lm.checkpoints import load_tokenizer
from shared_core.lm.encoding import Encoder
from shared_core.lm.identity import identity_of_files, local_folder, plain_name
from shared_core.lm.requests import middle_layer
from shared_core.support.pickling import Remade
from shared_core.types import Usage

logger = logging.getLogger(__name__)

T = TypeVar("T")


class VLLM(Remade, BaseLanguageModel):
    """A model in a vLLM engine that runs in this process. Calls from several threads take turns.

    Prompts go in as token ids made by ``Encoder``, so that untrusted text holds no control token; n samples share
    their prompt through the prefix cache. ``Sample.token_ids`` and ``logprobs`` include the end-of-sequence token;
    the text does not. Samples with a seed are reproducible for one engine and batch; vLLM's kernels may round
    differently in another batch.

    An engine that has died (out of memory, a bug of vLLM) is restarted at the next call. The requests that killed it
    fail; the others of the batch are run again one by one.

    Args:
        model: hub name or path of a checkpoint.
        tokenizer: name or path; the model's own if ``None``.
        hidden_states: offer hidden states. This keeps the engine in eager mode and on vLLM's V1 runner
            (``VLLM_USE_V2_MODEL_RUNNER=0`` is set unless the environment says otherwise): switch it off for the full
            speed of a GPU.
        **engine_kwargs: of ``vllm.LLM``. Here, unless given: prefix caching on, grammars by llguidance
            (``structured_outputs_config={"backend": "guidance"}``); on a CPU blocks of 32 tokens, eager mode, and each
            prompt computed in one step (``enable_chunked_prefill=False``, so that as many tokens as ``max_model_len``
            may be computed at once). With chunks on a CPU vLLM cannot sample with a seed:
            the seed is dropped, and the log says so.

    Raises:
        MissingDependencyError: vLLM is not installed.
        ModelLoadError: the engine does not start with that model.

    Example::

        with VLLM("path/or/name", max_model_len=8192) as lm:
            engine = SelfReflectEngine(retriever=retriever, lm=lm)
    """

    shared_by_copies = True  # of the weights, there is one

    def __init__(
        self, model: str, *, tokenizer: str | None = None, hidden_states: bool = True, **engine_kwargs: Any
    ) -> None:
        if hidden_states:
            os.environ.setdefault("VLLM_USE_V2_MODEL_RUNNER", "0")
        import_vllm()
        self.name = str(model).rstrip("/")
        options = engine_options(engine_kwargs, hidden_states=hidden_states)
        self.tokenizer = load_tokenizer(
            tokenizer or str(model), self.name, trust=bool(options.get("trust_remote_code"))
        )
        self.identity = identity_of_files(local_folder(self.name), "vLLM") or plain_name(self.name)
        self._engine = Engine(str(model), tokenizer, options)
        self._vllm = self._engine.vllm
        self.encoder = Encoder(self.tokenizer)
        self._reader = OutputReader(self.encoder)
        self._lock = threading.RLock()
        self._layers = self._count_layers() if hidden_states else 0
        config = self._engine.config.model_config
        self._vocabulary, length = int(config.get_vocab_size()), int(config.max_model_len)
        self._warned = False  # that seeds are left out
        self._seeds = not self._engine.chunks_on_cpu
        backend = options["structured_outputs_config"]
        backend = backend.get("backend") if isinstance(backend, dict) else getattr(backend, "backend", None)
        self.capabilities = Capabilities(
            token_logprobs=True,
            verdict_logprobs=True,
            next_verdicts=True,
            stop_tokens=True,
            grammar=backend == "guidance",  # the others read another dialect, or none
            hidden_states=self._layers > 0,
            token_prompts=True,
            score=True,
            alternatives=True,
            layers=self._layers or None,
            context_length=length,
        )

    def __enter__(self) -> VLLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the engine and free its memory; the object cannot be used after that."""
        with self._lock:
            self._engine.close()

    def restart(self) -> None:
        """Stop the engine, dead or alive, and start it again (seconds to minutes); its prefix cache is then empty.

        Raises:
            InputError: it was closed.
            ModelLoadError: it does not start.
        """
        with self._lock:
            self._engine.restart()

    # --- the protocol ------------------------------------------------------------------------------------------

    def generate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Continue many prompts at once; a request that fails has its error as its result.

        Errors as results: ContextOverflowError (nothing was run), GrammarError, CapabilityError, GenerationError,
        BackendUnavailableError (the engine died of it), LanguageModelError (what cannot be encoded).
        """
        with self._lock:
            self._engine.check_open()
            jobs = [self._job(self._generate_job, r) for r in requests]
            self._engine.run([j for j in jobs if isinstance(j, Job)])
            results = [self._result(j, partial(self._generation, params=r.params)) for j, r in zip(jobs, requests)]
            results = self._unmasked(self._followed(results, jobs, requests), jobs, requests)
            return [self._captured(x, j, r.params) for x, j, r in zip(results, jobs, requests)]

    def score(self, requests: Sequence[Score]) -> list[ScoreResult]:
        """Compute log-probabilities (natural log) of the tokens of given continuations, directly after the prompt."""
        with self._lock:
            self._engine.check_open()
            batches = [self._job(self._score_jobs, r) for r in requests]
            self._engine.run([j for b in batches if not isinstance(b, LanguageModelError) for j, _ in b])
            return [b if isinstance(b, LanguageModelError) else read_scores(b) for b in batches]

    def hidden_states(self, requests: Sequence[HiddenStates]) -> list[StatesResult]:
        """Return hidden states of whole sequences at their last token, or at an appended end-of-sequence token.

        One more forward over each sequence, of which vLLM's prefix cache saves what it has seen before.
        """
        with self._lock:
            self._engine.check_open()
            return [self._result(r, self._states) for r in requests]

    def token_ids(self, strings: Sequence[str]) -> list[int | None]:
        """Return the id of each string that is one token known to the model; ``None`` for the others."""
        return self.encoder.single_ids(strings, self._vocabulary)

    # --- jobs --------------------------------------------------------------------------------------------------

    def _generate_job(self, request: Generate) -> Job:
        params = request.params
        for asked in ("token_statistics", "attention"):
            if getattr(params, asked):
                raise CapabilityError(asked, self.name, hint="Use a transformers model, or allow another estimator.")
        if params.capture is not None:
            self._check_layer(params.capture.layer)
        ids = self.encoder.encode(request.prompt)
        more = params.next_verdicts or (params.capture is not None and params.capture.append_eos)
        more = more or (params.grammar is not None and params.logprobs)
        self.capabilities.check_length(len(ids) + params.max_tokens + more)
        fields: dict[str, Any] = {}
        verdicts = [self.encoder.token_id(v) for v in params.verdicts]
        if verdicts:
            fields["logprob_token_ids"] = list(dict.fromkeys(verdicts))
        elif params.alternatives or params.logprobs:
            fields["logprobs"] = params.alternatives  # beside the generated token's
        if params.grammar is not None:
            if not self.capabilities.grammar:
                raise CapabilityError("grammar", self.name, hint="Leave structured_outputs_config at 'guidance'.")
            structured = self._vllm.sampling_params.StructuredOutputsParams
            fields["structured_outputs"] = structured(grammar=params.grammar.lark)
        return self._checked(
            ids,
            n=params.n if params.temperature > 0 else 1,  # vLLM refuses to give the same greedy sample n times
            max_tokens=params.max_tokens,
            min_tokens=params.min_tokens,
            temperature=params.temperature,
            top_k=params.top_k,
            top_p=params.top_p,
            seed=self._seed(params),
            stop=list(params.stop),
            stop_token_ids=list(params.stop_token_ids),
            include_stop_str_in_output=params.include_stop,
            **fields,
        )

    def _seed(self, params: SamplingParams) -> int | None:
        if params.seed is None or self._seeds or params.temperature == 0:
            return params.seed
        if not self._warned:
            self._warned = True
            logger.warning(
                "%s: samples have no seed and are not reproducible, because vLLM computes long prompts in chunks "
                "(enable_chunked_prefill), with which it cannot sample by seed on a CPU.",
                self.name,
            )
        return None

    def _score_jobs(self, request: Score) -> list[tuple[Job, int]]:
        """Make a job for each continuation, with the index at which the continuation begins."""
        if not request.continuations:
            raise InputError("There is nothing to score: Score.continuations is empty.")
        ids = self.encoder.encode(request.prompt)
        jobs = []
        for continuation in request.continuations:
            whole = [*ids, *self.encoder.encode_continuation(continuation)]
            self.capabilities.check_length(len(whole) + 1)
            jobs.append((self._checked(whole, max_tokens=1, temperature=0.0, prompt_logprobs=0), len(ids)))
        return jobs

    def _checked(self, ids: list[int], **fields: Any) -> Job:
        if min(ids) < 0 or max(ids) >= self._vocabulary:
            raise InputError(
                f"The prompt holds the token id {max(ids)}, and the model knows {self._vocabulary}.",
                hint="Tokenizer and model do not belong together.",
            )
        sampling = self._vllm.SamplingParams(skip_special_tokens=False, **fields)
        return Job(ids, sampling)

    def _check_layer(self, layer: int | None) -> int:
        if not self._layers:
            raise CapabilityError(
                "hidden_states", self.name, hint="VLLM(…, hidden_states=True), on vLLM's V1 runner in eager mode."
            )
        chosen = middle_layer(self._layers) if layer is None else layer
        if not 0 <= chosen < self._layers:
            raise InputError(f"There is no layer {layer}: the model has {self._layers} (0 … {self._layers - 1}).")
        return chosen

    # --- running -----------------------------------------------------------------------------------------------

    def _job(self, make: Callable[[Any], T], request: Any) -> T | LanguageModelError:
        try:
            return make(request)
        except Exception as error:  # whatever it is, it is this request's own
            return as_result(error)

    def _result(self, job: Any, read: Callable[[Any], T]) -> T | LanguageModelError:
        if isinstance(job, LanguageModelError):
            return job
        if isinstance(job, Job) and job.error is not None:
            return job.error
        return self._job(read, job)

    # --- results -----------------------------------------------------------------------------------------------

    def _generation(self, job: Job, params: SamplingParams) -> Generation:
        verdicts = [self.encoder.token_id(v) for v in params.verdicts]
        samples = [self._reader.sample(o, params, verdicts) for o in job.output.outputs]
        if params.temperature == 0:
            samples *= params.n
        if len(samples) != params.n:
            raise GenerationError(f"vLLM gave {len(samples)} samples where {params.n} were asked for.")
        return Generation(tuple(samples), read_usage(job))

    def _followed(
        self, results: list[GenerateResult], jobs: Sequence[Job | LanguageModelError], requests: Sequence[Generate]
    ) -> list[GenerateResult]:
        """Add the verdicts after each sample's last token where these are requested.

        They come from one token more, generated in a second pass for which the prefix cache still holds the prompts.
        """
        more: dict[tuple[int, tuple[int, ...]], Job | LanguageModelError] = {}  # by request and its samples' ids
        for i, (result, job, request) in enumerate(zip(results, jobs, requests)):
            if request.params.next_verdicts and isinstance(result, Generation) and isinstance(job, Job):
                verdicts = list(dict.fromkeys(self.encoder.token_id(v) for v in request.params.verdicts))
                fields: dict[str, Any] = {"max_tokens": 1, "temperature": 0.0, "detokenize": False}
                fields["logprob_token_ids"] = verdicts
                for ids in {s.token_ids for s in result.samples if s.finish_reason in ("length", "stop")}:
                    more[i, ids] = self._job(partial(self._checked, **fields), [*job.ids, *ids])
        self._engine.run([j for j in more.values() if isinstance(j, Job)])
        found = list(results)
        for i, request in enumerate(requests):
            mine = {ids: job for (j, ids), job in more.items() if j == i}
            if mine:
                found[i] = self._result(results[i], partial(self._with_next, mine=mine, params=request.params))
        return found

    def _unmasked(
        self, results: list[GenerateResult], jobs: Sequence[Job | LanguageModelError], requests: Sequence[Generate]
    ) -> list[GenerateResult]:
        """Replace log-probabilities under a grammar by the model's own, from one more pass over prompt and samples.

        vLLM masks what the grammar forbids before it computes them, so that forced tokens would all be certain.
        """
        more: dict[tuple[int, tuple[int, ...]], Job | LanguageModelError] = {}
        fields: dict[str, Any] = {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}
        for i, (result, job, request) in enumerate(zip(results, jobs, requests)):
            params = request.params
            if params.grammar and params.logprobs and isinstance(result, Generation) and isinstance(job, Job):
                for ids in {s.token_ids for s in result.samples}:
                    more[i, ids] = self._job(partial(self._checked, **fields), [*job.ids, *ids])
        self._engine.run([j for j in more.values() if isinstance(j, Job)])
        found = list(results)
        for (i, ids), job in more.items():
            found[i] = self._result(found[i], partial(self._with_logprobs, ids=ids, job=job))
        return found

    def _with_logprobs(self, result: Generation, ids: tuple[int, ...], job: Job | LanguageModelError) -> Generation:
        if isinstance(job, LanguageModelError):
            raise job
        scores = read_scores([(job, len(job.ids) - len(ids))])
        if isinstance(scores, LanguageModelError):
            raise scores
        found = scores.token_logprobs[0]
        samples = (dataclasses.replace(s, logprobs=found) if s.token_ids == ids else s for s in result.samples)
        return Generation(tuple(samples), result.usage + scores.usage)

    def _with_next(
        self, result: Generation, mine: dict[tuple[int, ...], Job | LanguageModelError], params: SamplingParams
    ) -> Generation:
        verdicts = [self.encoder.token_id(v) for v in params.verdicts]
        rows, usage = {}, result.usage
        for ids, job in mine.items():
            if isinstance(job, LanguageModelError):
                raise job
            if job.error is not None:
                raise job.error
            (first,) = job.output.outputs[0].logprobs
            rows[ids] = np.asarray([read_logprob(first, v) for v in verdicts], dtype=np.float64)
            usage += read_usage(job, generated=False)
        samples = [dataclasses.replace(s, next_verdict_logprobs=rows.get(s.token_ids)) for s in result.samples]
        return Generation(tuple(samples), usage)

    # --- hidden states -----------------------------------------------------------------------------------------

    def _count_layers(self) -> int:
        try:
            return int(min(self._engine.ask_workers("selfreflect_layers")))
        except Exception:  # a runner that shows something else than we look for
            return 0

    def _states(self, request: HiddenStates) -> States:
        if not request.sequences:
            raise InputError("HiddenStates.sequences is empty.")
        layer = self._check_layer(request.at.layer)
        ends = [self._eos] if request.at.append_eos else []
        return self._states_of([[*self.encoder.encode(s), *ends] for s in request.sequences], layer, request.at.kind)

    def _states_of(self, sequences: list[list[int]], layer: int, kind: HiddenKind) -> States:
        for ids in sequences:
            self.capabilities.check_length(len(ids) + 1)
        jobs = [self._checked(ids, max_tokens=1, temperature=0.0, detokenize=False) for ids in sequences]
        tapped = self._engine.ask_workers("selfreflect_tap", layer, kind)
        if not any(tapped):
            raise CapabilityError("hidden_states", self.name, hint=f"Layer {layer} has no {kind!r} to tap.")
        try:
            self._engine.run(jobs)
        finally:
            found = self._engine.ask_workers("selfreflect_untap")
        kept: dict[str, bytes] = {k: v for worker in reversed(found) for k, v in worker.items()}
        rows = []
        for job in jobs:
            if job.error is not None:
                raise job.error
            raw = kept.get(np.asarray(job.ids, dtype=np.int32).tobytes().hex())
            if raw is None:
                raise GenerationError("vLLM ran a sequence without computing its last hidden state.")
            rows.append(np.frombuffer(raw, dtype=np.float32))
        return States(np.stack(rows), sum((read_usage(j, generated=False) for j in jobs), Usage()))

    def _captured(self, result: GenerateResult, job: Any, params: SamplingParams) -> GenerateResult:
        """Add the states that ``capture`` requests, by a second pass over what the cache still holds."""
        capture = params.capture
        if capture is None or isinstance(result, LanguageModelError):
            return result
        ends = [self._eos] if capture.append_eos else []
        sequences = []
        for sample in result.samples:
            ids = list(sample.token_ids)
            if sample.finish_reason in ("eos", "grammar") and ids and ids[-1] in self.encoder.control_ids:
                ids = ids[:-1]  # an end of sequence is no part of the text, and not fed twice where it is wanted
            elif sample.finish_reason == "stop":
                ids = self._reader.within_text(sample, params)
            sequences.append([*job.ids, *ids, *ends])
        layer = self._check_layer(capture.layer)
        states = self._result(sequences, lambda s: self._states_of(s, layer, capture.kind))
        if isinstance(states, LanguageModelError):
            return states
        samples = [dataclasses.replace(s, hidden_state=v) for s, v in zip(result.samples, states.states)]
        extra = dataclasses.replace(states.usage, calls=0, prompt_tokens=0, cached_tokens=0)
        return Generation(tuple(samples), result.usage + extra)

    @property
    def _eos(self) -> int:
        if self.tokenizer.eos_token_id is None:
            raise CapabilityError("hidden_states", self.name, hint="Without an EOS token use position='last'.")
        return int(self.tokenizer.eos_token_id)
