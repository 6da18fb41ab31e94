"""Build request bodies for the server's detected abilities, and score continuations."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from shared_core.errors import CapabilityError, InputError, LanguageModelError, ResponseError
from shared_core.lm._server import read
from shared_core.lm._server.abilities import Abilities, Route, given_id_fields, grammar_fields, logprob_fields, request
from shared_core.lm._server.attempts import Deadline
from shared_core.lm._server.http import Endpoint
from shared_core.lm._server.tokens import ServerTokenizer
from shared_core.lm.base import Generate, Prompt, Sample, SamplingParams, Score, Scores
from shared_core.lm.chat.layout import as_messages, as_text, control_strings, plain_layout
from shared_core.types import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from shared_core.lm.encoding import Encoder


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """A request that lacks only the number of samples and the seed.

    Attributes:
        params: what was asked for.
        verdicts: how the server will name the verdicts' tokens.
        verdict_ids: their ids, where they are known.
        restored: control strings were neutralised in the prompt, to be restored in the samples.
    """

    route: Route
    body: dict[str, Any]
    params: SamplingParams
    verdicts: tuple[str, ...]
    verdict_ids: tuple[int, ...]
    restored: bool


Sampled = tuple[Sample, tuple[int, ...]]
"""A sample, and all ids that the server generated for it, the model's thoughts among them."""


class Planner:
    """Builder of requests to one server.

    Args:
        encoder: of the model's tokenizer, where one was given.
        control: further control strings of the model.
    """

    def __init__(self, endpoint: Endpoint, able: Abilities, encoder: Encoder | None, control: Iterable[str]) -> None:
        self._endpoint, self.able, self._encoder = endpoint, able, encoder
        self._control = control_strings(able.control_strings, control)
        self._limits = able.capabilities(own_tokenizer=encoder is not None)
        self._server_tokenizer: ServerTokenizer | None = None
        if able.tokenizes:
            self._server_tokenizer = ServerTokenizer(endpoint, able.model, self._control, able.control_strings)

    async def ask(self, wanted: Generate, deadline: Deadline) -> Ask:
        """Build the request.

        Raises:
            CapabilityError, InputError: it cannot be carried out.
            Failure: the server failed at tokenizing.
        """
        params, prompt = wanted.params, wanted.prompt
        if not prompt:
            raise InputError("The prompt is empty.")
        route = self._route(prompt, params)
        verdict_ids = await self._verdict_ids(params, route, deadline)
        verdicts, fields = self._verdicts(params, route, verdict_ids)
        ids = await self._encoded(prompt, deadline) if self._encodes and not route.is_chat else None
        body: dict[str, Any] = {"model": self.able.model}
        restored = False
        if ids is not None:
            self._limits.check_length(len(ids) + params.max_tokens + params.next_verdicts)
            body["prompt"] = ids
        elif any(p.token_ids is not None for p in prompt.parts):
            raise CapabilityError(
                "token_prompts",
                self.able.model,
                hint="The server must take ids and tokenize (vLLM), or give tokenizer=.",
            )
        elif route.is_chat:
            messages, more, restored = as_messages(prompt, self._control, continues=route.continues)
            body |= {"messages": [{"role": role, "content": text} for role, text in messages], **more}
        else:
            body["prompt"], restored = as_text(plain_layout(prompt).parts, self._control)
        body |= _sampling_fields(params, route) | fields
        return Ask(route, body, params, verdicts, verdict_ids, restored)

    def _route(self, prompt: Prompt, params: SamplingParams) -> Route:
        """Choose the first route that does all that is needed; CapabilityError with what the best one lacks."""
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
        fitting = [r for r in routes if not self._lacking(r, params)]
        if not fitting:
            raise CapabilityError(lacking := self._lacking(routes[0], params), self.able.model, hint=_HINTS[lacking])
        return next((r for r in fitting if r.logprobs or not params.logprobs), fitting[0])

    def _lacking(self, route: Route, params: SamplingParams) -> str:
        """Return the first capability that is needed and that the route lacks; empty if there is none."""
        has = {
            "verdict_logprobs": route.verdicts,
            "next_verdicts": self.able.follows_up(route),
            "stop_tokens": route.stop_tokens,
            "grammar": route.grammar is not None,
            "alternatives": route.alternatives,
        }
        return next((name for name in params.needs if not has.get(name)), "")

    @property
    def _encodes(self) -> bool:
        """Whether prompts can be sent as ids."""
        return self.able.id_prompts and (self._encoder is not None or self._server_tokenizer is not None)

    async def _verdict_ids(self, params: SamplingParams, route: Route, deadline: Deadline) -> tuple[int, ...]:
        """Return the ids of the verdicts; empty where the server cannot be asked by id.

        InputError or LanguageModelError if a verdict is not one token.
        """
        given = params.verdicts
        if not given or not route.given_ids:
            return ()
        if self._encoder is not None:
            return tuple(self._encoder.token_id(v) for v in given)
        named = list(dict.fromkeys(v for v in given if isinstance(v, str)))
        if named and self._server_tokenizer is None:
            return ()
        known: dict[str, int] = {}
        for name, token_id in zip(named, await self.token_ids(named, deadline)):
            if token_id is None:
                raise LanguageModelError(
                    f"{name!r} is not one token of the server's tokenizer.",
                    hint="Give a string that is a single token (mind a leading space), or a token id.",
                )
            known[name] = token_id
        return tuple(v if isinstance(v, int) else known[v] for v in given)

    def _verdicts(
        self, params: SamplingParams, route: Route, ids: tuple[int, ...]
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Return the names the server will give the verdicts' tokens, and the fields that request them."""
        if params.alternatives:
            return (), logprob_fields(route, min(params.alternatives, route.top_logprobs))
        if not params.verdicts:
            return (), logprob_fields(route, 1) if params.logprobs and route.logprobs else {}
        if ids:
            named = tuple(f"{read.ID_PREFIX}{i}" for i in ids)
            return named, logprob_fields(route, 1) | given_id_fields(dict.fromkeys(ids))
        if route.top_logprobs < 2 or not all(isinstance(v, str) for v in params.verdicts):
            raise CapabilityError(
                "verdict_logprobs", self.able.model, hint="Give verdicts as text; ids need vLLM (logprob_token_ids)."
            )
        if params.next_verdicts:
            raise CapabilityError("next_verdicts", self.able.model, hint=_HINTS["next_verdicts"])
        return tuple(str(v) for v in params.verdicts), logprob_fields(route, route.top_logprobs)

    # --- what comes next ---------------------------------------------------------------------------------------

    async def next_verdicts(
        self, ask: Ask, prompt: Sequence[int], samples: Sequence[Sampled], deadline: Deadline
    ) -> tuple[list[Sample], Usage]:
        """Add the verdicts after each sample's last token, by requesting one more token for each.

        Args:
            prompt: its prompt's ids as the server saw them.
            samples: and all ids that were generated for each; those that have ended with the sequence stay as they are.

        Raises:
            ResponseError: the server gave no ids of the prompt.
        """
        ends = [_generated(s, ids) for s, ids in samples]
        open_ends = [s.finish_reason in ("length", "stop") for s, _ in samples]
        going_on = dict.fromkeys(ids for ids, is_open in zip(ends, open_ends) if ids and is_open)
        if going_on and not prompt:
            raise ResponseError(f"{self._endpoint.url} returned no ids of the prompt, so it cannot be continued.")
        found = await asyncio.gather(*(self._row(ask, [*prompt, *ids], deadline) for ids in going_on))
        rows = {ids: row for ids, (row, _) in zip(going_on, found)}
        unknown = np.full(len(ask.verdicts), math.nan)  # where the last token is not known
        done = [
            dataclasses.replace(s, next_verdict_logprobs=rows.get(ids, unknown) if is_open else None)
            for (s, _), ids, is_open in zip(samples, ends, open_ends)
        ]
        return done, sum((u for _, u in found), Usage())

    async def _row(self, ask: Ask, ids: list[int], deadline: Deadline) -> tuple[NDArray[np.float64], Usage]:
        fields = {"logprobs": 1, **given_id_fields(dict.fromkeys(ask.verdict_ids))}
        choice, usage = await self._one_more(ids, deadline, **fields)
        rows = read.verdict_matrix(read.positions(choice), ask.verdicts)
        return rows[0] if len(rows) else np.full(len(ask.verdicts), math.nan), usage

    async def _one_more(
        self, prompt: str | Sequence[int], deadline: Deadline, **fields: Any
    ) -> tuple[Mapping[str, Any], Usage]:
        """Request one token behind a prompt, for what comes with it; return the choice, and the usage without it."""
        route = self.able.completions
        assert route is not None
        answer = await self._endpoint.post(route.path, request(route, self.able.model, prompt, 1, **fields), deadline)
        usage = dataclasses.replace(read.usage(answer), generated_tokens=0)
        return read.choices(answer, self._endpoint.url)[0], usage

    # --- ids ---------------------------------------------------------------------------------------------------

    async def token_ids(self, strings: Sequence[str], deadline: Deadline) -> list[int | None]:
        """Return the id of each string that is one token; ``None`` for all where no tokenizer is known."""
        if self._encoder is not None:
            return [self._encoder.single_id(s) for s in strings]
        if self._server_tokenizer is None:
            return [None] * len(strings)
        return await self._server_tokenizer.token_ids(strings, deadline)

    # --- scoring -----------------------------------------------------------------------------------------------

    async def score(self, request: Score, deadline: Deadline) -> Scores:
        """Score the continuations, by ids where the server takes them, else by echo; raises as ``ask``."""
        if not request.continuations:
            raise InputError("There is nothing to score: Score.continuations is empty.")
        by_ids = self._encodes and self.able.prompt_logprobs
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
        if self._encoder is not None:
            wanted = self._encoder.encode_continuation(continuation)
        else:
            assert self._server_tokenizer is not None
            wanted = await self._server_tokenizer.continuation(continuation, deadline)
        if not wanted:
            return (), Usage()
        found, usage = await self._logprobs_of([*given, *wanted], deadline)
        return found[len(given) :], usage

    async def _logprobs_of(self, ids: list[int], deadline: Deadline) -> tuple[tuple[float, ...], Usage]:
        """Return the log-probability of each of the given tokens."""
        assert self.able.completions is not None
        self._limits.check_length(len(ids) + self.able.completions.least)
        choice, usage = await self._one_more(ids, deadline, prompt_logprobs=0)
        found = read.prompt_logprobs(choice, ids)
        if found is None:
            raise ResponseError(f"{self._endpoint.url} gave no log-probabilities of the prompt.")
        return tuple(found), usage

    async def unmasked(
        self, prompt: list[int], samples: Sequence[Sampled], deadline: Deadline
    ) -> tuple[list[Sample], Usage]:
        """Replace log-probabilities under a grammar by the model's own: vLLM gives those after masking.

        Costs one request more for each different sample. Unknown where the server does not score given ids.
        """
        different = list(dict.fromkeys(ids for _, ids in samples if ids))
        rows: dict[tuple[int, ...], tuple[float, ...]] = {}
        usage = Usage()
        if prompt and self.able.id_prompts and self.able.prompt_logprobs:
            scored = await asyncio.gather(*(self._logprobs_of([*prompt, *ids], deadline) for ids in different))
            rows = {ids: found[len(prompt) :] for ids, (found, _) in zip(different, scored)}
            usage = sum((u for _, u in scored), Usage())
        return [dataclasses.replace(s, logprobs=rows.get(ids)) for s, ids in samples], usage

    async def _score_echo(
        self, prompt: Prompt, continuation: Prompt, deadline: Deadline
    ) -> tuple[tuple[float, ...], Usage]:
        if any(p.token_ids is not None for p in (*prompt.parts, *continuation.parts)):
            raise CapabilityError("token_prompts", self.able.model)
        before, _ = as_text(plain_layout(prompt).parts, self._control)
        after, _ = as_text(continuation.parts, self._control)
        if not after:
            return (), Usage()
        choice, usage = await self._one_more(before + after, deadline, echo=True, logprobs=1)
        at = read.positions(choice)
        offsets = [p.offset for p in at or () if p.offset is not None]
        if at is None or len(offsets) < len(at):
            raise ResponseError(f"{self._endpoint.url} gave no log-probabilities of the echoed prompt.")
        start, end = len(before), len(before) + len(after)
        inside = [p for p, o, e in zip(at, offsets, [*offsets[1:], math.inf]) if e > start and o < end]
        return tuple(p.logprob for p in inside), usage


def _generated(sample: Sample, ids: tuple[int, ...]) -> tuple[int, ...]:
    """Return the ids up to the sample's last token; empty where they are not known."""
    own = sample.token_ids
    if own and ids[-len(own) :] == own:
        return ids  # thoughts stand before it, if anything
    return own if ids[: len(own)] == own else ()


def _sampling_fields(params: SamplingParams, route: Route) -> dict[str, Any]:
    """Return the sampling fields; those that only some servers know are sent only if asked for or known to work."""
    fields: dict[str, Any] = {route.limit: params.max_tokens}
    if route.temperature:
        fields["temperature"] = params.temperature
    fields |= route.neutral
    if params.top_p < 1 and route.temperature and "top_p" in fields:  # elsewhere it is refused: the log has said so
        fields["top_p"] = params.top_p
    if params.stop and route.stop:
        fields["stop"] = list(params.stop)
    if params.stop_token_ids:
        fields["stop_token_ids"] = list(params.stop_token_ids)
    if params.top_k and "top_k" in fields:  # elsewhere it has no effect, or is refused
        fields["top_k"] = params.top_k
    if params.min_tokens and (params.grammar is None or route.grammar != "gbnf"):
        fields["min_tokens"] = params.min_tokens  # where a grammar allows only the end, llama.cpp would die of it
    if params.grammar is not None and route.grammar is not None:
        fields |= grammar_fields(route.grammar, params.grammar)
    if route.returns_ids:  # vLLM
        fields |= {"return_token_ids": True, "skip_special_tokens": False, "spaces_between_special_tokens": False}
        if params.include_stop and (params.stop or params.stop_token_ids):
            fields["include_stop_str_in_output"] = True
    return fields


_HINTS = {
    "grammar": 'Use llama.cpp, vLLM with --structured-outputs-config \'{"backend":"guidance"}\', or transformers.',
    "verdict_logprobs": "Use vLLM (logprob_token_ids), or a server that returns top_logprobs.",
    "next_verdicts": "Use vLLM; or ask for one more token in a request of its own.",
    "stop_tokens": "Use vLLM (stop_token_ids), or a transformers model.",
    "hidden_states": "Use a transformers model, or allow another estimator.",
    "token_statistics": "Use a transformers model, or allow another estimator.",
    "attention": "Use a transformers model, or allow another estimator.",
    "alternatives": "Use a transformers or vLLM model, or a server that returns top_logprobs.",
}
