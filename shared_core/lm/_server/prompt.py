"""From prompts to what a server takes: text, chat messages, or ids made with the server's own tokenizer.

Untrusted text that goes out as text has its control strings neutralised. Where the server tokenizes for us (vLLM's
``/tokenize``) and takes ids, such strings are cut instead and the pieces joined as ids, so that the model reads the
document unchanged and still finds no control token in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from shared_core.errors import InputError, LanguageModelError, ResponseError
from shared_core.lm._server.http import Deadline, Endpoint
from shared_core.lm.base import Part, Prompt, Role
from shared_core.lm.neutralise import COMMON_CONTROL_STRINGS, MARK, neutralise

_WINDOW = 64  # longer than any control string
_CONTINUE = "\n\nContinue the answer below. Write only what follows it; do not repeat any of it.\n\n"
_BRACKETED = re.compile(r"(?=(<[^<>\s]{1,60}>|<\|[^<>|]{1,60}\|>|\[[^\[\]\n]{1,60}\]))")
_MARKS = re.compile(f"{MARK}+")


def control_strings(*more: Iterable[str]) -> tuple[str, ...]:
    """The widespread control strings and further ones, those that cannot be neutralised left out."""
    known = [*COMMON_CONTROL_STRINGS, *(s for group in more for s in group)]
    return tuple(dict.fromkeys(s for s in known if len(s.strip()) > 1 and MARK not in s and len(s) < _WINDOW))


def messages(prompt: Prompt) -> list[tuple[Role, list[Part]]]:
    """Parts by message: adjacent parts of a role make one; a part without a role belongs to the one before it."""
    found: list[tuple[Role, list[Part]]] = []
    for part in prompt.parts:
        role: Role = part.role or (found[-1][0] if found else "user")
        if found and found[-1][0] == role:
            found[-1][1].append(part)
        else:
            found.append((role, [part]))
    return found


def as_text(parts: Sequence[Part], control: Sequence[str]) -> tuple[str, bool]:
    """The text of the parts with untrusted control strings neutralised, and whether any of it had to change.

    Strings that only come about where a trusted and an untrusted part meet are broken up too.
    """
    pieces = _neutralised(parts, control)
    return "".join(w for _, w in pieces), any(t != w for t, w in pieces)


def cut_text(parts: Sequence[Part], control: Sequence[str]) -> list[str]:
    """The text of the parts, unchanged, cut wherever ``as_text`` would insert a mark."""
    found: list[str] = []
    pending = ""
    for original, written in _neutralised(parts, control):
        place = start = last = 0
        for run in _MARKS.finditer(written) if original != written else ():
            place += run.start() - last + len(run[0]) // 2
            last = run.end()
            if len(run[0]) % 2:  # marks of the text itself are doubled, so one of these is ours
                found.append(pending + original[start:place])
                pending, start = "", place
        pending += original[start:]
    return [p for p in (*found, pending) if p]


def _neutralised(parts: Sequence[Part], control: Sequence[str]) -> list[tuple[str, str]]:
    """Stretches of text of equal trust: as they are, and as they may be written."""
    pieces: list[tuple[str, bool]] = []
    for part in parts:
        if part.text and pieces and pieces[-1][1] == part.trusted:
            pieces[-1] = (pieces[-1][0] + part.text, part.trusted)
        elif part.text:
            pieces.append((part.text, part.trusted))
    written = [text if trusted else neutralise(text, control) for text, trusted in pieces]
    for i in range(1, len(pieces)):
        tail, head = pieces[i - 1][0][-_WINDOW:], pieces[i][0][:_WINDOW]
        if neutralise(tail + head, control) == neutralise(tail, control) + neutralise(head, control):
            continue
        if pieces[i][1]:
            written[i - 1] += MARK
        else:
            written[i] = MARK + written[i]
    return [(text, w) for (text, _), w in zip(pieces, written)]


def as_messages(
    prompt: Prompt, control: Sequence[str], *, continues: bool
) -> tuple[list[dict[str, str]], dict[str, Any], bool]:
    """Chat messages, further fields of the request, and whether control strings were neutralised.

    A prompt that ends with the assistant's words is to be continued: by the server where it can (``continues``), else
    by an instruction in the user's message.
    """
    found, changed = [], False
    for role, parts in messages(prompt):
        text, differs = as_text(parts, control)
        found.append({"role": str(role), "content": text})
        changed |= differs
    if found[-1]["role"] != "assistant":
        return found, {}, changed
    if continues:
        return found, {"continue_final_message": True, "add_generation_prompt": False}, changed
    opened = found.pop()["content"]
    if not found or found[-1]["role"] != "user":
        found.append({"role": "user", "content": ""})
    if opened:
        found[-1]["content"] = f"{found[-1]['content']}{_CONTINUE}{opened}".lstrip()
    return found, {}, changed


def plain_layout(prompt: Prompt) -> Prompt:
    """A chat as one text, for servers without a chat endpoint: ``User: …⏎Assistant: …``."""
    if not prompt.is_chat:
        return prompt
    parts: list[Part] = []
    found = messages(prompt)
    for i, (role, content) in enumerate(found):
        bare = [Part(p.text, p.trusted, None, p.token_ids) for p in content]
        if role == "system":
            parts += [*bare, Part("\n\n", trusted=True)]
            continue
        name = "User: " if role == "user" else "Assistant: "
        last = role == "assistant" and i == len(found) - 1
        parts += [Part(name, trusted=True), *bare, Part("" if last else "\n", trusted=True)]
    if found[-1][0] != "assistant":
        parts.append(Part("Assistant:", trusted=True))
    return Prompt(tuple(parts))


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
