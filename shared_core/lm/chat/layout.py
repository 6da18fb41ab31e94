"""Convert prompts for models that take text only: to chat messages, or to one text.

A prompt's parts become messages by their roles. Where a prompt is sent as token ids, untrusted text is split at id
level (``encoding.py``). A chat API takes text, tokenizes it itself, and may read ``<|im_start|>`` in a document as the
start of a message. So control strings that untrusted parts have a share in are neutralised reversibly, over however
many parts they reach: one invisible character (U+2060, WORD JOINER) is put behind their first character. A person or a
model reads the text as before, and ``restore`` takes the marks out of what comes back.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from operator import itemgetter
from typing import Any

from shared_core.errors import InputError
from shared_core.lm.base import Part, Prompt, Role
from shared_core.support.regex import lazy_regex

MARK = "\u2060"
"""What is inserted. SentencePiece's usual normalisation and NFKC keep it; chat templates do not strip it."""

Stretch = tuple[str, bool]
"""A text that is not empty, and whether it is trusted: written by us, so that its control strings are meant."""

_LINES = resources.files("shared_core.lm.chat").joinpath("control_strings.txt").read_text("utf-8").splitlines()
COMMON_CONTROL_STRINGS: tuple[str, ...] = tuple(line for line in _LINES if not line.startswith("#"))
"""Control tokens of widespread chat models; a server's tokenizer is unknown, so all of them are meant."""


def neutralise_stretches(stretches: Sequence[Stretch], control_strings: Iterable[str]) -> str:
    """Join stretches, breaking control strings that lie at least partly in untrusted ones; ``restore`` undoes it.

    What a run of trusted stretches says by itself stays. Every other occurrence, over however many stretches it
    reaches, overlapping ones and those in another case or a compatibility form (full-width brackets that a normalising
    tokenizer would fold) included, is broken by a mark (``mark_places``). Marks that were there before are doubled.
    Reading is by code points; nothing else changes.

    Raises:
        InputError: a control string is shorter than two characters or contains the mark, so that no mark could
            break it.
    """
    text = "".join(t for t, _ in stretches)
    places = mark_places(stretches, control_strings)
    if not places and MARK not in text:
        return text
    pieces: list[str] = []
    start = 0
    # A mark that stands where we would insert one joins ours in one run: odd lengths mean "one of them is ours".
    for place in places:
        pieces += [text[start:place].replace(MARK, MARK * 2), MARK]
        start = place
    pieces.append(text[start:].replace(MARK, MARK * 2))
    return "".join(pieces)


def mark_places(stretches: Sequence[Stretch], control_strings: Iterable[str]) -> list[int]:
    """Return where marks go, as ascending offsets into the joined stretches. Raises as above.

    An occurrence that begins in untrusted text is broken behind its first character. One that begins in trusted text
    and reaches beyond it is broken where that run of trusted text ends, which is never inside of an occurrence that
    the run holds as a whole: what is trusted is not broken.
    """
    pattern = _pattern(tuple(dict.fromkeys(control_strings)))
    if pattern is None or all(trusted for _, trusted in stretches):
        return []
    ends: list[int] = []  # of runs of equal trust
    trust: list[bool] = []
    for trusted, run in itertools.groupby(stretches, key=itemgetter(1)):
        ends.append((ends[-1] if ends else 0) + sum(len(text) for text, _ in run))
        trust.append(trusted)
    places: set[int] = set()
    for start, end in _occurrences("".join(t for t, _ in stretches), pattern):
        i = bisect_right(ends, start)
        if not trust[i]:
            places.add(start + 1)
        elif end > ends[i]:
            places.add(ends[i])
    return sorted(places)


def restore(text: str) -> str:
    """Undo ``neutralise_stretches``: give back the text of all stretches, whatever they hold."""
    return _RUN.sub(lambda run: MARK * (len(run[0]) // 2), text)


_RUN = lazy_regex(f"{MARK}+")


@lru_cache(maxsize=64)
def _pattern(control_strings: tuple[str, ...]) -> re.Pattern[str] | None:
    for string in control_strings:
        if len(string) < 2 or MARK in string:
            raise InputError(
                f"The control string {string!r} cannot be neutralised.",
                hint="Control strings need at least two characters and no U+2060.",
            )
    if not control_strings:
        return None
    folded = sorted({"".join(_fold_character(c) for c in s) for s in control_strings}, key=len, reverse=True)
    first = "".join(sorted({re.escape(s[0]) for s in folded}))  # rules out nearly every place at once
    # A lookahead, so that overlapping occurrences are all found.
    return re.compile(f"(?=[{first}])(?=({'|'.join(map(re.escape, folded))}))")


def _occurrences(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Find start and end of the longest control string at each place of the text that has one."""
    if text.isascii():
        for m in pattern.finditer(text.lower()):
            yield m.span(1)
        return
    folded = [_fold_character(c) for c in text]
    origin = [i for i, f in enumerate(folded) for _ in f]  # folded offset -> offset of the character it came from
    for m in pattern.finditer("".join(folded)):
        start, end = m.span(1)
        yield origin[start], origin[end - 1] + 1


@lru_cache(maxsize=4096)
def _fold_character(character: str) -> str:
    return unicodedata.normalize("NFKC", character).lower()


_LONGEST = 64
"""Control strings of that many characters or more are none: no vocabulary has them."""
_CONTINUE = "\n\nContinue the answer below. Write only what follows it; do not repeat any of it.\n\n"
_PLAIN_ROLES = {"user": "User: ", "assistant": "Assistant: "}
_HALF = lazy_regex("[\ud800-\udfff]")
_EXAMPLE = lazy_regex(r"<(\w+)>.*</\1>")


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
) -> tuple[tuple[tuple[Role, str], ...], dict[str, Any], bool]:
    """Return chat messages (role, content), further request fields, and whether control strings were neutralised.

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
    return tuple((role, text) for role, text, _ in written), fields, any(changed for *_, changed in written)


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
    messages, _, changed = as_messages(prompt, control, continues=False)
    text, differs = as_text(plain_layout(prompt).parts, control)
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


def _stretches(parts: Sequence[Part]) -> list[Stretch]:
    return [(without_halves(p.text), p.trusted) for p in parts if p.text]
