"""From prompts to ids made with the server's own tokenizer; what goes out as text is laid out by ``lm.chat``.

Where the server tokenizes for us (vLLM's ``/tokenize``) and takes ids, control strings of untrusted text are cut and
the pieces joined as ids, so that the model reads the document unchanged and still finds no control token in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared_core.errors import InputError, LanguageModelError, ResponseError
from shared_core.lm._server.http import Deadline, Endpoint
from shared_core.lm.base import Part, Prompt
from shared_core.lm.chat.layout import as_messages, as_text, control_strings, cut_text, plain_layout

__all__ = ["ServerTokenizer", "as_messages", "as_text", "control_strings", "cut_text", "plain_layout"]

_BRACKETED = re.compile(r"(?=(<[^<>\s]{1,60}>|<\|[^<>|]{1,60}\|>|\[[^\[\]\n]{1,60}\]))")


class ServerTokenizer:
    """A tokenizer behind vLLM's ``/tokenize``.

    Args:
        endpoint: the server.
        model: its name there.
        control: control strings that untrusted text must not bring in. What is in brackets (``[…]``, ``<…>``) and
            turns out to be one token is treated as one too.
    """

    def __init__(self, endpoint: Endpoint, model: str, control: Sequence[str]) -> None:
        self._endpoint, self._model, self._control = endpoint, model, tuple(control)
        self._single: dict[str, int | None] = {}
        self._prefix: list[int] | None = None

    async def encode(self, prompt: Prompt, deadline: Deadline) -> list[int]:
        """The ids of a prompt, as ``Encoder.encode`` gives them for a raw prompt."""
        ids = await self.continuation(prompt, deadline)
        if prompt.parts and prompt.parts[0].token_ids is not None:
            return ids
        prefix = await self._prefix_ids(deadline)
        ids = ids if ids[: len(prefix)] == prefix else prefix + ids
        if not ids:
            raise InputError("An empty prompt cannot be continued.")
        return ids

    async def continuation(self, prompt: Prompt, deadline: Deadline) -> list[int]:
        """The ids of text that follows other text."""
        ids: list[int] = []
        run: list[Part] = []
        for part in (*prompt.parts, Part(token_ids=())):
            if part.token_ids is None:
                run.append(part)
                continue
            for piece in await self._pieces(run, deadline):
                ids += await self.ids(piece, deadline)
            ids += part.token_ids
            run = []
        return ids

    async def ids(self, text: str, deadline: Deadline, *, special: bool = False) -> list[int]:
        """The server's ids of a text."""
        if not text and not special:
            return []
        body = {"model": self._model, "prompt": text, "add_special_tokens": special}
        answer = await self._endpoint.post(f"{self._endpoint.root}/tokenize", body, deadline)
        found = answer.get("tokens")
        if not isinstance(found, list) or not all(isinstance(i, int) for i in found):
            raise ResponseError(f"{self._endpoint.url} tokenized a text into something that is no list of ids.")
        return [int(i) for i in found]

    async def token_id(self, token: str, deadline: Deadline) -> int:
        """The id of a string that is one token; LanguageModelError otherwise."""
        found = await self._one_token(token, deadline)
        if found is None:
            raise LanguageModelError(
                f"{token!r} is not one token of the server's tokenizer.",
                hint="Give a string that is a single token (mind a leading space), or a token id.",
            )
        return found

    async def _one_token(self, text: str, deadline: Deadline) -> int | None:
        if text not in self._single:
            ids = await self.ids(text, deadline)
            self._single[text] = ids[0] if len(ids) == 1 else None
        return self._single[text]

    async def _prefix_ids(self, deadline: Deadline) -> list[int]:
        if self._prefix is None:
            bare, full = await self.ids("a", deadline), await self.ids("a", deadline, special=True)
            starts = [s for s in range(len(full) - len(bare) + 1) if full[s : s + len(bare)] == bare]
            self._prefix = full[: starts[0]] if starts else []
        return self._prefix

    async def _pieces(self, parts: Sequence[Part], deadline: Deadline) -> list[str]:
        """The text of the parts, cut inside every control string that untrusted text has a share in."""
        untrusted = {m[1] for p in parts if not p.trusted for m in _BRACKETED.finditer(p.text)}
        single = [s for s in sorted(untrusted) if await self._one_token(s, deadline) is not None]
        return cut_text(parts, tuple(dict.fromkeys((*self._control, *single))))
