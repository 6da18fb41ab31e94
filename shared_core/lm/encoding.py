"""Encode prompts as token ids such that untrusted text never becomes a control token.

A prompt of trusted and untrusted parts is read as one text (so that tokens at the borders of the parts are those the
model was trained on), but control tokens are looked for in the trusted parts only. What lies between two control
tokens is tokenized by a copy of the tokenizer that knows no added tokens at all, and the pieces are joined as ids.
Where untrusted text holds no control string this gives exactly ``tokenizer(text)``.

Chat prompts are rendered by the model's chat template with random placeholders in the place of the contents, so that
the template itself counts as trusted and no content can break out of its message.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby, pairwise
from typing import Any, Literal

from shared_core.errors import InputError, LanguageModelError
from shared_core.lm.base import Part, Prompt, Role
from shared_core.lm.chat.layout import plain_layout, split_messages, without_halves

Place = Literal["first", "after_control", "inner"]
"""Where a stretch of text stands: at the start of the prompt, behind a control token, or behind other text. Some
SentencePiece tokenizers put a space before the first, or the first two."""

_EDGE = "\u2003"  # a space that no template writes: shows whether the template trims contents


@dataclass(frozen=True, slots=True)
class _Match:
    start: int
    end: int
    token_id: int


class Encoder:
    """Encoder of prompts for one tokenizer. Safe from several threads.

    Args:
        tokenizer: of transformers, fast or slow. Its state is not changed.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        added = getattr(tokenizer, "added_tokens_decoder", None) or {}
        self._added: dict[str, tuple[int, Any]] = {}
        for token_id, token in added.items():
            if str(token).strip():  # runs of blanks that some tokenizers add are text, not control
                self._added[str(token)] = (int(token_id), token)
        special = {int(i) for i in getattr(tokenizer, "all_special_ids", ())}
        unknown = getattr(tokenizer, "unk_token_id", None)
        if unknown in {tokenizer.bos_token_id, tokenizer.eos_token_id}:
            unknown = None
        # Ordinary text may well contain unknown characters: the unknown token controls nothing.
        self.control_ids: frozenset[int] = frozenset(special | {i for i, _ in self._added.values()}) - {unknown}
        # "(?!)" matches nothing.
        strings = "|".join(sorted(map(re.escape, self._added), key=len, reverse=True)) or "(?!)"
        self._control, self._anywhere = re.compile(strings), re.compile(f"(?=({strings}))")
        self._plain: dict[Place, Any] = {}

    # --- prompts -----------------------------------------------------------------------------------------------

    def encode(self, prompt: Prompt) -> list[int]:
        """Encode a whole prompt as at least one id.

        A raw prompt starts with what the tokenizer itself puts first (BOS), unless it already does or starts with
        given ids. A chat is rendered with the chat template and an opened assistant message; if its last message is
        the assistant's, that message is continued instead. A model without a template gets
        ``{system}⏎⏎User: {user}⏎Assistant: {assistant}⏎…Assistant:``.

        Raises:
            InputError: the prompt is empty and the tokenizer has no BOS, or a control token cannot be avoided.
            LanguageModelError: the chat template fails or leaves a message out.
        """
        parts = prompt.parts
        own_start = False
        if prompt.is_chat:
            parts, own_start = self._render(prompt)
        ids = self._join(parts, "first")
        starts = own_start or (parts and parts[0].token_ids is not None)
        if not starts and ids[: len(self.prefix_ids)] != self.prefix_ids:
            ids = self.prefix_ids + ids
        if ids:
            return ids
        start = self.tokenizer.bos_token_id if self.tokenizer.bos_token_id is not None else self.tokenizer.eos_token_id
        if start is None:
            raise InputError("An empty prompt cannot be continued: the tokenizer has no BOS token.")
        return [int(start)]

    def encode_continuation(self, prompt: Prompt) -> list[int]:
        """Encode text that follows a prompt: no BOS, no leading space of the tokenizer's own, no template."""
        return self._join(prompt.parts, "inner")

    def token_id(self, token: int | str) -> int:
        """Return the id of a token given as an id or as a string that is exactly one token; InputError otherwise."""
        if isinstance(token, int):
            if not 0 <= token < len(self.tokenizer):
                raise InputError(f"There is no token {token}: the vocabulary has {len(self.tokenizer)} entries.")
            return token
        found = self.single_id(token)
        if found is None:
            raise InputError(
                f"{token!r} is not one token of this tokenizer.",
                hint="Give a string that is a single token (mind a leading space), or a token id.",
            )
        return found

    def single_id(self, string: str) -> int | None:
        """Return the id of a string that is exactly one token in running text; ``None`` otherwise or if unknown."""
        if string in self._added:
            return self._added[string][0]
        try:
            ids = self.plain(string, "inner")
        except InputError:  # a character that is nothing but a control token
            return None
        return ids[0] if len(ids) == 1 and ids[0] != getattr(self.tokenizer, "unk_token_id", None) else None

    def single_ids(self, strings: Iterable[str], size: int) -> list[int | None]:
        """Return ``single_id`` of each string; ``None`` too for ids from ``size`` on, which the model does not have."""
        found = map(self.single_id, strings)
        return [i if i is not None and i < size else None for i in found]

    @cached_property
    def prefix_ids(self) -> list[int]:
        """Ids that the tokenizer itself puts before a text: BOS, or nothing."""
        bare = self.tokenizer.encode("a", add_special_tokens=False)
        full = self.tokenizer.encode("a", add_special_tokens=True)
        return [int(i) for i in leading_ids(full, bare)]

    # --- text --------------------------------------------------------------------------------------------------

    def _join(self, parts: Iterable[Part], place: Place) -> list[int]:
        ids: list[int] = []
        for given, run in groupby(parts, key=lambda part: part.token_ids is not None):
            if given:
                ids += chain.from_iterable(part.token_ids or () for part in run)
                continue
            # No tokenizer takes half a character.
            texts = [replace(part, text=without_halves(part.text)) for part in run if part.text]
            if texts:
                ids += self._encode_text(texts, place if not ids else "inner")
        return ids

    def _encode_text(self, parts: Sequence[Part], place: Place) -> list[int]:
        text = "".join(p.text for p in parts)
        matches = self._trusted_matches(parts)
        if place == "first" and not self._touches_untrusted(parts, text):
            ids = [int(i) for i in self.tokenizer.encode(text, add_special_tokens=False, verbose=False)]
            if [i for i in ids if i in self.control_ids] == [m.token_id for m in matches]:
                return ids
        ids, start = [], 0
        for match in matches:
            ids += self.plain(text[start : match.start], place)
            ids.append(match.token_id)
            start, place = match.end, "after_control"
        return ids + self.plain(text[start:], place)

    def _touches_untrusted(self, parts: Sequence[Part], text: str) -> bool:
        matches = list(self._anywhere.finditer(text))
        if not matches:
            return False
        trusted = [p.trusted for p in parts for _ in p.text]
        return any(not all(trusted[m.start(1) : m.end(1)]) for m in matches)

    def _trusted_matches(self, parts: Sequence[Part]) -> list[_Match]:
        """Find control tokens in runs of trusted parts, with the blanks they swallow (``lstrip``, ``rstrip``)."""
        matches: list[_Match] = []
        offset = 0
        for trusted, group in groupby(parts, key=lambda part: part.trusted):
            run = "".join(part.text for part in group)
            if trusted:
                matches += self._matches(run, offset)
            offset += len(run)
        return matches

    def _matches(self, run: str, offset: int) -> list[_Match]:
        found: list[_Match] = []
        for m in self._control.finditer(run):
            token_id, token = self._added[m[0]]
            start, end = m.span()
            if getattr(token, "single_word", False) and (
                re.match(r"\w", run[start - 1 : start]) or re.match(r"\w", run[end : end + 1])
            ):
                continue
            if getattr(token, "lstrip", False):
                start = len(run[:start].rstrip())
            if getattr(token, "rstrip", False):
                end = len(run) - len(run[end:].lstrip())
            if found and start + offset < found[-1].end:
                start = found[-1].end - offset
            found.append(_Match(start + offset, end + offset, token_id))
        return found

    def plain(self, text: str, place: Place = "inner") -> list[int]:
        """Encode a text in which nothing is a control token, whatever it says.

        InputError if a single character of it is a control token of this tokenizer.
        """
        ids: list[int] = []
        rest = [text] if text else []  # what is still to be read, the next piece last
        while rest:
            piece = rest.pop()
            found, spans = self._tokenize(piece, place)
            # A vocabulary may spell a control token in ordinary pieces too (Unigram): cut inside each such span.
            control = [spans[i] for i, token_id in enumerate(found) if token_id in self.control_ids]
            if control:
                single = [piece[start:end] for start, end in control if end - start < 2]
                if single:
                    raise InputError(
                        f"The character {single[0]!r} is a control token of this tokenizer and nothing else.",
                        hint="Remove the character from the documents or the question.",
                    )
                cuts = [0, *(start + 1 for start, _ in control), len(piece)]
                rest += reversed([piece[a:b] for a, b in pairwise(cuts)])
                continue
            ids += found
            place = "inner"
        return ids

    def _tokenize(self, text: str, place: Place) -> tuple[list[int], list[tuple[int, int]]]:
        if getattr(self.tokenizer, "backend_tokenizer", None) is not None:
            encoding = self._plain_tokenizer(place).encode(text, add_special_tokens=False)
            return encoding.ids, encoding.offsets
        ids = [
            int(i)
            for i in self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True, verbose=False)
        ]
        spans, at = [], 0
        for token_id in ids:  # exact for control tokens, which is all that the spans are used for
            string = str(self.tokenizer.convert_ids_to_tokens(token_id))
            found = text.find(string, at) if token_id in self.control_ids else -1
            spans.append((found, found + len(string)) if found >= 0 else (at, at))
            at = max(at, spans[-1][1])
        return ids, spans

    def _plain_tokenizer(self, place: Place) -> Any:
        """Copy the tokenizer without added tokens, and without the leading space where none is due."""
        if place not in self._plain:
            from tokenizers import Tokenizer

            spec = json.loads(self.tokenizer.backend_tokenizer.to_str())
            spec |= {"added_tokens": [], "post_processor": None, "truncation": None, "padding": None}
            if place != "first":
                spec["pre_tokenizer"] = _without_leading_space(spec["pre_tokenizer"], inner=place == "inner")
            if place == "inner":
                spec["normalizer"] = _without_prepend(spec["normalizer"])
            self._plain[place] = Tokenizer.from_str(json.dumps(spec))
        return self._plain[place]

    # --- chats -------------------------------------------------------------------------------------------------

    def _render(self, prompt: Prompt) -> tuple[tuple[Part, ...], bool]:
        """Render the chat to parts; also return whether a template (which writes its own BOS) was used."""
        if not getattr(self.tokenizer, "chat_template", None):
            return plain_layout(prompt).parts, False
        messages = split_messages(prompt)
        try:
            return self._render_template(messages), True
        except LanguageModelError:
            # Some templates know no system role: its text then opens the first message of the user.
            if messages[0][0] == "system" and len(messages) > 1:
                head, second = messages[0][1], messages[1]
                merged = [*head, Part("\n\n", trusted=True), *second[1]]
                return self._render_template([(second[0], merged), *messages[2:]]), True
            raise

    def _render_template(self, messages: list[tuple[Role, list[Part]]]) -> tuple[Part, ...]:
        marks = [f"X{secrets.token_hex(16)}X" for _ in messages]
        contents = [{"role": r, "content": f"{_EDGE}{m}{_EDGE}"} for (r, _), m in zip(messages, marks)]
        continued = messages[-1][0] == "assistant"
        try:
            text = str(
                self.tokenizer.apply_chat_template(contents, tokenize=False, add_generation_prompt=not continued)
            )
        except Exception as error:
            roles = ", ".join(r for r, _ in messages)
            raise LanguageModelError(
                f"The chat template refuses messages of the roles {roles}: {error}",
                hint="Many templates want user and assistant to alternate, beginning with the user.",
            ) from error
        if continued:
            text = text[: text.rindex(marks[-1]) + len(marks[-1])] if marks[-1] in text else text
        parts: list[Part] = []
        pattern = re.compile(f"({_EDGE}?)({'|'.join(marks)})({_EDGE}?)")
        start = 0
        for m in pattern.finditer(text):
            content = messages[marks.index(m[2])][1]
            last = continued and m[2] == marks[-1]  # its end was cut off above, not trimmed
            parts.append(Part(text[start : m.start()], trusted=True))
            parts += _trimmed(content, left=not m[1], right=not m[3] and not last)
            start = m.end()
        parts.append(Part(text[start:], trusted=True))
        left_out = [r for (r, _), m in zip(messages, marks) if m not in text]
        if left_out:
            raise LanguageModelError(f"The chat template leaves out a message of the {left_out[0]}.")
        return tuple(parts)


def leading_ids(full: list[int], bare: list[int]) -> list[int]:
    """Return the ids of ``full`` before those of ``bare``; none if these do not occur in it."""
    starts = (s for s in range(len(full) - len(bare) + 1) if full[s : s + len(bare)] == bare)
    return full[: next(starts, 0)]


def plain_text(prompt: Prompt) -> str:
    """Return the text that a model without a chat template is sent, BOS aside (see ``Encoder.encode``)."""
    return "".join(p.text for p in plain_layout(prompt).parts)


def _trimmed(parts: Sequence[Part], *, left: bool, right: bool) -> list[Part]:
    """Strip blanks at both ends of the parts, as the template would have trimmed the content."""
    trimmed = list(parts)
    if left and trimmed and trimmed[0].token_ids is None:
        trimmed[0] = Part(trimmed[0].text.lstrip(), trimmed[0].trusted)
    if right and trimmed and trimmed[-1].token_ids is None:
        trimmed[-1] = Part(trimmed[-1].text.rstrip(), trimmed[-1].trusted)
    return trimmed


def _without_leading_space(spec: Any, *, inner: bool) -> Any:
    if not isinstance(spec, dict):
        return spec
    spec = dict(spec)
    if "pretokenizers" in spec:
        spec["pretokenizers"] = [_without_leading_space(s, inner=inner) for s in spec["pretokenizers"]]
    if spec.get("type") == "Metaspace" and (inner or spec.get("prepend_scheme") == "first"):
        spec["prepend_scheme"] = "never"
    if spec.get("type") == "ByteLevel" and inner:
        spec["add_prefix_space"] = False
    return spec


def _without_prepend(spec: Any) -> Any:
    if not isinstance(spec, dict):
        return spec
    if spec.get("type") == "Prepend":
        return None
    if "normalizers" in spec:
        kept = [s for s in map(_without_prepend, spec["normalizers"]) if s is not None]
        return {**spec, "normalizers": kept}
    return spec
