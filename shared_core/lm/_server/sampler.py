"""Draw samples from a server: as many requests as it needs, once more for what only thought."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shared_core.errors import CapabilityError, ContextOverflowError, GrammarError, LanguageModelError, ResponseError
from shared_core.lm._server import read
from shared_core.lm._server.abilities import forget
from shared_core.lm._server.attempts import Deadline, Failure
from shared_core.lm._server.http import Endpoint
from shared_core.lm._server.request import Ask, Planner, Sampled
from shared_core.lm._server.tokens import id_list, prompt_ids
from shared_core.lm.base import Generate, Generation, Prompt, Sample
from shared_core.lm.chat.layout import Outgoing, examples, instructs
from shared_core.lm.chat.read import OnlyThoughts
from shared_core.support.regex import lazy_regex
from shared_core.types import Usage

_ROUNDS = 3  # of asking for samples that a server left out
_TOO_MANY = lazy_regex(r"\bn\b|candidate|choices|samples|sequences|best_of", re.IGNORECASE)  # what a refusal of n names


class Sampler:
    """Drawer of samples from one server.

    Args:
        thinking_tokens: added to the limit once the model was seen to use it up before it began to answer.

    Attributes:
        kept: file with the server's abilities, removed where it refuses what they allow.
    """

    def __init__(self, endpoint: Endpoint, thinking_tokens: int) -> None:
        self._endpoint, self._thinking_tokens = endpoint, thinking_tokens
        self.kept: Path | None = None
        self._thinks = False
        self._most = sys.maxsize  # choices of one request, once the server was seen to refuse more

    async def generate(self, request: Generate, planner: Planner, deadline: Deadline) -> Generation:
        """Draw the samples of a request; LanguageModelError or Failure if they cannot be had."""
        ask = await planner.ask(request, deadline)
        sent = _outgoing(ask, request.prompt)
        room = self._thinking_tokens
        if planner.able.context_length is not None:
            room = min(room, planner.able.context_length // 4)
        if self._thinks:
            ask = _with_room(ask, room)
        samples: list[Sampled] = []
        usage = Usage()
        # vLLM refuses to give the same greedy sample n times; nobody needs to be asked for it.
        params = request.params
        wanted = params.n if params.temperature > 0 or not ask.route.temperature else 1
        prompt: list[int] = ask.body["prompt"] if isinstance(ask.body.get("prompt"), list) else []
        most = wanted
        for _ in range(_ROUNDS):
            step = min(most, self._most) if ask.route.n else 1
            starts = range(len(samples), wanted, step)
            sent_now = (self._send(ask, min(step, wanted - start), start, deadline) for start in starts)
            answers = [a for found in await asyncio.gather(*sent_now) for a in found]
            most = max((len(read.choices(a, self._endpoint.url)) for a in answers), default=1)  # some give no more
            usage = sum(map(read.usage, answers), usage)
            try:
                for answer in answers:
                    samples += self._samples(ask, answer, sent, room)
                    prompt = prompt or prompt_ids(answer)
            except LanguageModelError as error:
                error.usage = usage  # these replies cannot be used, and are paid for
                raise
            ask = _with_room(ask, room) if self._thinks else ask  # for those that only thought
            if len(samples) >= wanted:
                found = [s for s, _ in samples[:wanted]]
                if params.grammar is not None and params.logprobs and ask.route.grammar == "structured_outputs":
                    found, more = await planner.unmasked(prompt, samples[:wanted], deadline)
                    samples[:wanted] = [(s, ids) for s, (_, ids) in zip(found, samples)]
                    usage += more
                if params.next_verdicts:
                    found, more = await planner.next_verdicts(ask, prompt, samples[:wanted], deadline)
                    usage += more
                return Generation(tuple(found) * (params.n // wanted), usage)
        short = ResponseError(f"{self._endpoint.url} gave {len(samples)} samples where {wanted} were asked for.")
        short.usage = usage
        raise short

    async def _send(self, ask: Ask, n: int, seed_offset: int, deadline: Deadline) -> list[dict[str, Any]]:
        """Ask for n choices: in one request, or in several where the server refuses so many."""
        body = _seeded(ask, seed_offset) | ({"n": n} if n > 1 else {})
        try:
            return [await self._endpoint.post(ask.route.path, body, deadline)]
        except Failure as failure:
            error = failure.error
            refused = failure.status in (400, 422) and not isinstance(error, ContextOverflowError)
        if refused and n > 1 and _TOO_MANY.search(error.message):
            half = n // 2
            self._most = min(self._most, n - half)
            first = await self._send(ask, n - half, seed_offset, deadline)
            return first + await self._send(ask, half, seed_offset + n - half, deadline)
        if refused:
            forget(self.kept)  # the server may have been started with other flags
        grammar = ask.params.grammar
        if grammar is not None and "grammar" in error.message.lower():
            raise GrammarError(f"The grammar {grammar.name!r} was refused. {error.message}", hint=error.hint)
        raise error

    def _samples(self, ask: Ask, answer: Mapping[str, Any], sent: Outgoing | None, room: int) -> list[Sampled]:
        """Read the samples of an answer, except those that ended before they began to answer: these are asked again."""
        samples: list[Sampled] = []
        for choice in read.choices(answer, self._endpoint.url):
            try:
                samples.append((self._sample(ask, choice, sent), tuple(id_list(choice.get("token_ids")))))
            except OnlyThoughts as found:
                self._thinks = True
                if _with_room(ask, room) == ask:
                    raise found.error from None
        return samples

    def _sample(self, ask: Ask, choice: Mapping[str, Any], sent: Outgoing | None) -> Sample:
        params, said = ask.params, choice.get("stop_reason")
        sample = read.sample(choice, params, self._endpoint.url, verdicts=ask.verdicts, sent=sent)
        if type(said) is int and said in params.stop_token_ids:
            return dataclasses.replace(sample, finish_reason="stop", stop=None, stop_token_id=said)
        return sample

    async def stream(
        self, request: Generate, planner: Planner, deadline: Deadline, heard: Callable[[str], None]
    ) -> Generation:
        """Draw one sample and tell each piece of its text as it comes; raises as ``generate``."""
        if not planner.able.streams or request.params.n > 1 or request.params.next_verdicts:
            raise CapabilityError("streaming", planner.able.model, hint="Use generate, or ask for one sample.")
        ask = await planner.ask(request, deadline)
        answer = await self._endpoint.stream(ask.route.path, _seeded(ask), deadline, heard)
        choice = read.choices(answer, self._endpoint.url)[0]
        return Generation((self._sample(ask, choice, _outgoing(ask, request.prompt)),), read.usage(answer))


def _seeded(ask: Ask, offset: int = 0) -> dict[str, Any]:
    seed = ask.params.seed if ask.route.seed else None
    return ask.body if seed is None else {**ask.body, "seed": (seed + offset) % (1 << 63)}


def _with_room(ask: Ask, room: int) -> Ask:
    """Return the request with room for the model's thoughts and without stop strings, which may occur in them."""
    if ask.params.grammar is not None:
        return ask
    dropped = ("stop",) if ask.params.stop_token_ids else ("stop", "include_stop_str_in_output")
    body = {k: v for k, v in ask.body.items() if k not in dropped}
    body[ask.route.limit] = ask.params.max_tokens + room
    return dataclasses.replace(ask, body=body)


def _outgoing(ask: Ask, prompt: Prompt) -> Outgoing | None:
    """Return the prompt as it was sent, if it was sent as text."""
    text, messages = ask.body.get("prompt", ""), ask.body.get("messages", ())
    if not isinstance(text, str):
        return None
    said = tuple((m["role"], m["content"]) for m in messages)
    return Outgoing(said, text, ask.restored, examples(prompt), instructs(prompt))
