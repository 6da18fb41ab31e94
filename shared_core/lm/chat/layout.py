"""Convert prompts for models that take text only: to chat messages, or to one text.

A prompt's parts become messages by their roles. Where text goes out, the control strings that untrusted parts have a
share in are broken by an invisible mark (``neutralise``), over however many parts they reach; ``restore`` takes the
marks out of what comes back.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shared_core.lm.base import Part, Prompt, Role
from shared_core.lm.neutralise import COMMON_CONTROL_STRINGS, MARK, mark_places, neutralise_stretches

_LONGEST = 64
"""Control strings of that many characters or more are none: no vocabulary has them."""
_CONTINUE = "\n\nContinue the answer below. Write only what follows it; do not repeat any of it.\n\n"
_PLAIN_ROLES = {"user": "User: ", "assistant": "Assistant: "}
_HALF = re.compile("[\ud800-\udfff]")
_EXAMPLE = re.compile(r"<(\w+)>.*</\1>")


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A prompt in the forms that a text-only model takes.

    Attributes:
        messages: (role, content) of a chat.
        text: the same as one text, for a model that completes.
        changed: control strings were neutralised, so that the reply is to be restored.
        examples: lines of our own instructions that show the form of a reply; where a reply repeats one, it is ours.
        instructs: it holds instructions of ours. A prompt that is all a stranger's may have asked to be repeated.
    """

    messages: tuple[tuple[Role, str], ...]
    text: str
    changed: bool
    examples: tuple[str, ...] = ()
    instructs: bool = True


def control_strings(*more: Iterable[str]) -> tuple[str, ...]:
    """Return the widespread control strings and further ones, except those that cannot be neutralised."""
    known = [*COMMON_CONTROL_STRINGS, *(s for group in more for s in group)]
    return tuple(dict.fromkeys(s for s in known if len(s.strip()) > 1 and MARK not in s and len(s) < _LONGEST))


def split_messages(prompt: Prompt) -> list[tuple[Role, list[Part]]]:
    """Group parts by message: adjacent parts of a role are one; a part without a role belongs to the one before."""
    found: list[tuple[Role, list[Part]]] = []
    for part in prompt.parts:
        role: Role = part.role or (found[-1][0] if found else "user")
        if found and found[-1][0] == role:
            found[-1][1].append(part)
        else:
            found.append((role, [part]))
    return found


def plain_layout(prompt: Prompt) -> Prompt:
    """Write a chat as one text, for base models: ``{system}⏎⏎User: {user}⏎Assistant: {assistant}⏎…Assistant:``.

    If the last message is the assistant's, it is left open. A raw prompt stays as it is.
    """
    if not prompt.is_chat:
        return prompt
    parts: list[Part] = []
    found = split_messages(prompt)
    for i, (role, content) in enumerate(found):
        bare = [Part(p.text, p.trusted, None, p.token_ids) for p in content]
        if role == "system":
            parts += [*bare, Part("\n\n", trusted=True)]
            continue
        last = role == "assistant" and i == len(found) - 1
        parts += [Part(_PLAIN_ROLES[role], trusted=True), *bare, Part("" if last else "\n", trusted=True)]
    if found[-1][0] != "assistant":
        parts.append(Part("Assistant:", trusted=True))
    return Prompt(tuple(parts))


def as_text(parts: Sequence[Part], control: Sequence[str]) -> tuple[str, bool]:
    """Join the parts with untrusted control strings neutralised; also return whether anything had to change.

    Strings that only come about where trusted and untrusted parts meet, be it three or more of them, are broken up
    too. Half characters (lone surrogates), which no encoding has, become U+FFFD.
    """
    stretches = _stretches(parts)
    text = neutralise_stretches(stretches, control)
    return text, text != "".join(t for t, _ in stretches)


def cut_text(parts: Sequence[Part], control: Sequence[str]) -> list[str]:
    """Return the text of the parts unchanged, cut wherever ``as_text`` would insert a mark."""
    stretches = _stretches(parts)
    text = "".join(t for t, _ in stretches)
    places = [0, *mark_places(stretches, control), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(places) if a < b]


def as_messages(
    prompt: Prompt, control: Sequence[str], *, continues: bool
) -> tuple[list[dict[str, str]], dict[str, Any], bool]:
    """Return chat messages, further request fields, and whether control strings were neutralised.

    A prompt that ends with the assistant's words is to be continued: by the server where it can (``continues``), else
    by an instruction in the user's message.
    """
    found = split_messages(prompt)
    fields: dict[str, Any] = {}
    if found and found[-1][0] == "assistant":
        if continues:
            fields = {"continue_final_message": True, "add_generation_prompt": False}
        else:
            found = _asked_to_continue(found)
    written = [(role, *as_text(parts, control)) for role, parts in found]
    return [{"role": r, "content": t} for r, t, _ in written], fields, any(c for _, _, c in written)


def _asked_to_continue(messages: Sequence[tuple[Role, list[Part]]]) -> list[tuple[Role, list[Part]]]:
    """Merge the assistant's open message into the user's, as a request to continue it."""
    *before, (_, opened) = messages
    said: list[Part] = []
    if before and before[-1][0] == "user":
        said = before.pop()[1]
    if any(p.text for p in opened):
        asked = _CONTINUE if said else _CONTINUE.lstrip()
        said = [*said, Part(asked, trusted=True), *opened]
    return [*before, ("user", said)]


def outgoing(prompt: Prompt, control: Sequence[str]) -> Outgoing:
    """Convert a prompt, which must not be empty, to both forms; token ids in it are left out."""
    found, _, changed = as_messages(prompt, control, continues=False)
    text, differs = as_text(plain_layout(prompt).parts, control)
    roles: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant"}
    messages = tuple((roles[m["role"]], m["content"]) for m in found)
    return Outgoing(messages, text, changed or differs, examples(prompt), instructs(prompt))


def examples(prompt: Prompt) -> tuple[str, ...]:
    """Return lines of the trusted parts that show the tags a reply should have."""
    lines = (line.strip() for p in prompt.parts if p.trusted for line in p.text.splitlines())
    return tuple(dict.fromkeys(line for line in lines if _EXAMPLE.search(line)))


def instructs(prompt: Prompt) -> bool:
    """Return whether any of its text is trusted."""
    return any(p.trusted and p.text.strip() for p in prompt.parts)


def without_halves(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded, by U+FFFD."""
    return _HALF.sub("\ufffd", text)


def _stretches(parts: Sequence[Part]) -> list[tuple[str, bool]]:
    return [(without_halves(p.text), p.trusted) for p in parts if p.text]
