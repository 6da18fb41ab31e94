"""Detect an OpenAI-compatible server's abilities by trying them.

Servers accept fields that they do not know and ignore them, so that asking is not enough: each probe is a request
whose answer shows whether the field had an effect. Nothing is taken from a server's name or version.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from shared_core.errors import LanguageModelError, ModelLoadError, ResponseError
from shared_core.lm._server import read
from shared_core.lm._server.abilities import (
    CHAT,
    COMPLETIONS,
    NEUTRAL,
    Abilities,
    Dialect,
    Route,
    given_id_fields,
    grammar_fields,
    logprob_fields,
    request,
)
from shared_core.lm._server.http import Deadline, Endpoint, Failure
from shared_core.lm._server.tokens import id_list, prompt_ids
from shared_core.lm.base import Grammar

Api = Literal["auto", "chat", "completions"]

_UNLIKELY = "zq7-xylograph"
# In the words of the grammars that quotes are made of (substrings, intersections): servers whose grammars know no more
# than plain rules are not taken for able.
_UNLIKELY_GRAMMAR = Grammar(
    'start: WORD\nWORD: PART & /zq.*h/\nPART: %regex {"substring_chunks": ["zq7-", "xylograph"]}', name="probe"
)
_IDS = (5, 6, 7)


async def probe(endpoint: Endpoint, model: str | None, api: Api, deadline: Deadline) -> Abilities:
    """Try every ability once.

    Raises:
        Failure: the server cannot be reached, refuses us, or can neither chat nor complete.
        ModelLoadError: no model was named and the server does not have exactly one.
    """
    model, context_length, details = await _model(endpoint, model, deadline)
    prober = _Prober(endpoint, model, deadline)
    paths = [p for p, a in ((CHAT, "chat"), (COMPLETIONS, "completions")) if api in ("auto", a)]
    tried = [await prober.route(p) for p in paths]
    routes = {r.path: r for r in tried if isinstance(r, Route)}
    if not routes:
        raise next(r for r in tried if isinstance(r, Failure))
    completions = routes.get(COMPLETIONS)
    found = Abilities(model, context_length, routes.get(CHAT), completions, details=details)
    if completions is None:
        return found
    names = ("id_prompts", "tokenizes", "prompt_logprobs", "echo")
    works: dict[str, Any] = {name: await prober.shows(getattr(prober, name)(completions)) for name in names}
    found = dataclasses.replace(found, **works)
    return dataclasses.replace(found, control_strings=await prober.control_strings() if found.tokenizes else ())


async def _model(
    endpoint: Endpoint, model: str | None, deadline: Deadline
) -> tuple[str, int | None, tuple[tuple[str, str], ...]]:
    try:
        listed = (await endpoint.get("/models", deadline)).get("data")
    except Failure as failure:
        if model is None or not failure.refused:
            raise
        listed = None
    listed = listed if isinstance(listed, list) else []
    entries = [m for m in listed if isinstance(m, Mapping) and isinstance(m.get("id"), str)]
    names = [str(m["id"]) for m in entries]
    if model is None:
        if len(names) != 1:
            shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
            raise ModelLoadError(
                f"{endpoint.url} offers {len(names)} models{': ' + shown if names else ''}.",
                hint="Name one: OpenAICompatibleLM(base_url, model=…), or --model on the command line.",
            )
        model = names[0]
    entry = next((m for m in entries if m["id"] == model), {})
    meta = entry.get("meta")
    length = entry.get("max_model_len") or (meta.get("n_ctx") if isinstance(meta, Mapping) else None)
    return model, length if type(length) is int and length > 0 else None, _details(entry, model)


def _details(entry: Mapping[str, Any], model: str) -> tuple[tuple[str, str], ...]:
    """Collect the server's details about a model that distinguish it from others of its name: path, base, size.

    ``created`` does not: with vLLM it is the time of the question.
    """
    meta = entry.get("meta")
    entries = {**{k: entry.get(k) for k in ("root", "parent")}, **(meta if isinstance(meta, Mapping) else {})}
    names = ("root", "parent", "n_params", "size", "n_vocab", "n_embd")
    return tuple((n, str(entries[n])) for n in names if entries.get(n) not in (None, "", model))


class _Prober:
    def __init__(self, endpoint: Endpoint, model: str, deadline: Deadline) -> None:
        self._endpoint, self._model, self._deadline = endpoint, model, deadline

    async def route(self, path: str) -> Route | Failure:
        """Detect the abilities of a route, or why it does not work."""
        try:
            route = await self._basic(path)
        except Failure as failure:
            if failure.busy:
                raise
            return failure
        except LanguageModelError as error:
            return Failure(error)
        route = dataclasses.replace(route, neutral=await self._neutral(route))
        names = ("n", "logprobs", "given_ids")
        # One after another: vLLM 0.32 answers top_logprobs and given ids short where both are in one batch.
        found: dict[str, Any] = {name: await self.shows(getattr(self, f"_{name}")(route)) for name in names}
        found |= await self._returned_ids(route)
        found["top_logprobs"] = await self._top_logprobs(route)
        found["grammar"] = await self._grammar(route)
        found["continues"] = await self.shows(self._continues(route))
        return dataclasses.replace(route, **found)

    async def _basic(self, path: str) -> Route:
        """Return the route with the fields every request needs, in this server's spelling; Failure if none work."""
        route = Route(path)
        while True:
            try:
                await self._ask(route)
                return route
            except Failure as failure:
                said = str(failure.error)
                # OpenAI's newer models know the limit under another name only, and take no temperature.
                if failure.refused and "max_completion_tokens" in said and route.limit == "max_tokens":
                    route = dataclasses.replace(route, limit="max_completion_tokens")
                elif failure.refused and "temperature" in said and route.temperature:
                    route = dataclasses.replace(route, temperature=False)
                else:
                    raise

    async def _neutral(self, route: Route) -> tuple[str, ...]:
        """Find the fields that the server takes to switch off its own sampling defaults."""

        async def takes(fields: Mapping[str, float]) -> bool:
            body = request(route, self._model, "Hello", 1, **fields)
            return bool(read.choices(await self._endpoint.post(route.path, body, self._deadline), self._endpoint.url))

        if await self.shows(takes(NEUTRAL)):
            return tuple(NEUTRAL)
        return tuple([name for name, value in NEUTRAL.items() if await self.shows(takes({name: value}))])

    async def shows(self, attempt: Awaitable[bool]) -> bool:
        """Return whether the attempt shows the ability; a refusal or an unusable answer shows its absence.

        Failure if the server could not be asked: that is not to be taken (and kept) for an inability.
        """
        try:
            return await attempt
        except Failure as failure:
            if failure.refused or isinstance(failure.error, ResponseError):
                return False
            raise
        except LanguageModelError:
            return False

    async def _ask(self, route: Route, prompt: str = "Hello", tokens: int = 1, **more: Any) -> list[Mapping[str, Any]]:
        body = request(route, self._model, prompt, tokens, **more)
        answer = await self._endpoint.post(route.path, body, self._deadline)
        return read.choices(answer, self._endpoint.url)

    async def _first(self, route: Route, fields: Mapping[str, Any]) -> read.Position | None:
        """Return the log-probability record of the first generated token; ``None`` if there is none."""
        at = read.positions((await self._ask(route, **fields))[0])
        return at[0] if at else None

    # --- of both routes ----------------------------------------------------------------------------------------

    async def _n(self, route: Route) -> bool:
        return len(await self._ask(route, n=2, temperature=1.0)) == 2

    async def _logprobs(self, route: Route) -> bool:
        first = await self._first(route, logprob_fields(route, 1))
        return first is not None and not math.isnan(first.logprob)

    async def _top_logprobs(self, route: Route) -> int:
        for top in (20, 5):
            if await self.shows(self._names_rivals(route, top)):
                return top
        return 0

    async def _names_rivals(self, route: Route, top: int) -> bool:
        first = await self._first(route, logprob_fields(route, top))
        return first is not None and len(first.top) >= min(top, 5)

    async def _given_ids(self, route: Route) -> bool:
        first = await self._first(route, {**logprob_fields(route, 1), **given_id_fields(_IDS)})
        return first is not None and {f"{read.ID_PREFIX}{i}" for i in _IDS} <= set(first.top)

    async def _returned_ids(self, route: Route) -> dict[str, bool]:
        """Detect whether ids are returned, and whether the first of them as a stop token ends the text."""
        ids: list[int] = []
        prompt: object = None

        async def returns() -> bool:
            nonlocal ids, prompt
            body = request(route, self._model, "Hello", 3, return_token_ids=True, ignore_eos=True)
            answer = await self._endpoint.post(route.path, body, self._deadline)
            choice = read.choices(answer, self._endpoint.url)[0]
            ids, prompt = id_list(choice.get("token_ids")), prompt_ids(answer)
            return bool(ids)

        async def ends() -> bool:
            (choice, *_) = await self._ask(route, "Hello", 3, stop_token_ids=ids[:1], ignore_eos=True)
            return choice.get("finish_reason") == "stop" and choice.get("stop_reason") == ids[0]

        found = await self.shows(returns())
        return {
            "returns_ids": found,
            "prompt_ids": bool(prompt),
            "stop_tokens": found and await self.shows(ends()),
        }

    async def _grammar(self, route: Route) -> Dialect | None:
        dialects: tuple[Dialect, ...] = ("structured_outputs", "llguidance")
        for dialect in dialects:
            if await self.shows(self._obeys(route, grammar_fields(dialect, _UNLIKELY_GRAMMAR))):
                return dialect
        return None

    async def _obeys(self, route: Route, fields: Mapping[str, Any]) -> bool:
        (choice, *_) = await self._ask(route, "Write a word.", 2 * len(_UNLIKELY), **fields)
        return read.text(choice, self._endpoint.url) == _UNLIKELY

    async def _continues(self, route: Route) -> bool:
        """Detect message continuation: vLLM refuses to both continue and open one, others just answer."""
        if not route.is_chat:
            return False
        messages = [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "One, two,"}]
        both = {"continue_final_message": True, "add_generation_prompt": True}
        body = request(route, self._model, "", 1, messages=messages)
        try:
            await self._endpoint.post(route.path, {**body, **both}, self._deadline)
        except Failure as failure:
            if not failure.refused:
                raise
        else:
            return False
        await self._endpoint.post(route.path, {**body, **both, "add_generation_prompt": False}, self._deadline)
        return True

    # --- of completions ----------------------------------------------------------------------------------------

    async def id_prompts(self, route: Route) -> bool:
        """Return whether a prompt of three ids counts as three tokens."""
        body = request(route, self._model, _IDS, 1)
        answer = await self._endpoint.post(route.path, body, self._deadline)
        return bool(read.choices(answer, self._endpoint.url)) and read.usage(answer).prompt_tokens == len(_IDS)

    async def prompt_logprobs(self, route: Route) -> bool:
        """Return whether every prompt token but the first has a log-probability."""
        body = request(route, self._model, _IDS, 1, prompt_logprobs=0)
        answer = await self._endpoint.post(route.path, body, self._deadline)
        values = read.prompt_logprobs(read.choices(answer, self._endpoint.url)[0], _IDS)
        return values is not None and all(v == v for v in values[1:])

    async def echo(self, route: Route) -> bool:
        """Return whether an echoed prompt comes with log-probabilities and text offsets."""
        (choice, *_) = await self._ask(route, "Hello, hello", echo=True, logprobs=1)
        at = read.positions(choice)
        if at is None or len(at) < 3 or not read.text(choice, self._endpoint.url).startswith("Hello, hello"):
            return False
        return all(p.offset is not None for p in at) and all(p.logprob == p.logprob for p in at[1:])

    async def tokenizes(self, route: Route) -> bool:
        """Return whether ``/tokenize`` gives ids."""
        body = {"model": self._model, "prompt": "Hello", "add_special_tokens": False}
        answer = await self._endpoint.post(f"{self._endpoint.root}/tokenize", body, self._deadline)
        return bool(id_list(answer.get("tokens")))

    async def control_strings(self) -> tuple[str, ...]:
        """Return the tokenizer's added tokens; none if the server does not list them."""

        async def list_strings() -> tuple[str, ...]:
            answer = await self._endpoint.get(f"{self._endpoint.root}/tokenizer_info", self._deadline)
            added = answer.get("added_tokens_decoder")
            values = added.values() if isinstance(added, Mapping) else ()
            contents = [v.get("content") if isinstance(v, Mapping) else v for v in values]
            return tuple(v for v in contents if isinstance(v, str))

        return await _or_nothing(list_strings)


async def _or_nothing(attempt: Callable[[], Awaitable[tuple[str, ...]]]) -> tuple[str, ...]:
    try:
        return await attempt()
    except Failure as failure:
        if failure.refused or isinstance(failure.error, ResponseError):
            return ()
        raise
