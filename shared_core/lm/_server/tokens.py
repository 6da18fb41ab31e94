"""Encode prompts with the server's own tokenizer (vLLM's ``/tokenize``) in a bounded number of calls.

Untrusted text is cut inside every control string and the pieces are tokenized apart. To ask for many pieces at once
they are put into one text with a control token of the model between them: such tokens are split off before anything
else, so that the ids between two of them are the ids of the piece. So a prompt costs one call, and one more where its
untrusted text holds bracketed words that were not seen before, however many there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared_core.errors import InputError, ResponseError
from shared_core.lm._server.attempts import Deadline, Failure
from shared_core.lm._server.http import Endpoint
from shared_core.lm.base import Part, Prompt
from shared_core.lm.chat.layout import MARK, as_text, cut_text
from shared_core.lm.encoding import leading_ids
from shared_core.support.regex import lazy_regex

_BRACKETED = lazy_regex(r"(?=(<[^<>\s]{1,60}>|<\|[^<>|]{1,60}\|>|\[[^\[\]\n]{1,60}\]))")
_CHARACTERS = 50_000  # of bracketed words asked about at once
_REMEMBERED = 50_000  # bracketed words
_TRIED = 80  # control strings tried for a separator, each one call, once for a server
_ALONE = 32  # texts tokenized one by one at most, where there is no separator
# Tried first, because prompts hardly ever hold them: a piece that holds the separator is sent by itself.
_LIKELY = frozenset({"<unk>", "<pad>", "<s>", "</s>", "<|endoftext|>", "<|begin_of_text|>", "<bos>", "<eos>"})
_NONSENSE = "\U000f5e1f\U000f1cf7"  # private use: one token only where everything unknown becomes one


@dataclass(frozen=True, slots=True)
class _Separator:
    """A control token to put between texts that are sent together.

    Attributes:
        leads: what to write before a text so that no space is put before it (SentencePiece), with its ids; none
            where the tokenizer adds no space.
    """

    text: str
    token_id: int
    leads: tuple[tuple[str, list[int]], ...] = ()

    def lead(self, text: str) -> tuple[str, list[int]]:
        """Return the lead that does not merge with the beginning of the text."""
        if not self.leads:
            return "", []
        return self.leads[text[:1].isspace()]

    def split(self, ids: Sequence[int]) -> list[list[int]]:
        """Return the ids between the separators."""
        found: list[list[int]] = [[]]
        for token_id in ids:
            if token_id == self.token_id:
                found.append([])
            else:
                found[-1].append(token_id)
        return found


def id_list(value: object) -> list[int]:
    """Return a list of token ids; an empty one if the value is anything else."""
    return list(value) if isinstance(value, list) and all(type(i) is int and i >= 0 for i in value) else []


def prompt_ids(answer: Mapping[str, Any]) -> list[int]:
    """Return the prompt's ids from an answer (vLLM: of a chat, or with each choice); empty if they are missing."""
    listed = answer.get("choices")
    first = listed[0] if isinstance(listed, list) and listed else None
    inner = id_list(first.get("prompt_token_ids")) if isinstance(first, Mapping) else []
    return id_list(answer.get("prompt_token_ids")) or inner


async def listed_control_strings(endpoint: Endpoint, deadline: Deadline) -> tuple[str, ...]:
    """Return the tokenizer's added tokens; none if the server does not list them. Failure if it cannot be asked."""
    try:
        answer = await endpoint.get(f"{endpoint.root}/tokenizer_info", deadline)
    except Failure as failure:
        if failure.refused or isinstance(failure.error, ResponseError):
            return ()
        raise
    added = answer.get("added_tokens_decoder")
    values = added.values() if isinstance(added, Mapping) else ()
    contents = [v.get("content") if isinstance(v, Mapping) else v for v in values]
    return tuple(v for v in contents if isinstance(v, str))


class _NotSplit(Exception):
    """The separator did not come back as often as it was sent."""


class ServerTokenizer:
    """Tokenizer behind vLLM's ``/tokenize``; use it on one event loop only.

    Args:
        control: control strings that untrusted text must not bring in. What is in brackets (``[…]``, ``<…>``) and
            turns out to be one token is treated as one too.
        named: those of them that the server itself lists.
    """

    def __init__(self, endpoint: Endpoint, model: str, control: Sequence[str], named: Sequence[str] = ()) -> None:
        self._endpoint, self._model = endpoint, model
        self._control, self._named = tuple(control), frozenset(named)
        self._single: dict[str, int | None] = {}
        self._learning, self._learnt = asyncio.Lock(), asyncio.Event()
        self._prefix: list[int] = []
        self._separator: _Separator | None = None

    # --- prompts -----------------------------------------------------------------------------------------------

    async def encode(self, prompt: Prompt, deadline: Deadline) -> list[int]:
        """Encode a prompt as ``Encoder.encode`` encodes a raw one."""
        starts_with_ids = bool(prompt.parts) and prompt.parts[0].token_ids is not None
        ids = await self._ids_of(prompt.parts, deadline, inner=starts_with_ids)
        if not starts_with_ids and ids[: len(self._prefix)] != self._prefix:
            ids = self._prefix + ids
        if not ids:
            raise InputError("An empty prompt cannot be continued.")
        return ids

    async def continuation(self, prompt: Prompt, deadline: Deadline) -> list[int]:
        """Encode text that follows other text."""
        return await self._ids_of(prompt.parts, deadline, inner=True)

    async def _ids_of(self, parts: Sequence[Part], deadline: Deadline, *, inner: bool) -> list[int]:
        """Encode the parts; ``inner`` if they follow other text."""
        await self._learn(deadline)
        runs: list[list[Part]] = [[]]
        given: list[tuple[int, ...]] = []  # ids behind each run but the last
        for part in parts:
            if part.token_ids is None:
                runs[-1].append(part)
            else:
                given.append(part.token_ids)
                runs.append([])
        control = (*self._control, *await self._control_in(parts, deadline))
        pieces = [cut_text(run, control) for run in runs]
        try:
            texts = [p for run in pieces for p in run]
            found = await self._tokenized(texts, inner=inner or not pieces[0], deadline=deadline)
        except _NotSplit:  # as text then, in which control strings are broken by a mark: one piece for each run
            pieces = [[p] if p else [] for p in (as_text(run, control)[0] for run in runs)]
            found = await asyncio.gather(*(self._ids(p, deadline) for run in pieces for p in run))
        left = iter(found)
        ids: list[int] = []
        for run, behind in zip(pieces, [*given, ()]):
            for _ in run:
                ids += next(left)
            ids += behind
        return ids

    async def _control_in(self, parts: Sequence[Part], deadline: Deadline) -> list[str]:
        """List bracketed words, partly in untrusted text, that are or may be control tokens."""
        text = "".join(p.text for p in parts)
        untrusted = [not p.trusted for p in parts for _ in p.text]
        words = {m[1] for m in _BRACKETED.finditer(text) if any(untrusted[m.start(1) : m.end(1)])}
        words = {w for w in words if MARK not in w} - set(self._control)
        known = {w: self._single[w] for w in words if w in self._single}
        new, separator = sorted(words - set(known)), self._separator
        asked = new[:_ALONE] if separator is None else [w for w in new if separator.text not in w]
        try:
            found = dict(zip(asked, await self._single_ids(asked, deadline)))
        except _NotSplit:
            found = {}
        if len(self._single) > _REMEMBERED:
            self._single = {w: i for w, i in self._single.items() if i is not None}
        self._single |= found
        known |= found
        return sorted(w for w in words if w not in known or known[w] is not None)  # never asked about: might be one

    # --- single tokens -----------------------------------------------------------------------------------------

    async def token_ids(self, strings: Sequence[str], deadline: Deadline) -> list[int | None]:
        """Return the id of each string that is one token and not the unknown one; ``None`` for the others."""
        await self._learn(deadline)
        asked = [s for s in dict.fromkeys(strings) if s not in self._single]
        try:
            ids = await self._single_ids(asked, deadline)
        except _NotSplit:
            ids = [i for s in asked for i in await self._single_ids([s], deadline)]
        known = self._single | dict(zip(asked, ids))
        self._single = known
        return [known[s] for s in strings]

    async def _single_ids(self, strings: Sequence[str], deadline: Deadline) -> list[int | None]:
        found: list[int | None] = []
        batch: list[str] = []
        for i, string in enumerate(strings):
            batch.append(string)
            if i + 1 == len(strings) or sum(map(len, batch)) > _CHARACTERS:
                *ids, unknown = await self._tokenized([*batch, _NONSENSE], inner=True, deadline=deadline)
                found += [j[0] if len(j) == 1 and j != unknown else None for j in ids]
                batch = []
        return found

    # --- texts -------------------------------------------------------------------------------------------------

    async def _tokenized(self, texts: Sequence[str], *, inner: bool, deadline: Deadline) -> list[list[int]]:
        """Encode each text by itself, all but the first (and it too if ``inner``) as following other text.

        _NotSplit if they cannot be asked for in a few calls.
        """
        separator = self._separator
        if len(texts) < 2 and not inner:
            return [await self._ids(t, deadline) for t in texts]
        if separator is None:
            if len(texts) > _ALONE + 1:
                raise _NotSplit
            return list(await asyncio.gather(*(self._ids(t, deadline) for t in texts)))
        alone = {i for i, t in enumerate(texts) if separator.text in t}
        together = [i for i in range(len(texts)) if i not in alone]
        starts = not inner and together[:1] == [0]
        joined, others = await asyncio.gather(
            self._joined([texts[i] for i in together], separator, deadline, starts=starts),
            asyncio.gather(
                *(self._behind(texts[i], separator, deadline, starts=not inner and i == 0) for i in sorted(alone))
            ),
        )
        found = dict(zip(together, joined)) | dict(zip(sorted(alone), others))
        return [found[i] for i in range(len(texts))]

    async def _joined(
        self, texts: Sequence[str], separator: _Separator, deadline: Deadline, *, starts: bool = False
    ) -> list[list[int]]:
        """Encode texts without the separator in them in one call; ``starts``: the first begins the prompt."""
        if not texts:
            return []
        leads = [separator.lead(t) for t in texts]
        if starts:
            leads[0] = "", []
        joined = separator.text.join(lead + t for (lead, _), t in zip(leads, texts))
        pieces = separator.split(await self._ids(joined if starts else separator.text + joined, deadline))
        pieces = pieces if starts else pieces[1:]
        if len(pieces) != len(texts):  # it is split off no more, or a text and it made another token
            raise _NotSplit
        merged = [i for i, (p, (_, ids)) in enumerate(zip(pieces, leads)) if p[: len(ids)] != ids]
        if merged:  # a lead has become one token with its text: without it then
            bare = _Separator(separator.text, separator.token_id)
            for i, ids in zip(merged, await self._joined([texts[i] for i in merged], bare, deadline)):
                pieces[i], leads[i] = ids, ("", [])
        return [p[len(ids) :] for p, (_, ids) in zip(pieces, leads)]

    async def _behind(self, text: str, separator: _Separator, deadline: Deadline, *, starts: bool) -> list[int]:
        """Encode a text that holds the separator."""
        if starts:
            return await self._ids(text, deadline)
        lead, ids = separator.lead(text)
        before = [separator.token_id, *ids]
        found = await self._ids(separator.text + lead + text, deadline)
        return found[len(before) :] if found[: len(before)] == before else await self._ids(text, deadline)

    async def _ids(self, text: str, deadline: Deadline, *, special: bool = False) -> list[int]:
        """Call the server once for the ids of a text."""
        if not text and not special:
            return []
        body = {"model": self._model, "prompt": text, "add_special_tokens": special}
        answer = await self._endpoint.post(f"{self._endpoint.root}/tokenize", body, deadline)
        found = answer.get("tokens")
        ids = id_list(found)
        if not isinstance(found, list) or len(ids) != len(found):
            raise ResponseError(f"{self._endpoint.url} answered /tokenize with something that is not a list of ids.")
        return ids

    # --- learning the tokenizer's ways -------------------------------------------------------------------------

    async def _learn(self, deadline: Deadline) -> None:
        """Learn, once, the tokenizer's prefix of a prompt and a token that can separate texts."""
        async with self._learning:
            if self._learnt.is_set():
                return
            bare, full = await asyncio.gather(self._ids("a", deadline), self._ids("a", deadline, special=True))
            self._prefix = leading_ids(full, bare)
            self._separator = await self._found_separator(deadline)
            self._learnt.set()

    async def _found_separator(self, deadline: Deadline) -> _Separator | None:
        known = sorted(self._control, key=lambda s: (s not in self._named, s not in _LIKELY))
        for text in known[:_TRIED]:
            ids = await self._ids(text, deadline)
            if len(ids) == 1 and (found := await self._separates(text, ids[0], deadline)) is not None:
                return found
        return None

    async def _separates(self, text: str, token_id: int, deadline: Deadline) -> _Separator | None:
        """Return the token as a separator; ``None`` if it swallows blanks beside it or is not split off."""
        probes = ("a ", "a", " a", "\n", "\na", "|", "| a")
        bare = _Separator(text, token_id)
        split = bare.split(await self._ids("".join(text + p for p in probes), deadline))[1:]
        if len(split) != len(probes):
            return None
        behind, alone, before, line, line_a, bar, bar_a = split
        if alone in (behind, before):
            return None
        if line + alone == line_a:
            return bare
        # A space is put before every text. Behind a line or a bar there is none, if these stay tokens of their own.
        apart = line_a[: len(line)] == line and bar_a[: len(bar)] == bar
        return _Separator(text, token_id, (("\n", line), ("|", bar))) if apart else bare
