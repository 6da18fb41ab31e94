"""Find what of a reply is no answer: the repeated prompt, the model's thoughts, the wrapping around the whole.

Base models behind some clients (``HuggingFacePipeline``, MockLLM) give the prompt back in front of their own words; our
instructions hold an example of the form a reply should have. The comparison passes over blanks, which decoding changes,
and over marks of neutralisation.

Reasoning models write their thoughts before the answer, in tags of their family. Drafts in them are no answers, and a
number in them is no verdict, so they are taken out before anything is read. Known are the tags of DeepSeek-R1, Qwen,
GLM, Phi and many more (``<think>``), of Mistral, Kimi, Seed, Command, and the channels of gpt-oss, be their control
tokens there or taken out by the server.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from shared_core.lm.chat.layout import MARK
from shared_core.support.regex import lazy_regex

_NAMES = r"(?:think|thinking|thoughts?|seed:think|antthinking|reasoning|reflection|scratchpad|analysis|inner_monologue)"
_TAG = lazy_regex(
    rf"(?P<open><{_NAMES}(?:\s[^<>]*)?>|\[THINK\]|◁think▷|<\|START_THINKING\|>|<\|begin_of_thought\|>|<\|thinking\|>|"
    r"<\|inner_prefix\|>)"
    rf"|(?P<close></{_NAMES}\s*>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<\|end_of_thought\|>|<\|/thinking\|>|"
    r"<\|inner_suffix\|>)",
    re.IGNORECASE,
)
_QUOTED_TAG = lazy_regex(r"`[^`\n]{0,80}[>\]▷][^`\n]{0,80}`")
_CHANNEL = lazy_regex(
    r"(?:<\|start\|>\s*(?:assistant)?\s*)?<\|channel\|>\s*(?P<name>\w+)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
)
_END = lazy_regex(r"<\|(?:end|return|call)\|>|<\|start\|>|<\|channel\|>")
_BARE_CHANNEL = lazy_regex(r"(?:analysis|commentary)(?=[A-Z'\"“])")  # the server has taken the control tokens out
_BARE_FINAL = "assistantfinal"
_WRAPPERS = tuple(
    (lazy_regex(rf"\s*{opening}", re.IGNORECASE), lazy_regex(closing, re.IGNORECASE | re.MULTILINE))
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


def without_thoughts(text: str) -> str:
    """Return what a reply says beside its thoughts. A tag in backticks is spoken of, and begins none.

    >>> without_thoughts("<think>Was it 1911?</think>\\nIt was lit in 1871.")
    'It was lit in 1871.'
    """
    plain = _QUOTED_TAG.sub(lambda quoted: " " * len(quoted[0]), text)
    edges = [0, *(edge for stretch in find_thoughts(plain).stretches for edge in stretch), len(text)]
    return "".join(text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True))


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


_BLANKS = lazy_regex(rf"[\s{MARK}]+")
_SHORTEST = 12
"""Characters without blanks. A shorter prompt may well be how the answer begins."""
_SHORTEST_PART = 24
"""Characters of a reply that is nothing but the beginning of the prompt."""
_LONG = 60
"""From so many characters on, what was sent is known again behind a preamble that a template put before it."""
_PREAMBLE = 300
# What templates write around messages, as text or as control tokens.
_ROLE = lazy_regex(
    r"<\|[^<>|]{1,40}\|>|</?s>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>|<bos>|<｜[^<>｜]{1,40}｜>|#{2,4}(?=\w)|"
    r"(?:human|user|system|assistant|ai|model|bot|chatbot|instruction|response|developer|prompt|output):?",
    re.IGNORECASE,
)
_HEADS = lazy_regex(f"(?:{_ROLE.pattern})+", re.IGNORECASE)
_OPENS = lazy_regex(
    r"\s*(?:(?:<\|[^<>|]{1,40}\|>|\[/INST\]|</?s>|<(?:start|end)_of_turn>|<｜[^<>｜]{1,40}｜>|#{2,4}(?=\s*\w)|"
    r"(?:assistant|ai|model|bot|chatbot|response)\s*(?::|(?=\r?\n|<\|)))\s*)+",
    re.IGNORECASE,
)


def find_own_words(reply: str, messages: Sequence[str], text: str) -> int:
    """Return the offset at which a model's own words begin: after what it repeats, 0 if it repeats nothing.

    Args:
        messages: contents of the messages that were sent, in order.
        text: the same as one text, as a model that completes was sent it.
    """
    said = _BLANKS.sub("", reply)
    if len(said) < _SHORTEST:
        return 0
    whole = _BLANKS.sub("", text)
    if len(whole) >= _SHORTEST and said.startswith(whole):
        end = len(whole)
    elif len(said) >= _SHORTEST_PART and whole.startswith(said):  # cut off within the prompt
        return len(reply)
    elif (start := whole.rfind(said[:_LONG])) >= 0 and len(whole) - start >= _LONG and said.startswith(whole[start:]):
        end = len(whole) - start  # the end of the prompt alone, as of clients that cut long prompts at their beginning
    else:
        end = _end_of_messages(said, [_BLANKS.sub("", m) for m in messages])
    if end == 0:
        return 0
    place = _place_of(reply, end)
    opening = _OPENS.match(reply, place)
    return opening.end() if opening is not None else place


def find_examples(reply: str, examples: Sequence[str]) -> list[tuple[int, int]]:
    """Find lines of our instructions (the form of a reply) that the reply repeats: (start, end), ascending."""
    found: list[tuple[int, int]] = []
    for example in examples:
        words = example.split()
        if not words or words[0][:8] not in reply:
            continue
        found += [m.span() for m in re.finditer(r"\s*".join(map(re.escape, words)), reply)]
    apart: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if not apart or start >= apart[-1][1]:
            apart.append((start, end))
    return apart


def _end_of_messages(said: str, messages: Sequence[str]) -> int:
    """Return the end of the last message in the reply, both without blanks; 0 if not only a template precedes."""
    *others, last = messages or ("",)
    if len(last) < _SHORTEST:
        return 0
    heads = _HEADS.match(said)
    rest = said[heads.end() if heads else 0 :]
    if len(rest) >= _SHORTEST_PART and last.startswith(rest):  # cut off within the message
        return len(said)
    start = said.find(last)
    if start < 0:
        return 0
    before = said[:start]
    for other in others:
        before = before.replace(other, "", 1) if other else before
    foreign = _ROLE.sub("", before)
    if foreign and not (len(last) >= _LONG and len(foreign) <= _PREAMBLE):
        return 0
    return start + len(last)


def _place_of(text: str, count: int) -> int:
    """Return the offset after the first ``count`` characters that are not blanks."""
    place = 0
    for blank in _BLANKS.finditer(text):
        run = blank.start() - place
        if run >= count:
            break
        count -= run
        place = blank.end()
    return place + count
