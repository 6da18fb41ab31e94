"""What an OpenAI-compatible server really does, found out by trying it.

Servers accept fields that they do not know and ignore them, so that asking is not enough: each probe is a request
whose answer shows whether the field had an effect. Nothing is taken from a server's name or version.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shared_core.errors import LanguageModelError, ModelLoadError, ResponseError
from shared_core.lm._server import read
from shared_core.lm._server.http import Deadline, Endpoint, Failure
from shared_core.lm.base import Capabilities, Grammar

Api = Literal["auto", "chat", "completions"]
Dialect = Literal["structured_outputs", "llguidance"]
CHAT, COMPLETIONS = "/chat/completions", "/completions"

_UNLIKELY = "zq7-xylograph"
# In the words of the grammars that quotes are made of (substrings, intersections): servers whose grammars know no more
# than plain rules are not taken for able.
_UNLIKELY_GRAMMAR = Grammar(
    'start: WORD\nWORD: PART & /zq.*h/\nPART: %regex {"substring_chunks": ["zq7-", "xylograph"]}', name="probe"
)
_IDS = (5, 6, 7)


@dataclass(frozen=True, slots=True)
class Route:
    """One of the two ways to ask for text, and what it can do.

    Attributes:
        path: of the endpoint.
        limit: how it calls the limit on new tokens.
        n: it gives as many choices as asked for.
        logprobs: it gives log-probabilities of the generated tokens.
        top_logprobs: how many likely tokens it names at each position.
        given_ids: it gives log-probabilities of the tokens asked for (vLLM's ``logprob_token_ids``).
        returns_ids: it gives the ids of the generated tokens (vLLM's ``return_token_ids``).
        grammar: how it takes a grammar; ``None`` if it takes none or ignores it.
        continues: it continues an assistant's message (vLLM's ``continue_final_message``).
    """

    path: str
    limit: str = "max_tokens"
    n: bool = False
    logprobs: bool = False
    top_logprobs: int = 0
    given_ids: bool = False
    returns_ids: bool = False
    grammar: Dialect | None = None
    continues: bool = False

    @property
    def is_chat(self) -> bool:
        """Whether it takes messages."""
        return self.path == CHAT

    @property
    def verdicts(self) -> bool:
        """Whether verdicts can be read, be it only those among the likely tokens."""
        return self.given_ids or self.top_logprobs > 1


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a server does.

    Attributes:
        model: the model's name there.
        context_length: in tokens, if the server says.
        chat, completions: the two routes, ``None`` where it does not work.
        id_prompts: completions take prompts as token ids.
        tokenizes: it has vLLM's ``/tokenize``.
        prompt_logprobs: log-probabilities of prompts given as ids.
        echo: log-probabilities of prompts by echoing them.
        control_strings: the tokenizer's added tokens, if the server tells (vLLM's ``/tokenizer_info``).
    """

    model: str
    context_length: int | None = None
    chat: Route | None = None
    completions: Route | None = None
    id_prompts: bool = False
    tokenizes: bool = False
    prompt_logprobs: bool = False
    echo: bool = False
    control_strings: tuple[str, ...] = ()

    def capabilities(self, *, own_tokenizer: bool) -> Capabilities:
        """In the protocol's words: what every prompt can count on."""
        ids = self.id_prompts and (self.tokenizes or own_tokenizer)
        route = self.completions if own_tokenizer and self.id_prompts else self.chat or self.completions
        assert route is not None
        return Capabilities(
            token_logprobs=route.logprobs,
            verdict_logprobs=route.verdicts,
            grammar=route.grammar is not None,
            token_prompts=ids,
            score=(ids and self.prompt_logprobs) or self.echo,
            context_length=self.context_length,
        )


def request(route: Route, model: str, prompt: str, tokens: int, **more: Any) -> dict[str, Any]:
    """The body of a greedy request."""
    asked = {"messages": [{"role": "user", "content": prompt}]} if route.is_chat else {"prompt": prompt}
    return {"model": model, **asked, route.limit: tokens, "temperature": 0, **more}


def grammar_fields(dialect: Dialect, grammar: Grammar) -> dict[str, Any]:
    """The fields that carry a grammar: vLLM's, or llama.cpp's where it was built with llguidance."""
    if dialect == "structured_outputs":
        return {"structured_outputs": {"grammar": grammar.lark}}
    return {"grammar": "%llguidance {}\n" + grammar.lark}


async def probe(endpoint: Endpoint, model: str | None, api: Api, deadline: Deadline) -> Abilities:
    """Try everything once.

    Raises:
        Failure: the server cannot be reached, refuses us, or can neither chat nor complete.
        ModelLoadError: no model was named and the server does not have exactly one.
    """
    model, context_length = await _model(endpoint, model, deadline)
    prober = _Prober(endpoint, model, deadline)
    paths = [p for p, a in ((CHAT, "chat"), (COMPLETIONS, "completions")) if api in ("auto", a)]
    tried = [await prober.route(p) for p in paths]
    routes = {r.path: r for r in tried if isinstance(r, Route)}
    if not routes:
        raise next(r for r in tried if isinstance(r, Failure))
    completions = routes.get(COMPLETIONS)
    found = Abilities(model, context_length, routes.get(CHAT), completions)
    if completions is None:
        return found
    names = ("id_prompts", "tokenizes", "prompt_logprobs", "echo")
    works: dict[str, Any] = {name: await prober.shows(getattr(prober, name)(completions)) for name in names}
    found = dataclasses.replace(found, **works)
    return dataclasses.replace(found, control_strings=await prober.control_strings() if found.tokenizes else ())


async def _model(endpoint: Endpoint, model: str | None, deadline: Deadline) -> tuple[str, int | None]:
    try:
        listed = (await endpoint.get("/models", deadline)).get("data")
    except Failure as failure:
        if model is None or not failure.refused:
            raise
        listed = None
    entries = [m for m in listed if isinstance(m, Mapping) and isinstance(m.get("id"), str)] if listed else []
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
    return model, length if isinstance(length, int) and length > 0 else None


class _Prober:
    def __init__(self, endpoint: Endpoint, model: str, deadline: Deadline) -> None:
        self._endpoint, self._model, self._deadline = endpoint, model, deadline

    async def route(self, path: str) -> Route | Failure:
        """The route with all it can do, or why it does not work."""
        route = Route(path)
        try:
            try:
                await self._ask(route)
            except Failure as failure:
                # OpenAI's newer models know the limit under another name only.
                if not (failure.refused and "max_completion_tokens" in str(failure.error)):
                    raise
                route = dataclasses.replace(route, limit="max_completion_tokens")
                await self._ask(route)
        except Failure as failure:
            if failure.busy:
                raise
            return failure
        except LanguageModelError as error:
            return Failure(error)
        names = ("n", "logprobs", "given_ids", "returns_ids")
        # One after another: vLLM 0.32 answers top_logprobs and given ids short where both are in one batch.
        found: dict[str, Any] = {name: await self.shows(getattr(self, f"_{name}")(route)) for name in names}
        found["top_logprobs"] = await self._top_logprobs(route)
        found["grammar"] = await self._grammar(route)
        found["continues"] = await self.shows(self._continues(route))
        return dataclasses.replace(route, **found)

    async def shows(self, attempt: Awaitable[bool]) -> bool:
        """Whether the attempt shows the ability; a refusal or an unusable answer shows that it is not there.

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

    # --- of both routes ----------------------------------------------------------------------------------------

    async def _n(self, route: Route) -> bool:
        return len(await self._ask(route, n=2, temperature=1.0)) == 2

    async def _logprobs(self, route: Route) -> bool:
        at = read.positions((await self._ask(route, **logprob_fields(route, 1)))[0])
        return bool(at) and at[0].logprob == at[0].logprob  # type: ignore[index]

    async def _top_logprobs(self, route: Route) -> int:
        for top in (20, 5):
            if await self.shows(self._names_rivals(route, top)):
                return top
        return 0

    async def _names_rivals(self, route: Route, top: int) -> bool:
        at = read.positions((await self._ask(route, **logprob_fields(route, top)))[0])
        return bool(at) and len(at[0].top) >= min(top, 5)  # type: ignore[index]

    async def _given_ids(self, route: Route) -> bool:
        fields = {**logprob_fields(route, 1), **given_id_fields(_IDS)}
        at = read.positions((await self._ask(route, **fields))[0])
        return bool(at) and {f"{read.ID_PREFIX}{i}" for i in _IDS} <= set(at[0].top)  # type: ignore[index]

    async def _returns_ids(self, route: Route) -> bool:
        ids = (await self._ask(route, return_token_ids=True))[0].get("token_ids")
        return isinstance(ids, list) and len(ids) > 0

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
        """vLLM refuses to both continue a message and open one; who ignores the fields answers."""
        if not route.is_chat:
            return False
        said = [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "One, two,"}]
        both = {"continue_final_message": True, "add_generation_prompt": True}
        body = {"model": self._model, "messages": said, route.limit: 1, "temperature": 0}
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
        """A prompt of three ids counts as three tokens."""
        body = {"model": self._model, "prompt": list(_IDS), route.limit: 1, "temperature": 0}
        answer = await self._endpoint.post(route.path, body, self._deadline)
        return bool(read.choices(answer, self._endpoint.url)) and read.usage(answer).prompt_tokens == len(_IDS)

    async def prompt_logprobs(self, route: Route) -> bool:
        """Every prompt token but the first has a log-probability."""
        body = {"model": self._model, "prompt": list(_IDS), route.limit: 1, "temperature": 0, "prompt_logprobs": 0}
        answer = await self._endpoint.post(route.path, body, self._deadline)
        values = read.prompt_logprobs(read.choices(answer, self._endpoint.url)[0], _IDS)
        return values is not None and all(v == v for v in values[1:])

    async def echo(self, route: Route) -> bool:
        """An echoed prompt comes with log-probabilities and places in the text."""
        (choice, *_) = await self._ask(route, "Hello, hello", echo=True, logprobs=1)
        at = read.positions(choice)
        if at is None or len(at) < 3 or not read.text(choice, self._endpoint.url).startswith("Hello, hello"):
            return False
        return all(p.offset is not None for p in at) and all(p.logprob == p.logprob for p in at[1:])

    async def tokenizes(self, route: Route) -> bool:
        """``/tokenize`` gives ids."""
        body = {"model": self._model, "prompt": "Hello", "add_special_tokens": False}
        ids = (await self._endpoint.post(f"{self._endpoint.root}/tokenize", body, self._deadline)).get("tokens")
        return isinstance(ids, list) and len(ids) > 0 and all(isinstance(i, int) for i in ids)

    async def control_strings(self) -> tuple[str, ...]:
        """The tokenizer's added tokens; none if the server does not tell."""

        async def told() -> tuple[str, ...]:
            answer = await self._endpoint.get(f"{self._endpoint.root}/tokenizer_info", self._deadline)
            added = answer.get("added_tokens_decoder")
            values = added.values() if isinstance(added, Mapping) else ()
            return tuple(str(v.get("content") if isinstance(v, Mapping) else v) for v in values)

        return await _or_nothing(told)


async def _or_nothing(attempt: Callable[[], Awaitable[tuple[str, ...]]]) -> tuple[str, ...]:
    try:
        return await attempt()
    except Failure as failure:
        if failure.refused or isinstance(failure.error, ResponseError):
            return ()
        raise


def logprob_fields(route: Route, top: int) -> dict[str, Any]:
    """The fields that ask for log-probabilities, with ``top`` likely tokens at each position."""
    return {"logprobs": True, "top_logprobs": top} if route.is_chat else {"logprobs": top}


def given_id_fields(ids: Any) -> dict[str, Any]:
    """The fields that ask for the log-probabilities of given tokens, named by id."""
    return {"logprob_token_ids": list(ids), "return_tokens_as_token_ids": True}
