"""Find a model's thoughts in its reply, and the wrapping around its whole answer.

Reasoning models write their thoughts before the answer, in tags of their family. Drafts in them are no answers, and a
number in them is no verdict, so they are taken out before anything is read. Known are the tags of DeepSeek-R1, Qwen,
GLM, Phi and many more (``<think>``), of Mistral, Kimi, Seed, Command, and the channels of gpt-oss, be their control
tokens there or taken out by the server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAMES = r"(?:think|thinking|thoughts?|seed:think|antthinking|reasoning|reflection|scratchpad|analysis|inner_monologue)"
_TAG = re.compile(
    rf"(?P<open><{_NAMES}(?:\s[^<>]*)?>|\[THINK\]|◁think▷|<\|START_THINKING\|>|<\|begin_of_thought\|>|<\|thinking\|>|"
    r"<\|inner_prefix\|>)"
    rf"|(?P<close></{_NAMES}\s*>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<\|end_of_thought\|>|<\|/thinking\|>|"
    r"<\|inner_suffix\|>)",
    re.IGNORECASE,
)
_CHANNEL = re.compile(
    r"(?:<\|start\|>\s*(?:assistant)?\s*)?<\|channel\|>\s*(?P<name>\w+)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
)
_END = re.compile(r"<\|(?:end|return|call)\|>|<\|start\|>|<\|channel\|>")
_BARE_CHANNEL = re.compile(r"(?:analysis|commentary)(?=[A-Z'\"“])")  # the server has taken the control tokens out
_BARE_FINAL = "assistantfinal"
_WRAPPERS = tuple(
    (re.compile(rf"\s*{opening}", re.IGNORECASE), re.compile(closing, re.IGNORECASE | re.MULTILINE))
    for opening, closing in (
        (r"```[\w+\-.]*[ \t]*\r?\n", r"\s*^[ \t]*```|```[ \t]*$"),
        (r"~~~[\w+\-.]*[ \t]*\r?\n", r"\s*^[ \t]*~~~"),
        (r"<answer>", r"</answer>"),
        (r"<response>", r"</response>"),
        (r"<\|START_RESPONSE\|>", r"<\|END_RESPONSE\|>"),
        (r"<\|begin_of_solution\|>", r"<\|end_of_solution\|>"),
        (r"<\|begin_of_box\|>", r"<\|end_of_box\|>"),
    )
)


@dataclass(frozen=True, slots=True)
class Thoughts:
    """The stretches of a text that are thoughts.

    Attributes:
        stretches: (start, end), ascending, not overlapping.
        finished: after the last of them the answer may have begun; not so where one has no end.
    """

    stretches: tuple[tuple[int, int], ...] = ()
    finished: bool = True


def find_thoughts(text: str) -> Thoughts:
    """Find the thoughts in a reply, with the blanks after those that it begins with.

    A block without an end reaches to the end of the text. An end without a beginning (templates that begin the block
    in the prompt) makes all before it thought.
    """
    channels = _channels(text)
    if channels is not None:
        return channels
    found: list[tuple[int, int]] = []
    opened: int | None = None
    for tag in _TAG.finditer(text):
        if tag["open"]:
            opened = tag.start() if opened is None else opened  # models speak of the tag inside of the block
        elif opened is not None:
            found.append((opened, tag.end()))
            opened = None
        else:
            found = [(0, tag.end())]
    if opened is not None:
        found.append((opened, len(text)))
    return Thoughts(_with_blanks(text, found), opened is None)


def find_wrapped(text: str) -> tuple[int, int]:
    """Find the answer in a reply that is wrapped as a whole, in a code fence or in answer tags.

    A wrapping without an end (a reply cut off) counts; one that ends before the reply does is none.
    """
    start, end = 0, len(text)
    for _ in range(4):  # a fence inside of tags, or the reverse
        inner = next((i for i in (_inside(text, start, end, *w) for w in _WRAPPERS) if i is not None), None)
        if inner is None:
            break
        start, end = inner
    return start, end


def _inside(
    text: str, start: int, end: int, opening: re.Pattern[str], closing: re.Pattern[str]
) -> tuple[int, int] | None:
    opened = opening.match(text, start, end)
    if opened is None:
        return None
    closed = closing.search(text, opened.end(), end)
    if closed is None:
        return opened.end(), end
    return None if text[closed.end() : end].strip() else (opened.end(), closed.start())


def _channels(text: str) -> Thoughts | None:
    """Find thoughts in the channels of gpt-oss (all but ``final``); ``None`` if there are no channels."""
    marks = list(_CHANNEL.finditer(text))
    if not marks:
        if _BARE_CHANNEL.match(text) is None:
            return None
        final = text.rfind(_BARE_FINAL)
        if final < 0:
            return Thoughts(((0, len(text)),), False)
        return Thoughts(((0, final + len(_BARE_FINAL)),))
    finals = [m for m in marks if m["name"] == "final"]
    if not finals:
        return Thoughts(((0, len(text)),), False)
    start = finals[-1].end()
    end = _END.search(text, start)
    after = [] if end is None else [(end.start(), len(text))]
    return Thoughts(_with_blanks(text, [(0, start), *after]))


def _with_blanks(text: str, stretches: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Extend the stretches at the beginning of the text by the blanks around them."""
    widened: list[tuple[int, int]] = []
    place = 0
    for start, end in stretches:
        if not text[place:start].strip() and place == (widened[-1][1] if widened else 0):
            start = place
            end += len(text[end:]) - len(text[end:].lstrip())
            place = end
        widened.append((start, end))
    return tuple(widened)
