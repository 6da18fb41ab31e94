"""Backend for any server with OpenAI's HTTP API: vLLM, llama.cpp, Ollama, OpenAI itself.

What the server really does is found out once, at the first call, by small requests (``_server.probe``). Where it takes
token ids and tokenizes for us (vLLM), or where a tokenizer is given, prompts go out as ids and untrusted text can
hold no control token; else as text with the control strings of untrusted parts neutralised (``chat.layout``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

from shared_core.errors import InputError, LanguageModelError, MissingDependencyError
from shared_core.lm._server.abilities import DEAR, Abilities
from shared_core.lm._server.attempts import Deadline, Failure
from shared_core.lm._server.http import Endpoint
from shared_core.lm._server.probe import Api, probe
from shared_core.lm._server.request import Planner
from shared_core.lm._server.sampler import Sampler
from shared_core.lm.base import (
    BaseLanguageModel,
    Capabilities,
    Generate,
    GenerateResult,
    Generation,
    Score,
    ScoreResult,
    Scores,
)
from shared_core.lm.identity import plain_name
from shared_core.support.pickling import Remade
from shared_core.support.threads import LoopThread, ahear, hear

if TYPE_CHECKING:
    from shared_core.lm.encoding import Encoder

logger = logging.getLogger(__name__)

T = TypeVar("T")


class OpenAICompatibleLM(Remade, BaseLanguageModel):
    """A model behind an OpenAI-compatible server.

    The constructor does no I/O. The first call, or reading ``name`` or ``capabilities``, detects the server's
    abilities (about 40 requests of a few tokens; ``probe`` does so explicitly) and keeps the result, for a day on disk
    where the server tells its version. Safe from several threads and event loops: all requests run on one private loop
    and share its connections. Failures of single requests are values.

    Raw prompts go to ``/completions`` where that does what is asked for, else to the chat as one user message. Chat
    prompts go to ``/chat/completions``. Where ``n`` is ignored, that many requests are sent, the i-th with
    ``seed + i``. ``top_k`` is sent where it has an effect, ``min_tokens`` where set: only vLLM is sure to heed it.
    ``Sample.stop`` and the exact ``finish_reason`` need a server that returns them (vLLM's ``stop_reason``).

    Args:
        base_url: such as ``http://127.0.0.1:8000/v1`` (``/v1`` is added to a bare host). May hold credentials, and
            Azure's ``?api-version=…``: that goes out with every request then, and the key as ``api-key``.
        model: the model's name there; ``None`` takes the only one that the server has.
        api_key: sent to this server; the environment is not read.
        timeout: seconds for one attempt at one request.
        deadline: seconds for a whole call of ``generate`` or ``score`` with all its retries; infinite for no limit. If
            ``None``, each request of the call has ten minutes from when its first attempt begins.
        max_concurrency: requests under way at once.
        max_retries: further attempts after 408, 409, 425, 429, 5xx, time-outs and lost connections, with exponential
            backoff and jitter, waiting at least as long as the server asks (``Retry-After``), but a minute at most.
        api: ``chat`` or ``completions`` uses that endpoint alone.
        tokenizer: the model's tokenizer (of transformers, or its name or path): prompts are then rendered and
            encoded here, and sent as ids to servers that take them.
        control: further strings that are control tokens of the model, to be kept out of untrusted text.
        headers: sent with every request, treated as secret; a redirect to another host does not take them along.
        thinking_tokens: added to ``max_tokens`` once the model was seen to use it up before it began to answer.

    Raises:
        InputError: an argument is out of range, or ``base_url`` is no HTTP address.
        ModelLoadError: the tokenizer cannot be loaded.

    >>> OpenAICompatibleLM("http://127.0.0.1:8000", model="qwen", deadline=60)  # asks the server when it is used
    OpenAICompatibleLM('http://127.0.0.1:8000/v1', model='qwen')
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
        thinking_tokens: int = 2048,
    ) -> None:
        if api not in ("auto", "chat", "completions"):
            raise InputError(f"OpenAICompatibleLM: api must be 'auto', 'chat' or 'completions', not {api!r}.")
        if isinstance(thinking_tokens, bool) or not isinstance(thinking_tokens, int) or thinking_tokens < 0:
            raise InputError(
                f"OpenAICompatibleLM: thinking_tokens must be a whole number, 0 or more, not {thinking_tokens!r}."
            )
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
        self._loop = LoopThread("selfreflect-http", self._endpoint.close)
        self._planner: Planner | None = None
        self._probing: asyncio.Task[Planner] | None = None
        self._fresh = False
        self._sampler = Sampler(self._endpoint, thinking_tokens)

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
    def identity(self) -> str:
        """Key for binding calibrations: the model's name, and the server's details of it (asked once)."""
        able = self.probe()
        details = ", ".join(f"{name} {value}" for name, value in able.details)
        return f"{plain_name(able.model)} ({details})" if details else plain_name(able.model)

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]  # known only once the server was asked
        """Its abilities; asks the server at first use (LanguageModelError, of any kind, if it cannot be asked)."""
        return self.probe().capabilities(own_tokenizer=self._encoder is not None)

    @property
    def samples_are_calls(self) -> bool:
        """Whether each sample of a request may be a call of its own (budgets count them); never asks the server."""
        able = self._planner.able if self._planner is not None else None
        return able is None or not all(r.n for r in (able.chat, able.completions) if r is not None)

    def probe(self, *, fresh: bool = False) -> Abilities:
        """Return the server's abilities in detail; asked once. Raises as ``capabilities``.

        Of a server that went away they are the last known ones, at once: only requests for text wait for it.

        Args:
            fresh: ask again, whatever is known: the server may have been started with other flags.
        """
        if fresh:
            self._planner, self._fresh = None, True
        elif (known := self._planner) is not None:
            return known.able
        return _value(self._opened.run(self._guarded(self._planned(Deadline(self._deadline))))).able

    def generate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Continue many prompts, ``max_concurrency`` at a time.

        Errors as results: BackendUnavailableError, ResponseError, ContextOverflowError, GrammarError, CapabilityError,
        ModelLoadError, LanguageModelError.
        """
        return self._opened.run(self._all(requests, self._sampler.generate))

    def stream(self, request: Generate) -> Generator[str, None, Generation]:
        """Yield one sample's text in the pieces in which the server writes it; return the sample as ``generate`` does.

        The pieces are raw: thoughts and what stands behind a stop string are taken out of the returned sample only.
        Leaving the generator early ends the text on the server.

        Raises:
            CapabilityError: the server does not stream, or the request asks for more than one sample.
            LanguageModelError: as the results of ``generate``.
        """
        return _value((yield from hear(lambda heard: self._opened.submit(self._streamed(request, heard)))))

    async def astream(self, request: Generate) -> AsyncGenerator[str | Generation, None]:
        """Yield the pieces as ``stream`` does without blocking the event loop; the last item is the whole result."""
        async with aclosing(ahear(lambda heard: self._opened.submit(self._streamed(request, heard)))) as pieces:
            async for piece in pieces:
                if isinstance(piece, LanguageModelError):
                    raise piece
                yield piece

    async def _streamed(self, request: Generate, heard: Callable[[str], None]) -> Generation | LanguageModelError:
        async def one() -> Generation:
            deadline = Deadline(self._deadline)
            return await self._sampler.stream(request, await self._planned(deadline), deadline, heard)

        return await self._guarded(one())

    async def agenerate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Run ``generate`` without blocking the event loop."""
        return await self._opened.arun(self._all(requests, self._sampler.generate))

    def score(self, requests: Sequence[Score]) -> list[ScoreResult]:
        """Compute log-probabilities (natural log) of given continuations, where the server scores prompts."""
        return self._opened.run(self._all(requests, self._score))

    async def ascore(self, requests: Sequence[Score]) -> list[ScoreResult]:
        """Run ``score`` without blocking the event loop."""
        return await self._opened.arun(self._all(requests, self._score))

    def token_ids(self, strings: Sequence[str]) -> list[int | None]:
        """Return the id of each string that is one token of the server's tokenizer (or of ``tokenizer=``).

        ``None`` for the others, and for all where the server tells nothing of its tokenizer (no ``/tokenize``).

        Raises:
            LanguageModelError: the server cannot be asked now.
        """
        return _value(self._opened.run(self._guarded(self._token_ids(strings))))

    async def atoken_ids(self, strings: Sequence[str]) -> list[int | None]:
        """Run ``token_ids`` without blocking the event loop."""
        return _value(await self._opened.arun(self._guarded(self._token_ids(strings))))

    async def _token_ids(self, strings: Sequence[str]) -> list[int | None]:
        deadline = Deadline(self._deadline)
        return await (await self._planned(deadline)).token_ids(strings, deadline)

    def close(self) -> None:
        """Close the connections and end the private loop; the object cannot be used after that."""
        self._loop.close()

    # --- running -----------------------------------------------------------------------------------------------

    @property
    def _opened(self) -> LoopThread:
        if self._loop.closed:
            raise InputError("This OpenAICompatibleLM was closed.", hint="Make a new one.")
        return self._loop

    async def _all(
        self, requests: Sequence[Any], handle: Callable[[Any, Planner, Deadline], Coroutine[Any, Any, T]]
    ) -> list[T | LanguageModelError]:
        deadline = Deadline(self._deadline)

        async def one(request: Any) -> T:
            planner = await self._planned(deadline.for_request())
            return await handle(request, planner, deadline.for_request())

        return list(await asyncio.gather(*(self._guarded(one(r)) for r in requests)))

    async def _guarded(self, work: Awaitable[T]) -> T | LanguageModelError:
        """Return the result, or the error as a value; errors are copied so that nothing holds on to their frames."""
        try:
            return await work
        except Failure as failure:
            return failure.error
        except InputError as error:
            return LanguageModelError(error.message, hint=error.hint)
        except LanguageModelError as error:
            error.__cause__ = error.__context__ = None
            return error

    async def _planned(self, deadline: Deadline) -> Planner:
        """Probe once for all who wait; a failed probe, or one from before the server went away, does not count."""
        # It may come back as another model; abilities kept on disk make asking cheap.
        if self._planner is None or self._endpoint.lost or self._probing is not None:
            if self._probing is None:
                self._probing = asyncio.ensure_future(self._probe(deadline))
            task = self._probing
            try:
                self._planner = await asyncio.shield(task)
            finally:
                if task.done() and self._probing is task:
                    self._probing = None
        return self._planner

    async def _probe(self, deadline: Deadline) -> Planner:
        self._endpoint.lost = False
        before = self._endpoint.calls
        try:
            able, self._sampler.kept = await probe(self._endpoint, self._model, self._api, deadline, fresh=self._fresh)
        except BaseException:
            self._endpoint.lost = True  # what is known is of before
            raise
        self._fresh = False
        asked = self._endpoint.calls - before
        logger.info(
            "%s answered %d small requests about its abilities; no usage counts them.", self._endpoint.url, asked
        )
        for route in filter(None, (able.chat, able.completions)):
            where = f"{self._endpoint.url}{route.path}"
            if route.left_out:
                names = ", ".join(route.left_out)
                logger.warning("%s takes no neutral %s: the server's own defaults apply.", where, names)
            if not route.seed:
                logger.warning("%s takes no seed: samples cannot be repeated, and may be alike.", where)
            if route.logprob_seconds > DEAR:
                logger.warning(
                    "%s takes %.2f s for the log-probabilities of one token: estimators that need none are faster.",
                    where,
                    route.logprob_seconds,
                )
        return Planner(self._endpoint, able, self._encoder, self._control)

    async def _score(self, request: Score, planner: Planner, deadline: Deadline) -> Scores:
        return await planner.score(request, deadline)


def _value(result: T | LanguageModelError) -> T:
    if isinstance(result, LanguageModelError):
        raise result
    return result


def _encoder(tokenizer: Any) -> Encoder:
    from shared_core.lm.checkpoints import installed, load_tokenizer
    from shared_core.lm.encoding import Encoder

    if isinstance(tokenizer, str) or hasattr(tokenizer, "__fspath__"):
        if not installed("transformers"):
            raise MissingDependencyError("transformers", extra="transformers", purpose="A tokenizer")
        tokenizer = load_tokenizer(tokenizer, str(tokenizer))
    return Encoder(tokenizer)
