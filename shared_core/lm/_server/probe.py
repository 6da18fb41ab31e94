"""Detect an OpenAI-compatible server's abilities by trying them.

Servers accept fields that they do not know and ignore them, so that asking is not enough: each probe is a request
whose answer shows whether the field had an effect. Nothing is taken from a server's name or version. No probe may end
a server: a grammar in another dialect than its own would end llama-cpp-python's.
"""

from __future__ import annotations

import dataclasses
import math
import re
import time
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from shared_core.errors import LanguageModelError, ModelLoadError, ResponseError
from shared_core.lm._server import read
from shared_core.lm._server.abilities import (
    CHAT,
    COMPLETIONS,
    NEUTRAL,
    PENALTIES,
    REFUSABLE,
    Abilities,
    Dialect,
    Route,
    given_id_fields,
    grammar_fields,
    keep,
    logprob_fields,
    place_of,
    read_kept,
    request,
    version_of,
)
from shared_core.lm._server.attempts import Deadline, Failure
from shared_core.lm._server.http import Endpoint
from shared_core.lm._server.tokens import id_list, listed_control_strings, prompt_ids
from shared_core.lm.base import Grammar

T = TypeVar("T")
Api = Literal["auto", "chat", "completions"]

_UNLIKELY = "zq7-xylograph"
# In the words of the grammars that quotes are made of (substrings, intersections): servers whose grammars know no more
# than plain rules are not taken for able.
_UNLIKELY_GRAMMAR = Grammar(
    'start: WORD\nWORD: PART & /zq.*h/\nPART: %regex {"substring_chunks": ["zq7-", "xylograph"]}', name="probe"
)
_IDS = (5, 6, 7)
_START = "The sky is"
_REPETITIVE = "one two one two one two one two one two"
_TIMED = 3  # tokens
_ROOMS = (64, 1024)  # tokens, where a server refuses fewer
_CLOSE = 0.4
"""Nats by which a score may differ from the log-probability at writing, by bfloat16 and other batches: .19 for SmolLM2
behind vLLM. A score of the token before or behind is off by more, at one of four tokens at least."""


async def probe(
    endpoint: Endpoint, model: str | None, api: Api, deadline: Deadline, *, fresh: bool = False
) -> tuple[Abilities, Path | None]:
    """Return a server's abilities, and the file that keeps them, if one does.

    They are those kept from an earlier probe unless ``fresh``; else each is tried once.

    Raises:
        Failure: the server cannot be reached, refuses us, or can neither chat nor complete.
        ModelLoadError: no model was named and the server does not have exactly one.
    """
    model, context_length, entry = await _model(endpoint, model, deadline)
    place = place_of(endpoint, await version_of(endpoint, deadline), api, entry, model)
    able = None if fresh else read_kept(place)
    if able is None:
        found = Abilities(model, context_length, details=_details(entry, model))
        able = await _tried(_Prober(endpoint, model, deadline), found, api)
        keep(place, able)
    return able, place


async def _tried(prober: _Prober, found: Abilities, api: Api) -> Abilities:
    paths = [p for p, a in ((CHAT, "chat"), (COMPLETIONS, "completions")) if api in ("auto", a)]
    tried = [await prober.route(p) for p in paths]
    routes = {r.path: r for r in tried if isinstance(r, Route)}
    if not routes:
        raise next(r for r in tried if isinstance(r, Failure))
    completions = routes.get(COMPLETIONS)
    streams = await prober.shows(prober.streams(next(iter(routes.values()))))
    works: dict[str, Any] = {"chat": routes.get(CHAT), "completions": completions, "streams": streams}
    if completions is not None:
        for name in ("id_prompts", "tokenizes", "prompt_logprobs", "echo"):
            works[name] = await prober.shows(getattr(prober, name)(completions))
        if works["tokenizes"]:
            works["control_strings"] = await listed_control_strings(prober.endpoint, prober.deadline)
    return dataclasses.replace(found, **works)


async def _model(
    endpoint: Endpoint, model: str | None, deadline: Deadline
) -> tuple[str, int | None, Mapping[str, Any]]:
    try:
        listed = (await endpoint.get("/models", deadline)).get("data")
    except Failure as failure:
        if model is None or failure.busy:
            raise
        listed = None  # a key may be allowed to ask a model and not what models there are
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
    return model, length if type(length) is int and length > 0 else None, entry


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
        self.endpoint, self._model, self.deadline = endpoint, model, deadline
        self._effects: dict[tuple[tuple[str, float], ...], tuple[tuple[str, float], ...]] = {}

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
        route = dataclasses.replace(route, **await self._logprobs(route))
        # One after another: vLLM 0.32 answers top_logprobs and given ids short where both are in one batch.
        found: dict[str, Any] = {
            name: await self.shows(getattr(self, f"_{name}")(route)) for name in ("n", "given_ids")
        }
        found |= await self._returned_ids(route)
        found["grammar"] = await self._grammar(route)
        found["continues"] = await self.shows(self._continues(route))
        return dataclasses.replace(route, **found)

    async def _basic(self, path: str) -> Route:
        """Return the route with the fields every request needs, in this server's spelling; Failure if none work."""
        route = Route(path)
        while True:
            try:
                await self._ask(route, seed=0, stop=[_UNLIKELY])
                return route
            except Failure as failure:
                other = _without_refused(route, failure)
                if other is None:
                    raise
                route = other

    async def _neutral(self, route: Route) -> tuple[tuple[str, float], ...]:
        """Find the fields, and the values, by which the server switches off its own sampling defaults."""
        first = {name: values[0] for name, values in NEUTRAL.items()}
        taken: dict[str, float] = {}
        if await self.shows(self._takes(route, first)):
            taken = dict(first)
        else:
            for name, values in NEUTRAL.items():
                for value in values:
                    if await self.shows(self._takes(route, {name: value})):
                        taken[name] = value
                        break
        # What the fields do is tried on one route: behind both is one sampler.
        accepted = tuple(taken.items())
        if accepted not in self._effects:
            self._effects[accepted] = tuple((await self._effective(route, taken)).items())
        return self._effects[accepted]

    async def _effective(self, route: Route, taken: dict[str, float]) -> dict[str, float]:
        """Leave out the fields that have no effect."""
        if "top_k" in taken and route.temperature and route.seed:
            value = await self._all_tokens(route, taken)
            taken = {k: v for k, v in taken.items() if k != "top_k"} | ({} if value is None else {"top_k": value})
        spellings = [name for name in PENALTIES if name in taken]
        plain = await self._text(route, _REPETITIVE, **taken)
        strong = [{**taken, name: 9.0} for name in spellings]
        heard = [n for n, f in zip(spellings, strong) if await self.shows(self._differs(route, _REPETITIVE, f, plain))]
        # Of two spellings the other one is ignored then.
        return {k: v for k, v in taken.items() if k not in spellings or k in (heard or spellings)}

    async def _takes(self, route: Route, fields: Mapping[str, float]) -> bool:
        return bool(await self._ask(route, "Hello", 1, **fields))

    async def _all_tokens(self, route: Route, taken: Mapping[str, float]) -> float | None:
        """Find the value of ``top_k`` that limits nothing: by the same seed others draws come than of 40 tokens."""
        hot = {**taken, "temperature": 2.0, "seed": 7}
        limited = await self._text(route, _START, **{**hot, "top_k": 40})
        for value in sorted(NEUTRAL["top_k"], key=lambda v: v != taken["top_k"]):
            if await self.shows(self._differs(route, _START, {**hot, "top_k": value}, limited)):
                return value
        return None

    async def _differs(self, route: Route, prompt: str, fields: Mapping[str, float], text: str) -> bool:
        return await self._text(route, prompt, **fields) != text

    async def _text(self, route: Route, prompt: str, **fields: Any) -> str:
        (choice, *_) = await self._ask(route, prompt, 12, **fields)
        return read.text_or_thoughts(choice)

    async def shows(self, attempt: Awaitable[T]) -> T | Literal[False]:
        """Return what the attempt shows of an ability; a refusal or an unusable answer shows its absence.

        Failure if the server could not be asked: that is not to be taken (and kept) for an inability.
        """
        try:
            return await attempt
        except Failure as failure:
            # The route has answered before, so that a 403 is about what is tried: OpenAI's for log-probabilities.
            if failure.refused or failure.status == 403 or isinstance(failure.error, ResponseError):
                return False
            raise
        except LanguageModelError:
            return False

    async def _ask(
        self, route: Route, prompt: str | Sequence[int] = "Hello", tokens: int = 1, **more: Any
    ) -> list[Mapping[str, Any]]:
        return read.choices(await self._post(route, prompt, tokens, **more), self.endpoint.url)

    async def _post(self, route: Route, prompt: str | Sequence[int], tokens: int, **more: Any) -> dict[str, Any]:
        return await self.endpoint.post(route.path, request(route, self._model, prompt, tokens, **more), self.deadline)

    async def _first(self, route: Route, fields: Mapping[str, Any]) -> read.Position | None:
        """Return the log-probability record of the first generated token; ``None`` if there is none."""
        at = read.positions((await self._ask(route, **fields))[0])
        return at[0] if at else None

    # --- of both routes ----------------------------------------------------------------------------------------

    async def _n(self, route: Route) -> bool:
        return len(await self._ask(route, n=2, temperature=1.0)) == 2

    async def _logprobs(self, route: Route) -> dict[str, Any]:
        """Find how many likely tokens are named, and what a token's log-probabilities cost."""
        for top in (20, 5, 1):
            if await self.shows(self._names_rivals(route, top)):
                plain, full = [await self._seconds(route, f) for f in ({}, logprob_fields(route, 1))]
                cost = max(0.0, full - plain) / max(_TIMED, route.least)
                return {"logprobs": True, "top_logprobs": top if top > 1 else 0, "logprob_seconds": round(cost, 4)}
        return {}

    async def _seconds(self, route: Route, fields: Mapping[str, Any]) -> float:
        begun = time.perf_counter()
        await self._ask(route, "Hello", _TIMED, **fields)
        return time.perf_counter() - begun

    async def _names_rivals(self, route: Route, top: int) -> bool:
        first = await self._first(route, logprob_fields(route, top))
        return first is not None and not math.isnan(first.logprob) and (top == 1 or len(first.top) >= min(top, 5))

    async def _given_ids(self, route: Route) -> bool:
        first = await self._first(route, {**logprob_fields(route, 1), **given_id_fields(_IDS)})
        return first is not None and {f"{read.ID_PREFIX}{i}" for i in _IDS} <= set(first.top)

    async def _returned_ids(self, route: Route) -> dict[str, bool]:
        """Detect whether ids are returned, and whether the first of them as a stop token ends the text."""
        ids, prompt = await self.shows(self._ids(route)) or ([], [])
        ends = bool(ids) and await self.shows(self._ends_at(route, ids[0]))
        return {"returns_ids": bool(ids), "prompt_ids": bool(prompt), "stop_tokens": ends}

    async def _ids(self, route: Route) -> tuple[list[int], list[int]]:
        answer = await self._post(route, "Hello", 3, return_token_ids=True, ignore_eos=True)
        return id_list(read.choices(answer, self.endpoint.url)[0].get("token_ids")), prompt_ids(answer)

    async def _ends_at(self, route: Route, token_id: int) -> bool:
        (choice, *_) = await self._ask(route, "Hello", 3, stop_token_ids=[token_id], ignore_eos=True)
        return choice.get("finish_reason") == "stop" and choice.get("stop_reason") == token_id

    async def _grammar(self, route: Route) -> Dialect | None:
        # vLLM's field first, which llama.cpp does not know. GBNF in its plainest form, which no server dies of.
        if await self.shows(self._obeys(route, grammar_fields("structured_outputs", _UNLIKELY_GRAMMAR))):
            return "structured_outputs"
        plain = Grammar(f'start: "{_UNLIKELY}"', name="probe")
        return "gbnf" if await self.shows(self._obeys(route, grammar_fields("gbnf", plain))) else None

    async def _obeys(self, route: Route, fields: Mapping[str, Any]) -> bool:
        (choice, *_) = await self._ask(route, "Write a word.", len(_UNLIKELY), **fields)
        return read.text(choice, self.endpoint.url) == _UNLIKELY

    async def _continues(self, route: Route) -> bool:
        """Detect message continuation: vLLM refuses to both continue and open one, others just answer."""
        if not route.is_chat:
            return False
        messages = [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "One, two,"}]
        going_on = {"messages": messages, "continue_final_message": True}
        try:
            await self._post(route, "", 1, **going_on, add_generation_prompt=True)
        except Failure as failure:
            if not failure.refused:
                raise
        else:
            return False
        await self._post(route, "", 1, **going_on, add_generation_prompt=False)
        return True

    async def streams(self, route: Route) -> bool:
        """Return whether a text comes in several pieces, which together are the text."""
        body = request(route, self._model, _START, 6)
        pieces: list[str] = []
        answer = await self.endpoint.stream(route.path, body, self.deadline, pieces.append)
        whole = read.text(read.choices(answer, self.endpoint.url)[0], self.endpoint.url)
        (choice, *_) = await self._ask(route, _START, 6)
        return len(pieces) > 1 and whole == read.text(choice, self.endpoint.url)

    # --- of completions ----------------------------------------------------------------------------------------

    async def id_prompts(self, route: Route) -> bool:
        """Return whether a prompt of three ids counts as three tokens."""
        answer = await self._post(route, _IDS, 1)
        return bool(read.choices(answer, self.endpoint.url)) and read.usage(answer).prompt_tokens == len(_IDS)

    async def prompt_logprobs(self, route: Route) -> bool:
        """Return whether prompts given as ids come with log-probabilities, those of the text it wrote with the same."""
        (choice, *_) = await self._ask(route, _IDS, 4, **logprob_fields(route, 1), return_token_ids=True)
        ids, values = id_list(choice.get("token_ids")), [p.logprob for p in read.positions(choice) or ()]
        if not ids:
            return False
        prompt = [*_IDS, *ids]
        (choice, *_) = await self._ask(route, prompt, 1, prompt_logprobs=0)
        scored = read.prompt_logprobs(choice, prompt)
        return scored is not None and _agree(scored[len(_IDS) :], values)

    async def echo(self, route: Route) -> bool:
        """Return whether an echoed text has the log-probabilities that it was written with, and offsets.

        llama-cpp-python (up to 0.3.36) gives each token the value of the position behind it, unless the text begins
        with the model's token for that.
        """
        (choice, *_) = await self._ask(route, _START, 4, **logprob_fields(route, 1))
        written, text = read.positions(choice), read.text(choice, self.endpoint.url)
        (choice, *_) = await self._ask(route, _START + text, echo=True, logprobs=1)
        at = read.positions(choice)
        if at is None or not written or not read.text(choice, self.endpoint.url).startswith(_START + text):
            return False
        echoed = [p.logprob for p in at if p.offset is not None and len(_START) <= p.offset < len(_START + text)]
        return _agree(echoed, [p.logprob for p in written])

    async def tokenizes(self, route: Route) -> bool:
        """Return whether ``/tokenize`` gives ids."""
        body = {"model": self._model, "prompt": "Hello", "add_special_tokens": False}
        answer = await self.endpoint.post(f"{self.endpoint.root}/tokenize", body, self.deadline)
        return bool(id_list(answer.get("tokens")))


def _without_refused(route: Route, failure: Failure) -> Route | None:
    """Return the route without what the server has just refused; ``None`` if it cannot be told what that is."""
    said = str(failure.error)
    if not failure.refused:
        return None
    # OpenAI's newer models know the limit under another name only, and take no temperature.
    if "max_completion_tokens" in said and route.limit == "max_tokens":
        return dataclasses.replace(route, limit="max_completion_tokens")
    named = [name for name in REFUSABLE if getattr(route, name) and re.search(rf"\b{name}\b", said)]
    if named:
        without: dict[str, Any] = {named[0]: False}
        return dataclasses.replace(route, **without)
    # Models that think cannot answer in one token, and some servers want at least 16.
    room = next((r for r in _ROOMS if r > route.least), None)
    if "token" in said.lower() and room is not None:
        return dataclasses.replace(route, least=room)
    if failure.status in (400, 422) and (route.seed or route.stop):
        return dataclasses.replace(route, seed=False, stop=False)
    return None


def _agree(scored: Sequence[float], written: Sequence[float]) -> bool:
    """Return whether the scores of a text are those that it was written with; not if one is NaN."""
    pairs = list(zip(scored, written))  # where the text has ended early, one of them may hold its end
    return bool(pairs) and all(abs(a - b) < _CLOSE for a, b in pairs)
