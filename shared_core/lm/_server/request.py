"""From requests to what is sent, given what the server does; and scores, which need no more than that."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from typing import TYPE_CHECKING, Any

from shared_core.errors import CapabilityError, ContextOverflowError, InputError, ResponseError
from shared_core.lm._server import read
from shared_core.lm._server.http import Deadline, Endpoint
from shared_core.lm._server.probe import Abilities, Route, given_id_fields, grammar_fields, logprob_fields
from shared_core.lm._server.tokens import ServerTokenizer
from shared_core.lm.base import Generate, Prompt, SamplingParams, Score, Scores
from shared_core.lm.chat.layout import as_messages, as_text, control_strings, plain_layout
from shared_core.types import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared_core.lm.encoding import Encoder


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """A request ready to be sent but for the number of samples and the seed.

    Attributes:
        route: where to.
        body: the fields.
        params: what was asked for.
        verdicts: how the server will name the verdicts' tokens.
        restored: control strings were neutralised in the prompt, to be restored in the samples.
    """

    route: Route
    body: dict[str, Any]
    params: SamplingParams
    verdicts: tuple[str, ...]
    restored: bool


class Planner:
    """Plans requests to one server.

    Args:
        endpoint: the server.
        able: what it does.
        encoder: of the model's tokenizer, where one was given.
        control: further control strings of the model.
    """

    def __init__(self, endpoint: Endpoint, able: Abilities, encoder: Encoder | None, control: Iterable[str]) -> None:
        self._endpoint, self.able, self._encoder = endpoint, able, encoder
        self._control = control_strings(able.control_strings, control)
        self._server_tokenizer: ServerTokenizer | None = None
        if able.tokenizes:
            self._server_tokenizer = ServerTokenizer(endpoint, able.model, self._control, able.control_strings)

    async def ask(self, request: Generate, deadline: Deadline) -> Ask:
        """The request to send for ``request``.

        Raises:
            CapabilityError, ContextOverflowError, InputError: it cannot be carried out.
            Failure: the server failed at tokenizing.
        """
        params, prompt = request.params, request.prompt
        if not prompt:
            raise InputError("The prompt is empty.")
        refuse_white_box(params, self.able.model)
        route = self._route(prompt, params)
        verdicts, fields = await self._verdicts(params, route, deadline)
        ids = await self._ids(prompt, route, deadline)
        body: dict[str, Any] = {"model": self.able.model}
        restored = False
        if ids is not None:
            if self.able.context_length is not None and len(ids) + params.max_tokens > self.able.context_length:
                raise ContextOverflowError(len(ids) + params.max_tokens, self.able.context_length)
            body["prompt"] = ids
        elif any(p.token_ids is not None for p in prompt.parts):
            raise CapabilityError(
                "token_prompts",
                self.able.model,
                hint="The server must take ids and tokenize (vLLM), or give tokenizer=.",
            )
        elif route.is_chat:
            body["messages"], more, restored = as_messages(prompt, self._control, continues=route.continues)
            body |= more
        else:
            body["prompt"], restored = as_text(plain_layout(prompt).parts, self._control)
        body |= _sampling_fields(params, route) | fields
        return Ask(route, body, params, verdicts, restored)

    def _route(self, prompt: Prompt, params: SamplingParams) -> Route:
        """The first route that does all that is asked for; CapabilityError with what the best one lacks."""
        by_ids = self.able.completions is not None and self.able.id_prompts and self._encoder is not None
        needs_ids = any(p.token_ids is not None for p in prompt.parts)
        if needs_ids and not by_ids and prompt.is_chat and self.able.chat is not None:
            # Ids cannot be put into messages, and the plain layout would not be what the model was trained on.
            raise CapabilityError("token_prompts", self.able.model, hint="For ids in a chat give tokenizer=.")
        if by_ids or needs_ids:
            order = [self.able.completions]
        elif prompt.is_chat:
            order = [self.able.chat or self.able.completions]
        else:
            order = [self.able.completions, self.able.chat]
        routes = [r for r in order if r is not None] or [
            r for r in (self.able.chat, self.able.completions) if r is not None
        ]
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
        raise CapabilityError(lacking, self.able.model, hint=hint[lacking])

    async def _ids(self, prompt: Prompt, route: Route, deadline: Deadline) -> list[int] | None:
        """The prompt as ids; ``None`` where it goes out as text."""
        if route.is_chat or not self.able.id_prompts or not (self._encoder or self._server_tokenizer):
            return None
        return await self._encoded(prompt, deadline)

    async def _verdicts(
        self, params: SamplingParams, route: Route, deadline: Deadline
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
                "verdict_logprobs", self.able.model, hint="Give verdicts as text; ids need vLLM (logprob_token_ids)."
            )
        return tuple(str(v) for v in params.verdicts), logprob_fields(route, route.top_logprobs)

    async def _token_id(self, token: int | str, deadline: Deadline) -> int | None:
        if self._encoder is not None:
            return self._encoder.token_id(token)
        if isinstance(token, int):
            return token
        return None if self._server_tokenizer is None else await self._server_tokenizer.token_id(token, deadline)

    async def token_ids(self, strings: Sequence[str], deadline: Deadline) -> list[int | None]:
        """The id of each string that is one token; ``None`` for all where nobody can tell."""
        if self._encoder is not None:
            return [self._encoder.single_id(s) for s in strings]
        if self._server_tokenizer is None:
            return [None] * len(strings)
        return await self._server_tokenizer.token_ids(strings, deadline)

    # --- scoring -----------------------------------------------------------------------------------------------

    async def score(self, request: Score, deadline: Deadline) -> Scores:
        """Scores of the continuations, by ids where the server takes them, else by echo; raises as ``ask``."""
        if not request.continuations:
            raise InputError("There is nothing to score: Score.continuations is empty.")
        by_ids = self.able.id_prompts and self.able.prompt_logprobs and (self._encoder or self._server_tokenizer)
        if not by_ids and not self.able.echo:
            raise CapabilityError("score", self.able.model, hint="Use a transformers model, or vLLM (prompt_logprobs).")
        given = await self._encoded(request.prompt, deadline) if by_ids else None
        scored = await asyncio.gather(
            *(
                self._score_echo(request.prompt, c, deadline) if given is None else self._score_ids(given, c, deadline)
                for c in request.continuations
            )
        )
        return Scores(tuple(s for s, _ in scored), sum((u for _, u in scored), Usage()))

    async def _encoded(self, prompt: Prompt, deadline: Deadline) -> list[int]:
        if self._encoder is not None:
            return self._encoder.encode(prompt)
        assert self._server_tokenizer is not None
        return await self._server_tokenizer.encode(plain_layout(prompt), deadline)

    async def _score_ids(
        self, given: list[int], continuation: Prompt, deadline: Deadline
    ) -> tuple[tuple[float, ...], Usage]:
        assert self.able.completions is not None
        if self._encoder is not None:
            wanted = self._encoder.encode_continuation(continuation)
        else:
            assert self._server_tokenizer is not None
            wanted = await self._server_tokenizer.continuation(continuation, deadline)
        if not wanted:
            return (), Usage()
        ids = [*given, *wanted]
        if self.able.context_length is not None and len(ids) >= self.able.context_length:
            raise ContextOverflowError(len(ids) + 1, self.able.context_length)
        body = {
            "model": self.able.model,
            "prompt": ids,
            "prompt_logprobs": 0,
            "temperature": 0,
            self.able.completions.limit: 1,
        }
        answer = await self._endpoint.post(self.able.completions.path, body, deadline)
        found = read.prompt_logprobs(read.choices(answer, self._endpoint.url)[0], ids)
        if found is None:
            raise ResponseError(f"{self._endpoint.url} gave no log-probabilities of the prompt.")
        return tuple(found[len(given) :]), dataclasses.replace(read.usage(answer), generated_tokens=0)

    async def _score_echo(
        self, prompt: Prompt, continuation: Prompt, deadline: Deadline
    ) -> tuple[tuple[float, ...], Usage]:
        assert self.able.completions is not None
        if any(p.token_ids is not None for p in (*prompt.parts, *continuation.parts)):
            raise CapabilityError("token_prompts", self.able.model)
        before, _ = as_text(plain_layout(prompt).parts, self._control)
        after, _ = as_text(continuation.parts, self._control)
        if not after:
            return (), Usage()
        body = {"model": self.able.model, "prompt": before + after, "echo": True, "logprobs": 1, "temperature": 0}
        answer = await self._endpoint.post(
            self.able.completions.path, {**body, self.able.completions.limit: 1}, deadline
        )
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
