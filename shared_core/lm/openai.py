"""Any server that speaks OpenAI's HTTP API, as a backend: vLLM, llama.cpp, Ollama, OpenAI itself.

What the server really does is found out once, at the first call, by small requests (``_oai_probe``). Where it takes
token ids and tokenizes for us (vLLM), or where a tokenizer is given, prompts go out as ids and untrusted text can
hold no control token; else as text with the control strings of untrusted parts neutralised (``neutralise``).
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from shared_core.errors import (
    CapabilityError,
    ContextOverflowError,
    GrammarError,
    InputError,
    LanguageModelError,
    MissingDependencyError,
    ModelLoadError,
    ResponseError,
)
from shared_core.lm import _oai_read as read
from shared_core.lm._loop import LoopThread
from shared_core.lm._oai_http import Deadline, Endpoint, Failure
from shared_core.lm._oai_probe import (
    Abilities,
    Api,
    Route,
    given_id_fields,
    grammar_fields,
    logprob_fields,
    probe,
)
from shared_core.lm._oai_prompt import ServerTokenizer, as_messages, as_text, control_strings, plain_layout
from shared_core.lm.base import (
    BaseLanguageModel,
    Capabilities,
    Generate,
    GenerateResult,
    Generation,
    Prompt,
    Sample,
    SamplingParams,
    Score,
    ScoreResult,
    Scores,
)
from shared_core.types import Usage

if TYPE_CHECKING:
    from shared_core.lm.encoding import Encoder

T = TypeVar("T")
_ROUNDS = 3  # of asking for samples that a server left out


@dataclasses.dataclass(frozen=True, slots=True)
class _Ask:
    """A request ready to be sent but for the number of samples."""

    route: Route
    body: dict[str, Any]
    params: SamplingParams
    verdicts: tuple[str, ...]
    restored: bool


class OpenAICompatibleLM(BaseLanguageModel):
    """A model behind an OpenAI-compatible server.

    The constructor does no I/O. The first call, or reading ``name`` or ``capabilities``, asks the server what it can
    do (about 20 requests of a few tokens; ``probe`` does it on purpose) and keeps the answer. Safe from several
    threads and event loops: all requests run on one private loop. Failures of single requests are values.

    Raw prompts go to ``/completions`` where that does what is asked for, else to the chat as one user message. Chat
    prompts go to ``/chat/completions``. Where ``n`` is ignored, that many requests are sent, the i-th with
    ``seed + i``. ``top_k`` and ``min_tokens`` are sent where set; servers other than vLLM may ignore them.
    ``Sample.stop`` and the exact ``finish_reason`` need a server that tells them (vLLM's ``stop_reason``).

    Args:
        base_url: such as ``http://127.0.0.1:8000/v1`` (``/v1`` is added to a bare host). May hold credentials.
        model: the model's name there; ``None`` takes the only one that the server has.
        api_key: sent to this server; the environment is not read.
        timeout: seconds for one attempt at one request.
        deadline: seconds for a whole call of ``generate`` or ``score`` with all its retries; ``None`` for no limit.
        max_concurrency: requests under way at once.
        max_retries: further attempts after 408, 409, 425, 429, 5xx, time-outs and lost connections, with exponential
            backoff and jitter, waiting at least as long as the server asks (``Retry-After``).
        api: ``chat`` or ``completions`` uses that endpoint alone.
        tokenizer: the model's tokenizer (of transformers, or its name or path): prompts are then rendered and
            encoded here, and sent as ids to servers that take them.
        control: further strings that are control tokens of the model, to be kept out of untrusted text.
        headers: sent with every request, taken for secret.

    Raises:
        InputError: an argument is out of range, or ``base_url`` is no HTTP address.
        ModelLoadError: the tokenizer cannot be loaded.
    """

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = 120.0,
        deadline: float | None = None,
        max_concurrency: int = 8,
        max_retries: int = 4,
        api: Api = "auto",
        tokenizer: Any = None,
        control: Iterable[str] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        if api not in ("auto", "chat", "completions"):
            raise InputError(f"OpenAICompatibleLM: api must be 'auto', 'chat' or 'completions', not {api!r}.")
        if deadline is not None and not deadline > 0:
            raise InputError(f"OpenAICompatibleLM: deadline must be positive, not {deadline!r}.")
        self._endpoint = Endpoint(
            base_url,
            api_key=api_key,
            timeout=timeout,
            max_retries=max_retries,
            max_concurrency=max_concurrency,
            headers=headers,
        )
        self._model, self._api, self._deadline = model or None, api, deadline
        self._control = tuple(control)
        self._encoder = None if tokenizer is None else _encoder(tokenizer)
        self._loop = LoopThread("selfreflect-http")
        self._able: Abilities | None = None
        self._probing: asyncio.Task[Abilities] | None = None
        self._server_tokenizer: ServerTokenizer | None = None

    def __repr__(self) -> str:
        return f"OpenAICompatibleLM({self._endpoint.url!r}, model={self._model!r})"

    def __enter__(self) -> OpenAICompatibleLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the protocol ------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:  # type: ignore[override]
        """The model's name; asks the server if none was given."""
        return self._model if self._model is not None else self.probe().model

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """What the server does; asks it at first use.

        Raises:
            LanguageModelError: the server cannot be asked (BackendUnavailableError, ModelLoadError, …).
        """
        return self.probe().capabilities(own_tokenizer=self._encoder is not None)

    def probe(self) -> Abilities:
        """What the server does, in detail; asked once. Raises as ``capabilities``."""
        return _value(self._run(self._guarded(self._abilities(Deadline(self._deadline)))))

    async def aprobe(self) -> Abilities:
        """``probe`` without blocking the event loop."""
        return _value(await self._arun(self._guarded(self._abilities(Deadline(self._deadline)))))

    def generate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Continue many prompts, ``max_concurrency`` at a time.

        Errors as results: BackendUnavailableError, ResponseError, ContextOverflowError, GrammarError, CapabilityError,
        ModelLoadError, LanguageModelError.
        """
        return self._run(self._all(requests, self._generate))

    async def agenerate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """``generate`` without blocking the event loop."""
        return await self._arun(self._all(requests, self._generate))

    def score(self, requests: Sequence[Score]) -> list[ScoreResult]:
        """Log-probabilities (natural log) of given continuations, where the server scores prompts."""
        return self._run(self._all(requests, self._score))

    async def ascore(self, requests: Sequence[Score]) -> list[ScoreResult]:
        """``score`` without blocking the event loop."""
        return await self._arun(self._all(requests, self._score))

    def close(self) -> None:
        """Close the connections and end the private loop; the object cannot be used after that."""
        if not self._loop.closed:
            self._loop.run(self._endpoint.close())
            self._loop.close()

    # --- running -----------------------------------------------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        self._check_open(work)
        return self._loop.run(work)

    async def _arun(self, work: Coroutine[Any, Any, T]) -> T:
        self._check_open(work)
        return await self._loop.arun(work)

    def _check_open(self, work: Coroutine[Any, Any, Any]) -> None:
        if self._loop.closed:
            work.close()
            raise InputError("This OpenAICompatibleLM was closed.", hint="Make a new one.")

    async def _all(
        self, requests: Sequence[Any], handle: Callable[[Any, Abilities, Deadline], Coroutine[Any, Any, T]]
    ) -> list[T | LanguageModelError]:
        deadline = Deadline(self._deadline)

        async def one(request: Any) -> T:
            return await handle(request, await self._abilities(deadline), deadline)

        return list(await asyncio.gather(*(self._guarded(one(r)) for r in requests)))

    async def _guarded(self, work: Awaitable[T]) -> T | LanguageModelError:
        """The result, or the error of the tree as a value; errors are made anew so that nothing hangs on to them."""
        try:
            return await work
        except Failure as failure:
            return failure.error
        except InputError as error:
            return LanguageModelError(error.message, hint=error.hint)
        except LanguageModelError as error:
            error.__cause__ = error.__context__ = None
            return error

    async def _abilities(self, deadline: Deadline) -> Abilities:
        """One probe for all who wait; a failed one is not kept."""
        if self._able is None:
            if self._probing is None:
                self._probing = asyncio.ensure_future(probe(self._endpoint, self._model, self._api, deadline))
            task = self._probing
            try:
                self._able = await asyncio.shield(task)
            finally:
                if task.done() and self._probing is task:
                    self._probing = None
            known = control_strings(self._able.control_strings, self._control)
            self._control = known
            if self._able.tokenizes and self._able.id_prompts:
                self._server_tokenizer = ServerTokenizer(self._endpoint, self._able.model, known)
        return self._able

    # --- generating --------------------------------------------------------------------------------------------

    async def _generate(self, request: Generate, able: Abilities, deadline: Deadline) -> Generation:
        ask = await self._ask(request, able, deadline)
        samples: list[Sample] = []
        usage = Usage()
        # vLLM refuses to give the same greedy sample n times; nobody needs to be asked for it.
        wanted = request.params.n if request.params.temperature > 0 else 1
        for _ in range(_ROUNDS):
            missing = wanted - len(samples)
            sizes = [missing] if ask.route.n else [1] * missing
            seeds = [len(samples) + i for i in range(len(sizes))]
            answers = await asyncio.gather(*(self._send(ask, n, s, deadline) for n, s in zip(sizes, seeds)))
            for answer in answers:
                usage += read.usage(answer)
                samples += [self._sample(ask, c) for c in read.choices(answer, self._endpoint.url)]
            if len(samples) >= wanted:
                return Generation(tuple(samples[:wanted]) * (request.params.n // wanted), usage)
        raise ResponseError(f"{self._endpoint.url} gave {len(samples)} samples where {wanted} were asked for.")

    async def _send(self, ask: _Ask, n: int, seed_offset: int, deadline: Deadline) -> dict[str, Any]:
        body = dict(ask.body)
        if n > 1:
            body["n"] = n
        if ask.params.seed is not None:
            body["seed"] = (ask.params.seed + seed_offset) % (1 << 63)
        return await self._post(ask.route.path, body, ask.params, deadline)

    async def _post(
        self, path: str, body: dict[str, Any], params: SamplingParams | None, deadline: Deadline
    ) -> dict[str, Any]:
        try:
            return await self._endpoint.post(path, body, deadline)
        except Failure as failure:
            error = failure.error
        if params is not None and params.grammar is not None and "grammar" in error.message.lower():
            raise GrammarError(f"The grammar {params.grammar.name!r} was refused. {error.message}", hint=error.hint)
        raise error

    def _sample(self, ask: _Ask, choice: Mapping[str, Any]) -> Sample:
        return read.sample(choice, ask.params, self._endpoint.url, verdicts=ask.verdicts, restored=ask.restored)

    async def _ask(self, request: Generate, able: Abilities, deadline: Deadline) -> _Ask:
        params, prompt = request.params, request.prompt
        if not prompt:
            raise InputError("The prompt is empty.")
        refuse_white_box(params, able.model)
        route = self._route(able, prompt, params)
        verdicts, fields = await self._verdicts(params, route, able, deadline)
        ids = await self._ids(prompt, route, able, deadline)
        body: dict[str, Any] = {"model": able.model}
        restored = False
        if ids is not None:
            if able.context_length is not None and len(ids) + params.max_tokens > able.context_length:
                raise ContextOverflowError(len(ids) + params.max_tokens, able.context_length)
            body["prompt"] = ids
        elif any(p.token_ids is not None for p in prompt.parts):
            raise CapabilityError(
                "token_prompts", able.model, hint="The server must take ids and tokenize (vLLM), or give tokenizer=."
            )
        elif route.is_chat:
            body["messages"], more, restored = as_messages(prompt, self._control, continues=route.continues)
            body |= more
        else:
            body["prompt"], restored = as_text(plain_layout(prompt).parts, self._control)
        body |= _sampling_fields(params, route) | fields
        return _Ask(route, body, params, verdicts, restored)

    def _route(self, able: Abilities, prompt: Prompt, params: SamplingParams) -> Route:
        """The first route that does all that is asked for; CapabilityError with what the best one lacks."""
        by_ids = able.completions is not None and able.id_prompts and self._encoder is not None
        needs_ids = any(p.token_ids is not None for p in prompt.parts)
        if by_ids or needs_ids:
            order = [able.completions]
        elif prompt.is_chat:
            order = [able.chat or able.completions]
        else:
            order = [able.completions, able.chat]
        routes = [r for r in order if r is not None] or [r for r in (able.chat, able.completions) if r is not None]
        for route in routes:
            if not _lacking(route, params) and (route.logprobs or not params.logprobs):
                return route
        fitting = [r for r in routes if not _lacking(r, params)]
        if fitting:
            return fitting[0]
        lacking = _lacking(routes[0], params)
        hint = {
            "grammar": 'Use vLLM with --structured-outputs-config \'{"backend":"guidance"}\', or a transformers model.',
            "verdict_logprobs": "Use vLLM (logprob_token_ids), or a server that returns top_logprobs.",
        }
        raise CapabilityError(lacking, able.model, hint=hint[lacking])

    async def _ids(self, prompt: Prompt, route: Route, able: Abilities, deadline: Deadline) -> list[int] | None:
        """The prompt as ids; ``None`` where it goes out as text."""
        if route.is_chat or not able.id_prompts:
            return None
        if self._encoder is not None:
            return self._encoder.encode(prompt)
        if self._server_tokenizer is None:
            return None
        return await self._server_tokenizer.encode(plain_layout(prompt), deadline)

    async def _verdicts(
        self, params: SamplingParams, route: Route, able: Abilities, deadline: Deadline
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """How the server will name the verdicts' tokens, and the fields that ask for their log-probabilities."""
        if not params.verdicts:
            return (), logprob_fields(route, 1) if params.logprobs and route.logprobs else {}
        ids = [await self._token_id(v, deadline) for v in params.verdicts]
        known = [i for i in ids if i is not None]
        if route.given_ids and len(known) == len(ids):
            named = tuple(f"{read.ID_PREFIX}{i}" for i in known)
            return named, logprob_fields(route, 1) | given_id_fields(dict.fromkeys(known))
        if route.top_logprobs < 2 or not all(isinstance(v, str) for v in params.verdicts):
            raise CapabilityError(
                "verdict_logprobs", able.model, hint="Give verdicts as text; ids need vLLM (logprob_token_ids)."
            )
        return tuple(str(v) for v in params.verdicts), logprob_fields(route, route.top_logprobs)

    async def _token_id(self, token: int | str, deadline: Deadline) -> int | None:
        if self._encoder is not None:
            return self._encoder.token_id(token)
        if isinstance(token, int):
            return token
        return None if self._server_tokenizer is None else await self._server_tokenizer.token_id(token, deadline)

    # --- scoring -----------------------------------------------------------------------------------------------

    async def _score(self, request: Score, able: Abilities, deadline: Deadline) -> Scores:
        if not request.continuations:
            raise InputError("There is nothing to score: Score.continuations is empty.")
        by_ids = able.id_prompts and able.prompt_logprobs and (self._encoder or self._server_tokenizer)
        if not by_ids and not able.echo:
            raise CapabilityError("score", able.model, hint="Use a transformers model, or vLLM (prompt_logprobs).")
        score = self._score_ids if by_ids else self._score_echo
        scored = await asyncio.gather(*(score(request.prompt, c, able, deadline) for c in request.continuations))
        return Scores(tuple(s for s, _ in scored), sum((u for _, u in scored), Usage()))

    async def _score_ids(
        self, prompt: Prompt, continuation: Prompt, able: Abilities, deadline: Deadline
    ) -> tuple[tuple[float, ...], Usage]:
        assert able.completions is not None
        if self._encoder is not None:
            given, wanted = self._encoder.encode(prompt), self._encoder.encode_continuation(continuation)
        else:
            assert self._server_tokenizer is not None
            given = await self._server_tokenizer.encode(plain_layout(prompt), deadline)
            wanted = await self._server_tokenizer.continuation(continuation, deadline)
        if not wanted:
            return (), Usage()
        ids = [*given, *wanted]
        if able.context_length is not None and len(ids) >= able.context_length:
            raise ContextOverflowError(len(ids) + 1, able.context_length)
        body = {"model": able.model, "prompt": ids, "prompt_logprobs": 0, "temperature": 0, able.completions.limit: 1}
        answer = await self._post(able.completions.path, body, None, deadline)
        found = read.prompt_logprobs(read.choices(answer, self._endpoint.url)[0], ids)
        if found is None:
            raise ResponseError(f"{self._endpoint.url} gave no log-probabilities of the prompt.")
        return tuple(found[len(given) :]), dataclasses.replace(read.usage(answer), generated_tokens=0)

    async def _score_echo(
        self, prompt: Prompt, continuation: Prompt, able: Abilities, deadline: Deadline
    ) -> tuple[tuple[float, ...], Usage]:
        assert able.completions is not None
        if any(p.token_ids is not None for p in (*prompt.parts, *continuation.parts)):
            raise CapabilityError("token_prompts", able.model)
        before, _ = as_text(plain_layout(prompt).parts, self._control)
        after, _ = as_text(continuation.parts, self._control)
        if not after:
            return (), Usage()
        body = {"model": able.model, "prompt": before + after, "echo": True, "logprobs": 1, "temperature": 0}
        answer = await self._post(able.completions.path, {**body, able.completions.limit: 1}, None, deadline)
        at = read.positions(read.choices(answer, self._endpoint.url)[0])
        if at is None or any(p.offset is None for p in at):
            raise ResponseError(f"{self._endpoint.url} gave no log-probabilities of the echoed prompt.")
        start, end = len(before), len(before) + len(after)
        ends = [p.offset for p in at[1:]] + [math.inf]
        inside = [p for p, e in zip(at, ends) if e > start and p.offset < end]  # type: ignore[operator]
        return tuple(p.logprob for p in inside), dataclasses.replace(read.usage(answer), generated_tokens=0)


def _sampling_fields(params: SamplingParams, route: Route) -> dict[str, Any]:
    """Fields for how to sample; what only some servers know is sent only where it is asked for or known to work."""
    fields: dict[str, Any] = {route.limit: params.max_tokens, "temperature": params.temperature}
    if params.top_p < 1:
        fields["top_p"] = params.top_p
    if params.stop:
        fields["stop"] = list(params.stop)
    if params.top_k:
        fields["top_k"] = params.top_k
    if params.min_tokens:
        fields["min_tokens"] = params.min_tokens
    if params.grammar is not None and route.grammar is not None:
        fields |= grammar_fields(route.grammar, params.grammar)
    if route.returns_ids:  # vLLM
        fields |= {"return_token_ids": True, "skip_special_tokens": False, "spaces_between_special_tokens": False}
        if params.include_stop and params.stop:
            fields["include_stop_str_in_output"] = True
    return fields


def refuse_white_box(params: SamplingParams, name: str) -> None:
    """CapabilityError if what only the model's insides could tell is asked for."""
    for asked, capability in (("capture", "hidden_states"), ("token_statistics",) * 2, ("attention",) * 2):
        if getattr(params, asked, None):
            raise CapabilityError(capability, name, hint="Use a transformers model, or allow another estimator.")


def _lacking(route: Route, params: SamplingParams) -> str:
    if params.grammar is not None and route.grammar is None:
        return "grammar"
    if params.verdicts and not route.verdicts:
        return "verdict_logprobs"
    return ""


def _value(result: T | LanguageModelError) -> T:
    if isinstance(result, LanguageModelError):
        raise result
    return result


def _encoder(tokenizer: Any) -> Encoder:
    from shared_core.lm.encoding import Encoder

    if isinstance(tokenizer, str) or hasattr(tokenizer, "__fspath__"):
        try:
            from transformers import AutoTokenizer
        except ImportError as error:
            raise MissingDependencyError("transformers", extra="transformers", purpose="A tokenizer") from error
        given = str(tokenizer)
        try:
            tokenizer = AutoTokenizer.from_pretrained(given)
        except Exception as error:
            raise ModelLoadError(f"No tokenizer could be loaded from {given!r}: {error}") from error
    return Encoder(tokenizer)
