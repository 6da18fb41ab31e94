"""Abilities of an OpenAI-compatible server, the request fields that use them, and their copies in the user's cache.

A copy spares another process the probing. It belongs to an address, a model with its details, and the server's version;
a server that tells none is asked each time. Only servers that give log-probabilities and take grammars are kept: what
another lacks may be a matter of the flags it was started with, which no version shows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from shared_core.lm._server.attempts import Deadline, Failure
from shared_core.lm._server.gbnf import to_gbnf
from shared_core.lm._server.http import Endpoint
from shared_core.lm.base import Capabilities, Grammar
from shared_core.support.files import replace_file

Dialect = Literal["structured_outputs", "gbnf"]
CHAT, COMPLETIONS = "/chat/completions", "/completions"
NEUTRAL: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "top_p": (1.0,),
        "top_k": (-1, 0),
        "min_p": (0.0,),
        "repetition_penalty": (1.0,),
        "repeat_penalty": (1.0,),
        "presence_penalty": (0.0,),
        "frequency_penalty": (0.0,),
    }
)
"""Sampling as the model gives it, in the spellings of servers. A server fills in what is not sent: vLLM from the
model's ``generation_config.json``, llama.cpp with top_k 40, top_p .95, min_p .05 and repeat_penalty 1.1."""
REFUSABLE = ("temperature", "seed", "stop")
"""Fields that every request may hold, and that some servers refuse: attributes of ``Route``."""
PENALTIES = ("repetition_penalty", "repeat_penalty")
DEAR = 0.03
"""Seconds for one token's log-probability from which on its price is said."""


@dataclass(frozen=True, slots=True)
class Route:
    """One of the two ways to request text (chat, completions) and its abilities.

    Attributes:
        limit: how it calls the limit on new tokens.
        temperature: it takes one; where not, it draws as it pleases.
        seed: it takes one; where not, nothing that it draws can be repeated.
        stop: it takes stop strings; where not, texts are only cut here, after they were paid for.
        least: the lowest limit on new tokens that probes may set.
        neutral: the fields of ``NEUTRAL`` that it takes and the value that switches each off, sent with every request.
        n: it gives as many choices as asked for.
        logprobs: it gives log-probabilities of the generated tokens.
        logprob_seconds: what they take, measured, for one token.
        top_logprobs: how many likely tokens it names at each position.
        given_ids: it gives log-probabilities of the tokens asked for (vLLM's ``logprob_token_ids``).
        returns_ids: it gives the ids of the generated tokens (vLLM's ``return_token_ids``).
        prompt_ids: and those of the prompt.
        stop_tokens: it ends a text at given token ids (vLLM's ``stop_token_ids``).
        grammar: how it takes a grammar; ``None`` if it takes none or ignores it.
        continues: it continues an assistant's message (vLLM's ``continue_final_message``).
    """

    path: str
    limit: str = "max_tokens"
    temperature: bool = True
    seed: bool = True
    stop: bool = True
    least: int = 1
    neutral: tuple[tuple[str, float], ...] = ()
    n: bool = False
    logprobs: bool = False
    logprob_seconds: float = 0.0
    top_logprobs: int = 0
    given_ids: bool = False
    returns_ids: bool = False
    prompt_ids: bool = False
    stop_tokens: bool = False
    grammar: Dialect | None = None
    continues: bool = False

    @property
    def is_chat(self) -> bool:
        """Whether it takes messages."""
        return self.path == CHAT

    @property
    def verdicts(self) -> bool:
        """Whether verdicts can be read, even if only those among the likely tokens."""
        return self.given_ids or self.top_logprobs > 1

    @property
    def alternatives(self) -> bool:
        """Whether it returns other likely tokens besides the generated one."""
        return self.logprobs and self.top_logprobs > 1

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sampling fields that cannot be switched off: the server refuses them, or draws as before."""
        taken = dict(self.neutral)
        names = ["temperature"] * (not self.temperature) + [n for n in NEUTRAL if n not in taken]
        if any(n in taken for n in PENALTIES):
            names = [n for n in names if n not in PENALTIES]
        return tuple(n for n in names if n != "repeat_penalty")  # llama.cpp's name for the one before


@dataclass(frozen=True, slots=True)
class Abilities:
    """All detected abilities of a server.

    Attributes:
        context_length: in tokens, if the server says.
        chat, completions: the two routes, ``None`` where it does not work.
        id_prompts: completions take prompts as token ids.
        tokenizes: it has vLLM's ``/tokenize``.
        prompt_logprobs: log-probabilities of prompts given as ids.
        echo: log-probabilities of prompts by echoing them.
        details: of the model, which change only if the model does (file, size, base model).
        control_strings: the tokenizer's added tokens, if the server tells (vLLM's ``/tokenizer_info``).
        streams: it sends a text in pieces as it is written.
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
    details: tuple[tuple[str, str], ...] = ()
    streams: bool = False

    def follows_up(self, route: Route) -> bool:
        """Return whether a sample of that route can be continued in a prompt, to get the next verdicts."""
        ids = self.completions is not None and self.id_prompts and self.completions.given_ids
        return ids and route.returns_ids and (route.prompt_ids or not route.is_chat)

    def capabilities(self, *, own_tokenizer: bool) -> Capabilities:
        """Capabilities that hold for every prompt."""
        ids = self.id_prompts and (self.tokenizes or own_tokenizer)
        route = self.completions if own_tokenizer and self.id_prompts else self.chat or self.completions
        assert route is not None
        return Capabilities(
            token_logprobs=route.logprobs,
            verdict_logprobs=route.verdicts,
            next_verdicts=ids and self.follows_up(route),
            stop_tokens=route.stop_tokens,
            alternatives=route.alternatives,
            grammar=route.grammar is not None,
            token_prompts=ids,
            score=(ids and self.prompt_logprobs) or self.echo,
            context_length=self.context_length,
        )


def request(route: Route, model: str, prompt: str | Sequence[int], tokens: int, **more: Any) -> dict[str, Any]:
    """Return the body of a greedy request of few tokens, without the fields that the route does not take."""
    body: dict[str, Any] = {"model": model, route.limit: max(tokens, route.least), "temperature": 0}
    if route.is_chat:
        body["messages"] = [{"role": "user", "content": prompt}]
    else:
        body["prompt"] = prompt if isinstance(prompt, str) else list(prompt)
    body |= more
    return {k: v for k, v in body.items() if k not in REFUSABLE or getattr(route, k)}


def grammar_fields(dialect: Dialect, grammar: Grammar) -> dict[str, Any]:
    """Return the fields that carry a grammar: vLLM's, or llama.cpp's; GrammarError if it cannot be said there."""
    if dialect == "structured_outputs":
        return {"structured_outputs": {"grammar": grammar.lark}}
    return {"grammar": to_gbnf(grammar)}


def logprob_fields(route: Route, top: int) -> dict[str, Any]:
    """Return the fields that request log-probabilities, with ``top`` likely tokens at each position."""
    return {"logprobs": True, "top_logprobs": top} if route.is_chat else {"logprobs": top}


def given_id_fields(ids: Any) -> dict[str, Any]:
    """Return the fields that request the log-probabilities of given tokens, named by id."""
    return {"logprob_token_ids": list(ids), "return_tokens_as_token_ids": True}


_FORMAT = 3  # raise it when probes or abilities change: older entries are then passed over
_AGE = 24 * 3600.0  # seconds


async def version_of(endpoint: Endpoint, deadline: Deadline) -> str:
    """Return what the server tells of its version; empty if it tells nothing."""
    for path, keys in (("/version", ("version",)), ("/api/version", ("version",)), ("/openapi.json", ("info",))):
        try:
            answer = await endpoint.get(endpoint.root + path, deadline)
        except Failure:
            continue
        if any(answer.get(k) for k in keys):
            return json.dumps([answer.get(k) for k in keys], sort_keys=True)
    return ""


def place_of(endpoint: Endpoint, version: str, api: str, entry: Mapping[str, Any], model: str) -> Path | None:
    """Return the file of a server's abilities; ``None`` if nothing is kept of it."""
    if not version:
        return None
    try:
        import platformdirs
    except ImportError:
        return None
    known = {k: v for k, v in entry.items() if k not in ("created", "permission", "permissions")}
    key = json.dumps([_FORMAT, endpoint.url, version, api, known, model], sort_keys=True, default=str)
    folder = platformdirs.user_cache_path("selfreflect", appauthor=False) / "servers"
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def read_kept(place: Path | None) -> Abilities | None:
    """Return the abilities kept there; ``None`` if there are none, or they are a day old or cannot be read."""
    if place is None:
        return None
    try:
        if time.time() - place.stat().st_mtime > _AGE:
            return None
        found = json.loads(place.read_text(encoding="utf-8"))
        found |= {name: _route(found[name]) for name in ("chat", "completions")}
        found |= {"details": tuple(map(tuple, found["details"])), "control_strings": tuple(found["control_strings"])}
        return Abilities(**found)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _route(values: Mapping[str, Any] | None) -> Route | None:
    if values is None:
        return None
    return Route(**{**values, "neutral": tuple((str(n), float(v)) for n, v in values["neutral"])})


def keep(place: Path | None, able: Abilities) -> None:
    """Keep abilities, unless other flags of the server might give more; a folder that cannot be written is no error."""
    routes = [r for r in (able.chat, able.completions) if r is not None]
    if place is None or not all(r.grammar is not None and r.logprobs for r in routes):
        return
    with contextlib.suppress(OSError), replace_file(place) as file:
        json.dump(dataclasses.asdict(able), file)


def forget(place: Path | None) -> None:
    """Remove abilities that turned out to be wrong."""
    if place is not None:
        with contextlib.suppress(OSError):
            place.unlink(missing_ok=True)
